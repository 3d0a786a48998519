//! Every second cell of a square, as an operator that memtrace sees: `memtrace -- shrink 2000`.

#![allow(clippy::print_stdout)] // a program, not the library

use memtrace_span::{Array, begin};

fn shrink(square: &[f64], side: usize) -> Vec<f64> {
    let half = side.div_ceil(2);
    let span = begin("shrink", &[Array::of("square", square, &[side, side])], &[("step", "2")]);
    let mut rows = Vec::with_capacity(half * side);
    square.chunks(side).step_by(2).for_each(|row| rows.extend_from_slice(row));
    let mut small = Vec::with_capacity(half * half);
    rows.chunks(side).for_each(|row| small.extend(row.iter().step_by(2)));
    drop(rows);
    span.end(&[Array::of("small", &small, &[half, half])]);
    small
}

fn main() {
    let side: usize = std::env::args().nth(1).and_then(|side| side.parse().ok()).unwrap_or(2000).max(1);
    let small = shrink(&vec![1.0; side * side], side);
    println!("{}", small.iter().sum::<f64>());
}
