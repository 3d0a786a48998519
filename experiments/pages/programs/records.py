"""Readings of stations: a text of lines, parsed, then grouped and summed up."""

import json
import random


def made(number):
    """A line for each reading."""
    draw = random.Random(7)
    names = [f"station {n:03}" for n in range(200)]
    return [
        json.dumps({"station": draw.choice(names), "values": [draw.random() for _ in range(8)]})
        for _ in range(number)
    ]


def parsed(lines):
    """The readings."""
    return [json.loads(line) for line in lines]  # most bytes at the peak


def grouped(readings):
    """Readings by station."""
    groups = {}
    for reading in readings:
        groups.setdefault(reading["station"], []).append(reading)
    return groups


def main():
    groups = grouped(parsed(made(60_000)))
    means = {
        name: sum(sum(reading["values"]) for reading in group) / len(group)
        for name, group in groups.items()
    }
    print(len(means), max(means.values()))


if __name__ == "__main__":
    main()
