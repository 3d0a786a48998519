//! How large one block of an operator is: exact, bounded, or fitted.

use serde::{Deserialize, Serialize};

use super::Form;
use crate::shape::Point;
use crate::stats::regression::Regression;

/// The size of a block as a function of the shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// A form that gives every training run's bytes exactly.
    Exact {
        /// The simplest such form.
        form: Form,
        /// Other forms that the training shapes do not distinguish from it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        others: Vec<Form>,
    },
    /// ⌊budget/counted⌋·line, at least one line: as many lines as a fixed budget allows.
    Lines {
        /// Bytes of one line.
        line: Form,
        /// What one line takes of the budget.
        counted: Form,
        /// The roundest budget that agrees with every run, bytes.
        budget: u64,
        /// The largest one.
        budget_upper: u64,
    },
    /// min(form, cap): a buffer that grows with the shape up to a fixed size, as NumPy's of 8,192
    /// elements do.
    Capped {
        /// Bytes below the cap.
        form: Form,
        /// The most it was seen to have.
        cap: u64,
    },
    /// form mod block: what is left for the last turn of a loop that works block by block, as
    /// NumPy's histogram does with 65,536 elements at a time.
    Remainder {
        /// Bytes of all turns together.
        form: Form,
        /// Bytes of a whole turn.
        block: u64,
    },
    /// The form rounded up to whole units: what pools of devices allocate.
    Units {
        /// Bytes that were requested.
        form: Form,
        /// The most that can have been requested, as far as the runs show.
        most: Form,
        /// Bytes of a unit.
        unit: u64,
    },
    /// Blocks that some shapes need and others do not: what the run of the nearest shape had.
    Nearby {
        /// One entry per training run.
        seen: Vec<Seen>,
    },
    /// No form fits, yet the size stays within narrow limits: its largest possible value.
    Bounded {
        /// Assumed bytes.
        bytes: u64,
    },
    /// No form fits: a regression with an error.
    Fitted(Regression),
}

impl Default for Size {
    fn default() -> Size {
        Size::Bounded { bytes: 0 }
    }
}

/// What one run had of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// One value per variable.
    pub shape: Vec<u64>,
    /// Bytes.
    pub bytes: u64,
}

impl Size {
    /// Best estimate at a point, bytes; `None` where it does not fit 128 bits.
    pub fn at(&self, point: &Point) -> Option<u128> {
        match self {
            Size::Exact { form, .. } => form.at(point),
            Size::Lines { line, counted, budget, .. } => lines(line, counted, *budget, point),
            Size::Capped { form, cap } => Some(form.at(point)?.min(u128::from(*cap))),
            Size::Remainder { form, block } => form.at(point)?.checked_rem(u128::from(*block)),
            Size::Units { form, unit, .. } => units(form, *unit, point),
            Size::Nearby { seen } => Some(u128::from(nearest(seen, point))),
            Size::Bounded { bytes } => Some(u128::from(*bytes)),
            Size::Fitted(regression) => regression.at(point),
        }
    }

    /// Upper bound at a point, bytes: the largest of the forms the training shapes allow.
    pub fn upper(&self, point: &Point) -> Option<u128> {
        match self {
            Size::Exact { form, others } => {
                let mut largest = form.at(point)?;
                for other in others {
                    largest = largest.max(other.at(point)?);
                }
                Some(largest)
            }
            Size::Lines { line, counted, budget_upper, .. } => lines(line, counted, *budget_upper, point),
            Size::Units { form, most, unit } => {
                Some(units(form, *unit, point)?.max(units(most, *unit, point)?))
            }
            Size::Nearby { seen } => Some(seen.iter().map(|seen| u128::from(seen.bytes)).max().unwrap_or(0)),
            Size::Capped { .. } | Size::Remainder { .. } | Size::Bounded { .. } => self.at(point),
            Size::Fitted(regression) => regression.upper(point),
        }
    }

    /// True where the training shapes leave more than one form.
    pub fn is_undetermined(&self) -> bool {
        match self {
            Size::Exact { others, .. } => !others.is_empty(),
            Size::Units { form, most, .. } => form != most,
            _ => false,
        }
    }

    /// `count` such blocks in words.
    pub fn words(&self, count: u64, names: &[String]) -> String {
        let times = |text: String| if count == 1 { text } else { format!("{count}·[{text}]") };
        match self {
            Size::Exact { form, .. } if form.constant == 0 => {
                form.words(u128::from(form.coefficient) * u128::from(count), names)
            }
            Size::Exact { form, .. } => times(form.words(u128::from(form.coefficient), names)),
            Size::Lines { line, counted, budget, .. } => {
                let words = |form: &Form| form.words(form.coefficient.into(), names);
                times(format!("⌊{budget}/({})⌋·{}", words(counted), words(line)))
            }
            Size::Capped { form, cap } => {
                times(format!("at most {cap} of {}", form.words(form.coefficient.into(), names)))
            }
            Size::Remainder { form, block } => times(format!(
                "the rest of {} in blocks of {block}",
                form.words(form.coefficient.into(), names)
            )),
            Size::Units { form, unit, .. } => {
                let words = form.words(form.coefficient.into(), names);
                format!("{}·⌈({words})/{unit}⌉", unit.saturating_mul(count))
            }
            Size::Nearby { seen } => {
                let most = seen.iter().map(|seen| seen.bytes).max().unwrap_or(0);
                times(format!("up to {most} that some shapes need"))
            }
            Size::Bounded { bytes } => times(format!("at most {bytes}")),
            Size::Fitted(regression) => times(regression.words(names)),
        }
    }
}

fn units(form: &Form, unit: u64, point: &Point) -> Option<u128> {
    let unit = u128::from(unit.max(1));
    form.at(point)?.div_ceil(unit).checked_mul(unit)
}

/// What the run of the nearest shape had: nearest by the ratios of the lengths.
fn nearest(seen: &[Seen], point: &Point) -> u64 {
    let distance = |seen: &Seen| {
        let apart = |(&a, &b): (&u64, &u64)| (a.max(1) as f64 / b.max(1) as f64).ln().powi(2);
        seen.shape.iter().zip(point).map(apart).sum::<f64>()
    };
    seen.iter().min_by(|a, b| distance(a).total_cmp(&distance(b))).map_or(0, |seen| seen.bytes)
}

fn lines(line: &Form, counted: &Form, budget: u64, point: &Point) -> Option<u128> {
    let (line, counted) = (line.at(point)?, counted.at(point)?);
    let count = u128::from(budget).checked_div(counted).unwrap_or(0).max(1);
    count.checked_mul(line)
}
