//! What a peer of the recording's socket says first: the hello of a probe, or the request of a
//! client.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use memtrace_wire::handshake::{Hello, Wants};
use memtrace_wire::layout::VERSION;
use rustix::cmsg_space;
use rustix::io::retry_on_intr;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::getuid;

use crate::live_protocol::Request;
use crate::record::procfs::cgroup::Cgroup;
use crate::record::procfs::status::command_line;
use crate::record::procfs::whereabouts::Whereabouts;

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
    /// Settings of the C library's allocator in its environment.
    pub allocator_settings: String,
    /// Host, job and rank.
    pub whereabouts: Whereabouts,
    /// Text of /proc/PID/maps.
    pub maps: String,
    /// Its memory control group; the process may be dead before it is sampled.
    pub cgroup: Option<Cgroup>,
}

/// A peer that was let in.
pub enum Peer {
    /// A probe, of a process that is to be recorded.
    Probe(Arrival),
    /// The probe of one that is, and has no slot left.
    Further,
    /// A client of the live view.
    Client(Request),
}

/// Who has connected (unix(7), SO_PEERCRED).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credentials {
    /// 0 if it lives in a pid namespace that is not below ours.
    pub pid: u32,
    /// The user.
    pub uid: u32,
}

impl Credentials {
    /// Of the other end of a connection.
    pub fn of(stream: &UnixStream) -> Option<Credentials> {
        let libc::ucred { pid, uid, .. } = credentials(stream)?;
        Some(Credentials { pid: pid.max(0) as u32, uid })
    }

    /// True if the peer may read the trace.
    fn may_read(self) -> bool {
        self.uid == getuid().as_raw() || self.uid == 0
    }

    /// True if the peer is worth listening to: what root records may run with the rights of others.
    pub fn is_admitted(self) -> bool {
        self.may_read() || getuid().is_root()
    }
}

/// Reads what an admitted peer has said first; `None` if it is not let in.
pub fn identify(bytes: &[u8; Hello::BYTES], peer: Credentials, token: &[u8; 16]) -> Option<Peer> {
    if let Some(request) = Request::decode(bytes) {
        return peer.may_read().then_some(Peer::Client(request));
    }
    let hello = Hello::decode(bytes)?;
    if hello.version != VERSION || hello.token != *token {
        return None;
    }
    if hello.wants == Wants::Further {
        return Some(Peer::Further);
    }
    let read = |name: &str| std::fs::read(format!("/proc/{}/{name}", peer.pid)).unwrap_or_default();
    let environment = read("environ");
    Some(Peer::Probe(Arrival {
        pid: hello.pid,
        host_pid: if peer.pid > 0 { peer.pid } else { hello.pid },
        image: hello.image,
        command: command_line(&read("cmdline")),
        allocator_settings: allocator_settings(&environment),
        whereabouts: Whereabouts::of_environment(&environment),
        maps: String::from_utf8_lossy(&read("maps")).into_owned(),
        cgroup: Cgroup::of(peer.pid),
    }))
}

/// The settings of glibc's allocator (mallopt(3)) in an environment, separated by spaces, bounded.
/// Of the tunables, only those of malloc.
fn allocator_settings(environment: &[u8]) -> String {
    let variables = environment.split(|byte| *byte == 0).filter_map(|part| std::str::from_utf8(part).ok());
    let settings = variables.filter_map(|variable| {
        if let Some(tunables) = variable.strip_prefix("GLIBC_TUNABLES=") {
            let of_malloc: Vec<&str> =
                tunables.split(':').filter(|tunable| tunable.starts_with("glibc.malloc.")).collect();
            return (!of_malloc.is_empty()).then(|| format!("GLIBC_TUNABLES={}", of_malloc.join(":")));
        }
        variable.starts_with("MALLOC_").then(|| variable.to_owned())
    });
    let mut settings: Vec<String> =
        settings.map(|setting| setting.replace(char::is_whitespace, "")).collect();
    settings.sort();
    settings.join(" ").chars().take(1024).collect()
}

/// With libc: the kernel reports process id 0 for a peer in some namespaces, and rustix has no such
/// process id.
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

/// Sends bytes with two descriptors (SCM_RIGHTS, unix(7)); true if they were sent. A peer that hung
/// up misses them.
pub fn send_descriptors(stream: &UnixStream, bytes: &[u8], descriptors: [BorrowedFd<'_>; 2]) -> bool {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(
        control.push(SendAncillaryMessage::ScmRights(&descriptors)),
        "there is space for two descriptors"
    );
    let parts = [IoSlice::new(bytes)];
    retry_on_intr(|| sendmsg(stream, &parts, &mut control, SendFlags::NOSIGNAL)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_settings_of_malloc_are_read() {
        let environment =
            b"HOME=/x\0MALLOC_ARENA_MAX=1 \0GLIBC_TUNABLES=glibc.cpu.x=1:glibc.malloc.y=2\0\xff=1\0";
        assert_eq!(allocator_settings(environment), "GLIBC_TUNABLES=glibc.malloc.y=2 MALLOC_ARENA_MAX=1");
        assert_eq!(allocator_settings(b"GLIBC_TUNABLES=glibc.cpu.x=1\0"), "");
    }
}
