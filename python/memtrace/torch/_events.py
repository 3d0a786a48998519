"""What happens to the memory of a simulated GPU, in order, and which module runs meanwhile."""

from collections import namedtuple

import torch

from ._allocator import OutOfMemory
from ._kernels import extra_of

#: A storage, or scratch memory: requested bytes, its owner, the operator, the stream.
Allocate = namedtuple("Allocate", "number bytes owner operator stream")
Free = namedtuple("Free", "number")
#: The program released the cache to the driver.
Empty = namedtuple("Empty", "")

#: The owner of what is made outside of modules and optimizers.
PROGRAM = "(program)"


class Owner:
    """A module, the backward pass of one, or an optimizer's step; figures of its largest call."""

    __slots__ = ("base", "calls", "peak", "working_peak")

    def __init__(self):
        self.calls = self.peak = self.working_peak = self.base = 0

    def begin(self, allocated):
        self.calls += 1
        self.base = allocated

    def note(self, allocated):
        self.peak = max(self.peak, allocated)
        self.working_peak = max(self.working_peak, allocated - self.base)


class Recorder:
    """Listens to the simulated GPU, keeps every event, and plays it to an allocator at once."""

    def __init__(self, allocator, gpu):
        self.events = []
        self.timeline = []  # after each allocation: bytes allocated and reserved
        self.peak, self.peak_at = 0, 0  # the largest bytes allocated, and after how many events
        self.owners = {}
        self.backward_of = lambda: None  # the module whose backward pass runs
        self._allocator, self._gpu = allocator, gpu
        self._running = []  # names of modules and steps, innermost last
        self._backward = None
        self._addresses = {}  # of live blocks, by their number
        self._numbers = {}  # of live storages, by their key
        self._first_size = None  # of the operator's first output, if other than it seems
        self._scratch = []  # of the operator that runs
        self._stream = 0  # number of the one that operators run on

    # What is simulated ---------------------------------------------------------------

    def begin(self, function, args, kwargs):
        extra = extra_of(function)
        self._first_size, self._scratch = None, []
        if extra is not None:
            self._first_size, self._scratch = extra(self._gpu, *args, **kwargs)

    def allocated(self, key, size, function):
        if self._first_size is not None:
            size, self._first_size = self._first_size, None
        self._numbers[key] = self._allocate(size, function)

    def end(self, function):
        numbers = []
        try:
            for size in self._scratch:
                numbers.append(self._allocate(size, function))
        finally:
            for number in reversed(numbers):
                self._free(number)

    def released(self, key):
        number = self._numbers.pop(key, None)
        if number is not None:
            self._free(number)

    # What else happens ---------------------------------------------------------------

    def empty_cache(self):
        self.events.append(Empty())
        self._allocator.empty_cache()

    def choose_stream(self, number):
        self._stream = number

    def enter(self, name):
        self._running.append(name)
        self._owner(name).begin(self._allocator.allocated)

    def leave(self):
        self._running.pop()

    def _owner(self, name):
        return self.owners.setdefault(name, Owner())

    def _allocate(self, size, function):
        number, before = len(self.timeline), self._allocator.allocated
        backward = self.backward_of()
        if backward is not None and backward != self._backward:
            self._owner(backward).begin(before)
        self._backward = backward
        inside = [*self._running, *([backward] if backward else [])]
        owner = inside[-1] if inside else PROGRAM
        try:
            self._addresses[number] = self._allocator.malloc(size, self._stream)
        except OutOfMemory as error:  # as on the GPU: the program may catch it and go on
            raise torch.OutOfMemoryError(f"CUDA out of memory (dry run): {error}") from error
        self.events.append(Allocate(number, size, owner, function._schema.name, self._stream))
        allocated = self._allocator.allocated
        self.timeline.append((allocated, self._allocator.reserved))
        if allocated > self.peak:
            self.peak, self.peak_at = allocated, len(self.events)
        for name in inside:
            self.owners[name].note(allocated)
        return number

    def _free(self, number):
        self.events.append(Free(number))
        self._allocator.free(self._addresses.pop(number))
