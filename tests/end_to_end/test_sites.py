"""Call stacks of large blocks: native and Python frames, exact, and the same in every run."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import summaries
from conftest import TARGETS

INTERPRETERS = [
    python
    for minor in range(8, 14)
    for python in sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python3"))
]


class Stacks:
    """The stacks of a trace, innermost frame first."""

    def __init__(self, run):
        self.run = run
        columns = "frame, parent, kind, function, file, line, module"
        names = ("parent", "kind", "function", "file", "line", "module")
        self.frames = {
            frame: dict(zip(names, rest, strict=True))
            for frame, *rest in run.sql(f"select {columns} from {{frames}}")
        }

    def of(self, size):
        """The stacks of all blocks of that many bytes."""
        leaves = self.run.sql(
            "select s.frame from {allocations} a left join {sites} s using (site)"
            f" where bytes = {size} order by alloc_ns"
        )
        return [self.upwards(leaf) for (leaf,) in leaves]

    def upwards(self, frame):
        stack = []
        while frame is not None:
            stack.append(self.frames[frame])
            frame = self.frames[frame]["parent"]
        return stack


def functions(stack, *modules):
    """Names of the functions in these modules, without the start-up code."""
    return [
        frame["function"]
        for frame in stack
        if frame["module"] in map(str, modules) and frame["function"] != "_start"
    ]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The C program, optimised and without frame pointers, and the library it loads."""
    folder = tmp_path_factory.mktemp("sites").resolve()
    flags = ["-O2", "-fomit-frame-pointer", "-fno-builtin"]
    program, library = folder / "sites", folder / "library.so"
    subprocess.run(["gcc", *flags, "-pthread", "-o", program, TARGETS / "sites.c"], check=True)
    source = TARGETS / "sites_library.c"
    subprocess.run(["gcc", *flags, "-shared", "-fPIC", "-o", library, source], check=True)
    return program, library


NATIVE = {
    500001: [["leaf", "middle", "main"], ["leaf", "main"]],
    65536: [["leaf", "middle", "main"]],
    500003: [["leaf", *["recursive"] * 4, "main"]],
    500009: [["leaf", "compare", "sorts", "main"]],
    500011: [["leaf", "handler", "raises", "main"]],
    500012: [["leaf", "handler", "raises", "on_another_stack", "main"]],
    500015: [["leaf", "middle", "in_thread"]],
    500021: [["every_kind", "main"]],
    500023: [["every_kind", "main"]],
    500029: [["every_kind", "main"]],
    500031: [["every_kind", "main"]],
    900031: [["every_kind", "main"]],
    500041: [["leaf", "middle", "in_coroutine"]],
    500051: [["in_library", "from_library", "main"]],
    500053: [["leaf", "middle", "in_library", "from_library", "main"]],
}


def test_native_stacks_are_exact_without_frame_pointers(record, program):
    stacks = Stacks(record(*program))
    for size, expected in NATIVE.items():
        assert [functions(stack, *program) for stack in stacks.of(size)] == expected, size
    [callback] = stacks.of(500009)
    assert "libc" in callback[2]["module"], "qsort called it"
    assert callback[1]["function"] == "compare"
    assert functions(stacks.of(500001)[0][-1:], *program) == [], (
        "the outermost is the start-up code"
    )


def test_a_library_by_a_relative_path_is_known(record, program):
    run = record(program[0], "./library.so", cwd=program[1].parent)
    stacks = Stacks(run)
    for size in (500051, 500053):
        assert [functions(stack, *program) for stack in stacks.of(size)] == NATIVE[size]
    assert run.sql(f"select count(*) >= 1 from {{modules}} where path = '{program[1]}'") == [
        (True,)
    ]


