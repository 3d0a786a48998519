"""The live view on a terminal: what it draws, and what keys do."""

# ruff: noqa: F811 (arguments named as the fixtures)

import fcntl
import os
import re
import signal
import struct
import termios

import pytest
from conftest import ROOT
from viewing import terminal, watched  # noqa: F401 (fixtures)

pytestmark = pytest.mark.serial


COLOUR = re.compile(rb"\x1b\[[0-9;]*(?:38;5;\d|3[0-7]|9[0-7])[0-9;]*m")


@pytest.mark.parametrize("leave", [b"q", b"\x03", signal.SIGTERM, signal.SIGHUP])
def test_the_view_on_a_terminal(watched, terminal, leave):
    run = watched()
    run.tell("begin")
    view = terminal(run.path)
    view.until(b"operators in flight", b"held", b"3.00", "100×200".encode(), b"q leaves")
    assert COLOUR.search(view.drawn)
    if isinstance(leave, bytes):
        os.write(view.near, leave)
    else:
        view.process.send_signal(leave)
    assert view.ends() == (0, "")
    run.tell("end")
    assert run.end().code == 3


def test_a_terminal_that_goes_away_takes_the_view_with_it(watched, terminal):
    """Also where no signal says so: it is not the view's controlling terminal."""
    run = watched()
    view = terminal(run.path)
    view.until(b"q leaves")
    os.close(view.far)
    os.close(view.near)
    view.process.wait()
    view.near, view.far = os.pipe()  # to be closed
    assert run.end().code == 3


def test_the_view_ends_with_the_recording(watched, terminal):
    run = watched()
    run.tell("begin")
    view = terminal(run.path, NO_COLOR="1")
    view.until(b"operators in flight", b"held")
    fcntl.ioctl(view.far, termios.TIOCSWINSZ, struct.pack("HHHH", 5, 30, 0, 0))
    view.process.send_signal(signal.SIGWINCH)
    run.tell("end")
    assert run.end().code == 3
    code, said = view.ends()
    assert (code, said) == (0, f"memtrace: the recording has ended: memtrace report {run.path}\n")
    assert not COLOUR.search(view.drawn)


MANY = f"""
import sys
sys.path.insert(0, {str(ROOT / "python")!r})
import memtrace

for number in range(60):
    for call in range(number % 5 + 1):
        with memtrace.span(f"op{{number:02}}"):
            held = bytearray(1_000_000 + 10_000 * number)
            del held
kept = []
for line in sys.stdin:
    kept.append(bytearray(50_000_000))
    print("ok", flush=True)
"""
UP, DOWN, PAGE_DOWN, END, HOME = b"\x1b[A", b"\x1b[B", b"\x1b[6~", b"\x1b[F", b"\x1b[H"
ESCAPE = b"\x1b"


def operators(view):
    """Names of the operators that are to be seen, from above."""
    return [line.split()[-1] for line in view.screen() if re.search(r" op\d\d$", line)]


def test_lists_are_selected_scrolled_and_sorted(watched, terminal, python, tmp_path):
    script = tmp_path / "many.py"
    script.write_text(MANY)
    run = watched(python, script)
    run.tell("go")
    view = terminal(run.path, NO_COLOR="1")
    by_peak = [f"op{number:02}" for number in reversed(range(60))]

    # All sixty do not fit: the largest working peaks are first.
    view.press(b"", r"^> processes: 1 running")
    [title] = view.press(b"\t", r"^> operators: 60 \(rows 1 to (\d+) of 60\)$")
    room = int(re.search(r"to (\d+) of", title)[1])
    assert 3 < room < 40
    assert operators(view) == by_peak[:room]

    view.press(DOWN * 2, rf"\(rows 3 to {room + 2} of 60\)")
    assert operators(view) == by_peak[2 : room + 2]
    view.press(UP, rf"\(rows 2 to {room + 1} of 60\)")
    view.press(PAGE_DOWN, rf"\(rows {room + 2} to {2 * room + 1} of 60\)")
    assert operators(view) == by_peak[room + 1 : 2 * room + 1]
    view.press(END, rf"\(rows {61 - room} to 60 of 60\)")
    assert operators(view)[-1] == "op00"
    view.press(UP, rf"\(rows {60 - room} to 59 of 60\)")
    view.press(HOME, rf"\(rows 1 to {room} of 60\)")

    # By the calls that have finished; then by those that have started, running, the peak.
    view.press(b"s", r"^ *finished▼ +started")
    most_calls = [name for name in by_peak if int(name[2:]) % 5 == 4]
    assert operators(view)[:12] == most_calls[:room][:12]
    view.press(b"sss", r" peak▼ ")
    assert operators(view) == by_peak[:room]
    view.press(b"r", r" peak▲ ")
    assert operators(view) == by_peak[::-1][:room]
    view.press(b"ss", r"operator▼$")
    assert operators(view) == by_peak[::-1][:room]
    view.press(b"s", r"^ +finished +started .* operator$")
    assert operators(view) == by_peak[:room]
    run.end()


def test_the_help_lies_over_the_lists(watched, terminal):
    run = watched()
    run.tell("begin")
    view = terminal(run.path)
    view.press(b"?", r"Page Down, Page Up +scrolls it by what is shown")
    # Escape closes the help, and leaves only then.
    view.press(ESCAPE, r"operators in flight: 1")
    assert not any("Page Down" in line for line in view.screen())
    os.write(view.near, ESCAPE)
    assert view.ends() == (0, "")
    assert run.end().code == 3


def test_the_graph_has_the_largest_live_bytes(watched, terminal, python, tmp_path):
    script = tmp_path / "many.py"
    script.write_text(MANY)
    run = watched(python, script)
    view = terminal(run.path)
    view.press(b"", r"^live bytes in the last ")
    braille = "[\u2801-\u28ff]"
    for step in range(1, 4):
        run.tell("go")
        # Its scale reaches to what is live now.
        view.press(b"", rf"^ *{5 * step}\d(\.\d)? MB│.*{braille}")
    scale = [line for line in view.screen() if re.search("MB│", line)]
    assert len(scale) == 1
    live = next(line for line in view.screen() if line.startswith("live  "))
    assert scale[0].split("│")[0].strip() in live
    run.end()
