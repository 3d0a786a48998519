//! Several traces in one picture: of the ranks of a job, the tasks of an array, a campaign. They are
//! read one after the other; what is kept of each is its time, and what is largest.

mod gathered;
mod nodes;
mod of_trace;
mod spread;

use std::path::PathBuf;

use memtrace_trace::Trace;

use self::gathered::Gathered;
use self::of_trace::OfTrace;
use crate::error::Error;
use crate::report::document::{Ranks, Several};

/// The picture of the traces in these directories.
///
/// # Errors
/// None of them can be read.
pub fn several(directories: &[PathBuf]) -> Result<Several, Error> {
    let mut gathered = Gathered::default();
    for directory in directories {
        let trace = Trace::open(directory).map_err(Error::from);
        match trace.and_then(|trace| Ok((OfTrace::read(&trace)?, trace))) {
            Ok((found, trace)) => gathered.add(&trace, found)?,
            Err(error) if directories.len() == 1 => return Err(error),
            Err(error) => gathered.leave_out(&error),
        }
    }
    gathered.finish()
}

/// The ranks of one trace; `None` if it has fewer than two.
///
/// # Errors
/// A table cannot be read.
pub fn ranks(trace: &Trace) -> Result<Option<Ranks>, Error> {
    let ranks = trace.processes()?.into_iter().filter_map(|process| Some((process.job, process.rank?)));
    if ranks.collect::<std::collections::BTreeSet<_>>().len() < 2 {
        return Ok(None);
    }
    let mut gathered = Gathered::default();
    gathered.add(trace, OfTrace::read(trace)?)?;
    gathered.finish().map(|several| Some(several.ranks))
}
