//! memtrace: records every allocation a program makes, says which operator needed how much memory,
//! and turns a few small runs into a law, *operator + input shape → peak bytes*.
//!
//! This crate is the command line: `commands` has one module per subcommand, `record` is the
//! recording itself, `symbols` names native frames, `live_protocol` is what a recording sends
//! to its clients, and `signals` sets masks and handlers.

#![cfg_attr(feature = "fuzz", no_main, allow(dead_code, unused_imports))]

mod commands;
#[cfg(any(test, feature = "fuzz"))]
mod fuzz;
#[cfg(any(test, feature = "fuzz"))]
mod fuzz_inputs;
mod live_protocol;
mod record;
mod signals;
mod symbols;
mod terminal;
mod units;

use std::process::ExitCode;

#[cfg(not(feature = "fuzz"))]
fn main() -> ExitCode {
    std::panic::set_hook(Box::new(|info| {
        terminal::say(&format!("{info}; this is a defect of memtrace, please report it"));
    }));
    memtrace_trace::quiet_panics();
    commands::main()
}
