"""`@pytest.mark.limit_memory`, in sessions of its own."""

import json
import os
import re
import subprocess
import sys

import pytest
from conftest import MEMTRACE, ROOT, environment

TESTS = """
import os, subprocess, sys, threading
import numpy as np
import pytest

ONCE = []

@pytest.fixture(scope="module")
def large():
    ONCE.append(1)
    return np.ones(5_000_000)  # 40 MB that no test is charged with

@pytest.mark.limit_memory("20 MB")
def test_within(large, tmp_path):
    (tmp_path / "file").write_text("x")
    print("printed inside")
    for _ in range(3):
        np.ones(2_000_000)

@pytest.mark.limit_memory("15.9 MB")
def test_beyond(large):
    values = np.ones(2_000_000)
    del values

@pytest.mark.limit_memory("30MB")
def test_thread():
    thread = threading.Thread(target=lambda: bytearray(40_000_000))
    thread.start()
    thread.join()

@pytest.mark.limit_memory("30 MiB")
def test_child():
    subprocess.run([sys.executable, "-c", "bytearray(60_000_000)"], check=True)

@pytest.mark.limit_memory("1 MB")
def test_wrong():
    held = bytearray(2_000_000)
    raise ValueError(len(held))

@pytest.mark.limit_memory("1 GB")
def test_killed():
    held = bytearray(7_000_000)
    os.kill(os.getpid(), 9)

@pytest.mark.limit_memory("much")
def test_no_size():
    pass

@pytest.mark.skip(reason="not today")
@pytest.mark.limit_memory("1 MB")
def test_skipped():
    pass

@pytest.mark.parametrize("size", [100_000, 3_000_000])
@pytest.mark.limit_memory(1_000_000)
def test_each(size):
    bytearray(size)

def test_plain(large):
    assert len(ONCE) == 1
    bytearray(90_000_000)
"""


