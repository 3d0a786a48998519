//! A quadtree of boxed nodes with points in each leaf, built by two threads.

use std::sync::{Arc, Mutex};

#[derive(Default)]
struct Node {
    points: Vec<[f64; 2]>,
    children: Option<Box<[Node; 4]>>,
}

impl Node {
    fn insert(&mut self, point: [f64; 2], depth: usize) {
        if let Some(children) = &mut self.children {
            let quarter = usize::from(point[0] >= 0.5) + 2 * usize::from(point[1] >= 0.5);
            let inside = point.map(|x| (x * 2.0).fract());
            return children[quarter].insert(inside, depth + 1);
        }
        self.points.push(point);
        if self.points.len() > 16 && depth < 20 {
            self.children = Some(Box::default());
            for point in std::mem::take(&mut self.points) {
                self.insert(point, depth);
            }
        }
    }
}

fn main() {
    let tree = Arc::new(Mutex::new(Node::default()));
    let threads: Vec<_> = (0..2u64)
        .map(|thread| {
            let tree = Arc::clone(&tree);
            std::thread::spawn(move || {
                let mut state = 1 + thread;
                for _ in 0..40_000 {
                    let mut next = || {
                        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                        (state >> 11) as f64 / (1u64 << 53) as f64
                    };
                    let point = [next(), next()];
                    tree.lock().unwrap().insert(point, 0);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    println!("{}", tree.lock().unwrap().children.is_some());
}
