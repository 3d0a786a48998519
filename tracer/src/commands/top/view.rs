//! What the live view looks like. Text from the recording is cleaned before it is drawn.

use ratatui::Frame;
use ratatui::layout::{Constraint, Flex, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span as Words};
use ratatui::widgets::{Block, Clear, Paragraph};

use super::browsing::{Browsing, HELP};
use super::history::History;
use super::lists::lists;
use crate::live_protocol::{Figures, Limit};
use crate::terminal::clean;
use crate::units::{Bytes, Seconds, grouped};

/// Limits that are drawn: those with the least room left.
const LIMITS: usize = 3;

/// Lines of the graph, its title and a line of space; it is drawn where this leaves three times as
/// many for the lists.
const GRAPH: u16 = 8;

/// How it may look.
#[derive(Debug, Clone, Copy)]
pub struct ViewStyle {
    /// Colours are wanted.
    pub color: bool,
}

impl ViewStyle {
    /// Of headings.
    pub fn heading(self) -> Style {
        let style = Style::new().add_modifier(Modifier::BOLD);
        if self.color { style.fg(Color::Cyan) } else { style }
    }

    /// Of the graph.
    pub fn graph(self) -> Style {
        if self.color { Style::new().fg(Color::Green) } else { Style::new() }
    }

    /// The nearer to its limit, the louder.
    fn level(self, share: f64) -> Style {
        match share {
            _ if !self.color => Style::new(),
            share if share >= 0.9 => Style::new().fg(Color::Red),
            share if share >= 0.7 => Style::new().fg(Color::Yellow),
            _ => Style::new().fg(Color::Green),
        }
    }
}

/// Draws all of it; before the first figures have come, that they are waited for.
pub fn draw(
    frame: &mut Frame,
    figures: Option<&Figures>,
    history: &History,
    browsing: &mut Browsing,
    style: ViewStyle,
) {
    match figures {
        None => frame.render_widget(Paragraph::new("waiting for the recorder …"), frame.area()),
        Some(figures) => draw_figures(frame, figures, history, browsing, style),
    }
    if browsing.help() {
        draw_help(frame, style);
    }
}

fn draw_figures(
    frame: &mut Frame,
    figures: &Figures,
    history: &History,
    browsing: &mut Browsing,
    style: ViewStyle,
) {
    let mut lines = head(figures, style);
    lines.extend(figures.limits.iter().take(LIMITS).map(|limit| bar(limit, style)));
    let graph = if frame.area().height >= lines.len() as u16 + 4 * GRAPH { GRAPH } else { 0 };
    let rows = [
        Constraint::Length(lines.len() as u16),
        Constraint::Length(graph),
        Constraint::Fill(1),
        Constraint::Length(1),
    ];
    let [top, over_time, middle, bottom] = Layout::vertical(rows).areas(frame.area());
    frame.render_widget(Paragraph::new(lines), top);
    if graph > 0 {
        history.draw(frame, over_time, style);
    }
    let keys = "q leaves; the recording goes on   Tab selects   s sorts   arrows scroll   ? helps";
    frame.render_widget(Paragraph::new(keys).style(style.heading()), bottom);
    draw_lists(frame, middle, figures, browsing, style);
}

fn draw_lists(frame: &mut Frame, room: Rect, figures: &Figures, browsing: &mut Browsing, style: ViewStyle) {
    let lists = lists(figures);
    browsing.draws(&lists);
    let wanted: Vec<u16> = lists.iter().map(|list| list.height()).collect();
    let mut y = room.y;
    for (list, height) in lists.into_iter().zip(shares(room.height, &wanted)) {
        let area = Rect { y, height, ..room };
        y += height;
        let (wish, selected) = browsing.wish(list.name());
        list.draw(frame, area, style, wish, selected);
    }
}

/// What the keys do, over everything else.
fn draw_help(frame: &mut Frame, style: ViewStyle) {
    let lines = HELP.map(|(keys, what)| format!(" {keys:<20}{what} "));
    let width = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0) as u16 + 2;
    let [area] =
        Layout::vertical([Constraint::Length(HELP.len() as u16 + 2)]).flex(Flex::Center).areas(frame.area());
    let [area] = Layout::horizontal([Constraint::Length(width)]).flex(Flex::Center).areas(area);
    let lines: Vec<Line> = lines.into_iter().map(Line::raw).collect();
    frame.render_widget(Clear, area);
    frame.render_widget(
        Paragraph::new(lines).block(Block::bordered().title(" keys ").style(style.heading())),
        area,
    );
}

