//! What a run says of its objects, whatever they gain: how many blocks they have, and when.

use std::collections::HashMap;

use super::object::Object;
use super::observed::Block;
use super::search::Traits;

/// Of each object, from all blocks in the order of their allocation, of a run that ended then.
pub fn traits(objects: &[Object], blocks: &[Block], end: i64) -> Vec<Traits> {
    let begin = blocks.first().map_or(0, |block| block.alloc_ns);
    let end = end.max(blocks.last().map_or(begin, |block| block.alloc_ns));
    let share = |ns: i64| (ns - begin) as f64 / (end - begin).max(1) as f64;
    let mut kinds: HashMap<_, u64> = HashMap::new();
    objects.iter().for_each(|object| *kinds.entry((object.site, object.bytes)).or_default() += 1);
    let lives = lives(objects, blocks, end);
    let of = |(object, life): (&Object, Life)| Traits {
        blocks: object.blocks,
        siblings: kinds[&(object.site, object.bytes)],
        begin: share(life.begin),
        end: share(life.end),
        live: life.live as f64 / (end - begin).max(1) as f64,
        reuse_bytes: life.between as f64 / object.blocks.saturating_sub(1).max(1) as f64,
        time_share: Some(object.time_share),
    };
    objects.iter().zip(lives).map(of).collect()
}

/// An object's blocks, one after the other.
#[derive(Clone, Copy)]
struct Life {
    begin: i64,
    end: i64,
    /// How long it is live.
    live: i64,
    /// Bytes of others that are allocated between its blocks, all together.
    between: u64,
    /// Bytes that had been allocated with its last block.
    allocated: Option<u64>,
}

fn lives(objects: &[Object], blocks: &[Block], end: i64) -> Vec<Life> {
    let unborn = Life { begin: i64::MAX, end: i64::MIN, live: 0, between: 0, allocated: None };
    let mut lives = vec![unborn; objects.len()];
    let mut allocated = 0u64;
    for block in blocks {
        let life = &mut lives[block.object];
        life.between += life.allocated.map_or(0, |before| allocated - before);
        allocated = allocated.saturating_add(objects[block.object].bytes);
        let released = block.free_ns.unwrap_or(end).min(end);
        life.begin = life.begin.min(block.alloc_ns);
        life.end = life.end.max(released);
        life.live += released - block.alloc_ns;
        life.allocated = Some(allocated);
    }
    lives
}
