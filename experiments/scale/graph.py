"""Tasks on small arrays, four of five with arrays as their results and one that reduces them.

Workers import this file: it needs nothing but NumPy and distributed.
"""

import numpy as np

#: Sizes of a task's arrays; its rounds take about a millisecond.
SHAPE, ROUNDS = (64, 100), 16
#: Tasks of a group: three depend on one, and the fifth reduces all four.
GROUP = 5
#: Batches that are submitted and not yet gathered.
IN_FLIGHT = 2


def first(seed):
    return smoothed(np.random.default_rng(seed).random(SHAPE))


def smoothed(block, weight=0.5):
    """Each round makes three arrays and frees three."""
    for _ in range(ROUNDS):
        block = np.sin(block * weight) + 1
    return block


def total(*blocks):
    return float(np.mean([block.sum() for block in blocks]))


def compute(client, tasks, batch):
    """Runs so many tasks in batches, as a notebook does; the sum of all results."""
    groups = batch // GROUP
    waiting, result = [], 0.0
    for begin in range(0, tasks // GROUP, groups):
        waiting.append(submitted(client, range(begin, begin + groups)))
        if len(waiting) == IN_FLIGHT:
            result += sum(client.gather(waiting.pop(0)))
    return result + sum(sum(client.gather(each)) for each in waiting)


def submitted(client, seeds):
    """The futures of a batch's last tasks; the others are released as they are used."""
    blocks = client.map(first, seeds)
    smooth = [client.map(smoothed, blocks, weight=weight) for weight in (0.25, 0.5, 0.75)]
    return client.map(total, blocks, *smooth)