fn head(figures: &Figures, style: ViewStyle) -> Vec<Line<'static>> {
    let time = Seconds((figures.seconds * 1e9) as i64);
    let peak = &figures.peak;
    let lost = match figures.lost.events {
        0 => String::new(),
        events => format!("; {} events LOST", grouped(events)),
    };
    let mut lines = vec![
        Line::styled(format!("memtrace: {}", clean(&figures.command)), style.heading()),
        Line::raw(format!(
            "{time}: {} allocations, {} requested{lost}",
            grouped(figures.totals.allocations),
            Bytes(figures.totals.requested_bytes),
        )),
        Line::raw(format!(
            "live     {:>9}   peak {:>9}, after {}",
            Bytes(figures.live_bytes),
            Bytes(peak.live_bytes),
            Seconds((peak.seconds * 1e9) as i64),
        )),
        Line::raw(format!(
            "resident {:>9}   peak {:>9}, largest process {}",
            Bytes(figures.resident_bytes),
            Bytes(peak.resident_sum_bytes),
            Bytes(peak.resident_bytes),
        )),
    ];
    if let Some((driver, used)) = figures.device_driver_bytes.zip(figures.device_used_bytes) {
        let [driver_peak, used_peak] =
            [peak.device_driver_bytes, peak.device_used_bytes].map(|bytes| Bytes(bytes.unwrap_or(0)));
        lines.push(Line::raw(format!(
            "devices  {:>9}   peak {driver_peak:>9}; used {}, peak {used_peak}",
            Bytes(driver),
            Bytes(used),
        )));
    }
    lines
}

/// `[██████        ] 412 MB of 1.50 GB  control group /sys/fs/cgroup/job`
fn bar(limit: &Limit, style: ViewStyle) -> Line<'static> {
    const WIDTH: usize = 24;
    let share = limit.used_bytes as f64 / limit.limit_bytes.max(1) as f64;
    let filled = ((share * WIDTH as f64) as usize).min(WIDTH);
    let what = match limit.kind.as_str() {
        "cgroup" => "control group ",
        "address_space" => "address space of ",
        _ => "",
    };
    let (used, bound) = (Bytes(limit.used_bytes), Bytes(limit.limit_bytes));
    Line::from(vec![
        Words::raw("["),
        Words::styled("█".repeat(filled), style.level(share)),
        Words::raw(format!(
            "{}] {used:>9} of {bound:>9}  {what}{}",
            " ".repeat(WIDTH - filled),
            clean(&limit.name)
        )),
    ])
}

