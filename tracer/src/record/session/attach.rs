//! Records a process that runs already, and its children, from the kernel side only.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use memtrace_ebpf::Parts;

use super::options::Options;
use super::outcome::Failure;
use super::place::Place;
use super::recording::Session;
use crate::record::kernel::{Loading, Source, uprobe};
use crate::record::launch::Ending;
use crate::record::procfs::status::parent_of;
use crate::record::transport::address_space;
use crate::signals;

/// What to attach to.
pub struct Attach {
    /// The process.
    pub pid: u32,
    /// How long; until it ends, or a signal interrupts, if there is no limit.
    pub limit: Option<Duration>,
    /// Functions whose calls are recorded, `library:function`.
    pub functions: Vec<String>,
}

/// /proc is read this often for processes that have vanished.
const CHECK_EVERY: Duration = Duration::from_secs(1);

static STOP: AtomicBool = AtomicBool::new(false);
static SLEEPING: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());

/// Records a running process. The trace is complete on disk when this returns `Ok`.
pub fn attach(attach: &Attach, options: &Options) -> Result<(), Failure> {
    address_space::share_an_arena();
    let pid = attach.pid;
    if !PathBuf::from(format!("/proc/{pid}")).is_dir() {
        return Err(Failure { code: 125, message: format!("there is no process {pid}") });
    }
    stop_on_signals();
    let loading = Loading::start(Source::Ebpf, Parts { calls: true, running: true });
    let place = Place::prepare(&options.output, options.replace)?;
    let session = begin(attach, Session::open(options)?, loading)?;
    place.keep();
    record(attach, session)
}

/// Loads the programs and watches the process.
fn begin(attach: &Attach, mut session: Session, loading: Loading) -> Result<Session, Failure> {
    let pid = attach.pid;
    session.use_kernel(Source::Ebpf, loading)?;
    session.fold.attach_to(pid);
    SLEEPING.store(std::ptr::from_ref(session.sleeping()).cast_mut(), Ordering::Relaxed);
    for (index, function) in attach.functions.iter().enumerate() {
        let place = uprobe::find(function, pid).map_err(Failure::recording)?;
        if let Some(programs) = session.fold.kernel_programs() {
            programs.probe(&place, index as u32).map_err(Failure::recording)?;
        }
    }
    if !attach.functions.is_empty() {
        session.note_recorded("functions", &attach.functions.join(" "));
    }
    let watched = watch_tree(&mut session, pid)?;
    if watched == 0 {
        return Err(Failure { code: 125, message: format!("process {pid} has ended") });
    }
    Ok(session)
}

/// Records until it is over.
fn record(attach: &Attach, mut session: Session) -> Result<(), Failure> {
    // A caller that waits for the tables sees that all processes are watched now.
    session.write_tables(false);
    let begun = Instant::now();
    let over = |session: &Session| {
        STOP.load(Ordering::Relaxed)
            || attach.limit.is_some_and(|limit| begun.elapsed() >= limit)
            || !session.fold.watches_any()
    };
    let mut checked = begun;
    while !over(&session) {
        session.rest();
        session.round(false);
        if checked.elapsed() > CHECK_EVERY {
            checked = Instant::now();
            session.fold.end_vanished();
        }
    }
    let outcome =
        session.close(Ending { code: 0, signal: None, max_resident_bytes: 0, user_ns: 0, system_ns: 0 });
    outcome.cut_short.map_or(Ok(()), |why| Err(Failure::recording(why)))
}

/// Watches a process and all it has started. A child that is forked meanwhile has a parent that is
/// watched already, or is found in the next list.
fn watch_tree(session: &mut Session, root: u32) -> Result<usize, Failure> {
    let (mut seen, mut watched) = (HashSet::new(), 0);
    loop {
        let tree = descendants(root);
        let new: Vec<u32> = tree.into_iter().filter(|pid| seen.insert(*pid)).collect();
        if new.is_empty() {
            return Ok(watched);
        }
        for pid in new {
            let known = session.fold.kernel_programs().is_some_and(|programs| programs.watches(pid));
            let runs = known || session.fold.join(pid).map_err(Failure::recording)?;
            watched += usize::from(runs);
        }
    }
}

/// A process and its descendants, parents first.
fn descendants(root: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let mut exists = false;
    for pid in pids {
        exists |= pid == root;
        children.entry(parent_of(pid)).or_default().push(pid);
    }
    let mut found = if exists { vec![root] } else { Vec::new() };
    let mut next = 0;
    while next < found.len() {
        found.extend(children.remove(&found[next]).unwrap_or_default());
        next += 1;
    }
    found
}

/// SIGINT, SIGTERM and SIGHUP end the recording, which is closed then; not those that memtrace was
/// started to ignore (nohup(1)).
fn stop_on_signals() {
    extern "C" fn stop(_: libc::c_int) {
        STOP.store(true, Ordering::Relaxed);
        // SAFETY: null, or a word that is never freed.
        if let Some(sleeping) = unsafe { SLEEPING.load(Ordering::Relaxed).as_ref() } {
            sleeping.store(0, Ordering::Relaxed);
        }
    }
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        if !signals::is_ignored(signal) {
            // SAFETY: the handler touches atomics only.
            unsafe { signals::handle(signal, stop) };
        }
    }
}
