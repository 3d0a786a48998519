//! Finds the size forms that give every training run's value exactly, simplest first.

use super::{Factor, Form, Rule};

/// Largest offset tried either way: halos and filter paddings.
const MAX_OFFSET: i64 = 64;
/// Hop lengths tried for ⌈n/h⌉. Two is [`Rule::HalfPlusOne`] of n−1.
const HOPS: [u32; 20] = [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 32, 64, 128, 256, 512, 1024];
/// Constants tried in addition to a product: alignment pads, small headers, differences of
/// neighbours.
const CONSTANTS: [i64; 20] = [1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 128, 192, 256, -1, -2, -4, -8];
/// How many forms are remembered in addition to the simplest.
const MAX_OTHERS: usize = 16;
/// A form is believed if chance would have produced it at most once in this many tries.
const CHANCE: f64 = 1000.0;

/// Factors of at most this many choices are tried for sizes that were rounded: lengths with an
/// offset of up to four, halves.
const NEAR: f64 = 10.0;

/// Factors tried for one row of rounded values: plain lengths of five axes, or near ones of three.
const MOST_PRODUCTS: usize = 50_000;

/// Factors tried for one row of values. Highly composite sizes of four or more short axes would
/// take minutes; of what is tried first (plain lengths, small offsets) such a row has forms enough.
const MOST_TRIES: usize = 2_000_000;

/// What a search has found, and how many factors it may still try.
struct Tries {
    left: usize,
    found: Vec<(u64, Vec<Factor>)>,
}

/// A rule and offset of one variable with its value in every run.
struct Candidate {
    factor: Factor,
    values: Vec<u64>,
}

/// All that can be said about the variables of a set of runs; built once, used for every block.
pub struct Search {
    /// Per variable; empty for one that never varied.
    candidates: Vec<Vec<Candidate>>,
    runs: usize,
    distinct: usize,
}

impl Search {
    /// Prepares the search over runs at these points (one value per variable, all of one length).
    pub fn new(points: &[Vec<u64>]) -> Search {
        let dims = points.first().map_or(0, Vec::len);
        let column = |variable: usize| points.iter().map(|point| point[variable]).collect::<Vec<u64>>();
        let candidates = (0..dims).map(|variable| candidates(variable, &column(variable))).collect();
        let distinct = points.iter().collect::<std::collections::BTreeSet<_>>().len();
        Search { candidates, runs: points.len(), distinct }
    }

    /// Forms that give `values` (one per run) exactly: the simplest first, then those that the
    /// runs do not distinguish from it.
    ///
    /// Order: no constant before a constant; then the fewest choices that had to be made
    /// (offsets, rules, squares), then the smallest offsets, then the smallest coefficient.
    /// A form is not believed where chance could have found it: the number of forms as complex
    /// as it must be far below the number of values the runs could have shown.
    pub fn forms(&self, values: &[u64]) -> Vec<Form> {
        self.forms_by(values, CHANCE)
    }

    /// The same for lengths of axes or lines: they are short numbers, so less evidence is enough.
    pub fn lengths(&self, values: &[u64]) -> Vec<Form> {
        self.forms_by(values, 1.0)
    }

    /// Rules of one variable that give `lengths` as they are, the simplest first. It is
    /// enough that they agree with every run: an axis that follows from an axis is the rule.
    pub fn of_axis(&self, variable: usize, lengths: &[u64]) -> Vec<Form> {
        let candidates = self.candidates.get(variable).into_iter().flatten();
        let agreeing = candidates.filter(|candidate| candidate.values == lengths);
        let form =
            |candidate: &Candidate| Form { coefficient: 1, factors: vec![candidate.factor], constant: 0 };
        let mut forms: Vec<Form> = agreeing.map(form).collect();
        forms.sort_by_key(simplicity);
        forms.truncate(1 + MAX_OTHERS);
        forms
    }

