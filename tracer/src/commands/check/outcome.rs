//! What came of a check: `docs/schemas/check.schema.json` is made from these types.

use std::fmt;

use memtrace_analysis::report::composition::Place;
use schemars::JsonSchema;
use serde::Serialize;

use super::budget::{Budget, Size};
use crate::terminal::clean;
use crate::units::Bytes;

/// Operators that a sentence names.
const NAMED: usize = 5;

/// What `memtrace check --format json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Checked {
    /// The trace or the model.
    pub subject: String,
    /// Every budget that applies, with what was measured.
    pub outcomes: Vec<Outcome>,
    /// Budgets that are of nothing in there, a sentence each: they fail as well.
    pub unmatched: Vec<String>,
}

/// A budget, and what was measured.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Outcome {
    /// The number of its table in the file, from 1.
    pub budget: usize,
    /// The operator and its input, or the recording.
    pub of: String,
    /// What is limited.
    pub figure: Figure,
    /// `bytes`, or `bytes per element`.
    pub unit: &'static str,
    /// The most that there may be.
    pub limit: f64,
    /// What there is.
    pub measured: f64,
    /// True if that is more.
    pub exceeded: bool,
    /// The place in the program that set the peak.
    pub place: Option<String>,
    /// Its source file, where the line is known.
    pub file: Option<String>,
    /// The line in that file, from 1.
    pub line: Option<u32>,
}

/// What a budget limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Working peak, or peak of live bytes.
    Peak,
    /// Growth of the resident size, or its peak.
    Resident,
    /// One-time bytes.
    OneTime,
    /// Peak of used bytes on devices.
    Device,
    /// Growth of a law's peak by each element of the input.
    BytesPerElement,
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Figure::Peak => "peak",
            Figure::Resident => "resident memory",
            Figure::OneTime => "one-time bytes",
            Figure::Device => "peak on devices",
            Figure::BytesPerElement => "bytes per element",
        })
    }
}

impl Checked {
    /// Of a trace or a model, before anything is checked.
    pub fn new(subject: String) -> Checked {
        Checked { subject, outcomes: Vec::new(), unmatched: Vec::new() }
    }

    /// True if nothing is exceeded, and every budget is of something.
    pub fn holds(&self) -> bool {
        self.unmatched.is_empty() && self.outcomes.iter().all(|outcome| !outcome.exceeded)
    }

    /// Those that are exceeded.
    pub fn exceeded(&self) -> impl Iterator<Item = &Outcome> {
        self.outcomes.iter().filter(|outcome| outcome.exceeded)
    }

    /// Adds what was measured for a budget of bytes, if there is one.
    pub fn compare(&mut self, figure: Figure, limit: Option<Size>, measured: Option<u64>, of: &Subject) {
        match (limit, measured) {
            (None, _) => {}
            (Some(Size(limit)), Some(measured)) => {
                self.add(figure, "bytes", limit as f64, measured as f64, of)
            }
            (Some(_), None) => {
                let (number, what) = (of.budget, &of.what);
                self.unmatched.push(format!("budget {number}: the {figure} of {what} was not measured"));
            }
        }
    }

    /// Fails a budget of an operator that `what` lacks; `known` are those that it has.
    pub fn lacks<'a>(&mut self, budget: (usize, &Budget), what: &str, known: impl Iterator<Item = &'a str>) {
        let mut known: Vec<&str> = known.collect();
        known.dedup();
        known.truncate(NAMED);
        let known = if known.is_empty() { "no operator".to_owned() } else { known.join(", ") };
        let (number, names) = (budget.0, budget.1.names());
        self.unmatched.push(format!("budget {number} is of {names}, and the {what} has {known}"));
    }

    /// Fails if no budget was of anything in there.
    pub fn finished(mut self) -> Checked {
        if self.outcomes.is_empty() && self.unmatched.is_empty() {
            let subject = &self.subject;
            self.unmatched
                .push(format!("no budget is of {subject}; a [[budget]] without command is of every trace"));
        }
        self
    }

    /// Adds what was measured for a budget.
    pub fn add(&mut self, figure: Figure, unit: &'static str, limit: f64, measured: f64, of: &Subject) {
        self.outcomes.push(Outcome {
            budget: of.budget,
            of: of.what.clone(),
            figure,
            unit,
            limit,
            measured,
            exceeded: measured > limit,
            place: of.place.clone(),
            file: of.file.clone(),
            line: of.line,
        });
    }
}

/// What budgets are compared with, and where that is in the program.
#[derive(Default)]
pub struct Subject {
    /// The number of the budget.
    pub budget: usize,
    /// The operator and its input, or the recording.
    pub what: String,
    place: Option<String>,
    file: Option<String>,
    line: Option<u32>,
}

impl Subject {
    /// Without a place in the program.
    pub fn new(budget: usize, what: String) -> Subject {
        Subject { budget, what, ..Subject::default() }
    }

    /// At a place that only words name.
    pub fn at(self, place: Option<String>) -> Subject {
        Subject { place, ..self }
    }

    /// At a place with a file and a line, if there is one.
    pub fn at_place(self, place: Option<&Place>, label: Option<String>) -> Subject {
        let source = place.and_then(Place::source);
        let (file, line) = (source.map(|(file, _)| file.to_owned()), source.map(|(_, line)| line));
        Subject { place: label, file, line, ..self }
    }
}

impl Outcome {
    /// One line for people.
    pub fn sentence(&self) -> String {
        let over = self.measured - self.limit;
        let share =
            if self.limit > 0.0 { format!(" ({:+.1} %)", 100.0 * over / self.limit) } else { String::new() };
        let place = self.place.as_ref().map_or(String::new(), |place| format!(", at {place}"));
        let (measured, limit) = (self.shown(self.measured), self.shown(self.limit));
        let text =
            format!("{}: {} of {measured} exceeds the budget of {limit}{share}{place}", self.of, self.figure);
        clean(&text)
    }

    /// A number of it, with its unit where that is needed.
    pub fn shown(&self, number: f64) -> String {
        match self.figure {
            Figure::BytesPerElement => format!("{number:.2}"),
            _ => Bytes(number as u64).to_string(),
        }
    }
}
