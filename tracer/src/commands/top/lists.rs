//! The lists of the live view: processes, operators in flight, operators, and call stacks.

use std::ops::Range;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::widgets::{Cell, Paragraph, Row, Table};

use super::view::ViewStyle;
use crate::live_protocol::{Figures, Operator, Process, Site, Span};
use crate::terminal::clean;
use crate::units::{Bytes, Seconds, grouped};

/// A list of the view.
pub struct List {
    title: String,
    /// Heading and width of each column; the last one takes the rest.
    columns: Vec<(&'static str, u16)>,
    rows: Vec<Vec<String>>,
}

impl List {
    /// Without the columns in these places.
    fn without(mut self, places: Range<usize>) -> List {
        self.columns.drain(places.clone());
        self.rows.iter_mut().for_each(|row| drop(row.drain(places.clone())));
        self
    }

    /// Title, headings, rows, and a line of space.
    pub fn height(&self) -> u16 {
        (self.rows.len() + 3).try_into().unwrap_or(u16::MAX)
    }

    /// Draws it.
    pub fn draw(self, frame: &mut Frame, area: Rect, style: ViewStyle) {
        let last = self.columns.len() - 1;
        let widths = self.columns.iter().enumerate().map(|(index, (_, width))| match index == last {
            true => Constraint::Fill(1),
            false => Constraint::Length(*width),
        });
        let headings = self.columns.iter().map(|(heading, width)| aligned(heading, *width));
        let rows = self.rows.iter().map(|row| {
            let cells = row.iter().zip(&self.columns);
            Row::new(cells.map(|(text, (_, width))| aligned(text, *width)))
        });
        let table = Table::new(rows, widths).header(Row::new(headings).style(style.heading()));
        let [title, body] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
        frame.render_widget(Paragraph::new(self.title).style(style.heading()), title);
        frame.render_widget(table, Rect { height: body.height.saturating_sub(1), ..body });
    }
}

/// Numbers to the right; what has no width of its own (0) to the left.
fn aligned(text: &str, width: u16) -> Cell<'static> {
    let text = clean(text);
    Cell::from(match width {
        0 => text,
        width => format!("{text:>width$}", width = usize::from(width)),
    })
}

/// The lists that have rows.
pub fn lists(figures: &Figures) -> Vec<List> {
    let all = [processes(figures), spans(figures), operators(figures), sites(figures)];
    all.into_iter().filter(|list| !list.rows.is_empty()).collect()
}

fn processes(figures: &Figures) -> List {
    let row = |process: &Process| {
        vec![
            process.pid.to_string(),
            Bytes(process.live_bytes).to_string(),
            Bytes(process.peak_live_bytes).to_string(),
            Bytes(process.resident_bytes).to_string(),
            Bytes(process.peak_resident_bytes).to_string(),
            shown(process.device_driver_bytes),
            shown(process.peak_device_driver_bytes),
            shown(process.device_used_bytes),
            time(process.seconds),
            process.command.clone(),
        ]
    };
    let list = List {
        title: format!("processes: {} running, {} ended", figures.processes_running, figures.processes_ended),
        columns: vec![
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
        ],
        rows: figures.processes.iter().map(row).collect(),
    };
    if figures.device_driver_bytes.is_some() { list } else { list.without(5..8) }
}

fn shown(bytes: Option<u64>) -> String {
    bytes.map_or(String::new(), |bytes| Bytes(bytes).to_string())
}

fn spans(figures: &Figures) -> List {
    let row = |span: &Span| {
        let input = span.input.as_ref().map(|input| {
            let shape: Vec<String> = input.shape.iter().map(u64::to_string).collect();
            format!("  {} {}", shape.join("×"), input.dtype)
        });
        vec![
            span.pid.to_string(),
            time(span.seconds),
            Bytes(span.working_bytes).to_string(),
            Bytes(span.working_peak_bytes).to_string(),
            shown(span.device_bytes),
            shown(span.device_peak_bytes),
            Bytes(span.input_bytes).to_string(),
            shown(span.predicted_peak_bytes),
            span.progress.map_or(String::new(), |part| format!("{:.0} %", part * 100.0)),
            format!("{}{}{}", warning(span), span.operator, input.unwrap_or_default()),
        ]
    };
    let list = List {
        title: format!("operators in flight: {}", figures.spans_running),
        columns: vec![
            ("pid", 8),
            ("for", 9),
            ("working", 9),
            ("peak", 9),
            ("devices", 9),
            ("peak", 9),
            ("input", 9),
            ("predicted", 9),
            ("steps", 6),
            ("operator", 0),
        ],
        rows: figures.spans.iter().map(row).collect(),
    };
    if figures.device_driver_bytes.is_some() { list } else { list.without(4..6) }
}

/// Before the operator's name, where it is not overlooked.
fn warning(span: &Span) -> &'static str {
    if span.exceeds { "WILL EXCEED ITS BUDGET: " } else { "" }
}

fn operators(figures: &Figures) -> List {
    let row = |operator: &Operator| {
        let mean = operator.seconds / operator.finished.max(1) as f64;
        vec![
            grouped(operator.finished),
            grouped(operator.started),
            grouped(operator.running),
            Bytes(operator.working_peak_bytes).to_string(),
            if operator.finished > 0 { time(mean) } else { String::new() },
            operator.name.clone(),
        ]
    };
    List {
        title: format!("operators: {}", figures.operators_seen),
        columns: vec![
            ("finished", 9),
            ("started", 9),
            ("running", 7),
            ("peak", 9),
            ("mean time", 9),
            ("operator", 0),
        ],
        rows: figures.operators.iter().map(row).collect(),
    }
}

fn sites(figures: &Figures) -> List {
    let over = figures.sites.first().map_or(0.0, |site| site.over_seconds);
    let row = |site: &Site| {
        let sign = if site.grew_bytes < 0 { "-" } else { "+" };
        let grew = Bytes(site.grew_bytes.unsigned_abs());
        vec![Bytes(site.live_bytes).to_string(), format!("{sign}{grew}"), site.place.clone()]
    };
    List {
        title: format!("what retains memory, and has grown in the last {}", time(over)),
        columns: vec![("live", 9), ("grew", 10), ("allocated at", 0)],
        rows: figures.sites.iter().map(row).collect(),
    }
}

fn time(seconds: f64) -> String {
    Seconds((seconds * 1e9) as i64).to_string()
}
