//! Walks a described program at given shapes: every value has a shape, no element is computed.
//!
//! Constraints: never panics, whatever the description says; a path ends after [`MAX_STEPS`]. A
//! condition that is not known is taken one way per path, the same at each visit; [`super::bound`]
//! tries the ways.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::call::Named;
use super::library::Library;
use super::source::{Function, Leave, Line, Source, Statement};
use super::value::{MAX_WORK, Meter, Place, Value, take_work};
use crate::error::Error;

/// Most expressions evaluated on one path.
const MAX_STEPS: u64 = 150_000;
/// What a step counts for.
const STEP: u64 = 16;
/// Calls inside of calls.
const MAX_DEPTH: usize = 40;

/// A condition that the text does not decide: function and line.
pub type Site = (Rc<str>, u32);
/// Variables of a function that runs.
pub type Frame = BTreeMap<String, Value>;

/// Control statements met on a path.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Control {
    /// Conditions that the shapes and parameters decide.
    pub decided: usize,
    /// Conditions on data.
    pub undecided: usize,
    /// Loops of a known number of repetitions.
    pub loops: usize,
    /// Loops that end when the data says so.
    pub open_loops: usize,
    /// Ways out of the middle of a loop.
    pub exits: usize,
}

/// What comes after a statement.
pub(super) enum Flow {
    Next,
    Break,
    Continue,
    Return(Value),
    Raise,
}

/// The walk along one path.
pub struct Machine<'a> {
    pub(super) source: &'a Source,
    pub(super) library: &'a Library,
    pub(super) meter: Rc<Meter>,
    /// Longest axis of the inputs: the length of what has an unknown one.
    pub(super) longest: u64,
    /// What was not known, in sentences.
    pub unknown: BTreeSet<String>,
    /// Undecided conditions in the order they were met, and which way they were taken.
    pub met: Vec<(Site, bool)>,
    decisions: BTreeMap<Site, bool>,
    pub(super) control: BTreeMap<Site, fn(&mut Control)>,
    stack: Vec<Rc<str>>,
    steps: u64,
    /// Items of lists that were looked at or copied.
    pub(super) work: u64,
    raised: bool,
}

