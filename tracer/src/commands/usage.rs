//! Requests that make no sense, errors as sentences, and exit statuses.

use std::error::Error as _;
use std::num::ParseIntError;

use clap::error::{ContextKind, ErrorKind};

use super::defaults::Defaults;
use crate::record;

/// The request makes no sense, whatever is in the files: exit status 2.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

impl From<memtrace_analysis::Error> for Usage {
    fn from(error: memtrace_analysis::Error) -> Usage {
        Usage(error.to_string())
    }
}

/// Exit status for an error: the request makes no sense, a command could not be recorded, or
/// anything else.
pub fn status(error: &anyhow::Error) -> u8 {
    match error.downcast_ref::<record::Failure>() {
        _ if error.is::<Usage>() => 2,
        Some(failure) => failure.code as u8,
        None => 1,
    }
}

/// An error and its causes as one sentence, with what to do. Some errors name their cause themselves.
pub fn sentence(error: &anyhow::Error) -> String {
    advised(with_causes(error))
}

/// A sentence with what to do, where a limit of the system is the cause.
pub fn advised(text: String) -> String {
    let advice = [
        ("(os error 24)", "a process may have as many open as ulimit -n says; raise it"),
        ("(os error 23)", "the machine has as many open as /proc/sys/fs/file-max says; close other programs"),
    ];
    match advice.iter().find(|(cause, _)| text.contains(cause)) {
        Some((_, what)) => format!("{text}: {what}"),
        None => text,
    }
}

fn with_causes(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// What is wrong with a command line, in a sentence. `help` is the command that says what is right.
pub fn refusal(error: &clap::Error, help: &str, defaults: Option<&Defaults>) -> Usage {
    let context = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
    let (argument, value) = (context(ContextKind::InvalidArg), context(ContextKind::InvalidValue));
    let sentence = match error.kind() {
        ErrorKind::UnknownArgument if argument.starts_with('-') => {
            format!("there is no option {argument}{}", or_else(&context(ContextKind::SuggestedArg)))
        }
        ErrorKind::UnknownArgument => format!("{argument:?} is one argument too many"),
        ErrorKind::InvalidSubcommand => {
            let name = context(ContextKind::InvalidSubcommand);
            format!("there is no subcommand {name}{}", or_else(&context(ContextKind::SuggestedSubcommand)))
        }
        ErrorKind::InvalidValue if value.is_empty() => format!("{argument} needs a value"),
        ErrorKind::InvalidValue => {
            let known = context(ContextKind::ValidValue);
            format!("{argument}: {value:?} is none of {known}")
        }
        ErrorKind::ValueValidation => {
            let why = error.source().map_or_else(String::new, |source| match source.downcast_ref() {
                Some(ParseIntError { .. }) => format!("{value:?} is not a whole number; write one from 0 on"),
                None => source.to_string(),
            });
            format!("{argument}: {why}")
        }
        ErrorKind::MissingRequiredArgument => format!("name {}", argument.replace(", ", " and ")),
        ErrorKind::ArgumentConflict if context(ContextKind::PriorArg) == argument => {
            format!("{argument} is there twice; write it once")
        }
        ErrorKind::ArgumentConflict => {
            format!("{argument} and {} exclude each other; leave one out", context(ContextKind::PriorArg))
        }
        ErrorKind::TooFewValues | ErrorKind::TooManyValues | ErrorKind::WrongNumberOfValues => {
            format!("{argument} has the wrong number of values")
        }
        ErrorKind::InvalidUtf8 => "an option's value is not text; write it as UTF-8".to_owned(),
        _ => {
            let text = error.to_string();
            text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
        }
    };
    match defaults.and_then(|defaults| defaults.origin(&value)) {
        Some(file) => Usage(format!("{file}: {sentence} ({help} --help)")),
        None => Usage(format!("{sentence} ({help} --help)")),
    }
}

fn or_else(suggested: &str) -> String {
    if suggested.is_empty() { String::new() } else { format!("; did you mean {suggested}?") }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn a_cause_is_named_once() {
        let cause = || std::io::Error::other("it is gone");
        let names_it = memtrace_analysis::Error::Io { action: "read", path: "x".into(), source: cause() };
        let error = Err::<(), _>(names_it).context("no law").unwrap_err();
        assert_eq!(sentence(&error), "no law: cannot read the model x: it is gone");
        let error = Err::<(), _>(cause()).context("cannot write y").unwrap_err();
        assert_eq!(sentence(&error), "cannot write y: it is gone");
        let many = std::io::Error::from_raw_os_error(24);
        let error = Err::<(), _>(many).context("cannot open z").unwrap_err();
        let says = "cannot open z: Too many open files (os error 24): a process may have as many open as ";
        assert!(sentence(&error).starts_with(says), "{}", sentence(&error));
    }
}