    /// Products of lengths that give `values` once they are rounded up to whole units: the
    /// simplest, with the roundest and the largest coefficient that agree with every run.
    pub fn in_units(&self, values: &[u64], unit: u64) -> Option<(Form, Form)> {
        let in_units = values.iter().all(|value| value.is_multiple_of(unit)) && values.len() == self.runs;
        let varies = values.iter().any(|value| *value != values[0]);
        if !in_units || !varies {
            return None;
        }
        let mut found = Vec::new();
        let note = |factors: &[Factor], products: &[u64]| {
            if let Some((least, most)) = coefficients(values, products, unit) {
                let form = |coefficient| Form { coefficient, factors: factors.to_vec(), constant: 0 };
                found.push((form(roundest(least, most)), form(most)));
            }
        };
        Products { values, factors: Vec::new(), left: MOST_PRODUCTS, note }
            .multiply(&self.candidates, &vec![1; self.runs]);
        let units: Vec<u64> = values.iter().map(|value| value / unit).collect();
        found.retain(|(form, _)| self.is_believable(form, &units, CHANCE));
        found.into_iter().min_by_key(|(form, _)| simplicity(form))
    }

    fn forms_by(&self, values: &[u64], chance: f64) -> Vec<Form> {
        let Some((&first, rest)) = values.split_first() else { return Vec::new() };
        if rest.iter().all(|&value| value == first) {
            return vec![Form::constant(first)];
        }
        let found = self.products(values, 0, chance);
        if !found.is_empty() {
            return found;
        }
        let with_constant = CONSTANTS.iter().filter_map(|&constant| {
            let less: Option<Vec<u64>> =
                values.iter().map(|value| value.checked_add_signed(-constant)).collect();
            Some(self.products(&less?, constant, chance)).filter(|found| !found.is_empty())
        });
        with_constant.min_by_key(|found| simplicity(&found[0])).unwrap_or_default()
    }

    fn products(&self, values: &[u64], constant: i64, chance: f64) -> Vec<Form> {
        if values.contains(&0) || values.len() != self.runs {
            return Vec::new();
        }
        let mut tries = Tries { left: MOST_TRIES, found: Vec::new() };
        self.extend(0, values, &mut Vec::new(), &mut tries);
        let mut forms: Vec<Form> = tries
            .found
            .into_iter()
            .map(|(coefficient, factors)| Form { coefficient, factors, constant })
            .filter(|form| self.is_believable(form, values, chance))
            .collect();
        forms.sort_by_key(simplicity);
        forms.truncate(1 + MAX_OTHERS);
        forms
    }

    /// Divides by one factor (or none) of each variable in turn; what is left must be constant.
    fn extend(&self, variable: usize, rest: &[u64], factors: &mut Vec<Factor>, tries: &mut Tries) {
        let Some(candidates) = self.candidates.get(variable) else {
            if rest.iter().all(|value| *value == rest[0]) {
                tries.found.push((rest[0], factors.clone()));
            }
            return;
        };
        for candidate in candidates {
            tries.left = tries.left.saturating_sub(1);
            if tries.left == 0 {
                return;
            }
            let mut quotient: Option<Vec<u64>> = None;
            for power in 1..=2 {
                let dividend = quotient.as_deref().unwrap_or(rest);
                let Some(divided) = divided(dividend, &candidate.values) else { break };
                factors.push(Factor { power, ..candidate.factor });
                self.extend(variable + 1, &divided, factors, tries);
                factors.pop();
                quotient = Some(divided);
            }
        }
        self.extend(variable + 1, rest, factors, tries);
    }

    fn is_believable(&self, form: &Form, values: &[u64], chance: f64) -> bool {
        let spread = values.iter().max().zip(values.iter().min()).map_or(0, |(max, min)| max - min);
        let evidence = (spread as f64).ln() * (self.distinct as f64 - 1.0);
        form_choices(form).ln() + chance.ln() <= evidence
    }
}

/// Products of near factors, one or none of each variable, that are not above some values in any
/// run.
struct Products<'a, F> {
    values: &'a [u64],
    /// Factors of the product so far.
    factors: Vec<Factor>,
    /// How many products may still be tried.
    left: usize,
    /// Called with the factors of each product and its value in every run.
    note: F,
}

