//! Records of a ring, as perf_event_open(2) lays them out, from bytes that may be anything.

use perf_event_open_sys::bindings as abi;

use crate::arch::registers::{Registers, WORDS};
use crate::data_source::Memory;
use crate::event::Content;

/// A sample, or another record of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// CLOCK_MONOTONIC.
    pub ns: u64,
    /// Of which process, in our pid namespace.
    pub pid: u32,
    /// Of which thread.
    pub tid: u32,
    /// What.
    pub what: What,
}

/// What a record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// An address was touched; what the processor says of it, if it was not a fault.
    Sample {
        /// Where.
        address: u64,
        /// How.
        memory: Option<Memory>,
    },
    /// It is time: what the registers of the thread held.
    Clock(Box<Registers>),
    /// The process was forked.
    Fork {
        /// Its parent's pid.
        parent: u32,
    },
    /// It executes another program now.
    Exec,
    /// This many records found no room.
    Lost(u64),
    /// There were too many at a time: no samples for the rest of a tick.
    Throttled,
}

/// `PERF_SAMPLE_*` of an event.
pub(crate) fn sample_type(content: Content) -> u64 {
    let more = match content {
        Content::Faults => abi::PERF_SAMPLE_ADDR,
        Content::Accesses => abi::PERF_SAMPLE_ADDR | abi::PERF_SAMPLE_WEIGHT | abi::PERF_SAMPLE_DATA_SRC,
        Content::Registers => abi::PERF_SAMPLE_REGS_USER,
    };
    u64::from(abi::PERF_SAMPLE_TID | abi::PERF_SAMPLE_TIME | more)
}

const HEADER: usize = 8;

/// Passes on the records in `bytes`, which begin with one. Returns how many were damaged; what
/// follows an impossible header is lost with it, and counts as one.
pub fn parse(bytes: &[u8], content: Content, mut each: impl FnMut(Record)) -> u64 {
    let mut rest = Words(bytes);
    let mut damaged = 0;
    while !rest.0.is_empty() {
        let (Some(kind), Some(misc_and_size)) = (rest.u32(), rest.u32()) else { return damaged + 1 };
        let (misc, size) = (misc_and_size & 0xffff, (misc_and_size >> 16) as usize);
        let body = size.checked_sub(HEADER).and_then(|length| rest.0.split_at_checked(length));
        let Some((body, after)) = body else { return damaged + 1 };
        rest = Words(after);
        match record(kind, misc, Words(body), content) {
            Some(Some(record)) => each(record),
            Some(None) => {}
            None => damaged += 1,
        }
    }
    damaged
}

/// `None`: too short for what it says it is; `Some(None)`: a record that is not used.
fn record(kind: u32, misc: u32, mut body: Words, content: Content) -> Option<Option<Record>> {
    let record = match kind {
        abi::PERF_RECORD_SAMPLE => {
            let (pid, tid, ns) = (body.u32()?, body.u32()?, body.u64()?);
            let what = match content {
                Content::Faults => What::Sample { address: body.u64()?, memory: None },
                Content::Accesses => {
                    let (address, weight) = (body.u64()?, body.u64()?);
                    What::Sample { address, memory: Some(Memory::decode(body.u64()?, weight)) }
                }
                // A thread of the kernel has no such registers, and a program of 32 bits others.
                Content::Registers if body.u64()? != u64::from(abi::PERF_SAMPLE_REGS_ABI_64) => {
                    return Some(None);
                }
                Content::Registers => What::Clock(Box::new(body.registers()?)),
            };
            Record { ns, pid, tid, what }
        }
        abi::PERF_RECORD_FORK => {
            let (pid, parent, tid) = (body.u32()?, body.u32()?, body.u32()?);
            let (_, ns) = (body.u32()?, body.u64()?);
            if pid == parent {
                return Some(None); // a thread
            }
            Record { ns, pid, tid, what: What::Fork { parent } }
        }
        abi::PERF_RECORD_COMM => {
            let record = body.trailer(What::Exec)?;
            return Some((misc & abi::PERF_RECORD_MISC_COMM_EXEC != 0).then_some(record));
        }
        abi::PERF_RECORD_LOST => {
            let (_, lost) = (body.u64()?, body.u64()?);
            body.trailer(What::Lost(lost))?
        }
        abi::PERF_RECORD_THROTTLE => body.trailer(What::Throttled)?,
        _ => return Some(None),
    };
    Some(Some(record))
}

