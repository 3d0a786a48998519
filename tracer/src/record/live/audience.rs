//! Who watches a recording, and what each of them has not read yet. A viewer that stops reading is told nothing more
//! until it reads again: nobody waits for it.

use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use crate::top::{Message, Request, Stack};

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
    /// A viewer that has just said what it wants; `None` if the socket is no good.
    pub fn new(stream: UnixStream, request: Request) -> Option<Viewer> {
        stream.set_nonblocking(true).ok()?;
        let every = Duration::from_millis(u64::from(request.every_ms));
        Some(Viewer { stream, every, next: Instant::now(), stacks: 0, unsent: Vec::new() })
    }

    /// Sends what there is room for. False if the viewer is gone.
    fn send(&mut self) -> bool {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(0) => return false,
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
        true
    }
}

/// All who watch.
#[derive(Default)]
pub struct Audience {
    viewers: Vec<Viewer>,
    /// Lines that tell of call stacks, which each viewer is told once.
    stacks: Vec<Vec<u8>>,
}

impl Audience {
    /// Takes in who has come. True if anybody is there.
    pub fn admit(&mut self, arrivals: &Receiver<Viewer>) -> bool {
        self.viewers.extend(arrivals.try_iter());
        !self.viewers.is_empty()
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

fn line(message: &Message) -> Vec<u8> {
    // What is told has text and numbers alone, which can be written.
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::sync::mpsc::channel;

    use super::*;
    use crate::top::Figures;

    fn figures(live_bytes: u64) -> Message {
        Message::Figures(Box::new(Figures { live_bytes, ..Figures::default() }))
    }

    #[test]
    fn who_does_not_read_is_not_waited_for_and_others_are_told() {
        let (arrive, arrivals) = channel();
        let mut audience = Audience::default();
        assert!(!audience.admit(&arrivals));
        let mut ends = Vec::new();
        for _ in 0..2 {
            let (near, far) = UnixStream::pair().unwrap();
            arrive.send(Viewer::new(near, Request { every_ms: 0 }).unwrap()).unwrap();
            ends.push(far);
        }
        let sleeper = ends.pop().unwrap();
        let mut reader = BufReader::new(ends.pop().unwrap());
        assert!(audience.admit(&arrivals));
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
        let (arrive, arrivals) = channel();
        let (near, far) = UnixStream::pair().unwrap();
        arrive.send(Viewer::new(near, Request { every_ms: 1_000_000 }).unwrap()).unwrap();
        let mut audience = Audience::default();
        audience.admit(&arrivals);
        audience.tell(&figures(1));
        audience.tell(&figures(2));
        audience.tell_last(&figures(3));
        let lines: Vec<String> = BufReader::new(far).lines().map(Result::unwrap).collect();
        let told: Vec<Message> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(told, [figures(1), figures(3)], "it was not due again before the end");
    }
}
