"""Recordings of programs that use a framework on the stand-ins for CUDA's libraries and driver."""

import json
import os
import sys
from typing import NamedTuple

from conftest import Recording, memtrace
from cuda_standin import read_oracle


class Recorded(NamedTuple):
    """A recorded program."""

    told: object  # what it said of itself: the last line, JSON
    run: Recording
    report: dict
    driver: dict  # what the stand-in for the driver has counted

    @property
    def device(self):
        """The report's row of the device."""
        [row] = [row for row in self.report["devices"] if row["device"] == 0]
        return row

    def spans(self, operator):
        [found] = [each for each in self.report["operators"] if each["name"] == operator]
        return sorted(found["spans"], key=lambda span: span["call"])


def record(standin, folder, program, *arguments, options=(), **variables):
    """Records a Python program in a new folder, with these variables beside the stand-in's; nothing may go wrong."""
    folder.mkdir()
    variables = standin.variables(STANDIN_REPORT=str(folder / "driver"), **variables)
    command = [sys.executable, "-W", "error", program, *map(str, arguments)]
    done = memtrace(
        *("--quiet", "-o", folder / "trace", *options, "--", *command),
        env={**os.environ, **variables},
    )
    assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode()[-3000:]
    report = json.loads(memtrace("report", "--json", "--all-spans", folder / "trace").stdout)
    assert report["lost"] == {"events": 0, "late_events": 0, "unseen_releases": 0}
    [driver] = read_oracle(folder / "driver").values()
    told = json.loads(done.stdout.splitlines()[-1])
    recording = Recording(folder / "trace", done.returncode, done.stdout, done.stderr)
    return Recorded(told, recording, report, driver)