/// What is left to read.
#[derive(Clone, Copy)]
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn u32(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_ne_bytes(*word))
    }

    fn u64(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*word))
    }

    fn registers(&mut self) -> Option<Registers> {
        let mut words = [0; WORDS];
        for word in &mut words {
            *word = self.u64()?;
        }
        Some(Registers::of(words))
    }

    /// Process and time, at the end of every record that is no sample (`sample_id_all`).
    fn trailer(&self, what: What) -> Option<Record> {
        let (_, end) = self.0.split_last_chunk::<16>()?;
        let mut end = Words(end);
        let (pid, tid, ns) = (end.u32()?, end.u32()?, end.u64()?);
        Some(Record { ns, pid, tid, what })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A record in bytes, as a kernel would write it.
    pub(crate) fn bytes(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
        let size = (HEADER + body.len()) as u16;
        [&kind.to_ne_bytes()[..], &misc.to_ne_bytes(), &size.to_ne_bytes(), body].concat()
    }

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn pair(low: u32, high: u32) -> u64 {
        u64::from(low) | u64::from(high) << 32
    }

    pub(crate) fn written(record: &Record, content: Content) -> Vec<u8> {
        let id = [pair(record.pid, record.tid), record.ns];
        let with_id = |body: &[u64]| words(&[body, &id].concat());
        match &record.what {
            What::Sample { address, memory } => {
                let mut body = words(&[id[0], id[1], *address]);
                if content == Content::Accesses {
                    let memory = memory.expect("accesses have it");
                    body.extend(words(&[memory.latency, u64::from(abi::PERF_MEM_OP_LOAD)]));
                }
                bytes(abi::PERF_RECORD_SAMPLE, 2, &body)
            }
            What::Clock(registers) => {
                let mut body = vec![id[0], id[1], u64::from(abi::PERF_SAMPLE_REGS_ABI_64)];
                body.extend(registers.words());
                bytes(abi::PERF_RECORD_SAMPLE, 2, &words(&body))
            }
            What::Fork { parent } => {
                let body = [pair(record.pid, *parent), pair(record.tid, *parent), record.ns];
                bytes(abi::PERF_RECORD_FORK, 0, &with_id(&body))
            }
            What::Exec => {
                let body = with_id(&[id[0], u64::from_ne_bytes(*b"python3\0")]);
                bytes(abi::PERF_RECORD_COMM, abi::PERF_RECORD_MISC_COMM_EXEC as u16, &body)
            }
            What::Lost(lost) => bytes(abi::PERF_RECORD_LOST, 0, &with_id(&[7, *lost])),
            What::Throttled => bytes(abi::PERF_RECORD_THROTTLE, 0, &with_id(&[record.ns, 1, 2])),
        }
    }

    fn sample(content: Content) -> BoxedStrategy<What> {
        let source = u64::from(abi::PERF_MEM_OP_LOAD);
        match content {
            Content::Faults => {
                any::<u64>().prop_map(|address| What::Sample { address, memory: None }).boxed()
            }
            Content::Accesses => any::<(u64, u64)>()
                .prop_map(move |(address, latency)| What::Sample {
                    address,
                    memory: Some(Memory::decode(source, latency)),
                })
                .boxed(),
            Content::Registers => any::<(u64, [u64; Registers::GENERAL])>()
                .prop_map(|(ip, general)| What::Clock(Box::new(Registers { ip, general })))
                .boxed(),
        }
    }

    fn content() -> impl Strategy<Value = Content> {
        prop::sample::select(vec![Content::Faults, Content::Accesses, Content::Registers])
    }

    pub(crate) fn records(content: Content) -> impl Strategy<Value = Vec<Record>> {
        let what = prop_oneof![
            4 => sample(content),
            1 => any::<u32>().prop_map(|parent| What::Fork { parent }),
            1 => Just(What::Exec),
            1 => any::<u64>().prop_map(What::Lost),
            1 => Just(What::Throttled),
        ];
        let record = (any::<(u64, u32, u32)>(), what)
            .prop_map(|((ns, pid, tid), what)| Record { ns, pid, tid, what })
            .prop_filter("a thread", |record| record.what != What::Fork { parent: record.pid });
        prop::collection::vec(record, 0..40)
    }

    fn parsed(bytes: &[u8], content: Content) -> (Vec<Record>, u64) {
        let mut records = Vec::new();
        let damaged = parse(bytes, content, |record| records.push(record));
        (records, damaged)
    }

    proptest! {
        /// Records come back, whatever else a kernel puts between them.
        #[test]
        fn what_is_written_is_read(
            (content, records) in content().prop_flat_map(|content| (Just(content), records(content))),
            others in prop::collection::vec(20..200u32, 0..40),
        ) {
            let mut stream = Vec::new();
            for (at, record) in records.iter().enumerate() {
                stream.extend(written(record, content));
                if let Some(kind) = others.get(at) {
                    stream.extend(bytes(*kind, 0, &vec![0xa5; *kind as usize % 7 * 8]));
                }
            }
            prop_assert_eq!(parsed(&stream, content), (records, 0));
        }

        /// A record that is too short is counted, and those around it are read.
        #[test]
        fn a_short_record_costs_itself_alone(records in records(Content::Faults), kind in 1..10u32, length in 0..2usize) {
            let short = bytes(kind, abi::PERF_RECORD_MISC_COMM_EXEC as u16, &vec![0; length * 4]);
            let stream: Vec<u8> = records.iter().flat_map(|record| written(record, Content::Faults)).collect();
            let looked_for = [2, 3, 5, 7, 9].contains(&kind);
            prop_assert_eq!(parsed(&[&short[..], &stream].concat(), Content::Faults), (records, u64::from(looked_for)));
        }

        /// Cut anywhere, what was whole is read.
        #[test]
        fn a_cut_stream_loses_its_last_record(records in records(Content::Faults), cut in any::<prop::sample::Index>()) {
            let lengths = records.iter().scan(0, |end, record| {
                *end += written(record, Content::Faults).len();
                Some(*end)
            });
            let lengths: Vec<usize> = lengths.collect();
            let stream: Vec<u8> = records.iter().flat_map(|record| written(record, Content::Faults)).collect();
            let cut = cut.index(stream.len() + 1);
            let whole = lengths.iter().filter(|end| **end <= cut).count();
            let clean = cut == 0 || lengths.contains(&cut);
            prop_assert_eq!(parsed(&stream[..cut], Content::Faults), (records[..whole].to_vec(), u64::from(!clean)));
        }

        #[test]
        fn no_bytes_can_hurt(noise in prop::collection::vec(any::<u8>(), 0..400), content in content()) {
            parsed(&noise, content);
        }
    }

    #[test]
    fn threads_are_no_processes() {
        let thread = Record { ns: 1, pid: 7, tid: 8, what: What::Fork { parent: 7 } };
        assert_eq!(parsed(&written(&thread, Content::Faults), Content::Faults), (vec![], 0));
    }

    #[test]
    fn a_name_that_is_set_is_no_exec() {
        let body = words(&[pair(7, 7), u64::from_ne_bytes(*b"worker\0\0"), pair(7, 7), 1]);
        assert_eq!(parsed(&bytes(abi::PERF_RECORD_COMM, 0, &body), Content::Faults), (vec![], 0));
    }
}
