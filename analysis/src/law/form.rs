//! Size forms: exact expressions of a law's variables, `c·∏ rule(n_d + o_d)^e_d + k`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::shape::Point;

/// What is taken of a length before it enters a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// The length itself.
    Length,
    /// ⌊n/2⌋ + 1: the non-redundant half of a real FFT.
    HalfPlusOne,
    /// ⌈n/h⌉: the number of hops of h samples.
    Hops(u32),
    /// Smallest power of two that is at least n.
    PowerOfTwo,
    /// Smallest 5-smooth number that is at least n: pocketfft's good length for real transforms.
    FastReal,
    /// ⌊f/2⌋ + 1 of the smallest 5-smooth f that is at least n: a padded real FFT.
    HalfFastReal,
    /// Smallest 11-smooth number that is at least n: pocketfft's good length for complex
    /// transforms.
    FastComplex,
}

impl Rule {
    /// Value of the rule at a length; `None` where it does not fit 64 bits or means nothing.
    pub fn of(self, length: u64) -> Option<u64> {
        match self {
            Rule::Length => Some(length),
            Rule::HalfPlusOne => (length / 2).checked_add(1),
            Rule::Hops(hop) => (hop > 0).then(|| length.div_ceil(u64::from(hop))),
            Rule::PowerOfTwo => length.checked_next_power_of_two(),
            Rule::FastReal => next_smooth(length, &[3, 5]),
            Rule::HalfFastReal => Rule::HalfPlusOne.of(Rule::FastReal.of(length)?),
            Rule::FastComplex => next_smooth(length, &[3, 5, 7, 11]),
        }
    }
}

/// Smallest 2^a · ∏ odd^b that is at least `length`.
fn next_smooth(length: u64, odd: &[u64]) -> Option<u64> {
    fn best(product: u64, odd: &[u64], length: u64) -> Option<u64> {
        let Some((&prime, rest)) = odd.split_first() else {
            return length.div_ceil(product).max(1).checked_next_power_of_two()?.checked_mul(product);
        };
        let mut product = product;
        let mut found: Option<u64> = None;
        loop {
            let here = best(product, rest, length);
            found = found.into_iter().chain(here).min();
            if product >= length {
                return found;
            }
            let Some(larger) = product.checked_mul(prime) else { return found };
            product = larger;
        }
    }
    best(1, odd, length)
}

/// `rule(n_variable + offset)^power`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Factor {
    /// Index of the law's variable.
    pub variable: usize,
    /// What is taken of the length.
    pub rule: Rule,
    /// Added to the variable first: trimmed faces are negative, paddings positive.
    pub offset: i64,
    /// 1 or 2.
    pub power: u8,
}

impl Factor {
    /// Value at a point. A length trimmed below zero is an empty array: 0.
    pub fn at(&self, point: &Point) -> Option<u128> {
        let length = point.get(self.variable)?;
        let padded = i128::from(*length) + i128::from(self.offset);
        let value = match u64::try_from(padded) {
            Ok(0) if self.rule != Rule::HalfPlusOne => 0,
            Ok(padded) => self.rule.of(padded)?,
            Err(_) if padded < 0 => 0,
            Err(_) => return None,
        };
        u128::from(value).checked_pow(u32::from(self.power))
    }
}

/// `coefficient · ∏ factors + constant`; bytes, or elements where it describes an array's axis.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Form {
    /// Bytes (elements) per unit of the product.
    pub coefficient: u64,
    /// What the product is made of; none for a constant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub factors: Vec<Factor>,
    /// Added to the product: an alignment pad, a header; negative where the last element has no
    /// successor.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub constant: i64,
}

fn is_zero(value: &i64) -> bool {
    *value == 0
}

impl Form {
    /// A form that does not depend on the shape.
    pub fn constant(value: u64) -> Form {
        Form { coefficient: value, factors: Vec::new(), constant: 0 }
    }

    /// The plain length of one variable.
    pub fn variable(variable: usize) -> Form {
        let factor = Factor { variable, rule: Rule::Length, offset: 0, power: 1 };
        Form { coefficient: 1, factors: vec![factor], constant: 0 }
    }

