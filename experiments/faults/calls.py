"""Fails each system call of recordings and readers, with every error that fits it."""

import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "end_to_end"))

import faults  # noqa: E402

RESULTS = ROOT / "docs/results" / "faults-calls.md"


def main(arguments):
    os.environ["PYTHONPATH"] = str(ROOT / "python")
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        rows = list(measured(faults.Faults(folder), "some" if arguments.quick else "every"))
    if not arguments.quick:
        RESULTS.write_text(page(rows))
    return not any(row["wrong"] for row in rows)


def measured(injected, how):
    """What came of the calls of each command."""
    program = faults.build("faulted.c", injected.folder)
    record = [faults.MEMTRACE, "-q", "-o", "{trace}"]
    python = [sys.executable, faults.TARGETS / "faulted.py"]
    for name, command, judge in (
        ("a C program, its threads and children", [*record, "--", program], faults.Recorded()),
        (
            "the same with `--kernel proc`",
            [*record, "--kernel", "proc", "--", program],
            faults.Recorded(),
        ),
        ("a Python program with operators", [*record, "--", *python], faults.RecordedPython()),
    ):
        yield row(name, injected, command, judge, how)
    trace = injected.run([*record, "--", program]).trace
    for reader in (
        ["report"],
        ["report", "--json"],
        ["report", "--recompute"],
        ["flamegraph", "-o", "-"],
    ):
        command = [faults.MEMTRACE, *reader, "{trace}"]
        judge = faults.Read(injected.run(command, trace=trace))
        yield row(f"`memtrace {' '.join(reader)}`", injected, command, judge, how, trace)


def row(name, injected, command, judge, how, trace=None):
    counted = injected.sites(command, trace)
    chosen = list(faults.choose(counted, how))
    runs = list(injected.all(command, chosen, judge, trace))
    ours = [(run, wrong) for run, wrong in runs if not faults.is_of_the_runtime(run)]
    wrong = [f"{run}: {'; '.join(said)}" for run, said in ours if said]
    for each in wrong:
        print(f"    {each}", flush=True)
    outcomes = Counter(outcome(run) for run, said in ours if not said)
    return {
        "name": name,
        "sites": len({(run.fault.site, run.fault.lasts) for run, _ in ours}),
        "faults": len(ours),
        "outcomes": outcomes,
        "wrong": wrong,
        "changed": sum("the program:" in " ".join(said) for _, said in ours),
        "silent": sum("silent:" in " ".join(said) for _, said in ours),
        "runtime": len(runs) - len(ours),
    }


def outcome(run):
    if run.stderr:
        return "said"
    return "whole"


def page(rows):
    """The page of results."""
    text = """# System calls that fail

`scripts/experiments faults` writes this page. `tests/targets/faults.c` counts the system calls of
memtrace's threads, of the child that becomes the command, and of the probe's code in recorded
processes, raw ones too (ptrace(2)). Then it fails one at a time, with each error that fits it, or
all from one on (a full disk, no descriptors), and a program that counts for itself is compared with
its trace.

- **whole**: the answer is the same as without the fault, or the trace notes what it lacks.
- **said**: one sentence says what failed; a trace that was cut short could be recovered.

| command | sites | faults | whole | said | programs changed | silent losses | otherwise wrong |
|---|---|---|---|---|---|---|---|
"""
    for each in rows:
        other = len(each["wrong"]) - each["changed"] - each["silent"]
        text += (
            f"| {each['name']} | {each['sites']} | {each['faults']} | {each['outcomes']['whole']} "
            f"| {each['outcomes']['said']} | {each['changed']} | {each['silent']} | {other} |\n"
        )
    total = sum(each["faults"] for each in rows)
    runtime = sum(each["runtime"] for each in rows)
    text += f"""
{total} faults together. {runtime} more ended in the Rust runtime, in words of its own: without memory for
the signal stack of a thread, before any code of memtrace runs, and where closedir(3) fails.
"""
    wrong = [f"- {each}\n" for row in rows for each in row["wrong"]]
    return text + ("\nWhat was wrong:\n\n" + "".join(wrong) if wrong else "")
