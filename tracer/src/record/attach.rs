//! Recording a process that runs already, and its children, from the kernel side alone.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use memtrace_ebpf::Parts;

use super::kernel::{Loading, Source, parent_of};
use super::launch::Ending;
use super::options::Options;
use super::session::{Failure, Session};
use super::uprobe;

/// What to attach to.
pub struct Attach {
    /// The process.
    pub pid: u32,
    /// How long; until it ends, or somebody interrupts, if there is no limit.
    pub limit: Option<Duration>,
    /// Functions to be told of, `library:function`.
    pub functions: Vec<String>,
}

/// So often it is asked whether those that are recorded are still there.
const LOOK_EVERY: Duration = Duration::from_secs(1);

static STOP: AtomicBool = AtomicBool::new(false);
static SLEEPING: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());

/// Records a running process. The trace is complete on disk when this returns `Ok`.
pub fn attach(attach: &Attach, options: &Options) -> Result<(), Failure> {
    let pid = attach.pid;
    if !PathBuf::from(format!("/proc/{pid}")).is_dir() {
        return Err(Failure { code: 125, message: format!("there is no process {pid}") });
    }
    stop_on_signals();
    let loading = Loading::start(Source::Ebpf, Parts { calls: true, running: true });
    let existed = options.output.exists();
    let session = Session::open(options)?;
    let session = begin(attach, session, loading).inspect_err(|_| {
        // Nothing was recorded, so there is nothing to keep; a directory that was there stays.
        let _ = std::fs::remove_dir_all(&options.output);
        if existed {
            let _ = std::fs::create_dir(&options.output);
        }
    })?;
    record(attach, session)
}

/// Loads the programs and watches the process.
fn begin(attach: &Attach, mut session: Session, loading: Loading) -> Result<Session, Failure> {
    let pid = attach.pid;
    session.take_kernel(Source::Ebpf, loading)?;
    session.fold.attached = true;
    session.fold.root = pid;
    SLEEPING.store(std::ptr::from_ref(&session.segment.header().sleeping).cast_mut(), Ordering::Relaxed);
    for (index, function) in attach.functions.iter().enumerate() {
        let place = uprobe::find(function, pid).map_err(Failure::recording)?;
        if let Some(side) = session.fold.kernel.as_mut().and_then(super::kernel::Kernel::side) {
            side.probe(&place, index as u32).map_err(Failure::recording)?;
        }
    }
    if !attach.functions.is_empty() {
        session.meta.recorded.insert("functions".into(), attach.functions.join(" "));
    }
    let watched = watch_tree(&mut session, pid)?;
    if watched == 0 {
        return Err(Failure { code: 125, message: format!("process {pid} has ended") });
    }
    Ok(session)
}

/// Records until it is over.
fn record(attach: &Attach, mut session: Session) -> Result<(), Failure> {
    // Whoever waits for it sees that all are watched now.
    session.write_tables(false);
    let begun = Instant::now();
    let over = |session: &Session| {
        STOP.load(Ordering::Relaxed)
            || attach.limit.is_some_and(|limit| begun.elapsed() >= limit)
            || !session.fold.watches_any()
    };
    let mut looked = begun;
    while !over(&session) {
        session.rest();
        session.round(false);
        if looked.elapsed() > LOOK_EVERY {
            looked = Instant::now();
            session.fold.end_the_vanished();
        }
    }
    session.close(Ending { code: 0, signal: None, max_resident_bytes: 0 }).map(|_| ())
}

/// Watches a process and all it has started. Whoever is forked meanwhile has a parent that is watched already, or is
/// found by looking again.
fn watch_tree(session: &mut Session, root: u32) -> Result<usize, Failure> {
    let (mut seen, mut watched) = (HashSet::new(), 0);
    loop {
        let tree = descendants(root);
        let new: Vec<u32> = tree.into_iter().filter(|pid| seen.insert(*pid)).collect();
        if new.is_empty() {
            return Ok(watched);
        }
        for pid in new {
            let side = session.fold.kernel.as_mut().and_then(super::kernel::Kernel::side);
            let known = side.is_some_and(|side| side.watches(pid));
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

/// SIGINT, SIGTERM and SIGHUP end the recording, which is closed then; not those that memtrace was started to ignore
/// (nohup(1)).
fn stop_on_signals() {
    extern "C" fn stop(_: libc::c_int) {
        STOP.store(true, Ordering::Relaxed);
        // SAFETY: null, or a word that is never freed.
        if let Some(sleeping) = unsafe { SLEEPING.load(Ordering::Relaxed).as_ref() } {
            sleeping.store(0, Ordering::Relaxed);
        }
    }
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler touches atomics only.
        unsafe {
            let mut new: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &mut new);
            if new.sa_sigaction == libc::SIG_IGN {
                continue;
            }
            new = std::mem::zeroed();
            new.sa_sigaction = stop as *const () as usize;
            libc::sigaction(signal, &new, std::ptr::null_mut());
        }
    }
}
