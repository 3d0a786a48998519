"""Random use of CuPy's pools: seed, steps, "ordered" (one thread at a time) or "free".

Prints what the pools say of themselves, and every block that they handed out.
"""

import contextlib
import json
import random
import sys
import threading
import warnings

import cupy
from cupy import cuda

THREADS = 3
MOST = 40  # arrays held

warnings.simplefilter("ignore", FutureWarning)  # malloc_async is said to be experimental

default = cupy.get_default_memory_pool()
own = cuda.MemoryPool()
managed = cuda.MemoryPool(cuda.malloc_managed)
limited = cuda.MemoryPool()
limited.set_limit(size=1 << 20)
POOLS = (default, own, managed, limited)


class Blocks(cuda.MemoryHook):
    """Every block that a thread is handed, and what all pools say then."""

    name = "blocks"

    def __init__(self):
        self.found, self.used, self.total = [], 0, 0

    def malloc_postprocess(self, **block):
        if block["mem_ptr"]:
            self.found.append([block["mem_ptr"], block["mem_size"]])
        self.used = max(self.used, sum(pool.used_bytes() for pool in POOLS))
        self.total = max(self.total, sum(pool.total_bytes() for pool in POOLS))


class Nothing(cuda.MemoryHook):
    name = "nothing"


class Program:
    def __init__(self, seed, ordered):
        self.random = random.Random(seed)
        self.turn = threading.Lock() if ordered else contextlib.nullcontext()
        self.arrays, self.hooks, self.refused = [], [], 0
        self.actions = [*[self.allocate] * 6, *[self.drop] * 4, self.give_up_early, self.trim]
        self.actions += [self.ask_for_too_much, self.ask_for_more_than_the_limit, self.hooked]
        self.actions += [self.on_a_stream, self.from_the_driver, self.compute, self.nothing]

    def work(self, steps):
        """What a thread does."""
        with Blocks() as blocks:
            self.hooks.append(blocks)
            for _ in range(steps):
                with self.turn:
                    self.random.choice(self.actions)()

    def allocate(self):
        pool = self.random.choice((default, own, managed))
        size = int(2 ** self.random.uniform(0, 23))
        with cuda.using_allocator(pool.malloc):
            self.hold(cupy.empty(size, cupy.uint8))

    def hold(self, array):
        self.arrays.append(array)
        if len(self.arrays) > MOST:
            self.drop()

    def drop(self):
        """Of whichever thread it was."""
        with contextlib.suppress(IndexError):  # there is none, or another thread was first
            self.arrays.pop(self.random.randrange(len(self.arrays) or 1))

    def give_up_early(self):
        memory = default.malloc(3000)
        memory.mem.free()
        assert memory.mem.ptr == 0
        memory.mem.free()  # once is enough

    def trim(self):
        self.random.choice(POOLS).free_all_blocks()

    def ask_for_too_much(self):
        """The device is too small."""
        try:
            own.malloc(1 << 40)
        except cuda.memory.OutOfMemoryError:
            self.refused += 1

    def ask_for_more_than_the_limit(self):
        held = []
        try:
            while True:
                held.append(limited.malloc(300_000))
        except cuda.memory.OutOfMemoryError:
            self.refused += 1

    def hooked(self):
        with Nothing():
            self.allocate()

    def on_a_stream(self):
        with cuda.Stream():
            self.allocate()

    def from_the_driver(self):
        """No pool of CuPy's has a part in it."""
        with cuda.using_allocator(
            self.random.choice((cuda.malloc_async, cuda.malloc_managed, None))
        ):
            self.hold(cupy.empty(self.random.randrange(1, 1 << 20), cupy.uint8))

    def compute(self):
        """Arrays within arrays, and views that outlive what they are of."""
        array = cupy.zeros((self.random.randrange(1, 300), 200), cupy.float32)
        self.hold((array.T * 2 + 1)[::2])

    def nothing(self):
        self.hold(cupy.empty((0, 3)))


def main(seed, steps, order):
    program = Program(int(seed), order == "ordered")
    threads = [threading.Thread(target=program.work, args=(int(steps),)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reported = {
        "used": max(hook.used for hook in program.hooks),
        "total": max(hook.total for hook in program.hooks),
        "refused": program.refused,
        "blocks": [block for hook in program.hooks for block in hook.found],
    }
    print(json.dumps(reported))


if __name__ == "__main__":
    main(*sys.argv[1:])
