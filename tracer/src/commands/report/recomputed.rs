//! `report --recompute`: figures from the rows next to those that were folded while recording.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::Result;
use memtrace_analysis::report::recompute::{Figure, Recomputed, Whom, recompute};
use memtrace_trace::Trace;

use crate::terminal::{Progress, print};
use crate::units::grouped;

/// Figures that differ and are listed.
const DIFFERENCES_MAX: usize = 50;
/// Processes that are listed.
const PROCESSES_MAX: usize = 12;

/// Prints them; exit status 1 if the rows contradict what was folded.
pub fn show(trace: &Trace, json: bool) -> Result<ExitCode> {
    let progress = Progress::start("recomputing");
    let found = recompute(trace)?;
    drop(progress);
    if json {
        super::json::print(&found.document())?;
    } else {
        print(&text(&found)?)?;
    }
    Ok(ExitCode::from(u8::from(found.differences().next().is_some())))
}

fn text(found: &Recomputed) -> Result<String> {
    let mut out = String::new();
    let rows = grouped(found.rows);
    writeln!(out, "memtrace: recomputed from {rows} rows of allocations")?;
    writeln!(out, "  {:<34} {:>22} {:>22}", "", "folded", "from the rows")?;
    let is_listed =
        |whom| matches!(whom, Whom::All) || matches!(whom, Whom::Process(at, _) if at < PROCESSES_MAX as u32);
    for figure in found.figures.iter().filter(|figure| is_listed(figure.whom)) {
        line(&mut out, figure)?;
    }
    let count = |is_it: fn(&Whom) -> bool| {
        let mut them: Vec<_> = found.figures.iter().map(|f| f.whom).filter(is_it).collect();
        them.dedup();
        them.len()
    };
    let processes = count(|whom| matches!(whom, Whom::Process(..)));
    if processes > PROCESSES_MAX {
        writeln!(out, "  and {} more processes", processes - PROCESSES_MAX)?;
    }
    let (sites, spans) =
        (count(|whom| matches!(whom, Whom::Site(_))), count(|whom| matches!(whom, Whom::Span(_))));
    if found.with_mappings > 0 {
        writeln!(
            out,
            "  live bytes of {} processes are not compared: how much of a mapping was touched is not in the rows",
            found.with_mappings
        )?;
    }
    let open = found.figures.iter().filter(|figure| figure.agrees() && !figure.is_equal()).count();
    if open > 0 {
        writeln!(
            out,
            "  {open} figures lie within what rows leave open: the order at one time, touched mappings"
        )?;
    }
    let hidden = |figure: &&Figure| !is_listed(figure.whom);
    for figure in found.differences().filter(hidden).take(DIFFERENCES_MAX) {
        line(&mut out, figure)?;
    }
    let differ = found.differences().count();
    let verdict =
        if differ == 0 { "equal".into() } else { format!("{} figures DIFFER", grouped(differ as u64)) };
    let figures = grouped(found.figures.len() as u64);
    writeln!(out, "  {verdict}: {figures} figures of {processes} processes, {sites} sites, {spans} spans")?;
    Ok(out)
}

fn line(out: &mut String, figure: &Figure) -> Result<()> {
    let whose = match figure.whom {
        Whom::All => String::new(),
        Whom::Process(_, pid) => format!("process {pid} "),
        Whom::Site(site) => format!("site {site:016x} "),
        Whom::Span(span) => format!("span {span} "),
    };
    let mark = if figure.agrees() { "" } else { "  DIFFERS" };
    let (folded, rows) = (grouped(figure.folded), grouped(figure.rows));
    writeln!(out, "  {:<34} {folded:>22} {rows:>22}{mark}", whose + figure.name)?;
    Ok(())
}
