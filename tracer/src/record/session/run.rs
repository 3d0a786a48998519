//! Records a command.

use std::time::Duration;

use memtrace_ebpf::Parts;
use memtrace_wire::handshake::{SOCKET_VARIABLE, TOKEN_VARIABLE};
use memtrace_wire::preloading::Preloading;

use super::options::Options;
use super::outcome::{Failure, Outcome};
use super::place::Place;
use super::recording::Session;
use crate::record::kernel::Loading;
use crate::record::launch;
use crate::record::procfs::executable::{preloading, program_of};
use crate::record::transport::address_space;

/// Children that outlive the command are waited for this long.
pub const GRACE: Duration = Duration::from_secs(2);

/// Records a command. The trace is complete on disk when this returns `Ok`.
pub fn run(options: &Options) -> Result<Outcome, Failure> {
    address_space::share_an_arena();
    let probe = launch::find_probe().map_err(Failure::recording)?;
    let (cuda, devices) = options.cuda.library();
    let program = program_of(&options.command[0]);
    let preloading = program.as_deref().map_or(Preloading::Works, preloading);
    let calls = preloading != Preloading::Works;
    let loading = Loading::start(options.kernel, Parts { calls, running: false });
    let place = Place::prepare(&options.output, options.replace)?;
    let mut session = Session::open(options)?;
    session.use_kernel(options.kernel, loading)?;
    session.sample_events(options.accesses);
    session.note_recorded("cuda", devices);
    if let Some(placing) = &options.placing {
        session.note_recorded("placing", &placing.described());
    }
    if options.python_allocators {
        session.note_recorded("python_allocators", "malloc");
    }
    let mut variables =
        vec![(SOCKET_VARIABLE, session.listener().sockets()), (TOKEN_VARIABLE, session.listener().token())];
    if options.python_allocators {
        variables.push(("PYTHONMALLOC", "malloc"));
    }
    let libraries =
        [probe].into_iter().chain(cuda).filter(|_| preloading != Preloading::DoesHarm).collect::<Vec<_>>();
    let child =
        launch::start(&options.command, options.prints_to_stderr, &libraries, &variables, session.sleeping())
            .map_err(|not_started| Failure { code: not_started.code, message: not_started.message })?;
    place.keep();
    session.started(child);
    let ending = session.follow(child);
    Ok(session.close(ending))
}
