//! What memtrace writes to the terminal: results to stdout, sentences of its own to stderr.

mod progress;

use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use anstream::{AutoStream, ColorChoice};
use anstyle::Style;
use anyhow::{Context, Result};

pub use self::progress::Progress;

static QUIET: AtomicBool = AtomicBool::new(false);

/// `--quiet`: no summary and no progress from now on.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// True with `--quiet`.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// One sentence of memtrace's own.
pub fn say(sentence: &str) {
    to_stderr(&format!("{} {}\n", styled("memtrace:", Style::new().bold()), clean(sentence)));
}

/// The text in a style, where stderr shows styles: on a terminal, and without NO_COLOR.
fn styled(text: &str, style: Style) -> String {
    match AutoStream::choice(&std::io::stderr()) {
        ColorChoice::Never => text.to_owned(),
        _ => format!("{style}{text}{style:#}"),
    }
}

/// Writes to stderr. A failure (a terminal that was closed, a full device) changes nothing else.
pub fn to_stderr(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Prints a result to stdout, each line [`clean`]ed.
pub fn print(text: &str) -> Result<()> {
    let text: String = text.lines().map(|line| clean(line) + "\n").collect();
    write(text.as_bytes())
}

/// Prints a document that programs read: names are as they are, without control characters.
pub fn print_document(text: &str) -> Result<()> {
    let text: String = text.lines().map(|line| without_controls(line) + "\n").collect();
    write(text.as_bytes())
}

/// Writes to stdout; a reader that stopped reading (`| head`) is no error.
pub fn write(bytes: &[u8]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to standard output"),
    }
}

/// Columns of the terminal that a stream is shown on, as `COLUMNS` has it where it is none; 80 to
/// 100.
pub fn columns_of(stream: &impl std::os::fd::AsFd) -> usize {
    let of_terminal = rustix::termios::tcgetwinsize(stream).ok().map(|size| usize::from(size.ws_col));
    let requested = || std::env::var("COLUMNS").ok()?.trim().parse().ok();
    of_terminal.filter(|columns| *columns > 0).or_else(requested).unwrap_or(100).clamp(80, 100)
}

/// Text from a trace or a model, in one line and without control characters that a terminal would
/// obey. Characters that turn the direction of what follows, or end a line, are named: `⟨U+202E⟩`.
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                out.push_str(&format!("⟨U+{:04X}⟩", u32::from(character)));
            }
            other => out.push(other),
        }
    }
    without_controls(&out)
}

/// Text without what a terminal would obey; JSON has names as they are.
pub fn without_controls(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_cannot_drive_the_terminal() {
        assert_eq!(clean("a\u{1b}[31mb\r\n"), "a [31mb  ");
        assert_eq!(clean("a\u{202e}b\u{2066}é"), "a⟨U+202E⟩b⟨U+2066⟩é");
    }
}
