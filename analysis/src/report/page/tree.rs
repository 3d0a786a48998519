//! The call stacks of the page: the largest ones, as a tree of frames. All others are joined.

use std::collections::{HashMap, HashSet};

use memtrace_trace::Trace;
use memtrace_trace::rows::{FrameRow, SiteRow};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::blocks::Blocks;
use super::measures::Measure;
use super::{TEXT_MAX, clipped};
use crate::error::Error;
use crate::profile::category::{Category, category};
use crate::profile::stacks::{function, stack};
use crate::report::composition::{by_place, labels};
use crate::report::fold::{Folded, folded, library};
use crate::report::short_name::short_name;
use crate::report::sites::Share;

/// Call stacks that the page has.
const SITES_MAX: usize = 6000;
/// Frames that the page has, and bytes of their texts.
const FRAMES_MAX: usize = 48_000;
const TEXTS_MAX: usize = 2_000_000;
/// Bytes of a text beyond that: names of libraries, lines and folded frames count too.
const SHORT_MAX: usize = 40;
/// Changes of live bytes that the page has.
const CHANGES_MAX: usize = 80_000;

/// Frames, call stacks, and the lines that these are at.
#[derive(Debug, Serialize)]
pub struct Tree {
    /// Frames, callers before what they call.
    pub frames: Frames,
    /// The same, folded.
    pub folded: FoldedFrames,
    /// Call stacks; the next number is that of all others.
    pub sites: Sites,
    /// Lines of the program, as the summary names them.
    pub lines: Lines,
    /// Texts that the columns refer to by their place; the first is empty.
    pub strings: Vec<String>,
    /// How many call stacks are joined.
    pub joined: usize,
}

/// Columns of frames.
#[derive(Debug, Default, Serialize)]
pub struct Frames {
    /// The frame that called it; -1 for none.
    pub parent: Vec<i32>,
    /// Its function.
    pub function: Vec<u32>,
    /// The function without its types.
    pub name: Vec<u32>,
    /// Its source file.
    pub file: Vec<u32>,
    /// The line in that file; 0 if it is not known.
    pub line: Vec<u32>,
    /// Its package, or the name of its executable or library.
    pub library: Vec<u32>,
    /// Whose code it is: 0 the user's, 1 a library, 2 the interpreter, 3 native.
    pub category: Vec<u8>,
}

/// Columns of folded frames.
#[derive(Debug, Default, Serialize)]
pub struct FoldedFrames {
    /// The frame above it; -1 for none.
    pub parent: Vec<i32>,
    /// What to call it.
    pub name: Vec<u32>,
    /// The package, executable or library of what is not the user's own.
    pub library: Vec<u32>,
    /// Its source file.
    pub file: Vec<u32>,
    /// The line in that file; 0 if it is not known.
    pub line: Vec<u32>,
    /// Whose code it is, as in [`Frames`].
    pub category: Vec<u8>,
}

/// Columns of call stacks.
#[derive(Debug, Default, Serialize)]
pub struct Sites {
    /// Ids in the table `sites`, as text: they have 64 bits.
    pub id: Vec<String>,
    /// Innermost frames; -1 if it is not known.
    pub frame: Vec<i32>,
    /// Innermost folded frames.
    pub folded: Vec<i32>,
    /// The line of the program.
    pub line: Vec<u32>,
    /// Blocks allocated.
    pub blocks: Vec<u64>,
    /// Sum of their sizes.
    pub requested: Vec<u64>,
}

/// Columns of lines.
#[derive(Debug, Default, Serialize)]
pub struct Lines {
    /// What to call it.
    pub label: Vec<u32>,
    /// Its source file.
    pub file: Vec<u32>,
    /// The line in that file; 0 if it is not known.
    pub line: Vec<u32>,
}

/// Which sites the page has.
pub struct Kept {
    places: Vec<u32>,
    joined: u32,
}

impl Kept {
    /// The place on the page of a site by its place in the table.
    pub fn place(&self, site: u32) -> u32 {
        self.places.get(site as usize).copied().unwrap_or(self.joined)
    }
}

