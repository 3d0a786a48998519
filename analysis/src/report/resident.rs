//! What resident memory was made of, at its peak.

use memtrace_trace::rows::{ProcessRow, SpanRow};

/// Resident memory of a process at its peak, or at that of a span, in bytes, the probe's rings left
/// out: `resident` = `file` + `memory`, and `memory` = touched + stack + data + unexplained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AtPeak {
    /// The peak.
    pub resident: u64,
    /// Pages of files: code, libraries, mapped files.
    pub file: u64,
    /// Anonymous and shared memory: what a program allocates, and its stacks and data.
    pub memory: u64,
    /// What was live then, where a probe or mapping calls reported it.
    pub retained: Option<Retained>,
    /// The first thread's stack, and data of the executable and its libraries, when they were
    /// sampled.
    pub image: Option<Image>,
}

/// What a process has in memory without having allocated it, in bytes: sampled, near the peak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Image {
    /// Stack of the first thread.
    pub stack: u64,
    /// Variables, and what was written to in private mappings of files.
    pub data: u64,
}

/// What a process had allocated and not released at that moment, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retained {
    /// Live.
    pub live: u64,
    /// Of it, parts of large heap blocks that had not been touched.
    pub untouched: u64,
    /// Mapped by the program itself, touched or not.
    pub mapped: u64,
}

impl AtPeak {
    /// `None` where no kernel side saw it.
    pub fn of(process: &ProcessRow) -> Option<AtPeak> {
        let memory = process.resident_anon_bytes?.saturating_add(process.resident_shmem_bytes?);
        let retained = |live| Retained {
            live,
            untouched: process.resident_untouched_bytes.unwrap_or(0),
            mapped: process.resident_mapped_bytes.unwrap_or(0),
        };
        Some(AtPeak {
            resident: process.peak_resident_bytes,
            file: process.resident_file_bytes?,
            memory: memory.saturating_sub(process.probe_bytes),
            retained: process.resident_live_bytes.map(retained),
            image: process
                .resident_stack_bytes
                .zip(process.resident_data_bytes)
                .map(|(stack, data)| Image { stack, data }),
        })
    }

    /// The same for a span.
    pub fn of_span(span: &SpanRow) -> Option<AtPeak> {
        let (resident, then) = (span.resident_peak_bytes?, span.at_resident_peak?);
        Some(AtPeak {
            resident,
            file: then.file,
            memory: resident.saturating_sub(then.file),
            retained: Some(Retained { live: then.live, untouched: then.untouched, mapped: then.mapped }),
            image: None,
        })
    }

    /// Live bytes that are known to have been resident, or are taken to be.
    pub fn touched(&self) -> Option<u64> {
        self.retained.map(|retained| retained.live.saturating_sub(retained.untouched))
    }

    /// What is left: what allocators keep for themselves or add to blocks, stacks of other threads,
    /// and stack and data where they were not sampled; below 0 where more was allocated than
    /// touched, unseen by probe and kernel.
    pub fn unexplained(&self) -> Option<i64> {
        let image = self.image.map_or(0, |image| image.stack.saturating_add(image.data));
        let difference = |touched: u64| i128::from(self.memory) - i128::from(touched) - i128::from(image);
        let bounds = (i128::from(i64::MIN), i128::from(i64::MAX));
        self.touched().map(|touched| difference(touched).clamp(bounds.0, bounds.1) as i64)
    }
}

/// How much larger the resident size of its process became during a span.
pub fn growth(span: &SpanRow) -> Option<u64> {
    Some(span.resident_peak_bytes?.saturating_sub(span.at_resident_peak?.start))
}

#[cfg(test)]
mod tests {
    use memtrace_trace::rows::SpanResident;

    use super::*;

    #[test]
    fn parts_add_up() {
        let process = ProcessRow {
            peak_resident_bytes: 100,
            probe_bytes: 7,
            resident_anon_bytes: Some(60),
            resident_file_bytes: Some(30),
            resident_shmem_bytes: Some(17),
            resident_live_bytes: Some(90),
            resident_untouched_bytes: Some(25),
            resident_stack_bytes: Some(1),
            resident_data_bytes: Some(2),
            ..ProcessRow::default()
        };
        let parts = AtPeak::of(&process).unwrap();
        assert_eq!(parts.file + parts.memory, parts.resident);
        assert_eq!((parts.touched(), parts.unexplained()), (Some(65), Some(2)));
        let then = SpanResident { start: 40, file: 30, live: 80, untouched: 5, mapped: 0 };
        let span =
            SpanRow { resident_peak_bytes: Some(100), at_resident_peak: Some(then), ..SpanRow::default() };
        let parts = AtPeak::of_span(&span).unwrap();
        assert_eq!((parts.memory, parts.unexplained(), growth(&span)), (70, Some(-5), Some(60)));
        assert_eq!(AtPeak::of_span(&SpanRow::default()), None);
        let retained = Retained { live: u64::MAX, untouched: 0, mapped: 0 };
        let hostile = AtPeak { memory: 0, retained: Some(retained), ..parts };
        assert_eq!(hostile.unexplained(), Some(i64::MIN));
    }
}
