"""A test with `limit_memory`: measured in a process of its own, and judged."""

import io
import pickle

import pytest

from .._extension import native
from .._planning import sizes
from .._running import fresh
from . import inner, saved

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
    **dict.fromkeys(saved.OPTIONS),
}


def reports(item, mark):
    """Runs the test; its reports, with the verdict on its memory."""
    try:
        limit = _limit(item.config, mark)
    except (TypeError, ValueError) as error:
        return [_failure(item, f"limit_memory: {error}")]
    folder = item.config._tmp_path_factory.mktemp("memtrace")
    try:
        ended, found, printed = _run(item, folder)
    except OSError as error:
        return [_failure(item, f"limit_memory cannot be measured: {error}")]
    if not ended.recorded:
        return [_failure(item, f"limit_memory cannot be measured: {ended.failure}")]
    trace = native("Trace")(ended.trace)
    needed = _needed(trace, item.nodeid)
    if not any(report.when == "teardown" for report in found):
        shape = _shape(needed, _of_limit(limit))
        what = f"the test's process ended early, with status {ended.status}; {shape}"
        found.append(_failure(item, f"{what}\ntrace: {ended.trace}\n{printed}"))
        return found
    if needed is None and any(report.when == "call" for report in found):
        found.append(_failure(item, f"limit_memory cannot be measured: {_why_unseen(trace)}"))
    if needed is not None:
        too_much = _too_much(item, needed["peak_bytes"], limit)
        for report in found:
            if report.when == "call" and too_much:
                _fail(report, f"{_shape(needed, too_much)}\ntrace: {ended.trace}")
            # JUnit files take properties from the last report.
            report.user_properties.append((saved.PROPERTY, needed["peak_bytes"]))
    return found


def _limit(config, mark):
    """Bytes; None if neither the mark nor the configuration has a limit."""
    if mark.args or mark.kwargs:
        return sizes.parse(*mark.args, **mark.kwargs)
    default = config.getini("memtrace_limit")
    return sizes.parse(default) if default else None


def _run(item, folder):
    """How the recording ended, the test's reports, and what was printed outside of it."""
    config, printed = item.config, io.StringIO()
    options = {**vars(config.option), **_NOT_INSIDE}
    options.update(rootdir=str(config.rootpath), basetemp=str(folder / "tmp"))
    if config.inipath is not None:
        options["inifilename"] = str(config.inipath)
    options = {key: value for key, value in options.items() if _can_be_pickled(value)}
    options.pop("file_or_dir", None)
    target = "::".join([str(item.path), *item.nodeid.split("::")[1:]])
    file = str(folder / "reports")
    job = (inner.main, (options, target, item.nodeid, file), {})
    # Only blocks are needed; loading the kernel side would take longer than many tests.
    more = {"cwd": str(config.invocation_params.dir)}
    if config.getoption("capture", "fd") != "no":
        more["streams"] = (printed, printed)
    ended = fresh.call(job, folder / "trace", ["--quiet", "--kernel", "proc"], **more)
    return ended, list(inner.reports(config, file)), printed.getvalue()


def _can_be_pickled(value):
    try:
        pickle.dumps(value)
    except Exception:
        return False
    return True


def _needed(trace, nodeid):
    """What the test needed (`Trace.during`); None if it did not come to run."""
    name = inner.name(nodeid)
    spans = [each["spans"] for each in trace.report()["operators"] if each["name"] == name]
    if not spans:
        return None
    [span] = spans[0][:1]
    start = round(span["start_seconds"] * 1e9)
    end = None if span["seconds"] is None else start + round(span["seconds"] * 1e9)
    return {**trace.during(start, end), "lost": trace.meta["lost"]["events"]}


def _why_unseen(trace):
    """Why a test that has run has no span."""
    unread = [note for note in trace.meta["notes"] if note.startswith("Python frames")]
    return unread[0] if unread else "the recording has no span of the test; please report this"


def _too_much(item, peak, limit):
    """Why a test needed too much; None if it did not."""
    if limit is not None and peak > limit:
        return _of_limit(limit)
    peaks = saved.of(item.config)
    return peaks and peaks.increase(item.nodeid, peak)


def _of_limit(limit):
    return "it has no limit" if limit is None else f"its limit is {sizes.text(limit)}"


def _fail(report, text):
    if report.outcome == "passed" and not hasattr(report, "wasxfail"):
        report.outcome, report.longrepr = "failed", text
    else:
        report.sections.append(("memtrace", text))


def _shape(needed, judged):
    """What the peak was made of, and how it was judged."""
    if needed is None:
        return "it did not come to run"
    peak = needed["peak_bytes"]
    lines = [f"needed {sizes.text(peak)} ({peak:,} bytes), {judged}"]
    if needed["lost"]:
        lines.append(f"  or more: {needed['lost']:,} events were lost")
    for site in needed["sites"]:
        lines.append(f"  {sizes.text(site['bytes']):>8}  allocated at {site['place']}")
    for need in needed["operators"]:
        lines.append(f"  {sizes.text(need['working_peak_bytes']):>8}  operator {need['operator']}")
    return "\n".join(lines)


def _failure(item, text):
    """A report of a test that could not be judged."""
    return pytest.TestReport(item.nodeid, item.location, {item.name: 1}, "failed", text, "call")


def left_behind(item, nextitem):
    """Tears down what earlier tests here share with the test but not with the next one."""
    state = item.session._setupstate
    call = pytest.CallInfo.from_call(lambda: state.teardown_exact(nextitem), when="teardown")
    return [pytest.TestReport.from_item_and_call(item, call)] if call.excinfo else []
