//! `memtrace flamegraph`: an SVG of folded call stacks by their bytes, outermost frames at the top.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use inferno::flamegraph::color::{BackgroundColor, Color, PaletteMap, parse_hex_color};
use inferno::flamegraph::{self, Direction, Options, TextTruncateDirection};
use memtrace_analysis::profile::category::Category;
use memtrace_analysis::profile::stacks::base_name;
use memtrace_analysis::report::flame::{At, Flame, flame};
use memtrace_analysis::report::fold::Folded;
use memtrace_trace::Trace;
use schemars::JsonSchema;
use serde::Serialize;

use super::usage::Usage;
use super::{json, output};
use crate::terminal::{Progress, clean, say};
use crate::units::{Bytes, grouped};

/// Frames of a stack that are drawn: with these the picture is as high as two screens.
const DEEPEST: usize = 90;

/// A flame graph of a trace.
#[derive(Args)]
pub struct Flamegraph {
    /// Trace directory
    #[arg(required_unless_present = "at")]
    trace: Option<PathBuf>,
    /// The SVG to write; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "peak.svg")]
    output: PathBuf,
    /// peak: live bytes at their peak; device-peak: used bytes of devices at theirs; span NAME:
    /// what the largest span of that operator had allocated at its working peak; end: live bytes when
    /// the program ended, before it tidied up; exit: heap bytes never released; temporary: number of heap blocks released within 10 µs
    #[arg(long, num_args = 1..=2, value_names = ["TIME", "NAME"], default_values = ["peak"])]
    at: Vec<String>,
    /// What the widths are
    #[arg(long, value_enum, default_value = "live")]
    by: By,
    /// Print what is drawn as JSON
    #[arg(long)]
    json: bool,
}

/// What `flamegraph --json` prints.
#[derive(Serialize, JsonSchema)]
pub struct Drawn {
    /// The SVG.
    output: String,
    /// What the widths are.
    what: String,
    /// `bytes` or `blocks`.
    unit: String,
    /// Their sum.
    total: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum By {
    Live,
    Resident,
}

/// Draws it.
pub fn run(arguments: &Flamegraph) -> Result<ExitCode> {
    output::check(&arguments.output, arguments.json)?;
    output::check_svg(&arguments.output, "a flame graph")?;
    let mut words: Vec<&str> = arguments.at.iter().map(String::as_str).collect();
    // Of `--at exit TRACE`, which no NAME follows, the option has taken both.
    let took_trace = arguments.trace.is_none() && words.len() > 1 && words[0] != "span";
    let taken = words.pop_if(|_| took_trace).map(PathBuf::from);
    let path = arguments.trace.clone().or(taken);
    let at = match words.as_slice() {
        ["peak"] => At::Peak,
        ["device-peak"] => At::DevicePeak,
        ["end"] => At::End,
        ["exit"] => At::Exit,
        ["temporary"] => At::Temporary,
        ["span", name] => At::Span(name.to_string()),
        _ => {
            return Err(Usage(
                "write --at peak, --at device-peak, --at span NAME, --at end, --at exit or --at temporary"
                    .into(),
            )
            .into());
        }
    };
    let trace = Trace::open(path.ok_or_else(|| Usage("name <TRACE> (memtrace flamegraph --help)".into()))?)?;
    if arguments.by == By::Resident {
        anyhow::bail!(
            "the trace does not say which blocks were resident: only mappings are sampled, and --by live counts \
             of them what was touched"
        );
    }
    let progress = Progress::start("drawing");
    let flame = flame(&trace, &at)?;
    if flame.stacks.is_empty() {
        anyhow::bail!("there is nothing to draw: no {}", flame.what);
    }
    let mut svg = Vec::new();
    draw(&flame, &trace.meta().command.join(" "), &mut svg)?;
    drop(progress);
    let path = &arguments.output;
    output::write(path, &svg)?;
    if arguments.json {
        let (output, unit) = (path.display().to_string(), flame.unit.to_owned());
        json::print(&Drawn { output, what: flame.what, unit, total: flame.total })?;
    } else if !output::is_standard(path) {
        say(&format!("{} shows {} {}", path.display(), total(&flame), flame.what));
    }
    Ok(ExitCode::SUCCESS)
}

/// The sum of a flame graph, in words.
fn total(flame: &Flame) -> String {
    match flame.unit {
        "bytes" => format!("{} ({} bytes):", Bytes(flame.total), grouped(flame.total)),
        _ => grouped(flame.total).to_string(),
    }
}

fn draw(flame: &Flame, command: &str, svg: &mut Vec<u8>) -> Result<()> {
    let mut colours = PaletteMap::default();
    colours.insert("", colour("#e6e7e9")); // the sum of all
    let lines: Vec<String> = flame
        .stacks
        .iter()
        .map(|(frames, width)| {
            // A line is FRAME;FRAME;... WIDTH.
            let names: Vec<String> =
                shortened(frames).iter().map(|frame| coloured(frame, &mut colours)).collect();
            format!("{} {width}", without_number(names.join(";")))
        })
        .collect();
    let mut options = Options::default();
    options.title = clean(command).chars().take(100).collect();
    options.subtitle = Some(format!("{} {}", total(flame), clean(&flame.what)));
    options.count_name = flame.unit.into();
    options.deterministic = true;
    options.direction = Direction::Inverted;
    options.text_truncate_direction = TextTruncateDirection::Right;
    options.bgcolors = Some(BackgroundColor::Flat(colour("#ffffff")));
    options.palette_map = Some(&mut colours);
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), svg)
        .map_err(|error| anyhow::anyhow!("cannot draw it: {error}"))
}

