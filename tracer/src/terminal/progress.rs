//! What takes long, on a terminal.

use std::io::IsTerminal;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
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
        let (alive, work) = channel::<()>();
        let doing = super::clean(doing);
        let is_under_way = move |wait| matches!(work.recv_timeout(wait), Err(RecvTimeoutError::Timeout));
        let draw = move || {
            if is_under_way(PATIENCE) {
                let bar = ProgressBar::new_spinner().with_style(style()).with_message(doing);
                bar.set_elapsed(PATIENCE);
                while is_under_way(FRAME) {
                    bar.tick();
                }
                bar.finish_and_clear();
            }
        };
        Progress(Some((alive, std::thread::spawn(draw))))
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
