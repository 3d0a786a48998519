"""The process in which a test with `limit_memory` runs."""

import pickle
import sys

import pytest


def name(nodeid):
    """What the span of a test is called."""
    return f"pytest:{nodeid}"


def is_inside(config):
    """True in that process."""
    return getattr(config, "memtrace_inside", False)


def main(options, target, nodeid, reports):
    """Runs the test `nodeid`, which `target` names, and writes its reports to a file."""
    options = {**options, "plugins": [*options["plugins"], "no:terminal"]}
    config = pytest.Config.fromdictargs(options, [target])
    config.memtrace_inside = True
    config.pluginmanager.register(_Reporter(config, nodeid, reports))
    sys.exit(int(config.hook.pytest_cmdline_main(config=config)))


class _Reporter:
    def __init__(self, config, nodeid, reports):
        self._config, self._nodeid, self._reports = config, nodeid, reports

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        items[:] = [item for item in items if item.nodeid == self._nodeid]

    def pytest_runtest_logreport(self, report):
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        with open(self._reports, "ab") as out:
            out.write(pickle.dumps(data))


def reports(config, file):
    """The reports in a file that `main` wrote, as far as it came."""
    try:
        with open(file, "rb") as written:
            while True:
                data = pickle.load(written)
                yield config.hook.pytest_report_from_serializable(config=config, data=data)
    except (FileNotFoundError, EOFError):
        return