/// Of a stack that is too deep, its two ends.
fn shortened(frames: &[Folded]) -> Vec<Folded> {
    if frames.len() <= DEEPEST {
        return frames.to_vec();
    }
    let (outer, inner) = (DEEPEST / 2, DEEPEST - DEEPEST / 2 - 1);
    let between = Folded::bare(&format!("… {} frames", frames.len() - outer - inner));
    [&frames[..outer], &[between], &frames[frames.len() - inner..]].concat()
}

/// A frame's text: `gst3d (run_gst3d.py:41)`, `run_gst3d.py:70`, `eigh (numpy)`. Its colour is noted.
fn coloured(frame: &Folded, colours: &mut PaletteMap) -> String {
    let place = match &frame.source {
        Some((file, line)) => format!("{}:{line}", base_name(file)),
        None => frame.library.clone(),
    };
    let text = match frame.name.as_str() {
        "<module>" if frame.source.is_some() => place,
        name if place.is_empty() => name.to_owned(),
        name => format!("{name} ({place})"),
    };
    let text = clean(&text).replace(';', ",");
    colours.insert(text.clone(), colour_of(frame.category));
    text
}

/// Tints of the colours of Okabe and Ito, those of the page too.
fn colour_of(category: Category) -> Color {
    colour(match category {
        Category::Yours => "#f3c869",
        Category::Library => "#a6d5f2",
        Category::Interpreter => "#e3b9d0",
        Category::Native => "#8fd0ba",
    })
}

fn colour(hex: &str) -> Color {
    parse_hex_color(hex).unwrap_or_default()
}

/// Two numbers at the end of a line would mean the difference of two widths.
fn without_number(stack: String) -> String {
    match stack.rsplit_once(' ') {
        Some((start, number)) if number.parse::<f64>().is_ok() => format!("{start}\u{a0}{number}"),
        _ => stack,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(name: &str, line: u32) -> Folded {
        Folded {
            source: Some(("/home/me/run.py".into(), line)),
            category: Category::Yours,
            ..Folded::bare(name)
        }
    }

    fn svg(stacks: Vec<(Vec<Folded>, u64)>, command: &str) -> String {
        let total = stacks.iter().map(|(_, width)| width).sum();
        let flame = Flame { what: "live bytes".into(), unit: "bytes", total, stacks };
        let mut svg = Vec::new();
        draw(&flame, command, &mut svg).unwrap();
        String::from_utf8(svg).unwrap()
    }

    #[test]
    fn a_name_cannot_get_into_the_page() {
        let evil = "<script>alert(1)</script>\"'&;]]>\u{1b}\u{0}";
        let page = svg(vec![(vec![own("main", 1), Folded::bare(evil)], 7)], evil);
        assert!(!page.contains("<script>alert"), "{page}");
        assert!(!page.contains('\u{1b}') && !page.contains('\u{0}'));
        assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{page}");
    }

    #[test]
    fn names_with_spaces_and_numbers_stay_whole() {
        let names = ["operator new(unsigned long) 12", "f; 3"];
        let page = svg(vec![(names.map(Folded::bare).to_vec(), 5)], "a");
        assert!(page.contains("operator new(unsigned long) 12 (5 bytes"), "{page}");
        assert!(page.contains("f,\u{a0}3 (5 bytes"), "{page}");
    }

    #[test]
    fn colours_say_whose_code_it_is() {
        let page = svg(vec![(vec![own("work", 7)], 5)], "a");
        assert!(page.contains("work (run.py:7) (5 bytes") && page.contains("rgb(243,200,105)"), "{page}");
    }

    #[test]
    fn a_deep_stack_fits_two_screens() {
        let page = svg(vec![((1..500).map(|line| own("f", line)).collect(), 5)], "a");
        let (_, height) = page.split_once("height=\"").unwrap();
        assert!(height.split_once('"').unwrap().0.parse::<u32>().unwrap() <= 1800);
        assert!(
            page.contains("f (run.py:1)") && page.contains("f (run.py:499)") && page.contains("… 410 frames")
        );
    }
}
