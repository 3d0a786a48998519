//! Events that wait until their time comes, in memory that is bounded.

use super::events::Event;
use super::order::Ordered;

/// Events in no order, from a floor on that rises when they become too many: what lies below it is
/// left to a later pass.
#[derive(Default)]
pub struct Kept {
    events: Vec<Event>,
    floor: i64,
    most: usize,
}

impl Kept {
    /// Nothing yet; see [`Kept::begin`].
    pub fn new(floor: i64, most: usize) -> Kept {
        Kept { events: Vec::new(), floor, most }
    }

    /// Forgets all; of what comes, at most `most` events are kept, from `floor` on.
    pub fn begin(&mut self, floor: i64, most: usize) {
        self.events.clear();
        (self.floor, self.most) = (floor, most);
    }

    /// More will be kept.
    pub fn make_room(&mut self, more: usize) {
        self.most += more;
    }

    /// Time from which on all are there.
    pub fn floor(&self) -> i64 {
        self.floor
    }

    /// Adds one.
    #[inline]
    pub fn push(&mut self, event: Event) {
        if event.time() >= self.floor {
            self.events.push(event);
            if self.events.len() > self.most {
                self.give_up_some();
            }
        }
    }

    /// Takes all of the other's.
    pub fn join(&mut self, other: &mut Kept) {
        self.rise(other.floor);
        other.events.drain(..).for_each(|event| self.push(event));
    }

    /// Moves what lies from `from` on to `window`.
    pub fn move_to(&mut self, from: i64, window: &mut Ordered) {
        window.rise(self.floor);
        self.events.extract_if(.., |event| event.time() >= from).for_each(|event| window.push(&event));
        if window.floor() > from {
            self.rise(window.floor());
        }
    }

    /// Leaves what lies below `floor` to a later pass.
    pub fn rise(&mut self, floor: i64) {
        if floor > self.floor {
            self.floor = floor;
            self.events.retain(|event| event.time() >= floor);
        }
    }

    #[cold]
    fn give_up_some(&mut self) {
        let some = self.events.len() / 4;
        let (_, event, _) = self.events.select_nth_unstable_by_key(some, Event::time);
        let floor = event.time() + 1;
        self.rise(floor);
    }
}
