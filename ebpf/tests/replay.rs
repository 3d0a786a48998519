//! The decisions of the BPF programs, compiled for user space and fed with streams of events: no
//! kernel is needed.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use proptest::prelude::*;

static REPLAY: LazyLock<(tempfile::TempDir, PathBuf)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("replay");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/replay.c");
    let done = Command::new("cc").args(["-O1", "-Wall", "-o"]).arg(&program).arg(source).status();
    assert!(done.expect("a C compiler").success());
    (folder, program)
});

/// What the program prints for these lines.
fn replay(lines: &[String]) -> Vec<Vec<String>> {
    let mut child = Command::new(&REPLAY.1).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let text = lines.join("\n") + "\ne\n";
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect()
}

fn number(words: &[String], index: usize) -> u64 {
    words[index].parse().unwrap()
}

fn step(shown: u64) -> u64 {
    16 + shown / 128
}

/// Memory that grows and shrinks by little and by much; a counter that is read torn may be below 0.
fn resident() -> impl Strategy<Value = Vec<[i64; 4]>> {
    let counter = || prop_oneof![-3..400i64, 0..100_000i64];
    let counts = (counter(), counter(), 0..3000i64, 0..50i64);
    prop::collection::vec(counts.prop_map(|(file, anon, swap, shmem)| [file, anon, swap, shmem]), 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The peak is the largest sum there was, every larger step is reported, and every maximum
    /// comes with one.
    #[test]
    fn nothing_of_a_peak_is_lost(counts in resident()) {
        let total = |pages: &[i64; 4]| [0, 1, 3].iter().map(|i| pages[*i].max(0) as u64).sum::<u64>();
        let line = |(at, pages): (usize, &[i64; 4])| {
            format!("r {} {} {} {} {}", pages[0], pages[1], pages[2], pages[3], (at + 1) * 10)
        };
        let lines: Vec<String> = counts.iter().enumerate().map(line).collect();
        let said = replay(&lines);
        let (mut shown, mut since, mut begun) = (0, 0, 0);
        for (at, pages) in counts.iter().enumerate() {
            let now = total(pages);
            since = since.max(now);
            let words = &said[at];
            if words[0] == "t" {
                prop_assert_eq!(number(words, 1), now);
                prop_assert_eq!(number(words, 2), since, "the most since the last time");
                let ended = number(words, 3);
                prop_assert!(ended > begun && ended <= (at as u64 + 1) * 10);
                (shown, since, begun) = (now, now, (at as u64 + 1) * 10);
            } else {
                prop_assert!(now.abs_diff(shown) < step(shown), "{now} was not reported after {shown}");
                prop_assert!(since - now < step(since), "a fall from {since} to {now} was not reported");
            }
        }
        let peak = counts.iter().map(total).max().unwrap();
        prop_assert_eq!(number(said.last().unwrap(), 1), peak);
    }

    /// Every fault is in one run or was thinned out, and counted; runs are of
    /// pages that follow each other.
    #[test]
    fn faults_are_reported_or_counted(
        faults in prop::collection::vec((1..3u32, 0..300u64, 1..200u64, 0..2u32, 0..3_000_000u64), 1..40)
    ) {
        let mut ns = 1_000_000_000;
        let (mut lines, mut touched) = (Vec::new(), BTreeSet::new());
        for (pid, first, pages, by_kernel, apart) in faults {
            for page in first..first + pages {
                ns += apart / 100;
                lines.push(format!("f {pid} {pid} {page} {by_kernel} {ns}"));
                touched.insert((u64::from(pid), page));
            }
        }
        let (mut counted, mut reported) = (0, BTreeSet::new());
        for words in replay(&lines) {
            match words[0].as_str() {
                "run" => {
                    let (pid, first, pages) = (number(&words, 1), number(&words, 2), number(&words, 3));
                    prop_assert!((1..=64).contains(&pages));
                    prop_assert!(number(&words, 4) >= pages);
                    reported.extend((first..first + pages).map(|page| (pid, page)));
                    counted += number(&words, 4);
                }
                "thinned" => counted += number(&words, 1),
                _ => {}
            }
        }
        prop_assert_eq!(counted, lines.len() as u64);
        prop_assert_eq!(reported, touched, "so few are not thinned out");
    }
}

/// A gigabyte of memory, page by page: its steps are few.
#[test]
fn steps_are_few() {
    let lines: Vec<String> = (1..=262_144).map(|pages| format!("r 0 {pages} 0 0 {pages}")).collect();
    let reported = replay(&lines).iter().filter(|words| words[0] == "t").count();
    assert!((550..700).contains(&reported), "{reported}");
}

/// One processor has brought a huge page, another a small one; the one that counts first sees both.
#[test]
fn a_huge_page_is_its_processors_own() {
    let counts = |counts: [&str; 2]| {
        let lines = ["f 7 7 1000 0 2000000", counts[0], counts[1]].map(str::to_owned);
        replay(&lines).into_iter().map(|words| words.join(" ")).collect::<Vec<String>>()
    };
    let widened = "run 7 512 512 1";
    assert_eq!(counts(["g 513 0 0 0 0", "g 1 7 0 0 0"]), ["own 512", "own 1", "peak 0", widened]);
    assert_eq!(counts(["g 513 7 0 0 0", "g 512 0 0 0 0"]), ["own 1", "own 512", "peak 0", widened]);
}

/// Before Linux 6.2 a thread's part is in the central sum and not forgotten yet while it reports that.
#[test]
fn a_part_that_is_being_moved_counts_once() {
    let in_sum = |line: &str| replay(&[line.to_owned()])[0].join(" ");
    assert_eq!(in_sum("m 11 65 60 65 60"), "in sum -1");
    assert_eq!(in_sum("m 10 65 60 65 60"), "in sum 0", "it waits");
    assert_eq!(in_sum("m 1 65 60 65 60"), "in sum 0", "another counter");
    assert_eq!(in_sum("m 11 3 60 65 60"), "in sum 0", "as many pages again, by other faults");
    assert_eq!(in_sum("m 11 65 61 65 60"), "in sum 0", "one more since");
}

/// Before Linux 6.2: a thread has taken 40 pages without an event when another one frees 100.
#[test]
fn what_there_was_before_a_fall_is_known() {
    let lines =
        ["s 500 510 0 0 0", "s 400 450 0 0 0", "s 460 460 60 0 0", "s 450 450 -10 0 0"].map(str::to_owned);
    let said: Vec<String> = replay(&lines).into_iter().take(4).map(|words| words.join(" ")).collect();
    assert_eq!(said, ["before 510", "before 550", "before 460", "before 450"]);
}

/// A program that touches pages all over the place: most of its faults are only counted.
#[test]
fn a_storm_of_faults_is_thinned_out() {
    const FAULTS: u64 = 100_000;
    let fault = |at: u64| format!("f 1 1 {} 0 {}", at * 7919 % 1_000_003, 1_000_000_000 + at * 1000);
    let said = replay(&(0..FAULTS).map(fault).collect::<Vec<_>>());
    let runs = said.iter().filter(|words| words[0] == "run").count() as u64;
    let thinned: u64 = said.iter().filter(|words| words[0] == "thinned").map(|words| number(words, 1)).sum();
    assert_eq!(runs + thinned, FAULTS);
    // 4,096 at once, and 16 for each of the 100 ms.
    assert!((5600..=5712).contains(&runs), "{runs}");
}

#[test]
fn only_children_of_the_traced_are_traced() {
    const NOT_OURS: u64 = 0;
    const A_THREAD: u64 = 1;
    const A_PROCESS: u64 = 2;
    const SHARES_MEMORY: u64 = 3;
    let births = [
        ("b 0 10 11 5 6", NOT_OURS),
        ("b 1 10 10 5 5", A_THREAD),
        ("b 1 10 11 5 6", A_PROCESS),
        ("b 1 10 11 5 5", SHARES_MEMORY), // vfork(2)
        ("b 1 10 11 5 0", SHARES_MEMORY), // a kernel thread
    ];
    let said = replay(&births.map(|(line, _)| line.to_string()));
    for (words, (line, expected)) in said.iter().zip(births) {
        assert_eq!(number(words, 1), expected, "{line}");
    }
}
