//! speedscope: its file format, of sampled profiles whose weights are bytes.

use std::collections::HashMap;

use anyhow::Result;
use memtrace_analysis::report::export::{Exported, Stack};
use serde::Serialize;

use super::EXPORTER;

#[derive(Serialize)]
struct File<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    exporter: &'static str,
    name: &'a str,
    #[serde(rename = "activeProfileIndex")]
    active: usize,
    shared: Shared<'a>,
    profiles: Vec<Profile>,
}

#[derive(Serialize)]
struct Shared<'a> {
    frames: Vec<Frame<'a>>,
}

#[derive(Serialize, Clone, Copy, PartialEq, Eq, Hash)]
struct Frame<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    file: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Profile {
    r#type: &'static str,
    name: &'static str,
    unit: &'static str,
    start_value: u64,
    end_value: u64,
    samples: Vec<Vec<usize>>,
    weights: Vec<u64>,
}

/// One profile for each figure.
pub fn json(exported: &Exported) -> Result<Vec<u8>> {
    let (mut frames, mut places, mut of_frames) = (Vec::new(), HashMap::new(), Vec::new());
    for frame in &exported.frames {
        let shown = Frame {
            name: &frame.function,
            file: if frame.file.is_empty() { &frame.library } else { &frame.file },
            line: Some(frame.line).filter(|line| *line > 0),
        };
        // A function at one line is one frame, wherever it was called from.
        let place = *places.entry(shown).or_insert(frames.len());
        if place == frames.len() {
            frames.push(shown);
        }
        of_frames.push(place);
    }
    let file = File {
        schema: "https://www.speedscope.app/file-format-schema.json",
        exporter: EXPORTER,
        name: &exported.command,
        active: 0,
        shared: Shared { frames },
        profiles: vec![
            profile(exported, &of_frames, "live at the peak", |stack| stack.at_peak),
            profile(exported, &of_frames, "allocated in all", |stack| stack.allocated),
            profile(exported, &of_frames, "live at the end", |stack| stack.at_end),
        ],
    };
    Ok(serde_json::to_vec(&file)?)
}

fn profile(exported: &Exported, of_frames: &[usize], name: &'static str, of: fn(&Stack) -> u64) -> Profile {
    let shown = |stack: &&Stack| {
        exported.outermost_first(stack.frame).into_iter().map(|frame| of_frames[frame]).collect()
    };
    let stacks: Vec<&Stack> = exported.stacks.iter().filter(|stack| of(stack) > 0).collect();
    let weights: Vec<u64> = stacks.iter().map(|stack| of(stack)).collect();
    Profile {
        r#type: "sampled",
        name,
        unit: "bytes",
        start_value: 0,
        end_value: weights.iter().fold(0, |sum: u64, weight| sum.saturating_add(*weight)),
        samples: stacks.iter().map(shown).collect(),
        weights,
    }
}
