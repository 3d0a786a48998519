//! From aligned runs to the sequence of a law.

use std::collections::{BTreeSet, HashMap};

use crate::law::align::Alignment;
use crate::law::search::Search;
use crate::law::{Seen, Sequence, Size, bounded};
use crate::profile::places::Place;
use crate::profile::{Event, Program, Run};
use crate::stats::regression;

/// A residual below this part of every run's peak is a pub(super) constant, whatever it does.
pub(super) const NEGLIGIBLE_RESIDUAL: f64 = 0.001;

/// Where sites are, by id.
pub(super) type Places<'a> = HashMap<u64, &'a Place>;

/// What a reader should know of how runs were aligned.
pub(super) fn remarks(alignment: &Alignment, runs: usize) -> Vec<String> {
    let mut remarks = Vec::new();
    if alignment.view.folded {
        remarks
            .push("a loop whose count depends on the shape is counted as its largest repetition".to_owned());
    }
    if !alignment.view.workspaces.is_empty() {
        remarks.push("some shapes need small workspaces that others do not".to_owned());
    }
    let odd = runs - alignment.runs.len();
    if odd > 0 {
        let whose = if alignment.partial { ", all of some shape," } else { "" };
        remarks
            .push(format!("{odd} of {runs} runs{whose} took another course than the rest and were left out"));
    }
    remarks
}

/// The symbolic sequence of aligned runs: one size per distinct row of bytes.
pub(super) fn sequence(
    alignment: &Alignment,
    programs: &[&Program],
    points: &[Vec<u64>],
    places: &Places,
) -> Sequence {
    let of_runs: Vec<Vec<u64>> = alignment.runs.iter().map(|&run| points[run].clone()).collect();
    let search = Search::new(&of_runs);
    let mut known: HashMap<&[u64], i64> = HashMap::new();
    let mut rows: Vec<&[u64]> = Vec::new();
    let mut of_block = Vec::with_capacity(alignment.bytes.len());
    for bytes in &alignment.bytes {
        let number = *known.entry(bytes).or_insert_with(|| {
            rows.push(bytes);
            rows.len() as i64
        });
        of_block.push(number);
    }
    let mut sequence = Sequence {
        threshold_bytes: alignment.view.threshold,
        sizes: bounded::sizes(&search, &of_runs, &rows),
        ..Sequence::default()
    };
    if !alignment.view.workspaces.is_empty() {
        let seen = |(program, point): (&&Program, &Vec<u64>)| Seen {
            shape: point.clone(),
            bytes: alignment.view.workspace_bytes(program),
        };
        sequence.sizes.push(Size::Nearby { seen: programs.iter().zip(points).map(seen).collect() });
        sequence.steps.push(sequence.sizes.len() as i64);
        sequence.placed.push(0);
    }
    let mut texts: HashMap<&str, u32> = HashMap::new();
    for event in &alignment.course.events {
        let (Event::Alloc(block) | Event::Free(block)) = *event;
        let text = alignment.sites[block].and_then(|site| places.get(&site)).map(|place| place.text.as_str());
        let place = text.map_or(0, |text| {
            *texts.entry(text).or_insert_with(|| {
                sequence.places.push(text.to_owned());
                sequence.places.len() as u32
            })
        });
        let allocates = matches!(event, Event::Alloc(_));
        sequence.steps.push(if allocates { of_block[block] } else { -of_block[block] });
        sequence.placed.push(if allocates { place } else { 0 });
    }
    sequence
}

/// What library functions that the runs went through choose by the lengths.
pub(super) fn choices(programs: &[&Program], places: &Places) -> Vec<String> {
    let sites = programs.iter().flat_map(|program| &program.blocks).filter_map(|block| block.site);
    let choices: BTreeSet<&String> = sites.filter_map(|site| places.get(&site)?.choice.as_ref()).collect();
    choices.into_iter().cloned().collect()
}

/// What the recorded peaks have beyond the sequence's own: the blocks below its threshold.
pub(super) fn residual(alignment: &Alignment, runs: &[&Run], points: &[Vec<u64>]) -> Size {
    let beyond = |&run: &usize| {
        let program = &runs[run].program;
        let sized = alignment.view.of(program).peak().saturating_add(alignment.view.workspace_bytes(program));
        (runs[run].span.working_peak_bytes.saturating_sub(sized), runs[run].span.working_peak_bytes)
    };
    let (beyond, peaks): (Vec<u64>, Vec<u64>) = alignment.runs.iter().map(beyond).unzip();
    let largest = beyond.iter().copied().max().unwrap_or(0);
    let negligible = |(&beyond, &peak): (&u64, &u64)| beyond as f64 <= NEGLIGIBLE_RESIDUAL * peak as f64;
    if beyond.iter().zip(&peaks).all(negligible) || bounded::bounded(&beyond).is_some() {
        return Size::Bounded { bytes: largest };
    }
    let points: Vec<Vec<u64>> = alignment.runs.iter().map(|&run| points[run].clone()).collect();
    let beyond: Vec<f64> = beyond.iter().map(|&bytes| bytes as f64).collect();
    Size::Fitted(regression::fit(&points, &beyond))
}
