"""Placement on two and three NUMA nodes, in guests that have them: the plan says where each page is
to be, and move_pages(2) where it is."""

import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from experiments.chunks.tables import table
from experiments.guest.kernel import Kernel, fetched
from experiments.guest.machine import AMD64
from experiments.placement import numa
from experiments.placement.numa import FAST, MIDDLE, ROUNDS, SLOW, SLOWEST
from experiments.recording import RESULTS

KERNEL = Kernel("trixie")
PAGE = 4096
TICK_BYTES = 100_000
#: Blocks that threads allocate, in any order.
THREADS_BYTES = (5_242_880, 2_500_000, 700_000, 131_072)


class Case(NamedTuple):
    """A plan, and how the program is to run with it."""

    what: str
    plan: dict
    #: The fast node is filled before.
    is_full: bool = False
    #: What memtrace says; the program then runs unplaced.
    refusal: str = ""


def main(arguments):
    if words := AMD64.missing():
        print(f"placement nodes: skipped, {words}")
        return True
    image = fetched(KERNEL)
    with tempfile.TemporaryDirectory() as folder:
        rows = list(measured(Path(folder), image))
    for row in rows:
        print(row, flush=True)
    RESULTS.joinpath("placement-nodes.md").write_text(page(rows, image.name))
    return all(row.is_right for row in rows)


def measured(folder, image):
    """A row for each run."""
    learned = numa.learned(folder, image)
    yield from learned_rows(learned, {"slow": SLOW, "fast": FAST})
    cases = two_node_cases(learned.plan)
    runs, _ = numa.ran(folder, image, numbered(cases))
    yield from rows(cases, runs, learned)
    cases = three_node_cases(learned.plan)
    # The fourth node has no memory.
    sizes = (340, 340, 344, 0)
    runs, shown = numa.ran(folder, image, numbered(cases), sizes, numa.LEARN_THREE)
    in_three = numa.told(shown)
    three = {"slow": SLOWEST, "middle": MIDDLE, "fast": FAST}
    yield from learned_rows(in_three, three, "three tiers: ")
    yield from rows(cases, runs, learned)


def numbered(cases):
    return {f"plan-{n}": (case.plan, case.is_full) for n, case in enumerate(cases)}


def rows(cases, runs, learned):
    return [judged(case, run, learned) for case, run in zip(cases, runs.values(), strict=True)]


class Row(NamedTuple):
    """What a run shows."""

    what: str
    asked: int
    there: int
    #: The program succeeds, and prints what it prints by itself.
    is_same: bool
    is_right: bool
    said: str


def learned_rows(learned, tiers, before=""):
    for (what, node), pages in zip(tiers.items(), learned.pages, strict=True):
        told = Counter(node for (turn, _), each in pages.items() if turn >= 0 for node in each)
        asked, there = told.total(), told[node]
        name = f"{before}`place learn`, all blocks {what}"
        yield Row(name, asked, there, True, asked == there > 0, "")


def two_node_cases(plan):
    draw = random.Random(15)
    count = len(plan["objects"])
    some = [draw.choice(("slow", "fast")) for _ in range(count)]
    others = ["slow" if tier == "fast" else "fast" for tier in some]
    mixed = placed(plan, some)
    return [
        Case("all blocks slow", placed(plan, ["slow"] * count)),
        Case("all blocks fast", placed(plan, ["fast"] * count)),
        Case("some blocks fast", mixed),
        Case("the others fast", placed(plan, others)),
        Case(
            "all blocks fast, room for 9 MB",
            placed(plan, ["fast"] * count) | {"fast_bytes": 9_000_000},
        ),
        Case("moved there and back", moved(mixed)),
        Case("the same, room for 10 MB", moved(ordered(mixed)) | {"fast_bytes": 10_000_000}),
        Case("some blocks fast, that node full", mixed, is_full=True),
        Case("a node that is not there", on(mixed, "node:7"), refusal="no NUMA node 7"),
    ]


