//! Largest sums of live bytes over changes in the order of time, for many holders at once.
//!
//! Time is cut into windows that can be gone through in any order: of each it is enough to know by how much live
//! bytes changed over it and how far they rose above their value at its start.

use super::events::{Cast, Change, NONE, Turn};
use super::order::Changes;

/// How live bytes of one holder go over some time, seen from their value at its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Course {
    /// The change from start to end.
    pub change: i64,
    /// The most.
    pub most: i64,
    /// When that was first reached; 0 if it is what there was at the start.
    pub at: i64,
    /// The most, if of what happened in one nanosecond all acquires came first; only where that was asked, or after
    /// [`Course::then`], it is at least `most`.
    pub bound: i64,
    moved: bool,
}

impl Course {
    #[inline]
    fn add(&mut self, time: i64, change: &Change) {
        self.change = self.change.wrapping_add(change.bytes);
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

/// The courses of everybody.
pub struct Courses {
    all: Vec<Course>,
    processes: usize,
    sites: usize,
    /// Who has moved.
    moved: Vec<u32>,
}

/// What happened to whom in a window.
pub type Moves = Vec<(u32, Course)>;

const TOGETHER: usize = 0;

impl Courses {
    /// Nothing has happened.
    pub fn new(cast: &Cast) -> Courses {
        let holders = 1 + cast.parted.len() + cast.sites + cast.parents.len();
        Courses {
            all: vec![Course::default(); holders],
            processes: cast.parted.len(),
            sites: cast.sites,
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

    /// Adds up the changes of a window, and forgets all but the result.
    pub fn walk(&mut self, cast: &Cast, changes: &Changes) -> Moves {
        const AHEAD: usize = 32;
        let mut last = i64::MIN;
        for (index, (time, change)) in (0..).map_while(|index| changes.get(index)).enumerate() {
            changes.prefetch(index + AHEAD);
            // Hardly ever does something else happen in the same nanosecond.
            if changes.get(index + 1).is_some_and(|(next, _)| next == time)
                && time != last
                && change.turn == Turn::Release
                && changes.is_open(index)
            {
                self.bound(cast, || changes.acquires_with(index));
            }
            last = time;
            self.each(cast, change, |course| course.add(time, change));
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

    /// The most that the order within one nanosecond allows.
    #[cold]
    fn bound<'a, I: Iterator<Item = &'a Change>>(&mut self, cast: &Cast, acquires: impl Fn() -> I) {
        for change in acquires() {
            self.each(cast, change, |course| {
                course.change = course.change.wrapping_add(change.bytes);
                course.bound = course.bound.max(course.change);
            });
        }
        for change in acquires() {
            self.each(cast, change, |course| course.change = course.change.wrapping_sub(change.bytes));
        }
    }

    /// Everybody the change counts for.
    #[inline]
    fn each(&mut self, cast: &Cast, change: &Change, mut work: impl FnMut(&mut Course)) {
        let mut of = |holder: usize| {
            let course = &mut self.all[holder];
            if !course.moved {
                course.moved = true;
                self.moved.push(holder as u32);
            }
            work(course);
        };
        if change.together {
            of(TOGETHER);
        }
        if change.process != NONE {
            of(1 + change.process as usize);
        }
        if change.site != NONE {
            of(1 + self.processes + change.site as usize);
        }
        if change.span != NONE {
            cast.around(change.span).for_each(|span| of(1 + self.processes + self.sites + span));
        }
    }
}
