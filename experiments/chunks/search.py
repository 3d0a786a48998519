"""Every split of an array, and the fastest of them against ours in interleaved rounds."""

import itertools
import statistics

from experiments.chunks import tables
from experiments.chunks.runs import run

BASELINES = 3


def splits(part, asked, most):
    """A run with each of the chunks that cut every axis at most so often."""
    counts = itertools.product(range(1, most + 1), repeat=len(asked["shape"]))
    chunks = (
        tuple(-(-n // k) for n, k in zip(asked["shape"], each, strict=True)) for each in counts
    )
    return [run(part, chunk=chunk, **asked) for chunk in dict.fromkeys(chunks)]


def duel(part, asked, ours, every, turns):
    """Ours and the fastest that stayed within their budget: interleaved, so no one is always first."""
    baselines = [each for each in every if each["within"] and each["chunk"] != ours["chunk"]]
    baselines.sort(key=lambda each: each["seconds"])
    chunks = [tuple(each["chunk"]) for each in (ours, *baselines[:BASELINES])]
    rounds = {chunk: [] for chunk in chunks}
    for turn in range(turns):
        for chunk in chunks[:: -1 if turn % 2 else 1]:
            # A number of its own keeps it apart from the first look at the same chunks.
            rounds[chunk].append(run(part, again=turn + 1, chunk=chunk, **asked))
    return rounds


def ratios(rounds):
    """baseline -> median over the rounds of our seconds ÷ its seconds in the same round."""
    (_, ours), *baselines = rounds.items()
    return {
        chunk: statistics.median(
            a["seconds"] / b["seconds"] for a, b in zip(ours, runs, strict=True)
        )
        for chunk, runs in baselines
        if all(each["within"] for each in runs)
    }


def table(rounds):
    ratio = ratios(rounds)
    rows = [
        (
            tables.shape(chunk),
            f"{statistics.median(each['seconds'] for each in runs):.2f} s",
            tables.megabytes(max(each["peak_bytes"] for each in runs)),
            "ours" if at == 0 else f"{ratio[chunk]:.2f}" if chunk in ratio else "left its budget",
        )
        for at, (chunk, runs) in enumerate(rounds.items())
    ]
    return tables.table(("chunk", "median", "largest peak", "ours ÷ it"), rows)
