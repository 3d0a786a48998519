"""The summary of a training loop on the CPU: on one screen, with the modules as operators."""

import os
import sys
from pathlib import Path

import pytest
import summaries

ROOT = Path(__file__).resolve().parents[2]
TORCH = ROOT / "target" / "torch"

TRAINING = """\
import torch

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(
    torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 10)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(3):
    x = torch.randn(16384, 512)
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
import os
os._exit(0)
"""


@pytest.fixture(scope="module")
def trace(runtime, memtrace, tmp_path_factory):
    folder = tmp_path_factory.mktemp("summary")
    script = folder / "train.py"
    script.write_text(TRAINING)
    # Where pip installs packages: those in other folders count as the user's own code.
    packages = folder / "site-packages"
    packages.symlink_to(TORCH)
    path = os.pathsep.join([str(ROOT / "python"), str(packages)])
    variables = {"LD_LIBRARY_PATH": str(runtime), "PYTHONPATH": path, "STANDIN_NONE": "1"}
    memtrace("-o", folder / "trace", sys.executable, "-W", "ignore", script, **variables)
    return folder / "trace"


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_it_fits_a_screen(trace, memtrace, columns):
    text = memtrace("report", trace, COLUMNS=str(columns))
    rows = summaries.check(text, columns)
    assert rows[0].label.startswith("train.py:"), text
    summaries.compare(f"torch-{columns}", text, trace)