impl<F: FnMut(&[Factor], &[u64])> Products<'_, F> {
    /// Multiplies `products` with factors of each of the variables.
    fn multiply(&mut self, variables: &[Vec<Candidate>], products: &[u64]) {
        let Some((candidates, rest)) = variables.split_first() else {
            if !self.factors.is_empty() {
                (self.note)(&self.factors, products);
            }
            return;
        };
        for candidate in candidates.iter().take_while(|near| factor_choices(&near.factor) <= NEAR) {
            let mut product = products.to_vec();
            for power in 1..=2 {
                self.left = self.left.saturating_sub(1);
                let Some(multiplied) = self.times(&product, candidate).filter(|_| self.left > 0) else {
                    break;
                };
                product = multiplied;
                self.factors.push(Factor { power, ..candidate.factor });
                self.multiply(rest, &product);
                self.factors.pop();
            }
        }
        self.multiply(rest, products);
    }

    /// One factor more; `None` if that is above a value.
    fn times(&self, products: &[u64], candidate: &Candidate) -> Option<Vec<u64>> {
        let times = |((product, by), value): ((&u64, &u64), &u64)| {
            product.checked_mul(*by).filter(|product| product <= value)
        };
        products.iter().zip(&candidate.values).zip(self.values).map(times).collect()
    }
}

/// The least and the largest coefficient with which products, rounded up to whole units, are these
/// values.
fn coefficients(values: &[u64], products: &[u64], unit: u64) -> Option<(u64, u64)> {
    let (mut least, mut most) = (1, u64::MAX);
    for (&value, &product) in values.iter().zip(products) {
        least = least.max(value.saturating_sub(unit).checked_div(product)? + 1);
        most = most.min(value / product);
        if least > most {
            return None;
        }
    }
    Some((least, most))
}

/// The multiple of the largest power of two in a range that is not empty.
fn roundest(least: u64, most: u64) -> u64 {
    let multiple = |power: u32| least.div_ceil(1 << power).checked_mul(1 << power).filter(|&it| it <= most);
    (0..63).rev().find_map(multiple).unwrap_or(most)
}

/// Nearly every candidate fails at one of the first values: nothing is made before all are
/// compared.
fn divided(values: &[u64], by: &[u64]) -> Option<Vec<u64>> {
    let pairs = || values.iter().zip(by);
    pairs()
        .all(|(value, by)| value.is_multiple_of(*by))
        .then(|| pairs().map(|(value, by)| value / by).collect())
}

/// Number of forms no more complex than this one. What several axes share (a filter's padding, a
/// trimmed face) was chosen once. Halves come before good FFT lengths: they often coincide, and
/// where they do both are remembered.
fn form_choices(form: &Form) -> f64 {
    let shared = |index: usize, factor: &Factor| {
        form.factors[..index]
            .iter()
            .any(|earlier| (earlier.rule, earlier.offset) == (factor.rule, factor.offset))
    };
    let choices = |(index, factor): (usize, &Factor)| {
        // Out, plain or squared.
        3.0 * f64::from(factor.power) * if shared(index, factor) { 1.0 } else { factor_choices(factor) }
    };
    let factors: f64 = form.factors.iter().enumerate().map(choices).product();
    factors * if form.constant != 0 { CONSTANTS.len() as f64 } else { 1.0 }
}

fn factor_choices(factor: &Factor) -> f64 {
    let offsets = 1.0 + 2.0 * factor.offset.unsigned_abs() as f64;
    let rules = match factor.rule {
        Rule::Length => 1.0,
        Rule::Hops(_) => HOPS.len() as f64 * 5.0,
        Rule::HalfPlusOne => 4.0,
        Rule::FastReal | Rule::HalfFastReal | Rule::FastComplex | Rule::PowerOfTwo => 6.0,
    };
    offsets * rules
}

/// Smaller is simpler: see [`Search::forms`].
fn simplicity(form: &Form) -> (bool, u64, u64, u64) {
    let offsets = form.factors.iter().map(|factor| factor.offset.unsigned_abs()).sum();
    (form.constant != 0, form_choices(form).round() as u64, offsets, form.coefficient)
}

