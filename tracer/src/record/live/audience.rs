//! Who watches a recording, and what each of them has not read yet. A viewer that stops reading is told nothing more
//! until it reads again: nobody waits for it.

use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::top::{Message, Stack};

/// Somebody who watches.
pub struct Viewer {
    stream: UnixStream,
    every: Duration,
    next: Instant,
    /// Of the stacks, those it was told.
    stacks: usize,
    unsent: Vec<u8>,
}

impl Viewer {
    /// A viewer that wants figures every so often; `None` if the socket is no good.
    pub fn new(stream: UnixStream, every: Duration) -> Option<Viewer> {
        stream.set_nonblocking(true).ok()?;
        Some(Viewer { stream, every, next: Instant::now(), stacks: 0, unsent: Vec::new() })
    }

    fn send(&mut self) -> bool {
        send(&self.stream, &mut self.unsent)
    }
}

/// Sends what there is room for. False if the reader is gone.
pub fn send(mut stream: &UnixStream, unsent: &mut Vec<u8>) -> bool {
    while !unsent.is_empty() {
        match stream.write(unsent) {
            Ok(0) => return false,
            Ok(sent) => drop(unsent.drain(..sent)),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
    true
}

/// All who watch.
#[derive(Default)]
pub struct Audience {
    viewers: Vec<Viewer>,
    /// Lines that tell of call stacks, which each viewer is told once.
    stacks: Vec<Vec<u8>>,
}

impl Audience {
    /// Takes in somebody who has come.
    pub fn admit(&mut self, viewer: Viewer) {
        self.viewers.push(viewer);
    }

    /// True if nobody is there.
    pub fn is_empty(&self) -> bool {
        self.viewers.is_empty()
    }

    /// True if somebody wants to be told now.
    pub fn is_due(&mut self) -> bool {
        let now = Instant::now();
        self.viewers.retain_mut(Viewer::send);
        self.viewers.iter().any(|viewer| viewer.next <= now && viewer.unsent.is_empty())
    }

    /// A call stack that messages speak of from now on.
    pub fn add_stack(&mut self, stack: Stack) {
        self.stacks.push(line(&Message::Stack(stack)));
    }

    /// Tells those who are due.
    pub fn tell(&mut self, message: &Message) {
        let (line, now) = (line(message), Instant::now());
        for viewer in &mut self.viewers {
            if viewer.next <= now && viewer.unsent.is_empty() {
                viewer.next = now + viewer.every;
                viewer.stacks = add(&mut viewer.unsent, &self.stacks, viewer.stacks, &line);
            }
        }
        self.viewers.retain_mut(Viewer::send);
    }

    /// The last message, for all. Who does not read it soon misses it.
    pub fn tell_last(&mut self, message: &Message) {
        const SOON: Duration = Duration::from_millis(200);
        let line = line(message);
        for viewer in &mut self.viewers {
            viewer.stacks = add(&mut viewer.unsent, &self.stacks, viewer.stacks, &line);
            let stream = &viewer.stream;
            let waits = stream.set_nonblocking(false).and_then(|()| stream.set_write_timeout(Some(SOON)));
            if waits.is_ok() {
                let _ = (&viewer.stream).write_all(&viewer.unsent);
            }
        }
        self.viewers.clear();
    }
}

/// Adds what a viewer has not been told of the stacks, and a line. How many stacks it knows then.
fn add(unsent: &mut Vec<u8>, stacks: &[Vec<u8>], told: usize, line: &[u8]) -> usize {
    stacks[told..].iter().for_each(|stack| unsent.extend_from_slice(stack));
    unsent.extend_from_slice(line);
    stacks.len()
}

/// A message as it is told.
pub fn line(message: &impl serde::Serialize) -> Vec<u8> {
    // What is told has text and numbers alone, which can be written.
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;
    use crate::top::Figures;

    fn figures(live_bytes: u64) -> Message {
        Message::Figures(Box::new(Figures { live_bytes, ..Figures::default() }))
    }

    #[test]
    fn who_does_not_read_is_not_waited_for_and_others_are_told() {
        let mut audience = Audience::default();
        assert!(audience.is_empty());
        let mut ends = Vec::new();
        for _ in 0..2 {
            let (near, far) = UnixStream::pair().unwrap();
            audience.admit(Viewer::new(near, Duration::ZERO).unwrap());
            ends.push(far);
        }
        let sleeper = ends.pop().unwrap();
        let mut reader = BufReader::new(ends.pop().unwrap());
        audience.add_stack(Stack { site: 9, ..Stack::default() });
        let mut line = String::new();
        // Far more than a socket holds.
        for live in 0..20_000 {
            assert!(audience.is_due());
            audience.tell(&figures(live));
            if live == 0 {
                reader.read_line(&mut line).unwrap();
                assert!(line.starts_with(r#"{"stack":{"site":9"#), "{line}");
            }
            line.clear();
            reader.read_line(&mut line).unwrap();
            let told: Message = serde_json::from_str(&line).unwrap();
            assert_eq!(told, figures(live));
        }
        drop(reader);
        audience.tell(&figures(0));
        audience.tell(&figures(0));
        assert_eq!(audience.viewers.len(), 1, "the sleeper alone is left");
        drop(sleeper);
        assert!(!audience.is_due());
        assert!(audience.viewers.is_empty());
    }

    #[test]
    fn the_last_message_comes_to_all_who_read() {
        let (near, far) = UnixStream::pair().unwrap();
        let mut audience = Audience::default();
        audience.admit(Viewer::new(near, Duration::from_secs(1000)).unwrap());
        audience.tell(&figures(1));
        audience.tell(&figures(2));
        audience.tell_last(&figures(3));
        let lines: Vec<String> = BufReader::new(far).lines().map(Result::unwrap).collect();
        let told: Vec<Message> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(told, [figures(1), figures(3)], "it was not due again before the end");
    }
}
