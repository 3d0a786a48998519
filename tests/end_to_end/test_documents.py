"""Every block of code in README and docs does what it says: they are run, in order, one document after the other.

What a block is stands behind its backticks: `console` (lines that begin with `$ ` are commands, the rest is what they print),
`python` (blocks of a document share their variables), `ipython`, `sql` (DuckDB), `json`, `c`, `cpp`,
`fortran` and `rust` (compiled), or `text` (no code). A second word says why a block is not run.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from conftest import MEMTRACE, ROOT

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^( *)```(\S*) ?(.*)\n((?:.*\n)*?)\1```$", re.MULTILINE)
#: What a law is does not depend on the machine: such lines of a block are among those printed.
LAWS = re.compile(r"^(\S+: exact|  trained on .*|  working peak = .*?)(?:, \.\.\.)?$", re.MULTILINE)
COMPILERS = {
    "c": ("c", ["gcc", "-fsyntax-only"]),
    "cpp": ("cpp", ["g++", "-fsyntax-only"]),
    "fortran": ("f90", ["gfortran", "-fsyntax-only", ROOT / "include" / "memtrace.f90"]),
}
#: Root may start ranks, and more of them than there are processors.
AS_ROOT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
}


class Block(NamedTuple):
    """A piece of code in a document."""

    line: int  # where its first line is
    language: str
    why_not: str  # it is not run; empty if it is
    text: str


def blocks(document):
    page = document.read_text()
    for match in BLOCK.finditer(page):
        indent, language, why_not, text = match.groups()
        text = re.sub(f"^{indent}", "", text, flags=re.MULTILINE)
        yield Block(page.count("\n", 0, match.start(4)) + 1, language, why_not, text)


def commands(text):
    """What stands behind `$ `, with the lines that go on after a backslash."""
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("$ "):
            command = line[2:]
            while command.endswith("\\"):
                command = f"{command[:-1]} {next(lines)}"
            yield command


# Runs the blocks of a document, which come as JSON on its standard input, in one interpreter.
RUNNER = """
import json, subprocess, sys
namespace = {"__name__": "__main__"}
shell = None
for kind, line, name, text in json.load(sys.stdin):
    print(f"-- {name}:{line} ({kind})", flush=True)
    if kind == "console":
        subprocess.run(["bash", "-euo", "pipefail", "-c", text], check=True, stdin=subprocess.DEVNULL)
    elif kind == "sql":
        import duckdb
        for query in filter(str.strip, text.split(";")):
            duckdb.sql(query).fetchall()
    elif kind == "ipython":
        if shell is None:
            from IPython.testing.globalipapp import start_ipython
            shell = start_ipython()
        shell.run_cell(text).raise_error()
    else:
        source = "\\n" * (line - 1) + text
        exec(compile(source, name, "exec"), namespace)
"""


@pytest.fixture(scope="session")
def volume(tmp_path_factory):
    """The SEG-Y volume that README makes, for the documents that go on with it."""
    file = tmp_path_factory.mktemp("volume") / "volume.sgy"
    make = [sys.executable, ROOT / "examples" / "run_gst3d.py", "--make", file]
    subprocess.run([*make, "--shape", "60,60,60"], check=True, capture_output=True)
    return file


@pytest.fixture
def workplace(tmp_path, volume, document):
    """The examples, and a shell's environment in which memtrace is installed."""
    folder = tmp_path / "examples"
    shutil.copytree(ROOT / "examples", folder)
    shutil.copytree(ROOT / "include", tmp_path / "include")
    if document != DOCUMENTS[0] and document.parent.name != "tutorials":
        shutil.copy(volume, folder)
    path = os.pathsep.join(
        [str(MEMTRACE.parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    )
    packages = os.pathsep.join([str(ROOT / "python"), str(ROOT / "target" / "mpi")])
    return folder, {**os.environ, **AS_ROOT, "PATH": path, "PYTHONPATH": packages}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_block_works(document, workplace):
    if document.name == "mpi.md" and not (
        shutil.which("mpirun") and (ROOT / "target/mpi").is_dir()
    ):
        pytest.skip("no OpenMPI or mpi4py: scripts/mpi installs them (70 MB)")
    folder, environment = workplace
    name = str(document.relative_to(ROOT))
    steps, laws = [], []
    for block in blocks(document):
        where = f"{name}:{block.line}"
        if block.why_not:
            print(f"{where} is not run: {block.why_not}")
        elif block.language == "console":
            asked = list(commands(block.text))
            assert asked, f"{where}: no command begins with `$ `"
            steps += [("console", block.line, name, command) for command in asked]
            laws += LAWS.findall(block.text)
        elif block.language in ("python", "sql", "ipython"):
            steps.append((block.language, block.line, name, block.text))
        elif block.language == "json":
            json.loads(block.text)
        elif block.language in COMPILERS:
            check_syntax(block, where, folder)
        else:
            assert block.language == "text", f"{where}: say what it is behind the backticks"
            assert "\n$ " not in f"\n{block.text}", (
                f"{where}: commands belong into a `console` block"
            )
    if steps:
        done = subprocess.run(
            [sys.executable, "-c", RUNNER],
            input=json.dumps(steps).encode(),
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        printed = done.stdout.decode(errors="replace")
        assert done.returncode == 0, printed[-4000:]
        assert [law for law in laws if law not in printed] == [], printed[-4000:]


def check_syntax(block, where, folder):
    suffix, compiler = COMPILERS[block.language]
    if shutil.which(compiler[0]) is None:
        print(f"{where} is not compiled: {compiler[0]} is not installed")
        return
    source = folder / f"block.{suffix}"
    source.write_text(block.text)
    command = [*compiler, f"-I{ROOT / 'include'}", source]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    assert done.returncode == 0, f"{where}: {done.stderr.decode()}"
