"""Small files that say much: traces, models and graphs that would take gigabytes or minutes if they
were believed. `make` writes them all; a bomb is its name and the file of the trace that it replaces."""

import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 2_000_000
UINT32 = pa.uint32()
GARBAGE = b"\x9c" * 64


def rows_of(path, rows):
    """A row of a table, so many times: dictionaries and run lengths make it a small file."""
    pq.write_table(times(path, rows), path, compression="zstd", row_group_size=1_000_000)


def no_rows(path):
    """The table without its rows, which others refer to."""
    pq.write_table(pq.read_table(path).slice(0, 0), path)


def times(path, rows):
    """The first row of a table, so many times."""
    table = pq.read_table(path)
    row = table.slice(0, 1) if table.num_rows else one_row(table.schema)
    return row.take(pa.array(np.zeros(rows, np.int32)))


def one_row(schema):
    """Zeros, empty texts, empty JSON."""
    return pa.table([[value_of(field)] for field in schema], schema=schema)


def value_of(field):
    if field.name in ("inputs", "outputs"):
        return "[]"
    if field.name == "params":
        return "{}"
    known = {"kind": "malloc", "role": "none", "origin": "exec"}
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    return known.get(field.name, "") if pa.types.is_string(kind) else 0


def with_column(path, name, values, **options):
    """A table with one column replaced, and as many rows as that has."""
    base = times(path, len(values))
    at = base.schema.get_field_index(name)
    base = base.set_column(at, name, values)
    pq.write_table(base, path, **{"compression": "zstd", **options})


def column(name, make, **options):
    return lambda path: with_column(path, name, make(), **options)


def text(length, count=1):
    return lambda: pa.array(["A" * length] * count)


def repeated(value, count):
    """The same text so often, as a dictionary: a page of some bytes."""
    return lambda: pa.DictionaryArray.from_arrays(
        pa.array([0] * count, pa.int32()), pa.array([value])
    )


def numbers(make, kind=UINT32):
    return lambda: pa.array(make, kind)


def bytes_of(edit):
    def change(path):
        path.write_bytes(edit(path.read_bytes()))

    return change


def end_of(length):
    """The file's end claims this length."""
    return bytes_of(lambda old: old[:-8] + struct.pack("<I", length) + old[-4:])


def groups(count):
    def change(path):
        row = one_row(pq.read_schema(path))
        with pq.ParquetWriter(path, row.schema, compression="zstd") as writer:
            for _ in range(count):
                writer.write_table(row)

    return change


def wide(columns):
    def change(path):
        row = one_row(pq.read_schema(path))
        more = {f"c{number}": [0] for number in range(columns)}
        pq.write_table(
            pa.table({**dict(zip(row.column_names, row.columns, strict=True)), **more}), path
        )

    return change


def nested(depth):
    """A column of lists inside lists."""

    def change(path):
        row = one_row(pq.read_schema(path))
        value, kind = [1], pa.list_(pa.int32())
        for _ in range(depth):
            value, kind = [value], pa.list_(kind)
        at = row.schema.names[0]
        columns = dict(zip(row.column_names, row.columns, strict=True)) | {
            at: pa.array([value], kind)
        }
        pq.write_table(pa.table(columns), path)

    return change


def meta(**values):
    def change(path):
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return change


def deep_frames(depth, parent=lambda frame: frame - 1 if frame else None):
    def change(path):
        schema = pq.read_schema(path)
        parents = pa.array([parent(frame) for frame in range(depth)], pa.uint32())
        base = one_row(schema)
        columns = {
            name: pa.array([base[name][0].as_py()] * depth, schema.field(name).type)
            for name in schema.names
        }
        columns |= {"frame": pa.array(range(depth), pa.uint32()), "parent": parents}
        pq.write_table(pa.table(columns, schema=schema), path, compression="zstd")
        sites = path.with_name("sites.parquet")
        with_column(sites, "frame", pa.array([depth - 1], pa.uint32()))
        rows = pq.read_table(sites)
        for name in ("live_bytes_at_peak", "live_bytes_at_end"):
            at = rows.schema.get_field_index(name)
            rows = rows.set_column(at, name, pa.array([1 << 30], rows.schema.field(name).type))
        pq.write_table(rows, sites)

    return change


def json_array(element, count):
    return lambda: pa.array(["[" + ",".join([element] * count) + "]"])


