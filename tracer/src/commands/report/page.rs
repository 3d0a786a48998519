//! `report --html`: one page that needs no network. `page/` has its script and style; here its data
//! is put in.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use memtrace_analysis::Model;
use memtrace_analysis::report::json::{Listed, report};
use memtrace_analysis::report::page::{Page, Tree, page};
use memtrace_trace::{Meta, Trace};
use serde::Serialize;

use super::source_text::SourceText;
use super::{laws, planned};
use crate::commands::markup::escaped;
use crate::commands::output;
use crate::terminal::{Progress, say};
use crate::units::Bytes;

/// The page without its data.
const PAGE: &str = include_str!("../../../../page/built/page.html");
const TITLE: &str = "{{title}}";
const DATA: &str = "{{data}}";

/// Lines of source text around one that is named.
const AROUND: u32 = 3;
/// Lines of source text in all, and bytes of them.
const LINES_MAX: usize = 6000;
const TEXT_MAX: usize = 400_000;

/// Whose code a frame is: the user's own (`category` of `Frames`).
const YOURS: u8 = 0;

/// What the page carries.
#[derive(Serialize)]
struct Document {
    page: Page,
    /// File, by its place among the tree's texts; line; text.
    sources: Vec<(u32, u32, String)>,
    /// Laws of operators that the trace has, if there is a model.
    laws: laws::Laws,
    /// A plan beside what was measured.
    plan: Option<planned::Shown>,
}

/// What the page has besides the trace.
pub struct Beside<'a> {
    /// A model whose laws it shows.
    pub model: Option<&'a Path>,
    /// A plan that it shows.
    pub plan: Option<&'a Path>,
    /// The text of source lines.
    pub source: bool,
}

/// Writes the page of a trace.
pub fn write(trace: &Trace, file: &Path, beside: &Beside) -> Result<()> {
    let model = beside.model.map(Model::load).transpose()?;
    let progress = Progress::start("collecting");
    let report = report(trace, Listed::default())?;
    let laws =
        model.map(|model| laws::of_trace(model, trace.meta(), &report)).transpose()?.unwrap_or_default();
    let plan = beside.plan.map(|path| planned::of_trace(path, trace)).transpose()?;
    let page = page(trace, &report)?;
    let sources = if beside.source { sources(trace.meta(), &page.tree) } else { Vec::new() };
    let title = format!("{} – memtrace", page.headline.command);
    let html = html(&title, &Document { page, sources, laws, plan })?;
    drop(progress);
    output::write(file, html.as_bytes())?;
    if !output::is_standard(file) {
        say(&format!(
            "{} shows {} ({})",
            file.display(),
            trace.directory().display(),
            Bytes(html.len() as u64)
        ));
    }
    Ok(())
}

fn html(title: &str, document: &Document) -> Result<String> {
    let mut deflated = ZlibEncoder::new(Vec::new(), Compression::new(8));
    serde_json::to_writer(&mut deflated, document)?;
    deflated.flush()?;
    let data = BASE64_STANDARD.encode(deflated.finish()?);
    let (before, after) = PAGE.split_once(DATA).context("the page has no place for its data")?;
    Ok(format!("{}{data}{after}", before.replace(TITLE, &escaped(title))))
}

/// Text of the lines that the page names in the user's own code, and of those around them.
fn sources(meta: &Meta, tree: &Tree) -> Vec<(u32, u32, String)> {
    if !is_this_host(meta) {
        return Vec::new();
    }
    let text = SourceText::of(meta);
    let (mut found, mut bytes) = (Vec::new(), 0);
    for (file, lines) in named(tree) {
        for (line, line_text) in text.lines(&tree.strings[file as usize], &lines) {
            bytes += line_text.len();
            if found.len() == LINES_MAX || bytes > TEXT_MAX {
                return found;
            }
            found.push((file, line, line_text));
        }
    }
    found
}

/// True if the trace was recorded here: files of the same names elsewhere are other files.
fn is_this_host(meta: &Meta) -> bool {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname");
    host.is_ok_and(|host| host.trim() == meta.host)
}

/// Lines by file.
fn named(tree: &Tree) -> BTreeMap<u32, BTreeSet<u32>> {
    let mut named: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    let frames = &tree.frames;
    let own = frames.file.iter().zip(&frames.line).zip(&frames.category);
    let own = own.filter(|(_, category)| **category == YOURS).map(|(place, _)| place);
    for (file, line) in own.chain(tree.lines.file.iter().zip(&tree.lines.line)) {
        if *file != 0 && *line != 0 {
            let around = line.saturating_sub(AROUND).max(1)..=line.saturating_add(AROUND);
            named.entry(*file).or_default().extend(around);
        }
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_a_place_for_everything_and_lets_nothing_in() {
        assert_eq!((PAGE.matches(DATA).count(), PAGE.matches(TITLE).count()), (1, 2));
        assert!(PAGE.contains("default-src 'none'"));
    }
}
