"""`memtrace export`: what other tools are given adds up to what `report` says.

What they make of it: test_export_readers.py.
"""

import csv
import gzip
import json
import sys

import duckdb
import pytest
from conftest import TARGETS, memtrace
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

FORMATS = ("collapsed", "speedscope", "pprof", "firefox", "chrome", "perfetto", "table")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A recording of tests/targets/paged.py, with its report."""
    path = tmp_path_factory.mktemp("export") / "trace"
    recording = ("-q", "-o", path, "--stacks", "all", "--", sys.executable)
    done = memtrace(*recording, TARGETS / "paged.py", cwd=TARGETS)
    assert done.returncode == 0, done.stderr.decode()
    return path, json.loads(memtrace("report", "--json", path).stdout)


def exported(run, kind):
    done = memtrace("export", run[0], "--format", kind, "-o", "-")
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def collapsed(run):
    """Stacks and widths, which add up to the peak."""
    lines = exported(run, "collapsed").decode().splitlines()
    stacks = [line.rsplit(" ", 1) for line in lines]
    assert sum(int(width) for _, width in stacks) == run[1]["peak"]["live_bytes"]
    return stacks


def test_collapsed_stacks_name_lines(run):
    stacks = collapsed(run)
    largest = max(stacks, key=lambda stack: int(stack[1]))[0].split(";")
    assert any("paged.py" in frame for frame in largest)


def test_speedscope_profiles_add_up(run):
    file = json.loads(exported(run, "speedscope"))
    assert file["$schema"].endswith("file-format-schema.json")
    frames = file["shared"]["frames"]
    totals = []
    for profile in file["profiles"]:
        assert profile["type"] == "sampled" and profile["unit"] == "bytes"
        assert len(profile["samples"]) == len(profile["weights"])
        assert all(0 <= frame < len(frames) for stack in profile["samples"] for frame in stack)
        assert profile["endValue"] == sum(profile["weights"])
        totals.append(profile["endValue"])
    report = run[1]
    assert totals[:2] == [report["peak"]["live_bytes"], report["totals"]["requested_bytes"]]


def pprof_profile():
    """The class of pprof's messages, from the numbers of profile.proto."""
    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package="p", syntax="proto3")
    kinds = {"int": 3, "uint": 4, "string": 9, "message": 11}

    def message(title, **fields):
        into = file.message_type.add(name=title)
        for field, (number, kind, label, of) in fields.items():
            into.field.add(name=field, number=number, type=kinds[kind], label=label, type_name=of)

    one, many = 1, 3
    message("ValueType", type=(1, "int", one, None), unit=(2, "int", one, None))
    message("Line", function_id=(1, "uint", one, None), line=(2, "int", one, None))
    message("Sample", location_id=(1, "uint", many, None), value=(2, "int", many, None))
    message(
        "Location",
        id=(1, "uint", one, None),
        mapping_id=(2, "uint", one, None),
        line=(4, "message", many, ".p.Line"),
    )
    message(
        "Function",
        id=(1, "uint", one, None),
        name=(2, "int", one, None),
        filename=(4, "int", one, None),
    )
    message(
        "Profile",
        sample_type=(1, "message", many, ".p.ValueType"),
        sample=(2, "message", many, ".p.Sample"),
        location=(4, "message", many, ".p.Location"),
        function=(5, "message", many, ".p.Function"),
        string_table=(6, "string", many, None),
        default_sample_type=(14, "int", one, None),
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("p.Profile"))


def test_pprof_adds_up_and_names_lines(run):
    profile = pprof_profile()()
    profile.ParseFromString(gzip.decompress(exported(run, "pprof")))
    text = profile.string_table
    assert text[0] == ""
    types = [(text[each.type], text[each.unit]) for each in profile.sample_type]
    assert types == [("inuse_space", "bytes"), ("alloc_space", "bytes"), ("alloc_objects", "count")]
    assert text[profile.default_sample_type] == "inuse_space"
    sums = [sum(sample.value[kind] for sample in profile.sample) for kind in range(3)]
    report = run[1]
    totals = report["totals"]
    assert sums == [report["peak"]["live_bytes"], totals["requested_bytes"], totals["allocations"]]
    locations = {each.id: each for each in profile.location}
    functions = {each.id: each for each in profile.function}
    largest = max(profile.sample, key=lambda sample: sample.value[0])
    lines = [locations[number].line[0] for number in largest.location_id]
    files = [text[functions[line.function_id].filename] for line in lines]
    assert any(
        file.endswith("paged.py") and line.line for file, line in zip(files, lines, strict=True)
    )


