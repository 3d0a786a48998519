"""Whole runs of `.ci/run` in fresh clones, and the page that lists them."""

import json
import re
import shutil
import subprocess
import time

from experiments.recording import KEPT, RESULTS, ROOT

DONE = KEPT / "suite" / "runs.jsonl"
PAGE = RESULTS / "suite.md"
#: Of a run's row, in the order of the page.
COLUMNS = ("date", "commit", "place", "clone", "beside", "minutes", "status")
COLUMNS += ("passed", "failed", "skipped")
#: Closing lines of pytest and of cargo test.
OUTCOME = re.compile(r"(\d+) (passed|failed|skipped|errors?)\b")


def commit(checkout):
    """The commit that is checked out there."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, cwd=checkout, capture_output=True, check=True, text=True)
    return done.stdout.strip()


def clone(folder):
    """A fresh clone of this checkout there."""
    remove(folder)
    subprocess.run(["git", "clone", "--quiet", ROOT, folder], check=True)


def remove(folder):
    shutil.rmtree(folder, ignore_errors=True)


def state(folder):
    """What is there of earlier runs."""
    if (folder / ".venv").exists():
        return "built"
    return "fresh, dependencies compiled" if (folder / "target").exists() else "fresh"


def run(folder, place, beside="nothing"):
    """Runs everything in the clone there, keeps and returns the figures."""
    cloned = commit(folder)
    built = state(folder)
    name = f"{cloned}-{len(str(folder))}-{beside.split()[0]}-{time.strftime('%H%M')}.log"
    log = DONE.parent / name
    log.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with log.open("wb") as out:
        done = subprocess.run(["bash", ".ci/run"], cwd=folder, stdout=out, stderr=out, check=False)
    row = {
        "commit": cloned,
        "date": time.strftime("%Y-%m-%d"),
        "place": place,
        "clone": built,
        "beside": beside,
        "minutes": round((time.monotonic() - started) / 60, 1),
        "status": done.returncode,
        **outcome(log.read_text(errors="replace")),
    }
    with DONE.open("a") as out:
        out.write(json.dumps(row) + "\n")
    write_page()
    return row


def outcome(text):
    """Tests that passed, failed and were skipped, Rust and Python together."""
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    closing = [line for line in text.splitlines() if " passed" in line or " failed" in line]
    for line in closing:
        for number, what in OUTCOME.findall(line):
            counts["failed" if what.startswith("error") else what] += int(number)
    return counts


def write_page():
    """All runs that were kept, the newest last."""
    rows = [json.loads(line) for line in DONE.read_text().splitlines()]
    lines = ["| " + " | ".join(str(row[column]) for column in COLUMNS) + " |" for row in rows]
    PAGE.write_text(TEXT.format(rows="\n".join(lines)))


TEXT = """# The tests, wherever and whenever

`scripts/experiments suite clones` and `suite busy` run `.ci/run` in fresh clones: at paths of
another length, one of them with a space, and five times in a row beside two processes that compute
without a pause. A clone that is built has the programs and packages of the run before it. The
counts are those of Rust and Python tests together.

| date | commit | path | clone | beside | minutes | exit | passed | failed | skipped |
|---|---|---|---|---|---:|---:|---:|---:|---:|
{rows}
"""