PART = "allocations/part-00000.parquet"
TOP = (1 << 64) - 1
TRACES = {
    "two million calls that differ": ("spans.parquet", lambda path: many_spans(path, ROWS)),
    **{
        f"{table} repeats a row": (f"{table}.parquet", lambda path: rows_of(path, ROWS))
        for table in (
            "spans",
            "sites",
            "frames",
            "processes",
            "threads",
            "modules",
            "devices",
            "folded",
        )
    },
    "allocations repeat a row": (PART, lambda path: rows_of(path, 4_000_000)),
    "no processes": ("processes.parquet", no_rows),
    "blocks of a process without a row": (PART, column("process", numbers([7] * 1000))),
    "an operator of 160 MB": (
        "spans.parquet",
        column("operator", text(160 << 20), use_dictionary=False),
    ),
    "an operator of 100 MB": ("spans.parquet", column("operator", text(100 << 20))),
    "operators of 20 MB": (
        "spans.parquet",
        column("operator", text(20 << 20, 20), use_dictionary=False),
    ),
    "operators of 3 MB": (
        "spans.parquet",
        column("operator", text(3 << 20, 200), use_dictionary=False),
    ),
    "one operator of 3 MB, often": (
        "spans.parquet",
        column("operator", repeated("A" * (3 << 20), 100_000)),
    ),
    "a command of 1 MB, often": (
        "processes.parquet",
        column("command", repeated("A" * (1 << 20), 100_000)),
    ),
    "a function of 1 MB, often": (
        "frames.parquet",
        column("function", repeated("A" * (1 << 20), 100_000)),
    ),
    "a path of 140 MB": (
        "modules.parquet",
        column("path", text(140 << 20), use_dictionary=False),
    ),
    "prefixes": (
        "spans.parquet",
        column(
            "operator",
            text(200_000, 2000),
            use_dictionary=False,
            column_encoding={"operator": "DELTA_BYTE_ARRAY"},
        ),
    ),
    "inputs without end": (
        "spans.parquet",
        column("inputs", json_array('{"shape":[],"dtype":""}', 2_000_000)),
    ),
    "inputs, often": (
        "spans.parquet",
        column("inputs", repeated('[{"shape":[1,2,3],"dtype":"<f4"}]', ROWS)),
    ),
    "a shape of a million axes": (
        "spans.parquet",
        column(
            "inputs",
            lambda: pa.array(['[{"shape":[' + ",".join(["9"] * 1_000_000) + '],"dtype":""}]']),
        ),
    ),
    "params without end": (
        "spans.parquet",
        column("params", lambda: pa.array(['{"a":[' + ",".join(["[]"] * 1_300_000) + "]}"])),
    ),
    "params nest": (
        "spans.parquet",
        column("params", lambda: pa.array(['{"a":' + "[" * 1_000_000])),
    ),
    "every span an operator": (
        "spans.parquet",
        column("operator", lambda: pa.array([f"o{number}" for number in range(300_000)])),
    ),
    "spans around themselves": ("spans.parquet", column("parent", numbers([0] * 300_000))),
    "spans inside spans": ("spans.parquet", lambda path: chain(path, 300_000)),
    "times that overflow": ("spans.parquet", lambda path: overflow(path)),
    "blocks that overflow": (PART, column("bytes", numbers([TOP] * 100_000, pa.uint64()))),
    "stacks that loop": ("frames.parquet", deep_frames(1000, lambda frame: (frame + 1) % 1000)),
    "a frame above itself": ("frames.parquet", deep_frames(1000, lambda frame: frame)),
    "a stack of a million frames": ("frames.parquet", deep_frames(1_000_000)),
    "a thousand row groups": ("spans.parquet", groups(1000)),
    "row groups without end": ("threads.parquet", groups(11_000)),
    "a thousand columns": ("spans.parquet", wide(1000)),
    "lists": ("threads.parquet", nested(1)),
    "lists in lists": ("threads.parquet", nested(60)),
    "an end of 4 GB": ("spans.parquet", end_of(0xFFFF_FFFF)),
    "an end of 2 GB": ("spans.parquet", end_of(0x7FFF_FFFF)),
    "an end of nothing": ("spans.parquet", end_of(0)),
    "an end of garbage": (
        "spans.parquet",
        bytes_of(lambda old: old[:-200] + b"\x99" * 192 + old[-8:]),
    ),
    "a header of garbage": ("spans.parquet", bytes_of(lambda old: old[:4] + GARBAGE + old[68:])),
    "no bytes": ("spans.parquet", bytes_of(lambda _: b"")),
    "meta.json nests": ("meta.json", bytes_of(lambda _: b"[" * 10_000_000)),
    "meta.json is deep": (
        "meta.json",
        bytes_of(lambda old: old.rstrip()[:-1] + b', "x": ' + b"[" * 500_000),
    ),
    "meta.json is long": ("meta.json", lambda path: os.truncate(path, 600 << 20)),
    "notes without end": ("meta.json", meta(notes=[""] * 3_000_000)),
    "figures at their end": ("meta.json", lambda path: largest_meta(path)),
    "no numbers": (
        "meta.json",
        bytes_of(lambda old: old.replace(b'"live_bytes": ', b'"live_bytes": 1e308, "x": ')),
    ),
}


def chain(path, count):
    table = times(path, count)
    for name, values in {
        "span": range(count),
        "parent": [None, *range(count - 1)],
        "live_bytes_at_end": [1] * count,
    }.items():
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, pa.array(values, table.schema.field(name).type))
    pq.write_table(table, path, compression="zstd")


