"""Many small blocks by few stacks, over and over: each block's size identifies its stack."""

import json
import sys
import threading

known = {}
lock = threading.Lock()


def size_of_stack():
    stack = []
    frame = sys._getframe(1)
    while frame is not None:
        stack.append((frame.f_code.co_filename, frame.f_code.co_name, frame.f_lineno))
        frame = frame.f_back
    with lock:
        return known.setdefault(tuple(stack), 20_011 + 2 * len(known))


def block():
    return bytearray(size_of_stack() - 1)


def recursive(depth):
    if depth == 0:
        return block()
    if depth % 3 == 0:
        return recursive(depth - 1)
    return recursive(depth - 1) and block()


def generator(count):
    for _ in range(count):
        yield block()
        yield recursive(1)


class Thing:
    def __lt__(self, other):
        block()
        return False

    @property
    def attribute(self):
        return block()

    def __call__(self):
        return [self.attribute for _ in range(2)]


def made(round):
    """Functions whose code objects take each other's place in memory."""
    name, lines = f"f{round % 7}", "\n" * (round % 5)
    space = {"block": block}
    text = f"{lines}def {name}():\n    return block()\n{name}()"
    exec(compile(text, f"made{round % 3}.py", "exec"), space)


def work(rounds):
    thing = Thing()
    for round in range(rounds):
        recursive(round % 6)
        list(generator(2))
        sorted([thing, thing, thing])
        thing()
        made(round)
        (lambda: block())()
        block()
        block()


work(300)
thread = threading.Thread(target=work, args=(200,))
thread.start()
work(50)
thread.join()
# Line by line: a text of them all would be a block as large as one of these.
for stack, size in known.items():
    print(json.dumps([size, stack]))
