//! Operators and functions on numbers, texts and lists of the language.

use super::loops::MAX_ITEMS;
use super::value::{MAX_LISTED, Value, too_much, work};

/// An operator between values none of which is an array.
pub fn operate(operator: &str, values: &[Value]) -> Value {
    match (operator, values) {
        ("not", [value]) => Value::Flag(value.truth().map(|truth| !truth)),
        ("neg", [value]) => number(value.number().map(|value| -value), is_float(value)),
        ("pos", [value]) => value.clone(),
        ("invert", [_]) => number(None, false),
        ("==" | "is", [a, b]) => Value::Flag(a.same(b)),
        ("!=" | "is not", [a, b]) => Value::Flag(a.same(b).map(|same| !same)),
        ("in" | "not in", [a, b]) => {
            let found = contains(b, a);
            Value::Flag(if operator == "in" { found } else { found.map(|found| !found) })
        }
        ("<" | "<=" | ">" | ">=", [a, b]) => Value::Flag(compared(operator, a, b)),
        (_, [a, b]) => combined(operator, a, b),
        _ => Value::Unknown(Vec::new()),
    }
}

fn number(value: Option<f64>, float: bool) -> Value {
    Value::Number { value: value.filter(|value| value.is_finite()), float }
}

fn is_float(value: &Value) -> bool {
    matches!(value, Value::Number { float: true, .. })
}

fn contains(all: &Value, one: &Value) -> Option<bool> {
    let keys = match all {
        Value::Mapping(items) => items.borrow().iter().map(|(key, _)| key.clone()).collect(),
        Value::Text(text) => match one {
            Value::Text(part) => return Some(text.contains(&**part)),
            _ => return None,
        },
        other => other.items()?,
    };
    let same: Vec<Option<bool>> = keys.iter().map(|key| key.same(one)).collect();
    if same.contains(&Some(true)) {
        return Some(true);
    }
    same.iter().all(Option::is_some).then_some(false)
}

fn compared(operator: &str, a: &Value, b: &Value) -> Option<bool> {
    let order = match (a.items(), b.items()) {
        (Some(a), Some(b)) => {
            let numbers = |items: &[Value]| items.iter().map(Value::number).collect::<Option<Vec<f64>>>();
            numbers(&a)?.partial_cmp(&numbers(&b)?)?
        }
        _ => a.number()?.partial_cmp(&b.number()?)?,
    };
    Some(match operator {
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        _ => order.is_ge(),
    })
}

fn combined(operator: &str, a: &Value, b: &Value) -> Value {
    if let (Some(first), "+" | "-" | "*") = (a.items(), operator) {
        return match (operator, b.items(), b.whole()) {
            ("+", Some(second), _) => Value::list([first, second].concat()),
            ("-", Some(second), _) => {
                let gone =
                    |item: &Value| !too_much() && second.iter().any(|other| item.same(other) == Some(true));
                let rest: Vec<Value> = first.into_iter().filter(|item| !gone(item)).collect();
                if too_much() { Value::Unknown(a.blocks()) } else { Value::list(rest) }
            }
            ("*", None, Some(times)) => {
                let times = times.clamp(0, MAX_LISTED as i64) as usize;
                let count = first.len().saturating_mul(times).min(MAX_ITEMS as usize);
                let copied: u64 = first.iter().map(Value::copying).sum();
                work(copied.saturating_mul(times as u64));
                Value::list(first.into_iter().cycle().take(count).collect())
            }
            _ => Value::Unknown(a.blocks()),
        };
    }
    if b.items().is_some() && operator == "*" {
        return combined(operator, b, a);
    }
    let known = |value: &Value| matches!(value, Value::Number { .. } | Value::Flag(_));
    if !known(a) || !known(b) {
        return Value::Unknown(Value::list(vec![a.clone(), b.clone()]).blocks());
    }
    let float = is_float(a) || is_float(b) || operator == "/";
    let result = a.number().zip(b.number()).map(|(a, b)| match operator {
        "+" => a + b,
        "-" => a - b,
        "*" => a * b,
        "/" => a / b,
        "//" => (a / b).floor(),
        "%" => a - b * (a / b).floor(),
        "**" => a.powf(b),
        "<<" => a * b.exp2(),
        ">>" => (a / b.exp2()).floor(),
        "&" => (a as i64 & b as i64) as f64,
        "|" => (a as i64 | b as i64) as f64,
        "^" => (a as i64 ^ b as i64) as f64,
        _ => f64::NAN,
    });
    let whole = result.is_none_or(|result| result.fract() == 0.0);
    number(result, float || !whole)
}

