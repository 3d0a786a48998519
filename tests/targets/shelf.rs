//! A large block in a generic method, for either way in which Rust mangles names.

use std::hint::black_box;

struct Shelf<T>(Vec<T>);

impl<T: Clone> Shelf<T> {
    #[inline(never)]
    fn fill(&mut self, value: T, length: usize) {
        self.0.reserve_exact(length);
        self.0.push(black_box(value));
        black_box(self.0.as_ptr());
    }
}

fn main() {
    let mut shelf = Shelf(Vec::new());
    shelf.fill(0u8, 500_003);
    black_box(shelf.0.len());
}
