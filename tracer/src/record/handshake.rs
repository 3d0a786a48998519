//! Answers probes: checks who they are, notes what their process is while it waits, sends the segment. Who only wants
//! to watch comes to the same door.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anyhow::{Context, Result};
use memtrace_wire::handshake::{Hello, Welcome};
use memtrace_wire::layout::VERSION;

use super::live::Visitor;
use super::oom::Cgroup;
use crate::top::{Request, SOCKET};

/// What was known of a process when its probe said hello.
pub struct Arrival {
    /// Process id as the probe sees it; with `image` it names the process image.
    pub pid: u32,
    /// Process id as /proc shows it here.
    pub host_pid: u32,
    /// First stamp of the image.
    pub image: u64,
    /// Command line.
    pub command: String,
    /// What its environment tells the C library's allocator.
    pub allocator_settings: String,
    /// Text of /proc/PID/maps.
    pub maps: String,
    /// Its memory control group; it may be dead before it is looked at again.
    pub cgroup: Option<Cgroup>,
}

/// Who came.
enum Guest {
    Probe(Arrival),
    Watcher(Request),
}

/// The listening side. Dropping it removes the socket's path.
pub struct Doorman {
    path: PathBuf,
    /// The trace's directory, kept open: by it a recorder's process id tells where its trace is.
    _directory: File,
    /// Who wants to be told how the recording stands.
    pub visitors: Receiver<Visitor>,
    /// Value of `MEMTRACE_SOCKET`.
    pub sockets: String,
    /// Value of `MEMTRACE_TOKEN`.
    pub token: String,
}

impl Doorman {
    /// Listens in `directory` (private to the user) and under an abstract name, which a chroot does not
    /// hide and no path length limits. Who comes is handed over at the other end.
    pub fn open(directory: &Path, segment: OwnedFd) -> Result<(Doorman, Receiver<Arrival>)> {
        let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_path_buf());
        let token = random_bytes()?;
        let name = format!("memtrace-{}", hex(&random_bytes()?));
        let address = SocketAddr::from_abstract_name(&name)?;
        let mut listeners =
            vec![UnixListener::bind_addr(&address).context("cannot listen on an abstract socket")?];
        let path = directory.join(SOCKET);
        let opened = File::open(&directory).context("cannot open the trace's directory")?;
        // A path longer than sun_path (108 bytes, unix(7)) is for those alone who take the short way too.
        let short = format!("/proc/self/fd/{}/{SOCKET}", opened.as_raw_fd());
        listeners.extend(UnixListener::bind(&path).or_else(|_| UnixListener::bind(short)).ok());
        let (sender, arrivals) = channel();
        let (watch, visitors) = channel();
        for listener in listeners {
            let (sender, watch, segment) = (sender.clone(), watch.clone(), segment.try_clone()?);
            std::thread::Builder::new()
                .name("doorman".into())
                .spawn(move || listen(&listener, &token, &segment, &sender, &watch))?;
        }
        let sockets = format!("{name};{}", path.display());
        Ok((Doorman { sockets, path, token: hex(&token), _directory: opened, visitors }, arrivals))
    }
}

impl Drop for Doorman {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn listen(
    listener: &UnixListener,
    token: &[u8; 16],
    segment: &OwnedFd,
    sender: &Sender<Arrival>,
    watch: &Sender<Visitor>,
) {
    super::launch::block_signals();
    for stream in listener.incoming() {
        // One bad guest must not close the door for the others.
        let Ok(stream) = stream else { continue };
        match greet(&stream, token) {
            Some(Guest::Probe(arrival)) => {
                if sender.send(arrival).is_err() {
                    return;
                }
                send_descriptor(&stream, &Welcome::encode(true), segment.as_raw_fd());
            }
            Some(Guest::Watcher(request)) => {
                if watch.send(Visitor { stream, request }).is_err() {
                    return;
                }
            }
            None => {
                let _ = (&stream).write_all(&Welcome::encode(false));
            }
        }
    }
}

fn greet(mut stream: &UnixStream, token: &[u8; 16]) -> Option<Guest> {
    stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    let peer = credentials(stream)?;
    // SAFETY: always succeeds.
    let own = unsafe { libc::getuid() };
    let mut bytes = [0; Hello::BYTES];
    stream.read_exact(&mut bytes).ok()?;
    if let Some(request) = Request::decode(&bytes) {
        // Who may read the trace anyway.
        return (peer.uid == own || peer.uid == 0).then_some(Guest::Watcher(request));
    }
    let hello = Hello::decode(&bytes)?;
    if peer.uid != own && own != 0 || hello.version != VERSION || hello.token != *token {
        return None;
    }
    let read = |name: &str| std::fs::read(format!("/proc/{}/{name}", peer.pid)).unwrap_or_default();
    Some(Guest::Probe(Arrival {
        pid: hello.pid,
        // 0 if it lives in a namespace that is not below ours (unix(7), SO_PEERCRED).
        host_pid: if peer.pid > 0 { peer.pid as u32 } else { hello.pid },
        image: hello.image,
        command: command_line(&read("cmdline")),
        allocator_settings: allocator_settings(&read("environ")),
        maps: String::from_utf8_lossy(&read("maps")).into_owned(),
        cgroup: Cgroup::of(peer.pid as u32),
    }))
}

/// Arguments separated by spaces, bounded.
pub fn command_line(raw: &[u8]) -> String {
    let arguments: Vec<_> =
        raw.split(|byte| *byte == 0).filter(|part| !part.is_empty()).map(String::from_utf8_lossy).collect();
    arguments.join(" ").chars().take(4096).collect()
}

/// What an environment tells glibc's allocator (mallopt(3)), separated by spaces, bounded. Of the tunables, those
/// of malloc: names of other parts of the C library are nobody's business here.
fn allocator_settings(environment: &[u8]) -> String {
    let variables = environment.split(|byte| *byte == 0).filter_map(|part| std::str::from_utf8(part).ok());
    let told = variables.filter_map(|variable| {
        if let Some(tunables) = variable.strip_prefix("GLIBC_TUNABLES=") {
            let of_malloc: Vec<&str> =
                tunables.split(':').filter(|tunable| tunable.starts_with("glibc.malloc.")).collect();
            return (!of_malloc.is_empty()).then(|| format!("GLIBC_TUNABLES={}", of_malloc.join(":")));
        }
        variable.starts_with("MALLOC_").then(|| variable.to_owned())
    });
    let mut told: Vec<String> = told.map(|setting| setting.replace(char::is_whitespace, "")).collect();
    told.sort();
    told.join(" ").chars().take(1024).collect()
}

fn credentials(stream: &UnixStream) -> Option<libc::ucred> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the buffer is a ucred of the stated length.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &mut length,
        )
    };
    (result == 0).then_some(peer)
}

/// Sends bytes with a descriptor (SCM_RIGHTS, unix(7)). A guest that hung up is its own problem.
fn send_descriptor(stream: &UnixStream, bytes: &[u8], descriptor: RawFd) {
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = [0u64; 4];
    // SAFETY: the message points to buffers on this stack with their true lengths; the control buffer is
    // aligned and has room for one descriptor.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(size_of::<RawFd>() as u32) as usize;
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as usize;
        libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(descriptor);
        libc::sendmsg(stream.as_raw_fd(), &message, libc::MSG_NOSIGNAL);
    }
}

fn random_bytes() -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .context("cannot read /dev/urandom")?;
    Ok(bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
