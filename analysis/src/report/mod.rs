//! What a trace says: peaks by operator, call stack, device and stretch of time; no law is needed
//! for it.

pub mod accesses;
pub mod clock;
pub mod composition;
pub mod data_dependence;
pub mod devices;
pub mod diff;
pub mod document;
pub mod export;
mod figures;
pub mod flame;
pub mod fold;
pub mod histograms;
pub mod json;
pub mod leaks;
pub mod operators;
pub mod page;
pub mod recompute;
mod refused;
pub mod resident;
pub mod several;
pub mod shapes;
mod short_name;
pub mod sites;
pub mod window;
