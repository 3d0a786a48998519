"""What plans lose against the best placement there is, at every capacity.

The programs, tiers and times are those of the estimates; programs of up to sixteen placements, each
of which is measured. For every capacity at which another placement fits, `place plan --verify 2`
makes a plan. What it chose is looked up among the measured times, and so is what first touch,
access density and random orders choose.
"""

import functools
import json
import random
import shutil
import statistics
from pathlib import Path

from experiments.chunks.tables import table
from experiments.placement.catalogue import PROGRAMS, built
from experiments.placement.estimates import FIRST, HUGE, SECOND, cpu, estimate
from experiments.recording import KEPT, RESULTS, memtrace

LEARNED = 3
#: A placement is run until its two fastest runs differ by less, or so many times.
AGREEMENT, MOST_RUNS = 0.02, 8
VERIFIED = 2
MOST_OBJECTS = 4
MEAN_REGRET, MOST_REGRET = 0.01, 0.05
RANDOM_ORDERS = 20
WAYS = ["verified", "planned", "carried out", "density", "first-touch", "interleave", "random"]


def main(arguments):
    results = []
    for case in [*FIRST, *SECOND]:
        measurement = Measurement(case, 2 if arguments.quick else MOST_RUNS)
        if len(measurement.names) > MOST_OBJECTS:
            print(f"{case.file}: {2 ** len(measurement.names)} placements are too many", flush=True)
            continue
        result = measurement.result()
        print(f"{case.file}: {shown(result['regrets']['verified'])}", flush=True)
        results.append(result)
        if not arguments.quick:
            (RESULTS / "placement-regret.md").write_text(page(results))
    return holds(results)


class Measurement:
    """A program's placements and plans, kept so that an interrupted study goes on where it was."""

    def __init__(self, case, most_runs):
        self.case, self.most_runs = case, most_runs
        self.folder = KEPT / "placement-regret" / Path(case.file).stem
        self.folder.mkdir(parents=True, exist_ok=True)
        self.command = [str(built(PROGRAMS / case.file, self.folder)), str(case.rounds)]
        self.learned = self.kept("learned", self.learn)
        self.plan = json.loads((self.folder / "plan.json").read_text())
        large = [each for each in self.plan["objects"] if each["bytes"] >= HUGE]
        self.names = sorted(map(name, large))

    def kept(self, key, measure):
        """A figure that is measured once."""
        path = self.folder / "figures.json"
        figures = json.loads(path.read_text()) if path.exists() else {}
        if key not in figures:
            figures[key] = measure()
            path.with_suffix(".new").write_text(json.dumps(figures))
            path.with_suffix(".new").rename(path)
        return figures[key]

    def learn(self):
        shutil.rmtree(self.folder / "runs", ignore_errors=True)
        output = ("-o", self.folder / "runs", "--", *self.command)
        memtrace("place", "learn", "--repeat", LEARNED, *output)
        self.plan_for(1 << 40, 0)
        return True

    def plan_for(self, capacity, runs):
        """The plan for a capacity; the placements for as many bytes beside it."""
        path = self.folder / ("plan.json" if capacity == 1 << 40 else "planned.json")
        arguments = ("--fast", capacity, "--verify", runs, "-o", path, "--json")
        return json.loads(memtrace("place", "plan", self.folder / "runs", *arguments))

    def result(self):
        times = self.times()
        regrets = {way: [] for way in WAYS}
        for capacity in sorted({self.bytes_of(choice) for choice in times} - {0}):
            chosen = self.kept(f"chosen for {capacity}", functools.partial(self.chosen, capacity))
            always = functools.partial(self.carried_out, capacity)
            chosen["carried out"] = self.kept(f"carried out at {capacity}", always)
            best = min(took for choice, took in times.items() if self.bytes_of(choice) <= capacity)
            for way in WAYS:
                of_way = [times[frozenset(map(tuple, choice))] / best - 1 for choice in chosen[way]]
                regrets[way].append(statistics.mean(of_way))
        ratio = times[frozenset()] / times[frozenset(self.names)]
        return {"case": self.case, "ratio": ratio, "spread": self.spread, "regrets": regrets}

    def times(self):
        """The time of every placement, that of its fastest run."""
        choices = [
            frozenset(each for bit, each in enumerate(self.names) if number >> bit & 1)
            for number in range(2 ** len(self.names))
        ]
        runs = {number: [] for number in range(len(choices))}
        for turn in range(self.most_runs):
            open_ones = [number for number, taken in runs.items() if not agree(taken)]
            random.Random(f"{self.case.file} {turn}").shuffle(open_ones)
            for number in open_ones:
                took = functools.partial(self.run, number, choices[number])
                runs[number].append(self.kept(f"run {number} {turn}", took))
        self.spread = statistics.mean(differ(taken) for taken in runs.values())
        return {choices[number]: min(taken) for number, taken in runs.items()}

    def run(self, number, choice):
        numbers = {name(each): n for n, each in enumerate(self.plan["objects"], 1)}
        estimate(self.folder, number, [numbers[each] for each in choice])
        return cpu(self.folder, number, self.command)

    def bytes_of(self, choice):
        return sum(pages for _, pages, _ in choice)

    def chosen(self, capacity):
        """What each way puts into the fast tier: placements, whose regrets are averaged."""
        planned = self.plan_for(capacity, 0)
        verified = self.plan_for(capacity, VERIFIED)
        at = {"planned": [self.fast(planned)], "verified": [self.fast(verified)]}
        for each in planned["alternatives"]:
            at[each["by"]] = [self.large(planned["objects"][n] for n in each["fast"])]
        draw = random.Random(capacity)
        orders = [draw.sample(self.names, len(self.names)) for _ in range(RANDOM_ORDERS)]
        return at | {"random": [filled(order, capacity) for order in orders]}

    def carried_out(self, capacity):
        """What a plan without runs has in the fast tier, be it worth it or not."""
        objects = self.plan_for(capacity, 0)["objects"]
        return [self.large(each for each in objects if each["tier"] == "fast")]

    def fast(self, plan):
        """What a plan does: nothing, if it says that nothing is gained."""
        objects = plan["objects"] if plan["worth"] else []
        return self.large(each for each in objects if each["tier"] == "fast")

    def large(self, objects):
        return sorted({name(each) for each in objects} & set(self.names))


