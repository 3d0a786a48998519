//! Runs a program with the probe and does nothing with its events: what is left is the least that a
//! recording through rings can cost. `scripts/bench` measures it beside memtrace.
//!
//!     cargo build --release --example floor
//!     target/release/examples/floor PROBE COMMAND ...
//!
//! Without call stacks, for programs of one process and no more threads than the first segment has
//! slots. Words are read as memtrace reads them, so that their cache lines travel, and are dropped.

use std::fs::File;
use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process::{Child, Command, ExitCode};
use std::ptr::null_mut;
use std::sync::atomic::{Ordering, fence};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use anyhow::{Context, Result};
use memtrace_wire::handshake::{Hello, SOCKET_VARIABLE, TOKEN_VARIABLE, Wants, Welcome};
use memtrace_wire::layout::{
    ACTIVE, CLOCK_COUNTER, MAGIC, RECORDER_OFFSET, Recorder, SETTINGS_BYTES, Settings, VERSION,
};
use memtrace_wire::placement::Placement;
use memtrace_wire::ring::Reader;
use memtrace_wire::sampling::Sampling;
use rustix::cmsg_space;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

#[allow(dead_code)]
#[path = "../src/record/transport/futex.rs"]
mod futex;
#[allow(dead_code)]
#[path = "../src/record/transport/segment.rs"]
mod segment;

use segment::Segment;

/// As in `record/session/recording.rs`.
const NAP: Duration = Duration::from_millis(5);

fn main() -> Result<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    let usage = "usage: floor PROBE COMMAND ...";
    let (probe, program) = (words.next().context(usage)?, words.next().context(usage)?);
    let (settings, recorder) = settings()?;
    let name = format!("memtrace-floor-{}", std::process::id());
    let socket = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
    let (send, segments) = channel();
    std::thread::spawn(move || {
        for stream in socket.incoming().flatten() {
            if let Ok(segment) = answer(stream, settings.as_fd()) {
                let _ = send.send(segment);
            }
        }
    });
    let mut child = Command::new(program)
        .args(words)
        .env("LD_PRELOAD", probe)
        .env(SOCKET_VARIABLE, format!("{name};"))
        .env(TOKEN_VARIABLE, "0".repeat(32))
        .spawn()?;
    drain(&mut child, &segments, recorder)
}

/// The settings of a recording without stacks, and what the tracer says that it is doing.
fn settings() -> Result<(File, &'static Recorder)> {
    let Sampling { exact_from, mean_bytes } = Sampling::NONE;
    let settings = Settings {
        magic: MAGIC,
        version: VERSION,
        clock: CLOCK_COUNTER,
        stacks_from: exact_from,
        stacks_mean: mean_bytes,
        placement: Placement::default(),
    };
    let file = File::from(memfd_create("settings", MemfdFlags::CLOEXEC)?);
    file.set_len(SETTINGS_BYTES as u64)?;
    file.write_all_at(&settings.encode(), 0)?;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, at an address that the kernel chooses, which is never unmapped.
    let recorder = unsafe {
        let base = mmap(null_mut(), SETTINGS_BYTES, protection, MapFlags::SHARED, &file, 0)?;
        &*base.byte_add(RECORDER_OFFSET).cast()
    };
    Ok((file, recorder))
}

/// Makes the segment that a probe asks for.
fn answer(mut stream: UnixStream, settings: BorrowedFd<'_>) -> Result<Segment> {
    let mut bytes = [0; Hello::BYTES];
    stream.read_exact(&mut bytes)?;
    let wants = Hello::decode(&bytes).map_or(Wants::First, |hello| hello.wants);
    let segment = Segment::create(wants, false, 0)?;
    let theirs = segment.duplicate()?;
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [settings, theirs.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    let welcome = Welcome::encode(true);
    sendmsg(&stream, &[IoSlice::new(&welcome)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(segment)
}

/// Empties all rings until the program has ended.
fn drain(child: &mut Child, segments: &Receiver<Segment>, recorder: &Recorder) -> Result<ExitCode> {
    let mut used: Vec<(Segment, Vec<Option<Reader>>)> = Vec::new();
    let mut sum = 0u64;
    loop {
        recorder.sleeping.store(1, Ordering::SeqCst);
        if let Some(status) = child.try_wait()? {
            std::hint::black_box(sum);
            return Ok(ExitCode::from(status.code().map_or(1, |code| code as u8)));
        }
        used.extend(segments.try_iter().map(|segment| (segment, Vec::new())));
        let before = sum;
        for (segment, readers) in &mut used {
            for (index, slot) in segment.slots() {
                if readers.len() == index {
                    readers.push(None);
                }
                if readers[index].is_none() && slot.state.load(Ordering::Acquire) == ACTIVE {
                    // SAFETY: the only one of the slot, and dropped with the segment.
                    readers[index] = Some(unsafe { segment.reader(index) });
                }
            }
            sum = readers.iter_mut().flatten().fold(sum, |sum, reader| sum.wrapping_add(read(reader)));
        }
        let is_rung = used.iter().any(|(segment, _)| segment.header().rung.swap(0, Ordering::SeqCst) == 1);
        if sum == before && !is_rung {
            futex::wait(&recorder.sleeping, 1, NAP);
        }
        recorder.sleeping.store(0, Ordering::Relaxed);
    }
}

/// Reads a ring and wakes its writer if that waits for room. The sum of its words.
fn read(reader: &mut Reader) -> u64 {
    let mut sum = 0u64;
    let add = |words: &[std::sync::atomic::AtomicU64]| {
        sum = words.iter().fold(sum, |sum, word| sum.wrapping_add(word.load(Ordering::Relaxed)));
    };
    let _ = reader.read(add);
    let waiting = &reader.slot().waiting;
    fence(Ordering::SeqCst);
    if waiting.load(Ordering::Relaxed) == 1 {
        waiting.store(0, Ordering::Relaxed);
        futex::wake(waiting);
    }
    sum
}
