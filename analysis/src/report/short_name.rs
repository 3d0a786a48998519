//! Names of functions as tables show them: what tells them apart, without their types.

/// Longer names keep the last two parts of each path.
const NAME_MAX: usize = 48;

/// A function's name without result, parameters and arguments of templates, and without the
/// functions that it is defined in.
pub fn short_name(function: &str) -> String {
    let local = function.rsplit_once(".<locals>.").map_or(function, |(_, name)| name);
    let name = match implementation(local) {
        Some((inside, rest)) => of_implementation(inside, rest),
        None if local.starts_with('<') || local.contains("operator") => local.into(),
        None => plain(local.replace("(anonymous namespace)::", "").as_str()),
    };
    let name = if name.is_empty() { local.into() } else { name };
    if name.chars().count() > NAME_MAX { last_parts(&name) } else { name }
}

/// `Type as Trait` and `::function` of Rust's `<Type as Trait>::function`.
fn implementation(name: &str) -> Option<(&str, &str)> {
    let inside = name.strip_prefix('<')?;
    let mut depth = 0usize;
    let mut before = ' ';
    for (at, c) in inside.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if before == '-' => {}
            '>' if depth == 0 => {
                let rest = &inside[at + 1..];
                return rest.starts_with("::").then_some((&inside[..at], rest));
            }
            '>' => depth -= 1,
            _ => {}
        }
        before = c;
    }
    None
}

fn of_implementation(inside: &str, rest: &str) -> String {
    let rest = without_arguments(rest);
    let inside = without_arguments(inside);
    if inside.contains(" as ") { format!("<{inside}>{rest}") } else { format!("{inside}{rest}") }
}

/// A C++ or Rust name: its result stands before it, its parameters after it.
fn plain(name: &str) -> String {
    let name = without_arguments(name);
    let end = name.find('(').unwrap_or(name.len());
    name[..end].trim_end_matches("::").rsplit(' ').next().unwrap_or_default().into()
}

/// Without what stands between `<` and `>`.
fn without_arguments(name: &str) -> String {
    let mut depth = 0usize;
    let mut before = ' ';
    let mut out = String::new();
    for c in name.chars() {
        match c {
            '<' => depth += 1,
            '>' if before == '-' => {}
            '>' => depth = depth.saturating_sub(1),
            _ if depth == 0 => out.push(c),
            _ => {}
        }
        before = c;
    }
    out.replace("::::", "::").trim_end_matches("::").into()
}

/// `<alloc::vec::Vec as core::clone::Clone>::clone` as `<vec::Vec as clone::Clone>::clone`.
fn last_parts(name: &str) -> String {
    let mut out = String::new();
    for token in name.split_inclusive([' ', '<', '>', '(', ')', ',', '&', ';', '[', ']']) {
        let ends: Vec<usize> = token.rmatch_indices("::").map(|(at, _)| at).collect();
        let begin = ends.get(1).filter(|_| !token.starts_with("::")).map_or(0, |at| at + 2);
        out.push_str(&token[begin..]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_what_is_between_brackets() {
        for (function, short) in [
            ("fill(Grid&)", "fill"),
            ("void app::fill<std::map<int, int> >(int (*)(int))", "app::fill"),
            ("(anonymous namespace)::fill(int)", "fill"),
            ("Rolling._apply.<locals>.calc", "calc"),
            ("<app::Grid as app::Fill>::fill", "<app::Grid as app::Fill>::fill"),
            ("<app::Grid<f64>>::fill::<u8>", "app::Grid::fill"),
            ("<app::Map<fn(u8) -> u8> as app::Fill>::fill", "<app::Map as app::Fill>::fill"),
            ("<(app::A, app::B) as app::Fill>::fill", "<(app::A, app::B) as app::Fill>::fill"),
            ("app::fill::<u8>::{closure#0}", "app::fill::{closure#0}"),
            ("<module>", "<module>"),
            ("<lambda>", "<lambda>"),
            ("app::{{closure}}", "app::{{closure}}"),
            ("operator new(unsigned long)", "operator new(unsigned long)"),
            ("gst_", "gst_"),
            ("<", "<"),
            ("", ""),
        ] {
            assert_eq!(short_name(function), short);
        }
    }

    #[test]
    fn long_names_keep_the_ends_of_their_paths() {
        for (function, short) in [
            (
                "<alloc::collections::btree::map::BTreeMap<usize, std::sys::ThreadInfo>>::insert_or_replace",
                "BTreeMap::insert_or_replace",
            ),
            (
                "<alloc::boxed::Box<[tree::Node; 4]> as core::default::Default>::default",
                "<boxed::Box as default::Default>::default",
            ),
            (
                "alloc::collections::btree::map::entry::VacantEntry<K,V,A>::insert_entry",
                "VacantEntry::insert_entry",
            ),
        ] {
            assert_eq!(short_name(function), short);
        }
    }
}