def test_names_of_cpp_and_rust(record, target, tmp_path):
    binary = tmp_path / "sites_cpp"
    source = TARGETS / "sites.cpp"
    subprocess.run(["g++", "-O2", "-fomit-frame-pointer", "-o", binary, source], check=True)
    stacks = Stacks(record(binary))
    [[*filled]] = [functions(stack, binary) for stack in stacks.of(8 * 50001)]
    assert filled == ["shop::Cart<double>::fill(unsigned long)", "main"]
    [stack] = stacks.of(500007)
    assert functions(stack, binary) == ["shop::order(unsigned long)", "main"]
    assert stack[0]["function"] == "operator new(unsigned long)"
    [caught] = [functions(stack, binary) for stack in stacks.of(500009)]
    assert caught == ["shop::order(unsigned long)", "throws(unsigned long)", "main"]
    [called] = [functions(stack, binary) for stack in stacks.of(500011)]
    assert called[0] == "shop::order(unsigned long)" and "lambda" in called[1]

    binary = target("sites.rs")
    stacks = Stacks(record(binary))
    [[*kept]] = [functions(stack, binary) for stack in stacks.of(500001)]
    assert kept[kept.index("sites::Store::keep") + 1] == "sites::main"
    [[*generic]] = [functions(stack, binary) for stack in stacks.of(500003)]
    assert "sites::twice" in generic and "sites::main" in generic
    [[*thread]] = [functions(stack, binary) for stack in stacks.of(500005)]
    assert "sites::Store::keep" in thread and "sites::main" not in thread


@pytest.mark.skipif(not INTERPRETERS, reason="no CPython 3.8 to 3.13 is installed under pyenv")
@pytest.mark.parametrize("interpreter", INTERPRETERS, ids=lambda path: path.parts[-3])
def test_python_stacks_are_what_traceback_says(record, interpreter):
    script = TARGETS / "sites.py"
    run = record(interpreter, script)
    assert run.code == 0
    stacks = Stacks(run)
    reported = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(reported) == 12
    for size, expected in reported:
        [stack] = stacks.of(size)
        python = [
            [frame["file"], frame["function"].rpartition(".")[2], frame["line"]]
            for frame in reversed(stack)
            if frame["kind"] == "python"
        ]
        assert python == expected, size
    # The frames are where the interpreter's evaluation was, and what it was called by is around them.
    [sorting] = stacks.of(300014)
    kinds = [frame["kind"] for frame in sorting]
    first, last = kinds.index("python"), len(kinds) - kinds[::-1].index("python")
    assert "native" in kinds[:first] and "native" in kinds[first:last] and "native" in kinds[last:]
    assert not any(
        (frame["function"] or "").startswith("_PyEval_EvalFrameDefault") for frame in sorting
    )


@pytest.mark.skipif(not INTERPRETERS, reason="no CPython 3.8 to 3.13 is installed under pyenv")
@pytest.mark.parametrize("interpreter", INTERPRETERS, ids=lambda path: path.parts[-3])
def test_every_small_block_has_its_python_stack(record, interpreter):
    """Most of them remembered: each block's size identifies its stack."""
    run = record(interpreter, TARGETS / "sites_many.py", options=["--stacks", "all"])
    stacks = Stacks(run)
    printed = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(printed) > 150
    for size, expected in printed:
        found = stacks.of(size)
        assert found, size
        for stack in found:
            python = [
                [frame["file"], frame["function"].rpartition(".")[2], frame["line"]]
                for frame in stack
                if frame["kind"] == "python"
            ]
            assert python == expected, size


