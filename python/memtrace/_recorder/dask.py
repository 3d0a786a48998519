"""Tasks of Dask are spans, whatever scheduler runs them, without a word in the program.

One of the texts that make up the recorder (see `__init__.py` for their constraints). A task is
called through one place in Dask, which is replaced once the module that has it has been executed.
The arguments of a task are referred to by Dask for the whole call anyway, so the replacement
makes nothing live longer.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # for linters: names that the other texts define
    from .arrays import ITEM_LIMIT, arrays_in, has_empty
    from .errors import _hide_frame, pass_on
    from .imports import when_executed
    from .operators import _code_of
    from .scalars import scalar
    from .spans import _leave, begin, versions_of

COROUTINE = 0x80  # co_flags

_tasks = {}  # thread -> (key of the task it runs for a scheduler, keys of those fused into it)


def watch_dask():
    """Waits for Dask: its graph nodes from 2024.12 on, its executing functions before."""
    when_executed("dask._task_spec", _watch_nodes)
    when_executed("dask.local", _watch_local)
    when_executed("distributed.worker", _watch_worker)


# Graph nodes ----------------------------------------------------------------


def _watch_nodes(module):
    """Every scheduler calls `Task.__call__(values)`, with the results it depends on by key."""
    node, reference, task = module.GraphNode, module.TaskRef, module.Task
    run = task.__call__

    def __call__(self, values=()):
        if self.key is None:
            return run(self, values)  # a list, tuple or dict inside a task
        fused = self if self.has_subgraph() else None
        inputs = (_inputs_of_node, self, values, node, reference)
        running = _task_begins(self.key, self.func, inputs, fused)
        try:
            result = run(self, values)
        except BaseException as error:
            _task_fails(running, error)
            raise
        _task_ends(running, result)
        return result

    _replace(task, "__call__", __call__)


def _parts(fused):
    """Prefixes of the tasks fused into one, and into those, in the order in which they run."""
    members, seen, parts = fused.args[0], set(), []

    def visit(key):
        member = members.get(key)
        if key in seen or not hasattr(member, "func"):
            return  # it comes from outside, or is data
        seen.add(key)
        for dependency in sorted(member.dependencies, key=str):
            visit(dependency)
        parts.extend(_parts(member) if member.has_subgraph() else [_prefix(key)])

    for key in members:
        visit(key)
    return parts


def _keys_in(fused):
    """Keys of the tasks fused into one, and into those."""
    keys = set()
    for key, member in fused.args[0].items():
        keys.add(key)
        if hasattr(member, "has_subgraph") and member.has_subgraph():
            keys |= _keys_in(member)
    return keys


def _inputs_of_node(self, values, node, reference):
    inputs, seen = [], set()
    for position, value in enumerate(self.args[:ITEM_LIMIT]):
        if isinstance(value, reference):
            seen.add(value.key)
            inputs += arrays_in(_prefix(value.key), values[value.key])
        elif not isinstance(value, node):
            inputs += arrays_in(f"args[{position}]", value)
    for key in sorted(set(self.dependencies) - seen, key=str)[:ITEM_LIMIT]:
        inputs += arrays_in(_prefix(key), values[key])
    return inputs


# Dask before 2024.12 ---------------------------------------------------------


def _watch_local(module):
    """`execute_task` knows the key, and `_execute_task` in it gets what the task needs."""
    if not hasattr(module, "_execute_task"):
        return
    outer, inner = module.execute_task, module._execute_task
    keys = {}

    def execute_task(key, *rest):
        thread = _ident()
        keys[thread] = key
        try:
            return outer(key, *rest)
        finally:
            keys.pop(thread, None)

    def _execute_task(task, data, *rest):
        key = keys.pop(_ident(), None)
        if key is None or type(task) is not tuple or not task:
            return inner(task, data, *rest)

        running = _task_begins(key, task[0], (_inputs_by_key, data), task)
        try:
            result = inner(task, data, *rest)
        except BaseException as error:
            _task_fails(running, error)
            raise
        _task_ends(running, result)
        return result

    _replace(module, "execute_task", execute_task)
    _replace(module, "_execute_task", _execute_task)


def _inputs_by_key(data):
    return [array for key in data for array in arrays_in(_prefix(key), data[key])]


def _watch_worker(module):
    """`apply_function_simple` runs a task; the key is in the state of its thread."""
    if not hasattr(module, "apply_function_simple"):
        return
    run = module.apply_function_simple

    def apply_function_simple(function, args, kwargs, *rest):
        key = getattr(module.thread_state, "key", None)
        if key is None:
            return run(function, args, kwargs, *rest)
        running = _task_begins(key, function, (_inputs_of_call, args, kwargs), (function, *args))
        message = run(function, args, kwargs, *rest)
        if "actual_exception" in message:
            _task_fails(running, message["actual_exception"])
        else:
            _task_ends(running, message.get("result"))
        return message

    _replace(module, "apply_function_simple", apply_function_simple)


def _parts_of_call(task):
    """The same of a task as a tuple: in what it calls, and in the calls among its arguments."""
    parts = []
    for member in task:
        if isinstance(member, (tuple, list)):
            parts += _parts_of_call(member)
        elif type(member).__name__ == "SubgraphCallable":
            for key in sys.modules["dask.core"].toposort(member.dsk):
                inner = member.dsk[key]
                inside = _parts_of_call(inner) if isinstance(inner, tuple) else []
                parts += inside or [_prefix(key)] * isinstance(inner, tuple)
    return parts


def _inputs_of_call(args, kwargs):
    return arrays_in("args", args) + arrays_in("", kwargs)


# Spans ----------------------------------------------------------------------


def _replace(owner, name, function):
    """Puts a function in the place of another, as `functools.wraps` does."""
    before = getattr(owner, name)
    for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(function, attribute, getattr(before, attribute))
    function.__wrapped__ = before
    setattr(owner, name, function)


def _task_begins(key, function, inputs, fused=None):
    """Begins the span of a task, if it is one that users would recognise.

    inputs: a function that describes its arrays, and what that is called with.
    fused: the node, if other tasks are fused into it; before 2024.12 the task as a tuple.
    """
    thread = _ident()
    around = _tasks.get(thread)
    outermost = around is None or key not in around[1]  # of a computation inside a task, too
    span = 0
    try:
        if outermost:
            inside = set() if fused is None or isinstance(fused, tuple) else _keys_in(fused)
            _tasks[thread] = key, inside
        code = _code_of(function)
        parts = []
        if fused is not None:
            parts = _parts_of_call(fused) if isinstance(fused, tuple) else _parts(fused)
        name = "-".join(dict.fromkeys(parts)) or _prefix(key)
        arrays = inputs[0](*inputs[1:])
        if code is not None and code.co_flags & COROUTINE:
            pass  # no call that begins and ends
        elif not outermost and (parts or name == "data"):
            pass  # one of several rounds of fusing; an index, which has no name
        elif not has_empty(arrays):  # else a ghost: compute_meta
            versions = versions_of(["numpy", "dask", getattr(function, "__module__", None)])
            task = _description(key, _tasks[thread][0], parts)
            span = begin(name, arrays, {"versions": versions, "task": task})
    except Exception as error:
        pass_on(error)
    return span, outermost, around


def _task_ends(running, result, error=None):
    span, outermost, around = running
    if outermost and around is None:
        _tasks.pop(_ident(), None)
    elif outermost:
        _tasks[_ident()] = around
    if span:
        _leave(span, result, error)


def _task_fails(running, error):
    _task_ends(running, None, type(error).__name__)
    _hide_frame(error)


def _description(key, scheduled, parts):
    """What Dask calls the task, which chunk it makes, what is fused into it, and who runs it."""
    task = {"key": str(key)[:500]}
    if isinstance(scheduled, tuple):
        task["chunk"] = [scalar(index) for index in scheduled[1:]]
    if parts:
        task["parts"] = parts[:ITEM_LIMIT]
    return {**task, **_worker()}


def _worker():
    """Name and address of the distributed worker that runs this thread."""
    state = getattr(sys.modules.get("distributed.worker"), "thread_state", None)
    worker = getattr(state, "execution_state", {}).get("worker")
    if worker is None:
        return {}
    return {"worker": str(worker.name)[:200], "address": str(worker.address)[:200]}


def _prefix(key):
    """The name Dask gives to all tasks of an operation, in its dashboard and elsewhere."""
    return str(sys.modules["dask.utils"].key_split(key))


def _ident():
    import _thread

    return _thread.get_ident()
