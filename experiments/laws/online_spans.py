"""Spans to be followed: forty operators as their laws know them, and as they do not.

    python -m experiments.laws.online_spans training        small float32 runs, for the laws
    python -m experiments.laws.online_spans tests           larger runs: float64, a second copy too

Both are recorded by the online-learning study, each as one trace.
"""

import sys

from experiments.operators import OPERATORS
from experiments.operators.run import WARM_UP, function, volume

TRAINING = ((38, 41, 43), (45, 46, 47), (49, 53, 52), (58, 59, 55))
TESTS = ((72, 83, 91), (101, 64, 77))
COPIED = f"{__name__ if __name__ != '__main__' else 'experiments.laws.online_spans'}:second_copy"


def second_copy(data, call):
    """An operator that works on a copy of its input and keeps the input."""
    kept = data.copy()
    result = call(kept)
    return result, kept


def main():
    import experiments.laws.online_spans as recorded  # the name that is watched

    for name in OPERATORS:
        call = function(name)
        call(volume(WARM_UP))
        if sys.argv[1] == "training":
            for shape in TRAINING:
                call(volume(shape))
            continue
        for shape in TESTS:
            call(volume(shape))
            call(volume(shape, "float64"))
            recorded.second_copy(volume(shape), call)
        print(name, flush=True)


if __name__ == "__main__":
    main()
