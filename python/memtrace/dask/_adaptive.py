"""Chunks that are learned while the job runs, from no model (docs/learning.md).

Each block's chunk is chosen when it is submitted, and never changed after. Workers report what each
block needed; the next is chosen by that, and never one whose bound is above the budget of a task.
"""

import math

from .._extension import native
from .._planning import sizes
from ._halo import block_shape, most, sides, whole_axes_of
from ._stored import storage_bytes
from ._tiling import Tiling, atoms_of, chunk_shapes
from ._waves import Flight, Written, outcome

#: Pieces along an axis that chunks are made of.
MOST_ATOMS = 16
#: The first block is at most this part of a task's budget: few operators need 500 times their
#: input.
FIRST = 1 / 500
#: A small array is cut into at most this many blocks for each slot.
MOST_PER_SLOT = 4
#: After this many measured blocks, or this part of the cells, the best known chunk is taken.
ENOUGH, TRIED = 8, 0.3
#: Chunks that compute more halo cells than others, by this factor or more, are not tried.
EXCESS = 1.1
LEAST_HALO = 2
#: With fewer blocks left for each slot than this, all slots should end together.
NEARLY = 2


def run_adaptively(job, workers, whole_axes, align, in_flight):
    """All blocks, in chunks that are chosen by what those before them needed."""
    budget = workers.task_budget()
    learner = Learner(job, workers, budget, set(whole_axes_of(job.x.shape, whole_axes)), align)
    needs = None if workers.declared is None else {"memory": budget}
    blocks = []
    with Flight(job, in_flight, workers.slots) as flight:
        while learner.tiling.left or flight.running:
            while learner.tiling.left and not flight.is_full():
                region, measure = learner.next()
                flight.submit(region, needs, measure)
            future, region = flight.next()
            try:
                answer = outcome(future)
            except MemoryError:
                learner.failed(region)
                continue
            blocks.append(job.finished(region, flight.seconds, answer))
            learner.observe(blocks[-1])
        return Written(blocks, flight.seconds)


class Learner:
    """Which region comes next, and what is known of those before."""

    def __init__(self, job, workers, budget, whole_axes, align):
        self.job, self.slots, self.threads = job, workers.slots, workers.threads
        shape, self.item = job.x.shape, job.x.dtype.itemsize
        atom = atoms_of(shape, align, whole_axes, MOST_ATOMS)
        self.tiling = Tiling(shape, atom)
        self.total = self.tiling.left
        chunks = [
            chunk for chunk in chunk_shapes(shape, atom) if self._least_bytes(chunk) <= budget
        ]
        if not chunks:
            raise MemoryError(
                f"no chunk fits: blocks of {'×'.join(map(str, self._block(atom)))}, read and "
                f"stored, are more than the budget of a task, {sizes.text(budget)}"
            )
        self.chunks = self._worth_trying(self._not_too_small(chunks, budget))
        self.chooser = native("ChunkChooser")(
            shape,
            budget,
            workers=workers.number,
            threads_per_worker=workers.threads,
            halo=[most(side) for side in job.depths.values()],
            whole_axes=sorted(whole_axes),
            chunks=self.chunks,
        )
        self.taken = {}  # start of a region -> the chunk it was cut by
        self.known = {}  # chunk -> what it was measured to need
        self.measured = 0

    def _not_too_small(self, chunks, budget):
        """Without those that are smaller than the first has to be: they would only cost time."""

        def part(chunk):
            return math.prod(self._block(chunk)) * self.item / budget

        # A small array is cut into no more pieces than let all workers end together.
        share = math.prod(self.job.x.shape) * self.item / budget / (MOST_PER_SLOT * self.slots)
        enough = [chunk for chunk in chunks if part(chunk) >= min(FIRST / 4, share)]
        safe = [chunk for chunk in chunks if part(chunk) <= FIRST]
        first = max(safe, key=part) if safe else min(chunks, key=part)
        return enough if first in enough else [first, *enough]

    def _worth_trying(self, chunks):
        """Without those that compute much more halo than others that are no larger; thin ones would
        also leave thin pieces over."""
        depths = {axis: max(LEAST_HALO, *sides(side)) for axis, side in self.job.depths.items()}
        chunks = sorted(chunks, key=math.prod)
        kept, least = [], math.inf
        for chunk in chunks:
            excess = math.prod(block_shape(chunk, self.job.x.shape, depths)) / math.prod(chunk)
            least = min(least, excess)
            if excess <= EXCESS * least:
                kept.append(chunk)
        return kept

    def _least_bytes(self, chunk):
        """What a task needs whatever the function does: the block and as large a result, or one of
        them and the buffers of reading or storing it."""
        job, block = self.job, self._block(chunk)
        source = job.x if job.source is None else job.source
        buffers = storage_bytes(source, block), storage_bytes(job.store, chunk, aligned=True)
        return math.prod(block) * self.item + max(math.prod(block) * self.item, *buffers)

    def _block(self, chunk):
        return block_shape(chunk, self.job.x.shape, self.job.depths)

    def next(self):
        """A region, and whether what it needs is to be measured."""
        explores = self.measured < ENOUGH and self.tiling.left > (1 - TRIED) * self.total
        chunk = tuple(self.chooser.choose() if explores else self.chooser.best())
        region = self.tiling.take(chunk if explores else self._share(chunk))
        self.taken[_corner(region)] = chunk
        # A block is measured exactly if it runs by itself in its process; with one thread all do.
        measure = self.threads == 1 or (chunk not in self.known and self._is_whole(region, chunk))
        return region, measure

    def _share(self, best):
        """The best chunk, or a part of it that lets all workers end sooner, once little is left."""
        known = self.chooser.belief(best)["seconds"] is not None
        if not known or self.tiling.left >= NEARLY * self.slots * math.prod(best):
            return best
        parts = [c for c in self.chunks if all(own <= most for own, most in zip(c, best))]
        return min(parts, key=self._rest_seconds)

    def _rest_seconds(self, chunk):
        """What is left in chunks of this shape: rounds of all slots, times the seconds of one."""
        tasks = math.prod(-(-n // c) for n, c in zip(self.job.x.shape, chunk))
        task = self.chooser.belief(chunk)["seconds"] / -(-tasks // self.slots)
        return -(-self.tiling.left // (math.prod(chunk) * self.slots)) * task

    def _is_whole(self, region, chunk):
        return tuple(cut.stop - cut.start for cut in region) == chunk

    def observe(self, block):
        """Takes in what a block of its chunk's full size needed.

        One at a face has less halo than others: it counts as a block in the middle.
        """
        chunk = self.taken.pop(_corner(block.region))
        if not self._is_whole(block.region, chunk):
            return
        cells = math.prod(cut.stop - cut.start for cut in self.job.with_halo(block.region))
        larger = math.prod(self._block(chunk)) / cells
        if block.bytes is not None:
            self.known[chunk] = max(int(block.bytes * larger), self.known.get(chunk, 0))
            self.measured += 1
        if chunk in self.known:
            self.chooser.observe(chunk, self.known[chunk], block.seconds * larger)

    def failed(self, region):
        """A block needed more than there is: its chunk is not chosen again."""
        chunk = self.taken.pop(_corner(region))
        self.chooser.failed(chunk)
        self.tiling.restore(region)


def _corner(region):
    return tuple(cut.start for cut in region)
