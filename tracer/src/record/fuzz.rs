//! What recorded processes, the kernel and /proc may say, as targets of `crate::fuzz`.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use memtrace_analysis::report::json::{Listed, report};
use memtrace_perf::{Content, Function, Operand, Registers};
use memtrace_trace::weights::SiteWeights;
use memtrace_trace::{Meta, Trace, TraceWriter};
use memtrace_wire::device::DeviceRecord;
use memtrace_wire::handshake::{Hello, Welcome, parse_token};
use memtrace_wire::layout::Slot;
use memtrace_wire::ring::Reader;

use super::fold::{Fold, Keep, Placements, Setup};
use super::procfs;
use super::sites::lines;
use super::transport::backlog::Backlog;
use super::transport::clock::Clock;
use super::transport::drain::{RingUsage, Sink, Writer};
use crate::fuzz_inputs::{Draw, Scratch};
use crate::live_protocol::Request;

/// No process has it: more than the kernel's PID_MAX_LIMIT.
const PID: u32 = 1 << 30;

/// Words of the ring.
const RING_WORDS: usize = 1 << 12;

/// A ring whose writer writes anything, its position too, one piece after the other.
pub fn ring(bytes: &[u8]) {
    thread_local!(static WORDS: Vec<AtomicU64> = (0..RING_WORDS).map(|_| AtomicU64::new(0)).collect());
    WORDS.with(|words| {
        // SAFETY: all zeroes is a free slot.
        let slot = unsafe { std::mem::MaybeUninit::<Slot>::zeroed().assume_init() };
        // SAFETY: both outlive the reader, which is the only one.
        let mut reader = unsafe { Reader::new(&raw const slot, words.as_ptr(), RING_WORDS) };
        let mut backlog = Backlog::new(0, 2);
        let mut draw = Draw(bytes);
        let (mut head, mut last) = (0u64, 0);
        while !draw.0.is_empty() {
            for _ in 0..draw.byte() {
                words[head as usize % RING_WORDS].store(draw.word(), Ordering::Relaxed);
                head = head.wrapping_add(1);
            }
            if draw.byte() == 255 {
                head = draw.word();
            }
            slot.head.store(head, Ordering::Release);
            let _ = reader.read(|words| {
                backlog.append(words);
            });
            let until = draw.maybe(Draw::word).unwrap_or(u64::MAX);
            last = take(&mut backlog, until, last);
        }
        take(&mut backlog, u64::MAX, last);
        assert!(backlog.is_empty());
    });
}

/// Takes what is not later than `until` out; stamps never go back.
fn take(backlog: &mut Backlog, until: u64, mut last: u64) -> u64 {
    backlog.last_stamp();
    while backlog.front_stamp().is_ok_and(|stamp| stamp.is_some_and(|stamp| stamp <= until)) {
        let stamp = match backlog.next_pair_until(until) {
            Some(pair) => pair.stamp,
            None => {
                let (event, text) = backlog.next_until(until).expect("the stamp was not later");
                let _ = DeviceRecord::read(text);
                event.stamp
            }
        };
        assert!(stamp >= last);
        last = stamp;
    }
    last
}

/// Two processes write anything: there is a trace all the same, and a report of it.
pub fn events(bytes: &[u8]) {
    let folder = Scratch::new();
    let path = folder.path().join("trace");
    let (_, arrivals) = mpsc::channel();
    let mut fold = Fold::new(Setup {
        clock: Clock::start(false),
        out: TraceWriter::create(&path).expect("a trace"),
        arrivals,
        token: "0".repeat(32),
        begun: 0,
        weights: SiteWeights::default(),
        keep: Keep::default(),
        whole: None,
        placements: Placements::default(),
        watches_garbage: true,
        model: None,
    });
    fold.set_root(PID, "program");
    let mut draw = Draw(bytes);
    let cut = usize::from(draw.byte()) * 8;
    let (first, second) = draw.0.split_at(cut.min(draw.0.len()));
    let writers = [(PID, false, first), (PID + 1, true, second)];
    for (pid, forked, bytes) in writers {
        fold_events(&mut fold, pid, forked, bytes);
    }
    for index in 0..fold.processes_met() {
        fold.end_process(index, u64::MAX);
        fold.write_peak(index);
    }
    let rows = fold.process_rows();
    let meta = Meta { complete: true, ..Meta::default() };
    fold.write_tables(&rows, &meta, true);
    assert!(fold.take_failure().is_none());
    let (out, _) = fold.into_parts();
    out.finish(&meta).expect("it can be written");
    let trace = Trace::open(&path).expect("it can be read");
    report(&trace, Listed { all_spans: true, stacks: true }).expect("it can be reported");
}