/// Every rule and offset of a variable, as long as it varies and stays at half the length or more.
fn candidates(variable: usize, lengths: &[u64]) -> Vec<Candidate> {
    // Many runs share few lengths, and some rules take a while.
    let mut distinct = lengths.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let places: Vec<usize> =
        lengths.iter().map(|length| distinct.partition_point(|it| it < length)).collect();
    let candidate = |factor| candidate(factor, &distinct, &places);
    let varies = distinct.len() > 1;
    let shortest = distinct.first().copied().filter(|_| varies).unwrap_or(0);
    let lowest = -MAX_OFFSET.min(i64::try_from(shortest / 2).unwrap_or(MAX_OFFSET));
    let padded = |rule: Rule, reach: i64| {
        let offsets = lowest.max(-reach)..=reach;
        offsets.filter_map(move |offset| candidate(Factor { variable, rule, offset, power: 1 }))
    };
    if shortest == 0 {
        return Vec::new();
    }
    let far = [Rule::Length, Rule::FastReal, Rule::HalfFastReal, Rule::FastComplex];
    let far = far.into_iter().flat_map(|rule| padded(rule, MAX_OFFSET));
    // Whole pieces of h cells: ⌊n/h⌋ = ⌈(n−h+1)/h⌉; one or two pieces more: ⌈(n+h)/h⌉.
    let hops = HOPS.iter().flat_map(|&hop| {
        let offsets = [1 - i64::from(hop), -1, 0, 1, i64::from(hop), 2 * i64::from(hop)].into_iter();
        let factor = move |offset| Factor { variable, rule: Rule::Hops(hop), offset, power: 1 };
        offsets
            .filter(|offset| offset.abs() <= MAX_OFFSET)
            .filter_map(move |offset| candidate(factor(offset)))
    });
    let near = [Rule::HalfPlusOne, Rule::PowerOfTwo].into_iter().flat_map(|rule| padded(rule, 2));
    let mut candidates: Vec<Candidate> = far.chain(hops).chain(near).collect();
    candidates.sort_by_key(|candidate| factor_choices(&candidate.factor) as u64);
    candidates
}

