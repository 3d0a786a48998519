//! The frontier of any graph of tasks: runs them as an executor would and keeps the live sum.
//!
//! [`crate::plan`] walks the one graph that `map_overlap` makes, in a form that is quick enough to
//! be tried for thousands of grids; this one takes the tasks one by one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Executor;

/// A task, the smaller its index the earlier it is listed.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Task {
    /// Tasks whose values it takes in: listed before it, none of them twice.
    pub(super) needs: Vec<usize>,
    /// Its value is a view of those it needs: they stay as long as it does.
    pub(super) pins: bool,
    /// The value is kept until the end.
    pub(super) kept: bool,
    /// Bytes it allocates at its peak, its value among them.
    pub(super) working: u64,
    /// The most they can be.
    pub(super) upper: u64,
    /// Bytes of its value.
    pub(super) left: u64,
    /// The most they can be.
    pub(super) left_upper: u64,
    /// How long it runs.
    pub(super) seconds: f64,
}

/// What was live when a task had begun: the live sum rises at no other moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Start {
    pub(super) task: usize,
    pub(super) seconds: f64,
    /// Bytes of finished values.
    pub(super) retained: u64,
    /// The same at their upper bounds.
    pub(super) retained_upper: u64,
    /// Working bytes of all tasks that run.
    pub(super) running: u64,
    /// The same at their upper bounds.
    pub(super) running_upper: u64,
}

impl Task {
    /// One that makes an array and nothing else, of exactly `bytes`.
    pub(super) fn making(bytes: u64) -> Task {
        Task { working: bytes, upper: bytes, left: bytes, left_upper: bytes, ..Task::default() }
    }
}

impl Start {
    pub(super) fn bytes(&self) -> u64 {
        self.retained.saturating_add(self.running)
    }

    pub(super) fn upper(&self) -> u64 {
        self.retained_upper.saturating_add(self.running_upper)
    }
}

/// Runs all tasks, up to the `last`-th start if that is given; what is live then can be read.
pub(super) fn walk(tasks: &[Task], executor: Executor, last: Option<usize>) -> Walk<'_> {
    let mut walk = Walk::new(tasks, executor);
    walk.run(last.map_or(usize::MAX, |last| last.saturating_add(1)));
    walk
}

/// A run of tasks, as far as it has come.
pub(super) struct Walk<'a> {
    tasks: &'a [Task],
    executor: Executor,
    /// Who takes in each task's value.
    users: Vec<Vec<usize>>,
    waits_for: Vec<usize>,
    uses_left: Vec<usize>,
    /// Tasks whose values are there.
    alive: Vec<bool>,
    ready: Ready,
    running: BinaryHeap<Reverse<Ending>>,
    pub(super) starts: Vec<Start>,
    seconds: f64,
    retained: u64,
    retained_upper: u64,
    working: u64,
    upper: u64,
}

impl<'a> Walk<'a> {
    fn new(tasks: &'a [Task], executor: Executor) -> Self {
        let mut users = vec![Vec::new(); tasks.len()];
        for (index, task) in tasks.iter().enumerate() {
            task.needs.iter().for_each(|&need| users[need].push(index));
        }
        let uses = |(task, users): (&Task, &Vec<usize>)| users.len() + usize::from(task.kept);
        let mut walk = Walk {
            executor,
            waits_for: tasks.iter().map(|task| task.needs.len()).collect(),
            uses_left: tasks.iter().zip(&users).map(uses).collect(),
            alive: vec![false; tasks.len()],
            ready: Ready::of(executor),
            running: BinaryHeap::new(),
            starts: Vec::with_capacity(tasks.len()),
            seconds: 0.0,
            retained: 0,
            retained_upper: 0,
            working: 0,
            upper: 0,
            users,
            tasks,
        };
        for task in (0..tasks.len()).rev().filter(|&task| tasks[task].needs.is_empty()) {
            walk.ready.push(task);
        }
        walk
    }

