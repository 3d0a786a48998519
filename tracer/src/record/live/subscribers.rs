//! Clients that watch a recording, and what each of them has not read yet. One that stops reading
//! is sent nothing more until it reads again: the recording does not wait for it.

use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::live_protocol::{Message, Stack};

/// A client that watches.
pub struct Subscriber {
    stream: UnixStream,
    every: Duration,
    next: Instant,
    /// How many of the stacks it was sent.
    stacks: usize,
    unsent: Vec<u8>,
}

impl Subscriber {
    /// One that gets figures at this interval; `None` if the socket is no good.
    pub fn new(stream: UnixStream, every: Duration) -> Option<Subscriber> {
        stream.set_nonblocking(true).ok()?;
        Some(Subscriber { stream, every, next: Instant::now(), stacks: 0, unsent: Vec::new() })
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

/// All of them.
#[derive(Default)]
pub struct Subscribers {
    all: Vec<Subscriber>,
    /// Lines that describe call stacks, which each subscriber is sent once.
    stacks: Vec<Vec<u8>>,
}

impl Subscribers {
    /// Adds one.
    pub fn add(&mut self, subscriber: Subscriber) {
        self.all.push(subscriber);
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// True if one of them is to be sent figures now.
    pub fn is_due(&mut self) -> bool {
        let now = Instant::now();
        self.all.retain_mut(Subscriber::send);
        self.all.iter().any(|each| each.next <= now && each.unsent.is_empty())
    }

    /// A call stack that messages refer to from now on.
    pub fn add_stack(&mut self, stack: Stack) {
        self.stacks.push(line(&Message::Stack(stack)));
    }

    /// Sends a message to those that are due.
    pub fn send(&mut self, message: &Message) {
        let (line, now) = (line(message), Instant::now());
        for subscriber in &mut self.all {
            if subscriber.next <= now && subscriber.unsent.is_empty() {
                subscriber.next = now + subscriber.every;
                subscriber.stacks = add(&mut subscriber.unsent, &self.stacks, subscriber.stacks, &line);
            }
        }
        self.all.retain_mut(Subscriber::send);
    }

    /// Sends the last message to all. One that does not read it soon misses it.
    pub fn send_last(&mut self, message: &Message) {
        const SOON: Duration = Duration::from_millis(200);
        let line = line(message);
        for subscriber in &mut self.all {
            subscriber.stacks = add(&mut subscriber.unsent, &self.stacks, subscriber.stacks, &line);
            let stream = &subscriber.stream;
            let waits = stream.set_nonblocking(false).and_then(|()| stream.set_write_timeout(Some(SOON)));
            if waits.is_ok() {
                let _ = (&subscriber.stream).write_all(&subscriber.unsent);
            }
        }
        self.all.clear();
    }
}

/// Adds the stacks that a subscriber was not sent yet, and a line. How many stacks it knows then.
fn add(unsent: &mut Vec<u8>, stacks: &[Vec<u8>], sent: usize, line: &[u8]) -> usize {
    stacks[sent..].iter().for_each(|stack| unsent.extend_from_slice(stack));
    unsent.extend_from_slice(line);
    stacks.len()
}

/// A message as it is sent.
pub fn line(message: &impl serde::Serialize) -> Vec<u8> {
    // Messages have text and numbers only, which can be written.
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;
    use crate::live_protocol::Figures;

    fn figures(live_bytes: u64) -> Message {
        Message::Figures(Box::new(Figures { live_bytes, ..Figures::default() }))
    }

    #[test]
    fn one_that_does_not_read_is_not_waited_for_and_others_are_sent_figures() {
        let mut subscribers = Subscribers::default();
        assert!(subscribers.is_empty());
        let mut ends = Vec::new();
        for _ in 0..2 {
            let (near, far) = UnixStream::pair().unwrap();
            subscribers.add(Subscriber::new(near, Duration::ZERO).unwrap());
            ends.push(far);
        }
        let sleeper = ends.pop().unwrap();
        let mut reader = BufReader::new(ends.pop().unwrap());
        subscribers.add_stack(Stack { site: 9, ..Stack::default() });
        let mut line = String::new();
        // Far more than a socket holds.
        for live in 0..20_000 {
            assert!(subscribers.is_due());
            subscribers.send(&figures(live));
            if live == 0 {
                reader.read_line(&mut line).unwrap();
                assert!(line.starts_with(r#"{"stack":{"site":9"#), "{line}");
            }
            line.clear();
            reader.read_line(&mut line).unwrap();
            let sent: Message = serde_json::from_str(&line).unwrap();
            assert_eq!(sent, figures(live));
        }
        drop(reader);
        subscribers.send(&figures(0));
        subscribers.send(&figures(0));
        assert_eq!(subscribers.all.len(), 1, "only the sleeper is left");
        drop(sleeper);
        assert!(!subscribers.is_due());
        assert!(subscribers.all.is_empty());
    }

    #[test]
    fn the_last_message_comes_to_all_who_read() {
        let (near, far) = UnixStream::pair().unwrap();
        let mut subscribers = Subscribers::default();
        subscribers.add(Subscriber::new(near, Duration::from_secs(1000)).unwrap());
        subscribers.send(&figures(1));
        subscribers.send(&figures(2));
        subscribers.send_last(&figures(3));
        let lines: Vec<String> = BufReader::new(far).lines().map(Result::unwrap).collect();
        let sent: Vec<Message> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(sent, [figures(1), figures(3)], "it was not due again before the end");
    }
}
