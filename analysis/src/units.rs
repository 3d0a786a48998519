//! Sizes as people read them.

use std::fmt;

const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];

/// Bytes for people: three digits and a unit, powers of 1000.
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = self.0 as f64;
        let mut unit = "B";
        for next in UNITS {
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

/// The same, rounded up: a reader who grants the printed size grants enough.
pub struct AtLeast(pub u64);

impl fmt::Display for AtLeast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.checked_ilog10().unwrap_or(0);
        let last = 10u64.pow(digits.saturating_sub(2));
        Bytes(self.0.checked_next_multiple_of(last).unwrap_or(self.0)).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_size_to_grant_is_rounded_up() {
        for (bytes, text) in [
            (0, "0 B"),
            (7, "7 B"),
            (1_001, "1.01 kB"),
            (1_050_000_000, "1.05 GB"),
            (1_050_000_001, "1.06 GB"),
            (999_000_001, "1.00 GB"),
            (u64::MAX, "18.4 EB"),
        ] {
            assert_eq!(AtLeast(bytes).to_string(), text);
        }
    }
}
