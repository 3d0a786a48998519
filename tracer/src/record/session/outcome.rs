//! How a recording ends.

/// A recording that came to an end.
pub struct Outcome {
    /// What a shell would give as the command's exit status.
    pub code: i32,
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

    /// The command has ended, and its trace cannot be closed: a status by which the command says
    /// that it has failed is the more important one.
    pub fn of_trace(error: impl std::fmt::Display, of_command: i32) -> Failure {
        let message = format!("the trace is lost: {error:#}; the command's own exit status was {of_command}");
        Failure { code: if of_command == 0 { 125 } else { of_command }, message }
    }
}
