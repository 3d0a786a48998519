"""What a recording must see: 200 blocks of 10,007 bytes, two spans, a large block at the peak."""

import sys

import memtrace


@memtrace.operator
def work():
    # A bytearray ends in a byte of its own.
    return [len(bytearray(10006)) for _ in range(100)]


print(sum(work()) + sum(work()), len(bytearray(6 << 20)))
sys.exit(3)
