//! What can be sampled.

use perf_event_open_sys::bindings as abi;

/// When a sample is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// At every n-th event of a thread.
    Period(u64),
    /// About this many times a second of a thread's running time.
    Frequency(u64),
}

/// What a sample of an event says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// The address of a page fault.
    Faults,
    /// The address of a load or store, and what the processor says of it.
    Accesses,
    /// Registers of the program.
    Registers,
}

/// An event of perf_event_open(2), as /sys describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// As perf(1) writes it: `page-faults`, `cpu/mem-loads/`.
    pub name: String,
    /// When it is sampled.
    pub rate: Rate,
    /// `type` of the unit.
    pub(crate) unit: u32,
    /// `config`, `config1`, `config2`.
    pub(crate) config: [u64; 3],
    /// The event that must lead its group (`mem-loads-aux` from Sapphire Rapids and Alder Lake on:
    /// without it the processor reports no latencies, and the kernel refuses).
    pub(crate) leader: Option<[u64; 3]>,
    /// `config2` that leaves the kernel out, for units that cannot do it
    /// themselves (IBS, Linux 6.14).
    pub(crate) filter: u64,
    /// How near the sample is to the instruction, 0 to 3.
    pub(crate) precise: u8,
    /// What its samples say.
    pub(crate) content: Content,
    /// Processors it is for; empty: all.
    pub(crate) cpus: Vec<u32>,
}

impl Event {
    /// A page fault of a program, at every n-th of each of its threads.
    pub fn page_faults(period: u64) -> Event {
        Event {
            name: "page-faults".into(),
            rate: Rate::Period(period),
            unit: abi::PERF_TYPE_SOFTWARE,
            config: [u64::from(abi::PERF_COUNT_SW_PAGE_FAULTS), 0, 0],
            leader: None,
            filter: 0,
            precise: 0,
            content: Content::Faults,
            cpus: Vec::new(),
        }
    }

    /// The time that each thread runs code of its program, at this many moments a second of it.
    pub fn clock(hertz: u64) -> Event {
        Event {
            name: "cpu-clock".into(),
            // It counts nanoseconds. No limit of frequencies refuses a period.
            rate: Rate::Period(1_000_000_000 / hertz.max(1)),
            config: [u64::from(abi::PERF_COUNT_SW_CPU_CLOCK), 0, 0],
            content: Content::Registers,
            ..Event::page_faults(1)
        }
    }
}