impl<'a> Machine<'a> {
    /// A walk that takes undecided conditions as `decisions` say, else as true.
    pub fn new(
        source: &'a Source,
        library: &'a Library,
        meter: Rc<Meter>,
        longest: u64,
        decisions: &[(Site, bool)],
    ) -> Machine<'a> {
        Machine {
            source,
            library,
            meter,
            longest,
            unknown: BTreeSet::new(),
            met: Vec::new(),
            decisions: decisions.iter().cloned().collect(),
            control: BTreeMap::new(),
            stack: Vec::new(),
            steps: 0,
            work: 0,
            raised: false,
        }
    }

    /// Control statements met.
    pub fn control(&self) -> Control {
        let mut control = Control::default();
        self.control.values().for_each(|count| count(&mut control));
        control
    }

    pub(super) fn place(&self, what: &str, line: u32) -> Place {
        let function = self.stack.last().and_then(|name| self.source.functions.get(&**name));
        let file = function.map_or("", |function| function.file.as_str());
        let file = file.rsplit('/').next().unwrap_or_default();
        let at = if line == 0 { file.to_owned() } else { format!("{file}:{line}") };
        Place { what: what.into(), at: at.into() }
    }

    pub(super) fn note(&mut self, what: &str, line: u32) {
        let place = self.place(what, line);
        self.unknown.insert(format!("{} ({})", place.what, place.at));
    }

    pub(super) fn step(&mut self) -> Result<(), Error> {
        self.steps += 1;
        self.work += STEP;
        self.end_if_long();
        Ok(())
    }

    /// Ends the path if too much was done on it.
    pub(super) fn end_if_long(&mut self) {
        self.work += take_work();
        if (self.steps > MAX_STEPS || self.work > MAX_WORK) && !self.raised {
            self.note("what comes after very many steps", 0);
            self.raise();
        }
    }

    pub(super) fn site(&self, line: u32) -> Site {
        (self.stack.last().cloned().unwrap_or_default(), line)
    }

    /// Which way a condition goes; undecided ones as this path has it.
    pub(super) fn decide(&mut self, test: &Value, line: u32) -> bool {
        let site = self.site(line);
        if let Some(truth) = test.truth() {
            self.control.entry(site).or_insert(|control| control.decided += 1);
            return truth;
        }
        self.control.insert(site.clone(), |control| control.undecided += 1);
        if let Some(way) = self.met.iter().find(|(met, _)| *met == site).map(|(_, way)| *way) {
            self.note("a condition on data that is met again", line);
            return way;
        }
        let way = self.decisions.get(&site).copied().unwrap_or(true);
        self.met.push((site, way));
        way
    }

    /// Calls a function of the source: its variables go when it returns.
    pub(super) fn enter(
        &mut self,
        name: &Rc<str>,
        function: &'a Function,
        mut frame: Frame,
    ) -> Result<Value, Error> {
        if self.stack.len() >= MAX_DEPTH {
            self.note(&format!("{name}, which calls itself"), 0);
            return Ok(Value::Unknown(frame.values().flat_map(Value::blocks).collect()));
        }
        self.stack.push(Rc::clone(name));
        let flow = self.run(&function.body, &mut frame);
        self.stack.pop();
        Ok(match flow? {
            Flow::Return(value) => value,
            _ => Value::Nothing,
        })
    }

    /// A call that a call makes: of what `partial` and `map` were given.
    pub(super) fn call_inside(
        &mut self,
        function: Value,
        args: Vec<Value>,
        named: Named,
        line: u32,
    ) -> Result<Value, Error> {
        let name = self.stack.last().cloned().unwrap_or_default();
        if self.stack.len() >= MAX_DEPTH {
            self.note(&format!("{name}, whose calls call others very deep"), 0);
            let held = args.iter().chain(named.values()).chain([&function]);
            return Ok(Value::Unknown(held.flat_map(Value::blocks).collect()));
        }
        self.stack.push(name);
        let result = self.call(function, args, named, line);
        self.stack.pop();
        result
    }

    pub(super) fn run(&mut self, lines: &'a [Line], frame: &mut Frame) -> Result<Flow, Error> {
        for line in lines {
            match self.statement(line, frame)? {
                Flow::Next => {}
                other => return Ok(other),
            }
        }
        Ok(Flow::Next)
    }

    fn statement(&mut self, line: &'a Line, frame: &mut Frame) -> Result<Flow, Error> {
        self.step()?;
        match &line.statement {
            Statement::Assign { targets, value } => {
                let value = self.value(value, frame)?;
                if self.raised() {
                    return Ok(Flow::Raise);
                }
                let last = targets.len().saturating_sub(1);
                for target in targets.iter().take(last) {
                    self.assign(target, value.clone(), frame)?;
                }
                if let Some(target) = targets.last() {
                    self.assign(target, value, frame)?; // moved: no other name refers to it
                }
            }
            Statement::Update { target, operator, value } => {
                self.update(target, operator, value, frame, line.line)?;
            }
            Statement::Evaluate(expression) => drop(self.value(expression, frame)?),
            Statement::Return(None) => return Ok(Flow::Return(Value::Nothing)),
            Statement::Return(Some(expression)) => {
                let value = self.value(expression, frame)?;
                return Ok(if self.raised() { Flow::Raise } else { Flow::Return(value) });
            }
            Statement::If { test, then, otherwise } => {
                let test = self.value(test, frame)?;
                let arm = if self.decide(&test, line.line) { then } else { otherwise };
                drop(test);
                return self.run(arm, frame);
            }
            Statement::For { target, over, body } => {
                return self.repeat(line.line, target, over, body, frame);
            }
            Statement::While { test, body } => return self.repeat_while(line.line, test, body, frame),
            Statement::Leave(Leave::Raise) => {
                self.raise();
            }
            Statement::Leave(leave) => {
                let site = self.site(line.line);
                self.control.insert(site, |control| control.exits += 1);
                return Ok(if *leave == Leave::Break { Flow::Break } else { Flow::Continue });
            }
            Statement::Release(names) => {
                for name in names {
                    frame.remove(name);
                }
            }
        }
        Ok(if self.raised() { Flow::Raise } else { Flow::Next })
    }

    /// This path is at its end.
    pub(super) fn raise(&mut self) {
        self.raised = true;
    }

    pub(super) fn raised(&self) -> bool {
        self.raised
    }
}
