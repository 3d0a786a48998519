"""Whole runs of `.ci/run` in fresh clones, and the page that lists them."""

import json
import re
import resource
import shutil
import subprocess
import time

from experiments.recording import KEPT, RESULTS, ROOT

DONE = KEPT / "suite" / "runs.jsonl"
PAGE = RESULTS / "suite.md"
#: Of a run's row, in the order of the page.
COLUMNS = ("date", "commit", "place", "clone", "beside", "minutes", "cpu_minutes", "status")
COLUMNS += ("passed", "failed", "skipped")
#: How scripts/test begins a stage.
HEADING = "== "
#: Closing lines of pytest and of cargo test.
OUTCOME = re.compile(r"(\d+) (passed|failed|skipped|errors?)\b")
#: What tests/conftest.py lists: seconds of a processor, and a file of tests.
OF_A_FILE = re.compile(r"^ *([\d.]+)s (\S+\.py)$", re.MULTILINE)


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
    cpu, started = cpu_seconds(), time.monotonic()
    status, stages = watched(folder, log)
    text = log.read_text(errors="replace")
    row = {
        "commit": cloned,
        "date": time.strftime("%Y-%m-%d"),
        "place": place,
        "clone": built,
        "beside": beside,
        "minutes": round((time.monotonic() - started) / 60, 1),
        "cpu_minutes": round((cpu_seconds() - cpu) / 60, 1),
        "stages": stages,
        "files": {file: float(seconds) for seconds, file in OF_A_FILE.findall(text)},
        "status": status,
        **outcome(text),
    }
    with DONE.open("a") as out:
        out.write(json.dumps(row) + "\n")
    write_page()
    return row


def watched(folder, log):
    """Exit status, and the minutes from each heading to the next."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    begun = [("begin", time.monotonic())]
    with (
        log.open("w", buffering=1) as out,
        subprocess.Popen(["bash", ".ci/run"], cwd=folder, errors="replace", **options) as process,
    ):
        for line in process.stdout:
            out.write(line)
            if line.startswith(HEADING):
                begun.append((line.removeprefix(HEADING).strip(), time.monotonic()))
    ends = [moment for _, moment in begun[1:]] + [time.monotonic()]
    stages = {}
    for (name, start), end in zip(begun, ends, strict=True):
        stages[name] = stages.get(name, 0) + (end - start) / 60
    return process.returncode, {name: round(minutes, 1) for name, minutes in stages.items()}


def cpu_seconds():
    """Of all processes that were started here and have ended, and of those that they waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


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
    lines = [
        "| " + " | ".join(str(row.get(column, "")) for column in COLUMNS) + " |" for row in rows
    ]
    PAGE.write_text(TEXT.format(rows="\n".join(lines), stages=stages(rows), files=files(rows)))


def stages(rows):
    """The newest fresh and the newest built run, stage by stage; early rows have no stages."""
    newest = {row["clone"]: row for row in rows if "stages" in row}
    if not newest:
        return "None was kept."
    names = dict.fromkeys(name for row in newest.values() for name in row["stages"])
    lines = ["| stage | " + " | ".join(newest) + " |", "|---|" + "---:|" * len(newest)]
    for name in names:
        minutes = (str(row["stages"].get(name, "")) for row in newest.values())
        lines.append(f"| {name} | " + " | ".join(minutes) + " |")
    return "\n".join(lines)


def files(rows):
    """What took most processor time in the newest run that says so."""
    named = [row for row in rows if row.get("files")]
    if not named:
        return "None was kept."
    most = sorted(named[-1]["files"].items(), key=lambda item: -item[1])
    lines = ["| file | processor seconds |", "|---|---:|"]
    return "\n".join(lines + [f"| `{file}` | {seconds:.0f} |" for file, seconds in most])


TEXT = """# The tests, wherever and whenever

`scripts/experiments suite clones` and `suite busy` run `.ci/run` in fresh clones: at paths of
another length, one of them with a space, and five times in a row beside two processes that compute
without a pause; `suite idle` runs it in a fresh clone beside nothing, and again. A clone that is
built has the programs and packages of the run before it. The counts are those of Rust and Python
tests together; CPU minutes are those of all processes, for which there are two processors.

A built clone was to take 12 minutes. In the way is processor time: 23 minutes of it, for 2,900
tests, are 11.7 minutes on two processors that never wait. Nearly half are cluster, framework and
browser tests, each of which starts programs that import for a second; no file takes more than 5 %.
Five and six workers in place of four were no faster, and modules that are compiled one time saved
4 % and made peaks differ from run to run.

| date | commit | path | clone | beside | minutes | CPU minutes | exit | passed | failed | skipped |
|---|---|---|---|---|---:|---:|---:|---:|---:|---:|
{rows}

Minutes of each stage, of the newest runs of which they were kept:

{stages}

Files of tests that took most processor time, with the programs that they start:

{files}
"""