def three_node_cases(plan):
    draw = random.Random(16)
    count = len(plan["objects"])
    three = plan | {
        "tiers": {"slow": f"node:{SLOWEST}", "fast": f"node:{FAST}"},
        "middle": {"tier": f"node:{MIDDLE}", "bytes": 90_000_000, "used_bytes": 0, "seconds": 1.0},
    }
    mixed = placed(three, [draw.choice(("slow", "middle", "fast")) for _ in range(count)])
    full = ordered(placed(three, ["fast"] * count)) | {"fast_bytes": 9_000_000}
    fast = placed(plan, ["fast"] * count)
    return [
        Case("three tiers: all blocks in the middle", placed(three, ["middle"] * count)),
        Case("three tiers: some blocks in each", mixed),
        Case("three tiers: all fast, room for 9 MB", full),
        Case(
            "three tiers: the same, room for 9 and 4 MB", full | {"middle": middle(full, 4_000_000)}
        ),
        Case(
            "three tiers: a middle node without memory", between(mixed, 3), refusal="no NUMA node 3"
        ),
        Case("a node without memory", on(fast, "node:3"), refusal="no NUMA node 3"),
    ]


def middle(plan, size):
    return plan["middle"] | {"bytes": size}


def between(plan, node):
    return plan | {"middle": plan["middle"] | {"tier": f"node:{node}"}}


def placed(plan, tiers):
    objects = [each | {"tier": tier} for each, tier in zip(plan["objects"], tiers, strict=True)]
    return plan | {"objects": objects, "worth": True}


def ordered(plan):
    """Where there is no room for all, which of the threads comes first must not matter."""
    is_first = [each["bytes"] not in THREADS_BYTES for each in plan["objects"]]
    tiers = [each["tier"] for each in plan["objects"]]
    return placed(
        plan, [tier if first else "slow" for tier, first in zip(tiers, is_first, strict=True)]
    )


def on(plan, node):
    return plan | {"tiers": plan["tiers"] | {"fast": node}}


