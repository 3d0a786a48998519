//! The JSON of a graph, read with suspicion.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde_json::Value;

use super::array::{Array, Output};
use super::error::Error;
use super::view::Cut;
use super::{Executor, GRAPH_VERSION, Graph, Input, Node, Retention, Work};

/// More steps than this are refused: a plan of them would take minutes.
const MOST_STEPS: usize = 2_000_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(rename = "version")]
    _version: u64,
    #[serde(default)]
    sources: BTreeMap<String, Source>,
    steps: Vec<Step>,
    results: Option<Vec<String>>,
    executor: Option<Executor>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    shape: Vec<u64>,
    dtype: String,
    #[serde(default)]
    retained: Retention,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    name: String,
    #[serde(default)]
    inputs: Vec<String>,
    operator: Option<String>,
    dtype: Option<String>,
    #[serde(default)]
    params: BTreeMap<String, Value>,
    bytes: Option<Bytes>,
    output: Option<Output>,
    slice: Option<Vec<Cut>>,
    join: Option<Vec<u64>>,
    steps: Option<Vec<Step>>,
    #[serde(default)]
    halo: Vec<u64>,
    #[serde(default)]
    padded: bool,
    #[serde(default)]
    whole_axes: Vec<usize>,
}

/// What an operator without a law allocates at its peak, its output included.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Bytes {
    #[serde(default)]
    fixed: u64,
    #[serde(default)]
    per_element: f64,
    #[serde(default)]
    seconds_per_element: f64,
}

impl Graph {
    /// Reads a graph from JSON text (docs/planning.md has the format).
    ///
    /// # Errors
    /// [`Error::Graph`]: it is none, of a later version, or names what it does not have.
    pub fn parse(text: &str) -> Result<Graph, Error> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| wrong(format!("it is no JSON: {error}")))?;
        let version = value.get("version").and_then(Value::as_u64);
        let version =
            version.ok_or_else(|| wrong("it has no version: this memtrace reads version 1".into()))?;
        if version != GRAPH_VERSION {
            return Err(wrong(format!(
                "it has version {version}, this memtrace reads version {GRAPH_VERSION}"
            )));
        }
        let document: Document = serde_json::from_value(value).map_err(|error| wrong(error.to_string()))?;
        let mut outermost = Builder::default();
        for (name, Source { shape, dtype, retained }) in document.sources {
            let array = Array { shape, dtype }.checked()?;
            outermost.sources.insert(name.clone(), node(name, Work::Source(retained), array.into()));
        }
        let mut reader = Reader { around: Vec::new(), inside: outermost };
        document.steps.into_iter().try_for_each(|step| reader.step(step))?;
        let results = match document.results {
            Some(names) => {
                let mut known = |name: &String| Ok(reader.input(0, name)?.node);
                names.iter().map(&mut known).collect::<Result<_, Error>>()?
            }
            None => unused(&reader.inside.nodes),
        };
        Ok(Graph { nodes: reader.inside.nodes, results, executor: document.executor })
    }
}

/// Nodes that no other takes in.
fn unused(nodes: &[Node]) -> Vec<usize> {
    let mut used = vec![false; nodes.len()];
    nodes.iter().flat_map(|node| &node.inputs).for_each(|input| used[input.node] = true);
    (0..nodes.len()).filter(|&node| !used[node]).collect()
}

fn node(name: String, work: Work, output: Output) -> Node {
    Node { name, work, inputs: Vec::new(), output, halo: Vec::new(), padded: false, whole_axes: Vec::new() }
}

/// The nodes read so far. Sources become nodes where they are first used: there they are loaded.
#[derive(Default)]
struct Builder {
    nodes: Vec<Node>,
    names: HashMap<String, usize>,
    sources: BTreeMap<String, Node>,
    /// Of a fused step: which array of the graph around it each of its arguments is.
    arguments: Vec<Input>,
}

impl Builder {
    fn add(&mut self, node: Node) -> Result<usize, Error> {
        let index = self.nodes.len();
        if index >= MOST_STEPS {
            return Err(wrong(format!("it has more than {MOST_STEPS} steps")));
        }
        if self.sources.contains_key(&node.name) || self.names.insert(node.name.clone(), index).is_some() {
            return Err(wrong(format!("two things in it are called {}", node.name)));
        }
        self.nodes.push(node);
        Ok(index)
    }

