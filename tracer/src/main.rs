//! memtrace: records every allocation a program makes, says which operator needed how much memory, and
//! turns a few small runs into a law, *operator + input shape → peak bytes*.
//!
//! This crate is the command line: it launches and collects (`record`), shows (`report`) and hands traces
//! to `memtrace-analysis` (`laws`). What it prints about itself goes to stderr.

mod cli;
mod doctor;
mod flamegraph;
mod laws;
mod recomputed;
mod record;
mod summary;
mod sweep;
mod symbols;
mod top;
mod units;

use std::process::ExitCode;

fn main() -> ExitCode {
    quiet_panics_of_the_parquet_reader();
    cli::main()
}

/// The Parquet reader panics on some damaged files. `memtrace-trace` catches that and returns an error,
/// which is what the user is to see; the panic's own message is for other panics.
fn quiet_panics_of_the_parquet_reader() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let file = info.location().map_or("", |location| location.file());
        if !["/parquet-", "/arrow-"].iter().any(|part| file.contains(part)) {
            default(info);
        }
    }));
}