fn fold_events(fold: &mut Fold, pid: u32, forked: bool, bytes: &[u8]) {
    let (ppid, parent_image) = if forked { (PID, 1) } else { (0, 0) };
    let image = u64::from(pid - PID) + 1;
    let writer = fold.writer(Writer { pid, tid: pid, ppid, image, parent_image, claimed: image, forked });
    let mut backlog = Backlog::new(image, 1);
    let words = bytes.as_chunks::<8>().0.iter().map(|word| AtomicU64::new(u64::from_le_bytes(*word)));
    backlog.append(&words.collect::<Vec<_>>());
    while backlog.front_stamp().is_ok_and(|stamp| stamp.is_some()) {
        fold.heap_events(writer, &mut backlog, u64::MAX, 0);
        if let Some((event, text)) = backlog.next_until(u64::MAX) {
            fold.event(writer, event, text);
        }
    }
    fold.writer_gone(writer, RingUsage::default());
}

/// What comes over the socket before memory is shared.
pub fn hello(bytes: &[u8]) {
    let _ = parse_token(bytes);
    let _ = DeviceRecord::read(bytes);
    if let Some(welcome) = bytes.first_chunk::<{ Welcome::BYTES }>() {
        Welcome::accepts(welcome);
    }
    let Some(hello) = bytes.first_chunk::<{ Hello::BYTES }>() else { return };
    let said = Hello::decode(hello);
    assert!(said.is_none_or(|said| said.encode() == *hello));
    assert!(said.is_none() || Request::decode(hello).is_none());
}

/// What BPF programs and perf events report.
pub fn kernel(bytes: &[u8]) {
    if let Some(event) = memtrace_ebpf::Event::from_bytes(bytes) {
        drop(format!("{event:?}"));
    }
    for content in [Content::Faults, Content::Accesses, Content::Registers] {
        let mut records = 0;
        let damaged = memtrace_perf::parse(bytes, content, |_| records += 1);
        assert!(8 * (records + damaged) <= bytes.len() as u64 + 8, "each has a header");
    }
    let function = Function::new(0, bytes.to_vec());
    for ip in 0..bytes.len().min(64) as u64 {
        let place = match function.before(ip) {
            Some(Operand::Memory { place, .. }) => place,
            _ => None,
        };
        place.map(|place| place.address(&Registers { ip, general: [u64::MAX; Registers::GENERAL] }, ip));
    }
}

/// Line tables of Python code.
pub fn python_lines(bytes: &[u8]) {
    let mut draw = Draw(bytes);
    let (first_line, offset) = (draw.word() as u32, draw.word() as i32);
    for minor in 8..16 {
        let _ = lines::line(minor, draw.0, first_line, offset);
        let _ = lines::line(minor, draw.0, first_line, offset % 64);
    }
}

/// Files of /proc.
pub fn procfs(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    procfs::maps::parse(&text).for_each(|listed| {
        listed.bytes();
    });
    procfs::image_memory::mappings(&text, |path| path.len() as u64 * 4096);
    let (first, second) = text.split_once('\0').unwrap_or((&text, &text));
    let _ = procfs::cgroup::locate(first, second);
    let _ = procfs::resident::parse_status(&text);
    let _ = procfs::limits::parse_meminfo(&text);
    let _ = procfs::environment::contains(bytes, "0123");
    let _ = procfs::executable::is_secure(bytes);
    let _ = procfs::status::command_line(bytes);
}

/// An executable, as it is looked at when a process has begun.
pub fn executable(path: &Path) {
    let _ = procfs::executable::preloading(path);
    let _ = procfs::image_memory::zeroed_by(path);
    let _ = procfs::modules::build_id(&path.to_string_lossy());
}
