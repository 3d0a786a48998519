//! The sentences that explain a plan.

use super::answer::Choice;
use super::candidate::Candidate;
use super::device::Bound;
use super::grid;
use super::request::{Minimise, Request};
use super::slow::SlowMemory;
use super::time::SAME_TIME;
use super::worker_bytes::WorkerBytes;
use crate::model::TaskBytes;
use crate::shape::joined;
use crate::units::{AtLeast, Bytes};

/// Why these chunks: the memory they need, and what kept faster ones out.
pub(super) fn chosen(request: &Request, best: &Candidate, skipped: Option<&Candidate>) -> String {
    let grid = &best.timed.grid;
    let head = format!(
        "{} in {} chunks of {} is predicted to need {}",
        request.operator,
        grid.chunks(),
        joined(&grid.chunk),
        needed(request, best.worker),
    );
    let faster = skipped.map_or(String::new(), |faster| {
        format!(
            "; of the faster chunks that do not fit, those of {} come next, and need {}",
            joined(&faster.timed.grid.chunk),
            most(request, faster.worker),
        )
    });
    let sentence = match request.minimise {
        // A plan in slow memory has a sentence of its own.
        Minimise::Time if best.worker.peak() <= request.budget_bytes() => {
            let part = 100.0 * (SAME_TIME - 1.0);
            format!(
                "{head}{faster}. No chunking that fits is predicted to compute more than {part:.0} % faster; of those that are as fast, chunks that leave a worker room come first, then fewer chunks."
            )
        }
        _ => format!("{head}{faster}."),
    };
    sentence + unlimited(request, &best.task)
}

/// A word on memory of devices for which no limit was given, or that a law knows nothing of.
pub(super) fn unlimited(request: &Request, task: &TaskBytes) -> &'static str {
    match request.device {
        None if task.device.upper() > 0 => " It allocates on a device too, whose memory was given no limit.",
        Some(_) if task.device.upper() == 0 => {
            " In the recorded runs it allocated nothing on a device, so its law knows nothing of one."
        }
        _ => "",
    }
}

/// What waves would do, after a sentence on chunks that neighbours share.
pub(super) fn in_waves(waves: &Choice, would_be: &str) -> String {
    format!(
        " In waves (--source waves: a few blocks at a time, each with its halo) chunks of {} would be {would_be}: {} for a worker, {:.1} s.",
        joined(&waves.chunk_shape),
        AtLeast(waves.predicted_worker_bytes),
        waves.predicted_seconds,
    )
}

/// Why there is no plan, and what would help.
pub(super) fn refused(request: &Request, least: &Candidate) -> String {
    format!(
        "No chunking of {} into at most {} chunks fits {}: chunks of {} need the least, {}; {}.",
        joined(&request.shape),
        grid::MOST_CHUNKS,
        match (Bound::of(request, &least.worker), request.device) {
            (Bound::DeviceMemory, Some(device)) => format!("a device of {}", Bytes(device.limit_bytes)),
            _ => format!("a budget of {}{}", Bytes(request.budget_bytes()), swap(request)),
        },
        joined(&least.timed.grid.chunk),
        most(request, least.worker),
        remedy(request, least.worker),
    )
}

fn swap(request: &Request) -> String {
    let words = |slow: SlowMemory| format!(" and {} of slow memory", Bytes(slow.limit_bytes));
    request.slow.map_or(String::new(), words)
}

/// What a worker needs of what there is.
pub(super) fn needed(request: &Request, worker: WorkerBytes) -> String {
    let (budget, room) = (request.budget_bytes(), request.room_bytes(&worker));
    let usable = if worker.peak() <= budget { budget } else { room };
    let host = format!("{} of the {} a worker may use", Bytes(worker.peak()), Bytes(usable));
    match request.device {
        Some(device) => {
            let limit = Bytes(device.limit_bytes);
            format!("{host} and {} of its device's {limit}", Bytes(worker.device))
        }
        None => host,
    }
}

/// What a worker needs of the memory that rules, and most of that for what.
pub(super) fn most(request: &Request, worker: WorkerBytes) -> String {
    match Bound::of(request, &worker) {
        Bound::DeviceMemory => format!("{} of the device", AtLeast(worker.device)),
        Bound::Memory => format!("{}, most of it for {}", AtLeast(worker.peak()), largest_part(worker)),
    }
}

/// What would help where a worker needs this much.
pub(super) fn remedy(request: &Request, worker: WorkerBytes) -> String {
    let threads = request.threads_per_worker;
    let more = what_helps(request.least_limit(&worker), threads);
    let larger = request.device.filter(|device| worker.device > device.limit_bytes);
    let larger = larger.map(|_| format!("take a device of {}", AtLeast(worker.device)));
    match larger {
        Some(larger) if worker.peak() > request.room_bytes(&worker) => format!("{larger} and {more}"),
        Some(larger) => larger + or_fewer_threads(threads),
        None => more,
    }
}

/// What the user can do if nothing fits.
pub(crate) fn what_helps(limit_bytes: u64, threads: u64) -> String {
    format!("raise the memory limit to {}{}", AtLeast(limit_bytes), or_fewer_threads(threads))
}

fn or_fewer_threads(threads: u64) -> &'static str {
    if threads > 1 { " or give each worker fewer threads" } else { "" }
}

fn largest_part(worker: WorkerBytes) -> &'static str {
    let parts = [
        (worker.tasks, "the operator itself"),
        (worker.frontier, "source chunks kept for their neighbours"),
        (worker.extra, "what reading or cutting the chunks takes"),
        (worker.fixed, "what the worker needs before it starts"),
    ];
    parts.into_iter().max_by_key(|part| part.0).map_or("", |part| part.1)
}
