//! The values that options of `record` may have, on the command line.

use clap::ValueEnum;
use clap::builder::PossibleValue;

use crate::record::{Accesses, Collecting, Cuda, Source, Stacks, Wait};

/// Names and explains the variants of a plain type.
macro_rules! values {
    ($type:ident: $($variant:ident $name:literal $help:literal,)+) => {
        impl ValueEnum for $type {
            fn value_variants<'a>() -> &'a [Self] {
                &[$($type::$variant),+]
            }

            fn to_possible_value(&self) -> Option<PossibleValue> {
                Some(match self {
                    $($type::$variant => PossibleValue::new($name).help($help),)+
                })
            }
        }
    };
}

values! { Wait:
    Main "main" "Until the command has ended; children that outlive it are given two seconds",
    All "all" "Until all its children have ended too",
}

values! { Collecting:
    Observe "observe" "Watch what the program's own collections free; change nothing",
    Eager "eager" "Collect as well, whenever there may be garbage",
}

values! { Stacks:
    Auto "auto" "Large ones; of small blocks a sample, without bias",
    All "all" "All",
    None "none" "None",
}

values! { Source:
    Auto "auto" "BPF programs where they are allowed, else /proc",
    Ebpf "ebpf" "BPF programs, or no recording",
    Proc "proc" "/proc: sampled sizes, and VmHWM",
}

values! { Accesses:
    Off "off" "None",
    Hardware "hardware" "Loads and stores, by the processor (PEBS, IBS), where it can",
    Clock "clock" "The instructions that take time, 1,000 times a second of each thread: wherever perf events are allowed",
    Faults "faults" "The first touch of each page only, by its fault: everywhere, at the cost of a third of a fault",
}

values! { Cuda:
    Auto "auto" "Where the dynamic linker finds a driver",
    Off "off" "Not at all",
}
