//! A Rust program: boxes, vectors that grow, threads.
fn main() {
    let mut grown: Vec<u64> = Vec::new();
    for n in 0..300_000 {
        grown.push(n);
    }
    let sums: Vec<_> = (0..4u64)
        .map(|seed| std::thread::spawn(move || vec![seed; 50_000].iter().sum::<u64>()))
        .map(|thread| thread.join().expect("the thread only adds"))
        .collect();
    println!("{} {:?}", grown.len(), sums);
    std::process::exit(9);
}
