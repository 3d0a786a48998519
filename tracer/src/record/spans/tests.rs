use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::record::state::memory::Around;

/// A process in which nothing is.
pub struct Nothing;

impl Memory for Nothing {
    fn is_alive(&self, _: BlockKey) -> bool {
        false
    }

    fn around(&self, _: u64) -> Option<Around> {
        None
    }
}

/// Live blocks by address: stamp and bytes.
#[derive(Default)]
struct Heap(HashMap<u64, (u64, u64)>);

impl Memory for Heap {
    fn is_alive(&self, (address, alloc): BlockKey) -> bool {
        self.0.get(&address).is_some_and(|(stamp, _)| *stamp == alloc)
    }

    fn around(&self, address: u64) -> Option<Around> {
        let covers =
            |(start, (_, bytes)): &(&u64, &(u64, u64))| (**start..**start + *bytes).contains(&address);
        let (start, (stamp, bytes)) = self.0.iter().find(covers)?;
        Some(Around { key: (*start, *stamp), bytes: *bytes, is_heap: true })
    }
}

/// Spans of one process over a heap, and what happens in it.
#[derive(Default)]
struct World {
    spans: Spans,
    heap: Heap,
    owners: HashMap<u64, Option<u32>>,
    written: HashMap<u32, SpanRow>,
    now: u64,
}

impl World {
    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    fn begin(&mut self, thread: u32, id: u64, text: &str) -> u32 {
        let now = self.tick();
        self.spans.begin(0, thread, id, now, text.as_bytes())
    }

