"""The span of code that goes on elsewhere: in coroutines, event loops and pools of threads.

One of the texts that make up the recorder (see `__init__.py` for their constraints). A context
variable holds the innermost span of each context, so coroutines that take turns on one thread
each keep theirs; the probe is notified whenever a thread goes on in another context, or adopts
work that was submitted in one. Threads that a span starts are seen by the probe itself.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # for linters: names that the other texts define
    from .spans import _probe

_innermost = None  # context variable: id of the innermost span, 0 outside of all
_running = {}  # id of a span -> (the one around it in its context, its inputs by their ids, it)
_followed = set()  # modules whose submissions are followed


def innermost():
    """The id of the span that the running context is in, 0 if it is in none."""
    global _innermost
    if _innermost is None:
        from _contextvars import ContextVar

        _innermost = ContextVar("memtrace_span", default=0)
    return _innermost.get()


def forsaken(span):
    """The running span with this id if no frame is left to end it, else None.

    That is where what a signal handler raises keeps even the first instruction of an end from
    running.
    """
    running = _running.get(span)
    is_held = running is None or sys.getrefcount(running[2]) > 2  # by `running`, and by that call
    return None if is_held else running[2]


def entered(span, within, objects):
    """A span has begun in this context; `objects` are the names of its inputs by their ids."""
    _running[span[0]] = within, objects, span
    _innermost.set(span[0])
    for module, follow in _CARRIERS:
        if module not in _followed and module in sys.modules:
            try:
                follow(sys.modules[module])
                _followed.add(module)
            except AttributeError:
                pass  # it is just being imported


def left(span):
    """A span ends that has this id. Returns the names of its inputs by their ids."""
    within, objects, _ = _running.get(span, (0, {}, None))
    if _innermost.get() == span:
        _innermost.set(within)
    _running.pop(span, None)
    return objects


def objects_in(arrays):
    """The names of arrays by the ids of their objects. No object is kept."""
    names = {}
    for array in arrays:
        if array.object:
            names[array.object] = array.name
    return names


def mark_same(outputs, inputs):
    """Says of each output whether it is an object that was an input.

    An id may have been used again: the tracer, which knows when memory was allocated, checks.
    """
    for array in outputs:
        array.of = inputs.get(array.object)


def _follow_pool(module):
    """What is submitted to a pool of threads works for the span it was submitted in."""
    item = module._WorkItem
    create, run = item.__init__, item.run

    def __init__(self, *args, **kwargs):
        create(self, *args, **kwargs)
        token = _probe.export()
        if token:
            self._memtrace_token = token

    def run_adopted(self, *args, **kwargs):
        token = self.__dict__.pop("_memtrace_token", 0)
        if token:
            _probe.adopt(token)
        try:
            return run(self, *args, **kwargs)
        finally:
            # An exception of the work refers to this frame: as `run` does, it drops the work.
            self = args = kwargs = None
            if token:
                _probe.adopt(0)

    item.__init__, item.run = __init__, run_adopted


def _follow_loop(module):
    """Each callback of a loop, and so each step of a task, goes on in the span of its context."""
    from _thread import get_ident

    run = module.Handle._run
    # The callback that runs just now will end unseen.
    unsure = {get_ident()} if module._get_running_loop() else set()

    def run_in_context(self):
        context = self._context
        own, its = _innermost.get(), context.get(_innermost, 0)
        if own != its or (unsure and get_ident() in unsure):
            unsure.discard(get_ident())
            _probe.activate(its)
        try:
            return run(self)
        finally:
            self = None  # as `run` does: an exception of the callback refers to this frame
            if own != its or context.get(_innermost, 0) != own:
                _probe.activate(own)

    module.Handle._run = run_in_context


_CARRIERS = (
    ("concurrent.futures.thread", _follow_pool),
    ("distributed._concurrent_futures_thread", _follow_pool),
    ("asyncio.events", _follow_loop),
)
