//! A cell of a list: what it shows, and how it is ordered.

use std::cmp::Ordering;

use crate::units::{Bytes, Seconds, grouped};

/// What a cell has.
#[derive(Debug, Clone)]
pub enum Cell {
    /// A number that is a name, as that of a process.
    Id(u32),
    Count(u64),
    Bytes(u64),
    /// Bytes more or fewer than before.
    Growth(i64),
    Seconds(f64),
    /// 0 to 1.
    Part(f64),
    Text(String),
    /// It is not known.
    Nothing,
}

impl Cell {
    /// Bytes, where they are known.
    pub fn bytes(bytes: Option<u64>) -> Cell {
        bytes.map_or(Cell::Nothing, Cell::Bytes)
    }

    /// What it shows.
    pub fn text(&self) -> String {
        match self {
            Cell::Id(number) => number.to_string(),
            Cell::Count(count) => grouped(*count),
            Cell::Bytes(bytes) => Bytes(*bytes).to_string(),
            Cell::Growth(bytes) => {
                let sign = if *bytes < 0 { "-" } else { "+" };
                format!("{sign}{}", Bytes(bytes.unsigned_abs()))
            }
            Cell::Seconds(seconds) => Seconds((seconds * 1e9) as i64).to_string(),
            Cell::Part(part) => format!("{:.0} %", part * 100.0),
            Cell::Text(text) => text.clone(),
            Cell::Nothing => String::new(),
        }
    }

    /// Numbers from the largest on, text from A on, what is not known at the end.
    pub fn order(&self, other: &Cell) -> Ordering {
        match (self, other) {
            (Cell::Text(one), Cell::Text(two)) => one.cmp(two),
            _ => other.number().total_cmp(&self.number()),
        }
    }

    fn number(&self) -> f64 {
        match self {
            Cell::Id(number) => f64::from(*number),
            Cell::Count(number) | Cell::Bytes(number) => *number as f64,
            Cell::Growth(bytes) => *bytes as f64,
            Cell::Seconds(number) | Cell::Part(number) => *number,
            Cell::Text(_) | Cell::Nothing => f64::NEG_INFINITY,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_come_first_and_text_from_a_on() {
        let mut cells = [Cell::Nothing, Cell::Growth(-7), Cell::Growth(900), Cell::Growth(30)];
        cells.sort_by(Cell::order);
        assert_eq!(cells.map(|cell| cell.text()), ["+900 B", "+30 B", "-7 B", ""]);
        let mut names = ["b", "a", "c"].map(|name| Cell::Text(name.into()));
        names.sort_by(Cell::order);
        assert_eq!(names.map(|cell| cell.text()), ["a", "b", "c"]);
    }
}
