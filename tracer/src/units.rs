//! Sizes and shapes as people write them.

use std::fmt;

pub use memtrace_analysis::units::Bytes;

/// Reads a size: a whole number of bytes, or a number with kB/MB/GB/TB (powers of 1000) or
/// KiB/MiB/GiB/TiB (powers of 1024).
pub fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 = number.parse().map_err(|_| format!("{text:?} is not a size; write 1500MB or 1.5GB"))?;
    let factor: f64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" if number.fract() != 0.0 => {
            return Err(format!("{text:?} has no unit; write {text}GB, or a whole number of bytes"));
        }
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024f64.powi(2),
        "gib" => 1024f64.powi(3),
        "tib" => 1024f64.powi(4),
        other => return Err(format!("{other:?} is not a unit of size; use kB, MB, GB or TB")),
    };
    let bytes = number * factor;
    if bytes.is_finite() && bytes < 2f64.powi(63) {
        Ok(bytes as u64)
    } else {
        Err(format!("{text:?} is too large"))
    }
}

/// Reads how much memory something may use, which is a page at least.
pub fn parse_limit(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        0..4096 => Err(format!("{text:?} is less than a page of 4096 B; write 1500MB or 1.5GB")),
        bytes => Ok(bytes),
    }
}

/// Reads a shape: lengths separated by commas.
pub fn parse_shape(text: &str) -> Result<Vec<u64>, String> {
    let error = || format!("{text:?} is not a shape; write 200,200,200");
    let shape: Vec<u64> =
        text.split(',').map(|length| length.trim().parse()).collect::<Result<_, _>>().map_err(|_| error())?;
    if shape.contains(&0) { Err(error()) } else { Ok(shape) }
}

/// Lengths of the axes of an array, as an argument.
#[derive(Debug, Clone)]
pub struct Shape(pub Vec<u64>);

impl std::str::FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        parse_shape(text).map(Shape)
    }
}

/// A number with its digits in groups of three.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A size that is 0 where it was not measured: a process that ended before it was sampled.
pub fn measured(bytes: u64) -> String {
    if bytes == 0 { "unknown".into() } else { Bytes(bytes).to_string() }
}

/// Nanoseconds for people.
pub struct Seconds(pub i64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0 as f64 / 1e9;
        f.pad(&if seconds < 0.1 { format!("{:.1} ms", seconds * 1e3) } else { format!("{seconds:.2} s") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_of_units_are_read_and_kept_apart() {
        assert_eq!(parse_size("1.5GB"), Ok(1_500_000_000));
        assert_eq!(parse_size("1.5 GiB"), Ok(1_610_612_736));
        assert_eq!(parse_size("700MB"), Ok(700_000_000));
        assert_eq!(parse_size("4096"), Ok(4096));
        for bad in ["", "GB", "1.5XB", "-1GB", "1e999GB", "99999999TB", "1.5", "0.5B"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn digits_are_grouped() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1234567), "1,234,567");
    }

    #[test]
    fn shapes_have_lengths_above_zero() {
        assert_eq!(parse_shape("200, 100,1"), Ok(vec![200, 100, 1]));
        for bad in ["", "1,,2", "1,0", "a", "-1"] {
            assert!(parse_shape(bad).is_err(), "{bad}");
        }
    }
}
