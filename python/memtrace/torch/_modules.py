"""What runs: modules, their backward passes, and the steps of optimizers."""

from contextlib import contextmanager

import torch
from torch.nn.modules import module as module_hooks
from torch.optim import optimizer as optimizer_hooks


@contextmanager
def watched(recorder):
    """Notifies a recorder when modules and optimizers begin and end."""
    watch = _Watch(recorder)
    handles = [
        module_hooks.register_module_forward_pre_hook(watch.module_begins),
        module_hooks.register_module_forward_hook(watch.module_ends, always_call=True),
        optimizer_hooks.register_optimizer_step_pre_hook(watch.step_begins),
        optimizer_hooks.register_optimizer_step_post_hook(watch.step_ends),
    ]
    recorder.backward_of = watch.backward_of
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class _Watch:
    """Names modules by their path in the one that was called from outside.

    A node of the backward pass belongs to the module in whose call it was made: nodes are numbered
    in the order in which they are made.
    """

    def __init__(self, recorder):
        self._recorder = recorder
        self._names = {}
        self._running = []  # modules: name, and the number of the next node when it began
        self._owners = []  # name of the innermost module that made a node, by its number

    def module_begins(self, module, args):
        if not self._running:
            root = type(module).__name__
            self._names = {
                id(inner): f"{root}.{path}" if path else root
                for path, inner in module.named_modules()
            }
        self._own()
        self._running.append(self._names.get(id(module), type(module).__name__))
        self._recorder.enter(self._running[-1])

    def module_ends(self, module, args, result):
        self._own()
        self._running.pop()
        self._recorder.leave()

    def step_begins(self, optimizer, args, kwargs):
        self._recorder.enter(f"{type(optimizer).__name__}.step")

    def step_ends(self, optimizer, args, kwargs):
        self._recorder.leave()

    def backward_of(self):
        """The module whose backward pass runs; None outside of backward passes."""
        node = torch._C._current_autograd_node()
        if node is None:
            return None
        number = node._sequence_nr()
        owner = self._owners[number] if number < len(self._owners) else None
        return f"{owner} (backward)" if owner else "(backward)"

    def _own(self):
        """Says who made the nodes since the last call."""
        made = torch.autograd._get_sequence_nr() - len(self._owners)
        self._owners += [self._running[-1] if self._running else None] * made
