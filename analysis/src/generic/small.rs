//! Calls that allocate little whatever the data: they need no law.

/// Modules all of whose functions are of that kind, and single functions.
const MODULES: [&str; 16] = [
    "abc",
    "cmath",
    "contextlib",
    "inspect",
    "logging",
    "math",
    "numbers",
    "operator",
    "os",
    "platform",
    "scipy.ndimage.generate_binary_structure",
    "sys",
    "threading.Lock",
    "time",
    "typing",
    "warnings",
];

/// Functions of the language.
const FUNCTIONS: [&str; 21] = [
    "callable",
    "chr",
    "complex",
    "delattr",
    "dir",
    "getattr",
    "globals",
    "hasattr",
    "hash",
    "hex",
    "id",
    "issubclass",
    "locals",
    "object",
    "ord",
    "pow",
    "print",
    "setattr",
    "super",
    "type",
    "vars",
];

/// Whether calls of this function allocate little.
pub fn is_small(name: &str) -> bool {
    if let Some(function) = name.strip_prefix("builtins.") {
        return FUNCTIONS.contains(&function)
            || ["Error", "Warning", "Exception"].iter().any(|end| function.ends_with(end));
    }
    let within =
        |module: &str| name.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    MODULES.iter().any(|module| within(module))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_counts_with_its_module() {
        assert!(is_small("math.log") && is_small("builtins.ValueError") && is_small("os.path.join"));
        assert!(!is_small("ostrich.log") && !is_small("builtins.filter") && !is_small("csv.writer"));
    }
}
