//! Figures as SVG, by plotters.

use anyhow::Result;
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::element::DashedPathElement;
use plotters::prelude::*;

use super::figure::{Curve, Figure, Mark};
use crate::terminal::clean;
use crate::units::Bytes;

const SIZE: (u32, u32) = (900, 520);
const FONT: &str = "sans-serif";
/// Those of Okabe and Ito, which people tell apart whatever their sight.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];
/// Room above the largest value, for the legend.
const HEADROOM: f64 = 1.3;
/// Characters of a title that have room.
const TITLE: usize = 90;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// The figure as the text of an SVG.
pub fn svg(figure: &Figure) -> Result<String> {
    let mut text = String::new();
    draw(figure, &SVGBackend::with_string(&mut text, SIZE).into_drawing_area())?;
    Ok(text)
}

fn draw(figure: &Figure, area: &Area<'_>) -> Result<()> {
    area.fill(&WHITE)?;
    let (first, last) = figure.ends();
    let mut chart = ChartBuilder::on(area)
        .caption(cut(&figure.title), (FONT, 18))
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(76)
        .build_cartesian_2d(first..last, 0.0..figure.most() * HEADROOM)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE.mix(0.0))
        .x_desc(clean(&figure.over))
        .x_label_formatter(&|quantity| ((quantity * 1e6).round() / 1e6).to_string())
        .y_label_formatter(&|bytes| Bytes(*bytes as u64).to_string())
        .label_style((FONT, 13))
        .draw()?;
    if let Some((from, to, label)) = &figure.shaded {
        let top = figure.most() * HEADROOM;
        let style = BLACK.mix(0.08).filled();
        let shaded = [Rectangle::new([(*from, 0.0), (*to, top)], style)];
        chart
            .draw_series(shaded)?
            .label(clean(label))
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 20, y + 5)], style));
    }
    for (curve, colour) in figure.curves.iter().zip(COLOURS.iter().cycle()) {
        draw_curve(&mut chart, curve, *colour)?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .label_font((FONT, 13))
        .draw()?;
    area.present()?;
    Ok(())
}

/// A title that fits.
fn cut(title: &str) -> String {
    let title = clean(title);
    if title.chars().count() <= TITLE {
        return title;
    }
    title.chars().take(TITLE - 1).chain(['…']).collect()
}

fn draw_curve(chart: &mut Chart<'_, '_>, curve: &Curve, colour: RGBColor) -> Result<()> {
    let points = curve.points.iter().copied();
    let label = clean(&curve.label);
    let line = colour.stroke_width(2);
    match curve.mark {
        Mark::Line => chart
            .draw_series(LineSeries::new(points, line))?
            .label(label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], line)),
        Mark::Dashes => {
            let dashed = DashedLineSeries::new(points, 6, 4, line);
            chart
                .draw_series(dashed)?
                .label(label)
                .legend(move |(x, y)| DashedPathElement::new([(x, y), (x + 20, y)], 6, 4, line))
        }
        Mark::Dots | Mark::Rings => {
            let style = if curve.mark == Mark::Dots { colour.filled() } else { line };
            let dots = points.map(|point| Circle::new(point, 5, style));
            chart.draw_series(dots)?.label(label).legend(move |(x, y)| Circle::new((x + 10, y), 5, style))
        }
        Mark::Crosses => {
            let crosses = points.map(|point| Cross::new(point, 4, line));
            chart.draw_series(crosses)?.label(label).legend(move |(x, y)| Cross::new((x + 10, y), 4, line))
        }
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_text_and_every_curve_is_there() {
        let mut figure = Figure { title: "</svg><script>&".into(), over: "n0".into(), ..Figure::default() };
        for mark in [Mark::Line, Mark::Dashes, Mark::Dots, Mark::Rings, Mark::Crosses] {
            figure.add(format!("{mark:?}"), mark, vec![(1.0, 1e6), (3.0, 2e6)]);
        }
        figure.add("nothing", Mark::Line, Vec::new());
        figure.add_level("budget", 3_000_000);
        figure.shaded = Some((1.5, 2.5, "range".into()));
        let text = svg(&figure).unwrap();
        assert!(!text.contains("<script>") && text.contains("&lt;/svg&gt;&lt;script&gt;&amp;"));
        for name in ["Line", "Dashes", "Dots", "Rings", "Crosses", "budget", "range", "2.00 MB"] {
            assert!(text.contains(name), "{name}");
        }
        assert!(!text.contains("nothing"));
    }
}
