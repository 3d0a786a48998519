//! A law of a model over one of its variables.

use anyhow::Result;
use memtrace_analysis::Law;
use memtrace_analysis::model::Curve;

use super::figure::{Figure, Mark};

/// Measured peaks, the law, its bound, and the range of its runs.
pub fn figure(law: &Law) -> Result<Figure> {
    let curve = Curve::of(law)?;
    let others: Vec<String> = curve.others.iter().map(|(name, length)| format!("{name}={length}")).collect();
    let over = match others.as_slice() {
        [] => curve.variable.clone(),
        others => format!("{}, at {}", curve.variable, others.join(", ")),
    };
    let title = format!("{} {}: {}", law.key.operator, law.key.dtype, law.proof);
    let mut figure = Figure { title, over, ..Figure::default() };
    let points = |points: &mut dyn Iterator<Item = (u64, u64)>| -> Vec<(f64, f64)> {
        points.map(|(length, bytes)| (length as f64, bytes as f64)).collect()
    };
    figure.add("law", Mark::Line, points(&mut curve.law.iter().map(|(length, bytes, _)| (*length, *bytes))));
    figure.add(
        "at most",
        Mark::Dashes,
        points(&mut curve.law.iter().map(|(length, _, upper)| (*length, *upper))),
    );
    figure.add("measured", Mark::Dots, points(&mut curve.measured.iter().copied()));
    let elsewhere = || curve.elsewhere.iter();
    figure.add(
        "measured at other lengths",
        Mark::Rings,
        points(&mut elsewhere().map(|(length, bytes, _)| (*length, *bytes))),
    );
    figure.add(
        "law there",
        Mark::Crosses,
        points(&mut elsewhere().map(|(length, _, bytes)| (*length, *bytes))),
    );
    let (low, high) = curve.range;
    let what = if curve.verified { "verified range" } else { "range of the runs (unverified)" };
    figure.shaded = Some((low as f64, high as f64, format!("{what}: {low} – {high}")));
    Ok(figure)
}

#[cfg(test)]
mod tests {
    use memtrace_analysis::fit_table;

    use super::*;

    #[test]
    fn what_is_drawn_is_what_the_law_and_its_runs_say() {
        let shapes = [[10, 20], [20, 30], [30, 50], [40, 50]].map(Vec::from);
        let model = fit_table("scale", "<f8", 8, &shapes, &[1600, 4800, 12_000, 16_000]).unwrap();
        let law = &model.laws[0];
        let figure = figure(law).unwrap();
        let points = |label: &str| &figure.curves.iter().find(|curve| curve.label == label).unwrap().points;
        assert!(
            points("law")
                .iter()
                .all(|(n, bytes)| *bytes == law.bytes(&[*n as u64, 50]).unwrap().working as f64)
        );
        assert_eq!(points("measured"), &[(30.0, 12_000.0), (40.0, 16_000.0)]);
        assert_eq!(points("measured at other lengths"), points("law there"));
        assert_eq!((figure.over.as_str(), figure.shaded.unwrap().1), ("n0, at n1=50", 40.0));
    }
}
