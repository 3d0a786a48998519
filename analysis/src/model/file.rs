//! Model files: JSON, read with suspicion, written whole or not at all.

use std::cmp::Ordering;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::digest::hex;
use crate::error::Error;
use crate::law::{Form, Rule, Size};
use crate::model::{ArrayLaw, Body, Law, Model, Proof, SCHEMA_VERSION};
use crate::stats::regression::Regression;
use crate::units::Bytes;

/// Larger files are refused: a law is kilobytes.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// What a model says whose file is not as it was written.
pub const CHANGED: &str = "the model file was changed after memtrace wrote it: its laws count as unverified";
/// Most variables (array axes) a law may have.
const MAX_VARIABLES: usize = 64;
/// Largest offset a form may have either way.
const MAX_OFFSET: u64 = 1 << 32;
/// Largest power of a monomial or factor.
const MAX_POWER: u8 = 4;

impl Model {
    /// Reads a model file.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Newer`] and [`Error::Older`] for another schema version, [`Error::Malformed`] for
    /// anything that is not a model or whose laws name what they do not have.
    pub fn load(path: impl AsRef<Path>) -> Result<Model, Error> {
        let path = path.as_ref();
        let io = |source| Error::Io { action: "read", path: path.to_owned(), source };
        if path.is_dir() {
            return Err(malformed(path, "it is a directory; fit and sweep make models of traces".to_owned()));
        }
        let mut bytes = Vec::new();
        let file = fs::File::open(path).map_err(io)?;
        // One byte beyond the limit distinguishes a file that is too large from one that just fits.
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(malformed(path, format!("it is larger than {}", Bytes(MAX_FILE_BYTES))));
        }
        let text = String::from_utf8(bytes)
            .map_err(|_| malformed(path, "it is no text; fit and sweep make models of traces".to_owned()))?;
        Model::parse(&text).map_err(|error| match error {
            Error::Malformed { reason, .. } => malformed(path, reason),
            other => other,
        })
    }

    /// Reads a model from JSON text; the path in its errors is empty.
    ///
    /// # Errors
    /// As [`Model::load`].
    pub fn parse(text: &str) -> Result<Model, Error> {
        let malformed = |reason| malformed(Path::new(""), reason);
        let value: serde_json::Value =
            serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?;
        let version = value.get("schema_version").and_then(serde_json::Value::as_u64);
        let found = version.ok_or_else(|| malformed("it has no schema_version".to_owned()))?;
        let supported = SCHEMA_VERSION;
        match found.cmp(&u64::from(supported)) {
            Ordering::Greater => return Err(Error::Newer { found, supported }),
            Ordering::Less => return Err(Error::Older { found, supported }),
            Ordering::Equal => {}
        }
        let digest = value.get("sha256").and_then(serde_json::Value::as_str).map(str::to_owned);
        let mut model: Model = serde_json::from_value(value).map_err(|error| malformed(error.to_string()))?;
        for law in &model.laws {
            check(law).map_err(|reason| malformed(format!("the law for {}: {reason}", law.key.operator)))?;
        }
        if digest.is_none_or(|digest| sha256(&blanked(text, &digest)) != digest) {
            model.distrust();
        }
        Ok(model)
    }

    /// The file is not as memtrace wrote it: what it was proved by is no proof of it.
    fn distrust(&mut self) {
        for law in &mut self.laws {
            law.proof = Proof::Unverified;
            law.on_devices.iter_mut().for_each(|there| there.law.proof = Proof::Unverified);
        }
        if !self.notes.iter().any(|note| note == CHANGED) {
            self.notes.push(CHANGED.to_owned());
        }
    }

    /// The model as JSON text, with its digest: that of the text with 64 zeros in the digest's
    /// place.
    ///
    /// # Errors
    /// A number that JSON has no word for.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        #[derive(serde::Serialize)]
        struct Signed<'a> {
            sha256: &'a str,
            #[serde(flatten)]
            model: &'a Model,
        }
        let blank = "0".repeat(64);
        let text = serde_json::to_string_pretty(&Signed { sha256: &blank, model: self })? + "\n";
        let digest = sha256(&text);
        Ok(text.replacen(&blank, &digest, 1))
    }

    /// Writes a model file; one that is there is replaced only when the new one is complete.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let io = |source| Error::Io { action: "write", path: path.to_owned(), source };
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".{}.tmp", std::process::id()));
        let text = self.to_json().map_err(|error| io(error.into()))?;
        // A file of that name is not followed if it is a link: create_new refuses it.
        let written =
            fs::File::options().write(true).create_new(true).open(&temporary).and_then(|mut file| {
                file.write_all(text.as_bytes())?;
                file.sync_all()
            });
        let renamed = written.and_then(|()| fs::rename(&temporary, path));
        renamed.map_err(|source| {
            // Nothing more can be done about the temporary file than to try.
            let _ = fs::remove_file(&temporary);
            io(source)
        })
    }
}

/// The text with zeros in its digest's place, which is the first occurrence.
fn blanked(text: &str, digest: &str) -> String {
    text.replacen(digest, &"0".repeat(digest.len()), 1)
}

