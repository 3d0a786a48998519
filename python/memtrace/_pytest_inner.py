"""The process in which a test with `limit_memory` runs."""

import json
import sys

import pytest


def name(nodeid):
    """What the span of a test is called."""
    return f"pytest:{nodeid}"


def is_inside(config):
    """True in that process."""
    return getattr(config, "memtrace_inside", False)


def main(options, target, nodeid, lines):
    """Runs the test `nodeid`, which `target` names, and writes its reports to the file `lines`, JSON each."""
    config = pytest.Config.fromdictargs({**options, "plugins": [*options["plugins"], "no:terminal"]}, [target])
    config.memtrace_inside = True
    config.pluginmanager.register(_Reporter(config, nodeid, lines))
    sys.exit(int(config.hook.pytest_cmdline_main(config=config)))


class _Reporter:
    def __init__(self, config, nodeid, lines):
        self._config, self._nodeid, self._lines = config, nodeid, lines

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        items[:] = [item for item in items if item.nodeid == self._nodeid]

    def pytest_runtest_logreport(self, report):
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        with open(self._lines, "a", encoding="utf-8") as out:
            out.write(json.dumps(data, default=repr) + "\n")
