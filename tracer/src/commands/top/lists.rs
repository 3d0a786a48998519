//! The lists of the live view: processes, operators in flight, operators, call stacks, and placed
//! blocks.

use std::ops::Range;

use super::cells::Cell;
use super::table::{Column, Table};
use crate::live_protocol::{Figures, Operator, Placed, Process, Site, Span};

/// The lists that have rows.
pub fn lists(figures: &Figures) -> Vec<Table> {
    let all = [processes(figures), spans(figures), operators(figures), sites(figures), placed(figures)];
    all.into_iter().filter(|list| !list.is_empty()).collect()
}

fn columns(columns: &[(&'static str, u16)]) -> Vec<Column> {
    columns.iter().map(|(heading, width)| Column { heading, width: *width }).collect()
}

/// Without the columns of devices, where none were seen.
fn known(figures: &Figures, table: Table, of_devices: Range<usize>) -> Table {
    if figures.device_driver_bytes.is_some() { table } else { table.hide(of_devices) }
}

fn processes(figures: &Figures) -> Table {
    let row = |process: &Process| {
        vec![
            Cell::Id(process.pid),
            Cell::Bytes(process.live_bytes),
            Cell::Bytes(process.peak_live_bytes),
            Cell::Bytes(process.resident_bytes),
            Cell::Bytes(process.peak_resident_bytes),
            Cell::bytes(process.device_driver_bytes),
            Cell::bytes(process.peak_device_driver_bytes),
            Cell::bytes(process.device_used_bytes),
            Cell::Seconds(process.seconds),
            Cell::Text(rank(process) + &process.command),
        ]
    };
    let title =
        format!("processes: {} running, {} ended", figures.processes_running, figures.processes_ended);
    let columns = columns(&[
        ("pid", 8),
        ("live", 9),
        ("peak", 9),
        ("resident", 9),
        ("peak", 9),
        ("devices", 9),
        ("peak", 9),
        ("used", 9),
        ("for", 9),
        ("command", 0),
    ]);
    let rows = figures.processes.iter().map(row).collect();
    known(figures, Table::new("processes", title, columns, rows), 5..8)
}

/// Before the command, which all ranks share.
fn rank(process: &Process) -> String {
    process.rank.map_or_else(String::new, |rank| format!("[rank {rank}] "))
}

fn spans(figures: &Figures) -> Table {
    let row = |span: &Span| {
        vec![
            Cell::Id(span.pid),
            Cell::Seconds(span.seconds),
            Cell::Bytes(span.working_bytes),
            Cell::Bytes(span.working_peak_bytes),
            Cell::bytes(span.device_bytes),
            Cell::bytes(span.device_peak_bytes),
            Cell::Bytes(span.input_bytes),
            Cell::bytes(span.predicted_peak_bytes),
            span.progress.map_or(Cell::Nothing, Cell::Part),
            Cell::Text(format!("{}{}{}", warning(span), span.operator, input(span))),
        ]
    };
    let title = format!("operators in flight: {}", figures.spans_running);
    let columns = columns(&[
        ("pid", 8),
        ("for", 9),
        ("working", 9),
        ("peak", 9),
        ("devices", 9),
        ("peak", 9),
        ("input", 9),
        ("predicted", 10),
        ("steps", 6),
        ("operator", 0),
    ]);
    let rows = figures.spans.iter().map(row).collect();
    known(figures, Table::new("operators in flight", title, columns, rows), 4..6)
}

/// Before the operator's name, where it is not overlooked.
fn warning(span: &Span) -> &'static str {
    if span.exceeds { "WILL EXCEED ITS BUDGET: " } else { "" }
}

fn input(span: &Span) -> String {
    span.input.as_ref().map_or(String::new(), |input| {
        let shape: Vec<String> = input.shape.iter().map(u64::to_string).collect();
        format!("  {} {}", shape.join("×"), input.dtype)
    })
}

fn operators(figures: &Figures) -> Table {
    let row = |operator: &Operator| {
        let mean = operator.seconds / operator.finished.max(1) as f64;
        vec![
            Cell::Count(operator.finished),
            Cell::Count(operator.started),
            Cell::Count(operator.running),
            Cell::Bytes(operator.working_peak_bytes),
            if operator.finished > 0 { Cell::Seconds(mean) } else { Cell::Nothing },
            Cell::Text(operator.name.clone()),
        ]
    };
    let columns = columns(&[
        ("finished", 9),
        ("started", 9),
        ("running", 8),
        ("peak", 9),
        ("mean time", 10),
        ("operator", 0),
    ]);
    let rows = figures.operators.iter().map(row).collect();
    Table::new("operators", format!("operators: {}", figures.operators_seen), columns, rows)
}

fn sites(figures: &Figures) -> Table {
    let over = figures.sites.first().map_or(0.0, |site| site.over_seconds);
    let row = |site: &Site| {
        vec![Cell::Bytes(site.live_bytes), Cell::Growth(site.grew_bytes), Cell::Text(site.place.clone())]
    };
    let over = Cell::Seconds(over).text();
    let title = format!("what retains memory, and has grown in the last {over}");
    let columns = columns(&[("live", 9), ("grew", 10), ("allocated at", 0)]);
    Table::new("what retains memory", title, columns, figures.sites.iter().map(row).collect())
}

fn placed(figures: &Figures) -> Table {
    let row = |placed: &Placed| {
        vec![
            Cell::Text(placed.tier.clone()),
            Cell::Count(placed.blocks),
            Cell::Bytes(placed.live_bytes),
            Cell::Bytes(placed.out_bytes),
            Cell::Text(placed.place.clone()),
        ]
    };
    let columns = columns(&[("tier", 11), ("blocks", 9), ("live", 9), ("moved out", 9), ("allocated at", 0)]);
    let rows = figures.placed.iter().map(row).collect();
    Table::new("placed", "placed blocks, by tier".to_owned(), columns, rows)
}
