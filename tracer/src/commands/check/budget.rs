//! Budgets: the tables `[[budget]]` of `memtrace.toml`, or `[[tool.memtrace.budget]]` of
//! `pyproject.toml`.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Deserialize;
use toml::{Table, Value};
use wildmatch::WildMatch;

use crate::commands::defaults::{BUDGET, nearest, table_of};
use crate::commands::usage::Usage;
use crate::units::parse_size;

/// The budgets of a file, in its order.
pub struct Budgets {
    file: PathBuf,
    all: Vec<Budget>,
}

/// How much memory something may need.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Budget {
    /// Which operators it is of: a name, or the last part of one; `*` stands for any text. Without
    /// it, it is of whole recordings.
    pub operator: Option<String>,
    /// Lengths of the operator's first input.
    pub shape: Option<Vec<u64>>,
    /// Command lines of the recordings that it is of.
    pub command: Option<String>,
    /// Working peak of an operator; peak of live bytes of a recording.
    pub peak: Option<Size>,
    /// Growth of the resident size during an operator; peak resident size of a recording.
    pub resident: Option<Size>,
    /// One-time bytes of an operator.
    pub one_time: Option<Size>,
    /// Peak of used bytes on devices.
    pub device: Option<Size>,
    /// What a law's peak grows by with each element of the input.
    pub bytes_per_element: Option<f64>,
}

/// A number of bytes, as a number or as text with a unit.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "Value")]
pub struct Size(pub u64);

impl TryFrom<Value> for Size {
    type Error = String;

    fn try_from(value: Value) -> Result<Size, String> {
        match value {
            Value::Integer(bytes) => {
                u64::try_from(bytes).map(Size).map_err(|_| format!("{bytes} is below 0"))
            }
            Value::String(text) => parse_size(&text).map(Size),
            other => Err(format!(
                "a size is a text like \"1.5 GB\" or a number of bytes, not {}",
                other.type_str()
            )),
        }
    }
}

impl Budgets {
    /// Of the nearest file, from a directory upwards.
    ///
    /// # Errors
    /// [`Usage`]: there is none, or it has no budgets.
    pub fn nearest(directory: &Path) -> Result<Budgets> {
        match nearest(directory, |table| table.contains_key(BUDGET))? {
            Some((file, table)) => Budgets::of(file, table),
            None => Err(Usage(
                "there is no memtrace.toml with a [[budget]] here or above; write one, or name it: --budget FILE"
                    .into(),
            )
            .into()),
        }
    }

    /// Of this file.
    ///
    /// # Errors
    /// It cannot be read, or [`Usage`]: it has no budgets, or one makes no sense.
    pub fn read(file: &Path) -> Result<Budgets> {
        Budgets::of(file.into(), table_of(file)?.unwrap_or_default())
    }

    fn of(file: PathBuf, mut table: Table) -> Result<Budgets> {
        let refused = |why: String| Usage(format!("{}: {why}", file.display()));
        let Some(Value::Array(entries)) = table.remove(BUDGET) else {
            return Err(refused("there is no budget; write a [[budget]] table".into()).into());
        };
        let mut all = Vec::new();
        for (number, entry) in (1..).zip(entries) {
            let budget = entry.try_into().map_err(|error: toml::de::Error| error.message().to_owned());
            let budget = budget.and_then(Budget::checked);
            all.push(budget.map_err(|why| refused(format!("[[budget]] number {number}: {why}")))?);
        }
        Ok(Budgets { file, all })
    }

    /// Where they are from.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// All of them, with their numbers from 1.
    pub fn numbered(&self) -> impl Iterator<Item = (usize, &Budget)> {
        (1..).zip(&self.all)
    }
}

impl Budget {
    fn checked(self) -> Result<Budget, String> {
        let of_operator = self.shape.is_some() || self.one_time.is_some() || self.bytes_per_element.is_some();
        if of_operator && self.operator.is_none() {
            return Err("shape, one-time and bytes-per-element are of an operator; name it".into());
        }
        let sizes = [self.peak, self.resident, self.one_time, self.device];
        if sizes.iter().all(Option::is_none) && self.bytes_per_element.is_none() {
            return Err("it has no limit; write peak, resident, one-time, device or bytes-per-element".into());
        }
        if self.bytes_per_element.is_some_and(|bytes| !bytes.is_finite() || bytes < 0.0) {
            return Err("bytes-per-element is a number from 0 on".into());
        }
        Ok(self)
    }

    /// True if it is of this operator.
    pub fn is_of(&self, operator: &str) -> bool {
        let last = operator.rsplit([':', '.']).next().unwrap_or(operator);
        self.operator.as_ref().is_some_and(|wanted| {
            let wanted = WildMatch::new(wanted);
            wanted.matches(operator) || wanted.matches(last)
        })
    }

    /// True if it is of recordings of this command.
    pub fn is_of_command(&self, command: &str) -> bool {
        self.command.as_ref().is_none_or(|wanted| WildMatch::new(wanted).matches(command))
    }

    /// What it is of, in words.
    pub fn names(&self) -> String {
        let operator = self.operator.as_ref().map(|name| format!("operator {name:?}"));
        let shape = self.shape.as_ref().map(|shape| format!("shape {shape:?}"));
        [operator, shape].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budgets(text: &str) -> Result<Vec<Budget>, String> {
        let table = text.parse().unwrap();
        Budgets::of("memtrace.toml".into(), table).map(|found| found.all).map_err(|error| error.to_string())
    }

    #[test]
    fn sizes_are_numbers_or_texts() {
        let found =
            budgets("[[budget]]\npeak = 4096\n[[budget]]\noperator = 'f'\none-time = '1.5 MB'").unwrap();
        assert_eq!((found[0].peak, found[1].one_time), (Some(Size(4096)), Some(Size(1_500_000))));
    }

    #[test]
    fn what_makes_no_sense_is_refused_in_a_sentence() {
        for (text, why) in [
            ("quiet = true", "there is no budget"),
            ("[[budget]]\noperator = 'f'", "number 1: it has no limit"),
            ("[[budget]]\nshape = [3]\npeak = 3", "number 1: shape, one-time"),
            ("[[budget]]\npeak = '3 bananas'", "number 1: \"bananas\" is not a unit"),
            ("[[budget]]\npeak = -3", "number 1: -3 is below 0"),
            ("[[budget]]\npeek = 3", "number 1: unknown field `peek`"),
            ("[[budget]]\noperator = 'f'\nbytes-per-element = nan", "number 1: bytes-per-element is"),
        ] {
            let error = budgets(text).unwrap_err();
            assert!(error.starts_with("memtrace.toml: ") && error.contains(why), "{error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }

    #[test]
    fn operators_are_named_whole_by_their_last_part_or_by_a_pattern() {
        let of = |name: &str| Budget { operator: Some(name.into()), ..Budget::default() };
        for name in ["run:gst3d", "gst3d", "run:*", "gst*", "*"] {
            assert!(of(name).is_of("run:gst3d"), "{name}");
        }
        for name in ["run", "gst", "other:gst3d", "run:gst"] {
            assert!(!of(name).is_of("run:gst3d"), "{name}");
        }
    }
}
