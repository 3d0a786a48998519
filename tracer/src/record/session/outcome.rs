//! How a recording ends.

/// A recording whose command came to its end.
pub struct Outcome {
    /// What a shell would give as the command's exit status.
    pub code: i32,
    /// Why the trace is not whole: one sentence.
    pub cut_short: Option<String>,
}

/// Why there is no (whole) recording: an exit status and one sentence.
#[derive(Debug)]
pub struct Failure {
    /// Exit status of memtrace.
    pub code: i32,
    /// The sentence.
    pub message: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl Failure {
    /// The recording itself has failed.
    pub fn recording(error: impl std::fmt::Display) -> Failure {
        Failure { code: 125, message: format!("{error:#}") }
    }
}
