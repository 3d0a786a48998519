"""pytest: `@pytest.mark.limit_memory("250 MB")`, measured exactly.

A test with the mark runs by itself in a fresh recorded interpreter: one that runs already cannot
be recorded, and by itself its figure does not depend on what other tests have left in caches. What
its fixtures allocated before is not counted. In a session that is itself recorded (`memtrace --
pytest`) each test is a span, an operator of the report.
"""

import pytest

from ._pytest import inner, measured, saved
from ._span import span


def pytest_addoption(parser):
    parser.addini("memtrace_limit", "limit of tests whose limit_memory gives none, e.g. 1 GB")
    saved.add_options(parser)


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        'limit_memory(size): fails the test if it needs more, e.g. "250 MB", without a size '
        "more than memtrace_limit of the configuration if there is one; measured by memtrace "
        "in a fresh interpreter: bytes allocated during the test and not yet released, "
        "in all threads and child processes",
    )
    if not inner.is_inside(config):
        saved.register(config)


@pytest.hookimpl(hookwrapper=True, trylast=True)
def pytest_runtest_call(item):
    with span(inner.name(item.nodeid)):
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    mark = item.get_closest_marker("limit_memory")
    if mark is None or inner.is_inside(item.config):
        return None
    if item.config.getoption("usepdb", False):
        item.warn(pytest.PytestWarning("limit_memory is not measured under --pdb"))
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in [*measured.reports(item, mark), *measured.left_behind(item, nextitem)]:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
