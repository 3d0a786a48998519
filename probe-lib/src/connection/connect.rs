//! Reaching the tracer: its sockets and the token are in the environment of the program image. The
//! descriptors of settings and segment come back over the socket and are closed as soon as they are
//! mapped.

use core::sync::atomic::Ordering;

use memtrace_wire::handshake::{
    Hello, PATIENCE_SECONDS, SOCKET_VARIABLE, TOKEN_VARIABLE, Wants, Welcome, parse_token,
};
use memtrace_wire::layout::{Geometry, MAGIC, SETTINGS_BYTES, SegmentHeader, Settings, VERSION};
use memtrace_wire::placement::MOST_WORDS;

use super::environment::{find, initial_environment};
use crate::sys::{self, syscall};

/// What the tracer shares, in this process.
pub struct Mapped {
    /// Where the settings begin, which are followed by the text; read-only.
    pub settings: *mut Settings,
    /// The image's first segment.
    pub segment: Segment,
    /// The placement table; empty if there is none, or none of this image.
    pub table: &'static [u64],
}

impl Segment {
    /// True if blocks of this image are to be placed.
    pub fn is_placed(&self) -> bool {
        // SAFETY: a segment begins with its header; all fields are atomics.
        unsafe { (*self.base.cast::<SegmentHeader>()).placed.load(Ordering::Relaxed) == 1 }
    }
}

const PATIENCE_NS: u64 = PATIENCE_SECONDS as u64 * 1_000_000_000;

/// Fewer slots are not worth a segment.
const LEAST_SLOTS: usize = 4;

/// A segment that was mapped.
#[derive(Clone, Copy)]
pub struct Segment {
    /// Where it begins.
    pub base: *mut u8,
    /// How many of its slots are mapped.
    pub slots: usize,
}

/// Connects and maps what the tracer shares; `None` if there is no tracer to talk to.
pub fn shared(pid: u32, image: u64) -> Option<Mapped> {
    greet(pid, image, Wants::First, |settings, segment| {
        let geometry = Wants::First.geometry();
        let slots = slots_within(0, geometry).max(LEAST_SLOTS);
        let (mapped, segment) = (map_settings(settings)?, map_segment(segment, geometry, slots)?);
        let table = if segment.is_placed() { map_table(settings, mapped) } else { &[] };
        Some(Mapped { settings: mapped, segment, table })
    })
}

/// Connects and maps one more segment; the process has mapped so many bytes of others.
pub fn further(pid: u32, image: u64, mapped: usize) -> Option<Segment> {
    let slots = further_slots(mapped)?;
    let geometry = Wants::Further.geometry();
    greet(pid, image, Wants::Further, |_, segment| map_segment(segment, geometry, slots))
}

/// Slots of one more segment that fit into what the process may map, of which it has mapped so many
/// bytes for others; `None` if they are not worth it.
pub fn further_slots(mapped: usize) -> Option<usize> {
    Some(slots_within(mapped, Wants::Further.geometry())).filter(|slots| *slots >= LEAST_SLOTS)
}

/// Says hello and passes on the descriptors of settings and segment, which are closed then.
fn greet<R>(pid: u32, image: u64, wants: Wants, map: impl FnOnce(i32, i32) -> Option<R>) -> Option<R> {
    let environment = initial_environment()?;
    let token = find(environment, TOKEN_VARIABLE).and_then(parse_token)?;
    // The abstract name works in a chroot, the path in another network namespace: try both.
    let sockets = find(environment, SOCKET_VARIABLE)?;
    let mut parts = sockets.splitn(2, |&byte| byte == b';');
    let (abstract_name, path) = (parts.next().unwrap_or(&[]), parts.next().unwrap_or(&[]));
    let stream = dial_trusted(path, false).or_else(|| dial_trusted(abstract_name, true))?;
    let received = exchange(stream, &Hello::new(pid, image, token, wants));
    let mapped = received.and_then(|[settings, segment]| map(settings, segment));
    let [settings, segment] = received.unwrap_or([-1; 2]);
    close_all([stream, settings, segment]);
    mapped
}