def test_firefox_has_bytes_operators_and_memory_over_time(run):
    profile = json.loads(exported(run, "firefox"))
    threads = profile["threads"]
    table = threads[0]["nativeAllocations"]
    assert sum(table["weight"]) == run[1]["peak"]["live_bytes"]
    assert all(
        stack is None or 0 <= stack < threads[0]["stackTable"]["length"] for stack in table["stack"]
    )
    markers = sum(thread["markers"]["length"] for thread in threads)
    assert markers == sum(operator["calls"] for operator in run[1]["operators"])
    (counter,) = profile["counters"]
    counts = counter["samples"]["count"]
    reached, most = 0, 0
    for count in counts:
        reached += count
        most = max(most, reached)
    assert most == run[1]["peak"]["live_bytes"]


def test_trace_events_have_operators_and_the_peak(run):
    events = json.loads(exported(run, "chrome"))["traceEvents"]
    calls = [event for event in events if event["ph"] == "X"]
    assert len(calls) == sum(operator["calls"] for operator in run[1]["operators"])
    peaks = {span["working_peak_bytes"] for each in run[1]["operators"] for span in each["spans"]}
    assert {event["args"]["working_peak_bytes"] for event in calls} == peaks
    live = [
        event["args"]["bytes"] for event in events if event["ph"] == "C" and event["name"] == "live"
    ]
    assert max(live) == run[1]["peak"]["live_bytes"]
    assert all(event["pid"] > 0 for event in events)


def table(trace):
    """The rows of `--format table`, by the names of its columns, with numbers as such."""
    done = memtrace("export", trace, "--format", "table", "-o", "-")
    assert done.returncode == 0, done.stderr.decode()
    rows = list(
        csv.DictReader(done.stdout.decode().splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    )
    names = ("peak_bytes", "leaked_bytes", "allocations", "temporary")
    assert tuple(rows[0]) == (*names, "function", "file", "line")
    return [{**row, **{name: int(row[name] or -1) for name in names}} for row in rows]


def test_the_table_adds_up_and_names_lines(run):
    trace, report = run
    rows = table(trace)
    sums = {name: sum(row[name] for row in rows) for name in ("peak_bytes", "leaked_bytes")}
    leaks = json.loads(memtrace("report", "--leaks", "--json", trace).stdout)
    assert sums == {
        "peak_bytes": report["peak"]["live_bytes"],
        "leaked_bytes": leaks["live_bytes"],
    }
    assert sum(row["allocations"] for row in rows) == report["totals"]["allocations"]
    soon = (
        f"SELECT count(*) FROM '{trace}/allocations/*.parquet' WHERE free_ns - alloc_ns <= 10000"
        " AND kind IN ('malloc', 'calloc', 'realloc', 'aligned')"
    )
    assert sum(row["temporary"] for row in rows) == duckdb.sql(soon).fetchall()[0][0] > 0
    peaks = [row["peak_bytes"] for row in rows]
    assert peaks == sorted(peaks, reverse=True)
    assert rows[0]["file"].endswith("paged.py") and int(rows[0]["line"]) > 0


def test_the_table_of_a_trace_without_rows_has_no_temporary_blocks(record, python):
    run = record(python, "-c", "x = bytearray(10_000_000)", options=("-q", "--aggregate"))
    rows = table(run.path)
    assert {row["temporary"] for row in rows} == {-1}
    assert sum(row["peak_bytes"] for row in rows) == run.report["peak"]["live_bytes"]


def test_names_of_frames_cannot_begin_another(record, python, tmp_path):
    program = tmp_path / "odd.py"
    program.write_text("exec(compile('kept = bytearray(9_000_000)', 'a;b\\n7', 'exec'))\n")
    trace = record(python, program).path
    run = (trace, json.loads(memtrace("report", "--json", trace).stdout))
    collapsed(run)
    for kind in ("speedscope", "firefox", "chrome"):
        json.loads(exported(run, kind))


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_has_a_name_of_its_own(run, kind, tmp_path):
    done = memtrace("export", run[0], "--format", kind, cwd=tmp_path)
    assert done.returncode == 0
    (file,) = tmp_path.iterdir()
    assert file.name.encode() in done.stderr


def test_what_makes_no_sense_is_refused(run, tmp_path):
    assert memtrace("export", run[0]).returncode == 2
    assert memtrace("export", run[0], "--format", "xml").returncode == 2
    done = memtrace("export", tmp_path, "--format", "pprof")
    assert (done.returncode, done.stderr.count(b"\n")) == (1, 1)
