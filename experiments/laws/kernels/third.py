"""The third set: kernels in Python."""

import csv
import heapq
import io
from array import array as machine_numbers
from queue import Queue
from threading import Thread

import numpy as np


def queue_of_blocks(array):
    """A thread standardises blocks of 32 rows; at most four wait for the one that sums them up."""
    blocks = Queue(4)

    def produce():
        for start in range(0, len(array), 32):
            block = array[start : start + 32]
            blocks.put((block - block.mean()) / block.std())
        blocks.put(None)

    producer = Thread(target=produce)
    producer.start()
    parts = []
    while (block := blocks.get()) is not None:
        parts.append(block.cumsum(axis=1)[:, ::4])
    producer.join()
    return np.vstack(parts)


KNOWN = {}


def remembered_basis(array):
    """Coefficients in a cosine basis that stays for the next array of as many columns."""
    length = array.shape[1]
    if length not in KNOWN:
        if len(KNOWN) == 3:
            KNOWN.pop(next(iter(KNOWN)))
        KNOWN[length] = np.cos(np.outer(np.arange(24), np.arange(length) + 0.5) * np.pi / length)
    return array @ KNOWN[length].T


def crossings(array):
    """Where rows cross one half, in an array of machine integers that grows."""
    found = machine_numbers("q")
    for number, row in enumerate(array):
        for place in np.flatnonzero(np.diff(row > 0.5)).tolist():
            found.append(number * array.shape[1] + place)
    return np.asarray(found)


def joined_parts(array):
    """Medians of 24 rows each, appended by copying."""
    result = np.empty(0)
    for start in range(0, len(array), 24):
        result = np.append(result, np.median(array[start : start + 24], axis=0))
    return result


def two_ways_to_smooth(array):
    """By a transform where both sides are above 1,000, else by adding shifted copies."""
    if min(array.shape) > 1000:
        transfer = np.exp(-np.fft.rfftfreq(array.shape[1]) * 30)
        return np.fft.irfft(np.fft.rfft(array, axis=1) * transfer, array.shape[1], axis=1)
    result = array.copy()
    for shift in range(1, 6):
        result += np.roll(array, shift, axis=1)
    return result / 6


def clusters_of_rows(array):
    """Rows in five clusters, until no row moves."""
    centres = array[:5].copy()
    nearest = np.full(len(array), -1)
    for _ in range(30):
        far = np.stack([((array - centre) ** 2).sum(axis=1) for centre in centres])
        moved = far.argmin(axis=0)
        if (moved == nearest).all():
            break
        nearest = moved
        members = (array[nearest == cluster] for cluster in range(5))
        centres = np.stack([of.mean(axis=0) if len(of) else array[0] for of in members])
    return nearest


def recursive_means(array):
    """Quarters of quarters: each part less its mean, put together again."""
    if min(array.shape) < 32:
        return array - array.mean()
    rows, columns = array.shape[0] // 2, array.shape[1] // 2
    upper = [recursive_means(array[:rows, :columns]), recursive_means(array[:rows, columns:])]
    lower = [recursive_means(array[rows:, :columns]), recursive_means(array[rows:, columns:])]
    return np.block([upper, lower])


def heap_of_peaks(array):
    """Local maxima along rows in a heap; the 1,000 highest come out."""
    heap = []
    for number, row in enumerate(array):
        inner = row[1:-1]
        peaks = np.flatnonzero((inner > row[:-2]) & (inner > row[2:]) & (inner > 0.7))
        for place in peaks.tolist():
            heapq.heappush(heap, (-float(inner[place]), number, place))
    return [heapq.heappop(heap) for _ in range(min(1000, len(heap)))]


def sparse_rows(array):
    """Places and values above 0.9 of each row, then one array of all."""
    rows = []
    for row in array:
        places = np.flatnonzero(row > 0.9)
        rows.append((places.astype("i4"), row[places]))
    places = np.concatenate([places for places, _ in rows])
    return places, np.concatenate([values for _, values in rows])


def text_of_table(array):
    """Every tenth row as comma-separated text."""
    text = io.StringIO()
    writer = csv.writer(text)
    for row in array[::10]:
        writer.writerow(row.round(5).tolist())
    return text.getvalue()


KERNELS = (
    queue_of_blocks,
    remembered_basis,
    crossings,
    joined_parts,
    two_ways_to_smooth,
    clusters_of_rows,
    recursive_means,
    heap_of_peaks,
    sparse_rows,
    text_of_table,
)