def test_numpy_arrays(record, python, tmp_path):
    script = tmp_path / "arrays.py"
    script.write_text(
        "import numpy as np\n"
        "def make():\n"
        "    return np.zeros(5_000_003, 'u1')\n"
        "a = make()\n"
        "b = a + a\n"
        "def wrapped():\n"
        "    return np.full(5_000_007, 3, 'u1')\n"
        "c = wrapped()\n"
    )
    run = record(python, script)
    stacks = Stacks(run)

    def own(stack):
        return [(f["function"], f["line"]) for f in stack if f["file"] == str(script)]

    assert [own(stack) for stack in stacks.of(5_000_003)] == [
        [("make", 3), ("<module>", 4)],
        [("<module>", 5)],
    ]
    assert [own(stack) for stack in stacks.of(5_000_007)] == [[("wrapped", 7), ("<module>", 8)]]
    assert "numpy" in stacks.of(5_000_003)[0][0]["module"]
    largest = run.report["sites"][:3]
    assert [site["live_bytes_at_peak"] for site in largest] == [5_000_007, 5_000_003, 5_000_003]
    assert f"make ({script}:3)" in sum((site["stack"] for site in largest), [])
    [heading] = [line for line in run.details.splitlines() if line.startswith("    at peak")]
    table = run.details.split(heading)[1]
    assert "  wrapped arrays.py:7 (full " in table
    assert "  make arrays.py:3" in table
    known = sum(site["live_bytes_at_peak"] for site in run.report["sites"])
    peak = run.report["peak"]["live_bytes"]
    # A sample may account for more than there was; a large one is scaled to what there was.
    assert "(not sampled)" not in table or known < peak
    column = re.findall(r"^ +([\d.]+ \w+) +[\d.]+ % ", table, re.MULTILINE)
    # Each is printed with three digits.
    assert sum(map(summaries.size, column)) == pytest.approx(peak, rel=0.006), table
    assert max(len(line) for line in table.splitlines()) <= 100


def test_sites_have_the_same_ids_in_every_run(record, program, python):
    def ids(run, low, high):
        return run.sql(
            f"select bytes, site from {{allocations}} where bytes between {low} and {high}"
            " order by bytes, site"
        )

    first, second = record(*program), record(*program)
    addresses = [
        run.sql("select address from {allocations} where bytes = 500003") for run in (first, second)
    ]
    assert addresses[0] != addresses[1], "address spaces are random"
    assert ids(first, 500000, 900031) == ids(second, 500000, 900031)
    assert len({site for _, site in ids(first, 500000, 900031)}) > 10
    script = TARGETS / "sites.py"
    first, second = (ids(record(python, script), 300000, 301000) for _ in range(2))
    assert first == second and len(first) >= 12


def test_what_a_site_held_at_the_peak(record, python):
    program = (
        "def big(): return bytearray(40_000_000)\n"
        "def small(): return bytearray(3_000_000)\n"
        "kept = [small() for _ in range(5)]\n"
        "block = big()\n"
        "del block\n"
        "kept += [small() for _ in range(2)]\n"
    )
    run = record(python, "-c", program)
    held = {
        site["live_bytes_at_peak"]: site
        for site in run.report["sites"]
        if any(frame.startswith(("big (", "small (")) for frame in site["stack"])
    }
    assert held[40_000_001]["blocks"] == 1
    assert held[5 * 3_000_001]["peak_live_bytes"] == 5 * 3_000_001
    later = [site for bytes, site in held.items() if bytes == 0]
    assert [site["peak_live_bytes"] for site in later] == [2 * 3_000_001]


def test_a_forked_child_and_its_parents_libraries(record, python):
    program = (
        "import os\n"
        "def work(size): return bytearray(size)\n"
        "work(400_000)\n"
        "if os.fork() == 0:\n"
        "    work(500_000)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )
    stacks = Stacks(record(python, "-c", program))
    for size, line in ((400_001, 3), (500_001, 5)):
        [stack] = stacks.of(size)
        python_frames = [(f["function"], f["line"]) for f in stack if f["kind"] == "python"]
        assert python_frames == [("work", 2), ("<module>", line)]
        assert stack[0]["function"] is not None


def test_threads_keep_their_stacks_when_a_vforked_child_allocates(record, target):
    """The child's own blocks have none: to get room for stacks it would have to map memory in its parent."""
    run = record(target("vforked.c"))
    stacks = Stacks(run)
    begins = {0: "main", 1: "worker"}
    leaves = run.sql(
        "select distinct thread, frame from {allocations} join {sites} using (site)"
        f" where bytes = {1 << 17}"
    )
    for thread, leaf in leaves:
        path = [frame["function"] for frame in stacks.upwards(leaf)]
        caller = next(function for function in path if function != "deep")
        assert caller == begins[thread], path
    assert len(leaves) > 40
