"""Peaks of a program (`compare.py PROGRAM JSON`) on the stand-in GPU; without it, by a dry run."""

import importlib
import json
import os
import sys

import torch

name, arguments = sys.argv[1], json.loads(sys.argv[2])
main = importlib.import_module(name).main
if os.environ.get("STANDIN_NONE"):
    from memtrace.torch import dry_run

    run = dry_run(main, **arguments)
    peaks = run.allocated_peak, run.reserved_peak
else:
    torch.backends.cudnn.enabled = False
    main(**arguments)
    peaks = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
print(json.dumps(peaks))
