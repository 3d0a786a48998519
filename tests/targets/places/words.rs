//! Counts words in generated text: strings in a hash map, then sorted.

use std::collections::HashMap;

fn text(lines: usize) -> Vec<String> {
    (0..lines).map(|line| format!("line {line} has the word w{} and w{}", line % 997, line * 31 % 4999)).collect()
}

fn count(lines: &[String]) -> HashMap<String, Vec<usize>> {
    let mut words: HashMap<String, Vec<usize>> = HashMap::new();
    for (number, line) in lines.iter().enumerate() {
        for word in line.split(' ') {
            words.entry(word.to_string()).or_default().push(number);
        }
    }
    words
}

fn main() {
    let lines = text(40_000);
    let words = count(&lines);
    let mut sorted: Vec<(&String, usize)> = words.iter().map(|(word, at)| (word, at.len())).collect();
    sorted.sort();
    println!("{} {}", sorted.len(), sorted[0].0);
}