/// Functions of numbers, under the names that languages and libraries have for them.
pub fn function(name: &str, args: &[Value]) -> Option<Value> {
    let numbers = || args.iter().map(Value::number).collect::<Option<Vec<f64>>>();
    let one = || numbers().and_then(|numbers| numbers.first().copied());
    let listed = || -> Option<Vec<f64>> {
        match args {
            [list] if list.items().is_some() => list.items()?.iter().map(Value::number).collect(),
            _ => numbers(),
        }
    };
    let fold = |start: f64, with: fn(f64, f64) -> f64| listed().map(|all| all.into_iter().fold(start, with));
    let (result, float) = match name {
        "ceil" => (one().map(f64::ceil), false),
        "floor" => (one().map(f64::floor), false),
        // Python and NumPy round halves to the even neighbour.
        "round" | "rint" => (one().map(f64::round_ties_even), false),
        "trunc" | "int" | "fix" => (one().map(f64::trunc), false),
        "float" => (one(), true),
        "abs" | "absolute" | "fabs" => (one().map(f64::abs), is_float(args.first()?)),
        "sqrt" => (one().map(f64::sqrt), true),
        "log2" => (one().map(f64::log2), true),
        "log10" => (one().map(f64::log10), true),
        "log" => (one().map(f64::ln), true),
        "exp" => (one().map(f64::exp), true),
        "isqrt" => (one().map(|number| number.sqrt().floor()), false),
        "max" | "amax" | "maximum" => (fold(f64::NEG_INFINITY, f64::max), args.iter().any(is_float)),
        "min" | "amin" | "minimum" => (fold(f64::INFINITY, f64::min), args.iter().any(is_float)),
        "prod" => (fold(1.0, |a, b| a * b), false),
        "sum" => (fold(0.0, |a, b| a + b), false),
        "len" => return length(args.first()?),
        "bit_length" => (one().map(|number| (number + 1.0).log2().ceil()), false),
        "next_fast_len" => (one().map(fast_length), false),
        _ => return None,
    };
    Some(number(result, float))
}

fn length(value: &Value) -> Option<Value> {
    Some(match value {
        Value::Array(array) => array.shape.first().map_or(number(None, false), |&n| Value::integer(n)),
        Value::Sequence(items) => Value::integer(items.borrow().len() as u64),
        Value::Mapping(items) => Value::integer(items.borrow().len() as u64),
        Value::Range { count, .. } => Value::integer(*count),
        Value::Text(text) => Value::integer(text.chars().count() as u64),
        _ => number(None, false),
    })
}

/// The next good length of an FFT is at most so long (docs/models.md); where it is not known
/// exactly, longer.
fn fast_length(length: f64) -> f64 {
    let length = length.clamp(0.0, 9e15) as u64;
    crate::law::Rule::FastComplex.of(length).map_or(f64::NAN, |fast| fast as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_rounded_to_the_even_neighbour() {
        let rounded = |number: f64| {
            let value = Value::Number { value: Some(number), float: true };
            function("round", &[value]).and_then(|value| value.number())
        };
        assert_eq!([0.5, 1.5, 2.5, -2.5, 2.6].map(rounded), [0.0, 2.0, 2.0, -2.0, 3.0].map(Some));
    }
}