/// A rule at each run's length, which is at one of the `places` of those that are distinct.
fn candidate(factor: Factor, distinct: &[u64], places: &[usize]) -> Option<Candidate> {
    let value = |&length: &u64| {
        let padded = length.checked_add_signed(factor.offset).filter(|&padded| padded > 0)?;
        factor.rule.of(padded)
    };
    let values: Vec<u64> = distinct.iter().map(value).collect::<Option<_>>()?;
    let differ = values.iter().any(|value| *value != values[0]);
    differ.then(|| Candidate { factor, values: places.iter().map(|&place| values[place]).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points() -> Vec<Vec<u64>> {
        vec![vec![41, 43, 47], vec![53, 44, 49], vec![48, 55, 59], vec![57, 59, 52]]
    }

    fn simplest(value: impl Fn(&[u64]) -> u64) -> String {
        let values: Vec<u64> = points().iter().map(|point| value(point)).collect();
        Search::new(&points()).forms(&values).first().map_or("none".to_owned(), Form::to_string)
    }

    #[test]
    fn recovers_the_forms_of_tensor_code() {
        assert_eq!(simplest(|p| 4 * p[0] * p[1] * p[2]), "4·n0·n1·n2");
        assert_eq!(simplest(|p| 24 * (p[0] - 2) * (p[1] - 2) * (p[2] - 2)), "24·(n0−2)·(n1−2)·(n2−2)");
        assert_eq!(simplest(|p| 8 * p[0] * p[1] * (p[2] / 2 + 1)), "8·n0·n1·(⌊n2/2⌋+1)");
        assert_eq!(simplest(|p| 8 * p[0] * p[0]), "8·n0^2");
        assert_eq!(simplest(|p| 16 * (p[2] + 54)), "16·(n2+54)");
        assert_eq!(simplest(|p| 16 * p[2] + 64), "16·(n2+4)");
        assert_eq!(simplest(|p| 4 * p[0] * p[1] * p[2] + 64), "4·n0·n1·n2 + 64");
        assert_eq!(simplest(|_| 33_554_432), "33554432");
        let fast = |n: u64| Rule::FastReal.of(n).unwrap();
        let padded = |p: &[u64]| 8 * fast(p[0] + 6) * fast(p[1] + 6) * (fast(p[2] + 6) / 2 + 1);
        assert_eq!(simplest(padded), "8·fast5[(n0+6)]·fast5[(n1+6)]·(⌊fast5[(n2+6)]/2⌋+1)");
        // Of a rule of another rule only the padded real FFT is a form.
        let hops_of_halves = |p: &[u64]| 24 * p[0] * p[1] * (p[2] / 2 + 1).div_ceil(5) * (p[2] % 7);
        assert_eq!(simplest(hops_of_halves), "none");
        // Good lengths are far apart: at these shapes several paddings lead to the same ones.
        let values: Vec<u64> = points().iter().map(|p| 16 * fast(p[0] + 6) * fast(p[1] + 6)).collect();
        let forms: Vec<String> = Search::new(&points()).forms(&values).iter().map(Form::to_string).collect();
        assert!(forms.contains(&"16·fast5[(n0+6)]·fast5[(n1+6)]".to_owned()), "{forms:?}");
    }

    #[test]
    fn recovers_forms_that_were_rounded_up() {
        let rounded = |value: &dyn Fn(&[u64]) -> u64| {
            let values: Vec<u64> = points().iter().map(|p| value(p).div_ceil(512) * 512).collect();
            let found = Search::new(&points()).in_units(&values, 512);
            found.map_or("none".to_owned(), |(form, most)| {
                if form == most { form.to_string() } else { format!("{form} to {most}") }
            })
        };
        assert_eq!(rounded(&|p| 4 * p[0] * p[1] * p[2]), "4·n0·n1·n2");
        assert_eq!(rounded(&|p| p[0] * p[1] * p[2]), "1·n0·n1·n2");
        assert_eq!(rounded(&|p| 8 * (p[0] + 4) * p[1] * (p[2] / 2 + 1)), "8·(n0+4)·n1·(⌊n2/2⌋+1)");
        assert_eq!(rounded(&|p| 4096 * p[1]), "4096·n1");
        // One axis is too short to determine this coefficient: the largest that agrees bounds it.
        let values: Vec<u64> = points().iter().map(|p| (5001 * p[1]).div_ceil(512) * 512).collect();
        let (form, most) = Search::new(&points()).in_units(&values, 512).unwrap();
        assert!(most.coefficient >= 5001 && form.coefficient != 5001, "{form} to {most}");
        assert_eq!(rounded(&|p| (p[0] * 7919 + p[1] * 104_729) % 9_000_000), "none");
    }

    /// Blocks of an activation with six axes that nothing explains do not take minutes.
    #[test]
    fn of_many_axes_few_products_are_tried() {
        let points: Vec<Vec<u64>> =
            [[3, 5, 7, 11, 13, 17], [4, 6, 9, 10, 15, 14], [5, 7, 8, 13, 11, 19]].map(Vec::from).into();
        let search = Search::new(&points);
        let mut tried = 0;
        let note = |_: &[Factor], _: &[u64]| tried += 1;
        let mut products =
            Products { values: &[u64::MAX; 3], factors: Vec::new(), left: MOST_PRODUCTS, note };
        products.multiply(&search.candidates, &[1; 3]);
        assert!(tried <= MOST_PRODUCTS, "{tried}");
        let plain: Vec<u64> =
            points.iter().map(|p| (4 * p.iter().product::<u64>()).div_ceil(512) * 512).collect();
        assert!(search.in_units(&plain, 512).is_some(), "plain lengths come first");
    }

    #[test]
    fn chance_hits_are_not_believed() {
        let noise = [[5003, 5417, 5998, 5701], [4999, 5000, 5002, 5001], [70_003, 71_417, 69_998, 74_701]];
        for values in noise {
            let forms = Search::new(&points()).forms(&values);
            assert!(forms.is_empty(), "{values:?} read as {}", forms[0]);
        }
    }

    #[test]
    fn remembers_what_the_shapes_do_not_distinguish() {
        // Cubes: n0, n1 and n2 are the same number.
        let cubes: Vec<Vec<u64>> = [30, 40, 50].iter().map(|&n| vec![n; 3]).collect();
        let values: Vec<u64> = cubes.iter().map(|p| 4 * p[0] * p[1] * p[2]).collect();
        assert!(Search::new(&cubes).forms(&values).len() > 1);
        let values: Vec<u64> = points().iter().map(|p| 4 * p[0] * p[1] * p[2]).collect();
        assert_eq!(Search::new(&points()).forms(&values).len(), 1);
    }
}
