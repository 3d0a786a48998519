//! The sockets that probes and clients connect to. A probe gets the segment's descriptor; a client
//! is passed on to the live view.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};

use anyhow::{Context, Result};
use memtrace_wire::handshake::Welcome;

use super::handshake::{Arrival, Peer, identify, send_descriptor};
use crate::live_protocol::{Request, SOCKET};
use crate::signals;

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
}

impl Listener {
    /// Listens in `directory` (private to the user) and under an abstract name, which a chroot does
    /// not hide and no path length limits.
    pub fn open(directory: &Path, segment: OwnedFd) -> Result<(Listener, Connections)> {
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
        for socket in listeners {
            let (arrivals, clients) = (send_arrival.clone(), send_client.clone());
            let accept = Accept { token, segment: segment.try_clone()?, arrivals, clients };
            std::thread::Builder::new().name("listener".into()).spawn(move || accept.run(&socket))?;
        }
        let sockets = format!("{name};{}", path.display());
        let listener = Listener { sockets, path, token: hex(&token), _directory: opened };
        Ok((listener, Connections { arrivals, clients }))
    }

    /// Value of `MEMTRACE_SOCKET`.
    pub fn sockets(&self) -> &str {
        &self.sockets
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
    segment: OwnedFd,
    arrivals: Sender<Arrival>,
    clients: Sender<Client>,
}

impl Accept {
    fn run(&self, socket: &UnixListener) {
        signals::block();
        // One bad peer must not keep the others out; without the recording there is nothing left to
        // do.
        for stream in socket.incoming().flatten() {
            if !self.accept(stream) {
                return;
            }
        }
    }

    /// False once the recording has ended.
    fn accept(&self, stream: UnixStream) -> bool {
        match identify(&stream, &self.token) {
            Some(Peer::Probe(arrival)) => {
                let recorded = self.arrivals.send(arrival).is_ok();
                if recorded {
                    send_descriptor(&stream, &Welcome::encode(true), self.segment.as_fd());
                }
                recorded
            }
            Some(Peer::Client(request)) => self.clients.send(Client { stream, request }).is_ok(),
            None => {
                let _ = (&stream).write_all(&Welcome::encode(false));
                true
            }
        }
    }
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
        let segment = File::open("/dev/null").unwrap().into();
        let (listener, connections) = Listener::open(directory.path(), segment).unwrap();
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
        assert!(connections.arrivals.try_recv().is_err());
        assert!(listener.sockets().ends_with(&path.canonicalize().unwrap().display().to_string()));
        drop(listener);
        assert!(!path.exists());
    }
}
