//! `place calibrate`: what a page costs on its way to swap and back.

use std::path::PathBuf;
use std::process::ExitCode;
use std::ptr::null_mut;

use anyhow::{Context, Result, bail};
use clap::Args;
use memtrace_analysis::placement::swap::{Content, MACHINE_VERSION, Machine};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::time::{ClockId, clock_gettime};

use super::tier;
use crate::commands::output;
use crate::terminal::{Progress, print};

const PAGE: usize = 4096;
/// Pages that are moved at a time.
const PAGES: usize = 1024;
/// The median of so many times is taken.
const TIMES: usize = 5;

/// What the n-th word of the memory is.
type Words = fn(usize) -> u64;

/// Arguments of `place calibrate`.
#[derive(Args)]
pub struct Calibrate {
    /// Where to write the costs
    #[arg(short, long, value_name = "MACHINE.json", default_value = "machine.json")]
    output: PathBuf,
}

/// `memtrace place calibrate`
pub fn run(arguments: &Calibrate) -> Result<ExitCode> {
    output::check(&arguments.output, false)?;
    let machine = measured()?;
    output::write(&arguments.output, machine.to_json().as_bytes())?;
    if !output::is_standard(&arguments.output) {
        let mut text =
            "microseconds a page   to swap   to swap, unchanged   back ahead   back by fault\n".to_owned();
        for Content { name, written, clean, back, fault } in &machine.contents {
            text += &format!("  {name:18} {written:9.1} {clean:20.1} {back:12.1} {fault:15.1}\n");
        }
        text += &format!("  a new page         {:9.1}\n", machine.fresh);
        print(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The costs of this machine.
///
/// # Errors
/// There is no swap, or the kernel cannot move pages on request (before Linux 5.14).
pub fn measured() -> Result<Machine> {
    tier::check_swap()?;
    let _progress = Progress::start("measuring swap");
    let contents: [(&str, Words); 3] = [
        ("one value", |_| 0x3ff0_0000_0000_0000),
        // As 16-bit integers have it: most bytes differ little.
        ("small integers", |n| (n as u64 * 7 % 1000) | (n as u64 * 13 % 1000) << 16 | (n as u64 % 251) << 32),
        ("random", |n| {
            let mut word = (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            word ^= word >> 31;
            word.wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ word >> 27
        }),
    ];
    let contents = contents.into_iter().map(|(name, word)| content(name, word)).collect::<Result<_>>()?;
    let fresh = (0..TIMES).map(|_| Memory::new().map(|memory| memory.faulted())).collect::<Result<_>>()?;
    Ok(Machine { machine_version: MACHINE_VERSION, contents, fresh: median(fresh) })
}

fn content(name: &str, word: Words) -> Result<Content> {
    let mut memory = Memory::new()?;
    memory.fill(word);
    let [mut written, mut clean, mut back, mut fault] = [const { Vec::new() }; 4];
    for _ in 0..TIMES {
        memory.fill(word);
        written.push(memory.advised(&[Advice::LinuxPageOut])?);
        check_moved()?;
        back.push(memory.advised(&[Advice::WillNeed, Advice::LinuxPopulateRead, Advice::LinuxCold])?);
        clean.push(memory.advised(&[Advice::LinuxPageOut])?);
        fault.push(memory.faulted());
    }
    let [written, clean, back, fault] = [written, clean, back, fault].map(median);
    Ok(Content { name: name.into(), written, clean, back, fault })
}

/// Refuses where pages stay in memory that were to go to swap.
fn check_moved() -> Result<()> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmSwap:")).unwrap_or_default();
    let kib: usize = line.trim().trim_end_matches(" kB").parse().unwrap_or(0);
    if kib * 1024 < PAGES * PAGE / 2 {
        bail!("pages do not go to swap here: it is full, or this control group may have none");
    }
    Ok(())
}

fn median(mut costs: Vec<f64>) -> f64 {
    costs.sort_by(f64::total_cmp);
    costs[costs.len() / 2]
}

/// Memory to measure with.
struct Memory(*mut u64);

impl Memory {
    fn new() -> Result<Memory> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping, which no other code knows, and advice on it.
        unsafe {
            let base = mmap_anonymous(null_mut(), PAGES * PAGE, protection, flags)
                .context("there is no memory to measure swap with")?;
            let memory = Memory(base.cast());
            madvise(base, PAGES * PAGE, Advice::LinuxNoHugepage)?;
            Ok(memory)
        }
    }

    fn fill(&mut self, word: Words) {
        for index in 0..PAGES * PAGE / 8 {
            // SAFETY: within the mapping.
            unsafe { self.0.add(index).write_volatile(word(index)) };
        }
    }

    /// What advice costs for a page, microseconds of CPU time.
    fn advised(&self, all: &[Advice]) -> Result<f64> {
        let begin = cpu_micros();
        for advice in all {
            // SAFETY: advice that leaves what pages have in them as it is.
            let advised = unsafe { madvise(self.0.cast(), PAGES * PAGE, *advice) };
            if let Err(error) = advised {
                bail!("pages cannot be moved to swap on request here: {error}; Linux 5.14 or later can");
            }
        }
        Ok((cpu_micros() - begin) / PAGES as f64)
    }

    /// What it costs to write a word of each page.
    fn faulted(&self) -> f64 {
        let begin = cpu_micros();
        for page in 0..PAGES {
            // SAFETY: within the mapping.
            unsafe { self.0.add(page * PAGE / 8).write_volatile(page as u64) };
        }
        (cpu_micros() - begin) / PAGES as f64
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's alone.
        let _ = unsafe { munmap(self.0.cast(), PAGES * PAGE) };
    }
}

fn cpu_micros() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}
