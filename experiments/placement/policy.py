"""Trains the policy of `place plan --search policy`, and tries it on programs it never saw.

Its figures are those of programs that were left out of the training, one at a time, and of networks
that no training has. What memtrace comes with is trained on all the programs.
"""

import json
import random
import shutil
import statistics
import tempfile
from pathlib import Path

from experiments.chunks.tables import table
from experiments.placement.catalogue import command_of
from experiments.placement.networks import (
    instance,
    mobilenet,
    resnet,
    sampled,
    transformer,
    unet,
    unsampled,
    vgg,
    with_capacity,
)
from experiments.placement.searching import answers, choices
from experiments.recording import KEPT, RESULTS, ROOT, memtrace

WEIGHTS = ROOT / "analysis" / "src" / "placement" / "search" / "policy" / "weights.json"
SHARES = (0.25, 0.5, 0.75)
SEED = 1
LEAST = 0.8
#: Gains of networks are drawn; their samples are as far off as a fifth.
SPREAD, OFF = 0.5, 0.2
PROGRAMS_RUN = {
    "sparse.c": 40,
    "hash.c": 30,
    "stencil.c": 80,
    "elements.c": 140,
    "shock.c": 16,
    "chase.c": 3,
    "ranks.c": 10,
    "joins.cpp": 3,
    "layers.f90": 8,
    "grades.cpp": 40,
    "rows.f90": 12,
    "panels.f90": 15,
    "weights.c": 40,
    "dips.py": 12,
    "mlp.py": 150,
    "adam.py": 12,
    "attention.py": 5,
}
TRAINED = {"VGG-16": vgg(), "U-Net": unet(), "transformer": transformer(), "MobileNet": mobilenet()}
UNSEEN = {"ResNet-50": resnet([3, 4, 6, 3]), "ResNet-101": resnet([3, 4, 23, 3])}
WAYS = ["policy", "policy, sampled", "density", "first-touch", "random"]


def main(arguments):
    programs = {name: learned(name) for name in PROGRAMS_RUN}
    programs = {name: some for name, some in programs.items() if some}
    trained = {name: drawn(net) for name, net in TRAINED.items()}
    known = programs | trained
    rows = {}
    for name in known:
        others = [each for other in known if other != name for each in known[other]]
        rows[name] = shares(known[name], others)
        print(name, shown(rows[name]), flush=True)
    everything = [each for instances in known.values() for each in instances]
    for name, net in UNSEEN.items():
        rows[name] = shares(drawn(net), everything)
        print(name, shown(rows[name]), flush=True)
    if not arguments.quick:
        write(everything)
        (RESULTS / "placement-policy.md").write_text(page(rows, set(programs)))
    return statistics.mean(rows[name]["policy"] for name in programs) >= LEAST


def is_worth_it(name):
    """Whether the fast tier gains a program more than its estimate is uncertain by."""
    folder = KEPT / "placement-policy" / Path(name).stem
    arguments = ("--fast", "1TB", "-o", folder / "plan.json", "--json")
    return json.loads(memtrace("place", "plan", folder / "runs", *arguments))["worth"]


def learned(name):
    """The instances of a program in which anything gains; its recording is kept."""
    folder = KEPT / "placement-policy" / Path(name).stem
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        output = ("-o", folder / "runs", "--", *command_of(name, folder, PROGRAMS_RUN[name]))
        memtrace("place", "learn", *output, environment={"OPENBLAS_NUM_THREADS": "1"})
        (folder / "done").touch()
    [whole] = answers(("instance", folder / "runs"))
    return [each for each in (with_capacity(whole, share) for share in SHARES) if can_gain(each)]


def can_gain(instance):
    fits = (item for item in instance["items"] if item["bytes"] <= instance["capacity"])
    return any(item["gain"] > 0 for item in fits)


def drawn(net):
    """Instances of a network in training, with samples."""
    draw = random.Random(SEED)
    whole = [instance(net, True, SPREAD, share, draw) for share in SHARES]
    return [sampled(each, OFF, draw) for each in whole]


def trained_on(instances):
    """Weights by instances, with their samples and without."""
    [weights] = answers(("train", SEED), [*instances, *map(unsampled, instances)])
    return weights


def shares(instances, others):
    """The mean share of the best gain, by a policy that was trained on others, and beside it."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(trained_on(others), file)
        file.flush()
        found = {
            "policy": choices("policy", SEED, map(unsampled, instances), file.name),
            "policy, sampled": choices("policy", SEED, instances, file.name),
        }
    found |= {way: choices(way, SEED, instances) for way in ("density", "first-touch")}
    found["random"] = choices("one-random", SEED, instances)
    best = [each["gain"] for each in choices("exact", SEED, instances)]

    def share(answered):
        of = (each["gain"] / most for each, most in zip(answered, best, strict=True) if most > 0)
        return statistics.mean(of)

    return {way: share(each) for way, each in found.items()}


def write(instances):
    WEIGHTS.write_text(json.dumps([round(each, 5) for each in trained_on(instances)]) + "\n")


def shown(of):
    return ", ".join(f"{way} {of[way]:.1%}" for way in WAYS)


def page(rows, programs):
    def cells(what, of):
        return [what, *(f"{of[way]:.1%}" for way in WAYS)]

    def mean(names):
        return {way: statistics.mean(rows[name][way] for name in names) for way in WAYS}

    worth = {name for name in programs if is_worth_it(name)}
    listed = [
        cells(f"`{name}`" if name in programs else name, of)
        + ["" if name not in programs else "yes" if name in worth else "no"]
        for name, of in rows.items()
    ]
    listed.append([*cells("mean of programs", mean(programs)), ""])
    listed.append([*cells("mean of programs that are worth it", mean(worth)), ""])
    listed.append([*cells("mean of networks", mean(set(rows) - programs)), ""])
    reached, of_worth = mean(programs)["policy"], mean(worth)["policy"]
    return f"""# A policy trained on other programs

`scripts/experiments placement policy` trains the network of `memtrace place plan --search policy`.
It sees of each object what one recorded run says (sizes, numbers of blocks, when they are live,
what is allocated between them), and the mean of the same over what is live with it; with samples,
also their share. It learns, by cross-entropy, which objects the exact choice puts into the fast
tier.

Each program or network is left out of the training once, and what the policy chooses for it is
counted by the gains that `place learn` has found: as a share of the exact choice's, in the mean of
capacities of {", ".join(f"{share:.0%}" for share in SHARES)} of its peak. ResNet-50 and
ResNet-101 are in no training. *Policy* has no samples of the program, *sampled* those of one run.
*Random* is one random order.

*Worth it* are programs that gain more in the fast tier than their estimate is uncertain by. Of the
others, the gains of objects are mostly what runs differ by, and no policy can tell them.

{table(["left out", *WAYS, "worth it"], listed)}

Wanted of programs it never saw, without samples: {LEAST:.0%}. Reached: {reached:.1%}, and
{of_worth:.1%} where it is worth it. What a byte gains depends on how it is read, in order or at
random; sizes, lives and the order of allocations do not say that. Samples do.
"""
