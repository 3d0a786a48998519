"""Which span a block belongs to when work goes on in other threads, in pools and in coroutines."""

import subprocess

import pytest
from conftest import ROOT, environment, memtrace

MB = 1_000_000
HEAD = """
import memtrace, threading, time
from concurrent.futures import ThreadPoolExecutor
def take(megabytes):
    return bytearray(megabytes * 1_000_000)
"""


@pytest.fixture
def peaks(record, python):
    """Runs a program; the working peaks of its spans by operator, in MB, the parents, and the run."""

    def run(program, options=("--auto-operators", "none")):
        where = environment(PYTHONPATH=str(ROOT / "python"))
        done = record(python, "-c", HEAD + program, options=options, env=where)
        assert done.code == 0, done.stderr.decode()
        spans = [
            (operator["name"], span)
            for operator in done.report["operators"]
            for span in operator["spans"]
        ]
        names = {span["span"]: name for name, span in spans}
        by_name = {name: span["working_peak_bytes"] // MB for name, span in spans}
        parents = {name: names.get(span["parent"]) for name, span in spans}
        return by_name, parents, done

    return run


def test_a_pool_works_for_who_submits(peaks):
    program = """
pool = ThreadPoolExecutor(1)  # one thread for all: it goes from span to span
pool.submit(take, 1).result()
go, inside = threading.Event(), threading.Event()
def work(name, megabytes, first):
    with memtrace.span(name):
        if not first:
            inside.wait()
        held = pool.submit(take, megabytes).result()
        if first:
            inside.set()
            go.wait()
        else:
            go.set()
a = threading.Thread(target=work, args=("a", 20, True))
b = threading.Thread(target=work, args=("b", 50, False))
a.start(), b.start(), a.join(), b.join()
with memtrace.span("nobody's"):
    token = 0
held = pool.submit(take, 80).result()
with memtrace.span("sub"):
    held = list(pool.map(lambda n: take(n), (5, 6)))
    def inner():
        with memtrace.span("inner", (3, 3)):
            return take(7)
    held.append(pool.submit(inner).result())
"""
    found, parents, _ = peaks(program)
    assert found == {"a": 20, "b": 50, "nobody's": 0, "sub": 18, "inner": 7}
    assert parents["inner"] == "sub"
    assert parents["a"] is parents["b"] is None


def test_a_thread_works_for_the_span_that_started_it(peaks):
    program = """
stop, ended = threading.Event(), threading.Event()
held = []
def run():
    held.append(take(30))
    ended.wait()
    held.append(take(40))  # that span has ended: the one around it has not
    stop.set()
with memtrace.span("outer"):
    with memtrace.span("starts"):
        thread = threading.Thread(target=run)
        thread.start()
        while not held: time.sleep(0.001)
    with memtrace.span("other"):
        ended.set()
        thread.join()
"""
    found, parents, _ = peaks(program)
    assert found == {"outer": 70, "starts": 30, "other": 0}
    assert parents == {"outer": None, "starts": "outer", "other": "outer"}


def test_the_team_of_a_parallel_region_works_for_the_span_around_it(record, tmp_path):
    binary = tmp_path / "openmp"
    flags = ["-O1", "-fno-builtin", "-fopenmp", f"-I{ROOT / 'include'}"]
    command = ["gcc", *flags, "-o", binary, ROOT / "tests" / "targets" / "openmp.c"]
    built = subprocess.run(command, capture_output=True, check=False)
    if built.returncode:
        pytest.skip("no OpenMP: " + built.stderr.decode().splitlines()[-1])
    run = record(binary)
    assert run.code == 0
    operators = {operator["name"]: operator["spans"] for operator in run.report["operators"]}
    # The runtime's own blocks for its threads are small.
    assert 40 * MB <= operators["first"][0]["working_peak_bytes"] < 41 * MB
    assert 80 * MB <= operators["second"][0]["working_peak_bytes"] < 81 * MB
    blocks = (
        "select span, count(*) from {allocations} where bytes >= 10000000 group by 1 order by 1"
    )
    assert run.sql(blocks) == [(0, 4), (1, 4), (None, 4)]


def test_what_cannot_be_attributed_falls_to_the_process_and_is_counted(peaks):
    program = """
asked, done = threading.Event(), threading.Event()
def serve():
    asked.wait()
    global held
    held = take(60)
    done.set()
threading.Thread(target=serve).start()  # before any span
with memtrace.span("asks"):
    asked.set()
    done.wait()
"""
    found, _, run = peaks(program)
    assert found == {"asks": 0}
    [process] = run.report["processes"]
    assert 60 * MB <= process["unattributed_bytes"] < 61 * MB
    assert process["unattributed_allocations"] >= 1
    reported = "while operators ran, threads in none of them allocated"
    assert reported in run.details


def test_coroutines_that_take_turns_keep_their_spans(peaks):
    program = """
import asyncio
async def work(name, megabytes, turns):
    with memtrace.span(name):
        held = []
        for _ in range(turns):
            held.append(take(megabytes))
            await asyncio.sleep(0)
            held.append(take(megabytes))
            await asyncio.sleep(0.001)
async def outside():
    for _ in range(5):
        take(90)
        await asyncio.sleep(0)
async def main():
    with memtrace.span("main"):
        task = asyncio.create_task(work("child", 3, 2))
        await asyncio.sleep(0)
        held = take(11)
        thread = await asyncio.to_thread(take, 13) if hasattr(asyncio, "to_thread") else take(13)
        await task
async def everything():
    await asyncio.gather(work("a", 2, 4), work("b", 5, 4), main(), outside())
asyncio.run(everything())
"""
    found, parents, _ = peaks(program)
    assert found == {"a": 16, "b": 40, "main": 36, "child": 12}
    assert parents == {"a": None, "b": None, "main": None, "child": "main"}


def test_dask_threads_work_for_the_span_that_computes(peaks):
    pytest.importorskip("dask")
    program = """
import dask
pool = ThreadPoolExecutor(2)
tasks = [dask.delayed(take)(10) for _ in range(4)]
with dask.config.set(scheduler="threads", pool=pool):
    dask.compute(dask.delayed(take)(1))
    with memtrace.span("warm", (1, 1)):
        pass
    with memtrace.span("computes"):
        held = dask.compute(*tasks)
"""
    found, _, _ = peaks(program)
    assert 40 <= found["computes"] < 42
    found, parents, _ = peaks(program, options=())  # each task is a span of its own too
    assert found["take"] == 10
    assert 40 <= found["computes"] < 42
    assert parents["take"] == "computes"


def test_spans_of_threads_do_not_leak_into_each_other(peaks):
    program = """
def work(name, megabytes):
    for _ in range(50):
        with memtrace.span(name, (megabytes, 1)):
            take(megabytes)
threads = [threading.Thread(target=work, args=(f"t{n}", n)) for n in (1, 2, 3, 4)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
"""
    found, parents, run = peaks(program)
    assert found == {"t1": 1, "t2": 2, "t3": 3, "t4": 4}
    assert set(parents.values()) == {None}
    assert all(len(operator["spans"]) == 50 for operator in run.report["operators"])


def test_figures_agree_with_the_rows_when_a_task_outlives_its_span(peaks):
    program = """
import asyncio
async def late():
    with memtrace.span("late"):
        held = take(4)
        await asyncio.sleep(0.01)
        held = [held, take(8)]
async def main():
    with memtrace.span("outer"):
        with memtrace.span("early"):
            task = asyncio.create_task(late())
            await asyncio.sleep(0)
            held = take(2)
        await task
asyncio.run(main())
"""
    found, parents, run = peaks(program)
    assert found == {"outer": 14, "early": 6, "late": 12}
    assert parents == {"outer": None, "early": "outer", "late": "early"}
    done = memtrace("report", "--recompute", run.path)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
