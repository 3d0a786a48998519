"""Names, lines and inlined functions of native frames, wherever a file keeps them."""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from conftest import MEMTRACE, TARGETS, Recording, environment, is_root
from test_recover import HELD, recover, start, wait_until_noted

SOURCE = str(TARGETS / "symbols.c")

COLUMNS = ("frame", "parent", "kind", "function", "file", "line", "module", "offset")


def stack(run, size):
    """Frames of the only stack of blocks of that size, innermost first."""
    rows = run.sql(
        "select {} from {{frames}}".format(", ".join(f'"{column}"' for column in COLUMNS))
    )
    frames = {row[0]: dict(zip(COLUMNS, row, strict=True)) for row in rows}
    [(frame,)] = run.sql(
        "select distinct s.frame from {allocations} a join {sites} s using (site)"
        f" where bytes = {size}"
    )
    found = []
    while frame is not None:
        found.append(frames[frame])
        assert frames[frame]["parent"] is None or frames[frame]["parent"] < frame
        frame = frames[frame]["parent"]
    return found


def own(frames, module, *columns):
    """Some columns of the frames in a module, less the start-up code."""
    inside = [
        frame
        for frame in frames
        if frame["module"] == str(module) and frame["function"] != "_start"
    ]
    return [tuple(frame[column] for column in columns) for frame in inside]


def build(folder, *flags):
    binary = folder.resolve() / "symbols"
    options = ["-O2", "-fomit-frame-pointer", "-fno-builtin", *flags]
    subprocess.run(["gcc", *options, "-o", binary, SOURCE], check=True)
    return binary


def tool(*words):
    subprocess.run([str(word) for word in words], check=True)


def line(text):
    """The line of the source that begins so."""
    lines = Path(SOURCE).read_text().splitlines()
    [number] = [n for n, each in enumerate(lines, 1) if each.strip().startswith(text)]
    return number


CALLS = ["hidden", "exported", "main"]
INLINES = [
    ("inlined", "innermost", SOURCE, line("kept = malloc")),
    ("inlined", "inner", SOURCE, line("innermost(bytes)")),
    ("native", "hidden", SOURCE, line("inner(bytes)")),
    ("native", "exported", SOURCE, line("hidden(bytes)")),
    ("native", "main", SOURCE, line("exported(500003)")),
]
WHOLE = ("kind", "function", "file", "line")


def test_lines_and_inlined_functions(record, tmp_path):
    binary = build(tmp_path, "-g")
    frames = stack(record(binary), 500003)
    assert own(frames, binary, *WHOLE) == INLINES
    places = own(frames, binary, "offset")
    assert places[0] == places[1] == places[2] != places[3], "one address is three frames"


def test_a_call_that_never_returns_is_in_its_caller(record, tmp_path):
    binary = build(tmp_path, "-g")
    frames = own(stack(record(binary), 500009), binary, "function", "line")
    assert ("last", line("leaves();")) in frames
    assert ("leaves", line("exported(500009)")) in frames
    assert "after_last" not in [function for function, _ in frames]


def test_sites_do_not_depend_on_debug_information(record, tmp_path):
    """A file and what is left of it after `strip` have one build id: their sites are the same."""
    ids = []
    binary = build(tmp_path, "-g")
    for _ in range(2):
        run = record(binary)
        ids.append(run.sql("select site from {allocations} where bytes = 500003"))
        tool("strip", binary)
    assert ids[0] == ids[1]


@pytest.mark.parametrize("where", ["beside", "folder", "compressed"])
def test_debug_links(record, tmp_path, where):
    binary = build(tmp_path, "-g", "-Wl,--build-id=none")
    debug = binary.with_suffix(".debug")
    pack = ["--compress-debug-sections=zlib"] if where == "compressed" else []
    tool("objcopy", "--only-keep-debug", *pack, binary, debug)
    tool("objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", binary)
    if where == "folder":
        (tmp_path / ".debug").mkdir()
        debug = debug.rename(tmp_path / ".debug" / debug.name)
    assert own(stack(record(binary), 500003), binary, *WHOLE) == INLINES
    # With another content it is not the file that was linked.
    debug.write_bytes(debug.read_bytes() + b"\0")
    unnamed = own(stack(record(binary), 500003), binary, "function")
    assert unnamed == [(None,)] * 4, "the start-up code too"


