"""Every test has a marker that says what it needs: see pytest.ini. At the end a run lists which
files took most processor time."""

import os
from collections import Counter
from pathlib import Path

import pytest

# Threads of OpenBLAS wait for work in a loop, a tenth of a second of processor time in each process
# that imports NumPy: here they sleep at once. There are as many as before.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")

HERE = Path(__file__).parent
FOLDERS = {
    "python": "unit",
    "end_to_end": "e2e",
    "torch": "frameworks",
    "cupy": "frameworks",
    "jax": "frameworks",
}
#: Files that wait for minutes, for a scheduler or a guest: others run meanwhile.
FIRST = {"test_schedulers.py", "test_place_nodes.py"}


def pytest_collection_modifyitems(items):
    """Marks tests by their folder; `cluster`, `slow` and `serial` stand in the files."""
    for item in items:
        if item.path.is_relative_to(HERE):
            folder = item.path.relative_to(HERE).parts[0]
            if folder not in FOLDERS:
                raise pytest.UsageError(f"tests/{folder} has no marker in {__file__}")
            item.add_marker(getattr(pytest.mark, FOLDERS[folder]))
    items.sort(key=lambda item: item.path.name not in FIRST)


LISTED = 15  # files


def seconds():
    """Of this process and of the children that it has waited for."""
    return sum(os.times()[:4])


class ProcessorTime:
    """Adds up what the tests of each file take, in workers of pytest-xdist too."""

    def __init__(self):
        self._files = Counter()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        before = seconds()
        result = yield
        self._files[item.nodeid.split("::")[0]] += seconds() - before
        return result

    def pytest_sessionfinish(self, session):
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["processor_time"] = dict(self._files)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        self._files.update(getattr(node, "workeroutput", {}).get("processor_time", {}))

    def pytest_terminal_summary(self, terminalreporter):
        total = sum(self._files.values())
        terminalreporter.section(f"processor time: {total / 60:.1f} minutes")
        for file, spent in self._files.most_common(LISTED):
            terminalreporter.write_line(f"{spent:6.1f}s {file}")


def pytest_configure(config):
    config.pluginmanager.register(ProcessorTime())
