"""The byte counts of docs/derivations.md hold on the installed NumPy and SciPy."""

import json
import subprocess
import sys
from pathlib import Path

import check_derivations
import operators
import pytest
from volume import synthetic

EXAMPLES = Path(check_derivations.__file__).parent
SHAPE = (80, 90, 100)
SCRIPT = [sys.executable, EXAMPLES / "check_derivations.py"]


@pytest.mark.parametrize("name", operators.NAMES)
def test_numpy_allocates_what_was_derived(name):
    measured = check_derivations.traced_peak(name, synthetic(SHAPE))
    assert measured == pytest.approx(check_derivations.derived_arrays(name, SHAPE), rel=0.002)


def test_figures_of_the_document():
    # docs/derivations.md, evaluated at 100³.
    counts = {
        name: (
            check_derivations.derived_arrays(name, (100, 100, 100)),
            check_derivations.derived_buffers(name, (100, 100, 100)),
        )
        for name in operators.NAMES
    }
    assert counts == {
        "gst3d": (192_003_168, 0),
        "envelope": (16_000_000, 6_400),
        "gaussian": (4_000_000, 462_336),
        "semblance": (8_000_000, 505_808),
    }


def report(*spans):
    keys = ("working_peak_bytes", "one_time_bytes")
    return {
        "operators": [
            {
                "name": "operators.gst3d:gst3d",
                "spans": [
                    {"inputs": [{"shape": [100, 100, 100], "dtype": "<f4"}]}
                    | dict(zip(keys, span, strict=True))
                    for span in spans
                ],
            },
            {"name": "numpy.linalg:eigh", "spans": [{}]},
        ]
    }


@pytest.mark.parametrize(
    ("spans", "status"),
    [
        ([(225_600_000, 33_554_432), (192_100_000, 0)], 0),  # the first call is not judged
        ([(192_100_000, 0), (193_500_000, 0)], 1),
        ([(190_500_000, 0)], 1),
        ([(225_600_000, 33_554_432)], 1),  # nothing to judge
    ],
)
def test_a_report_is_judged_by_its_steady_spans(tmp_path, spans, status):
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report(*spans)))
    done = subprocess.run([*SCRIPT, "--report", path], check=False, capture_output=True, text=True)
    assert done.returncode == status, done.stdout + done.stderr
