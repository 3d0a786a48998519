//! A plan that `recommend` or `plan` has printed as JSON.

use memtrace_analysis::shape::joined;
use serde::Deserialize;

use super::figure::{Figure, Mark};
use crate::units::Bytes;

/// What is drawn of it.
#[derive(Deserialize)]
#[serde(untagged)]
pub enum Planned {
    /// A graph that runs as it is.
    Forecast(Forecast),
    /// Chunks.
    Chunks(Chunks),
}

/// What was live whenever a step had begun.
#[derive(Deserialize)]
pub struct Forecast {
    timeline: Vec<Moment>,
    peak_bytes: u64,
    upper_bytes: u64,
    set_by: SetBy,
    seconds: f64,
}

#[derive(Deserialize)]
struct Moment {
    seconds: f64,
    live_bytes: u64,
}

#[derive(Deserialize)]
struct SetBy {
    operator: String,
}

/// Chunks that were chosen, and what a worker needs.
#[derive(Deserialize)]
pub struct Chunks {
    chunk_shape: Vec<u64>,
    #[serde(flatten)]
    chosen: Choice,
    budget_bytes: u64,
    /// Choices of chunks that were left, of one operator.
    #[serde(default)]
    pareto: Vec<Choice>,
    /// Steps of a pipeline.
    #[serde(default)]
    operators: Vec<Step>,
}

#[derive(Deserialize)]
struct Choice {
    tasks: u64,
    predicted_worker_bytes: u64,
}

#[derive(Deserialize)]
struct Step {
    task_bytes: u64,
}

impl Planned {
    /// The figure of it.
    pub fn figure(&self) -> Figure {
        match self {
            Planned::Forecast(forecast) => forecast.figure(),
            Planned::Chunks(chunks) => chunks.figure(),
        }
    }
}

/// A plan's times beyond this are none.
const MOST_SECONDS: f64 = 1e12;

impl Forecast {
    /// Live bytes over time, or over steps where no law knows times; their peak and its bound.
    fn figure(&self) -> Figure {
        let plausible = |moment: &Moment| (0.0..=MOST_SECONDS).contains(&moment.seconds);
        let timed = self.seconds > 0.0 && self.timeline.iter().all(plausible);
        let mut figure = Figure {
            title: format!("{} sets the peak", self.set_by.operator),
            over: if timed { "seconds" } else { "steps" }.into(),
            ..Figure::default()
        };
        let at = |(step, moment): (usize, &Moment)| if timed { moment.seconds } else { step as f64 };
        let moments = || self.timeline.iter().enumerate();
        let live = moments().map(|moment| (at(moment), moment.1.live_bytes as f64)).collect();
        figure.add("live", Mark::Line, steps(live));
        let peak = moments().max_by_key(|(step, moment)| (moment.live_bytes, std::cmp::Reverse(*step)));
        let peak = peak.map(|moment| (at(moment), self.peak_bytes as f64));
        figure.add(format!("peak: {}", Bytes(self.peak_bytes)), Mark::Dots, peak.into_iter().collect());
        figure.add_level(format!("at most: {}", Bytes(self.upper_bytes)), self.upper_bytes);
        figure
    }
}

impl Chunks {
    /// A worker's peak against its budget: by the number of tasks of each choice, or beside what a
    /// task of each step needs.
    fn figure(&self) -> Figure {
        let Choice { tasks, predicted_worker_bytes: used } = self.chosen;
        let mut figure = Figure {
            title: format!("{tasks} chunks of {}", joined(&self.chunk_shape)),
            over: if self.operators.is_empty() { "tasks" } else { "steps of the pipeline" }.into(),
            ..Figure::default()
        };
        if self.operators.is_empty() {
            let choices = self.pareto.iter().chain([&self.chosen]);
            let mut choices: Vec<(u64, u64)> =
                choices.map(|choice| (choice.tasks, choice.predicted_worker_bytes)).collect();
            choices.sort_unstable();
            let points = choices.iter().map(|(tasks, bytes)| (*tasks as f64, *bytes as f64)).collect();
            figure.add("choices", Mark::Line, points);
            figure.add("chosen", Mark::Dots, vec![(tasks as f64, used as f64)]);
        } else {
            let points = self.operators.iter().enumerate();
            let points = points.map(|(at, step)| ((at + 1) as f64, step.task_bytes as f64)).collect();
            figure.add("a task", Mark::Dots, points);
        }
        figure.add_level(format!("a worker's peak: {}", Bytes(used)), used);
        figure.add_level(format!("budget: {}", Bytes(self.budget_bytes)), self.budget_bytes);
        figure
    }
}

/// Points that stay as high as they are until the next one.
fn steps(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let mut stepped: Vec<(f64, f64)> = Vec::with_capacity(2 * points.len());
    for (at, bytes) in points {
        stepped.extend(stepped.last().map(|(_, before)| (at, *before)));
        stepped.push((at, bytes));
    }
    stepped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(json: &str) -> Figure {
        serde_json::from_str::<Planned>(json).unwrap().figure()
    }

    fn points<'a>(figure: &'a Figure, label: &str) -> &'a [(f64, f64)] {
        let found = figure.curves.iter().find(|curve| curve.label.starts_with(label));
        &found.unwrap_or_else(|| panic!("no {label}")).points
    }

    #[test]
    fn choices_are_drawn_by_their_tasks_against_the_budget() {
        let figure = figure(
            r#"{"chunk_shape": [5, 7], "tasks": 20, "predicted_worker_bytes": 300, "budget_bytes": 700,
                "pareto": [{"tasks": 40, "predicted_worker_bytes": 200},
                           {"tasks": 10, "predicted_worker_bytes": 600}]}"#,
        );
        assert_eq!((figure.title.as_str(), figure.over.as_str()), ("20 chunks of 5×7", "tasks"));
        assert_eq!(points(&figure, "choices"), [(10.0, 600.0), (20.0, 300.0), (40.0, 200.0)]);
        assert_eq!(points(&figure, "chosen"), [(20.0, 300.0)]);
        assert_eq!(points(&figure, "budget: 700 B"), [(10.0, 700.0), (40.0, 700.0)]);
        assert_eq!(points(&figure, "a worker's peak: 300 B"), [(10.0, 300.0), (40.0, 300.0)]);
    }

    #[test]
    fn a_pipeline_is_drawn_by_its_steps() {
        let figure = figure(
            r#"{"chunk_shape": [5], "tasks": 20, "predicted_worker_bytes": 300, "budget_bytes": 700,
                "operators": [{"task_bytes": 90}, {"task_bytes": 80}]}"#,
        );
        assert_eq!(points(&figure, "a task"), [(1.0, 90.0), (2.0, 80.0)]);
        assert_eq!(points(&figure, "budget")[1], (2.0, 700.0));
    }

    #[test]
    fn a_forecast_stays_as_high_as_it_is_until_the_next_step() {
        let figure = figure(
            r#"{"timeline": [{"seconds": 0.0, "live_bytes": 10}, {"seconds": 2.0, "live_bytes": 30},
                             {"seconds": 3.0, "live_bytes": 30}],
                "peak_bytes": 30, "upper_bytes": 33, "set_by": {"operator": "mix"}, "seconds": 4.0}"#,
        );
        let live = [(0.0, 10.0), (2.0, 10.0), (2.0, 30.0), (3.0, 30.0), (3.0, 30.0)];
        assert_eq!(points(&figure, "live"), live);
        assert_eq!(points(&figure, "peak: 30 B"), [(2.0, 30.0)]);
        assert_eq!(points(&figure, "at most: 33 B"), [(0.0, 33.0), (3.0, 33.0)]);
    }
}
