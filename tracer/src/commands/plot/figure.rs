//! What is drawn: curves of bytes over one quantity.

/// A picture of curves.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Figure {
    /// What it shows.
    pub title: String,
    /// The quantity, with its unit.
    pub over: String,
    /// Curves, points and levels; those that come later are drawn above.
    pub curves: Vec<Curve>,
    /// A part of the quantity that is shaded, and what it is.
    pub shaded: Option<(f64, f64, String)>,
}

/// Points in one style.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// What they are.
    pub label: String,
    /// How they are drawn.
    pub mark: Mark,
    /// Quantity and bytes.
    pub points: Vec<(f64, f64)>,
}

/// A style of points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Joined by lines.
    Line,
    /// Joined by dashed lines.
    Dashes,
    /// Filled circles.
    Dots,
    /// Circles.
    Rings,
    /// Crosses.
    Crosses,
}

impl Figure {
    /// Adds points; a curve without any is left out.
    pub fn add(&mut self, label: impl Into<String>, mark: Mark, points: Vec<(f64, f64)>) {
        if !points.is_empty() {
            self.curves.push(Curve { label: label.into(), mark, points });
        }
    }

    /// Adds the same bytes all along the quantity.
    pub fn add_level(&mut self, label: impl Into<String>, bytes: u64) {
        let (first, last) = self.ends();
        self.add(label, Mark::Dashes, vec![(first, bytes as f64), (last, bytes as f64)]);
    }

    /// The smallest and the largest quantity.
    pub fn ends(&self) -> (f64, f64) {
        let quantities = || self.curves.iter().flat_map(|curve| &curve.points).map(|(x, _)| *x);
        let (first, last) = (quantities().fold(f64::INFINITY, f64::min), quantities().fold(0.0, f64::max));
        if first < last { (first, last) } else { (last - 1.0, last + 1.0) }
    }

    /// The most bytes.
    pub fn most(&self) -> f64 {
        self.curves.iter().flat_map(|curve| &curve.points).map(|(_, y)| *y).fold(1.0, f64::max)
    }
}
