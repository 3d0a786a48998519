//! `PERF_SAMPLE_DATA_SRC`: what an access was and where its data came from (`union
//! perf_mem_data_src`, linux/perf_event.h).

use perf_event_open_sys::bindings as abi;

/// What an instruction did to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// It read.
    Load,
    /// It wrote.
    Store,
}

/// What the processor says of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Load or store; `None` where it was neither or is not known.
    pub operation: Option<Operation>,
    /// Where the data was found: `L1`, `L2`, `L3`, `RAM`, `remote RAM`, …;
    /// `None` where that is not known.
    pub level: Option<&'static str>,
    /// What it cost in cycles, as far as the unit measures that; 0 where it does not.
    pub latency: u64,
}

impl Memory {
    pub(crate) fn decode(source: u64, weight: u64) -> Memory {
        Memory { operation: operation(source), level: level(source), latency: weight }
    }
}

fn operation(source: u64) -> Option<Operation> {
    const LOAD: u64 = abi::PERF_MEM_OP_LOAD as u64;
    const STORE: u64 = abi::PERF_MEM_OP_STORE as u64;
    match source & (LOAD | STORE) {
        LOAD => Some(Operation::Load),
        // One that does both (a locked addition) is reported as both; it writes.
        STORE | 6 => Some(Operation::Store),
        _ => None,
    }
}

fn level(source: u64) -> Option<&'static str> {
    let remote = source >> abi::PERF_MEM_REMOTE_SHIFT & 1 != 0;
    let name = match (source >> abi::PERF_MEM_LVLNUM_SHIFT) as u32 & 0xf {
        abi::PERF_MEM_LVLNUM_L0 => "L0",
        abi::PERF_MEM_LVLNUM_L1 => "L1",
        abi::PERF_MEM_LVLNUM_LFB => "fill buffer",
        abi::PERF_MEM_LVLNUM_L2 | abi::PERF_MEM_LVLNUM_L2_MHB => "L2",
        abi::PERF_MEM_LVLNUM_L3 => "L3",
        abi::PERF_MEM_LVLNUM_L4 => "L4",
        abi::PERF_MEM_LVLNUM_MSC => "memory-side cache",
        abi::PERF_MEM_LVLNUM_ANY_CACHE if remote => "remote cache",
        abi::PERF_MEM_LVLNUM_ANY_CACHE => "cache",
        abi::PERF_MEM_LVLNUM_RAM if remote => "remote RAM",
        abi::PERF_MEM_LVLNUM_RAM => "RAM",
        abi::PERF_MEM_LVLNUM_PMEM => "persistent memory",
        abi::PERF_MEM_LVLNUM_CXL => "CXL",
        abi::PERF_MEM_LVLNUM_UNC => "uncached",
        abi::PERF_MEM_LVLNUM_IO => "I/O",
        _ => return older_level(source),
    };
    Some(name)
}

/// The only bits that kernels before 4.14 have.
fn older_level(source: u64) -> Option<&'static str> {
    let bits = (source >> abi::PERF_MEM_LVL_SHIFT) as u32;
    let names = [
        (abi::PERF_MEM_LVL_L1, "L1"),
        (abi::PERF_MEM_LVL_LFB, "fill buffer"),
        (abi::PERF_MEM_LVL_L2, "L2"),
        (abi::PERF_MEM_LVL_L3, "L3"),
        (abi::PERF_MEM_LVL_LOC_RAM, "RAM"),
        (abi::PERF_MEM_LVL_REM_RAM1 | abi::PERF_MEM_LVL_REM_RAM2, "remote RAM"),
        (abi::PERF_MEM_LVL_REM_CCE1 | abi::PERF_MEM_LVL_REM_CCE2, "remote cache"),
        (abi::PERF_MEM_LVL_IO, "I/O"),
        (abi::PERF_MEM_LVL_UNC, "uncached"),
    ];
    // A miss names the level that did not have it.
    let hit = bits & abi::PERF_MEM_LVL_HIT != 0;
    names.into_iter().find(|(bit, _)| hit && bits & bit != 0).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_is_what_the_processor_says() {
        let l2_load = u64::from(abi::PERF_MEM_OP_LOAD)
            | u64::from(abi::PERF_MEM_LVL_HIT | abi::PERF_MEM_LVL_L2) << abi::PERF_MEM_LVL_SHIFT;
        let remote_store = u64::from(abi::PERF_MEM_OP_STORE)
            | u64::from(abi::PERF_MEM_LVLNUM_RAM) << abi::PERF_MEM_LVLNUM_SHIFT
            | 1 << abi::PERF_MEM_REMOTE_SHIFT;
        let old = Memory::decode(l2_load, 17);
        assert_eq!((old.operation, old.level, old.latency), (Some(Operation::Load), Some("L2"), 17));
        let new = Memory::decode(remote_store, 0);
        assert_eq!((new.operation, new.level), (Some(Operation::Store), Some("remote RAM")));
        let nothing = Memory::decode(u64::from(abi::PERF_MEM_OP_NA), 0);
        assert_eq!((nothing.operation, nothing.level), (None, None));
    }
}
