"""Peaks of tests with `limit_memory`: saved by one session, and compared with by another."""

import json
import math
import os
import re
from pathlib import Path

import pytest

from .._planning import sizes

PROPERTY = "memtrace_peak_bytes"
#: Options of a session that are not for a test's own process.
OPTIONS = ("memtrace_save", "memtrace_compare", "memtrace_fail_on_increase")
_VERSION = 1


def add_options(parser):
    group = parser.getgroup("memtrace")
    group.addoption(
        "--memtrace-save",
        metavar="FILE",
        help="write the peak of each test with limit_memory to this file",
    )
    group.addoption(
        "--memtrace-compare",
        metavar="FILE",
        help="show how these peaks differ from those that --memtrace-save wrote",
    )
    group.addoption(
        "--memtrace-fail-on-increase",
        metavar="HOW_MUCH",
        help="fail a test whose peak exceeds the compared one by more than this, e.g. 5%% or 1MB",
    )


def register(config):
    """Has a session compare and save, as its options say.

    UsageError: the file to compare with cannot be read, or the increase is none."""
    option = config.option
    if option.memtrace_save and option.memtrace_save == option.memtrace_compare:
        raise pytest.UsageError("--memtrace-save would replace the file of --memtrace-compare")
    if option.memtrace_fail_on_increase and not option.memtrace_compare:
        raise pytest.UsageError("--memtrace-fail-on-increase takes --memtrace-compare FILE as well")
    before = _read(option.memtrace_compare) if option.memtrace_compare else {}
    allowed = _increase(option.memtrace_fail_on_increase)
    if option.memtrace_save or option.memtrace_compare:
        config.pluginmanager.register(Peaks(config, before, allowed), "memtrace-peaks")


def of(config):
    """What `register` made of a session; None if it neither compares nor saves."""
    return config.pluginmanager.get_plugin("memtrace-peaks")


class Peaks:
    """The peaks of a session, beside those of an earlier one."""

    def __init__(self, config, before, allowed):
        self._save, self._compare = config.option.memtrace_save, config.option.memtrace_compare
        self._writes = not hasattr(config, "workerinput")  # a worker of pytest-xdist does not
        self._before, self._allowed = before, allowed
        self._found, self._failed, self._unsaved = {}, set(), None

    def increase(self, nodeid, peak):
        """In words, if a test needed more than the earlier session allows; else None."""
        before = self._before.get(nodeid)
        if before is None or self._allowed is None or peak <= self._allowed(before):
            return None
        return f"{_change(before, peak)} than the {sizes.text(before)} in {self._compare}"

    def pytest_runtest_logreport(self, report):
        peak = dict(report.user_properties).get(PROPERTY)
        if peak is not None:
            self._found[report.nodeid] = peak
        if report.failed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self, session, exitstatus):
        ran = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        if not self._save or not self._writes or not ran or session.config.option.collectonly:
            return
        # A test that failed may have needed more later on.
        peaks = {name: self._found[name] for name in sorted(self._found.keys() - self._failed)}
        text = json.dumps({"version": _VERSION, "peak_bytes": peaks}, indent=1)
        file = Path(self._save)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            partial = file.with_name(f".{file.name}.{os.getpid()}")
            partial.write_text(text + "\n")
            partial.replace(file)
        except OSError as error:
            self._unsaved = error
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def pytest_terminal_summary(self, terminalreporter):
        if self._unsaved:
            terminalreporter.write_line(f"--memtrace-save: {self._unsaved}", red=True)
        if not self._compare or not self._writes:
            return
        terminalreporter.write_sep("=", f"peaks, compared with {self._compare}")
        common = [name for name in self._found if name in self._before]
        changed = [name for name in common if self._found[name] != self._before[name]]
        for name in sorted(changed, key=self._grown, reverse=True):
            before, now = self._before[name], self._found[name]
            sides = f"{sizes.text(before)} -> {sizes.text(now)}"
            terminalreporter.write_line(f"{_change(before, now):>16}  {sides:<22}  {name}")
        new, gone = len(self._found) - len(common), len(self._before) - len(common)
        terminalreporter.write_line(
            f"{len(changed)} of {len(common)} tests changed; {new} are new, {gone} were not run"
        )

    def _grown(self, name):
        return self._found[name] - self._before[name]


def _change(before, now):
    """`15.0 % more`."""
    if not before:
        return f"{sizes.text(now)} more"
    return f"{abs(now / before - 1):.1%} {'more' if now > before else 'less'}".replace("%", " %")


def _read(file):
    try:
        read = json.loads(Path(file).read_text())
        peaks = read["peak_bytes"] if read["version"] == _VERSION else None
        if all(type(peak) is int and 0 <= peak < sizes.TOO_LARGE for peak in peaks.values()):
            return peaks
    except OSError as error:
        raise pytest.UsageError(
            f"--memtrace-compare: {error}; --memtrace-save FILE writes it"
        ) from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass
    raise pytest.UsageError(
        f"--memtrace-compare: {file} is no file that --memtrace-save of this version wrote"
    )


def _increase(allowed):
    """The most that is allowed, of what there was before; None if all is."""
    if not allowed:
        return None
    share = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", allowed)
    try:
        if share:
            factor = 1 + float(share.group(1)) / 100
            return lambda before: math.floor(before * factor)
        size = sizes.parse(allowed)
        return lambda before: before + size
    except (ValueError, OverflowError):
        message = f"--memtrace-fail-on-increase: {allowed!r} is no increase; write 5% or 1MB"
        raise pytest.UsageError(message) from None
