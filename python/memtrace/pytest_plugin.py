"""pytest: `@pytest.mark.limit_memory("250 MB")`, measured exactly.

A test with the mark runs alone in a fresh recorded interpreter: one that runs already cannot be
recorded, and alone the figure does not depend on what other tests have left in caches. What its
fixtures allocated before is not counted. In a session that is itself recorded (`memtrace --
pytest`) each test is a span, an operator of the report.
"""

import io
import pickle

import pytest

import memtrace

from . import _fresh, _pytest_inner, _sizes

# Of the options that the session was given, those that are not for one test in another process:
# other processes, debuggers, a choice of tests, coverage, files for all tests.
_NOT_INSIDE = {
    "numprocesses": None,
    "dist": "no",
    "usepdb": False,
    "lf": False,
    "failedfirst": False,
    "stepwise": False,
    "no_cov": True,
    "xmlpath": None,
}


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        'limit_memory(size): fails the test if it needs more, e.g. "250 MB"; measured by memtrace '
        "in a fresh interpreter: bytes allocated during the test and not yet released, "
        "in all threads and child processes",
    )


@pytest.hookimpl(hookwrapper=True, trylast=True)
def pytest_runtest_call(item):
    with memtrace.span(_pytest_inner.name(item.nodeid)):
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    mark = item.get_closest_marker("limit_memory")
    if mark is None or _pytest_inner.is_inside(item.config):
        return None
    if item.config.getoption("usepdb", False):
        item.warn(pytest.PytestWarning("limit_memory is not measured under --pdb"))
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in [*_reports(item, mark), *_left_behind(item, nextitem)]:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _reports(item, mark):
    """Runs the test; its reports, with the verdict on its memory."""
    try:
        limit = _sizes.parse(*mark.args, **mark.kwargs)
    except (TypeError, ValueError) as error:
        return [_failure(item, f"limit_memory: {error}")]
    folder = item.config._tmp_path_factory.mktemp("memtrace")
    try:
        ended, reports, printed = _run(item, folder)
    except OSError as error:
        return [_failure(item, f"limit_memory cannot be measured: {error}")]
    if not ended.recorded:
        return [_failure(item, f"limit_memory cannot be measured: {ended.why_not}")]
    needed = _needed(memtrace.load(ended.trace), item.nodeid)
    if not any(report.when == "teardown" for report in reports):
        what = (
            f"the test's process ended early, with status {ended.status}; {_shape(needed, limit)}"
        )
        reports.append(_failure(item, f"{what}\ntrace: {ended.trace}\n{printed}"))
        return reports
    if needed is not None:
        for report in reports:
            if report.when == "call":
                _judge(report, needed, limit, ended.trace)
            # JUnit files take properties from the last report.
            report.user_properties.append(("memtrace_peak_bytes", needed["peak_bytes"]))
    return reports


def _run(item, folder):
    """How the recording ended, the test's reports, and what was printed outside of it."""
    config, printed = item.config, io.StringIO()
    options = {**vars(config.option), **_NOT_INSIDE}
    options.update(rootdir=str(config.rootpath), basetemp=str(folder / "tmp"))
    if config.inipath is not None:
        options["inifilename"] = str(config.inipath)
    options = {key: value for key, value in options.items() if _can_travel(value)}
    options.pop("file_or_dir", None)
    target = "::".join([str(item.path), *item.nodeid.split("::")[1:]])
    file = str(folder / "reports")
    job = (_pytest_inner.main, (options, target, item.nodeid, file), {})
    # Blocks are all that is asked for; loading the kernel side would take longer than many tests.
    more = {"cwd": str(config.invocation_params.dir)}
    if config.getoption("capture", "fd") != "no":
        more["streams"] = (printed, printed)
    ended = _fresh.call(job, folder / "trace", ["--quiet", "--kernel", "proc"], **more)
    return ended, list(_pytest_inner.reports(config, file)), printed.getvalue()


def _can_travel(value):
    try:
        pickle.dumps(value)
    except Exception:
        return False
    return True


def _needed(trace, nodeid):
    """What the test needed (`Trace.during`); None if it did not come to run."""
    name = _pytest_inner.name(nodeid)
    spans = [each["spans"] for each in trace.report()["operators"] if each["name"] == name]
    if not spans:
        return None
    [span] = spans[0][:1]
    start = round(span["start_seconds"] * 1e9)
    end = None if span["seconds"] is None else start + round(span["seconds"] * 1e9)
    return {**trace.during(start, end), "lost": trace.meta["lost"]["events"]}


def _judge(report, needed, limit, trace):
    if needed["peak_bytes"] <= limit:
        return
    text = f"{_shape(needed, limit)}\ntrace: {trace}"
    if report.outcome == "passed" and not hasattr(report, "wasxfail"):
        report.outcome, report.longrepr = "failed", text
    else:
        report.sections.append(("memtrace", text))


def _shape(needed, limit):
    """What the peak was made of."""
    if needed is None:
        return "it did not come to run"
    peak = needed["peak_bytes"]
    lines = [f"needed {_sizes.text(peak)} ({peak:,} bytes), its limit is {_sizes.text(limit)}"]
    if needed["lost"]:
        lines.append(f"  or more: {needed['lost']:,} events were lost")
    for site in needed["sites"]:
        lines.append(f"  {_sizes.text(site['bytes']):>8}  allocated at {site['place']}")
    for need in needed["operators"]:
        lines.append(f"  {_sizes.text(need['working_peak_bytes']):>8}  operator {need['operator']}")
    return "\n".join(lines)


def _failure(item, text):
    """A report of a test that could not be judged."""
    return pytest.TestReport(item.nodeid, item.location, {item.name: 1}, "failed", text, "call")


def _left_behind(item, nextitem):
    """Tears down what earlier tests here share with the test but not with the next one."""
    state = item.session._setupstate
    call = pytest.CallInfo.from_call(lambda: state.teardown_exact(nextitem), when="teardown")
    return [pytest.TestReport.from_item_and_call(item, call)] if call.excinfo else []
