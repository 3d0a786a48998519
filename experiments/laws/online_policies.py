"""Who chooses chunks in the online-learning study: memtrace's chooser and what it is compared with.

A policy chooses a chunk and what is allocated for its task (bytes), and is sent what came of it.
The predictors follow the papers' descriptions; they are written for this study only.

- Witt: linear regression on the input's bytes plus the largest under-prediction so far; a failed
  attempt doubles the allocation (Witt et al., "Feedback-based resource allocation for batch
  scheduling of scientific workflows", HPCS 2019).
- Sizey: linear regression, nearest neighbours, a forest and a small network; their predictions are
  weighted by how accurate and how efficient each was on the tasks so far, before it had seen them,
  and the offset that would have wasted least is added (Bader et al., "Sizey: memory-efficient
  execution of scientific workflow tasks", CLUSTER 2024).
- Q-learning: a table of values by chunk, all 0 at first, epsilon-greedy; minus the job's seconds as
  reward and a penalty for going over the budget (Watkins 1989).
- Offline: a law of bytes fitted before (the file's `law_bytes`); then five runs of chunks that fit by
  it, small to large, for the seconds, and the choice is fixed.

Witt and Sizey predict bytes for a given input, not chunks nor seconds. To be compared they are
given what is best for them: three small chunks first, each of at least twice the input of the one
before, as memtrace's chooser starts small too; a line through the seconds; the chunk that is fastest
by it of those that are predicted to fit; and after a task that did not fit, its true bytes, and no
chunk of as large an input again.
"""

import memtrace
import numpy as np


class Chooser:
    """memtrace.ChunkChooser, from no model."""

    name = "memtrace chooser"

    def __init__(self, world, seed):
        self.world = world
        self.chooser = memtrace.ChunkChooser(
            world.shape,
            world.budget,
            workers=world.workers,
            halo=world.halo,
            whole_axes=world.whole,
            chunks=world.chunks,
            seed=seed,
        )

    def choose(self):
        chunk = self.chooser.choose()
        upper = self.chooser.belief(chunk)["upper_bytes"]
        return self.world.chunks.index(chunk), upper or self.world.budget

    def observe(self, at, allocated, needed, seconds):
        self.chooser.observe(self.world.chunks[at], int(needed), seconds)

    def best(self):
        return self.world.chunks.index(self.chooser.best())


class Predictor:
    """Chooses by predictions of bytes and seconds; subclasses make them."""

    start = 3

    def __init__(self, world, seed):
        self.world, self.rng = world, np.random.default_rng(seed)
        self.inputs = world.inputs.astype(float)
        self.at, self.needed, self.seconds = [], [], []
        self.refused = np.zeros(len(world.chunks), bool)

    def choose(self):
        if len(self.at) < self.start:
            larger = self.inputs >= 2 * max(self.inputs[self.at], default=0) * ~self.refused
            return int(np.argmin(np.where(larger, self.inputs, np.inf))), self.world.budget
        at, given = self.best(), self.allocation()
        return at, float(np.clip(given[at], self.inputs[at], self.world.budget))

    def best(self):
        fits = ~self.refused & (self.allocation() <= self.world.budget)
        if not fits.any():
            fits = self.inputs == self.inputs.min()
        job = self.world.rounds * self.job_seconds()
        return int(np.flatnonzero(fits)[np.argmin(job[fits])])

    def job_seconds(self):
        line = np.polyfit(self.inputs[self.at], self.seconds, 1)
        return np.maximum(np.polyval(line, self.inputs), min(self.seconds))

    def observe(self, at, allocated, needed, seconds):
        if needed > self.world.budget:
            self.refused |= self.inputs >= self.inputs[at]
        self.at.append(at)
        self.needed.append(needed)
        self.seconds.append(seconds)


class Witt(Predictor):
    name = "Witt (linear, largest error)"

    def allocation(self):
        x, y = self.inputs[self.at], np.array(self.needed)
        line = np.polyfit(x, y, 1)
        return np.polyval(line, self.inputs) + max((y - np.polyval(line, x)).max(), 0)


class Sizey(Predictor):
    name = "Sizey (four models, gated)"

    def __init__(self, world, seed):
        super().__init__(world, seed)
        self.reported, self.predicted = [], None  # what each model said of tasks before they ran

    def observe(self, at, allocated, needed, seconds):
        if len(self.at) >= 2:
            self.reported.append((self.models()[:, at], needed))
        super().observe(at, allocated, needed, seconds)
        self.predicted = None

    def models(self):
        """What each model says of every chunk."""
        if self.predicted is None:
            x, y = self.inputs[self.at], np.array(self.needed)
            fitted = [fit(x, y, self.rng) for fit in (linear, neighbours, forest, network)]
            self.predicted = np.array([model(self.inputs) for model in fitted])
        return self.predicted

    def allocation(self):
        reported, y = (
            np.array([each for each, _ in self.reported]).T,
            np.array([y for _, y in self.reported]),
        )
        accuracy = 1 - np.minimum(np.abs(reported - y) / y, 1).mean(1)
        efficiency = np.where(reported >= y, y / np.maximum(reported, 1), 0).mean(1)
        weights = np.exp(4 * (0.5 * accuracy + 0.5 * efficiency))
        weights /= weights.sum()
        error = y - weights @ reported
        under = np.maximum(error, 0)
        offsets = [under.std(), error.std(), np.median(under), np.median(np.abs(error))]

        def waste(offset):
            given = weights @ reported + offset
            return np.where(given >= y, given - y, given + y).sum()

        return weights @ self.models() + min(offsets, key=waste)