def overflow(path):
    row = one_row(pq.read_schema(path))
    low, high = -(1 << 63), (1 << 63) - 1
    names = {
        "start_ns": low,
        "end_ns": high,
        "peak_ns": low,
        "working_peak_bytes": TOP,
        "kept_bytes": TOP,
        "input_bytes": TOP,
        "live_bytes_at_end": TOP,
        "one_time_bytes": TOP,
        "temporary_peak_bytes": TOP,
    }
    for name, value in names.items():
        at = row.schema.get_field_index(name)
        row = row.set_column(at, name, pa.array([value], row.schema.field(name).type))
    pq.write_table(row.take(pa.array([0] * 1000)), path)


def largest_meta(path):
    """Every number as large as it can be."""

    def grown(value):
        match value:
            case dict():
                return {key: grown(each) for key, each in value.items()}
            case bool() | str() | None | list():
                return value
            case _:
                return (1 << 63) - 1

    old = json.loads(path.read_text())
    new = {
        **old,
        **{
            key: grown(old[key])
            for key in ("peak", "totals", "lost", "duration_ns", "start_unix_ns")
        },
    }
    path.write_text(json.dumps(new))


def models(model):
    """Texts that `predict` and `recommend` read in place of a model."""
    old = json.loads(model)
    law = old["laws"][0]
    many = {**old, "laws": [law] * (1_000_000 // len(json.dumps(law)) * 15)}
    return {
        "a model nests": '{"a":' * 1_000_000,
        "a model is long": model + " " * (200 << 20),
        "a model of empty lists": json.dumps({**old, "notes": [""] * 3_000_000}),
        "a model of many laws": json.dumps(many),
        "a coefficient of 1e308": model.replace(
            '"schema_version"', '"x": 1e308, "schema_version"', 1
        ).replace('"coefficient": ', '"coefficient": 9'),
        "steps without end": json.dumps({**old, "laws": [{**law, "body": endless(law["body"])}]}),
        "variables without end": json.dumps(
            {**old, "laws": [{**law, "variables": law["variables"] * 100_000}]}
        ),
    }


def endless(body):
    """Its sequence, a million times over."""
    steps = body.get("steps")
    return {**body, "steps": steps * (2_000_000 // max(len(steps), 1))} if steps else body


def graphs(operator):
    """Texts that `plan` reads in place of a graph."""

    def graph(shape, **more):
        step = {"name": "s", "operator": operator, "inputs": ["x"], "dtype": "<f4"}
        source = {"x": {"shape": shape, "dtype": "<f4"}}
        return json.dumps({"version": 1, "sources": source, "steps": [step], **more})

    large = 10**18
    steps = [
        {
            "name": f"s{n}",
            "inputs": [],
            "bytes": {"fixed": 1},
            "output": {"shape": [1], "dtype": "<f4"},
        }
        for n in range(100_000)
    ]
    inside = '{"name":"a","steps":['
    return {
        "10^18 cells": graph([large, large]),
        "a shape of 2^64": graph([TOP, TOP]),
        "a shape without end": graph([1] * 1_000_000),
        "a graph nests": '{"version":1,"steps":[' + inside * 100_000,
        "fused without end": '{"version":1,"steps":[' + inside * 60 + "]}" * 60 + "]}",
        "a hundred thousand steps": json.dumps({"version": 1, "steps": steps}),
        "a join of 2^64": graph([8, 8]).replace(
            f'"operator": "{operator}"', f'"join": [{TOP}, {TOP}]'
        ),
        "bytes of 1e308": json.dumps(
            {
                "version": 1,
                "sources": {"x": {"shape": [TOP], "dtype": "<f8"}},
                "steps": [
                    {"name": "s", "inputs": ["x"], "bytes": {"fixed": TOP, "per_element": 1e308}}
                ],
            }
        ),
    }


def many_spans(path, count):
    """Calls of one operator that differ in their times and bytes."""
    row = pq.read_table(path).slice(0, 1)
    schema, row = row.schema, row.to_pylist()[0]
    numbers = np.arange(count)
    noise = np.random.default_rng(7).integers(0, 1000, count)
    changed = {
        "span": numbers,
        "call": numbers,
        "start_ns": numbers * 10_000 + noise,
        "end_ns": numbers * 10_000 + 5_000 + noise,
        "peak_ns": numbers * 10_000 + 2_000 + noise,
        "working_peak_bytes": 1_000_000 + noise * 8,
    }

    def values(field):
        if field.name in changed:
            return pa.array(changed[field.name], field.type)
        return pa.array([row[field.name]], field.type).take(pa.array(np.zeros(count, np.int32)))

    pq.write_table(
        pa.table([values(field) for field in schema], schema=schema), path, compression="zstd"
    )


def make(trace, folder):
    """Copies of a trace, each with one bomb in it, by another process: what a child took at most is
    never less than what its parent had when it was started."""
    subprocess.run([sys.executable, __file__, trace, folder], check=True)
    return {bomb: folder / str(number) for number, bomb in enumerate(TRACES)}


if __name__ == "__main__":
    for number, (named, change) in enumerate(TRACES.values()):
        place = Path(sys.argv[2]) / str(number)
        shutil.copytree(sys.argv[1], place)
        change(place / named)
