//! Bytes and seconds of one call.

/// Bytes and seconds of one call, cheap enough to be computed thousands of times.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TaskBytes {
    /// Working peak, inputs not included.
    pub working: u64,
    /// The same at its upper bound.
    pub working_upper: u64,
    /// Inputs in the host's memory.
    pub input: u64,
    /// Outputs, wherever they are.
    pub output: u64,
    /// Seconds of one call.
    pub seconds: f64,
    /// One-time bytes of a process whose first call it is.
    pub one_time: u64,
    /// What it needs of devices.
    pub device: DeviceBytes,
}

/// What a call needs of the memory of devices; nothing where it uses none.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DeviceBytes {
    /// Working peak there, inputs not included.
    pub working: u64,
    /// The same at its upper bound.
    pub working_upper: u64,
    /// Inputs that are there.
    pub input: u64,
    /// See [`super::DeviceLaw::before_bytes`].
    pub before: u64,
    /// See [`super::DeviceLaw::reserved`].
    pub reserved: f64,
}

impl DeviceBytes {
    /// The most that one call uses: its inputs and the upper bound of its peak.
    pub fn upper(self) -> u64 {
        self.working_upper.max(self.working).saturating_add(self.input)
    }

    /// What the driver reserves for `used` bytes.
    pub fn reserved(self, used: u64) -> u64 {
        (used as f64 * self.reserved.max(1.0)).ceil() as u64
    }
}
