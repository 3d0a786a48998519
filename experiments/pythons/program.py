"""The program that each interpreter runs, and what its trace must say."""

import json
import re
import subprocess

SIZES = (4_500_000, 9_000_000)  # what the two calls need

PROGRAM = """\
KEPT = []

def keep():
    for _ in range(20):
        KEPT.append(bytearray(1000000))

def double(size):
    first = bytearray(size)
    return len(first + first)

double(1500000)
double(3000000)
keep()
"""

OPTIONS = ("--quiet", "--kernel", "proc", "--operator", "__main__:double")


def judged(memtrace, trace, refused=None):
    """What the trace says, and whether that is right: all of it, or a note in place of the frames.

    An interpreter that is `refused` has a note, and these working peaks.
    """
    report = answer(memtrace, "--json", trace)
    spans = [span for each in report["operators"] for span in each["spans"]]
    peaks = sorted(span["working_peak_bytes"] for span in spans)
    notes = [note for note in report["notes"] if note.startswith("Python frames")]
    first = answer(memtrace, "--leaks", "--json", trace)["places"][0]
    near = [abs(peak - size) <= size / 100 for peak, size in zip(peaks, SIZES, strict=False)]
    is_read = first["place"] == "program.py:5 keep"
    if refused is None:
        is_right = near == [True, True] and is_read != bool(notes)
    else:
        is_right = peaks == refused and len(notes) == 1
    return {
        "place": first["place"],
        "leak": first["bytes"],
        "peaks": peaks,
        "notes": notes,
        "is_right": is_right,
    }


def answer(memtrace, *arguments):
    command = [memtrace, "report", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def cells(row):
    """The columns of a table that every interpreter has."""
    notes = re.sub(r"process \d+", "process N", " ".join(row["notes"])) or "none"
    peaks = ", ".join(f"{peak:,}" for peak in row["peaks"])
    return (row["python"], f"`{row['place']}`", f"{row['leak']:,}", peaks, notes)
