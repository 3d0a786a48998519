//! What one process has: heap blocks, mappings, memory of devices, and what is known of its
//! garbage.

pub mod blocks;
pub mod curve;
pub mod devices;
pub mod footprint;
pub mod garbage;
pub mod heap;
pub mod in_flight;
pub mod large;
pub mod late;
pub mod mappings;
pub mod memory;
pub mod pages;
pub mod pairing;
pub mod placed;
pub mod process;
pub mod processes;
pub mod recent;
pub mod residency;
pub mod shared;
pub mod sparse;
pub mod sums;
pub mod threads;
