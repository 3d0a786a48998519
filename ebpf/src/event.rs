//! Events as `bpf/event.h` lays them out.

use memtrace_wire::arch::page::bytes as page_bytes;

/// One event: 88 bytes in the ring.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Raw {
    ns: u64,
    kind: u32,
    pid: u32,
    tid: u32,
    code: u32,
    values: [u64; 8],
}

/// Pages by what they are, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Of files.
    pub file: u64,
    /// Anonymous memory.
    pub anon: u64,
    /// Swapped out; not resident.
    pub swap: u64,
    /// Shared memory.
    pub shmem: u64,
}

impl Counters {
    pub(crate) fn of_pages(pages: &[u64]) -> Counters {
        let bytes = |index: usize| pages[index].saturating_mul(page_bytes());
        Counters { file: bytes(0), anon: bytes(1), swap: bytes(2), shmem: bytes(3) }
    }

    /// What is in memory.
    pub fn resident(&self) -> u64 {
        self.file + self.anon + self.shmem
    }
}

/// A system call that maps memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Its number on this architecture.
    pub number: u32,
    /// Its arguments.
    pub arguments: [u64; 6],
    /// What it returned.
    pub result: i64,
    /// Where the process's break began.
    pub break_start: u64,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Resident memory has moved by a step, or a process has got memory.
    Resident {
        /// Now.
        now: Counters,
        /// Most bytes since the last such event.
        high: u64,
        /// When that was, as [`Event::ns`].
        high_ns: u64,
    },
    /// Pages were touched for the first time, one after the other.
    Faults {
        /// Address of the first.
        address: u64,
        /// Length.
        bytes: u64,
        /// Faults on them.
        faults: u64,
        /// The kernel touched them on behalf of the process.
        by_kernel: bool,
    },
    /// The process was forked.
    Fork {
        /// Pid of its parent.
        parent: u32,
        /// False while it shares its parent's memory (vfork).
        own_memory: bool,
    },
    /// It executes another program.
    Exec {
        /// The program's short name, cut off at 15 bytes, zeroes after it.
        name: [u8; 16],
    },
    /// An image came to its end, by exec or exit.
    End {
        /// What was resident at its peak.
        at_peak: Counters,
        /// The peak of resident bytes, exact.
        peak: u64,
        /// When, as [`Event::ns`].
        peak_ns: u64,
    },
    /// Faults of the image that ends now.
    Counts {
        /// By its own code.
        faults: u64,
        /// By the kernel on its behalf.
        by_kernel: u64,
        /// Of both, those whose addresses were not reported.
        thinned: u64,
    },
    /// The process ended.
    Exit {
        /// As wait(2) gives it.
        status: u32,
    },
    /// The kernel has chosen it to be killed for lack of memory.
    Victim,
    /// A signal that ends processes was sent to it.
    Signal {
        /// Which.
        number: u32,
        /// Pid of the sender.
        sender: u32,
    },
    /// It had to free memory before it could allocate.
    Reclaim {
        /// How long that took.
        took_ns: u64,
        /// Bytes that were freed.
        bytes: u64,
    },
    /// It made a system call that maps memory.
    Call(Call),
    /// It called a function that [`Kernel::probe`](crate::Kernel::probe) names.
    Function {
        /// The index given there.
        index: u32,
        /// What may be its arguments.
        arguments: [u64; 6],
    },
}

/// Something the kernel saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// CLOCK_MONOTONIC.
    pub ns: u64,
    /// Process, in the first pid namespace.
    pub pid: u32,
    /// Thread that was running: not always one of the process's.
    pub tid: u32,
    /// What.
    pub what: What,
}

impl Event {
    /// From a record of the ring; `None` if it is too short, or of a kind that is not known.
    pub fn from_bytes(bytes: &[u8]) -> Option<Event> {
        let record = bytes.first_chunk::<{ size_of::<Raw>() }>()?;
        // SAFETY: they are as many bytes as a `Raw` has, and any bits are one.
        unsafe { record.as_ptr().cast::<Raw>().read_unaligned() }.decode()
    }
}

impl Raw {
    /// `None` for what this version does not know.
    pub(crate) fn decode(&self) -> Option<Event> {
        let values = &self.values;
        let arguments = [values[0], values[1], values[2], values[3], values[4], values[5]];
        let what = match self.kind {
            1 => What::Resident {
                now: Counters::of_pages(values),
                high: values[4].saturating_mul(page_bytes()),
                high_ns: values[5],
            },
            2 => What::Faults {
                address: values[0].saturating_mul(page_bytes()),
                bytes: values[1].saturating_mul(page_bytes()),
                faults: values[2],
                by_kernel: self.code != 0,
            },
            3 => What::Fork { parent: values[0] as u32, own_memory: values[1] != 0 },
            4 => {
                let mut name = [0; 16];
                name[..8].copy_from_slice(&values[0].to_ne_bytes());
                name[8..].copy_from_slice(&values[1].to_ne_bytes());
                What::Exec { name }
            }
            5 => What::End {
                at_peak: Counters::of_pages(values),
                peak: values[4].saturating_mul(page_bytes()),
                peak_ns: values[5],
            },
            6 => What::Counts { faults: values[0], by_kernel: values[1], thinned: values[2] },
            7 => What::Exit { status: self.code },
            8 => What::Victim,
            9 => What::Signal { number: self.code, sender: values[0] as u32 },
            10 => What::Reclaim { took_ns: values[0], bytes: values[1].saturating_mul(page_bytes()) },
            11 => What::Call(Call {
                number: self.code,
                arguments,
                result: values[6] as i64,
                break_start: values[7],
            }),
            12 => What::Function { index: self.code, arguments },
            _ => return None,
        };
        Some(Event { ns: self.ns, pid: self.pid, tid: self.tid, what })
    }
}
