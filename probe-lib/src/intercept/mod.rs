//! The functions that the program calls: those of the C library and of C++ that the probe stands in
//! front of, and those that language bindings call by name.

mod collect;
mod device;
mod exec;
mod exit;
mod heap;
mod libraries;
mod main;
mod maps;
mod openmp;
pub mod operators;
mod prctl;
mod protect;
mod shared;
mod spans;
mod start;
mod tested;
mod threads;
pub mod touched;
