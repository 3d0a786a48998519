//! What is known of library functions: which shape comes out, and how many bytes a call takes.
//!
//! `library.json` is measured, not typed: experiments/laws/library.py records each function with
//! memtrace at small shapes and fits bytes per element of what goes in and comes out, the largest
//! over its variants.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::dtype::Dtype;
use super::shape::Rule;
use super::value::{Array, Layout};
use crate::error::Error;

/// Version of the JSON this program reads; later ones are refused.
pub const LIBRARY_VERSION: u32 = 2;

/// Functions of libraries, and what is taken where nothing is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Library {
    /// See [`LIBRARY_VERSION`].
    pub library_version: u32,
    /// Versions that were measured.
    pub versions: BTreeMap<String, String>,
    /// Functions by name: `numpy.sum`, `scipy.ndimage.gaussian_filter`, `pandas.DataFrame.sum`.
    pub functions: BTreeMap<String, Known>,
    /// Calls of functions that are not among them.
    pub unknown: Unknown,
    /// How far composed bounds were off.
    pub residual: Residual,
}

/// A library function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Known {
    /// Shape of its result.
    pub rule: Rule,
    /// Names of its parameters in order.
    #[serde(default)]
    pub parameters: Vec<String>,
    /// It was measured with one array and no other arguments than these, if there are any: what others
    /// change is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measured: Vec<String>,
    /// What its result is, if no plain array: `pandas.DataFrame`.
    #[serde(default)]
    pub class: Option<String>,
    /// By element type of the input, then with its layout if it differs by that: `<f4`, `<f4
    /// strided`.
    pub costs: BTreeMap<String, Cost>,
}

/// Bytes of one call: working peak, results included, inputs not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Element types of its results.
    pub outputs: Vec<String>,
    /// Bytes per element of its largest input.
    pub per_input: f64,
    /// Bytes per element of its results.
    pub per_output: f64,
    /// Bytes whatever the shape.
    pub constant: f64,
}

/// What a call of an unknown function is taken to need.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unknown {
    /// Working peak by bytes of its inputs.
    pub factor: f64,
    /// Part of the known functions that stay below it.
    pub quantile: f64,
}

/// True peaks over composed ones, of operators that were measured and call nothing unknown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Residual {
    /// What the composed peak is multiplied by.
    pub factor: f64,
    /// Operators it was learned from.
    pub operators: usize,
}

static SHIPPED: LazyLock<Library> = LazyLock::new(|| {
    let text = include_str!("library.json");
    Library::parse(text).unwrap_or_else(|_| Library::empty())
});

impl Library {
    /// What memtrace was built with.
    pub fn shipped() -> &'static Library {
        &SHIPPED
    }

    fn empty() -> Library {
        Library {
            library_version: LIBRARY_VERSION,
            versions: BTreeMap::new(),
            functions: BTreeMap::new(),
            unknown: Unknown { factor: 4.0, quantile: 0.0 },
            residual: Residual { factor: 1.0, operators: 0 },
        }
    }

    /// Reads a library from JSON text.
    ///
    /// # Errors
    /// [`Error::Source`]: it is none, a later version's, or has factors that mean nothing.
    pub fn parse(text: &str) -> Result<Library, Error> {
        let library: Library =
            serde_json::from_str(text).map_err(|error| Error::Source(format!("library: {error}")))?;
        if library.library_version > LIBRARY_VERSION {
            return Err(Error::Source("the library is a later memtrace's: update memtrace".to_owned()));
        }
        let costs = library.functions.values().flat_map(|known| known.costs.values());
        let mut figures = costs.flat_map(|cost| [cost.per_input, cost.per_output, cost.constant]);
        let factors = [library.unknown.factor, library.residual.factor];
        if !figures.all(usable) || !factors.into_iter().all(usable) {
            return Err(Error::Source("the library has bytes that are negative or not finite".to_owned()));
        }
        Ok(library)
    }
}

fn usable(figure: f64) -> bool {
    figure.is_finite() && (0.0..1e15).contains(&figure)
}

impl Known {
    /// What a call needs whose largest input is `main`, or whose result is of type `dtype` where it
    /// has none.
    pub fn cost(&self, main: Option<&Array>, dtype: Dtype) -> Option<(Cost, Dtype)> {
        let wanted = main.map_or(dtype, |main| main.dtype);
        let layout = match main.map(|main| main.layout) {
            Some(Layout::Strided) => " strided",
            Some(Layout::F) => " F",
            _ => "",
        };
        let named = |key: String| self.costs.get(&key).cloned();
        let same = |dtype: Dtype| named(format!("{dtype}{layout}")).or_else(|| named(dtype.to_string()));
        if let Some(cost) = same(wanted) {
            return Some((cost, wanted));
        }
        if wanted.swapped
            && let Some(mut cost) = same(wanted.native())
        {
            cost.per_input += wanted.size as f64; // converted first
            return Some((cost, wanted.native()));
        }
        // Of what was measured, the nearest type: the same kind before others, no smaller before
        // smaller.
        let measured = self.costs.keys().filter_map(|key| Dtype::parse(key.split(' ').next()?));
        let distance = |known: &Dtype| {
            (known.kind != wanted.kind, known.size < wanted.size, known.size.abs_diff(wanted.size))
        };
        let nearest = measured.filter(|known| !known.swapped).min_by_key(distance)?;
        Some((same(nearest)?, nearest))
    }
}

impl Known {
    /// What a call needs that is given arrays of several types: libraries convert each by itself, so
    /// the most that any of them needs.
    pub fn cost_of_all(&self, main: Option<&Array>, arrays: &[Array], dtype: Dtype) -> Option<(Cost, Dtype)> {
        let (mut cost, of) = self.cost(main, dtype)?;
        let Some(main) = main else { return Some((cost, of)) };
        for other in arrays.iter().filter(|other| other.dtype != main.dtype && !other.shape.is_empty()) {
            let typed = Array { dtype: other.dtype, ..main.clone() };
            if let Some((own, _)) = self.cost(Some(&typed), dtype) {
                cost.per_input = cost.per_input.max(own.per_input);
                cost.per_output = cost.per_output.max(own.per_output);
                cost.constant = cost.constant.max(own.constant);
            }
        }
        Some((cost, of))
    }
}

impl Cost {
    /// Working peak of a call with these numbers of elements in and out.
    pub fn bytes(&self, input: u64, output: u64) -> u64 {
        (self.per_input * input as f64 + self.per_output * output as f64 + self.constant).ceil() as u64
    }
}
