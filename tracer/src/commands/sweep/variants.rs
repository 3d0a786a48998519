//! The command at a shape: its placeholders, and what may be varied besides the shape.

use std::ffi::OsString;

use anyhow::{Result, bail};
use memtrace_analysis::shape::joined;

use super::Sweep;
use crate::commands::usage::Usage;

/// What the placeholders become without options.
const DATA_VALUES: &str = "random";
const LAYOUT: &str = "C";
const ORDER: &str = "little";

/// A layout, a byte order and data values of the input; `None`: not varied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variant {
    layout: Option<String>,
    order: Option<String>,
    data_values: Option<String>,
}

/// A name that may stand in a command and in a directory's name.
pub fn parse_word(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_alphanumeric() || c == '_';
    if !text.is_empty() && text.chars().all(plain) {
        return Ok(text.to_owned());
    }
    Err("write names of letters and digits with commas between them".into())
}

/// The layouts and byte orders to run, each with the first of the data values: each has laws of its
/// own.
pub fn laws(arguments: &Sweep) -> Vec<Variant> {
    let or_none = |names: &[String]| match names {
        [] => vec![None],
        names => names.iter().cloned().map(Some).collect(),
    };
    let data_values = arguments.data_values.first().cloned();
    let mut variants = Vec::new();
    for layout in or_none(&arguments.layouts) {
        for order in or_none(&arguments.byte_orders) {
            variants.push(Variant { layout: layout.clone(), order, data_values: data_values.clone() });
        }
    }
    variants
}

/// Refuses a command that does not use what is to be varied.
pub fn check(arguments: &Sweep, shape: &[u64]) -> Result<()> {
    let command = &arguments.command;
    if Variant::default().fill_in(command, shape) == Variant::default().fill_in(command, &[]) {
        bail!(Usage("the command does not use the shape; write {shape} or {0} {1} … where it goes".into()));
    }
    let placeholders = [
        ("{data_values}", "--data-values", &arguments.data_values),
        ("{layout}", "--layouts", &arguments.layouts),
        ("{order}", "--byte-orders", &arguments.byte_orders),
    ];
    for (place, option, values) in placeholders {
        let used = command.iter().any(|argument| argument.to_string_lossy().contains(place));
        if !values.is_empty() && !used {
            bail!(Usage(format!("{option} needs a place in the command: write {place} where the name goes")));
        }
    }
    Ok(())
}

impl Variant {
    /// The same with other data values.
    pub fn with_data_values(&self, values: &str) -> Variant {
        Variant { data_values: Some(values.to_owned()), ..self.clone() }
    }

    /// The command with a shape and this variant in the places meant for them.
    pub fn fill_in(&self, command: &[OsString], shape: &[u64]) -> Vec<OsString> {
        let fill = |argument: &OsString| {
            let Some(text) = argument.to_str() else { return argument.clone() };
            let mut text = text.replace("{shape}", &joined(shape).replace('×', ","));
            for (axis, length) in shape.iter().enumerate() {
                text = text.replace(&format!("{{{axis}}}"), &length.to_string());
            }
            text = text.replace("{data_values}", self.data_values.as_deref().unwrap_or(DATA_VALUES));
            text = text.replace("{layout}", self.layout.as_deref().unwrap_or(LAYOUT));
            text.replace("{order}", self.order.as_deref().unwrap_or(ORDER)).into()
        };
        command.iter().map(fill).collect()
    }

    /// Name of the trace's directory: `64x63x65`, `64x63x65-F-big-nan`.
    pub fn directory(&self, shape: &[u64]) -> String {
        let varied = [&self.layout, &self.order, &self.data_values];
        varied
            .into_iter()
            .flatten()
            .fold(joined(shape).replace('×', "x"), |name, part| format!("{name}-{part}"))
    }

    /// ` (F, big, nan)`
    pub fn words(&self) -> String {
        let varied: Vec<&str> = [&self.layout, &self.order, &self.data_values]
            .into_iter()
            .flatten()
            .map(String::as_str)
            .collect();
        if varied.is_empty() { String::new() } else { format!(" ({})", varied.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_take_the_shape_and_the_variant() {
        let command = ["run", "--shape={shape}", "{0}", "{2}", "{3}", "{x}", "{layout}{order}{data_values}"]
            .map(OsString::from);
        let plain = Variant::default();
        let filled = plain.fill_in(&command, &[7, 8, 9]);
        let expected = ["run", "--shape=7,8,9", "7", "9", "{3}", "{x}", "Clittlerandom"].map(OsString::from);
        assert_eq!(filled, expected);
        let other =
            Variant { layout: Some("F".into()), order: None, data_values: None }.with_data_values("nan");
        assert_eq!(other.fill_in(&command, &[7])[6], "Flittlenan");
        assert_eq!((plain.directory(&[7, 8]), other.directory(&[7, 8])), ("7x8".into(), "7x8-F-nan".into()));
        for bad in ["", "../x", "a b", "{0}"] {
            assert!(parse_word(bad).is_err(), "{bad}");
        }
    }
}