/// The tree of the sites with the largest parts of any measure.
pub fn build(
    trace: &Trace,
    sites: &[SiteRow],
    measures: &[Measure],
    blocks: Option<&Blocks>,
) -> Result<(Tree, Kept), Error> {
    let ranked = ranked(measures, blocks, trace.meta().peak.live_bytes);
    let frames = trace.frames_of(ranked.iter().take(SITES_MAX).map(|site| sites[*site as usize].frame))?;
    let changes = blocks.map(Blocks::changes_by_site).unwrap_or_default();
    let mut room = Room::default();
    let fits = |site: &&u32| {
        let stack = stack(|frame| frames.get(&frame), sites[**site as usize].frame);
        room.takes(&stack, changes.get(*site).copied().unwrap_or(0))
    };
    let kept: Vec<u32> = ranked.iter().take(SITES_MAX).take_while(fits).copied().collect();
    let peak: FxHashMap<u32, u64> =
        measures.iter().filter(|measure| measure.key == "peak").flat_map(Measure::parts).collect();
    let share = |site: &u32| {
        let bytes = peak.get(site).copied().unwrap_or(0).max(1);
        Share { row: sites[*site as usize].clone(), bytes, estimated: 0 }
    };
    let shares: Vec<Share> = kept.iter().map(share).collect();
    let mut texts = Texts::new();
    let columns = Columns::of(&shares, &frames, &mut texts);
    let (lines, of_sites) = lines(trace, &shares, &mut texts)?;
    let mut folding = Folding::default();
    let innermost = shares.iter().zip(&of_sites).map(|(share, line)| {
        let place = texts.all[lines.label[*line as usize] as usize].clone();
        let stack = stack(|frame| frames.get(&frame), share.row.frame);
        folding.add(folded(&stack, &place), &mut texts)
    });
    let innermost = innermost.collect();
    let mut places = vec![kept.len() as u32; sites.len()];
    kept.iter().zip(0..).for_each(|(site, place)| places[*site as usize] = place);
    let tree = Tree {
        sites: columns.sites(&shares, of_sites, innermost),
        frames: columns.frames,
        folded: folding.frames,
        lines,
        strings: texts.all,
        joined: ranked.len() - kept.len(),
    };
    Ok((tree, Kept { places, joined: kept.len() as u32 }))
}

/// What of the page is taken.
#[derive(Default)]
struct Room {
    frames: HashSet<u32>,
    texts: usize,
    changes: usize,
}

impl Room {
    /// Takes what a call stack needs; false if that is more than there is.
    fn takes(&mut self, stack: &[&FrameRow], changes: usize) -> bool {
        for row in stack.iter().filter(|row| self.frames.insert(row.frame)) {
            let text = |text: &Option<String>| text.as_ref().map_or(0, |text| text.len().min(TEXT_MAX));
            self.texts += text(&row.function) + text(&row.file);
        }
        self.changes += changes;
        self.frames.len() <= FRAMES_MAX && self.texts <= TEXTS_MAX && self.changes <= CHANGES_MAX
    }
}

/// Sites by the largest share that they have of a measure, or of the peak at any time.
fn ranked(measures: &[Measure], blocks: Option<&Blocks>, peak: u64) -> Vec<u32> {
    let mut shares: FxHashMap<u32, f64> = FxHashMap::default();
    let mut note = |site: u32, value: u64, total: u64| {
        let share = shares.entry(site).or_default();
        *share = share.max(value as f64 / total.max(1) as f64);
    };
    for measure in measures {
        measure.parts().for_each(|(site, value)| note(site, value, measure.total));
    }
    let largest = blocks.map(Blocks::largest).unwrap_or_default();
    largest.into_iter().for_each(|(site, bytes)| note(site, bytes, peak));
    let mut ranked: Vec<(u32, f64)> = shares.into_iter().collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    ranked.into_iter().map(|(site, _)| site).collect()
}

/// The lines of call stacks, and which line each is at.
fn lines(trace: &Trace, shares: &[Share], texts: &mut Texts) -> Result<(Lines, Vec<u32>), Error> {
    let groups = by_place(trace, shares)?;
    let mut lines = Lines::default();
    let mut of_sites = vec![0; shares.len()];
    for (group, label) in groups.iter().zip(labels(groups.iter().map(|group| &group.place))) {
        group.sites.iter().for_each(|site| of_sites[*site] = lines.label.len() as u32);
        let (file, line) = group.place.source().unwrap_or(("", 0));
        lines.label.push(texts.place(&label));
        lines.file.push(texts.place(file));
        lines.line.push(line);
    }
    Ok((lines, of_sites))
}