def inner_pytest(folder, *arguments, before=(), path=MEMTRACE.parent):
    """A session of pytest with memtrace's plugin and xdist, and no plugin of other packages."""
    plugins = ("-p", "xdist", "-p", "memtrace.pytest_plugin", "-p", "no:cacheprovider")
    return subprocess.run(
        [*before, sys.executable, "-m", "pytest", *plugins, *arguments],
        env=environment(
            PYTEST_DISABLE_PLUGIN_AUTOLOAD="1",  # zarr's imports zarr, in every process
            PYTHONPATH=str(ROOT / "python"),
            PATH=f"{path}:{os.environ['PATH']}",
            COLUMNS="200",
        ),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def session(tmp_path):
    """Runs pytest on the tests above; what it printed."""
    folder = tmp_path / "suite" / "inner"
    folder.mkdir(parents=True)
    (folder / "test_suite.py").write_text(TESTS)
    (tmp_path / "suite" / "pytest.ini").write_text("[pytest]\naddopts = --tb=short\n")

    def run(*arguments, **options):
        done = inner_pytest(tmp_path / "suite", "-rA", *arguments, **options)
        return done.stdout + done.stderr

    return run


def outcomes(text):
    summary = text.partition("short test summary info")[2]
    found = re.findall(r"^(\w+) inner/test_suite.py::([\w\[\]]+)", summary, re.MULTILINE)
    return {name: outcome for outcome, name in found}


def needed(text):
    return [int(number.replace(",", "")) for number in re.findall(r"\(([\d,]+) bytes\)", text)]


def test_a_test_fails_if_it_needs_more_than_its_limit(session):
    text = session()
    assert outcomes(text) == {
        "test_within": "PASSED",
        "test_beyond": "FAILED",
        "test_thread": "FAILED",
        "test_child": "FAILED",
        "test_wrong": "FAILED",
        "test_killed": "FAILED",
        "test_no_size": "FAILED",
        "test_each[100000]": "PASSED",
        "test_each[3000000]": "FAILED",
        "test_plain": "PASSED",
    }, text
    assert "1 skipped" in text
    described = text.partition("short test summary info")[0]
    beyond, thread, child, wrong, killed, each = needed(described)
    assert 16_000_000 <= beyond < 16_000_000 + 65_536
    assert 40_000_000 <= thread < 40_000_000 + 1_200_000  # a thread's arena
    assert 60_000_000 <= child < 60_000_000 + 20_000_000  # an interpreter
    assert 2_000_000 <= wrong < 2_000_000 + 65_536
    assert 7_000_000 <= killed < 7_000_000 + 65_536
    assert 3_000_000 <= each < 3_000_000 + 65_536
    assert re.search(r"16\.0 MB  allocated at test_beyond test_suite\.py:22", text), text
    assert "ValueError: 2000000" in text
    assert "process ended early, with status 137" in text
    assert "'much' is not a size; write 250 MB or 1.5 GB" in text
    assert "printed inside" in text  # a captured section of a test that passed (-rA)


def test_in_a_recorded_session_tests_are_spans_too(session, tmp_path):
    import memtrace

    trace = tmp_path / "trace"
    text = session("-k", "beyond or plain", before=(MEMTRACE, "-q", "-o", trace, "--"))
    assert outcomes(text) == {"test_beyond": "FAILED", "test_plain": "PASSED"}, text
    names = [operator["name"] for operator in memtrace.load(trace).report()["operators"]]
    assert "pytest:inner/test_suite.py::test_plain" in names


def test_without_the_command_a_test_fails_and_says_why(session):
    text = session("-k", "within", path="/nowhere")
    if not re.search(r"^PASSED .*test_within", text, re.MULTILINE):  # none is installed
        assert outcomes(text) == {"test_within": "FAILED"}
        assert "limit_memory cannot be measured: the command `memtrace` is neither" in text


def test_what_a_session_prints_and_writes(session, tmp_path):
    text = session("-s", "-x", "-k", "within or beyond or thread", f"--junitxml={tmp_path}/out.xml")
    assert "printed inside" in text
    assert outcomes(text) == {"test_within": "PASSED", "test_beyond": "FAILED"}, "-x stops"
    [peak] = re.findall(r'memtrace_peak_bytes" value="(\d+)"', (tmp_path / "out.xml").read_text())[
        :1
    ]
    assert 16_000_000 <= int(peak) < 20_000_000


GROWING = """
import pytest

@pytest.mark.limit_memory
@pytest.mark.parametrize("name", ["alike", "larger", "smaller"])
def test_sized(name):
    held = bytearray({"alike": 8_000_000, "larger": LARGER, "smaller": 16_000_000 - LARGER}[name])
"""


@pytest.fixture
def growing(tmp_path):
    """Runs pytest on tests of which one allocates `larger` bytes; its status and what it printed."""
    folder = tmp_path / "growing"
    folder.mkdir()

    def run(larger, *arguments, ini=""):
        (folder / "test_growing.py").write_text(GROWING.replace("LARGER", str(larger)))
        (folder / "pytest.ini").write_text(f"[pytest]\n{ini}")
        done = inner_pytest(folder, "-rA", *arguments)
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_peaks_are_compared_with_those_that_were_saved(growing, tmp_path, workers):
    file = tmp_path / "new" / "peaks.json"
    code, text = growing(8_000_000, *workers, f"--memtrace-save={file}")
    assert code == 0, text
    saved = json.loads(file.read_text())["peak_bytes"]
    assert [name.partition("[")[2] for name in saved] == ["alike]", "larger]", "smaller]"]
    assert all(8_000_000 <= peak < 8_100_000 for peak in saved.values())

    code, text = growing(9_000_000, *workers, f"--memtrace-compare={file}")
    assert code == 0, text
    pattern = r"^ +([\d.]+) % (\w+) +\S+ MB -> \S+ MB +.*\[(\w+)\]$"
    changes = re.findall(pattern, text, re.MULTILINE)
    assert all(
        float(share) == pytest.approx(12.5, abs=0.3) for share, *_ in (changes[0], changes[-1])
    )
    assert changes[0][1:] == ("more", "larger") and changes[-1][1:] == ("less", "smaller")
    assert re.search(r"^\d of 3 tests changed; 0 are new, 0 were not run$", text, re.MULTILINE)

    compared = (*workers, f"--memtrace-compare={file}", "--memtrace-fail-on-increase")
    larger = ("-k", "larger")
    for allowed, fails, chosen in (
        ("10%", True, ()),
        ("13 %", False, larger),
        ("900kB", True, larger),
        ("1100kB", False, larger),
    ):
        code, text = growing(9_000_000, *compared, allowed, *chosen)
        assert code == int(fails), text
        assert fails == bool(re.search(r"FAILED .*\[larger\]", text))
        if fails:
            assert re.search(
                r"needed .* bytes\), 12\.\d % more than the 8\.\d+ MB in .*peaks", text
            )
            assert "allocated at test_sized test_growing.py:7" in text
    assert json.loads(file.read_text())["peak_bytes"] == saved


def test_what_did_not_run_replaces_no_saved_file(growing, tmp_path):
    file = tmp_path / "peaks.json"
    save = f"--memtrace-save={file}"
    assert growing(8_000_000, save)[0] == 0
    saved = file.read_text()
    assert growing(8_000_000, save, "--collect-only")[0] == 0
    assert growing("no_such_name", save, "--collect-only", "no_such_file.py")[0] == 4
    assert file.read_text() == saved
    code, text = growing(8_000_000, save, f"--memtrace-compare={file}")
    assert code == 4 and "would replace the file of --memtrace-compare" in text
    # Of a session with a failure, what passed.
    assert growing(9_000_000, save, ini="memtrace_limit = 8.5 MB\n")[0] == 1
    assert [name.partition("[")[2] for name in json.loads(file.read_text())["peak_bytes"]] == [
        "alike]",
        "smaller]",
    ]
    code, text = growing(8_000_000, "--memtrace-save=/dev/null/peaks.json")
    assert code == 4 and "3 passed" in text and "--memtrace-save: " in text


def test_a_mark_without_a_size_takes_that_of_the_configuration(growing):
    code, text = growing(9_000_000, ini="memtrace_limit = 8.5 MB\n")
    assert code == 1 and "its limit is 8.50 MB" in text
    assert re.findall(r"^FAILED .*\[(\w+)\]", text, re.MULTILINE) == ["larger"]


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        (None, (), "--memtrace-save FILE writes it"),
        ("[]", (), "no file that --memtrace-save of this version wrote"),
        ('{"version": 1, "peak_bytes": {"a": -1}}', (), "no file that --memtrace-save"),
        ("[" * 100_000, (), "no file that --memtrace-save"),
        (
            '{"version": 1, "peak_bytes": {}}',
            ("--memtrace-fail-on-increase", "much"),
            "'much' is no increase; write 5% or 1MB",
        ),
    ],
)
def test_what_cannot_be_compared_with_is_one_sentence(growing, tmp_path, text, options, said):
    file = tmp_path / "peaks.json"
    if text is not None:
        file.write_text(text)
    code, printed = growing(8_000_000, f"--memtrace-compare={file}", *options)
    assert code == 4 and said in printed and "Traceback" not in printed


UNSEEN = """
import sys
import pytest

sys.modules.pop("_memtrace_recorder", None)  # as in an interpreter that the probe cannot read

@pytest.mark.limit_memory("1 GB")
def test_unseen():
    pass
"""


def test_a_limit_that_cannot_be_measured_fails(tmp_path):
    (tmp_path / "test_unseen.py").write_text(UNSEEN)
    done = inner_pytest(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "limit_memory cannot be measured: the recording has no span of the test" in done.stdout
