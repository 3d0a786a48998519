//! Where memory was allocated, in words, and what the place means for a law.

use std::collections::{HashMap, HashSet};

use memtrace_trace::Trace;
use serde::{Deserialize, Serialize};

use super::choices::choice;
use super::stacks::{by_site, place};
use crate::error::Error;

/// Where sites are, by id; one that the trace does not have is left out.
///
/// # Errors
/// A table cannot be read.
pub fn places(trace: &Trace, wanted: impl Iterator<Item = u64>) -> Result<HashMap<u64, String>, Error> {
    by_site(trace, &wanted.collect(), place)
}

/// Where a site is, and what its call stack means for a law.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// As [`place`] has it.
    pub text: String,
    /// What a library function on the way chooses by the lengths of its arguments.
    pub choice: Option<String>,
}

/// The same with what the call stacks mean for a law.
///
/// # Errors
/// A table cannot be read.
pub fn of_law(trace: &Trace, wanted: &HashSet<u64>) -> Result<HashMap<u64, Place>, Error> {
    by_site(trace, wanted, |stack| Place { text: place(stack), choice: choice(stack) })
}