    fn run(&mut self, starts: usize) {
        loop {
            while (self.running.len() as u64) < self.executor.threads() {
                let Some(task) = self.ready.pop() else { break };
                self.start(task);
                if self.starts.len() >= starts {
                    return;
                }
            }
            let Some(Reverse(ending)) = self.running.pop() else { return };
            self.seconds = ending.seconds;
            self.finish(ending.task);
        }
    }

    fn start(&mut self, index: usize) {
        let task = &self.tasks[index];
        self.working = self.working.saturating_add(task.working);
        self.upper = self.upper.saturating_add(task.upper);
        self.starts.push(Start {
            task: index,
            seconds: self.seconds,
            retained: self.retained,
            retained_upper: self.retained_upper,
            running: self.working,
            running_upper: self.upper,
        });
        let ending = Ending { seconds: self.seconds + task.seconds, order: self.starts.len(), task: index };
        self.running.push(Reverse(ending));
    }

    fn finish(&mut self, index: usize) {
        let task = &self.tasks[index];
        self.working = self.working.saturating_sub(task.working);
        self.upper = self.upper.saturating_sub(task.upper);
        self.retained = self.retained.saturating_add(task.left);
        self.retained_upper = self.retained_upper.saturating_add(task.left_upper);
        self.alive[index] = true;
        for user in self.users[index].clone().into_iter().rev() {
            self.waits_for[user] -= 1;
            if self.waits_for[user] == 0 {
                self.ready.push(user);
            }
        }
        if !task.pins {
            self.release_needs(index);
        }
        if self.uses_left[index] == 0 {
            self.drop_value(index);
        }
    }

    fn release_needs(&mut self, index: usize) {
        let mut waiting: Vec<usize> = self.tasks[index].needs.clone();
        while let Some(need) = waiting.pop() {
            self.uses_left[need] -= 1;
            if self.uses_left[need] == 0 {
                self.release_value(need);
                if self.tasks[need].pins {
                    waiting.extend(&self.tasks[need].needs);
                }
            }
        }
    }

    fn drop_value(&mut self, index: usize) {
        self.release_value(index);
        if self.tasks[index].pins {
            self.release_needs(index);
        }
    }

    fn release_value(&mut self, index: usize) {
        self.retained = self.retained.saturating_sub(self.tasks[index].left);
        self.retained_upper = self.retained_upper.saturating_sub(self.tasks[index].left_upper);
        self.alive[index] = false;
    }

    /// Tasks that run, in the order they began.
    pub(super) fn running(&self) -> Vec<usize> {
        let mut running: Vec<&Ending> = self.running.iter().map(|Reverse(ending)| ending).collect();
        running.sort_by_key(|ending| ending.order);
        running.into_iter().map(|ending| ending.task).collect()
    }

    /// Tasks whose values are retained.
    pub(super) fn retained(&self) -> Vec<usize> {
        (0..self.tasks.len()).filter(|&task| self.alive[task]).collect()
    }

    /// When the last task was done.
    pub(super) fn seconds(&self) -> f64 {
        self.seconds
    }
}

/// Tasks that nothing keeps from running.
enum Ready {
    Listed(BinaryHeap<Reverse<usize>>),
    Stack(Vec<usize>),
}

impl Ready {
    fn of(executor: Executor) -> Self {
        match executor {
            Executor::Threaded { .. } => Ready::Stack(Vec::new()),
            Executor::Sequential | Executor::Distributed { .. } => Ready::Listed(BinaryHeap::new()),
        }
    }

    fn push(&mut self, task: usize) {
        match self {
            Ready::Listed(heap) => heap.push(Reverse(task)),
            Ready::Stack(stack) => stack.push(task),
        }
    }

    fn pop(&mut self) -> Option<usize> {
        match self {
            Ready::Listed(heap) => heap.pop().map(|Reverse(task)| task),
            Ready::Stack(stack) => stack.pop(),
        }
    }
}

/// When a running task will be done; of those done at one time the one that began first.
#[derive(PartialEq)]
struct Ending {
    seconds: f64,
    order: usize,
    task: usize,
}

impl Eq for Ending {}

impl Ord for Ending {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.seconds.total_cmp(&other.seconds).then(self.order.cmp(&other.order))
    }
}

impl PartialOrd for Ending {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
