//! Where sites are, in words: native frames are named here, in the viewer, out of the files they
//! are in, so that the recorder has no work with it.

use std::collections::HashMap;

use memtrace_analysis::profile::stacks;
use memtrace_analysis::report::sites;
use memtrace_trace::rows::{FrameRow, SiteRow};

use crate::live_protocol::{Figures, Stack};
use crate::symbols;

/// The places of sites that were sent.
#[derive(Default)]
pub struct Places {
    new: Vec<Stack>,
    known: HashMap<u64, String>,
}

impl Places {
    /// A stack was sent.
    pub fn add(&mut self, stack: Stack) {
        self.new.push(stack);
    }

    /// Says where the sites of figures are.
    pub fn name(&mut self, figures: &mut Figures) {
        let new = std::mem::take(&mut self.new);
        if !new.is_empty() {
            self.known.extend(places(new));
        }
        let place = |site: &u64| self.known.get(site).cloned().unwrap_or_default();
        for site in &mut figures.sites {
            site.place = place(&site.site);
        }
        for placed in &mut figures.placed {
            placed.place = placed.site.as_ref().map(place).unwrap_or_default();
        }
    }
}

/// All at once, because each file is read once then.
fn places(stacks: Vec<Stack>) -> Vec<(u64, String)> {
    let (mut frames, mut builds, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    for stack in stacks.into_iter().filter(|stack| !stack.frames.is_empty()) {
        let outermost = frames.len() as u32;
        builds.extend((0..stack.frames.len()).map(|frame| stack.builds.get(frame).cloned()));
        frames.extend(stack.frames.into_iter().zip(outermost..).map(|(row, frame)| FrameRow {
            frame,
            parent: frame.checked_sub(1).filter(|parent| *parent >= outermost),
            ..row
        }));
        rows.push(SiteRow { site: stack.site, frame: frames.len() as u32 - 1, ..SiteRow::default() });
    }
    let build = |frame: &FrameRow| builds[frame.frame as usize].as_deref();
    let frames = symbols::name(frames, &mut rows, build);
    let place = |row: SiteRow| {
        let stack = stacks::stack(|frame| frames.get(frame as usize), row.frame);
        let site = sites::Site { stack: stack.into_iter().cloned().collect(), row };
        (site.row.site, site.place())
    };
    rows.into_iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live_protocol::{Placed, Site};

    fn python(function: &str, line: u32) -> FrameRow {
        let (function, file) = (Some(function.into()), Some("/home/me/run.py".into()));
        FrameRow { kind: "python".into(), function, file, line: Some(line), ..FrameRow::default() }
    }

    #[test]
    fn stacks_are_named_once_and_do_not_run_into_each_other() {
        let mut places = Places::default();
        places.add(Stack { site: 1, frames: vec![python("main", 9), python("work", 3)], builds: Vec::new() });
        places.add(Stack { site: 2, frames: vec![python("other", 7)], builds: Vec::new() });
        places.add(Stack { site: 3, ..Stack::default() });
        let sites = (1..=4).map(|site| Site { site, ..Site::default() }).collect();
        let placed = [Some(2), None].map(|site| Placed { site, ..Placed::default() }).to_vec();
        let mut figures = Figures { sites, placed, ..Figures::default() };
        for _ in 0..2 {
            places.name(&mut figures);
            let named: Vec<&str> = figures.sites.iter().map(|site| site.place.as_str()).collect();
            assert_eq!(named, ["work run.py:3", "other run.py:7", "", ""]);
            let named: Vec<&str> = figures.placed.iter().map(|placed| placed.place.as_str()).collect();
            assert_eq!(named, ["other run.py:7", ""]);
        }
    }
}