fn sha256(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

fn malformed(path: &Path, reason: String) -> Error {
    Error::Malformed { path: path.to_owned(), reason }
}

/// What evaluating a law relies on: every index names something, every number is in range.
fn check(law: &Law) -> Result<(), String> {
    let dims = law.variables.len();
    ensure(dims > 0 && dims <= MAX_VARIABLES, "a law has 1 to 64 variables")?;
    for array in law.inputs.iter().chain(&law.outputs) {
        check_array(array, dims)?;
    }
    check_size(&law.residual, dims)?;
    check_body(&law.body, dims)?;
    if let Some(worst) = &law.worst {
        check_body(&worst.body, dims)?;
        check_size(&worst.residual, dims)?;
        ensure(
            worst.factor.is_finite() && worst.factor >= 1.0,
            "a factor of the worst data values is below 1",
        )?;
    }
    if let Some(there) = &law.on_devices {
        ensure(there.law.on_devices.is_none(), "a law of devices has one of devices itself")?;
        ensure(there.law.variables.len() == dims, "a law of devices has other variables")?;
        check(&there.law).map_err(|reason| format!("of devices: {reason}"))?;
        ensure(is_plain(there.reserved), "a part that is reserved is negative or not finite")?;
    }
    let times =
        [law.seconds.overhead, law.seconds.per_element, law.seconds.recorded_spread, law.same_shape_spread];
    ensure(times.iter().all(|number| is_plain(*number)), "a number is negative or not finite")?;
    if let Some(resident) = &law.resident {
        ensure((0.0..=1.0).contains(&resident.touched), "a touched share is outside 0 to 1")?;
        ensure(is_plain(resident.error), "a resident error is negative or not finite")?;
    }
    let shapes = law.shapes().all(|shape| shape.len() == dims);
    ensure(shapes, "a run has another number of dimensions")?;
    ensure(is_plain(law.short), "how far a bound is short is negative or not finite")?;
    if let Some(growth) = &law.one_time_growth {
        check_regression(growth, dims)?;
    }
    let learned = law.learned.as_ref().is_none_or(|learned| learned.fits(law));
    ensure(learned, "what it learned is nothing that observations leave behind")
}

fn check_body(body: &Body, dims: usize) -> Result<(), String> {
    match body {
        Body::Regression(regression) => check_regression(regression, dims),
        Body::Symbolic(sequence) => {
            sequence.sizes.iter().try_for_each(|size| check_size(size, dims))?;
            let known = |&step: &i64| sequence.step(step).is_some();
            ensure(sequence.steps.iter().all(known), "a step names a size that is not there")?;
            let placed = |&place: &u32| place as usize <= sequence.places.len();
            ensure(sequence.placed.iter().all(placed), "a step names a place that is not there")?;
            let mut live = vec![0i64; sequence.sizes.len()];
            for (index, allocates) in sequence.steps.iter().filter_map(|&step| sequence.step(step)) {
                live[index] += if allocates { 1 } else { -1 };
                ensure(live[index] >= 0, "a step releases a block that is not live")?;
            }
            Ok(())
        }
    }
}

fn check_array(array: &ArrayLaw, dims: usize) -> Result<(), String> {
    ensure(array.shape.len() <= MAX_VARIABLES, "an array has more than 64 axes")?;
    array.shape.iter().try_for_each(|size| check_size(size, dims))
}

fn check_size(size: &Size, dims: usize) -> Result<(), String> {
    match size {
        Size::Exact { form, others } => {
            check_form(form, dims)?;
            others.iter().try_for_each(|form| check_form(form, dims))
        }
        Size::Lines { line, counted, .. } => check_form(line, dims).and_then(|()| check_form(counted, dims)),
        Size::Capped { form, .. } => check_form(form, dims),
        Size::Remainder { form, block } => {
            ensure(*block > 0, "a block of a remainder has no bytes")?;
            check_form(form, dims)
        }
        Size::Nearby { seen } => {
            let fits = seen.iter().all(|seen| seen.shape.len() == dims);
            ensure(fits, "a run that was seen has another number of dimensions")
        }
        Size::Units { form, most, unit } => {
            ensure(*unit > 0, "a unit has no bytes")?;
            check_form(form, dims).and_then(|()| check_form(most, dims))
        }
        Size::Bounded { .. } => Ok(()),
        Size::Fitted(regression) => check_regression(regression, dims),
    }
}

fn check_form(form: &Form, dims: usize) -> Result<(), String> {
    for factor in &form.factors {
        ensure(factor.variable < dims, "a form names a variable that is not there")?;
        ensure((1..=MAX_POWER).contains(&factor.power), "a form has a power outside 1 to 4")?;
        ensure(factor.offset.unsigned_abs() <= MAX_OFFSET, "a form has an absurd offset")?;
        ensure(factor.rule != Rule::Hops(0), "a form has hops of no length")?;
    }
    ensure(form.factors.len() <= MAX_VARIABLES, "a form has more than 64 factors")
}

fn check_regression(regression: &Regression, dims: usize) -> Result<(), String> {
    let term = |term: &crate::stats::regression::Monomial| {
        is_plain(term.coefficient)
            && term.powers.len() == dims
            && term.powers.iter().all(|&power| power <= MAX_POWER)
    };
    ensure(regression.terms.iter().all(term), "a regression has a term that is negative or does not fit")?;
    ensure(is_plain(regression.error), "a regression has an error that is negative or not finite")
}

fn is_plain(number: f64) -> bool {
    number.is_finite() && number >= 0.0
}

fn ensure(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.to_owned()) }
}
