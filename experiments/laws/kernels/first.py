"""The first set: kernels in Python."""

from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np


def list_of_rows(array):
    """Spectra of rows, appended one by one and stacked."""
    rows = []
    for row in array:
        rows.append(np.abs(np.fft.rfft(row - row.mean())))
    return np.stack(rows)


def packed_log(array):
    """Rows as bytes of half precision, appended to one buffer with a header each."""
    log = bytearray()
    for number, row in enumerate(array):
        log += b"row %06d " % number
        log += row.astype("f2").tobytes()
    return np.frombuffer(bytes(log), "u1")


@lru_cache(maxsize=4)
def taper(length):
    ramp = np.linspace(0, np.pi, length)
    return np.sin(ramp) ** 2


@lru_cache(maxsize=2)
def projection(length):
    """A matrix that takes means of 16 neighbours, kept for the next call."""
    matrix = np.zeros((length // 16 + 1, length))
    for column in range(length):
        matrix[column // 16, column] = 1 / 16
    return matrix


def projected(array):
    """Tapered rows times a matrix that is cached by their length."""
    return (array * taper(array.shape[1])) @ projection(array.shape[1]).T


def smoothed_band(band):
    padded = np.pad(band, ((0, 0), (2, 2)), mode="edge")
    return (
        padded[:, :-4] + padded[:, 1:-3] + padded[:, 2:-2] + padded[:, 3:-1] + padded[:, 4:]
    ) / 5


def threads_over_bands(array):
    """Bands of 64 rows in a pool of four threads."""
    bands = [array[start : start + 64] for start in range(0, len(array), 64)]
    with ThreadPoolExecutor(4) as pool:
        return np.concatenate(list(pool.map(smoothed_band, bands)))


def small_or_large(array):
    """Few numbers are ranked at once; of more than 600,000 every row by itself."""
    if array.size <= 600_000:
        return np.argsort(np.argsort(array, axis=None)).reshape(array.shape) / array.size
    ranks = np.empty(array.shape, "f4")
    for row, rank in zip(array, ranks, strict=True):
        rank[:] = np.argsort(np.argsort(row)) / len(row)
    return ranks


def until_it_settles(array):
    """Averages neighbours until little changes, and keeps every fourth state."""
    now, history = array, []
    for step in range(100):
        following = now.copy()
        following[1:-1] = (now[:-2] + now[1:-1] + now[2:]) / 3
        if step % 4 == 0:
            history.append(following)
        if np.abs(following - now).mean() < 0.01:
            break
        now = following
    return np.mean(history, axis=0)


def pyramid(array):
    """Halves the array until a side is below sixteen; all levels and what each of them lost."""
    levels, details = [array], []
    while min(levels[-1].shape) >= 16:
        level = levels[-1][: levels[-1].shape[0] // 2 * 2, : levels[-1].shape[1] // 2 * 2]
        half = (level[::2, ::2] + level[1::2, ::2] + level[::2, 1::2] + level[1::2, 1::2]) / 4
        details.append(level - np.repeat(np.repeat(half, 2, axis=0), 2, axis=1))
        levels.append(half)
    return details[0]


def counts_of_pairs(array):
    """How often each pair of neighbours occurs, after rounding, in a dict."""
    counts = {}
    rounded = np.rint(array * 200).astype(int)
    for row in rounded:
        for pair in zip(row[:-1].tolist(), row[1:].tolist(), strict=True):
            counts[pair] = counts.get(pair, 0) + 1
    return max(counts.values())


def merge_sorted(array):
    """Rows, sorted, merged two by two."""
    parts = [np.sort(row) for row in array]
    while len(parts) > 1:
        merged = []
        for left, right in zip(parts[::2], parts[1::2], strict=False):
            both = np.empty(len(left) + len(right))
            places = np.searchsorted(left, right) + np.arange(len(right))
            mask = np.ones(len(both), bool)
            mask[places] = False
            both[places] = right
            both[mask] = left
            merged.append(both)
        if len(parts) % 2:
            merged.append(parts[-1])
        parts = merged
    return parts[0]


def text_table(array):
    """Every eighth row as text, joined at the end."""
    lines = []
    for row in array[::8]:
        lines.append(" ".join(f"{number:.4f}" for number in row))
    return "\n".join(lines)


KERNELS = (
    list_of_rows,
    packed_log,
    projected,
    threads_over_bands,
    small_or_large,
    until_it_settles,
    pyramid,
    counts_of_pairs,
    merge_sorted,
    text_table,
)
