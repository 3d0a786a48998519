"""What a dry run found."""

from collections import Counter
from dataclasses import dataclass, field

from .._planning import sizes
from ._allocator import Allocator
from ._events import Allocate, Empty, Free
from ._settings import Settings


@dataclass
class DryRun:
    """What a program would need on a GPU, in bytes.

    Attributes:
        allocated_peak: What `torch.cuda.max_memory_allocated()` would return.
        reserved_peak: What `torch.cuda.max_memory_reserved()` would return.
        by_module: A dict for each module, backward pass and optimizer, by its path: `calls`,
            `peak_bytes` (the largest sum allocated while it ran) and `working_peak_bytes` (how
            much of that was allocated since it began).
        live_at_peak: What was allocated at the peak, largest first: (bytes, owner, operator).
        cached_bytes: At the peak, what was reserved and free.
        rounding_bytes: At the peak, what was allocated and not requested.
        timeline: The bytes allocated and reserved after each allocation.
        events: Allocations and releases, in order.
        settings: Of the allocator.
        reads: How many elements the program read, which were zeros.
    """

    allocated_peak: int
    reserved_peak: int
    by_module: dict
    live_at_peak: list
    cached_bytes: int
    rounding_bytes: int
    timeline: list = field(repr=False)
    events: list = field(repr=False)
    settings: Settings
    reads: int = 0

    @property
    def why(self):
        """The figures in sentences."""
        lines = [
            f"allocated peak {sizes.text(self.allocated_peak)}, reserved peak "
            f"{sizes.text(self.reserved_peak)}"
        ]
        lines += [
            f"  {sizes.text(size)} made by {owner} in {operator}"
            for size, owner, operator in self.live_at_peak[:8]
        ]
        rest = sum(size for size, _, _ in self.live_at_peak[8:])
        if rest:
            lines.append(f"  {sizes.text(rest)} made elsewhere")
        lines.append(
            f"at that time {sizes.text(self.cached_bytes)} were reserved and free, and "
            f"{sizes.text(self.rounding_bytes)} of what was allocated is rounding"
        )
        if self.reads:
            lines.append(f"the program read {self.reads} values of the GPU: it saw zeros")
        return "\n".join(lines)

    def replay(self, settings=None, capacity=None):
        """Plays the same allocations to an allocator with other settings, or a smaller device.

        Args:
            settings: As for `dry_run` (default: the run's own).
            capacity: As for `dry_run` (default: no limit).

        Returns:
            The allocator: its `allocated_peak` and `reserved_peak` are those of the whole run.

        Raises:
            OutOfMemory: The capacity is too small.
        """
        settings = self.settings if settings is None else Settings.given(settings)
        capacity = None if capacity is None else sizes.parse(capacity)
        allocator, addresses = Allocator(settings, capacity), {}
        for event in self.events:
            if isinstance(event, Allocate):
                addresses[event.number] = allocator.malloc(event.bytes, event.stream)
            elif isinstance(event, Free):
                allocator.free(addresses.pop(event.number))
            elif isinstance(event, Empty):
                allocator.empty_cache()
        return allocator


def result_of(recorder, allocator, reads):
    """The figures of a finished dry run."""
    live = {}
    for event in recorder.events[: recorder.peak_at]:
        if isinstance(event, Allocate):
            live[event.number] = event
        elif isinstance(event, Free):
            del live[event.number]
    owned = Counter()
    for event in live.values():
        owned[event.owner, event.operator] += event.bytes
    requested = sum(owned.values())
    number = max(live, default=None)
    reserved = recorder.timeline[number][1] if number is not None else 0
    return DryRun(
        allocated_peak=allocator.allocated_peak,
        reserved_peak=allocator.reserved_peak,
        by_module={
            name: {
                "calls": owner.calls,
                "peak_bytes": owner.peak,
                "working_peak_bytes": owner.working_peak,
            }
            for name, owner in recorder.owners.items()
        },
        live_at_peak=[(size, *owner) for owner, size in owned.most_common()],
        cached_bytes=reserved - recorder.peak,
        rounding_bytes=recorder.peak - requested,
        timeline=recorder.timeline,
        events=recorder.events,
        settings=allocator.settings,
        reads=reads,
    )
