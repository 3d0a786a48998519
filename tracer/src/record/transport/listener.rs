//! The sockets that probes and clients connect to. A probe gets the descriptors of the settings
//! and of a segment that is made for it; a client is passed on to the live view.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anyhow::{Context, Result};
use memtrace_wire::handshake::{Wants, Welcome};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use super::address_space;
use super::handshake::{Arrival, Credentials, Peer, identify, send_descriptors};
use super::pending::{Pending, Said};
use super::placing::PlacedImages;
use super::segment::Segment;
use crate::live_protocol::{Request, SOCKET};
use crate::signals;

/// Connections that are accepted before what others have said is read: who connects without end
/// delays them by no more.
const AT_ONCE: usize = 128;

/// A client that has connected, and what it requested.
pub struct Client {
    /// The connection.
    pub stream: UnixStream,
    /// Its request.
    pub request: Request,
}

/// Peers that have connected, in order.
pub struct Connections {
    /// Processes whose probe said hello.
    pub arrivals: Receiver<Arrival>,
    /// The segments that probes were sent. A process gets its own only after it was sent here, and
    /// before that the process is among the arrivals.
    pub segments: Receiver<Segment>,
    /// Clients of the live view.
    pub clients: Receiver<Client>,
}

/// The listening side. Dropping it removes the socket's path.
pub struct Listener {
    path: PathBuf,
    /// The trace's directory, kept open: `top` finds the trace of a recorder by it.
    _directory: File,
    sockets: String,
    token: String,
    turned_away: Arc<AtomicU64>,
    unserved: Arc<AtomicU64>,
}

impl Listener {
    /// Listens in `directory` (private to the user) and under an abstract name, which a chroot does
    /// not hide and no path length limits. Probes are sent the `settings`.
    pub fn open(
        directory: &Path,
        settings: OwnedFd,
        placed: PlacedImages,
    ) -> Result<(Listener, Connections)> {
        let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_path_buf());
        let token = random_bytes()?;
        let name = format!("memtrace-{}", hex(&random_bytes()?));
        let address = SocketAddr::from_abstract_name(&name)?;
        let mut listeners =
            vec![UnixListener::bind_addr(&address).context("cannot listen on an abstract socket")?];
        let path = directory.join(SOCKET);
        let opened = File::open(&directory).context("cannot open the trace's directory")?;
        // A path longer than sun_path (108 bytes, unix(7)) is only for peers that take the short way
        // too.
        let short = format!("/proc/self/fd/{}/{SOCKET}", opened.as_raw_fd());
        listeners.extend(UnixListener::bind(&path).or_else(|_| UnixListener::bind(short)).ok());
        let (send_arrival, arrivals) = channel();
        let (send_client, clients) = channel();
        let (send_segment, segments) = channel();
        let [turned_away, unserved] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
        let (settings, placed) = (Arc::new(settings), Arc::new(placed));
        for socket in listeners {
            let accept = Accept {
                token,
                settings: settings.clone(),
                placed: placed.clone(),
                arrivals: send_arrival.clone(),
                segments: send_segment.clone(),
                clients: send_client.clone(),
                turned_away: turned_away.clone(),
                unserved: unserved.clone(),
            };
            std::thread::Builder::new().name("listener".into()).spawn(move || accept.run(&socket))?;
        }
        let sockets = format!("{name};{}", path.display());
        let token = hex(&token);
        let listener = Listener { sockets, path, token, _directory: opened, turned_away, unserved };
        Ok((listener, Connections { arrivals, segments, clients }))
    }

    /// Value of `MEMTRACE_SOCKET`.
    pub fn sockets(&self) -> &str {
        &self.sockets
    }

    /// Connections that came to nothing: a process that is not recorded may be among them.
    pub fn turned_away(&self) -> u64 {
        self.turned_away.load(Ordering::Relaxed)
    }

    /// Probes for which there was no shared memory.
    pub fn unserved(&self) -> u64 {
        self.unserved.load(Ordering::Relaxed)
    }

    /// Value of `MEMTRACE_TOKEN`.
    pub fn token(&self) -> &str {
        &self.token
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A thread that accepts connections on one socket.
struct Accept {
    token: [u8; 16],
    settings: Arc<OwnedFd>,
    placed: Arc<PlacedImages>,
    arrivals: Sender<Arrival>,
    segments: Sender<Segment>,
    clients: Sender<Client>,
    turned_away: Arc<AtomicU64>,
    unserved: Arc<AtomicU64>,
}

impl Accept {
    /// Until the recording has ended.
    fn run(&self, socket: &UnixListener) {
        signals::block();
        let mut pending = Pending::default();
        let mut goes_on = socket.set_nonblocking(true).is_ok();
        while goes_on {
            wait(socket, &pending);
            let full = self.accept(socket, &mut pending);
            let silent = pending.read(|said| goes_on &= self.answer(said));
            self.turned_away.fetch_add(full + silent, Ordering::Relaxed);
        }
    }

    /// Accepts who has connected. How many others were turned away for them.
    fn accept(&self, socket: &UnixListener, pending: &mut Pending) -> u64 {
        let mut turned_away = 0;
        for _ in 0..AT_ONCE {
            let stream = match socket.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return turned_away,
                Err(_) => {
                    // No descriptor is left: some may be, soon.
                    std::thread::sleep(Duration::from_millis(10));
                    return turned_away;
                }
            };
            let peer = Credentials::of(&stream);
            match peer.filter(|peer| peer.is_admitted()) {
                Some(peer) => turned_away += pending.add(stream, peer),
                None => {
                    // Another user's, or nothing is known of it.
                    turned_away += u64::from(peer.is_none());
                    refuse(&stream);
                }
            }
        }
        turned_away
    }

    /// False once the recording has ended.
    fn answer(&self, Said { stream, peer, bytes }: Said) -> bool {
        match identify(&bytes, peer, &self.token) {
            Some(Peer::Probe(arrival)) => {
                let placed = self.placed.has(arrival.host_pid);
                self.arrivals.send(arrival).is_ok() && self.share(&stream, Wants::First, placed, peer.pid)
            }
            Some(Peer::Further) => self.share(&stream, Wants::Further, false, peer.pid),
            Some(Peer::Client(request)) => {
                let _ = stream.set_nonblocking(false);
                self.clients.send(Client { stream, request }).is_ok()
            }
            None => {
                refuse(&stream);
                true
            }
        }
    }
}

