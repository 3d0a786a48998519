//! Rows for functions that were inlined.

use memtrace_trace::rows::{FrameRow, SiteRow};

use super::Place;

/// Puts the places of each frame (by its index; the innermost first, none if nothing is known) into
/// its row, those of inlined functions into rows of their own below it. Callers stay before what
/// they call.
pub fn expand<'a>(
    frames: Vec<FrameRow>,
    sites: &mut [SiteRow],
    places: impl Fn(usize) -> &'a [Place],
) -> Vec<FrameRow> {
    let mut rows: Vec<FrameRow> = Vec::with_capacity(frames.len());
    let mut innermost: Vec<u32> = Vec::with_capacity(frames.len());
    let renumbered = |innermost: &[u32], frame: u32| innermost.get(frame as usize).copied();
    for (index, frame) in frames.into_iter().enumerate() {
        let parent = frame.parent.and_then(|parent| renumbered(&innermost, parent));
        let number = rows.len() as u32;
        let Some((function, inlined)) = places(index).split_last() else {
            rows.push(FrameRow { frame: number, parent, ..frame });
            innermost.push(number);
            continue;
        };
        let row = |number, parent, place: &Place| FrameRow {
            frame: number,
            parent,
            function: place.function.clone(),
            file: place.file.clone(),
            line: place.line,
            ..frame.clone()
        };
        rows.push(row(number, parent, function));
        for (place, number) in inlined.iter().rev().zip(number + 1..) {
            rows.push(FrameRow { kind: "inlined".into(), ..row(number, Some(number - 1), place) });
        }
        innermost.push(rows.len() as u32 - 1);
    }
    for site in sites {
        site.frame = renumbered(&innermost, site.frame).unwrap_or(site.frame);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(function: &str) -> Place {
        Place { function: Some(function.into()), ..Place::default() }
    }

    fn stack(rows: &[FrameRow], leaf: u32) -> Vec<String> {
        let mut next = Some(leaf);
        let mut stack = Vec::new();
        while let Some(row) = next.map(|number| &rows[number as usize]) {
            assert!(row.parent.is_none_or(|parent| parent < row.frame), "callers come first");
            stack.push(format!("{} {}", row.kind, row.function.as_deref().unwrap_or("?")));
            next = row.parent;
        }
        stack
    }

    #[test]
    fn inlined_functions_lie_between_their_function_and_what_it_calls() {
        let native = |frame, parent| FrameRow { frame, parent, kind: "native".into(), ..FrameRow::default() };
        let frames = vec![native(0, None), native(1, Some(0)), native(2, Some(1)), native(3, Some(0))];
        let found =
            [vec![place("inner"), place("outer"), place("main")], vec![], vec![place("leaf")], vec![]];
        let mut sites = [2, 3, 0].map(|frame| SiteRow { frame, ..SiteRow::default() });
        let rows = expand(frames, &mut sites, |index| &found[index]);
        let around = ["inlined inner", "inlined outer", "native main"];
        let stacks = sites.each_ref().map(|site| stack(&rows, site.frame));
        assert_eq!(stacks[0], [&["native leaf", "native ?"], &around[..]].concat());
        assert_eq!(stacks[1], [&["native ?"], &around[..]].concat());
        assert_eq!(stacks[2], around);
        assert!(rows.iter().zip(0..).all(|(row, number)| row.frame == number));
    }
}
