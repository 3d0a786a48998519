"""Laws of the examples' operators, as anybody would fit them: a sweep over small shapes."""

import sys
from contextlib import suppress

import memtrace

from experiments.recording import KEPT, ROOT
from experiments.recording import memtrace as command

#: As Dask's nannies start their workers.
WORKER = {"MALLOC_TRIM_THRESHOLD_": "65536", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def fitted(operator):
    """The model of one of `examples/operators`, fitted once and kept."""
    folder = KEPT / "chunks" / "models"
    model = folder / f"{operator}.json"
    with suppress(FileNotFoundError, ValueError):  # a model of an earlier format
        return memtrace.Model.load(model)
    folder.mkdir(parents=True, exist_ok=True)
    sweep = ("--operator", f"operators.{operator}:{operator}", "--shapes", "30,30,30..90,90,90")
    kept = ("-o", folder / operator, "--model", model)
    run = (sys.executable, ROOT / "examples" / "run_operator.py", "--operator", operator)
    command(
        "sweep",
        *sweep,
        *kept,
        "--",
        *run,
        "--shape",
        "{shape}",
        "--repeat",
        "3",
        environment=WORKER,
    )
    return memtrace.Model.load(model)
