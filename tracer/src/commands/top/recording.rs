//! A recording that is watched: the connection to its recorder, and what became of it when that is
//! gone.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use memtrace_trace::Trace;

use super::places::Places;
use crate::live_protocol::{Figures, Message, Request, SOCKET};

/// A longer line was not written by a recorder.
const LINE_MAX: u64 = 16 << 20;

/// What is watched: a recording, or several together.
pub trait Watched: Send {
    /// Waits no longer than this for the next figures.
    fn wait_at_most(&self, limit: Duration) -> Result<()>;

    /// Waits for the next figures; `None` when there will be no more.
    ///
    /// # Errors
    /// What comes is not what a recorder sends.
    fn next(&mut self) -> Result<Option<Figures>>;

    /// What became of it, once nothing more comes.
    ///
    /// # Errors
    /// It was cut short.
    fn ending(&self) -> Result<Ended>;
}

/// The connection.
pub struct Recording {
    directory: PathBuf,
    lines: BufReader<UnixStream>,
    places: Places,
}

/// The recording is over; what to do next, in a sentence.
pub struct Ended(pub String);

impl Recording {
    /// Connects to the recorder of the trace in `directory` and requests figures at this interval.
    ///
    /// # Errors
    /// Nothing records there (any more), or another user does.
    pub fn open(directory: &Path, every: Duration) -> Result<Recording> {
        match Recording::try_open(directory, every)? {
            Some(recording) => Ok(recording),
            None => {
                let Ended(sentence) = ending(directory)?;
                bail!("{sentence}")
            }
        }
    }

    /// The same, or `None` if nothing records there (any more).
    ///
    /// # Errors
    /// Another user's recorder does.
    pub fn try_open(directory: &Path, every: Duration) -> Result<Option<Recording>> {
        let Some(mut stream) = connect(directory)? else { return Ok(None) };
        let every_ms = every.as_millis().try_into().unwrap_or(u32::MAX);
        // A recorder that is gone by now is found out by reading.
        let _ = stream.write_all(&Request::Figures { every_ms }.encode());
        let lines = BufReader::new(stream);
        Ok(Some(Recording { directory: directory.into(), lines, places: Places::default() }))
    }

    fn not_understood(&self) -> anyhow::Error {
        let directory = self.directory.display();
        anyhow::anyhow!(
            "what the recorder of {directory} sends cannot be understood: is it another version of memtrace?"
        )
    }
}

impl Watched for Recording {
    fn wait_at_most(&self, limit: Duration) -> Result<()> {
        Ok(self.lines.get_ref().set_read_timeout(Some(limit))?)
    }

    fn next(&mut self) -> Result<Option<Figures>> {
        loop {
            let mut line = Vec::new();
            let read = (&mut self.lines).take(LINE_MAX).read_until(b'\n', &mut line);
            match read {
                // A recorder that is killed resets the connection, or leaves half a line.
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(None),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    let directory = self.directory.display();
                    bail!("the recorder of {directory} does not answer: it is stopped, or hangs")
                }
                Err(error) => return Err(error).context("the recorder does not answer"),
                Ok(_) if line.len() as u64 == LINE_MAX => return Err(self.not_understood()),
                Ok(_) if line.last() != Some(&b'\n') => return Ok(None),
                Ok(_) => {}
            }
            match serde_json::from_slice(&line) {
                Ok(Message::Stack(stack)) => self.places.add(stack),
                Ok(Message::Figures(mut figures)) => {
                    self.places.name(&mut figures);
                    return Ok(Some(*figures));
                }
                Err(_) => return Err(self.not_understood()),
            }
        }
    }

    fn ending(&self) -> Result<Ended> {
        ending(&self.directory)
    }
}

/// `None` if no recorder listens.
fn connect(directory: &Path) -> Result<Option<UnixStream>> {
    let shown = directory.display();
    let denied = || format!("{shown} is private: watch it as the user who records it, or as root");
    let opened = match File::open(directory) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => bail!(denied()),
        other => other.with_context(|| format!("cannot open {shown}"))?,
    };
    // Short enough for a socket's address, wherever the directory is (108 bytes, unix(7)).
    match UnixStream::connect(format!("/proc/self/fd/{}/{SOCKET}", opened.as_raw_fd())) {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => bail!(denied()),
        Err(_) => Ok(None),
    }
}

/// What became of a recording whose recorder does not listen.
fn ending(directory: &Path) -> Result<Ended> {
    let trace = Trace::open(directory)?;
    let (meta, shown) = (trace.meta(), directory.display());
    if meta.complete {
        return Ok(Ended(format!("the recording has ended: memtrace report {shown}")));
    }
    let here = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if !meta.host.is_empty() && meta.host != here.trim() {
        bail!("{shown} is recorded on {}, if it still is: watch it there", meta.host);
    }
    bail!("the recorder of {shown} is gone without having closed the trace: memtrace recover {shown}")
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use memtrace_wire::handshake::Hello;

    use super::*;

    /// What a client makes of a recorder that sends this, in a directory that is no trace.
    fn received(text: Vec<u8>) -> Vec<Result<Option<Figures>, String>> {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join(SOCKET)).unwrap();
        let recorder = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; Hello::BYTES];
            stream.read_exact(&mut request).unwrap();
            let _ = stream.write_all(&text);
        });
        let mut recording = Recording::open(directory.path(), Duration::from_secs(1)).unwrap();
        let next = || recording.next().map_err(|error| error.to_string());
        let mut found: Vec<_> = std::iter::from_fn({
            let mut next = next;
            move || Some(next())
        })
        .take(2)
        .collect();
        drop(recording);
        recorder.join().unwrap();
        found.dedup();
        found
    }

    #[test]
    fn garbage_is_no_figures_and_no_panic() {
        for garbage in
            ["\n", "{}\n", "[1]\n", "\u{0}\u{1b}[2J\n", "{\"figures\": 3}\n", "{\"stack\": {\"site\": -1}}\n"]
        {
            let found = received(garbage.as_bytes().to_vec());
            assert!(
                found[0].as_ref().is_err_and(|error| error.contains("cannot be understood")),
                "{found:?}"
            );
        }
        let endless = received(vec![b'x'; LINE_MAX as usize + 1]);
        assert!(endless[0].is_err());
        let cut = received(b"{\"figures\": {\"live_by".to_vec());
        assert_eq!(cut, [Ok(None)], "the recorder died");
        let stack =
            "{\"stack\": {\"site\": 3, \"frames\": [{\"frame\": 9, \"parent\": 9, \"kind\": \"x\"}]}}\n";
        let figures = "{\"figures\": {\"sites\": [{\"site\": 3}, {\"site\": 4}]}}\n";
        let found = received([stack, stack, figures].concat().into_bytes());
        assert!(matches!(&found[0], Ok(Some(figures)) if figures.sites.len() == 2), "{found:?}");
    }
}
