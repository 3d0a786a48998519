//! Processes as /proc and the control groups show them.

pub mod cgroup;
pub mod environment;
pub mod executable;
pub mod image_memory;
pub mod limits;
pub mod maps;
pub mod modules;
pub mod resident;
pub mod status;
pub mod whereabouts;
