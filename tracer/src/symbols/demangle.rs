//! Names as their programmer wrote them. A file may have any names: what they may cost is bounded.

use std::fmt::{self, Write};

use cpp_demangle::{DemangleOptions, ParseOptions};

/// Longer mangled names are left as they are. Parsing one takes at most the square of its length.
const MANGLED_MAX: usize = 8 * 1024;
/// Names end here: a mangled one of some hundred bytes can stand for gigabytes.
const NAME_MAX: usize = 4 * 1024;
/// How deep types may be nested in a C++ name.
const DEPTH_MAX: u32 = 128;

/// Ends of names of source files in Fortran, in lower case.
const FORTRAN: [&str; 7] = [".f", ".for", ".ftn", ".f90", ".f95", ".f03", ".f08"];

/// What gfortran calls the main program.
const FORTRAN_MAIN: &str = "MAIN__";

/// The linker's name of a function in a source file, as its programmer wrote it: compilers of Fortran
/// append an underscore.
pub fn demangle_in(name: &str, file: Option<&str>) -> String {
    let is_fortran = |file: &str| FORTRAN.iter().any(|end| file.to_ascii_lowercase().ends_with(end));
    let plain = whole_function(name);
    match plain.strip_suffix('_') {
        Some(written) if plain != FORTRAN_MAIN && file.is_some_and(is_fortran) => demangle(written),
        _ => demangle(name),
    }
}

/// What a compiler split off (.cold, .part.0, .constprop.0) is still that function.
fn whole_function(name: &str) -> &str {
    name.split_once('.').map_or(name, |(whole, _)| whole)
}

/// A linker's name as its programmer wrote it, at most 4 KiB of it.
pub fn demangle(name: &str) -> String {
    if name.len() > MANGLED_MAX {
        return shorten(name);
    }
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return Short::write(|out| write!(out, "{rust:#}"));
    }
    let plain = whole_function(name);
    if plain == FORTRAN_MAIN {
        return "main program".into();
    }
    if let Some((module, procedure)) = plain.strip_prefix("__").and_then(|name| name.split_once("_MOD_")) {
        return shorten(&format!("{module}::{procedure}"));
    }
    // A C function called `w` is no mangled wchar_t.
    let options = ParseOptions::default().recursion_limit(DEPTH_MAX);
    let symbol = || cpp_demangle::Symbol::new_with_options(plain, &options).ok();
    let Some(symbol) = plain.starts_with("_Z").then(symbol).flatten() else { return shorten(plain) };
    let options = DemangleOptions::new().recursion_limit(DEPTH_MAX);
    let name = Short::write(|out| symbol.structured_demangle(out, &options));
    if name.is_empty() { shorten(plain) } else { name }
}

/// What fits of a text.
pub fn shorten(text: &str) -> String {
    Short::write(|out| out.write_str(text))
}

/// Takes text until it is full; then it says so, which ends the writing.
struct Short(String);

impl Short {
    /// What was written, empty if that failed for another reason than its length.
    fn write(write: impl FnOnce(&mut Short) -> fmt::Result) -> String {
        let mut out = Short(String::new());
        match write(&mut out) {
            Err(fmt::Error) if out.0.len() < NAME_MAX => String::new(),
            _ => out.0,
        }
    }
}

impl Write for Short {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = NAME_MAX - self.0.len().min(NAME_MAX);
        if text.len() <= room {
            self.0.push_str(text);
            return Ok(());
        }
        let end = (0..=room).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        self.0.push_str(&text[..end]);
        self.0.push('…');
        Err(fmt::Error)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_as_their_programmer_wrote_them() {
        assert_eq!(demangle("w"), "w");
        assert_eq!(demangle("msort_with_tmp.part.0"), "msort_with_tmp");
        assert_eq!(demangle("_ZN4shop5orderEm"), "shop::order(unsigned long)");
        assert_eq!(demangle("_ZN4shop5orderEm.cold"), "shop::order(unsigned long)");
        assert_eq!(demangle("_ZN5sites5Store4keep17h0123456789abcdefE"), "sites::Store::keep");
        assert_eq!(demangle("_RNvNtCs1234_7mycrate3foo3bar"), "mycrate::foo::bar");
        assert_eq!(demangle("_RINvCs1234_5sites5twiceNtB2_5StoreEB2_"), "sites::twice::<sites::Store>");
        assert_eq!(demangle("_Znonsense"), "_Znonsense");
        assert_eq!(demangle("__grid_MOD_fill.constprop.0"), "grid::fill");
        assert_eq!(demangle_in("advance_", Some("/home/me/ADVANCE.F90")), "advance");
        assert_eq!(demangle_in("advance_.constprop.0", Some("advance.f")), "advance");
        assert_eq!(demangle_in("MAIN__", Some("advance.f")), "main program");
        assert_eq!(demangle_in("advance_", Some("/home/me/advance.c")), "advance_");
        assert_eq!(demangle_in("advance_", None), "advance_");
    }

    #[test]
    fn a_name_that_stands_for_a_huge_one_is_cut() {
        // Every type repeats the one before it: f(P<A, A>, P<P<A, A>, P<A, A>>, ...).
        let doubling = (0..60).fold("_Z1f1A".to_string(), |name, step| {
            let last = match step {
                0 => "S_".into(),
                n => format!("S{}_", base36(2 * n)),
            };
            format!("{name}1PI{last}{last}E")
        });
        for name in [doubling, "x".repeat(1 << 20), format!("_ZN{}E", "1a".repeat(1 << 20))] {
            let shown = demangle(&name);
            assert!(shown.len() <= NAME_MAX + '…'.len_utf8(), "{} bytes", shown.len());
        }
    }

    fn base36(number: u32) -> String {
        let digit = |value| char::from_digit(value, 36).expect("a digit").to_ascii_uppercase();
        if number < 36 {
            digit(number).into()
        } else {
            format!("{}{}", base36(number / 36), digit(number % 36))
        }
    }

    proptest! {
        /// Whatever is in a symbol table, it has a name, and not a long one.
        #[test]
        fn any_name_is_shown(start in "(_Z|_R|_ZN|_ZL|_ZTV|_RNv|)", rest in "[A-Z0-9a-z_.$]{0,200}|\\PC{0,40}") {
            let shown = demangle(&format!("{start}{rest}"));
            prop_assert!(shown.len() <= NAME_MAX + '…'.len_utf8());
        }
    }
}
