//! Peers that have connected and not yet said what they want. None of them delays another.

use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use memtrace_wire::handshake::{Hello, PATIENCE_SECONDS};
use memtrace_wire::layout::VERSION;

use super::handshake::Credentials;

/// How long a peer may take for its first words. A probe sends them as soon as it has connected.
const PATIENCE: Duration = Duration::from_secs(PATIENCE_SECONDS as u64);
/// Peers of one user that may wait at one time.
const OF_ONE_USER: usize = 256;

/// A peer that has said all that it says first.
pub struct Said {
    /// The connection.
    pub stream: UnixStream,
    /// Who the peer is.
    pub peer: Credentials,
    /// A hello or a request.
    pub bytes: [u8; Hello::BYTES],
}

struct Waiting {
    stream: UnixStream,
    peer: Credentials,
    bytes: [u8; Hello::BYTES],
    received: usize,
    until: Instant,
}

enum Progress {
    More,
    Whole,
    HungUp,
}

/// See the module.
#[derive(Default)]
pub struct Pending {
    /// The longest first.
    waiting: Vec<Waiting>,
}

impl Pending {
    /// A peer has connected. Returns how many were turned away: it, if it cannot wait, or for it the
    /// one that waits longest of a user who has too many.
    pub fn add(&mut self, stream: UnixStream, peer: Credentials) -> u64 {
        let is_of_user = |waiting: &Waiting| waiting.peer.uid == peer.uid;
        let too_many = self.waiting.iter().filter(|waiting| is_of_user(waiting)).count() >= OF_ONE_USER;
        let longest = self.waiting.iter().position(is_of_user).filter(|_| too_many);
        longest.map(|index| self.waiting.remove(index));
        let waits = stream.set_nonblocking(true).is_ok();
        if waits {
            let (bytes, until) = ([0; Hello::BYTES], Instant::now() + PATIENCE);
            self.waiting.push(Waiting { stream, peer, bytes, received: 0, until });
        }
        u64::from(longest.is_some()) + u64::from(!waits)
    }

    /// Their connections.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.waiting.iter().map(|waiting| waiting.stream.as_fd())
    }

    /// How long the first of them may still wait.
    pub fn patience(&self) -> Option<Duration> {
        self.waiting.first().map(|waiting| waiting.until.saturating_duration_since(Instant::now()))
    }

    /// Reads what has come. Those that have said all are passed on; returns how many were turned
    /// away because they took too long.
    pub fn read(&mut self, mut each: impl FnMut(Said)) -> u64 {
        let now = Instant::now();
        let mut silent = 0;
        let mut kept = Vec::with_capacity(self.waiting.len());
        for mut waiting in self.waiting.drain(..) {
            match waiting.read() {
                Progress::More if waiting.until > now => kept.push(waiting),
                Progress::More => silent += 1,
                Progress::HungUp => {}
                Progress::Whole => {
                    let Waiting { stream, peer, bytes, .. } = waiting;
                    each(Said { stream, peer, bytes });
                }
            }
        }
        self.waiting = kept;
        silent
    }
}

impl Waiting {
    /// A probe of another version, whose hello may be shorter: it is answered at once.
    fn is_of_another_version(&self) -> bool {
        self.received >= 12 && Hello::decode(&self.bytes).is_some_and(|hello| hello.version != VERSION)
    }

    fn read(&mut self) -> Progress {
        loop {
            match (&self.stream).read(&mut self.bytes[self.received..]) {
                Ok(0) => return Progress::HungUp,
                Ok(count) => self.received += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Progress::More,
                Err(_) => return Progress::HungUp,
            }
            if self.received == self.bytes.len() || self.is_of_another_version() {
                return Progress::Whole;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn user(uid: u32) -> Credentials {
        Credentials { pid: 1, uid }
    }

    #[test]
    fn a_silent_peer_delays_no_other_and_part_of_a_hello_is_waited_for() {
        let mut pending = Pending::default();
        let (_silent, theirs) = UnixStream::pair().unwrap();
        pending.add(theirs, user(7));
        let (mut slow, theirs) = UnixStream::pair().unwrap();
        pending.add(theirs, user(8));
        let (gone, theirs) = UnixStream::pair().unwrap();
        pending.add(theirs, user(8));
        drop(gone);
        slow.write_all(&[1; 10]).unwrap();
        let mut said = Vec::new();
        assert_eq!(pending.read(|peer| said.push((peer.peer.uid, peer.bytes[..2].to_vec()))), 0);
        assert!(said.is_empty());
        slow.write_all(&[2; Hello::BYTES - 10]).unwrap();
        pending.read(|peer| said.push((peer.peer.uid, peer.bytes[9..11].to_vec())));
        assert_eq!(said, [(8, vec![1, 2])]);
        assert_eq!(pending.descriptors().count(), 1, "the silent one");
        pending.waiting[0].until = Instant::now();
        assert_eq!(pending.read(|_| unreachable!()), 1);
        assert!(pending.patience().is_none());
    }

    #[test]
    fn one_user_takes_the_room_of_no_other() {
        let mut pending = Pending::default();
        let mut ours = Vec::new();
        let mut connect = |uid| {
            let (one, other) = UnixStream::pair().unwrap();
            ours.push(one);
            pending.add(other, user(uid))
        };
        connect(1);
        assert_eq!((0..OF_ONE_USER).map(|_| connect(2)).sum::<u64>(), 0);
        assert_eq!((connect(2), connect(1)), (1, 0));
        assert_eq!(pending.descriptors().count(), OF_ONE_USER + 2);
    }
}