/// Closes them by one system call where they follow each other, as they do unless another thread
/// opens files meanwhile.
fn close_all(descriptors: [i32; 3]) {
    let [first, second, third] = descriptors;
    if first >= 0 && second == first + 1 && third == first + 2 && sys::close_range(first, third) {
        return;
    }
    for descriptor in descriptors {
        if descriptor >= 0 {
            sys::close(descriptor);
        }
    }
}

/// Any user may listen under an abstract name whose tracer is gone, and under a path in a directory
/// of their own.
fn dial_trusted(name: &[u8], is_abstract: bool) -> Option<i32> {
    let stream = dial(name, is_abstract);
    if stream < 0 {
        return None;
    }
    if !is_trusted(stream) {
        sys::close(stream);
        return None;
    }
    Some(stream)
}

fn dial(name: &[u8], is_abstract: bool) -> i32 {
    const PATH_OFFSET: usize = 2;
    let mut address = [0u8; 110];
    let start = PATH_OFFSET + usize::from(is_abstract);
    let Some(room) = address.get_mut(start..start + name.len()) else { return -1 };
    if name.is_empty() || (!is_abstract && start + name.len() >= 110) {
        return -1;
    }
    for (to, from) in room.iter_mut().zip(name) {
        *to = *from;
    }
    address[0] = libc::AF_UNIX as u8;
    let length = start + name.len() + usize::from(!is_abstract);
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // SAFETY: plain socket calls on a descriptor of our own; buffers live on the stack.
    unsafe {
        let stream = syscall(libc::SYS_socket, [libc::AF_UNIX as usize, kind as usize, 0, 0, 0, 0]);
        if stream < 0 {
            return -1;
        }
        // A stopped tracer must not hang the program for ever.
        for option in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
            wait_at_most(stream as i32, option, PATIENCE_NS);
        }
        if syscall(libc::SYS_connect, [stream as usize, address.as_ptr() as usize, length, 0, 0, 0]) < 0 {
            sys::close(stream as i32);
            return -1;
        }
        stream as i32
    }
}

/// How long a call on a socket may wait from now on.
fn wait_at_most(stream: i32, option: i32, ns: u64) {
    let most = [ns / 1_000_000_000, ns % 1_000_000_000 / 1000];
    let level = libc::SOL_SOCKET as usize;
    // SAFETY: the buffer is a timeval and its length.
    unsafe {
        syscall(
            libc::SYS_setsockopt,
            [stream as usize, level, option as usize, most.as_ptr() as usize, size_of_val(&most), 0],
        );
    }
}

/// True if the listener has this process's rights, or root's: it sends text that Python runs.
fn is_trusted(stream: i32) -> bool {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the buffers are a ucred and its length.
    let result = unsafe {
        syscall(
            libc::SYS_getsockopt,
            [
                stream as usize,
                libc::SOL_SOCKET as usize,
                libc::SO_PEERCRED as usize,
                (&raw mut peer) as usize,
                (&raw mut length) as usize,
                0,
            ],
        )
    };
    // SAFETY: reads the auxiliary vector, which holds the rights that this image began with.
    let own = unsafe { libc::getauxval(libc::AT_EUID) };
    result == 0 && (peer.uid == 0 || u64::from(peer.uid) == own)
}