/// Frames in order, and where each one is.
struct Columns {
    frames: Frames,
    places: HashMap<u32, i32>,
}

impl Columns {
    fn of(shares: &[Share], rows: &HashMap<u32, FrameRow>, texts: &mut Texts) -> Columns {
        let mut columns = Columns { frames: Frames::default(), places: HashMap::new() };
        // By place, whether Python code of the user's own has called it.
        let mut below: Vec<bool> = Vec::new();
        for share in shares {
            let stack = stack(|frame| rows.get(&frame), share.row.frame);
            let mut parent = -1;
            for row in stack.into_iter().rev() {
                parent = match columns.places.get(&row.frame) {
                    Some(place) => *place,
                    None => columns.push(row, parent, &mut below, texts),
                };
            }
        }
        columns
    }

    fn push(&mut self, row: &FrameRow, parent: i32, below: &mut Vec<bool>, texts: &mut Texts) -> i32 {
        let below_own = usize::try_from(parent).is_ok_and(|parent| below[parent]);
        let category = category(row, below_own);
        below.push(below_own || (category == Category::Yours && row.kind == "python"));
        let function = function(row);
        let frames = &mut self.frames;
        frames.parent.push(parent);
        frames.function.push(texts.place(&function));
        frames.name.push(texts.place(&short_name(&function)));
        frames.file.push(texts.place(row.file.as_deref().unwrap_or_default()));
        frames.line.push(row.line.unwrap_or(0));
        frames.library.push(texts.place(&library(row)));
        frames.category.push(category as u8);
        let place = below.len() as i32 - 1;
        self.places.insert(row.frame, place);
        place
    }

    fn sites(&self, shares: &[Share], line: Vec<u32>, folded: Vec<i32>) -> Sites {
        let rows = || shares.iter().map(|share| &share.row);
        Sites {
            id: rows().map(|row| row.site.to_string()).collect(),
            frame: rows().map(|row| self.places.get(&row.frame).copied().unwrap_or(-1)).collect(),
            folded,
            line,
            blocks: rows().map(|row| row.blocks).collect(),
            requested: rows().map(|row| row.requested_bytes).collect(),
        }
    }
}

/// Folded frames, and where each one is.
#[derive(Default)]
struct Folding {
    frames: FoldedFrames,
    places: HashMap<(i32, Folded), i32>,
}

impl Folding {
    /// Where the innermost one is.
    fn add(&mut self, stack: Vec<Folded>, texts: &mut Texts) -> i32 {
        let mut parent = -1;
        for frame in stack {
            let key = (parent, frame);
            parent = match self.places.get(&key) {
                Some(place) => *place,
                None => self.push(key, texts),
            };
        }
        parent
    }

    fn push(&mut self, key: (i32, Folded), texts: &mut Texts) -> i32 {
        let (parent, frame) = &key;
        let place = self.frames.parent.len() as i32;
        let (file, line) = frame.source.as_ref().map_or(("", 0), |(file, line)| (file, *line));
        self.frames.parent.push(*parent);
        self.frames.name.push(texts.place(&frame.name));
        self.frames.library.push(texts.place(&frame.library));
        self.frames.file.push(texts.place(file));
        self.frames.line.push(line);
        self.frames.category.push(frame.category as u8);
        self.places.insert(key, place);
        place
    }
}

/// Texts, each one time.
struct Texts {
    all: Vec<String>,
    places: HashMap<String, u32>,
    bytes: usize,
}

impl Texts {
    fn new() -> Texts {
        Texts { all: vec![String::new()], places: HashMap::from([(String::new(), 0)]), bytes: 0 }
    }

    fn place(&mut self, text: &str) -> u32 {
        let text = &*clipped(text, if self.bytes < TEXTS_MAX { TEXT_MAX } else { SHORT_MAX });
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = self.all.len() as u32;
        self.bytes += text.len();
        self.all.push(text.into());
        self.places.insert(text.into(), place);
        place
    }
}
