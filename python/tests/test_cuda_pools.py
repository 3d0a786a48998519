"""RMM's pools of GPU memory: a stand-in with the interface that it documents."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from memtrace import cuda


@pytest.fixture
def reported(monkeypatch):
    """What a recording is sent: (address, bytes, device, reserved, used)."""
    found = []
    monkeypatch.setattr(cuda, "_report_function", lambda: lambda *block: found.append(block))
    return found


class Resource:
    """As `rmm.mr.CallbackMemoryResource` and the one behind it."""

    def __init__(self, allocate=None, deallocate=None):
        self.allocate = allocate or (lambda size, stream=None: 0x9000)
        self.deallocate = deallocate or (lambda address, size, stream=None: None)


def _rmm():
    module, current = ModuleType("rmm"), {0: Resource()}
    module.mr = SimpleNamespace(
        get_per_device_resource=current.get,
        set_per_device_resource=current.__setitem__,
        CallbackMemoryResource=Resource,
    )
    return module


def test_rmm(monkeypatch, reported):
    """The resource before goes on allocating the memory; a block of no bytes is none."""
    rmm = _rmm()
    monkeypatch.setitem(sys.modules, "rmm", rmm)
    resource = cuda.watch_rmm()
    assert rmm.mr.get_per_device_resource(0) is resource
    assert resource.allocate(1000, "stream") == 0x9000
    resource.deallocate(0x9000, 1000, "stream")
    resource.deallocate(resource.allocate(0, "stream"), 0, "stream")
    assert reported == [(0x9000, 1000, 0, 0, 0), (0x9000, 0, 0, 0, 0)]


def test_nothing_is_watched_outside_of_a_recording():
    """RMM is not imported."""
    assert cuda.watch_rmm() is None
    assert "rmm" not in sys.modules
