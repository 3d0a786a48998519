//! How large one block of an operator is: exact, bounded, or fitted.

use serde::{Deserialize, Serialize};

use super::{Form, Point, Regression};

/// The size of a block as a function of the shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// A form that gives every training run's bytes exactly.
    Exact {
        /// The simplest such form.
        form: Form,
        /// Other forms that the training shapes do not tell apart from it.
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
    /// No form fits, yet the size stays within narrow limits: its largest possible value.
    Bounded {
        /// Assumed bytes.
        bytes: u64,
    },
    /// No form fits: a regression with an error.
    Fitted(Regression),
}

impl Size {
    /// Best estimate at a point, bytes; `None` where it does not fit 128 bits.
    pub fn at(&self, point: &Point) -> Option<u128> {
        match self {
            Size::Exact { form, .. } => form.at(point),
            Size::Lines { line, counted, budget, .. } => lines(line, counted, *budget, point),
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
            Size::Bounded { .. } => self.at(point),
            Size::Fitted(regression) => regression.upper(point),
        }
    }

    /// True where the training shapes leave more than one form.
    pub fn is_undetermined(&self) -> bool {
        matches!(self, Size::Exact { others, .. } if !others.is_empty())
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
            Size::Bounded { bytes } => times(format!("at most {bytes}")),
            Size::Fitted(regression) => times(regression.words(names)),
        }
    }
}

fn lines(line: &Form, counted: &Form, budget: u64, point: &Point) -> Option<u128> {
    let (line, counted) = (line.at(point)?, counted.at(point)?);
    let count = u128::from(budget).checked_div(counted).unwrap_or(0).max(1);
    count.checked_mul(line)
}
