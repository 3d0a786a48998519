"""Regions that tile an array, for any sequence of requested chunks."""

import math

import numpy as np


class Tiling:
    """What is left of an array, in atoms: the pieces that every region is made of."""

    def __init__(self, shape, atom):
        self.shape, self.atom = tuple(shape), tuple(atom)
        self.free = np.ones([-(-n // a) for n, a in zip(self.shape, self.atom)], bool)
        self.left = math.prod(self.shape)  # cells of no region yet

    def take(self, chunk):
        """The next region of at most `chunk` cells along each axis; None if nothing is left.

        A whole chunk at the first corner of what is free that has room for it, else the largest
        part of one that fits anywhere.
        """
        if not self.left:
            return None
        atoms = tuple(max(1, c // a) for c, a in zip(chunk, self.atom))
        box = self._largest(atoms)
        self.free[box] = False
        region = self._region(box)
        self.left -= _cells(region)
        return region

    def restore(self, region):
        """Makes a region that was taken free again."""
        box = tuple(slice(cut.start // a, -(-cut.stop // a)) for cut, a in zip(region, self.atom))
        self.free[box] = True
        self.left += _cells(region)

    def _largest(self, atoms):
        largest, most = None, 0
        for corner in self._corners():
            box = self._grown(corner, atoms)
            size = math.prod(cut.stop - cut.start for cut in box)
            if size == math.prod(atoms):
                return box
            if size > most:
                largest, most = box, size
        return largest

    def _corners(self):
        """Free atoms whose neighbours before them are not, along every axis."""
        corner = self.free.copy()
        for axis in range(corner.ndim):
            before = np.zeros_like(corner)
            later = [slice(None)] * corner.ndim
            earlier = list(later)
            later[axis], earlier[axis] = slice(1, None), slice(None, -1)
            before[tuple(later)] = self.free[tuple(earlier)]
            corner &= ~before
        return np.argwhere(corner)

    def _grown(self, corner, atoms):
        """From an atom as far as it is free, along one axis after the other."""
        box = [slice(int(at), int(at) + 1) for at in corner]
        for axis in reversed(range(len(box))):
            while True:
                at, end = box[axis].start, box[axis].stop
                piece = self.free[tuple([*box[:axis], slice(end, end + 1), *box[axis + 1 :]])]
                if end - at >= atoms[axis] or not piece.size or not piece.all():
                    break
                box[axis] = slice(at, end + 1)
        return tuple(box)

    def _region(self, box):
        return tuple(
            slice(cut.start * a, min(n, cut.stop * a))
            for cut, a, n in zip(box, self.atom, self.shape)
        )


def _cells(region):
    return math.prod(cut.stop - cut.start for cut in region)


def atoms_of(shape, align, whole_axes, most):
    """Lengths of the atoms: at most `most` along an axis, each a multiple of the store's chunk."""
    found = []
    for axis, n in enumerate(shape):
        unit = align[axis] if align else 1
        pieces = -(-n // unit)
        found.append(n if axis in whole_axes else unit * -(-pieces // most))
    return tuple(found)


def chunk_shapes(shape, atom):
    """Chunks of whole atoms: 1, 2, 3, 4, 6, 8, 12, 16, … of them along each axis, and all."""
    lengths = []
    for n, a in zip(shape, atom):
        count, steps = -(-n // a), set()
        for power in range(count.bit_length()):
            steps |= {2**power, 3 * 2**power}
        lengths.append(sorted({min(n, a * step) for step in steps if step < count} | {n}))
    grid = [()]
    for own in lengths:
        grid = [(*chunk, length) for chunk in grid for length in own]
    return grid