impl Accept {
    /// Makes a segment for the probe of this process. False once the recording has ended.
    fn share(&self, stream: &UnixStream, wants: Wants, placed: bool, peer: u32) -> bool {
        let is_free = address_space::is_free(wants.geometry().bytes());
        let made = is_free.then(|| {
            Segment::create(wants, placed, peer).and_then(|segment| Ok((segment.duplicate()?, segment)))
        });
        let Some(Ok((theirs, segment))) = made else {
            self.unserved.fetch_add(1, Ordering::Relaxed);
            refuse(stream);
            return true;
        };
        let recorded = self.segments.send(segment).is_ok();
        if recorded {
            let descriptors = [self.settings.as_fd(), theirs.as_fd()];
            let sent = send_descriptors(stream, &Welcome::encode(true), descriptors);
            self.turned_away.fetch_add(u64::from(!sent), Ordering::Relaxed);
        }
        recorded
    }
}

/// Sleeps until a peer connects, says something, or has waited for too long.
fn wait(socket: &UnixListener, pending: &Pending) {
    let all = [socket.as_fd()].into_iter().chain(pending.descriptors());
    let mut all: Vec<PollFd<'_>> = all.map(|each| PollFd::from_borrowed_fd(each, PollFlags::IN)).collect();
    let most = pending.patience().and_then(|most| Timespec::try_from(most).ok());
    if poll(&mut all, most.as_ref()).is_err() {
        // Interrupted, or there is no memory: not in a hurry.
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The peer may have hung up, or its buffer may be full: the connection ends either way.
fn refuse(mut stream: &UnixStream) {
    let _ = stream.set_nonblocking(true);
    let _ = stream.write_all(&Welcome::encode(false));
}

fn random_bytes() -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .context("cannot read /dev/urandom")?;
    Ok(bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_passed_on_and_garbage_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let null = || File::open("/dev/null").unwrap().into();
        let (listener, connections) =
            Listener::open(directory.path(), null(), PlacedImages::of(None)).unwrap();
        let path = directory.path().join(SOCKET);
        let connect = |hello: &[u8]| {
            let mut stream = UnixStream::connect(&path).unwrap();
            stream.write_all(hello).unwrap();
            stream
        };
        let _stream = connect(&Request::Spans.encode());
        assert_eq!(connections.clients.recv().unwrap().request, Request::Spans);
        let mut answer = Vec::new();
        connect(&[7; memtrace_wire::handshake::Hello::BYTES]).read_to_end(&mut answer).unwrap();
        assert_eq!(answer, Welcome::encode(false));
        assert!(connections.arrivals.try_recv().is_err() && connections.segments.try_recv().is_err());
        assert!(listener.sockets().ends_with(&path.canonicalize().unwrap().display().to_string()));
        drop(listener);
        assert!(!path.exists());
    }
}