def moved(plan):
    """All blocks to the other node, back, and parts of them there and back, between rounds."""
    ticks, moves = positions(plan, TICK_BYTES), []
    for index, each in enumerate(plan["objects"]):
        pages = -(-each["bytes"] // PAGE)
        if each["blocks"] > 1:
            continue
        half, most = pages // 2, pages * 3 // 4
        turns = [("out", 0, pages), ("in", 0, pages), ("out", half, pages - half)]
        turns += [("in", half, most - half), ("in", most, pages - most)]
        for turn, (kind, first, count) in enumerate(turns, 1):
            where = {"block": ticks[turn], "kind": kind, "object": index}
            moves.append(where | {"first": first, "pages": count})
    return plan | {"moves": sorted(moves, key=lambda each: each["block"])}


def positions(plan, size):
    """Positions of the blocks of a size in the order of allocation."""
    order = [index for index, count in plan["blocks"] for _ in range(count)]
    return [at for at, index in enumerate(order) if plan["objects"][index]["bytes"] == size]


def judged(case, run, learned):
    is_same = (run.status, run.output) == (0, learned.output)
    said = [line for line in run.said.splitlines() if line.startswith("memtrace:")]
    if case.refusal:
        is_right = is_same and len(said) == 1 and case.refusal in said[0]
        return Row(case.what, 0, 0, is_same, is_right, said[0] if said else "")
    asked, elsewhere = Counter(), Counter()
    for key, nodes in Expected(case.plan).pages().items():
        pages = zip(nodes, run.pages[key], strict=True)
        elsewhere += Counter(planned for planned, node in pages if node != planned)
        asked += Counter(nodes)
    is_missed = elsewhere[FAST] > 0 if case.is_full else elsewhere[FAST] == 0
    others = elsewhere.total() - elsewhere[FAST]
    is_right = is_same and not said and is_missed and others == 0 < asked.total()
    there = asked.total() - elsewhere.total()
    return Row(case.what, asked.total(), there, is_same, is_right, "; ".join(said))


class Expected:
    """Where the plan has the pages of each block in each round."""

    def __init__(self, plan):
        self.plan = plan
        middle = plan.get("middle")
        self.room = {"fast": plan["fast_bytes"] // PAGE}
        if middle:
            self.room["middle"] = middle["bytes"] // PAGE
        names = {"slow": plan["tiers"]["slow"], "fast": plan["tiers"]["fast"]}
        names |= {"middle": middle["tier"]} if middle else {}
        self.node = {tier: int(name.removeprefix("node:")) for tier, name in names.items()}
        #: Of the objects that have a live block, the tier whose bytes count, and how many pages of
        #: it they have; and of the mappings of released ones.
        self.live, self.retained = {}, {}

    def pages(self):
        order = [index for index, count in self.plan["blocks"] for _ in range(count)]
        passing = [index for index in order if self.plan["objects"][index]["blocks"] > 1]
        first, last = passing[:2]
        found, turn = {}, 0
        for at, index in enumerate(order):
            self.move(at)
            self.allocate(index)
            if index == last:
                known = ((self.size(each), self.nodes(each)) for each in self.live if each != first)
                found |= {(turn, size): nodes for size, nodes in known}
                self.retained |= {each: self.live.pop(each) for each in (first, last)}
                turn += 1
        assert turn == ROUNDS
        return found

    def size(self, index):
        return self.plan["objects"][index]["bytes"]

    def count(self, index):
        return -(-self.size(index) // PAGE)

    def nodes(self, index):
        tier, pages = self.live[index]
        return [self.node[tier]] * pages + [self.node["slow"]] * (self.count(index) - pages)

    def allocate(self, index):
        """In its tier, or else in the next slower one that has room."""
        tiers = [tier for tier in ("fast", "middle") if tier in self.room]
        wanted = self.plan["objects"][index]["tier"]
        first = tiers.index(wanted) if wanted in tiers else len(tiers)
        for tier in tiers[first:]:
            place = (tier, self.count(index))
            if self.retained.get(index) == place:
                del self.retained[index]
            elif not self.makes_room(*place):
                continue
            self.live[index] = place
            return
        self.live[index] = ("fast", 0)
        if self.retained.get(index) == self.live[index]:
            del self.retained[index]

    def makes_room(self, tier, wanted):
        """Whether there is; mappings of released blocks have to go if need be."""
        left = self.room[tier] - self.pages_in(tier, self.live)
        if wanted > left - self.pages_in(tier, self.retained):
            kept = {index: place for index, place in self.retained.items() if place[0] != tier}
            self.retained = kept
        return wanted <= left

    @staticmethod
    def pages_in(tier, places):
        return sum(pages for of, pages in places.values() if of == tier)

    def move(self, at):
        for each in self.plan["moves"]:
            index, first, end = each["object"], each["first"], each["first"] + each["pages"]
            _, fast = self.live.get(index, ("fast", 0))
            if each["block"] != at:
                continue
            if each["kind"] == "out" and first < fast <= end:
                self.live[index] = ("fast", first)
            elif (
                each["kind"] == "in" and first <= fast < end and self.makes_room("fast", end - fast)
            ):
                self.live[index] = ("fast", end)


def cells(row):
    share = f"{100 * row.there / row.asked:.2f} %" if row.asked else "unplaced"
    return [row.what, f"{row.asked:,}", share, "yes" if row.is_same else "no", row.said]


def page(rows, image):
    names = ["plan", "pages", "where the plan says", "same output", "memtrace says"]
    return f"""# Placement on two and three nodes

`scripts/experiments placement nodes` boots guests with two NUMA nodes of 512 MB, and with three of
340 (QEMU, emulated; `{image}` of Debian).
It learns a program there, and runs it with plans. The program
(`experiments/placement/programs/nodes.c`) allocates 12 blocks by every function, four of them in
threads, and a block that passes in each of {ROUNDS} rounds. In each round it asks the kernel for
the node of each page (move_pages(2)). A child that it forks reads, changes and releases what it
inherits. An emulated machine says nothing of speed: all nodes are equally fast there.

*Moved there and back*: all pages go to the slow node and come to the fast one; then the last half
of each block goes again, and comes back in two parts. Where there is no room in the fast node,
blocks are placed in the next slower one that has some, and pages stay there. Where that node is
full with memory of other programs, the kernel takes pages of the other.

{table(names, map(cells, rows))}
"""
