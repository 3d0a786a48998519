//! Live bytes over the time that the view has been open, and the graph of them.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::symbols::Marker;
use ratatui::widgets::{Axis, Chart, Dataset, GraphType, Paragraph};

use super::view::ViewStyle;
use crate::live_protocol::Figures;
use crate::units::{Bytes, Seconds};

/// Points that are kept: twice what the widest terminals draw.
const POINTS_MAX: usize = 1024;

/// Live bytes at moments, in order.
#[derive(Debug, Default)]
pub struct History {
    points: Vec<Point>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Point {
    seconds: f64,
    bytes: u64,
}

impl History {
    /// Adds what figures say: live bytes now, and the peak, if that was after the last point.
    pub fn add(&mut self, figures: &Figures) {
        let now = Point { seconds: figures.seconds, bytes: figures.live_bytes };
        let peak = Point { seconds: figures.peak.seconds, bytes: figures.peak.live_bytes };
        if self.points.last().is_some_and(|last| last.seconds < peak.seconds) && peak.seconds < now.seconds {
            self.points.push(peak);
        }
        self.points.push(now);
        if self.points.len() > POINTS_MAX {
            self.points = self.points.chunks(2).map(larger).collect();
        }
    }

    /// Draws it with its title; nothing until two points are there.
    pub fn draw(&self, frame: &mut Frame, area: Rect, style: ViewStyle) {
        let [first, .., last] = self.points[..] else { return };
        let most = self.points.iter().map(|point| point.bytes).max().unwrap_or(0).max(1);
        let over = Seconds(((last.seconds - first.seconds) * 1e9) as i64);
        let title = Paragraph::new(format!("live bytes in the last {over}")).style(style.heading());
        frame.render_widget(title, Rect { height: area.height.min(1), ..area });
        let data: Vec<(f64, f64)> = self.points.iter().map(|p| (p.seconds, p.bytes as f64)).collect();
        let line = Dataset::default()
            .marker(Marker::Braille)
            .graph_type(GraphType::Line)
            .style(style.graph())
            .data(&data);
        let chart =
            Chart::new(vec![line]).x_axis(Axis::default().bounds([first.seconds, last.seconds])).y_axis(
                Axis::default()
                    .bounds([0.0, most as f64])
                    .labels(["0 B".to_owned(), Bytes(most).to_string()]),
            );
        let body = Rect { y: area.y + 1, height: area.height.saturating_sub(2), ..area };
        frame.render_widget(chart, body);
    }
}

/// Of two points that follow each other, the one with more bytes.
fn larger(points: &[Point]) -> Point {
    points
        .iter()
        .copied()
        .reduce(|one, two| if two.bytes > one.bytes { two } else { one })
        .unwrap_or(points[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live_protocol::Peak;

    #[test]
    fn peaks_stay_however_long_it_is() {
        let mut history = History::default();
        for second in 0..50_000 {
            let bytes = if second == 20_000 { 9_000 } else { second % 100 };
            history.add(&Figures {
                seconds: second as f64,
                live_bytes: bytes,
                peak: Peak { live_bytes: bytes, seconds: second as f64, ..Peak::default() },
                ..Figures::default()
            });
        }
        assert!(history.points.len() <= POINTS_MAX);
        assert!(history.points.is_sorted_by_key(|point| point.seconds));
        assert!(history.points.contains(&Point { seconds: 20_000.0, bytes: 9_000 }));
    }

    #[test]
    fn a_peak_between_two_refreshes_is_a_point() {
        let mut history = History::default();
        let figures = |seconds, live_bytes, peak| Figures {
            seconds,
            live_bytes,
            peak: Peak { live_bytes: 700, seconds: peak, ..Peak::default() },
            ..Figures::default()
        };
        history.add(&figures(1.0, 10, 0.5));
        history.add(&figures(2.0, 20, 1.5));
        history.add(&figures(3.0, 30, 1.5));
        let bytes: Vec<u64> = history.points.iter().map(|point| point.bytes).collect();
        assert_eq!(bytes, [10, 700, 20, 30]);
    }
}
