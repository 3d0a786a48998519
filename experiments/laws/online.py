"""Learning while running: chunk choices against other learners, warnings, cost of an observation.

Tasks are real ones, recorded by `experiments.laws.online_tasks` and replayed: the bytes of a task
are drawn from its recorded calls, its seconds are the mean of its calls times the noise of a call
drawn from all calls of the operator. Warnings are checked on recorded spans, event by event.
"""

import csv
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import memtrace
import numpy as np

from experiments.laws import online_policies, online_tasks, online_warnings
from experiments.laws.online_report import ENOUGH, good, percent, report

RESULTS = online_tasks.ROOT / "docs" / "results"
TASKS = 10
SEEDS = 100
#: Repeats of the policies it is compared with; Sizey trains four models after each task.
BASELINE_SEEDS = 25
WORKERS = (2, 4)
#: Budgets of a task, as parts of what the whole array as one chunk needs.
BUDGETS = (1 / 8, 1 / 4, 1 / 2)


@dataclass
class World:
    """One operator, number of workers and budget: all a policy may know, and what it may not."""

    name: str
    workers: int
    budget: int
    shape: tuple
    halo: tuple
    whole: tuple
    chunks: list
    inputs: np.ndarray  # bytes of each chunk's block
    rounds: np.ndarray  # tasks of the busiest worker
    law: np.ndarray  # bytes of a task by the fitted law, input included
    needed: list  # bytes of each recorded call, input included
    seconds: np.ndarray  # mean of the recorded calls
    noise: np.ndarray  # calls over the mean of their shape

    def job(self):
        """Seconds of the whole job, by chunk."""
        return self.rounds * self.seconds

    def fits(self):
        return np.array([max(needed) <= self.budget for needed in self.needed])

    def optimum(self):
        return self.job()[self.fits()].min()


def worlds(workers_of=WORKERS, budgets=BUDGETS):
    with online_tasks.FILE.open() as file:
        rows = list(csv.DictReader(file))
    for name, (_, _, halo, whole) in online_tasks.OPERATORS.items():
        own = [row for row in rows if row["operator"] == name]
        chunks = [tuple(map(int, row["chunk"].split("x"))) for row in own]
        inputs = np.array([int(row["input_bytes"]) for row in own])
        calls = [np.array(row["seconds"].split(), float) for row in own]
        peaks = [np.array(row["working_peak_bytes"].split(), float) for row in own]
        needed = [peak + size for peak, size in zip(peaks, inputs, strict=True)]
        tasks = np.prod(np.ceil(np.array(online_tasks.SHAPE) / np.array(chunks)), axis=1)
        law = np.array([float(row["law_bytes"] or "nan") for row in own]) + inputs
        for workers in workers_of:
            for part in budgets:
                yield World(
                    name=name,
                    workers=workers,
                    budget=int(part * max(map(max, needed))),
                    shape=online_tasks.SHAPE,
                    halo=halo,
                    whole=whole,
                    chunks=chunks,
                    inputs=inputs,
                    rounds=np.ceil(tasks / workers),
                    law=law,
                    needed=needed,
                    seconds=np.array([each.mean() for each in calls]),
                    noise=np.concatenate([each / each.mean() for each in calls]),
                )


def play(world, policy, seed, tasks=TASKS):
    """One repeat: final choice over optimum, regret, tasks over budget, failures, wastage."""
    rng = np.random.default_rng([seed, world.workers, world.budget])
    chooser = policy(world, seed)
    optimum, job = world.optimum(), world.job()
    regret, over, failed, wasted, used = [], 0, 0, 0.0, 0.0
    for _ in range(tasks):
        at, allocated = chooser.choose()
        needed = float(rng.choice(world.needed[at]))
        seconds = float(world.seconds[at] * rng.choice(world.noise))
        # All that a failed attempt was given is wasted; a repeat is given twice as much.
        given = min(allocated, world.budget)
        over += needed > world.budget
        while needed > given:
            failed += 1
            wasted += given * seconds
            if given >= world.budget:
                break
            given = min(2 * given, world.budget)
        else:
            wasted += (given - needed) * seconds
            used += needed * seconds
        regret.append(job[at] / optimum - 1)
        chooser.observe(at, given, needed, seconds)
    best = chooser.best()
    ratio = job[best] / optimum if world.fits()[best] else np.inf
    return ratio, float(np.mean(regret)), over, failed, wasted / max(used, 1e-12)


