//! Largest sums of live bytes over events in the order of time, for many holders at once.
//!
//! Time is cut into windows that can be gone through in any order: of each it is enough to know by
//! how much live bytes changed over it and how far they rose above their value at its start.

use super::events::{NONE, Owners, Share, Turn};
use super::order::{Change, Ordered};

/// How live bytes of one holder go over some time, seen from their value at its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Course {
    /// The change from start to end.
    pub change: i64,
    /// The most.
    pub most: i64,
    /// When that was first reached; 0 if it is what there was at the start.
    pub at: i64,
    /// The most, if of what happened at one time all acquires came first; only where that was
    /// requested, or after [`Course::then`], it is at least `most`.
    pub bound: i64,
    moved: bool,
}

impl Course {
    #[inline]
    fn add(&mut self, time: i64, bytes: i64) {
        self.change = self.change.wrapping_add(bytes);
        if self.change > self.most {
            self.most = self.change;
            self.at = time;
        }
    }

    /// This, and then `later`.
    pub fn then(&mut self, later: &Course) {
        let most = self.change.wrapping_add(later.most);
        if most > self.most {
            self.most = most;
            self.at = later.at;
        }
        self.bound = self.bound.max(self.most).max(self.change.wrapping_add(later.bound));
        self.change = self.change.wrapping_add(later.change);
    }
}

/// The courses of all processes, sites and spans.
pub struct Courses {
    all: Vec<Course>,
    processes: usize,
    sites: usize,
    /// Those that have moved.
    moved: Vec<u32>,
}

/// What changed in a window, by process, site and span.
pub type Moves = Vec<(u32, Course)>;

const TOGETHER: usize = 0;

impl Courses {
    /// Nothing has happened.
    pub fn new(owners: &Owners) -> Courses {
        let holders = 1 + owners.parted.len() + owners.sites + owners.parents.len();
        Courses {
            all: vec![Course::default(); holders],
            processes: owners.parted.len(),
            sites: owners.sites,
            moved: Vec::new(),
        }
    }

    /// Of all processes together.
    pub fn together(&self) -> Course {
        self.all[TOGETHER]
    }

    /// Of one process.
    pub fn process(&self, place: usize) -> Course {
        self.all[1 + place]
    }

    /// Of one site.
    pub fn site(&self, place: usize) -> Course {
        self.all[1 + self.processes + place]
    }

    /// Of one span.
    pub fn span(&self, place: usize) -> Course {
        self.all[1 + self.processes + self.sites + place]
    }

    /// Adds up what happened in a window, and forgets all but the result.
    pub fn walk(&mut self, owners: &Owners, events: &Ordered) -> Moves {
        const AHEAD: usize = 32;
        let mut last = i64::MIN;
        for (index, Change { time, turn, share }) in (0..).map_while(|index| events.get(index)).enumerate() {
            events.prefetch(index + AHEAD);
            // Hardly ever does something else happen at the same time.
            if events.get(index + 1).is_some_and(|next| next.time == time)
                && time != last
                && turn == Turn::Release
                && events.is_open(index)
            {
                self.bound(owners, time, || events.acquires_with(index));
            }
            last = time;
            let bytes = if turn.is_acquire() { share.bytes } else { share.bytes.wrapping_neg() };
            self.each(owners, share, time, |course| course.add(time, bytes));
        }
        let all = &mut self.all;
        self.moved.drain(..).map(|holder| (holder, std::mem::take(&mut all[holder as usize]))).collect()
    }

    /// Adds what happened in the window before.
    pub fn before(&mut self, moves: &Moves) {
        for (holder, earlier) in moves {
            let later = &mut self.all[*holder as usize];
            let mut both = *earlier;
            both.then(later);
            *later = both;
        }
    }

    /// The most that the order at one time allows.
    #[cold]
    fn bound<'a, I: Iterator<Item = &'a Share>>(
        &mut self,
        owners: &Owners,
        time: i64,
        acquires: impl Fn() -> I,
    ) {
        for share in acquires() {
            self.each(owners, share, time, |course| {
                course.change = course.change.wrapping_add(share.bytes);
                course.bound = course.bound.max(course.change);
            });
        }
        for share in acquires() {
            self.each(owners, share, time, |course| course.change = course.change.wrapping_sub(share.bytes));
        }
    }

    /// Everything that the share counts for. (What a span's blocks do after its end makes no
    /// difference to its peak.)
    #[inline]
    fn each(&mut self, owners: &Owners, share: &Share, time: i64, mut work: impl FnMut(&mut Course)) {
        let mut of = |holder: usize| {
            let course = &mut self.all[holder];
            if !course.moved {
                course.moved = true;
                self.moved.push(holder as u32);
            }
            work(course);
        };
        if share.together {
            of(TOGETHER);
        }
        if share.process != NONE {
            of(1 + share.process as usize);
        }
        if share.site != NONE {
            of(1 + self.processes + share.site as usize);
        }
        if share.span != NONE {
            owners.running(share.span, time).for_each(|span| of(1 + self.processes + self.sites + span));
        }
    }
}
