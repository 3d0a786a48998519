//! Large blocks in Rust, in a method, a generic function and a thread.

use std::hint::black_box;

struct Store(Vec<Vec<u8>>);

impl Store {
    #[inline(never)]
    fn keep(&mut self, bytes: usize) {
        self.0.push(Vec::with_capacity(bytes));
        black_box(self);
    }
}

#[inline(never)]
fn twice<T: Fn(usize)>(work: T) {
    work(500_003);
    black_box(&work);
}

fn main() {
    let mut store = Store(Vec::new());
    store.keep(500_001);
    twice(|bytes| drop(black_box(vec![0u8; bytes])));
    let thread = std::thread::spawn(|| {
        let mut store = Store(Vec::new());
        store.keep(500_005);
    });
    thread.join().unwrap();
    black_box(store);
}
