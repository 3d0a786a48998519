//! Where a model comes from: the traces it was fitted to.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use memtrace_trace::Trace;
use memtrace_trace::rows::SpanRow;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::digest::hex;

/// Tables beyond this size count by their size, not by their bytes.
const MAX_HASHED_BYTES: u64 = 64 << 10;

/// One trace that a model was fitted to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Source {
    /// Its directory when it was read.
    pub path: String,
    /// SHA-256 over `meta.json`, small tables, and names and sizes of large ones; says whether it
    /// is the same trace still.
    pub sha256: String,
    /// The recorded command.
    pub command: Vec<String>,
    /// Host name.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// Logical CPUs the command could run on.
    pub cpus: u32,
    /// Version of memtrace that recorded it.
    pub memtrace: String,
    /// Start of the recording, seconds since 1970-01-01 UTC.
    pub recorded_unix_s: i64,
    /// What was recorded and how, as `meta.json` says it.
    pub recorded: BTreeMap<String, String>,
    /// Its operators.
    pub operators: BTreeSet<String>,
    /// Versions of the libraries that ran them.
    pub versions: BTreeMap<String, String>,
}

impl Source {
    /// What a trace says of itself.
    pub(super) fn of(trace: &Trace, operators: Operators) -> Source {
        let meta = trace.meta();
        let directory = trace.directory();
        Source {
            path: directory.canonicalize().unwrap_or_else(|_| directory.to_owned()).display().to_string(),
            sha256: digest(directory),
            command: meta.command.clone(),
            host: meta.host.clone(),
            kernel: meta.kernel.clone(),
            cpus: meta.cpus,
            memtrace: meta.memtrace.clone(),
            recorded_unix_s: meta.start_unix_ns / 1_000_000_000,
            recorded: meta.recorded.clone(),
            operators: operators.names,
            versions: operators.versions,
        }
    }
}

/// Operators of spans, and the libraries that ran them.
#[derive(Debug, Default)]
pub(super) struct Operators {
    names: BTreeSet<String>,
    versions: BTreeMap<String, String>,
    /// Spans share their parameters.
    last: Arc<Map<String, Value>>,
}

impl Operators {
    /// Those of one more span.
    pub(super) fn add(&mut self, span: &SpanRow) {
        if !self.names.contains(&span.operator) {
            self.names.insert(span.operator.clone());
        }
        if !Arc::ptr_eq(&self.last, &span.params) {
            self.last = Arc::clone(&span.params);
            let named = span.params.get("versions").and_then(Value::as_object).into_iter().flatten();
            self.versions
                .extend(named.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))));
        }
    }
}

/// Digest of a trace: of every file its name, size, and, where small, its bytes. What cannot be
/// read counts by its name.
fn digest(directory: &Path) -> String {
    let mut files = Vec::new();
    collect(directory, "", &mut files);
    files.sort();
    let mut digest = Sha256::new();
    for (name, bytes) in files {
        digest.update(format!("{name}\0{bytes}\0").as_bytes());
        if bytes <= MAX_HASHED_BYTES {
            digest.update(fs::read(directory.join(&name)).unwrap_or_default());
        }
    }
    hex(&digest.finalize())
}

/// Files of a trace, tables in parts one level down; links are not followed.
fn collect(directory: &Path, prefix: &str, files: &mut Vec<(String, u64)>) {
    for entry in fs::read_dir(directory.join(prefix)).into_iter().flatten().flatten() {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        match entry.metadata() {
            Ok(file) if file.is_file() => files.push((name, file.len())),
            Ok(folder) if folder.is_dir() && prefix.is_empty() => {
                collect(directory, &format!("{name}/"), files)
            }
            _ => {}
        }
    }
}
