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
    /// ⌊budget/line⌋·line, at least one line: as many whole lines as a fixed buffer holds.
    Lines {
        /// Bytes of one line.
        line: Form,
        /// The largest budget that agrees with every run, bytes.
        budget: u64,
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
            Size::Lines { line, budget } => {
                let line = line.at(point)?;
                let budget = u128::from(*budget);
                Some(if line == 0 { 0 } else { (budget / line).max(1) * line })
            }
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
            Size::Lines { line, budget } => Some(line.at(point)?.max(u128::from(*budget))),
            Size::Bounded { .. } => self.at(point),
            Size::Fitted(regression) => regression.upper(point),
        }
    }

    /// True where the size rests on exact forms alone.
    pub fn is_exact(&self) -> bool {
        matches!(self, Size::Exact { .. })
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
            Size::Lines { line, budget } => times(format!(
                "whole lines of {} within {budget}",
                line.words(line.coefficient.into(), names)
            )),
            Size::Bounded { bytes } => times(format!("at most {bytes}")),
            Size::Fitted(regression) => times(regression.words(names)),
        }
    }
}
