//! Sizes and shapes as people write them.

use std::fmt;

/// Reads a size: bytes, or a number with kB/MB/GB/TB (powers of 1000) or KiB/MiB/GiB/TiB (powers of 1024).
pub fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 =
        number.parse().map_err(|_| format!("{text:?} is not a size; write 1500MB or 1.5GiB"))?;
    let factor: f64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024f64.powi(2),
        "gib" => 1024f64.powi(3),
        "tib" => 1024f64.powi(4),
        other => return Err(format!("{other:?} is not a unit of size; use kB, MB, GB or KiB, MiB, GiB")),
    };
    let bytes = number * factor;
    if bytes.is_finite() && bytes < 2f64.powi(63) {
        Ok(bytes as u64)
    } else {
        Err(format!("{text:?} is too large"))
    }
}

/// Reads a shape: lengths separated by commas.
pub fn parse_shape(text: &str) -> Result<Vec<u64>, String> {
    let error = || format!("{text:?} is not a shape; write 200,200,200");
    let shape: Vec<u64> =
        text.split(',').map(|length| length.trim().parse()).collect::<Result<_, _>>().map_err(|_| error())?;
    if shape.contains(&0) { Err(error()) } else { Ok(shape) }
}

/// Bytes for people: three digits and a unit, powers of 1000.
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = ["kB", "MB", "GB", "TB", "PB", "EB"];
        let mut value = self.0 as f64;
        let mut unit = "B";
        for next in units {
            if value < 999.5 {
                break;
            }
            value /= 1000.0;
            unit = next;
        }
        let digits = if unit == "B" || value >= 99.95 {
            0
        } else if value >= 9.995 {
            1
        } else {
            2
        };
        f.pad(&format!("{value:.digits$} {unit}"))
    }
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
        for bad in ["", "GB", "1.5XB", "-1GB", "1e999GB", "99999999TB"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_are_printed_with_three_digits() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.00 kB"),
            (33_554_432, "33.6 MB"),
            (999_950, "1.00 MB"),
            (u64::MAX, "18.4 EB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }

    #[test]
    fn shapes_have_lengths_above_zero() {
        assert_eq!(parse_shape("200, 100,1"), Ok(vec![200, 100, 1]));
        for bad in ["", "1,,2", "1,0", "a", "-1"] {
            assert!(parse_shape(bad).is_err(), "{bad}");
        }
    }
}