    /// Begins one in the context of the span with the id `within`.
    fn begin_in(&mut self, thread: u32, id: u64, within: u64) -> u32 {
        self.begin(thread, id, &format!(r#"{{"name":"s{id}","within":{within}}}"#))
    }

    fn end(&mut self, thread: u32, id: u64, text: &str) {
        let now = self.tick();
        self.spans.end((0, thread), id, now, text.as_bytes(), &self.heap);
    }

    fn allocate(&mut self, thread: u32, address: u64, bytes: u64) -> Option<u32> {
        let key = (address, self.tick());
        let block = Acquired { key, bytes, kind: Kind::Malloc, counts: true, site: None };
        let (span, _) = self.spans.acquired(thread, &block, |key| self.heap.is_alive(key));
        self.heap.0.insert(address, (key.1, bytes));
        self.owners.insert(address, span);
        span
    }

    fn free(&mut self, thread: u32, address: u64) {
        self.tick();
        let Some((stamp, bytes)) = self.heap.0.remove(&address) else { return };
        self.spans.released(thread, self.owners[&address], stamp, bytes);
    }

    /// Takes the rows that change no more.
    fn write(&mut self) {
        let next = || self.spans.next_settled(|stamp| stamp as i64, |_| 0);
        self.written.extend(std::iter::from_fn(next).map(|row| (row.span, row)));
    }

    fn row(&mut self, span: u32) -> SpanRow {
        self.write();
        let mut rows = self.spans.rows(|stamp| stamp as i64, |_| 0);
        self.written.get(&span).cloned().or_else(|| rows.find(|row| row.span == span)).unwrap()
    }

    fn around(&self, span: Option<u32>) -> impl Iterator<Item = u32> {
        self.spans.held.around(span)
    }

    fn runs(&self, span: u32) -> bool {
        self.spans.is_open(span)
    }
}

#[test]
fn coroutines_that_take_turns_do_not_nest() {
    let mut world = World::default();
    let a = world.begin_in(0, 1, 0);
    // The other coroutine goes on without an event, and begins one of its own.
    let b = world.begin_in(0, 2, 0);
    assert_eq!(world.row(b).parent, None);
    assert_eq!(world.allocate(0, 0x1000, 100), Some(b));
    world.spans.activate(0, 0, 1);
    assert_eq!(world.allocate(0, 0x2000, 10), Some(a));
    let inner = world.begin_in(0, 3, 1);
    world.end(0, 3, "");
    world.end(0, 1, "");
    assert_eq!(world.allocate(0, 0x3000, 1), None, "that context is in none any more");
    world.spans.activate(0, 0, 2);
    assert_eq!(world.allocate(0, 0x4000, 1), Some(b), "it still runs");
    world.end(0, 2, "");
    assert_eq!((world.row(inner).parent, world.row(b).parent), (Some(a), None));
    assert_eq!((world.row(a).working_peak_bytes, world.row(b).working_peak_bytes), (10, 101));
}

#[test]
fn a_task_that_goes_on_after_its_span_is_of_the_one_around_that() {
    let mut world = World::default();
    let outer = world.begin_in(0, 1, 0);
    let a = world.begin_in(0, 2, 1);
    world.spans.activate(0, 0, 2);
    let task = world.begin_in(0, 3, 2);
    world.spans.activate(0, 0, 2);
    world.end(0, 2, "");
    world.spans.activate(0, 0, 3);
    world.allocate(0, 0x1000, 7);
    world.end(0, 3, "");
    assert_eq!(world.allocate(0, 0x2000, 5), Some(outer));
    assert_eq!((world.row(task).parent, world.row(a).parent), (Some(a), Some(outer)));
    let peaks = [outer, a, task].map(|span| world.row(span).working_peak_bytes);
    assert_eq!(peaks, [12, 0, 7], "what came after its end is not of the span in between");
}

#[test]
fn native_spans_between_those_of_a_context_are_parents() {
    let mut world = World::default();
    world.begin_in(0, 1, 0);
    let native = world.begin(0, 2, r#"{"name":"native"}"#);
    let inner = world.begin_in(0, 3, 1);
    assert_eq!(world.row(inner).parent, Some(native));
    // An exception or a longjmp: neither end came.
    world.end(0, 1, "");
    assert!(world.row(native).end_ns.is_some(), "it ends with what is around it");
    assert!(world.row(inner).end_ns.is_none(), "it ends by itself");
}

#[test]
fn exported_work_counts_for_the_span_that_exported_it() {
    let mut world = World::default();
    let a = world.begin_in(0, 1, 0);
    world.spans.export(0, 0, 90);
    assert!(world.spans.leave_out(0, 1), "the other thread is in none while one runs");
    world.spans.adopt(0, 1, 90, true);
    assert_eq!(world.allocate(1, 0x1000, 50), Some(a));
    let child = world.begin_in(1, 2, 0);
    assert_eq!(world.row(child).parent, Some(a));
    world.end(1, 2, "");
    world.spans.adopt(0, 1, 0, true);
    assert_eq!(world.allocate(1, 0x2000, 60), None);
    world.spans.adopt(0, 1, 90, true);
    assert_eq!(world.allocate(1, 0x3000, 60), None, "it was taken for the last time");
    world.end(0, 1, "");
    assert_eq!(world.row(a).working_peak_bytes, 50);
    assert!(!world.spans.leave_out(0, 1));
}

#[test]
fn the_span_of_the_command_line_is_around_all_others() {
    let mut world = World::default();
    let whole = world.spans.begin_whole(0, 0, 0, "whole", ArrayInfo::default());
    world.spans.enter(0, whole);
    world.spans.enter(1, whole);
    world.spans.adopt(0, 1, 0, true);
    assert_eq!(world.allocate(1, 0x1000, 5), Some(whole));
    let a = world.begin_in(0, 1, 0);
    assert_eq!(world.row(a).parent, Some(whole));
    world.spans.activate(0, 0, 0);
    assert_eq!(world.allocate(0, 0x2000, 6), Some(whole));
    let b = world.begin_in(0, 2, 0);
    assert_eq!(world.row(b).parent, Some(whole));
}

#[test]
fn spans_leave_as_they_end_and_the_first_call_with_its_process() {
    let mut world = World::default();
    for id in 1..=10_000 {
        world.begin(0, id, r#"{"name":"f"}"#);
        world.allocate(0, id << 20, if id == 1 { 9000 } else { 5000 });
        world.end(0, id, "");
        world.write();
    }
    let whole: Vec<u32> = world.spans.rows(|_| 0, |_| 0).map(|row| row.span).collect();
    assert_eq!((whole, world.written.len()), (vec![0], 9999));
    world.spans.live_at_end(Some(0), 9000);
    world.spans.live_at_end(Some(7), 5000);
    assert_eq!(world.spans.take_live_at_end().into_iter().collect::<Vec<_>>(), [(7, 5000)]);
    assert_eq!(world.spans.process_ended(0).len(), 1);
    world.spans.process_left(0);
    let first = world.row(0);
    assert_eq!((first.one_time_bytes, first.live_bytes_at_end, first.call), (9000, 9000, 0));
    assert_eq!(world.spans.rows(|_| 0, |_| 0).count(), 0);
}

#[test]
fn the_own_end_of_a_span_is_waited_for_but_not_for_ever() {
    let mut world = World::default();
    let (first, inner) = (1, 2);
    world.begin(0, first, r#"{"name":"inner"}"#);
    world.end(0, first, "");
    for outer in 0..2000 {
        world.begin(0, 10 + 2 * outer, r#"{"name":"outer"}"#);
        let id = if outer == 0 { inner } else { 11 + 2 * outer };
        world.begin(0, id, r#"{"name":"inner"}"#);
        world.end(0, 10 + 2 * outer, "");
        if outer == 500 {
            let output = array("", 0, 64, "");
            world.end(0, inner, &format!(r#"{{"outputs":[{output}]}}"#));
        }
        world.write();
    }
    assert_eq!(world.row(2).output_bytes, 64, "its end came late");
    let whole = world.spans.rows(|_| 0, |_| 0).count();
    assert!((1000..1100).contains(&whole), "{whole} are waited for");
}

/// An array of bytes at an address, in JSON.
fn array(name: &str, address: u64, bytes: u64, more: &str) -> String {
    format!(r#"{{"name":"{name}","shape":[{bytes}],"dtype":"|u1","layout":"C","address":{address}{more}}}"#)
}

/// The relations of outputs in a span with one input, `x`: a block of 8192 bytes at 0x10000 that
/// was there before.
fn relations(contextual: bool, outputs: &[String]) -> (SpanRow, Vec<String>) {
    let mut world = World::default();
    world.allocate(0, 0x10000, 8192);
    world.allocate(0, 0x20000, 8192);
    let within = if contextual { r#","within":0"# } else { "" };
    let x = array("x", 0x10000, 8192, "");
    let span = world.begin(0, 1, &format!(r#"{{"name":"f","inputs":[{x}]{within}}}"#));
    world.allocate(0, 0x30000, 8192);
    world.end(0, 1, &format!(r#"{{"outputs":[{}]}}"#, outputs.join(",")));
    let row = world.row(span);
    let relations = row.outputs.iter().map(|array| array.relation.clone()).collect();
    (row, relations)
}

#[test]
fn outputs_are_views_the_input_or_new() {
    let it = r#","relation":"in_place","of":"x""#;
    let (row, found) = relations(
        true,
        &[
            array("", 0x10000, 8192, it),
            array("", 0x10000, 8192, ""),
            array("", 0x11000, 16, it),
            array("", 0x30000, 8192, ""),
            array("", 0x30000, 8192, it),
            array("", 0x20000, 8192, ""),
            array("", 0x70000, 8192, ""),
            array("", 0, 8192, ""),
        ],
    );
    assert_eq!(found, ["in_place", "view", "view", "new", "new", "older", "", ""]);
    assert_eq!(row.outputs[2].of, "x");
    assert_eq!(row.outputs[4].of, "", "the object of the input was made anew");
    assert_eq!(row.pinned_bytes, Some(8192), "one block, whatever views there are of it");
    assert_eq!((row.kept_bytes, row.temporary_peak_bytes), (Some(8192), Some(0)));
}

#[test]
fn where_there_are_no_objects_the_same_form_is_the_same_array() {
    let (_, found) = relations(false, &[array("", 0x10000, 8192, ""), array("", 0x10000, 4096, "")]);
    assert_eq!(found, ["in_place", "view"]);
}

#[test]
fn memory_of_a_strided_array_is_where_it_says() {
    // The last element is the first in memory.
    let reversed = r#","start":65536,"extent":8192"#;
    let (row, found) = relations(true, &[array("", 0x11fff, 8192, reversed)]);
    assert_eq!((found[0].as_str(), row.pinned_bytes), ("view", Some(8192)));
}

#[derive(Debug, Clone)]
enum Step {
    Allocate(u32, u64, u64),
    Free(u32, u64),
    Begin(u32, u64),
    End(u32, u64),
    Switch(u32, u64),
    Export(u32, u64),
    Adopt(u32, u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (thread, id) = (0..3u32, 1..6u64);
    let step = prop_oneof![
        5 => (thread.clone(), 1..20u64, 1..20_000u64).prop_map(|(t, at, bytes)| Step::Allocate(t, at << 20, bytes)),
        4 => (thread.clone(), 1..20u64).prop_map(|(t, at)| Step::Free(t, at << 20)),
        2 => (thread.clone(), 0..6u64).prop_map(|(t, within)| Step::Begin(t, within)),
        2 => (thread.clone(), id.clone()).prop_map(|(t, id)| Step::End(t, id)),
        1 => (thread.clone(), 0..6u64).prop_map(|(t, id)| Step::Switch(t, id)),
        1 => (thread.clone(), 100..104u64).prop_map(|(t, token)| Step::Export(t, token)),
        1 => (thread, 100..104u64).prop_map(|(t, token)| Step::Adopt(t, token)),
    ];
    prop::collection::vec(step, 1..200)
}

/// The figures of a span, added up block by block; blocks by their stamps.
#[derive(Default, Clone)]
struct Model {
    live: HashMap<u64, u64>,
    peak: u64,
    at_peak: HashMap<u64, u64>,
    temporaries: u64,
}

proptest! {
    /// However threads and contexts go from span to span, and although spans leave memory: each block
    /// counts for the span it is in by its row and those around that run, for no others, and figures of
    /// spans are what their blocks add up to.
    #[test]
    fn figures_are_sums_over_blocks(steps in steps()) {
        let mut world = World::default();
        let mut models: Vec<Model> = Vec::new();
        let mut next = 0;
        for step in steps {
            match step {
                Step::Allocate(thread, address, bytes) if !world.heap.0.contains_key(&address) => {
                    let span = world.allocate(thread, address, bytes);
                    prop_assert!(span.is_none_or(|span| world.runs(span)));
                    let around: Vec<u32> = world.around(span).filter(|span| world.runs(*span)).collect();
                    for span in around {
                        let model = &mut models[span as usize];
                        model.live.insert(world.now, bytes);
                        let live = model.live.values().sum();
                        if live > model.peak {
                            (model.peak, model.at_peak) = (live, model.live.clone());
                        }
                    }
                }
                Step::Allocate(..) => {}
                Step::Free(thread, address) => {
                    let stamp = world.heap.0.get(&address).map_or(0, |(stamp, _)| *stamp);
                    world.free(thread, address);
                    let running = models.iter_mut().enumerate().filter(|(span, _)| world.runs(*span as u32));
                    for (_, model) in running {
                        model.temporaries += u64::from(model.live.remove(&stamp).is_some());
                    }
                }
                Step::Begin(thread, within) => {
                    next = next % 5 + 1;
                    let span = world.begin_in(thread, next, within);
                    prop_assert!(world.row(span).parent.is_none_or(|parent| parent < span && world.runs(parent)));
                    models.push(Model::default());
                }
                Step::End(thread, id) => world.end(thread, id, ""),
                Step::Switch(thread, id) => world.spans.activate(0, thread, id),
                Step::Export(thread, token) => world.spans.export(0, thread, token),
                Step::Adopt(thread, token) => world.spans.adopt(0, thread, token, token % 2 == 0),
            }
            world.write();
            let live = world.heap.0.keys().filter_map(|address| world.owners[address]);
            world.spans.keep_only(live.collect());
        }
        for (span, model) in models.iter().enumerate() {
            let row = world.row(span as u32);
            prop_assert_eq!(row.working_peak_bytes, model.peak);
            prop_assert_eq!(row.temporaries, model.temporaries);
            if row.end_ns.is_some() {
                prop_assert_eq!(row.kept_bytes, Some(model.live.values().sum()));
                let large = |(block, bytes): (&u64, &u64)| {
                    let stayed = model.live.contains_key(block);
                    if stayed || *bytes < span::LEFTOVER_MIN { 0 } else { *bytes }
                };
                let least: u64 = model.at_peak.iter().map(large).sum();
                let small: u64 = model.at_peak.values().filter(|bytes| **bytes < span::LEFTOVER_MIN).sum();
                let temporary = row.temporary_peak_bytes.unwrap_or(u64::MAX);
                prop_assert!(least <= temporary && temporary <= least + small, "{least} {temporary} {small}");
            }
        }
    }
}
