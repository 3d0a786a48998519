//! Searches for placements, for `scripts/experiments placement search` and `policy`. Instances and
//! answers are lines of JSON on standard input and output.
//!
//!     placement_search instance DIR             what place learn has left in DIR, without a capacity
//!     placement_search train SEED               the weights of a network trained on instances
//!     placement_search HOW SEED [WEIGHTS]       of each instance the choice of a search or a baseline
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::fs;
use std::io::stdin;
use std::path::Path;
use std::time::Instant;

use memtrace_analysis::placement::Learned;
use memtrace_analysis::placement::search::{Baseline, Instance, Network, Search, best_of_random, evolved};
use memtrace_trace::Trace;
use serde::de::IntoDeserializer;
use serde::de::value::Error as NameError;
use serde::{Deserialize, Serialize};

const EVALUATIONS: usize = 300;

type Failure = Box<dyn Error>;

/// A choice, and how long it took.
#[derive(Serialize)]
struct Answer {
    fast: Vec<bool>,
    gain: f64,
    /// What no choice exceeds, if the search says it.
    bound: Option<f64>,
    seconds: f64,
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["instance", directory] => print(&learned(Path::new(directory))?.instance(0)),
        ["train", seed] => {
            let instances = instances().collect::<Result<Vec<_>, _>>()?;
            print(&Network::trained(&instances, seed.parse()?))
        }
        [how, seed, weights @ ..] => {
            let network = match weights.first() {
                Some(path) => serde_json::from_str(&fs::read_to_string(path)?)?,
                None => Network::stored(),
            };
            instances().try_for_each(|instance| print(&answer(how, seed.parse()?, &network, &instance?)?))
        }
        _ => Err("usage: placement_search instance DIR | train SEED | HOW SEED [WEIGHTS]".into()),
    }
}

fn learned(directory: &Path) -> Result<Learned, Failure> {
    let open = |name| Trace::open(directory.join(name));
    Ok(Learned::of(&open("slow")?, None, &open("fast")?)?)
}

fn instances() -> impl Iterator<Item = Result<Instance, Failure>> {
    stdin().lines().map(|line| Ok(serde_json::from_str(&line?)?))
}

fn answer(how: &str, seed: u64, network: &Network, instance: &Instance) -> Result<Answer, Failure> {
    let begin = Instant::now();
    let mut bound = None;
    let fast = match named::<Search>(how) {
        Ok(Search::Evolve) => evolved(instance, EVALUATIONS, seed),
        Ok(Search::Random) => best_of_random(instance, EVALUATIONS, seed),
        Ok(Search::Policy) => network.choice(instance),
        Ok(Search::Exact) => {
            let choice = Search::Exact.choice(instance);
            bound = Some(choice.bound);
            choice.fast
        }
        Err(_) if how == "one-random" => Baseline::Random.choice(instance, seed),
        Err(_) => named::<Baseline>(how)?.choice(instance, seed),
    };
    Ok(Answer { gain: instance.gain(&fast), fast, bound, seconds: begin.elapsed().as_secs_f64() })
}

fn named<'de, T: Deserialize<'de>>(name: &'de str) -> Result<T, NameError> {
    T::deserialize(name.into_deserializer())
}

fn print<T: Serialize>(answer: &T) -> Result<(), Failure> {
    println!("{}", serde_json::to_string(answer)?);
    Ok(())
}
