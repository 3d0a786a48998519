"""scripts/bench runs and says what it should; what it measures is not checked."""

import json
import subprocess
import sys

import pytest
from conftest import ROOT

pytestmark = pytest.mark.serial

QUICK = (sys.executable, ROOT / "scripts" / "bench", "--quick", "--as-installed")


@pytest.fixture(scope="module")
def page():
    """Printed for one group of programs; peers that are not installed are named and left out."""
    done = subprocess.run([*QUICK, "fifo"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def table_after(page, heading):
    """Rows of the first table after a heading, as lists of cells."""
    lines = page.partition(f"\n## {heading}\n")[2].strip().splitlines()
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def test_every_row_has_every_column(page):
    for heading in ("Targets", "fifo"):
        heads, rule, *rows = table_after(page, heading)
        assert set(rule) == {"---"}
        assert rows and {len(row) for row in rows} == {len(heads)}


def test_the_target_is_judged(page):
    heads, _, row = table_after(page, "Targets")
    line = dict(zip(heads, row, strict=True))
    assert (line["row"], line["target"]) == ("6", "≤ 2.6 B")
    reached = float(line["memtrace"].removesuffix(" B"))
    assert reached > 0
    assert line["verdict"].startswith("met" if reached <= 2.6 else "missed by ")


def test_the_program_is_compared_with_itself(page):
    heads, _, *rows = table_after(page, "fifo")
    tools = {row[0]: dict(zip(heads, row, strict=True)) for row in rows}
    recorded = next(tools[name] for name in tools if name.startswith("memtrace"))
    assert recorded["target CPU"].endswith("×)") and not tools["bare"]["target CPU"].endswith("×)")
    assert recorded["target / event"].endswith(" ns")


def test_the_figures_are_kept(page):
    newest = max((ROOT / "build" / "bench").glob("results-*.json"))
    kept = json.loads(newest.read_text())
    runs = kept["groups"]["fifo"]["bare"]
    assert len(runs) == kept["scale"]["rounds"]
    assert all(run["calls"] >= 2 * kept["scale"]["pairs"] for run in runs)


def test_an_unknown_group_is_an_error():
    done = subprocess.run([*QUICK, "nonsense"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "nonsense" in done.stderr