def repeats(case):
    """Rows of `play`, one per seed, of (policy, world, number of seeds)."""
    policy, world, seeds = case
    return np.array([play(world, policy, seed) for seed in range(seeds)])


def compare(seeds):
    """(policy, world) -> rows of `play`, one per seed."""

    def number(policy):
        return seeds if policy is online_policies.Chooser else min(seeds, BASELINE_SEEDS)

    cases = [(each, world, number(each)) for world in worlds() for each in online_policies.POLICIES]
    with ProcessPoolExecutor() as processes:
        rows = processes.map(repeats, cases)
        return {
            (policy, (world.name, world.workers, world.budget)): found
            for (policy, world, _), found in zip(cases, rows, strict=True)
        }


def observation_seconds():
    """Processor seconds of one Model.observe of a span as report gives it: the median of the operator
    that takes longest, and what 99 of 100 calls of any operator stay below."""
    trace = online_warnings.recorded("training")
    model = memtrace.fit(trace)
    operators = {each["name"]: each for each in trace.report()["operators"]}
    times = {}
    for name in map(online_warnings.qualified, online_warnings.OPERATORS):
        span = operators[name]["spans"][0] | {"call": 1}
        for _ in range(100):
            start = time.process_time()
            model.observe(name, span)
            times.setdefault(name, []).append(time.process_time() - start)
    every = list(times.values())
    return float(np.median(every, axis=1).max()), float(np.quantile(every, 0.99))


def main(arguments):
    seeds = 10 if arguments.quick else SEEDS
    compared = compare(seeds)
    warnings = online_warnings.study()
    observed = observation_seconds()
    ours = {
        world: good(rows)
        for (policy, world), rows in compared.items()
        if policy is online_policies.Chooser
    }
    everything = [each for own in warnings.values() for each in own["in_time"]]
    alarms = [each for own in warnings.values() for each in own["alarms"]]
    in_time, false = online_warnings.share(everything), online_warnings.share(alarms)
    over = sum(
        int((rows[:, 2] > 0).sum())
        for (policy, _), rows in compared.items()
        if policy is online_policies.Chooser
    )
    held = sum(value >= 95 for value in ours.values())
    targets = [
        (
            f"after {TASKS} tasks within {ENOUGH} of the optimum, none over budget: of 100 repeats",
            "≥ 95 in each case",
            f"{held} of {len(ours)} cases; {np.mean(list(ours.values())):.1f} on average",
            held == len(ours),
        ),
        ("repeats with a task over the budget", "0", f"{over} of {len(ours) * seeds}", over == 0),
        (
            "spans that exceed their budget: warned before 80 % of their events",
            "≥ 90 %",
            percent(in_time),
            in_time >= 0.9,
        ),
        ("spans that stay within it: false alarms", "≤ 5 %", percent(false), false <= 0.05),
        (
            "Model.observe, processor time: the slowest operator's median (99 of 100 of all calls)",
            "≤ 1 ms",
            f"{observed[0] * 1e3:.2f} ({observed[1] * 1e3:.2f}) ms",
            observed[1] <= 1e-3,
        ),
    ]
    text = report(targets, compared, ours, warnings, TASKS, seeds, BASELINE_SEEDS)
    if not arguments.quick:
        (RESULTS / "laws-online.md").write_text(text)
    print(text)
    return all(holds for *_, holds in targets)