def linear(x, y, rng):
    line = np.polyfit(x, y, 1)
    return lambda new: np.maximum(np.polyval(line, new), 0)


def neighbours(x, y, rng, count=3):
    return lambda new: np.array([y[np.argsort(np.abs(x - value))[:count]].mean() for value in new])


def forest(x, y, rng, trees=10):
    """Regression trees of one split each level, three levels, on resampled observations."""

    def grow(x, y, depth):
        cuts = np.unique(x)[1:]
        if depth == 0 or not len(cuts):
            return lambda new: np.full(len(new), y.mean())
        spread = [y[x < c].var() * (x < c).sum() + y[x >= c].var() * (x >= c).sum() for c in cuts]
        cut = cuts[int(np.argmin(spread))]
        low, high = (grow(x[part], y[part], depth - 1) for part in (x < cut, x >= cut))
        return lambda new: np.where(new < cut, low(new), high(new))

    samples = [rng.integers(0, len(x), len(x)) for _ in range(trees)]
    grown = [grow(x[s], y[s], 3) for s in samples]
    return lambda new: np.mean([tree(new) for tree in grown], 0)


def network(x, y, rng, hidden=8, steps=150):
    """One hidden layer of rectifiers, Adam."""
    scale_x, scale_y = x.max(), y.max()
    a, b = x / scale_x, y / scale_y
    weights = [rng.normal(0, 1, hidden), np.zeros(hidden), rng.normal(0, 0.3, hidden), np.zeros(1)]
    first, second = [np.zeros_like(w) for w in weights], [np.zeros_like(w) for w in weights]
    for step in range(1, steps + 1):
        layer = np.maximum(a[:, None] * weights[0] + weights[1], 0)
        error = (layer @ weights[2] + weights[3] - b)[:, None] / len(a)
        back = error * weights[2] * (layer > 0)
        slopes = [(back * a[:, None]).sum(0), back.sum(0), (error * layer).sum(0), error.sum(0)]
        for i, slope in enumerate(slopes):
            first[i] = 0.9 * first[i] + 0.1 * slope
            second[i] = 0.999 * second[i] + 0.001 * slope**2
            rate = 0.03 / (1 - 0.9**step)
            weights[i] = weights[i] - rate * first[i] / (
                np.sqrt(second[i] / (1 - 0.999**step)) + 1e-9
            )
    v, c, w, d = weights
    return lambda new: scale_y * (np.maximum(new[:, None] / scale_x * v + c, 0) @ w + d)


class QLearning:
    name = "Q-learning"
    rate, greed, penalty = 0.5, 0.2, 10.0

    def __init__(self, world, seed):
        self.world, self.rng = world, np.random.default_rng(seed)
        self.values = np.zeros(len(world.chunks))
        self.tried = np.zeros(len(world.chunks), bool)
        self.scale = None

    def choose(self):
        values = np.zeros(len(self.values)) if self.rng.uniform() < self.greed else self.values
        highest = np.flatnonzero(values == values.max())
        return int(self.rng.choice(highest)), self.world.budget

    def best(self):
        return int(np.argmax(np.where(self.tried, self.values, -np.inf)))

    def observe(self, at, allocated, needed, seconds):
        job = self.world.rounds[at] * seconds
        self.scale = self.scale or job
        reward = -self.penalty if needed > self.world.budget else -job / self.scale
        first = not self.tried[at]
        self.values[at] += (1.0 if first else self.rate) * (reward - self.values[at])
        self.tried[at] = True


class Offline:
    """The law says what fits; five runs, small to large, say how fast; then the choice is fixed."""

    name = "offline law, then fixed"

    def __init__(self, world, seed):
        self.world = world
        fits = np.flatnonzero(world.law <= world.budget)
        ordered = fits[np.argsort(world.inputs[fits], kind="stable")]
        self.plan = [int(ordered[at]) for at in np.linspace(0, len(ordered) - 1, 5).astype(int)]
        self.seen = []

    def choose(self):
        at = self.plan[len(self.seen)] if len(self.seen) < len(self.plan) else self.best()
        return at, float(self.world.law[at])

    def best(self):
        x, y = np.array(self.seen[: len(self.plan)]).T
        line = np.polyfit(self.world.inputs[x.astype(int)], y, 1)
        seconds = np.maximum(np.polyval(line, self.world.inputs), y.min())
        fits = self.world.law <= self.world.budget
        return int(np.flatnonzero(fits)[np.argmin((self.world.rounds * seconds)[fits])])

    def observe(self, at, allocated, needed, seconds):
        self.seen.append((at, seconds))


POLICIES = (Chooser, Offline, Sizey, Witt, QLearning)
