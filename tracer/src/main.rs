//! memtrace: records every allocation a program makes, says which operator needed how much memory, and
//! turns a few small runs into a law, *operator + input shape → peak bytes*.
//!
//! This crate is the command line: it launches and collects (`record`), shows (`report`) and hands traces
//! to `memtrace-analysis` (`laws`). What it prints about itself goes to stderr.

mod arguments;
mod bound;
mod cli;
mod doctor;
mod flamegraph;
mod laws;
mod plan;
mod recommend;
mod recomputed;
mod record;
mod summary;
mod sweep;
mod symbols;
mod top;
mod units;

use std::process::ExitCode;

fn main() -> ExitCode {
    memtrace_trace::quiet_panics();
    cli::main()
}