/// Shares lines out: each list gets one in turn, until it has what it wants or there are none left.
fn shares(room: u16, wanted: &[u16]) -> Vec<u16> {
    let mut given = vec![0; wanted.len()];
    let mut left = room;
    while left > 0 && given != wanted {
        for (given, wanted) in given.iter_mut().zip(wanted) {
            if left > 0 && *given < *wanted {
                *given += 1;
                left -= 1;
            }
        }
    }
    given
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::live_protocol::{Operator, Peak, Placed, Process, Site, Span};

    fn example() -> Figures {
        let hostile = "sort\u{1b}[31m\u{7}\u{9b}2J";
        Figures {
            command: format!("python run.py {hostile}"),
            seconds: 12.5,
            live_bytes: 412_000_000,
            resident_bytes: 500_000_000,
            peak: Peak { live_bytes: 420_000_000, seconds: 11.0, ..Peak::default() },
            limits: vec![Limit {
                kind: "cgroup".into(),
                name: "/sys/fs/cgroup/job".into(),
                limit_bytes: 1_500_000_000,
                used_bytes: 750_000_000,
            }],
            processes: vec![Process { pid: 4711, command: hostile.into(), ..Process::default() }],
            processes_running: 1,
            spans: vec![Span {
                operator: "gst3d".into(),
                seconds: 2.0,
                working_bytes: 192_000_000,
                predicted_peak_bytes: Some(1_830_000_000),
                progress: Some(0.61),
                exceeds: true,
                ..Span::default()
            }],
            spans_running: 1,
            operators: vec![Operator {
                name: hostile.into(),
                started: 9,
                finished: 8,
                ..Operator::default()
            }],
            operators_seen: 1,
            sites: vec![Site {
                place: "work run.py:3".into(),
                live_bytes: 90_000_000,
                grew_bytes: -1000,
                over_seconds: 10.0,
                ..Site::default()
            }],
            placed: vec![Placed {
                tier: "node:0".into(),
                place: "work run.py:9".into(),
                blocks: 3,
                live_bytes: 70_000_000,
                out_bytes: 30_000_000,
                ..Placed::default()
            }],
            ..Figures::default()
        }
    }

    fn drawn(width: u16, height: u16, figures: Option<&Figures>, color: bool) -> TestBackend {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let (mut history, mut browsing) = (History::default(), Browsing::default());
        if let Some(figures) = figures {
            history.add(&Figures { seconds: 2.5, live_bytes: 7, ..Figures::default() });
            history.add(figures);
        }
        terminal.draw(|frame| draw(frame, figures, &history, &mut browsing, ViewStyle { color })).unwrap();
        terminal.backend().clone()
    }

    #[test]
    fn all_figures_are_drawn() {
        let backend = drawn(100, 40, Some(&example()), true);
        let text = backend.to_string();
        for part in [
            "12.50 s: 0 allocations",
            "processes: 1 running, 0 ended",
            "live        412 MB   peak    420 MB, after 11.00 s",
            "[████████████            ]    750 MB of   1.50 GB  control group /sys/fs/cgroup/job",
            "4711",
            "2.00 s    192 MB",
            "1.83 GB   61 % WILL EXCEED ITS BUDGET: gst3d",
            "90.0 MB",
            "-1.00 kB work run.py:3",
            "grown in the last 10.00 s",
            "node:0         3   70.0 MB   30.0 MB work run.py:9",
            "q leaves",
            "live bytes in the last 10.00 s",
            "> processes",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        let drawn_char = |c: char| text.contains(c);
        assert!(
            !drawn_char('\u{1b}') && !drawn_char('\u{7}') && !drawn_char('\u{9b}'),
            "it cannot drive the terminal"
        );
        assert!(text.contains("sort [31m"));
        assert!(drawn(80, 24, None, true).to_string().contains("waiting for the recorder"));
    }

    #[test]
    fn devices_are_drawn_where_there_are_any() {
        let mut figures = example();
        assert!(!drawn(140, 40, Some(&figures), false).to_string().contains("devices"));
        let bytes = |bytes: u64| Some(bytes);
        (figures.device_driver_bytes, figures.device_used_bytes) = (bytes(91_200_000), bytes(39_800_000));
        (figures.peak.device_driver_bytes, figures.peak.device_used_bytes) =
            (bytes(95_000_000), bytes(40_000_000));
        figures.processes[0].device_driver_bytes = bytes(91_100_000);
        figures.processes[0].peak_device_driver_bytes = bytes(94_000_000);
        figures.spans[0].device_bytes = bytes(7_340_000);
        let text = drawn(160, 40, Some(&figures), false).to_string();
        for part in [
            "devices    91.2 MB   peak   95.0 MB; used 39.8 MB, peak 40.0 MB",
            "91.1 MB   94.0 MB",
            "7.34 MB",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert_eq!(text.matches("devices").count(), 3, "{text}");
    }

    #[test]
    fn colours_are_left_out_where_they_are_not_wanted() {
        let colours = |color| {
            let backend = drawn(100, 40, Some(&example()), color);
            let cells = backend.buffer().content.iter();
            cells.filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset).count()
        };
        assert!(colours(true) > 0);
        assert_eq!(colours(false), 0);
    }

    #[test]
    fn no_size_is_too_small_or_too_large() {
        let mut figures = example();
        figures.operators = vec![figures.operators[0].clone(); 200];
        figures.limits[0].used_bytes = u64::MAX;
        figures.seconds = f64::NAN;
        figures.spans[0].seconds = f64::INFINITY;
        for (width, height) in [(1, 1), (3, 2), (20, 5), (80, 24), (300, 7), (10, 200)] {
            drawn(width, height, Some(&figures), true);
        }
    }

    #[test]
    fn lines_are_shared_out_fairly() {
        assert_eq!(shares(20, &[4, 30, 5]), [4, 11, 5]);
        assert_eq!(shares(2, &[4, 30, 5]), [1, 1, 0]);
        assert_eq!(shares(100, &[4, 5]), [4, 5]);
        assert_eq!(shares(5, &[]), [0; 0]);
    }
}