    fn known(&mut self, name: &str) -> Result<Option<Input>, Error> {
        if let Some(source) = self.sources.remove(name) {
            return self.add(source).map(|node| Some(Input { node, output: 0 }));
        }
        if let Some(&node) = self.names.get(name) {
            return Ok(Some(Input { node, output: 0 }));
        }
        let indexed = name.strip_suffix(']').and_then(|rest| rest.rsplit_once('['));
        let Some((step, output)) = indexed.and_then(|(step, at)| Some((step, at.parse().ok()?))) else {
            return Ok(None);
        };
        Ok(self.names.get(step).map(|&node| Input { node, output }))
    }
}

/// The graph that is being read, and those that it is inside of as a fused step.
struct Reader {
    around: Vec<Builder>,
    inside: Builder,
}

impl Reader {
    fn step(&mut self, step: Step) -> Result<(), Error> {
        let name = step.name.clone();
        let node = self.node(step).map_err(|error| of_step(&name, error))?;
        self.inside.add(node).map(|_| ())
    }

    fn node(&mut self, step: Step) -> Result<Node, Error> {
        let inputs = step.inputs.iter().map(|name| self.input(0, name));
        let mut inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        let output = step.output.unwrap_or_default().checked()?;
        let (dtype, params) = (step.dtype, step.params);
        let work = match (step.operator, step.bytes, step.slice, step.join, step.steps) {
            (Some(operator), None, None, None, None) => Work::Law { operator, dtype, params },
            (operator, Some(bytes), None, None, None) => {
                let work = given(operator.unwrap_or_else(|| step.name.clone()), &bytes);
                work.ok_or_else(|| wrong("its bytes must be numbers of 0 or more".into()))?
            }
            (None, None, Some(cuts), None, None) => Work::View(cuts),
            (None, None, None, Some(counts), None) => Work::Join(counts),
            (None, None, None, None, Some(steps)) => {
                let (inside, arguments) = self.fused(steps)?;
                inputs = arguments;
                Work::Fused(Box::new(inside))
            }
            _ => {
                let what = "it needs an operator or bytes, a slice, a join, or steps, and only one of them";
                return Err(wrong(what.into()));
            }
        };
        let Step { name, halo, padded, whole_axes, .. } = step;
        Ok(Node { name, work, inputs, output, halo, padded, whole_axes })
    }

    /// The graph inside a fused step, whose value is that of its last step, and what goes into it.
    fn fused(&mut self, steps: Vec<Step>) -> Result<(Graph, Vec<Input>), Error> {
        self.around.push(std::mem::take(&mut self.inside));
        let read = steps.into_iter().try_for_each(|step| self.step(step));
        let inside = match self.around.pop() {
            Some(around) => std::mem::replace(&mut self.inside, around),
            None => Builder::default(),
        };
        read?;
        let last = inside.nodes.len().checked_sub(1);
        let last = last.ok_or_else(|| wrong("a fused step needs steps in it".into()))?;
        Ok((Graph { nodes: inside.nodes, results: vec![last], executor: None }, inside.arguments))
    }

    /// The array called `name` in the graph that is `up` graphs around the innermost; one that
    /// comes from further out becomes an argument of each in between.
    fn input(&mut self, up: usize, name: &str) -> Result<Input, Error> {
        if let Some(input) = self.graph(up).known(name)? {
            return Ok(input);
        }
        if up == self.around.len() {
            return Err(wrong(format!("{name} is used before any step or source of that name")));
        }
        let outer = self.input(up + 1, name)?;
        let graph = self.graph(up);
        graph.arguments.push(outer);
        let argument = Work::Argument(graph.arguments.len() - 1);
        graph.add(node(name.to_owned(), argument, Output::default())).map(|node| Input { node, output: 0 })
    }

    fn graph(&mut self, up: usize) -> &mut Builder {
        let place = self.around.len().wrapping_sub(up);
        self.around.get_mut(place).unwrap_or(&mut self.inside)
    }
}

fn given(operator: String, bytes: &Bytes) -> Option<Work> {
    let plain = |number: f64| number.is_finite() && number >= 0.0;
    let Bytes { fixed, per_element, seconds_per_element } = *bytes;
    (plain(per_element) && plain(seconds_per_element)).then_some(Work::Given {
        operator,
        fixed,
        per_element,
        seconds_per_element,
    })
}

fn of_step(step: &str, error: Error) -> Error {
    match error {
        Error::Graph(what) => wrong(format!("step {step}: {what}")),
        other => other,
    }
}

fn wrong(what: String) -> Error {
    Error::Graph(what)
}
