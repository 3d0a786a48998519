//! Which function an address lies in, as the linker knows it.

use object::{Object, ObjectSymbol, SymbolKind};

struct Function<'a> {
    start: u64,
    bytes: u64,
    name: &'a str,
}

/// A function may have others inside it (labels that assembly calls functions): so many are looked past.
const NESTED_MAX: usize = 8;

/// Functions by address; of several names for one, the plainest.
pub struct Functions<'a>(Vec<Function<'a>>);

/// The functions in a file's two symbol tables, in no order: start, length (0: not known) and name of each.
pub fn symbols<'a>(file: &impl Object<'a>) -> Vec<(u64, u64, &'a str)> {
    let symbols = file.symbols().chain(file.dynamic_symbols());
    symbols
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition())
        .filter_map(|symbol| Some((symbol.address(), symbol.size(), symbol.name().ok()?)))
        .collect()
}

impl<'a> Functions<'a> {
    /// Of what [`symbols`] gives.
    pub fn new(symbols: impl Iterator<Item = (u64, u64, &'a str)>) -> Functions<'a> {
        let mut functions: Vec<Function> =
            symbols.map(|(start, bytes, name)| Function { start, bytes, name }).collect();
        let plainness = |name: &str| (name.bytes().take_while(|byte| *byte == b'_').count(), name.len());
        functions.sort_by(|a, b| {
            let key = |function: &Function<'a>| (function.start, plainness(function.name), function.name);
            key(a).cmp(&key(b))
        });
        functions.dedup_by_key(|function| function.start);
        Functions(functions)
    }

    /// The name of the function that an instruction belongs to.
    pub fn find(&self, address: u64) -> Option<&'a str> {
        let after = self.0.partition_point(|function| function.start <= address);
        let (first, ..) = self.0[..after].split_last()?;
        if first.bytes == 0 {
            return Some(first.name);
        }
        let inside = |function: &&Function<'a>| address - function.start < function.bytes;
        self.0[..after].iter().rev().take(NESTED_MAX).find(inside).map(|function| function.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_the_innermost_function_around_it_by_its_plainest_name() {
        let table =
            [(16, 64, "__outer"), (16, 64, "outer"), (32, 4, "label"), (96, 0, "open"), (128, 8, "last")];
        let functions = Functions::new(table.into_iter());
        let found = [15, 16, 31, 32, 36, 79, 80, 96, 127, 135, 136].map(|address| functions.find(address));
        let [inner, outer, open, last] = ["label", "outer", "open", "last"].map(Some);
        assert_eq!(found, [None, outer, outer, inner, outer, outer, None, open, open, last, None]);
    }

    proptest::proptest! {
        /// Whatever a table says, a name comes from it and its function begins at or before the address.
        #[test]
        fn any_table_is_searched(table: Vec<(u64, u64)>, address: u64) {
            let functions = Functions::new(table.iter().map(|(start, bytes)| (*start, *bytes, "f")));
            let found = functions.find(address).is_some();
            let possible = table.iter().any(|(start, bytes)| {
                *start <= address && (*bytes == 0 || address - start < *bytes)
            });
            proptest::prop_assert!(possible || !found);
        }
    }
}