@pytest.mark.skipif(not is_root(), reason="needs a mount of its own over /usr/lib/debug")
def test_debug_files_by_build_id(tmp_path):
    binary = build(tmp_path, "-g", "-Wl,--build-id=0x0123456789abcdef")
    folder = tmp_path / "installed"
    debug = folder / ".build-id" / "01" / "23456789abcdef.debug"
    debug.parent.mkdir(parents=True)
    tool("objcopy", "--only-keep-debug", binary, debug)
    tool("strip", binary)
    path = tmp_path / "trace"
    record = f"mount --bind {folder} /usr/lib/debug && exec '{MEMTRACE}' -o {path} -- {binary}"
    done = subprocess.run(["unshare", "-m", "sh", "-c", record], capture_output=True, check=False)
    if b"unshare" in done.stderr or b"mount" in done.stderr:
        pytest.skip("may not mount here")
    run = Recording(path, done.returncode, done.stdout, done.stderr)
    assert own(stack(run, 500003), binary, *WHOLE) == INLINES


@pytest.mark.skipif(shutil.which("xz") is None, reason="xz is not installed")
def test_a_symbol_table_inside_a_stripped_binary(record, tmp_path):
    binary = build(tmp_path)
    table = tmp_path / "table"
    tool("objcopy", "--only-keep-debug", binary, table)
    tool("xz", "-k", table)
    tool("strip", binary)
    tool("objcopy", "--add-section", f".gnu_debugdata={table}.xz", binary)
    assert own(stack(record(binary), 500003), binary, "function") == [(name,) for name in CALLS]


def test_a_stripped_binary_has_its_dynamic_symbols_and_places(record, tmp_path):
    binary = build(tmp_path, "-rdynamic")
    tool("strip", binary)
    frames = stack(record(binary), 500003)
    names = [(None,), ("exported",), ("main",)]
    assert own(frames, binary, "function") == names, "what is static has no dynamic symbol"
    assert all(offset for (offset,) in own(frames, binary, "offset"))


def test_another_file_in_its_place_names_nothing(record, tmp_path):
    binary, other = build(tmp_path, "-rdynamic"), tmp_path / "other"
    shutil.copy("/bin/true", other)
    frames = stack(record("sh", "-c", f"{binary}; mv {other} {binary}"), 500003)
    assert set(own(frames, binary, "function")) == {(None,)}


@pytest.mark.parametrize("mangling", ["legacy", "v0"])
def test_rust_names_of_either_kind(record, tmp_path, mangling):
    if shutil.which("rustc") is None:
        pytest.skip("rustc is not installed")
    binary = tmp_path.resolve() / "shelf"
    # One of the two is not the default and may need to be insisted on.
    flags = ["-O", "-g", f"-Csymbol-mangling-version={mangling}", "-Zunstable-options"]
    command = ["rustc", *flags, "-o", binary, TARGETS / "shelf.rs"]
    subprocess.run(command, check=True, env=environment(RUSTC_BOOTSTRAP="1"))
    frames = stack(record(binary), 500003)
    fill = [frame for frame in frames if (frame["function"] or "").endswith("::fill")]
    assert [frame["kind"] for frame in fill] == ["native"]
    assert fill[0]["function"].startswith(("shelf::Shelf<T>", "<shelf::Shelf<u8>>"))
    assert fill[0]["line"] == 10
    inlined = frames[: frames.index(fill[0])]
    assert any("alloc::" in (frame["function"] or "") for frame in inlined)
    assert all("17h" not in (frame["function"] or "") for frame in frames)


def test_inlined_templates(record, tmp_path):
    binary = tmp_path.resolve() / "sites_cpp"
    tool("g++", "-O2", "-g", "-o", binary, TARGETS / "sites.cpp")
    frames = own(stack(record(binary), 8 * 50001), binary, "kind", "function")
    fill = frames.index(("native", "shop::Cart<double>::fill(unsigned long)"))
    assert frames[0][0] == "inlined" and fill > 0
    assert any("allocate" in function for _, function in frames[:fill])
    assert not any(function.startswith("_Z") for _, function in frames)


