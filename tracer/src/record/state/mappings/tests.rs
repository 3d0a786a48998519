use proptest::prelude::*;

use super::*;

fn piece(start_page: u64, pages: u64) -> Piece {
    Piece {
        start: start_page * page_bytes(),
        bytes: pages * page_bytes(),
        alloc: 1,
        thread: 0,
        span: None,
        ordinal: 0,
        kind: Kind::MapAnonymous,
        site: None,
        part: Part::None,
        share: None,
        touched: 0,
        faulted: 0,
        measured: false,
    }
}

proptest! {
    /// Against a page-by-page oracle: what is mapped, what every call takes, and that sums
    /// agree.
    #[test]
    fn behaves_like_a_set_of_pages(calls in prop::collection::vec((any::<bool>(), 0..60u64, 1..20u64), 1..80)) {
        let mut mappings = Mappings::default();
        let mut oracle = std::collections::BTreeSet::new();
        for (map, start, pages) in calls {
            let taken: u64 = mappings.take(start * page_bytes(), pages * page_bytes()).iter().map(|piece| piece.bytes).sum();
            let hit = (start..start + pages).filter(|page| oracle.remove(page)).count() as u64;
            prop_assert_eq!(taken, hit * page_bytes());
            if map {
                mappings.insert(piece(start, pages));
                oracle.extend(start..start + pages);
            }
            prop_assert_eq!(mappings.mapped_bytes(), oracle.len() as u64 * page_bytes());
            prop_assert_eq!(mappings.iter().map(|piece| piece.touched).sum::<u64>(), mappings.touched_bytes());
            for page in 0..90 {
                prop_assert_eq!(mappings.find(page * page_bytes()).is_some(), oracle.contains(&page));
            }
        }
    }
}

/// What is in memory of a file's mapping is not the program's own memory.
#[test]
fn a_mapped_file_is_never_live() {
    let mut mappings = Mappings::default();
    mappings.insert(Piece { kind: Kind::MapFile, ..piece(0, 10) });
    mappings.note_touched(0, 10 * page_bytes(), 7 * page_bytes());
    let pieces = mappings.begin_release(0, 10 * page_bytes());
    assert_eq!((mappings.touched_bytes(), pieces[0].touched), (0, 0));
}

#[test]
fn a_failed_call_changes_nothing() {
    let mut mappings = Mappings::default();
    mappings.insert(piece(10, 10));
    let taken = mappings.begin_release(12 * page_bytes(), 3 * page_bytes());
    assert!(mappings.find(13 * page_bytes()).is_none());
    // Until the call returns, the bytes are there.
    assert_eq!(mappings.mapped_bytes(), 10 * page_bytes());
    mappings.restore(taken);
    assert_eq!((mappings.mapped_bytes(), mappings.touched_bytes()), (10 * page_bytes(), 10 * page_bytes()));
}

#[test]
fn released_pages_stay_live() {
    let mut mappings = Mappings::default();
    mappings.insert(piece(0, 1000));
    assert_eq!(mappings.touched_bytes(), 0);
    mappings.note_touched(0, 1000 * page_bytes(), 600 * page_bytes());
    mappings.measure(|_| Some(10 * page_bytes()));
    assert_eq!(mappings.touched_bytes(), 600 * page_bytes());
    // The half at the end is about to go: 350 of its pages are there, and may be among those
    // seen before.
    mappings.note_touched(500 * page_bytes(), 500 * page_bytes(), 350 * page_bytes());
    assert_eq!(mappings.touched_bytes(), 600 * page_bytes());
    let gone = mappings.begin_release(500 * page_bytes(), 500 * page_bytes());
    mappings.finish_release(&gone);
    assert_eq!((gone[0].touched, mappings.touched_bytes()), (350 * page_bytes(), 250 * page_bytes()));
    // All that is left is full.
    mappings.note_touched(0, 400 * page_bytes(), 400 * page_bytes());
    assert_eq!(mappings.touched_bytes(), 400 * page_bytes());
}

#[test]
fn what_is_dropped_of_a_reservation_is_not_live() {
    let mut mappings = Mappings::default();
    mappings.insert(Piece { kind: Kind::MapReserved, ..piece(0, 1000) });
    mappings.insert(piece(1000, 1000));
    mappings.note_touched(500 * page_bytes(), 1000 * page_bytes(), 600 * page_bytes());
    assert_eq!(mappings.touched_bytes(), 600 * page_bytes());
    let parts = mappings.forget_reserved();
    assert_eq!((parts.len(), &parts[0]), (1, &(500 * page_bytes()..1000 * page_bytes())));
    assert_eq!(mappings.touched_bytes(), 300 * page_bytes());
    // It is what is cut out, too, of the reserved pieces only.
    let taken = mappings.take_of(Kind::MapReserved, 900 * page_bytes(), 200 * page_bytes());
    assert_eq!(
        taken.iter().map(|piece| (piece.start, piece.bytes)).collect::<Vec<_>>(),
        [(900 * page_bytes(), 100 * page_bytes())]
    );
    assert!(mappings.find(1000 * page_bytes()).is_some() && mappings.find(950 * page_bytes()).is_none());
}

#[test]
fn shmdt_takes_what_was_attached_together() {
    let mut mappings = Mappings::default();
    mappings.insert(Piece { kind: Kind::MapShared, ..piece(1, 9) });
    mappings.take(3 * page_bytes(), page_bytes());
    mappings.insert(Piece { alloc: 2, ..piece(3, 1) });
    let attached = mappings.begin_segment_release(page_bytes());
    mappings.finish_release(&attached);
    assert_eq!(mappings.mapped_bytes(), page_bytes());
}

#[test]
fn a_length_that_is_no_multiple_of_a_page_ends_where_the_kernel_ends_it() {
    let mut mappings = Mappings::default();
    mappings.insert(Piece { bytes: page_bytes() + 1, ..piece(1, 1) });
    assert!(mappings.find(2 * page_bytes() + 5).is_some());
    assert_eq!(mappings.take(page_bytes(), page_bytes() + 1).len(), 1);
    assert_eq!(mappings.mapped_bytes(), 0);
}
