//! What `memtrace report --recompute --json` prints.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::compare::{Figure, Recomputed, Whom};

/// Figures by their name in the report.
pub type Figures = BTreeMap<&'static str, u64>;

/// Figures derived from the rows, and where they differ from those folded while recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Document {
    /// Rows that were read.
    pub rows: u64,
    /// Processes with mappings whose touched part counts as live: their live bytes are not compared.
    pub processes_with_mappings: usize,
    /// Sums over all processes.
    pub totals: Figures,
    /// The peak of all processes together.
    pub peak: Figures,
    /// Each process.
    pub processes: Vec<ProcessFigures>,
    /// Each site.
    pub sites: Vec<SiteFigures>,
    /// Each span.
    pub spans: Vec<SpanFigures>,
    /// True if every figure is the folded one.
    pub equal: bool,
    /// True if the rows contradict no figure.
    pub agrees: bool,
    /// Figures that the rows contradict.
    pub differences: Vec<Difference>,
}

/// Figures of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ProcessFigures {
    /// Its index.
    pub process: u32,
    /// Its pid.
    pub pid: u32,
    /// By name.
    #[serde(flatten)]
    pub figures: Figures,
}

/// Figures of a site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SiteFigures {
    /// Its id.
    pub site: u64,
    /// By name.
    #[serde(flatten)]
    pub figures: Figures,
}

/// Figures of a span.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SpanFigures {
    /// Its index.
    pub span: u32,
    /// By name.
    #[serde(flatten)]
    pub figures: Figures,
}

/// A figure that the rows contradict. It is of a process, a site or a span, or of all processes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Difference {
    /// Index of the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
    /// Pid of the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Id of the site.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub site: Option<u64>,
    /// Index of the span.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub span: Option<u32>,
    /// Name of the figure in the report.
    pub name: &'static str,
    /// As it was folded while recording.
    pub folded: u64,
    /// As the rows have it.
    pub rows: u64,
    /// The most that the rows allow.
    pub rows_at_most: u64,
}

impl Recomputed {
    /// All of it, to be serialised.
    pub fn document(&self) -> Document {
        let mut document = Document {
            rows: self.rows,
            processes_with_mappings: self.with_mappings,
            totals: Figures::new(),
            peak: Figures::new(),
            processes: Vec::new(),
            sites: Vec::new(),
            spans: Vec::new(),
            equal: self.figures.iter().all(Figure::is_equal),
            agrees: self.differences().next().is_none(),
            differences: self.differences().map(Difference::of).collect(),
        };
        // Figures of one process, site or span follow each other.
        for of_one in self.figures.chunk_by(|a, b| a.whom == b.whom) {
            document.add(of_one[0].whom, of_one);
        }
        document
    }
}

impl Document {
    fn add(&mut self, whom: Whom, of_one: &[Figure]) {
        let figures = of_one.iter().map(|figure| (figure.name, figure.rows)).collect();
        match whom {
            Whom::Process(process, pid) => self.processes.push(ProcessFigures { process, pid, figures }),
            Whom::Site(site) => self.sites.push(SiteFigures { site, figures }),
            Whom::Span(span) => self.spans.push(SpanFigures { span, figures }),
            Whom::All => figures.into_iter().for_each(|(name, rows)| self.add_to_all(name, rows)),
        }
    }

    fn add_to_all(&mut self, name: &'static str, rows: u64) {
        match name.split_once('.') {
            Some(("peak", name)) => self.peak.insert(name, rows),
            Some((_, name)) => self.totals.insert(name, rows),
            None => self.totals.insert(name, rows),
        };
    }
}

impl Difference {
    fn of(figure: &Figure) -> Difference {
        let of = match figure.whom {
            Whom::All => Difference::default(),
            Whom::Process(process, pid) => {
                Difference { process: Some(process), pid: Some(pid), ..Difference::default() }
            }
            Whom::Site(site) => Difference { site: Some(site), ..Difference::default() },
            Whom::Span(span) => Difference { span: Some(span), ..Difference::default() },
        };
        let Figure { name, folded, rows, most, .. } = *figure;
        Difference { name, folded, rows, rows_at_most: most, ..of }
    }
}