/// Says hello; the descriptors of settings and segment, which come with the welcome.
fn exchange(stream: i32, hello: &Hello) -> Option<[i32; 2]> {
    let bytes = hello.encode();
    let mut answer = [0u8; Welcome::BYTES];
    // cmsghdr (16 bytes) and two ints, CMSG_SPACE(2 * sizeof(int)).
    #[repr(C, align(8))]
    struct Control {
        length: usize,
        level: i32,
        kind: i32,
        descriptors: [i32; 2],
    }
    let mut control = Control { length: 0, level: 0, kind: 0, descriptors: [-1; 2] };
    let mut part = libc::iovec { iov_base: answer.as_mut_ptr().cast(), iov_len: answer.len() };
    // SAFETY: all zeroes is a valid msghdr.
    let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = size_of::<Control>();
    // SAFETY: buffers on the stack, lengths as they are.
    let received = unsafe {
        syscall(
            libc::SYS_sendto,
            [stream as usize, bytes.as_ptr() as usize, bytes.len(), libc::MSG_NOSIGNAL as usize, 0, 0],
        );
        let start = sys::monotonic_ns();
        loop {
            let received = syscall(
                libc::SYS_recvmsg,
                [stream as usize, (&raw mut message) as usize, libc::MSG_CMSG_CLOEXEC as usize, 0, 0, 0],
            );
            // A process that is stopped and goes on is interrupted without a signal handler (signal(7)).
            let left = PATIENCE_NS.saturating_sub(sys::monotonic_ns() - start);
            if received != -(libc::EINTR as isize) || left < 1_000_000 {
                break received;
            }
            wait_at_most(stream, libc::SO_RCVTIMEO, left);
        }
    };
    let has_descriptors = control.level == libc::SOL_SOCKET && control.kind == libc::SCM_RIGHTS;
    if !has_descriptors {
        return None;
    }
    let is_accepted = received == Welcome::BYTES as isize && Welcome::accepts(&answer);
    if !is_accepted || control.length != size_of::<Control>() {
        control.descriptors.iter().filter(|each| **each >= 0).for_each(|each| sys::close(*each));
        return None;
    }
    Some(control.descriptors)
}

/// Maps the settings; `None` if they are of another version.
fn map_settings(descriptor: i32) -> Option<*mut Settings> {
    // Shared: the tracer goes on writing what it is doing there.
    let (protection, flags) = (libc::PROT_READ as usize, libc::MAP_SHARED as usize);
    // SAFETY: a new mapping; the tracer made the file SETTINGS_BYTES long and sealed it.
    let base =
        unsafe { syscall(libc::SYS_mmap, [0, SETTINGS_BYTES, protection, flags, descriptor as usize, 0]) };
    if base < 0 {
        return None;
    }
    let settings = base as *mut Settings;
    // SAFETY: just mapped.
    let Settings { magic, version, .. } = unsafe { *settings };
    (magic == MAGIC && version == VERSION).then_some(settings)
}

/// Maps the placement table behind the settings; empty where it cannot be mapped.
fn map_table(descriptor: i32, settings: *const Settings) -> &'static [u64] {
    // SAFETY: mapped for the life of the process; the file is sealed, so it never changes.
    let words = (unsafe { &(*settings).placement }.words as usize).min(MOST_WORDS);
    if words == 0 {
        return &[];
    }
    let (protection, flags) = (libc::PROT_READ as usize, libc::MAP_SHARED as usize);
    let arguments = [0, words * 8, protection, flags, descriptor as usize, SETTINGS_BYTES];
    // SAFETY: a new mapping; the tracer made the file that long and sealed it.
    let base = unsafe { syscall(libc::SYS_mmap, arguments) };
    if base < 0 {
        return &[];
    }
    // SAFETY: just mapped, never unmapped, and sealed, so it never changes.
    unsafe { core::slice::from_raw_parts(base as *const u64, words) }
}

/// Maps this many slots of a segment, or fewer where there is no room.
fn map_segment(descriptor: i32, geometry: Geometry, most: usize) -> Option<Segment> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
    let mut slots = most;
    while slots > 0 {
        let length = geometry.ring(slots);
        // SAFETY: a new mapping; the tracer made the file that long and sealed its size.
        let base = unsafe {
            syscall(libc::SYS_mmap, [0, length, protection as usize, flags as usize, descriptor as usize, 0])
        };
        if base >= 0 {
            // Nothing of the program's to look for in a core dump (core(5)).
            // SAFETY: advice on the mapping that was just made.
            unsafe {
                syscall(libc::SYS_madvise, [base as usize, length, libc::MADV_DONTDUMP as usize, 0, 0, 0])
            };
            return Some(Segment { base: base as *mut u8, slots });
        }
        slots /= 4;
    }
    None
}

/// Segments together take at most an eighth of what the process may map (RLIMIT_AS,
/// setrlimit(2)), of which some is taken.
fn slots_within(taken: usize, geometry: Geometry) -> usize {
    let room = (sys::address_space_limit() / 8).saturating_sub(taken);
    (room.saturating_sub(geometry.rings()) / (geometry.ring_words * 8)).min(geometry.slots)
}