    /// Value at a point; `None` where it does not fit 128 bits.
    pub fn at(&self, point: &Point) -> Option<u128> {
        let mut product = u128::from(self.coefficient);
        for factor in &self.factors {
            product = product.checked_mul(factor.at(point)?)?;
        }
        match product.checked_add_signed(i128::from(self.constant)) {
            // Of an empty array there is nothing to take away.
            None if self.constant < 0 => Some(0),
            sum => sum,
        }
    }

    /// The form in words, `coefficient` given apart so that equal products can be added up.
    pub fn words(&self, coefficient: u128, names: &[String]) -> String {
        let mut text = coefficient.to_string();
        for factor in &self.factors {
            text.push('·');
            text.push_str(&factor_words(factor, names));
        }
        if self.constant != 0 {
            let sign = if self.constant < 0 { '−' } else { '+' };
            text.push_str(&format!(" {sign} {}", self.constant.unsigned_abs()));
        }
        text
    }
}

fn factor_words(factor: &Factor, names: &[String]) -> String {
    let name = names.get(factor.variable).map_or("?", String::as_str);
    let length = match factor.offset {
        0 => name.to_owned(),
        offset if offset < 0 => format!("({name}−{})", offset.unsigned_abs()),
        offset => format!("({name}+{offset})"),
    };
    let value = match factor.rule {
        Rule::Length => length,
        Rule::HalfPlusOne => format!("(⌊{length}/2⌋+1)"),
        Rule::Hops(hop) => format!("⌈{length}/{hop}⌉"),
        Rule::PowerOfTwo => format!("pow2[{length}]"),
        Rule::FastReal => format!("fast5[{length}]"),
        Rule::HalfFastReal => format!("(⌊fast5[{length}]/2⌋+1)"),
        Rule::FastComplex => format!("fast11[{length}]"),
    };
    if factor.power == 1 { value } else { format!("{value}^{}", factor.power) }
}

/// Names variables `n0`, `n1`, …; use [`Form::words`] for a law's own names.
impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.factors.iter().map(|factor| factor.variable).max().unwrap_or(0);
        let names: Vec<String> = (0..=last.min(64)).map(|variable| format!("n{variable}")).collect();
        f.write_str(&self.words(u128::from(self.coefficient), &names))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_lengths_agree_with_a_plain_search() {
        let smooth = |mut n: u64, primes: &[u64]| {
            for &prime in primes {
                while n.is_multiple_of(prime) {
                    n /= prime;
                }
            }
            n == 1
        };
        for length in 1..3000u64 {
            let real = (length..).find(|&n| smooth(n, &[2, 3, 5]));
            let complex = (length..).find(|&n| smooth(n, &[2, 3, 5, 7, 11]));
            assert_eq!(Rule::FastReal.of(length), real, "{length}");
            assert_eq!(Rule::FastComplex.of(length), complex, "{length}");
        }
    }

    #[test]
    fn absurd_lengths_have_no_value_and_trimmed_away_ones_are_empty() {
        assert_eq!(Rule::FastComplex.of(u64::MAX), None);
        assert_eq!(Rule::PowerOfTwo.of(u64::MAX), None);
        assert_eq!(Rule::HalfPlusOne.of(u64::MAX), Some(u64::MAX / 2 + 1));
        let trimmed = Factor { variable: 0, rule: Rule::Length, offset: -2, power: 1 };
        assert_eq!(trimmed.at(&[1]), Some(0));
        assert_eq!(trimmed.at(&[7]), Some(5));
        let padded = Factor { variable: 0, rule: Rule::Length, offset: 1, power: 2 };
        assert_eq!(padded.at(&[u64::MAX]), None);
        assert_eq!(padded.at(&[]), None);
    }

    #[test]
    fn forms_read_like_a_formula() {
        let trimmed = |variable| Factor { variable, rule: Rule::Length, offset: -2, power: 1 };
        let half = Factor { variable: 1, rule: Rule::HalfPlusOne, offset: 0, power: 2 };
        let form = Form { coefficient: 24, factors: vec![trimmed(0), half], constant: 64 };
        assert_eq!(form.to_string(), "24·(n0−2)·(⌊n1/2⌋+1)^2 + 64");
        assert_eq!(form.at(&[12, 5]), Some(24 * 10 * 9 + 64));
    }
}
