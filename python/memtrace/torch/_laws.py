"""Laws of dry runs, and the largest batch that fits."""

from .._extension import native
from .._planning import names, sizes
from ._allocator import OutOfMemory
from ._dry_run import device_of, dry_run
from ._events import Allocate, Free

#: What the CUDA context takes outside of PyTorch's figures.
CONTEXT_BYTES = 500_000_000
_LARGEST = 1 << 24


def fit(step, shapes, **options):
    """A law of what a program needs on a GPU, from dry runs at a few shapes.

    Args:
        step: As `dry_run` takes it; each shape is its arguments: `step(batch, length)` for
            (4, 256).
        shapes: Three or more; lengths without common factors are the most informative.
        **options: As for `dry_run`.

    Returns:
        A `memtrace.Model`, whose `predict(operator, shape)["device"]["peak_bytes"]` is the sum of
            what was requested at its peak; the operator is the step's name.

    Examples:
        >>> model = fit(train, [(2, 96), (3, 160), (5, 224), (7, 288)])
        >>> model.predict("train", (64, 2048))["device"]["peak_bytes"]
    """
    fit_dry_runs = native("fit_dry_runs")
    name = names.names_of(step)[0]
    runs = [(list(shape), *_sequence(dry_run(step, *shape, **options))) for shape in shapes]
    return fit_dry_runs(name, runs)


def _sequence(run):
    """Bytes of the blocks; events as numbers, -1 - n where n is released; what was reserved."""
    blocks = [event.bytes for event in run.events if isinstance(event, Allocate)]
    events = []
    for event in run.events:
        if isinstance(event, Allocate):
            events.append(event.number)
        elif isinstance(event, Free):
            events.append(-1 - event.number)
    return blocks, events, _peaks(run)[1]


def _peaks(run):
    """Most bytes allocated and reserved in the whole run: `torch.cuda.reset_peak_memory_stats`,
    which the program may call, has PyTorch's own counters begin anew."""
    return max((a for a, _ in run.timeline), default=0), max(
        (r for _, r in run.timeline), default=0
    )


def recommend_batch(step, device_memory_limit, *args, largest=_LARGEST, multiple=1, **options):
    """The largest batch with which a program fits on a GPU, by dry runs.

    Args:
        step: Called as `step(batch, *args)`, as `dry_run` calls it.
        device_memory_limit: Bytes of the GPU, or a text like "80 GB"; the CUDA context takes
            CONTEXT_BYTES of it.
        *args: Further arguments of the step.
        largest: The largest batch to try.
        multiple: The batch is a multiple of this.
        **options: `gpu` and `settings` as for `dry_run`.

    Returns:
        A dict: `batch`, `allocated_peak`, `reserved_peak` (of the whole run, on this GPU; bytes),
            `device_memory_limit`, `why`.

    Raises:
        MemoryError: Not even the smallest fits; the message says what that one needs.
        ValueError: A limit or `multiple` is invalid.
    """
    limit = sizes.parse(device_memory_limit)
    if multiple < 1:
        raise ValueError(f"multiple must be at least 1, not {multiple}")
    capacity = max(limit - CONTEXT_BYTES, 0)
    peaks = {}
    options["gpu"] = device_of(options.get("gpu"), limit)

    def fits(count):
        run = dry_run(step, count * multiple, *args, **options)
        peaks[count] = allocated, reserved = _peaks(run)
        if reserved <= capacity:
            return True
        try:  # with free segments released
            peaks[count] = allocated, run.replay(capacity=capacity).reserved_peak
        except OutOfMemory:
            return False
        return True

    most = max(largest // multiple, 1)
    if not fits(1):
        raise MemoryError(
            f"a batch of {multiple} does not fit into {sizes.text(limit)}: it allocates "
            f"{sizes.text(peaks[1][0])}, and {sizes.text(CONTEXT_BYTES)} are the CUDA context's"
        )
    good, bad = 1, None
    while bad is None and good < most:
        tried = min(2 * good, most)
        good, bad = (tried, None) if fits(tried) else (good, tried)
    while bad is not None and bad - good > 1:
        tried = (good + bad) // 2
        good, bad = (tried, bad) if fits(tried) else (good, tried)
    allocated, reserved = peaks[good]
    why = [
        f"a batch of {good * multiple} allocates {sizes.text(allocated)} at its peak, for which "
        f"{sizes.text(reserved)} are reserved",
        f"{sizes.text(CONTEXT_BYTES)} of {sizes.text(limit)} are the CUDA context's",
    ]
    if bad is not None:
        allocates, reserves = map(sizes.text, peaks[bad])
        why.insert(1, f"one of {bad * multiple}, {allocates} and {reserves}")
    return {
        "batch": good * multiple,
        "allocated_peak": allocated,
        "reserved_peak": reserved,
        "device_memory_limit": limit,
        "why": "; ".join(why),
    }
