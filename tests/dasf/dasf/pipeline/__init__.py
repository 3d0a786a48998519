"""Pipelines, and what they tell their plugins."""

import inspect
import logging

import networkx as nx


class PipelinePlugin:
    """A pipeline calls these of its plugins."""

    def on_pipeline_start(self, fn_keys):
        pass

    def on_pipeline_end(self):
        pass

    def on_task_start(self, func, params, name):
        pass

    def on_task_end(self, func, params, name, ret):
        pass

    def on_task_error(self, func, params, name, exception):
        pass


class Pipeline:
    """Elements by the hashes of their functions; parameters name the elements they come from."""

    def __init__(self, name, executor=None, verbose=False, callbacks=None):
        from dasf.pipeline.executors import LocalExecutor

        self._name = name
        self._executor = LocalExecutor() if executor is None else executor
        self._dag, self._dag_table = nx.DiGraph(), {}
        self._callbacks = callbacks or []

    def register_plugin(self, plugin):
        """A plugin that is of no subclass goes to the executor."""
        if isinstance(plugin, PipelinePlugin):
            self._callbacks.append(plugin)
        else:
            self._executor.register_plugin(plugin)

    def add(self, element, **parameters):
        function, name = _inspected(element)
        key = hash(function)
        if key not in self._dag_table:
            self._dag.add_node(key)
            self._dag_table[key] = {"fn": function, "name": name, "parameters": None, "ret": None}
        entry = self._dag_table[key]
        if parameters:
            entry["parameters"] = {**(entry["parameters"] or {}), **parameters}
        for origin in parameters.values():
            self.add(origin)
            self._dag.add_edge(hash(_inspected(origin)[0]), key)
        return self

    def run(self):
        if not self._executor.is_connected:
            raise Exception("Executor is not connected.")
        keys = list(nx.topological_sort(self._dag))
        self._tell("on_pipeline_start", keys)
        self._executor.pre_run(self)
        for key in keys:
            if not self._succeeds(self._dag_table[key]):
                break
        self._executor.post_run(self)
        self._tell("on_pipeline_end")

    def get_result_from(self, element):
        """Of the first element of that name."""
        name = _inspected(element)[1]
        entry = next(each for each in self._dag_table.values() if each["name"] == name)
        if entry["ret"] is None:
            raise Exception("Pipeline was not executed yet.")
        return entry["ret"]

    def _succeeds(self, entry):
        """Whether an element ran; what it raised is logged."""
        about = {"func": entry["fn"], "params": entry["parameters"], "name": entry["name"]}
        try:
            self._tell("on_task_start", **about)
            taken = {
                name: self._dag_table[hash(_inspected(origin)[0])]["ret"]
                for name, origin in (entry["parameters"] or {}).items()
            }
            entry["ret"] = self._executor.execute(fn=entry["fn"], **taken)
            self._tell("on_task_end", **about, ret=entry["ret"])
        except Exception as error:
            self._tell("on_task_error", **about, exception=error)
            logging.getLogger("DASF").exception("Task '%s' failed", entry["name"])
            return False
        return True

    def _tell(self, hook, *args, **kwargs):
        for plugin in self._callbacks:
            getattr(plugin, hook)(*args, **kwargs)


def _inspected(element):
    """What is called for an element, and the element's name."""
    if inspect.isfunction(element):
        return element, element.__qualname__
    if not inspect.ismethod(element):
        element = next(
            getattr(element, name) for name in ("load", "transform") if hasattr(element, name)
        )
    return element, f"{type(element.__self__).__name__}.{element.__name__}"
