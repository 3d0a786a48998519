//! Synthetic runs: programs whose sizes are known functions of the shape.

use memtrace_analysis::profile::{Block, Event, Profile, Program, Run};
use memtrace_analysis::shape::volume;
use memtrace_trace::rows::{ArrayInfo, Kind, SpanRow};

/// What a synthetic operator does at a shape: (block, bytes) allocates, (block, 0) releases.
pub(crate) type Script = Vec<(usize, u64)>;

/// A steady float32 run of an operator on one array; `small` bytes are live in small blocks
/// throughout.
pub(crate) fn run(operator: &str, shape: &[u64], script: &Script, small: u64) -> Run {
    let mut program = Program::default();
    let (mut live, mut peak) = (0u64, 0u64);
    let mut sizes: std::collections::HashMap<usize, (usize, u64)> = std::collections::HashMap::new();
    for &(name, bytes) in script {
        if bytes > 0 {
            let block = program.blocks.len();
            program.blocks.push(Block { kind: Kind::Malloc, bytes, output: false, site: None, untouched: 0 });
            program.events.push(Event::Alloc(block));
            sizes.insert(name, (block, bytes));
            live += bytes;
        } else if let Some((block, bytes)) = sizes.remove(&name) {
            program.events.push(Event::Free(block));
            live -= bytes;
        }
        peak = peak.max(live);
    }
    let elements = u64::try_from(volume(shape)).unwrap();
    let array = |name: &str| ArrayInfo {
        name: name.into(),
        shape: shape.to_vec(),
        dtype: "<f4".into(),
        layout: "C".into(),
        bytes: 4 * elements,
        ..ArrayInfo::default()
    };
    let span = SpanRow {
        span: 0,
        parent: None,
        process: 0,
        thread: 0,
        operator: operator.into(),
        call: 1,
        start_ns: 0,
        end_ns: Some(1_000_000 + 10 * elements as i64),
        inputs: [array("a")].into(),
        outputs: [array("")].into(),
        params: Default::default(),
        input_bytes: 4 * elements,
        output_bytes: 4 * elements,
        working_peak_bytes: peak + small,
        net_peak_bytes: peak + small,
        allocations: program.blocks.len() as u64,
        ..SpanRow::default()
    };
    Run { span, program, ..Run::default() }
}

/// One profile of runs.
#[allow(dead_code, reason = "not every test file needs it")]
pub(crate) fn profile(runs: Vec<Run>) -> Vec<Profile> {
    vec![Profile::of_runs(runs)]
}

/// Four small shapes.
#[allow(dead_code, reason = "not every test file needs it")]
pub(crate) fn small_shapes() -> Vec<Vec<u64>> {
    vec![vec![38, 41, 43], vec![45, 46, 47], vec![49, 53, 52], vec![58, 59, 55]]
}
