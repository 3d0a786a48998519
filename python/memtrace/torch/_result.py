"""What a dry run found."""

from collections import Counter
from dataclasses import dataclass, field

from .. import _sizes
from ._allocator import Allocator
from ._events import Allocate, Empty, Free
from ._settings import Settings


@dataclass
class DryRun:
    """What a program would need on a GPU, in bytes.

    allocated_peak, reserved_peak: what `torch.cuda.max_memory_allocated()` and
    `max_memory_reserved()` would say. by_module: a dict for each module, backward pass and
    optimizer, by its path: `calls`, `peak_bytes` (the largest sum allocated while it ran) and
    `working_peak_bytes` (how much of that came on top since it began). held: what was allocated at
    the peak, largest first: (bytes, who made it, by what operator). cached_bytes: at the peak,
    what was reserved and free; rounding_bytes: what was allocated and not asked for. timeline: the
    bytes allocated and reserved after each allocation. reads: elements that the program looked at,
    which were zeros. settings: of the allocator. why: all this in sentences.
    """

    allocated_peak: int
    reserved_peak: int
    by_module: dict
    held: list
    cached_bytes: int
    rounding_bytes: int
    timeline: list = field(repr=False)
    events: list = field(repr=False)
    settings: Settings
    reads: int = 0

    @property
    def why(self):
        lines = [
            f"allocated peak {_sizes.text(self.allocated_peak)}, reserved peak "
            f"{_sizes.text(self.reserved_peak)}"
        ]
        lines += [
            f"  {_sizes.text(size)} made by {owner} in {operator}"
            for size, owner, operator in self.held[:8]
        ]
        rest = sum(size for size, _, _ in self.held[8:])
        if rest:
            lines.append(f"  {_sizes.text(rest)} made elsewhere")
        lines.append(
            f"at that time {_sizes.text(self.cached_bytes)} were reserved and free, and "
            f"{_sizes.text(self.rounding_bytes)} of what was allocated is rounding"
        )
        if self.reads:
            lines.append(f"the program looked at {self.reads} values of the GPU: it saw zeros")
        return "\n".join(lines)

    def replay(self, settings=None, capacity=None):
        """Plays the same allocations to an allocator with other settings, or a smaller device.

        settings: as `dry_run` takes them; default: the run's own. capacity: likewise; default: no
        limit. Returns the allocator: its `allocated_peak` and `reserved_peak`, of the whole run.
        OutOfMemory: it is too small.
        """
        settings = self.settings if settings is None else Settings.given(settings)
        capacity = None if capacity is None else _sizes.parse(capacity)
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
    held = Counter()
    for event in live.values():
        held[event.owner, event.operator] += event.bytes
    asked = sum(held.values())
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
        held=[(size, *who) for who, size in held.most_common()],
        cached_bytes=reserved - recorder.peak,
        rounding_bytes=recorder.peak - asked,
        timeline=recorder.timeline,
        events=recorder.events,
        settings=allocator.settings,
        reads=reads,
    )
