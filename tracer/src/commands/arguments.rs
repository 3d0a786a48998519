//! Arguments that several subcommands read.

use memtrace_analysis::plan::Workers;
use serde_json::Value;

use crate::units::parse_shape;

/// Reads `NAME=VALUE`.
pub fn parse_parameter(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    // A number, true or false; anything else is text.
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
    Ok((name.to_string(), value))
}

/// Reads `A..B`.
pub fn parse_range(text: &str) -> Result<(Vec<u64>, Vec<u64>), String> {
    let (from, to) = text.split_once("..").ok_or("write two shapes, e.g. 37,41,43..60,60,60")?;
    Ok((parse_shape(from)?, parse_shape(to)?))
}

/// Reads a number of workers, or `auto`.
pub fn parse_workers(text: &str) -> Result<Workers, String> {
    match text {
        "auto" => Ok(Workers::Auto),
        _ => match text.parse() {
            Ok(number) => Ok(Workers::Number(number)),
            Err(_) => Err("write a number of workers, or auto".into()),
        },
    }
}
