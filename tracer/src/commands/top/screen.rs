//! The live view on a terminal: it is drawn anew when figures come, until the user leaves or the
//! recording ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use anyhow::{Context, Result};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::browsing::{Browsing, Outcome};
use super::history::History;
use super::recording::{Ended, Watched};
use super::view::{self, ViewStyle};
use crate::live_protocol::Figures;
use crate::signals;

/// The longest time until a signal or new figures are noticed.
const POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

static STOP: AtomicBool = AtomicBool::new(false);

type Received = Result<Option<Figures>>;

/// Draws until the recording ends, and returns how, or the user leaves.
///
/// # Errors
/// The terminal cannot be used, or the recording was cut short.
pub fn show(mut recording: Box<dyn Watched>) -> Result<Option<Ended>> {
    stop_on_signals();
    let style = ViewStyle { color: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) };
    let (sender, figures) = channel();
    let read = move || loop {
        let next = recording.next();
        let over = !matches!(next, Ok(Some(_)));
        if sender.send(next).is_err() || over {
            return recording;
        }
    };
    let reader = std::thread::Builder::new().spawn(read).context("cannot start a thread")?;
    let mut terminal = ratatui::try_init().context("cannot draw on this terminal")?;
    let result = watch(&mut terminal, &figures, style);
    let restored = ratatui::try_restore().context("cannot restore the terminal");
    let over = result?;
    restored?;
    if !over {
        // The reader waits for figures; it ends with the process.
        return Ok(None);
    }
    let recording = reader.join().map_err(|_| anyhow::anyhow!("the connection broke"))?;
    recording.ending().map(Some)
}

/// True when the recording is over, false when the user has left.
fn watch(terminal: &mut DefaultTerminal, received: &Receiver<Received>, style: ViewStyle) -> Result<bool> {
    let mut figures: Option<Figures> = None;
    let (mut history, mut browsing) = (History::default(), Browsing::default());
    let mut stale = true;
    while !STOP.load(Ordering::Relaxed) {
        loop {
            match received.try_recv() {
                Ok(next) => {
                    let Some(next) = next? else { return Ok(true) };
                    history.add(&next);
                    figures = Some(next);
                    stale = true;
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Ok(true),
            }
        }
        if std::mem::take(&mut stale) {
            terminal.draw(|frame| view::draw(frame, figures.as_ref(), &history, &mut browsing, style))?;
        }
        if !keys_may_come() {
            return Ok(false);
        }
        while event::poll(Duration::ZERO)? {
            match event::read()? {
                Event::Key(key) => match browsing.press(key) {
                    Outcome::Left => return Ok(false),
                    Outcome::Changed => stale = true,
                    Outcome::Nothing => {}
                },
                Event::Resize(..) => stale = true,
                _ => {}
            }
        }
    }
    Ok(false)
}

/// Waits a moment for keys or a signal. False if the terminal is gone: crossterm would never return
/// from reading it.
fn keys_may_come() -> bool {
    let stdin = std::io::stdin();
    let mut keys = [PollFd::new(&stdin, PollFlags::IN)];
    let _ = poll(&mut keys, Some(&POLL));
    !keys[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
}

/// The terminal is restored, whatever ends this.
fn stop_on_signals() {
    extern "C" fn stop(_: libc::c_int) {
        STOP.store(true, Ordering::Relaxed);
    }
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler stores to an atomic only.
        unsafe { signals::handle(signal, stop) };
    }
}
