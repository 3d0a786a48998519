//! A law evaluated at a shape.

use super::law::Law;
use super::parts::{ArrayLaw, Body, Proof, Variable};
use super::task_bytes::{DeviceBytes, TaskBytes};
use crate::error::Error;
use crate::law::Size;
use crate::shape::{Point, joined};

impl Law {
    /// Bytes and seconds at a shape (one value per variable).
    ///
    /// # Errors
    /// A shape of another number of dimensions, an empty one, or one whose bytes do not fit.
    pub fn bytes(&self, shape: &Point) -> Result<TaskBytes, Error> {
        let plain = self.plain_bytes(shape)?;
        Ok(self.learned.as_ref().map_or(plain, |learned| learned.applied(self, shape, plain)))
    }

    /// The same by the law as fitted, without what was observed since it was fitted.
    ///
    /// # Errors
    /// As [`Law::bytes`].
    pub fn plain_bytes(&self, shape: &Point) -> Result<TaskBytes, Error> {
        self.check(shape)?;
        let too_large = || Error::Shape(format!("the shape {} is too large for any memory", joined(shape)));
        let fit = |bytes: Option<u128>| u64::try_from(bytes.ok_or_else(too_large)?).map_err(|_| too_large());
        let sum = |a: Option<u128>, b: Option<u128>| a?.checked_add(b?);
        let working = match &self.body {
            Body::Symbolic(sequence) => sum(sequence.peak_bytes(shape), self.residual.at(shape)),
            Body::Regression(regression) => regression.at(shape),
        };
        let upper = self.fitted_upper(shape).map(|bytes| self.widened(shape, bytes));
        let working = fit(working)?;
        Ok(TaskBytes {
            working,
            working_upper: fit(upper)?.max(working),
            input: fit(arrays_bytes(self.inputs_at(false), shape))?,
            output: fit(arrays_bytes(&self.outputs, shape))?,
            seconds: self.seconds.at(crate::shape::volume(shape) as f64),
            one_time: self.one_time_bytes(shape),
            device: DeviceBytes {
                input: fit(arrays_bytes(self.inputs_at(true), shape))?,
                ..self.device_bytes(shape)?
            },
        })
    }

    fn device_bytes(&self, shape: &Point) -> Result<DeviceBytes, Error> {
        let Some(there) = &self.on_devices else { return Ok(DeviceBytes::default()) };
        let TaskBytes { working, working_upper, .. } = there.law.plain_bytes(shape)?;
        let (before, reserved) = (there.before_bytes, there.reserved);
        Ok(DeviceBytes { working, working_upper, before, reserved, input: 0 })
    }

    /// The bound of the working peak by what was fitted.
    pub(super) fn fitted_upper(&self, shape: &Point) -> Option<u128> {
        match &self.body {
            _ if self.worst.is_some() => self.worst.as_ref().and_then(|worst| worst.upper(shape)),
            Body::Symbolic(sequence) => sequence.upper_bytes(shape)?.checked_add(self.residual_upper(shape)?),
            Body::Regression(regression) => regression.upper(shape),
        }
    }

    /// The residual's bound. Blocks below the threshold are lines and tables: with shapes beyond
    /// the training range they are taken to grow as much as the most stretched axis, where a run has
    /// shown that, and else as much as the volume. What was fitted has its own growth.
    fn residual_upper(&self, shape: &Point) -> Option<u128> {
        let stretch = |(variable, &n): (&Variable, &u64)| n as f64 / variable.max.max(1) as f64;
        let stretches = || self.variables.iter().zip(shape).map(stretch);
        let growth = match (&self.proof, &self.residual) {
            (Proof::Exact { .. } | Proof::WorstCase { .. }, _) => stretches().fold(1.0, f64::max),
            (_, Size::Fitted(_)) => 1.0,
            _ => stretches().map(|stretch| stretch.max(1.0)).product(),
        };
        let bytes = self.residual.upper(shape)? as f64 * growth;
        (bytes < 2f64.powi(100)).then(|| bytes.ceil() as u128)
    }

    fn check(&self, shape: &Point) -> Result<(), Error> {
        if shape.len() != self.variables.len() {
            return Err(Error::Shape(format!(
                "{} takes {} dimensions ({}), the shape {} has {}",
                self.key.operator,
                self.variables.len(),
                self.names().join(", "),
                joined(shape),
                shape.len()
            )));
        }
        if shape.contains(&0) {
            return Err(Error::Shape(format!(
                "the shape {} is empty: give lengths of at least 1",
                joined(shape)
            )));
        }
        Ok(())
    }
}

fn arrays_bytes<'a>(arrays: impl IntoIterator<Item = &'a ArrayLaw>, shape: &Point) -> Option<u128> {
    arrays.into_iter().try_fold(0u128, |sum, array| sum.checked_add(array.bytes(shape)?))
}
