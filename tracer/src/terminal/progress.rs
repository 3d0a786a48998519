//! What takes long, on a terminal.

use std::io::IsTerminal;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::is_quiet;

/// What is done sooner is not mentioned.
const PATIENCE: Duration = Duration::from_secs(1);
const FRAME: Duration = Duration::from_millis(100);

/// Until it is dropped, a line on stderr says what memtrace does and for how long; nothing without
/// a terminal and with `--quiet`.
pub struct Progress(Option<(Sender<()>, JoinHandle<()>)>);

impl Progress {
    /// Begins work that `doing` names.
    pub fn start(doing: &str) -> Progress {
        if is_quiet() || !std::io::stderr().is_terminal() {
            return Progress(None);
        }
        let (alive, work) = channel();
        let bar = ProgressBar::new_spinner().with_style(style()).with_message(super::clean(doing));
        // Without a thread (there may be no more of them) nothing is drawn.
        let drawing = std::thread::Builder::new().spawn(move || draw(&bar, PATIENCE, &work));
        Progress(drawing.ok().map(|drawing| (alive, drawing)))
    }
}

/// Draws the bar from `patience` on, as long as `work` is under way.
fn draw(bar: &ProgressBar, patience: Duration, work: &Receiver<()>) {
    let is_under_way = |wait| matches!(work.recv_timeout(wait), Err(RecvTimeoutError::Timeout));
    if is_under_way(patience) {
        bar.tick();
        while is_under_way(FRAME) {
            bar.tick();
        }
        bar.finish_and_clear();
    }
}

fn style() -> ProgressStyle {
    let known = ProgressStyle::with_template("{spinner:.cyan} {msg} {elapsed:.dim}");
    known.unwrap_or_else(|_| ProgressStyle::default_spinner())
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((alive, drawing)) = self.0.take() {
            drop(alive);
            let _ = drawing.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use indicatif::{InMemoryTerm, ProgressDrawTarget};

    use super::*;

    /// What is on the terminal while work is under way, and when it is done.
    fn drawn(patience: Duration) -> (String, String) {
        let terminal = InMemoryTerm::new(5, 80);
        let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
        let bar =
            ProgressBar::with_draw_target(None, target).with_style(style()).with_message("fitting laws");
        let (alive, work) = channel();
        let drawing = std::thread::spawn(move || draw(&bar, patience, &work));
        let mut during = String::new();
        while patience.is_zero() && during.is_empty() {
            during = terminal.contents();
        }
        drop(alive);
        drawing.join().unwrap();
        (during, terminal.contents())
    }

    #[test]
    fn long_work_has_a_line_until_it_is_done() {
        let (during, after) = drawn(Duration::ZERO);
        assert!(during.contains("fitting laws 0s"), "{during:?}");
        assert_eq!(after, "");
    }

    #[test]
    fn short_work_has_no_line() {
        assert_eq!(drawn(Duration::from_secs(1000)), (String::new(), String::new()));
    }
}
