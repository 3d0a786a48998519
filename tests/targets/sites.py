"""Allocates in all kinds of Python frames; prints for each block its stack by traceback."""

import contextlib
import functools
import json
import threading
import traceback

kept = []


def allocate(size):
    tell(size + 1, bytearray(size))


def tell(size, block):
    kept.append(block)
    stack = traceback.extract_stack()[:-1]
    print(json.dumps([size, [[frame.filename, frame.name, frame.lineno] for frame in stack]]))


class Box:
    def method(self, size):
        allocate(
            size,
        )

    @staticmethod
    def mapped(size):
        return list(map(lambda each: allocate(each), [size]))


def generator(size):
    yield 1
    allocate(size)
    yield 2


def delegating(size):
    yield from generator(size)


async def coroutine(size):
    allocate(size)


async def awaiting(size):
    await coroutine(size)


def recursive(depth, size):
    if depth:
        return recursive(depth - 1, size)
    return allocate(size)


def in_sort(size):
    def key(each):
        if each == 1:
            allocate(size)
        return each

    sorted([3, 1, 2], key=key)


class Añadido:
    def __del__(self):
        allocate(300011)


def dropped():
    Añadido()


allocate(300001)
Box().method(300003)
Box.mapped(300005)
list(delegating(300007))
recursive(60, 300009)
dropped()
in_sort(300013)
exec("allocate(300015)")
[allocate(size) for size in (300017,)]
functools.reduce(lambda a, b: allocate(300019), [1, 2])
with contextlib.suppress(StopIteration):
    awaiting(300021).send(None)
thread = threading.Thread(target=allocate, args=(300023,))
thread.start()
thread.join()
