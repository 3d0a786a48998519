"""What recording adds to a call of malloc or free: instructions, counted by callgrind; no system call, no lock, no
allocation. Where a call costs more than it should, a clock would say so too late and not every time."""

import re
import shutil
import subprocess
from collections import Counter

import pytest
from conftest import ROOT, memtrace

PROBE = ROOT / "target" / "preload" / "libmemtrace_probe.so"
# Of malloc(40) and free together, in the probe, without a stack: 153 with rustc 1.95, and a twentieth more. Lower it
# when they need fewer.
INSTRUCTIONS_PER_PAIR = 160
# Few enough that the ring needs no look at what was read: that has its price, once in thousands of events.
FEW, MANY = 1000, 3000


def without_stacks():
    """Options that leave stacks out, of a memtrace that would take them of small blocks."""
    known = b"--stacks" in memtrace("record", "--help").stdout
    return ("--stacks", "none") if known else ()


@pytest.fixture
def inside(record, target, tmp_path):
    """Records `pairs` inside of a tool of valgrind's kind and returns what the tool wrote."""

    def run(tool, *arguments, pairs):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
        output = tmp_path / f"{tool}.{pairs}"
        command = (tool, *(argument.format(output) for argument in arguments), target("pairs.c"))
        recording = record(*command, pairs, options=without_stacks())
        assert recording.code == 0, recording.stderr.decode()
        [(blocks,)] = recording.sql("select count(*) from {allocations} where bytes = 40")
        assert blocks >= pairs, "the probe was not there"
        return output.read_text()

    return run


def callgrind(inside, pairs):
    return parsed(inside("valgrind", "--tool=callgrind", "--callgrind-out-file={}", pairs=pairs))


def parsed(profile):
    """Instructions by object, and calls by (object, function) called, of a callgrind file without compressed positions
    (https://valgrind.org/docs/manual/cl-format.html)."""
    instructions, calls, names = Counter(), Counter(), {}
    ours = called = function = inclusive = None
    for line in profile.splitlines():
        if match := re.match(r"(c?ob|c?fn)=\((\d+)\)(?: (.*))?$", line):
            kind, number, name = match.groups()
            key = (kind.lstrip("c"), number)
            name = names.setdefault(key, name)
            if kind == "ob":
                ours = called = name
            elif kind == "cob":
                called = name
            elif kind == "cfn":
                function = name
        elif match := re.match(r"calls=(\d+)", line):
            calls[called, function] += int(match[1])
            called, inclusive = ours, True
        elif match := re.match(r"[+*\-\d]\S* (\d+)$", line):
            if not inclusive:
                instructions[ours] += int(match[1])
            inclusive = False
    return instructions, calls


def test_instructions_of_a_pair(inside):
    few, many = (callgrind(inside, pairs)[0][str(PROBE)] for pairs in (FEW, MANY))
    per_pair = (many - few) / (MANY - FEW)
    assert 10 < per_pair <= INSTRUCTIONS_PER_PAIR


def test_the_probe_allocates_nothing(inside):
    """As many calls reach the C library as the program makes."""
    few, many = (callgrind(inside, pairs)[1] for pairs in (FEW, MANY))
    reached = {
        name: more
        for (where, name), count in many.items()
        if "/libc.so" in (where or "") and (more := count - few[where, name]) >= (MANY - FEW) / 2
    }
    allocators = {name: more for name, more in reached.items() if re.search("alloc|free", name)}
    assert allocators == {
        "malloc": MANY - FEW,
        "free": MANY - FEW,
        "_int_free": MANY - FEW,
    }


def test_no_system_call(inside):
    """The same number of them for three times as many events. On a busy machine the program waits
    for the tracer now and then: the fewest of some runs count."""

    def count(pairs):
        table = inside("strace", "-f", "-c", "-o", "{}", pairs=pairs)
        return int(table.splitlines()[-1].split()[3])

    few, many = count(FEW), count(MANY)
    for _ in range(20):
        if few == many:
            break
        few, many = min(few, count(FEW)), min(many, count(MANY))
    assert few == many > 0


def code(function):
    """The instructions of a function of the probe."""
    command = ["objdump", "-d", "--no-show-raw-insn", f"--disassemble={function}", PROBE]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = (line for line in listing.splitlines() if re.match(r"\s+[0-9a-f]+:\t", line))
    return [line.split("\t")[-1].strip() for line in lines]


@pytest.mark.parametrize("function", ["malloc", "free"])
def test_no_lock_in_the_code(function):
    """Neither in the usual case nor in what the compiler put beside it."""
    if shutil.which("objdump") is None:
        pytest.skip("objdump is not installed")
    lines = code(function)
    # An entry point that hands its caller on is a tail jump to where the work is done.
    if jump := re.fullmatch(r"jmp\s.*<(\w+)>", lines[-1]):
        lines += code(jump[1])
    assert any("rdtsc" in line for line in lines), "this is not where events are written"
    costly = re.compile(r"^(lock|xchg .*\(|syscall|mfence|lfence|cpuid)|@plt")
    assert [line for line in lines if costly.search(line)] == []
