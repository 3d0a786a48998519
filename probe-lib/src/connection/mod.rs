//! The connection to the tracer: made once per process image, and inherited and
//! passed on by environments.

mod connect;
mod environment;
pub mod executable;
pub mod hooks;
pub mod preload;
pub mod process;
mod segments;