def name(each):
    """What distinguishes an object: its call stack, the bytes of its pages, and its ordinal."""
    return each["site"], -(-each["bytes"] // 4096) * 4096, each["ordinal"]


def differ(taken):
    """By how much the second fastest run is slower than the fastest."""
    first, second = sorted(taken)[:2]
    return second / first - 1


def agree(taken):
    return len(taken) > 1 and differ(taken) < AGREEMENT


def filled(order, capacity):
    chosen = []
    for each in order:
        if each[1] <= capacity:
            chosen.append(each)
            capacity -= each[1]
    return chosen


def shown(regrets):
    return f"{statistics.mean(regrets):.1%}, {max(regrets):.1%}"


def everywhere(results, way):
    return [regret for result in results for regret in result["regrets"][way]]


def holds(results):
    regrets = everywhere(results, "verified")
    return statistics.mean(regrets) <= MEAN_REGRET and max(regrets) <= MOST_REGRET


def page(results):
    text = f"""# Regret of plans

`scripts/experiments placement regret` measures every placement of a program's blocks of 2 MiB and
more between pages of 4 KiB and of 2 MiB, in a random order, until its two fastest runs differ by
less than {AGREEMENT:.0%}, or {MOST_RUNS} times; the fastest counts. Other work on the machine of
the measurement slows single runs down by up to a factor of two; *runs differ by* is what the
second fastest run of a placement takes longer than the fastest, in the mean. Programs are those of
the [estimates](placement-estimates.md) with up to {2**MOST_OBJECTS} placements. For every capacity
of the fast tier at which another placement fits, `memtrace place plan --verify {VERIFIED}` chooses
one. The regret is the measured time of what it chose, divided by the measured time of the best
placement that fits, less 1. Times are CPU seconds of the program.

The table has the mean and the largest regret over all capacities: of plans after {VERIFIED} runs
(*verified*), of the same without runs (*planned*), and of placements that need no estimate: samples
per byte (*density*), the order of allocation (*first-touch*), turns (*interleave*), and the mean of
{RANDOM_ORDERS} random orders. A plan that gains less than it is uncertain by places nothing;
*carried out* is what the plans without runs choose, placed all the same. Wanted of verified plans:
{MEAN_REGRET:.0%} in the mean over all programs and capacities, {MOST_REGRET:.0%} at most.

"""
    rows = [row(result["case"].what, result) for result in results]
    all_of = {way: everywhere(results, way) for way in WAYS}
    rows.append(row("all", {"regrets": all_of}))
    names = ["program", "capacities", "slow / fast", "runs differ by", *WAYS]
    holding = "holds" if holds(results) else "does not hold"
    return text + table(names, rows) + f"\n\nWhat is wanted {holding}.\n"


def row(what, result):
    regrets = result["regrets"]
    known = [f"{result['ratio']:.2f}", f"{result['spread']:.1%}"] if "ratio" in result else ["", ""]
    return [what, len(regrets["verified"]), *known, *(shown(regrets[way]) for way in WAYS)]
