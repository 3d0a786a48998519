//! Words and numbers in Python's arguments, and what they stand for.

use std::path::Path;

use memtrace_analysis::graph::Executor;
use memtrace_analysis::placement::swap::Machine;
use memtrace_analysis::plan::{BaselineChunks, Minimise, SlowMemory, Source, Workers};
use pyo3::prelude::*;

use crate::convert::refused;

/// A number, or `"auto"`.
#[derive(FromPyObject)]
pub(crate) enum Count {
    Number(u64),
    Word(String),
}

impl Count {
    /// ValueError: another word.
    pub(crate) fn workers(self) -> PyResult<Workers> {
        match self {
            Count::Number(number) => Ok(Workers::Number(number)),
            Count::Word(word) if word == "auto" => Ok(Workers::Auto),
            Count::Word(word) => {
                Err(refused(format!("{word:?} is no number of workers; give one, or \"auto\"")))
            }
        }
    }
}

/// Bytes: a number, or a text like `"900 MB"`.
pub(crate) struct Size(pub(crate) u64);

impl<'py> FromPyObject<'_, 'py> for Size {
    type Error = PyErr;

    fn extract(size: Borrowed<'_, 'py, PyAny>) -> PyResult<Size> {
        let parse = size.py().import("memtrace._planning.sizes")?.getattr("parse")?;
        parse.call1((size,))?.extract().map(Size)
    }
}

/// Slow memory on a machine whose costs are in a file. ValueError: one is there without the other.
pub(crate) fn slow_memory(limit: Option<Size>, machine: Option<&Path>) -> PyResult<Option<SlowMemory>> {
    match (limit, machine) {
        (None, None) => Ok(None),
        (Some(Size(0)), _) => Err(refused("slow_memory must be above 0")),
        (Some(Size(limit)), Some(machine)) => {
            Ok(Some(SlowMemory::of(&Machine::load(machine).map_err(refused)?, limit)))
        }
        _ => Err(refused(
            "give slow_memory and machine together; the machine is the file that `memtrace place calibrate` wrote",
        )),
    }
}

/// Cells of a halo: one number for all axes, or one for each.
#[derive(FromPyObject)]
pub(crate) enum Halo {
    All(u64),
    Each(Vec<u64>),
}

impl Halo {
    /// One number for each axis, or one for all.
    pub(crate) fn cells(self) -> Vec<u64> {
        match self {
            Halo::All(cells) => vec![cells],
            Halo::Each(cells) => cells,
        }
    }
}

/// Whose chunks to compare with: those of `"auto"`, or lengths.
#[derive(FromPyObject)]
pub(crate) enum Other {
    Chunks(Vec<u64>),
    Word(String),
}

impl Other {
    /// ValueError: another word.
    pub(crate) fn baseline(self) -> PyResult<BaselineChunks> {
        match self {
            Other::Chunks(lengths) => Ok(BaselineChunks::Chunks(lengths)),
            Other::Word(word) => one_of(&[("auto", ())], &word).map(|()| BaselineChunks::Auto),
        }
    }
}

/// What a word stands for. ValueError: nothing here.
fn one_of<T: Copy>(known: &[(&str, T)], word: &str) -> PyResult<T> {
    let found = known.iter().find(|(name, _)| *name == word).map(|(_, meaning)| *meaning);
    found.ok_or_else(|| {
        let names: Vec<String> = known.iter().map(|(name, _)| format!("{name:?}")).collect();
        refused(format!("{word:?} is not known here; give {}", names.join(" or ")))
    })
}

/// Where tasks get their cells from. ValueError: another word.
pub(crate) fn named_source(name: &str) -> PyResult<Source> {
    one_of(&[("dask", Source::Dask), ("storage", Source::Storage), ("waves", Source::Waves)], name)
}

/// What a plan is to keep small. ValueError: another word.
pub(crate) fn named_objective(name: &str) -> PyResult<Minimise> {
    one_of(&[("time", Minimise::Time), ("memory", Minimise::Memory), ("tasks", Minimise::Tasks)], name)
}

/// An executor by its name. ValueError: there is none.
pub(crate) fn named_executor(name: &str, threads: u64) -> PyResult<Executor> {
    match name {
        "sequential" => Ok(Executor::Sequential),
        "threaded" => Ok(Executor::Threaded { threads }),
        "distributed" => Ok(Executor::Distributed { threads }),
        _ => Err(refused(format!("{name:?} is no executor; give sequential, threaded or distributed"))),
    }
}
