//! `bound`: what an operator needs that was never run, from its text.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result};
use clap::Args;
use memtrace_analysis::generic::{Bounded, Dtype, Inputs, Library, Source, bound};
use serde_json::Value;

use super::arguments::parse_parameter;
use super::usage::Usage;
use super::{json, output};
use crate::terminal::print;
use crate::units::{Bytes, Shape};

/// What describes a Python function: modules, each after those it imports. The last one's `main`
/// does it.
const DESCRIBES: [(&str, &str); 4] = [
    ("values", include_str!("../../../python/memtrace/_planning/source/values.py")),
    ("expressions", include_str!("../../../python/memtrace/_planning/source/expressions.py")),
    ("statements", include_str!("../../../python/memtrace/_planning/source/statements.py")),
    ("description", include_str!("../../../python/memtrace/_planning/source/description.py")),
];

/// The program that runs them in an interpreter that need not have memtrace.
fn extractor() -> String {
    // Python reads JSON arrays of strings as its own lists.
    let modules = serde_json::json!(DESCRIBES);
    format!(
        "import sys\n\
         def make(name, text):\n\
         \x20   module = sys.modules['_memtrace_source' + name] = type(sys)('_memtrace_source' + name)\n\
         \x20   module.__package__, module.__path__ = '_memtrace_source', []\n\
         \x20   exec(compile(text, '<memtrace source' + name + '>', 'exec'), module.__dict__)\n\
         \x20   return module\n\
         make('', '')\n\
         for name, text in {modules}:\n\
         \x20   last = make('.' + name, text)\n\
         last.main(sys.argv[1])\n"
    )
}

/// Arguments of `bound`.
#[derive(Args)]
pub struct Bound {
    /// A Python function, e.g. mypackage.filters:dip; its module is imported, it is not run
    #[arg(value_name = "MODULE:FUNCTION", required_unless_present = "source")]
    operator: Option<String>,
    /// A description of an operator's source instead (JSON; docs/generic.md)
    #[arg(long, value_name = "FILE", conflicts_with = "operator")]
    source: Option<PathBuf>,
    /// Shape of its input; given again: of its next array
    #[arg(long = "shape", value_name = "N,N,...", required_unless_present = "describe")]
    shapes: Vec<Shape>,
    /// Element type of its input, e.g. f4 or >f4; given again: of its next array
    #[arg(long = "dtype", default_value = "f4", value_parser = parse_dtype)]
    dtypes: Vec<Dtype>,
    /// How its inputs lie in memory
    #[arg(long, default_value = "C", value_parser = ["C", "F", "strided"])]
    layout: String,
    /// A parameter's value
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = parse_parameter)]
    params: Vec<(String, Value)>,
    /// What is known of library functions [default: what memtrace was built with]
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// Write the description of its source to this file, and with no --shape nothing else
    #[arg(long, value_name = "FILE", conflicts_with = "source")]
    describe: Option<PathBuf>,
    /// The Python that imports the module
    #[arg(long, value_name = "COMMAND", default_value = "python3")]
    python: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn parse_dtype(text: &str) -> Result<Dtype, String> {
    Dtype::parse(text).ok_or_else(|| format!("{text:?} is no element type; write f4, i2 or >f8"))
}

/// `memtrace bound`
pub fn run(arguments: &Bound) -> Result<ExitCode> {
    let text = match (&arguments.source, &arguments.operator) {
        (Some(path), _) => read(path)?,
        (None, Some(operator)) => described(&arguments.python, operator)?,
        (None, None) => return Err(Usage("name an operator, or give --source".to_owned()).into()),
    };
    if let Some(path) = &arguments.describe {
        output::write(path, text.as_bytes())?;
    }
    if arguments.shapes.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let loaded;
    let library = match &arguments.library {
        Some(path) => {
            loaded = Library::parse(&read(path)?)?;
            &loaded
        }
        None => Library::shipped(),
    };
    let params: BTreeMap<String, Value> = arguments.params.iter().cloned().collect();
    let inputs = Inputs {
        shapes: arguments.shapes.iter().map(|Shape(shape)| shape.clone()).collect(),
        dtypes: arguments.dtypes.clone(),
        layout: arguments.layout.clone(),
        params,
    };
    let answer = bound(&Source::parse(&text)?, library, &inputs)?;
    if arguments.json {
        json::print(&answer)?;
    } else {
        print(&sentences(&answer)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Describes a function's text with Python.
fn described(python: &Path, operator: &str) -> Result<String> {
    let program = python.display();
    let mut child = Command::new(python)
        .args(["-", operator])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {program}; name another with --python"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // If it ended early its stderr has the reason.
        let _ = stdin.write_all(extractor().as_bytes());
    }
    let done = child.wait_with_output().with_context(|| format!("{program} did not answer"))?;
    if !done.status.success() {
        let words = String::from_utf8_lossy(&done.stderr);
        let reason = words.trim().lines().last().unwrap_or("it gave no reason").to_owned();
        return Err(Usage(format!("cannot describe {operator}: {reason}")).into());
    }
    // What the operator's module printed when it was imported comes before the last line.
    let text = String::from_utf8_lossy(&done.stdout);
    Ok(text.trim().lines().last().unwrap_or_default().to_owned() + "\n")
}

fn sentences(answer: &Bounded) -> Result<String> {
    let mut text = String::new();
    let joined = |shape: &[u64]| shape.iter().map(u64::to_string).collect::<Vec<_>>().join("×");
    writeln!(text, "{} at {}, from its source only", answer.operator, joined(&answer.shape))?;
    let peak = Bytes(answer.peak_bytes);
    match answer.upper_bytes {
        Some(upper) => {
            writeln!(text, "  working peak  {peak:>9}   at most {} ({})", Bytes(upper), answer.confidence)?;
        }
        None => writeln!(text, "  working peak  {peak:>9}   an estimate, no bound: not all is known")?,
    }
    for term in answer.model.terms.iter().take(6) {
        writeln!(text, "    {:>9}  {}", Bytes(term.bytes), term.words)?;
    }
    writeln!(
        text,
        "  input         {:>9}   together {}",
        Bytes(answer.input_bytes),
        Bytes(answer.total_bytes)
    )?;
    let output = Bytes(answer.output_bytes);
    writeln!(text, "  output        {output:>9}   {} {}", joined(&answer.output_shape), answer.output_dtype)?;
    for unknown in &answer.model.unknown {
        writeln!(text, "  not known: {unknown}")?;
    }
    for note in &answer.model.notes {
        writeln!(text, "  note: {note}")?;
    }
    Ok(text)
}
