//! The live view on a terminal: it is drawn anew when figures come, until somebody leaves or the recording ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use anyhow::{Context, Result};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};

use super::model::Figures;
use super::recording::{Ended, Recording};
use super::view::{self, Look};

/// So long it takes at most until a signal or new figures are noticed.
const GLANCE: Duration = Duration::from_millis(100);

static STOP: AtomicBool = AtomicBool::new(false);

type Told = Result<Option<Figures>>;

/// Draws until the recording ends, and says so, or somebody leaves.
///
/// # Errors
/// The terminal cannot be used, or the recording was cut short.
pub fn show(mut recording: Recording) -> Result<Option<Ended>> {
    stop_on_signals();
    let look = Look { color: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) };
    let (tell, told) = channel();
    let mut terminal = ratatui::try_init().context("cannot draw on this terminal")?;
    let reader = std::thread::spawn(move || {
        loop {
            let next = recording.next();
            let over = !matches!(next, Ok(Some(_)));
            if tell.send(next).is_err() || over {
                return recording;
            }
        }
    });
    let result = watch(&mut terminal, &told, look);
    let restored = ratatui::try_restore().context("cannot give the terminal back as it was");
    let over = result?;
    restored?;
    if !over {
        // The reader waits for figures; it ends with the process.
        return Ok(None);
    }
    let recording = reader.join().map_err(|_| anyhow::anyhow!("the connection broke"))?;
    recording.ending().map(Some)
}

/// True when the recording is over, false when somebody has left.
fn watch(terminal: &mut DefaultTerminal, told: &Receiver<Told>, look: Look) -> Result<bool> {
    let mut figures: Option<Figures> = None;
    let mut stale = true;
    while !STOP.load(Ordering::Relaxed) {
        loop {
            match told.try_recv() {
                Ok(next) => {
                    let Some(next) = next? else { return Ok(true) };
                    figures = Some(next);
                    stale = true;
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Ok(true),
            }
        }
        if std::mem::take(&mut stale) {
            terminal.draw(|frame| view::draw(frame, figures.as_ref(), look))?;
        }
        if !keys_may_come() {
            return Ok(false);
        }
        while event::poll(Duration::ZERO)? {
            match event::read()? {
                Event::Key(key) if leaves(key) => return Ok(false),
                Event::Resize(..) => stale = true,
                _ => {}
            }
        }
    }
    Ok(false)
}

/// Waits a moment for keys or a signal. False if the terminal is gone: crossterm would never return from reading it.
fn keys_may_come() -> bool {
    let mut keys = libc::pollfd { fd: libc::STDIN_FILENO, events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid pollfd.
    unsafe { libc::poll(&raw mut keys, 1, GLANCE.as_millis() as libc::c_int) };
    keys.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) == 0
}

fn leaves(key: KeyEvent) -> bool {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) || key.code == KeyCode::Char('c') && control
}

/// The terminal is given back as it was, whoever ends this.
fn stop_on_signals() {
    extern "C" fn stop(_: libc::c_int) {
        STOP.store(true, Ordering::Relaxed);
    }
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler stores to an atomic only.
        unsafe {
            let mut new: libc::sigaction = std::mem::zeroed();
            new.sa_sigaction = stop as *const () as usize;
            libc::sigaction(signal, &raw const new, std::ptr::null_mut());
        }
    }
}
