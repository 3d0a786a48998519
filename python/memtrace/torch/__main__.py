"""`python -m memtrace.torch`: a dry run, or the largest batch that fits, from the command line."""

import argparse
import runpy
import sys
from pathlib import Path

from .._planning import sizes
from . import Settings


def main():
    """Exit status 3: nothing fits, as `memtrace recommend` has it."""
    parser = argparse.ArgumentParser(
        prog="python -m memtrace.torch",
        description="What a PyTorch program will need on a GPU, without one.",
    )
    parser.add_argument("step", metavar="FILE:FUNCTION", help="what to call")
    parser.add_argument("lengths", metavar="N", type=int, nargs="*", help="its arguments")
    parser.add_argument("--settings", help="as in PYTORCH_CUDA_ALLOC_CONF")
    parser.add_argument(
        "--axis", choices=["batch"], help="find the largest first argument that fits"
    )
    parser.add_argument("--device-memory-limit", metavar="SIZE", help="of the GPU: 80GB")
    given = parser.parse_args()
    if bool(given.axis) != bool(given.device_memory_limit):
        parser.error("--axis batch and --device-memory-limit go together")
    try:
        settings = Settings.given(given.settings)
        limit = sizes.parse(given.device_memory_limit) if given.axis else None
    except ValueError as error:
        parser.error(str(error))
    # PyTorch takes seconds to import.
    from . import NoValue, dry_run, recommend_batch

    step = _function(parser, given.step)
    try:
        if given.axis:
            found = recommend_batch(step, limit, *given.lengths, settings=settings)
            print(f"batch {found['batch']}: {found['why']}")
        else:
            print(dry_run(step, *given.lengths, settings=settings).why)
    except MemoryError as error:
        print(f"python -m memtrace.torch: {error}", file=sys.stderr)
        return 3
    except NoValue as error:
        parser.error(str(error))
    return 0


def _function(parser, place):
    file, _, name = place.rpartition(":")
    if not Path(file).is_file():
        parser.error(f"{place!r} is not FILE:FUNCTION with a Python file that exists")
    sys.path.insert(0, str(Path(file).parent))
    found = runpy.run_path(file, run_name="__memtrace__").get(name)
    if not callable(found):
        parser.error(f"{file} has no function {name!r}")
    return found


if __name__ == "__main__":
    sys.exit(main())
