//! Element types, and which one comes out where two meet (NumPy's promotion, NEP 50).

use std::fmt;

/// An element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dtype {
    /// `b` boolean, `i` signed, `u` unsigned, `f` real, `c` complex, `O` anything else.
    pub kind: char,
    /// Bytes per element.
    pub size: u64,
    /// Its bytes stand in the other order than the machine's (little-endian).
    pub swapped: bool,
}

impl Dtype {
    /// Real numbers of 8 bytes: what NumPy makes where nothing else is said.
    pub const DOUBLE: Dtype = Dtype::new('f', 8);
    /// Integers of 8 bytes.
    pub const INDEX: Dtype = Dtype::new('i', 8);
    /// Booleans.
    pub const FLAG: Dtype = Dtype::new('b', 1);

    /// In the machine's byte order.
    pub const fn new(kind: char, size: u64) -> Dtype {
        Dtype { kind, size, swapped: false }
    }

    /// Reads `<f4`, `>f4`, `f4`, `float32`.
    pub fn parse(text: &str) -> Option<Dtype> {
        let (swapped, rest) = match text.strip_prefix('>') {
            Some(rest) => (true, rest),
            None => (false, text.trim_start_matches(['<', '=', '|'])),
        };
        let named = |prefix: &str, kind| {
            let bits: u64 = rest.strip_prefix(prefix)?.parse().ok()?;
            matches!(bits, 8 | 16 | 32 | 64 | 128).then(|| Dtype::new(kind, bits / 8))
        };
        let long = [("float", 'f'), ("uint", 'u'), ("int", 'i'), ("complex", 'c')];
        let long = long.iter().find_map(|(prefix, kind)| named(prefix, *kind));
        let plain = match rest {
            "bool" | "?" => Some(Dtype::FLAG),
            "float" | "d" => Some(Dtype::DOUBLE),
            "f" => Some(Dtype::new('f', 4)),
            "int" => Some(Dtype::INDEX),
            "complex" => Some(Dtype::new('c', 16)),
            _ => None,
        };
        let short = || {
            let kind = rest.chars().next().filter(|kind| "biufcOMm".contains(*kind))?;
            let size: u64 = rest[1..].parse().ok()?;
            (1..=32).contains(&size).then(|| Dtype::new(kind, size))
        };
        let found = plain.or(long).or_else(short)?;
        Some(Dtype { swapped: swapped && found.size > 1, ..found })
    }

    /// The same in the machine's byte order.
    pub fn native(self) -> Dtype {
        Dtype { swapped: false, ..self }
    }

    /// Whether libraries treat both alike: both are integers, or of one kind.
    pub fn is_like(self, other: Dtype) -> bool {
        let group = |dtype: Dtype| if dtype.kind == 'u' { 'i' } else { dtype.kind };
        group(self) == group(other)
    }

    /// What can represent the values of both.
    pub fn with(self, other: Dtype) -> Dtype {
        let (a, b) = if rank(self.kind) <= rank(other.kind) { (self, other) } else { (other, self) };
        match (a.kind, b.kind) {
            (x, y) if x == y => Dtype::new(x, a.size.max(b.size)),
            ('b', _) => b.native(),
            ('u', 'i') if a.size < b.size => b.native(),
            ('u', 'i') if a.size < 8 => Dtype::new('i', a.size * 2),
            ('u', 'i') => Dtype::DOUBLE,
            ('u' | 'i', 'f') => Dtype::new('f', b.size.max(real_bytes(a.size))),
            ('u' | 'i', 'c') => Dtype::new('c', b.size.max(2 * real_bytes(a.size))),
            ('f', 'c') => Dtype::new('c', b.size.max(2 * a.size)),
            _ => b.native(),
        }
    }

    /// What comes out with a number of the language, which has no size of its own.
    pub fn with_number(self, float: bool) -> Dtype {
        match (self.kind, float) {
            ('b' | 'i' | 'u', true) => Dtype::DOUBLE,
            ('b', false) => Dtype::INDEX,
            _ => self.native(),
        }
    }

    /// What a division gives.
    pub fn divided(self) -> Dtype {
        if "biu".contains(self.kind) { Dtype::DOUBLE } else { self.native() }
    }

    /// The real type of a complex one's parts; any other stays.
    pub fn part(self) -> Dtype {
        if self.kind == 'c' { Dtype::new('f', self.size / 2) } else { self }
    }
}

fn rank(kind: char) -> usize {
    "buifc".find(kind).unwrap_or(9)
}

/// Size of the smallest real type that represents integers of `bytes` bytes.
fn real_bytes(size: u64) -> u64 {
    (size * 2).clamp(2, 8)
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = match (self.size, self.swapped) {
            (1, _) => '|',
            (_, true) => '>',
            (_, false) => '<',
        };
        write!(f, "{order}{}{}", self.kind, self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
        for (text, shown) in
            [("f4", "<f4"), (">f4", ">f4"), ("float32", "<f4"), ("|u1", "|u1"), ("bool", "|b1")]
        {
            assert_eq!(Dtype::parse(text).unwrap().to_string(), shown);
        }
        assert_eq!(Dtype::parse("é"), None);
        assert_eq!(Dtype::parse("f"), Dtype::parse("f4"));
    }

    #[test]
    fn promotion_is_numpys() {
        let with = |a: &str, b: &str| Dtype::parse(a).unwrap().with(Dtype::parse(b).unwrap()).to_string();
        assert_eq!(with("f4", "f8"), "<f8");
        assert_eq!(with("i2", "f4"), "<f4");
        assert_eq!(with("i4", "f4"), "<f8");
        assert_eq!(with("u1", "i1"), "<i2");
        assert_eq!(with("u8", "i8"), "<f8");
        assert_eq!(with("f8", "c8"), "<c16");
        assert_eq!(with("b1", ">f4"), "<f4");
        assert_eq!(Dtype::parse("i2").unwrap().with_number(true), Dtype::DOUBLE);
        assert_eq!(Dtype::parse("f4").unwrap().with_number(true).to_string(), "<f4");
    }
}