@pytest.mark.parametrize("arguments", [(), ("fork",)])
def test_generated_code_has_the_names_it_wrote_for_perf(record, target, arguments):
    binary = target("generated.c")
    first, second = (record(binary, *arguments) for _ in range(2))
    Path(first.stdout.decode().strip()).unlink()
    Path(second.stdout.decode().strip()).unlink()
    for size, name, function in (
        (500003, "first thing", "in_first"),
        (500009, "second thing", "in_second"),
    ):
        frames = stack(first, size)
        names = [(frame["function"], frame["module"]) for frame in frames]
        at = names.index((name, None))
        assert names[at - 1] == (function, str(binary))
        assert frames[-1]["function"] is None, "code without rules: the stack goes on"
    ids = [
        run.sql("select site from {allocations} where bytes in (500003, 500009) order by bytes")
        for run in (first, second)
    ]
    assert ids[0] == ids[1] and len({site for (site,) in ids[0]}) == 2


def test_a_map_for_perf_behind_a_link_is_not_read(record, target, tmp_path):
    """Anybody may put a link into /tmp, to whatever file of the user's."""
    run = record(target("generated.c"), tmp_path / "elsewhere")
    Path(run.stdout.decode().strip()).unlink()
    assert "first thing" in (tmp_path / "elsewhere").read_text()
    functions = [frame["function"] for frame in stack(run, 500003)]
    assert functions[functions.index("in_first") + 1] is None


@pytest.mark.skipif(not is_root(), reason="needs a mount of its own over /tmp")
def test_a_map_for_perf_in_another_mount_namespace(record, target):
    """No other process sees that /tmp, and none at all once the program has ended."""
    if MEMTRACE.is_relative_to("/tmp"):
        pytest.skip("memtrace itself lies in /tmp")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        binary = shutil.copy(target("generated.c"), folder)
        inside = f"mount -t tmpfs none /tmp && exec {binary}"
        # Not below /tmp: there it may put a link to the library that it preloads.
        run = record("unshare", "-m", "sh", "-c", inside, env=environment(TMPDIR=folder))
        if run.code != 0:
            pytest.skip("may not mount here")
        functions = [frame["function"] for frame in stack(run, 500003)]
    assert not Path(run.stdout.decode().strip()).exists()
    assert functions[functions.index("in_first") + 1] == "first thing"


def pyenv(minor):
    return sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python3"))


@pytest.mark.parametrize("minor", [12, 13])
def test_pythons_own_map_for_perf(record, minor):
    interpreters = pyenv(minor)
    if not interpreters:
        pytest.skip("not installed under pyenv")
    program = (
        "import os\n"
        "def work(): return bytearray(500_003)\n"
        "work()\n"
        "print(f'/tmp/perf-{os.getpid()}.map')\n"
    )
    run = record(interpreters[0], "-X", "perf", "-c", program)
    Path(run.stdout.decode().strip()).unlink()
    frames = stack(run, 500_004)
    python = [frame["function"] for frame in frames if frame["kind"] == "python"]
    assert python == ["work", "<module>"]
    generated = [frame["function"] for frame in frames if frame["kind"] == "native"]
    assert "py::work:<string>" in generated


def test_what_is_recorded_has_no_names_until_the_end(tmp_path, target):
    """A recorder that died left places alone; `recover` names them."""
    path = tmp_path / "trace"
    with start(path, target("holds.c")) as running:
        assert running.stdout.readline() == b"holding\n"
        wait_until_noted(path, len(HELD))
        running.kill()
        running.stdin.close()
    run = Recording(path, 0, b"", b"")
    names = "select count(*) > 0, count(function) > 0 from {frames} where module is not null"
    assert run.sql(names) == [(True, False)]
    run = recover(path)
    assert run.sql(names) == [(True, True)]
    assert re.search(rb"  main (in )?holds", run.stderr), run.stderr
