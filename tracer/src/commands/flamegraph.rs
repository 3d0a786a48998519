//! `memtrace flamegraph`: an SVG of stacks by their bytes.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use inferno::flamegraph::{self, Options};
use memtrace_analysis::report::flame::{At, Flame, flame};
use memtrace_trace::Trace;
use schemars::JsonSchema;
use serde::Serialize;

use super::usage::Usage;
use super::{json, output};
use crate::terminal::{Progress, clean, say};
use crate::units::{Bytes, grouped};

/// A flame graph of a trace.
#[derive(Args)]
pub struct Flamegraph {
    /// Trace directory
    #[arg(required_unless_present = "at")]
    trace: Option<PathBuf>,
    /// The SVG to write; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "peak.svg")]
    output: PathBuf,
    /// peak: live bytes at their peak; device-peak: used bytes of devices at theirs; span NAME:
    /// what the largest span of that operator had allocated at its working peak; end: live bytes when
    /// the program ended, before it tidied up; exit: heap bytes never released; temporary: number of heap blocks released within 10 µs
    #[arg(long, num_args = 1..=2, value_names = ["TIME", "NAME"], default_values = ["peak"])]
    at: Vec<String>,
    /// What the widths are
    #[arg(long, value_enum, default_value = "live")]
    by: By,
    /// Print what is drawn as JSON
    #[arg(long)]
    json: bool,
}

/// What `flamegraph --json` prints.
#[derive(Serialize, JsonSchema)]
pub struct Drawn {
    /// The SVG.
    output: String,
    /// What the widths are.
    what: String,
    /// `bytes` or `blocks`.
    unit: String,
    /// Their sum.
    total: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum By {
    Live,
    Resident,
}

/// Draws it.
pub fn run(arguments: &Flamegraph) -> Result<ExitCode> {
    output::check(&arguments.output, arguments.json)?;
    is_svg(&arguments.output)?;
    let mut words: Vec<&str> = arguments.at.iter().map(String::as_str).collect();
    // Of `--at exit TRACE`, which no NAME follows, the option has taken both.
    let took_trace = arguments.trace.is_none() && words.len() > 1 && words[0] != "span";
    let taken = words.pop_if(|_| took_trace).map(PathBuf::from);
    let path = arguments.trace.clone().or(taken);
    let at = match words.as_slice() {
        ["peak"] => At::Peak,
        ["device-peak"] => At::DevicePeak,
        ["end"] => At::End,
        ["exit"] => At::Exit,
        ["temporary"] => At::Temporary,
        ["span", name] => At::Span(name.to_string()),
        _ => {
            return Err(Usage(
                "write --at peak, --at device-peak, --at span NAME, --at end, --at exit or --at temporary"
                    .into(),
            )
            .into());
        }
    };
    let trace = Trace::open(path.ok_or_else(|| Usage("name <TRACE> (memtrace flamegraph --help)".into()))?)?;
    if arguments.by == By::Resident {
        anyhow::bail!(
            "the trace does not say which blocks were resident: only mappings are sampled, and --by live counts \
             of them what was touched"
        );
    }
    let progress = Progress::start("drawing");
    let flame = flame(&trace, &at)?;
    if flame.stacks.is_empty() {
        anyhow::bail!("there is nothing to draw: no {}", flame.what);
    }
    let mut svg = Vec::new();
    draw(&flame, &trace.meta().command.join(" "), &mut svg)?;
    drop(progress);
    let path = &arguments.output;
    output::write(path, &svg)?;
    if arguments.json {
        let (output, unit) = (path.display().to_string(), flame.unit.to_owned());
        json::print(&Drawn { output, what: flame.what, unit, total: flame.total })?;
    } else if !output::is_standard(path) {
        say(&format!("{} shows {} {}", path.display(), total(&flame), flame.what));
    }
    Ok(ExitCode::SUCCESS)
}

/// A viewer of pictures would be handed text.
fn is_svg(path: &Path) -> Result<()> {
    match path.extension() {
        Some(name) if !name.eq_ignore_ascii_case("svg") => {
            Err(Usage(format!("a flame graph is an SVG; name it {}", path.with_extension("svg").display()))
                .into())
        }
        _ => Ok(()),
    }
}

fn total(flame: &Flame) -> String {
    match flame.unit {
        "bytes" => format!("{} ({} bytes):", Bytes(flame.total), grouped(flame.total)),
        _ => grouped(flame.total).to_string(),
    }
}

fn draw(flame: &Flame, command: &str, svg: &mut Vec<u8>) -> Result<()> {
    let mut options = Options::default();
    options.title = clean(command).chars().take(120).collect();
    options.subtitle = Some(format!("{} {}", total(flame), clean(&flame.what)));
    options.count_name = flame.unit.into();
    options.deterministic = true;
    let lines: Vec<String> = flame
        .stacks
        .iter()
        .map(|(names, width)| {
            // A line is FRAME;FRAME;... WIDTH.
            let names: Vec<String> = names.iter().map(|name| clean(name).replace(';', ",")).collect();
            format!("{} {width}", without_number(names.join(";")))
        })
        .collect();
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), svg)
        .map_err(|error| anyhow::anyhow!("cannot draw it: {error}"))
}

/// Two numbers at the end of a line would mean the difference of two widths.
fn without_number(stack: String) -> String {
    match stack.rsplit_once(' ') {
        Some((start, number)) if number.parse::<f64>().is_ok() => format!("{start}\u{a0}{number}"),
        _ => stack,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn svg(stacks: Vec<(Vec<String>, u64)>, command: &str) -> String {
        let total = stacks.iter().map(|(_, width)| width).sum();
        let flame = Flame { what: "live bytes".into(), unit: "bytes", total, stacks };
        let mut svg = Vec::new();
        draw(&flame, command, &mut svg).unwrap();
        String::from_utf8(svg).unwrap()
    }

    #[test]
    fn a_name_cannot_get_into_the_page() {
        let evil = "<script>alert(1)</script>\"'&;]]>\u{1b}\u{0}".to_string();
        let page = svg(vec![(vec!["main".into(), evil.clone()], 7)], &evil);
        assert!(!page.contains("<script>alert"), "{page}");
        assert!(!page.contains('\u{1b}') && !page.contains('\u{0}'));
        assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{page}");
    }

    #[test]
    fn names_with_spaces_and_numbers_stay_whole() {
        let page = svg(vec![(vec!["operator new(unsigned long) 12".into(), "f; 3".into()], 5)], "a");
        assert!(page.contains("operator new(unsigned long) 12 (5 bytes"), "{page}");
        assert!(page.contains("f,\u{a0}3 (5 bytes"), "{page}");
    }
}
