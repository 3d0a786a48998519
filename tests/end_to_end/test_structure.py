"""Crates and their folders use each other only along the arrows written down here."""

import json
import re
import subprocess

import pytest
from conftest import ROOT
from rust_rooms import Crate, circles

ALLOWED = {
    "memtrace-wire": set(),
    "memtrace-trace": set(),
    "memtrace-probe": {"memtrace-wire"},
    "memtrace-cuda-probe": {"memtrace-wire"},
    "memtrace-analysis": {"memtrace-trace"},
    "memtrace-ebpf": {"memtrace-wire"},
    "memtrace-perf": set(),
    "memtrace": {
        "memtrace-wire",
        "memtrace-ebpf",
        "memtrace-perf",
        "memtrace-trace",
        "memtrace-analysis",
    },
    "memtrace-python": {"memtrace-trace", "memtrace-analysis"},
    "memtrace-span": set(),
}

# Folders of a crate's source, and files that stand by themselves, with what they may use, low to high.
ROOMS = {
    "analysis": {
        "arch": "",
        "digest": "",
        "error": "",
        "shape": "",
        "units": "",
        "parallel": "error",
        "stats": "shape",
        "profile": "digest error parallel",
        "law": "profile shape stats",
        "report": "arch error parallel profile units",
        "model": "digest error law profile shape stats units",
        "fit": "error law model profile shape stats",
        "generic": "error law model",
        "learn": "error law model shape stats",
        "plan": "error model placement shape stats units",
        "graph": "error law model plan shape units",
        "placement": "error profile stats units",
        "sweep": "error fit law model profile shape stats units",
    },
    "tracer": {
        "fuzz_inputs": "",
        "live_protocol": "",
        "record/state": "",
        "signals": "",
        "symbols": "",
        "terminal": "",
        "units": "",
        "commands": "fuzz_inputs live_protocol signals symbols terminal units",
        "fuzz": "commands fuzz_inputs live_protocol record/fuzz symbols",
        "record/procfs": "live_protocol symbols",
        "record/fuzz": "fuzz_inputs live_protocol record/fold record/procfs record/sites record/transport",
        "record/spans": "record/state",
        "record/launch": "record/procfs signals",
        "record/sites": "live_protocol record/procfs record/state symbols",
        "record/transport": "live_protocol record/procfs signals",
        "record/kernel": "record/procfs record/state record/transport signals symbols",
        "record/samples": "record/kernel record/transport signals",
        "record/fold": "record/kernel record/procfs record/samples record/sites record/spans record/state record/transport",
        "record/live": "live_protocol record/fold record/procfs record/sites record/spans record/state record/transport units",
        "record/session": "live_protocol record/fold record/kernel record/launch record/live record/procfs record/samples record/sites record/state record/transport signals terminal units",
    },
    "probe-lib": {
        "arch": "",
        "sys": "arch",
        "tls": "arch",
        "clock": "sys",
        "next": "sys",
        "sandbox": "sys",
        "allocator": "next",
        "connection": "arch clock next sandbox sys tls",
        "own_stack": "arch sandbox sys",
        "ring": "clock connection next own_stack sandbox sys tls",
        "python": "connection next ring sys tls",
        "stack": "arch connection next own_stack python ring sandbox sys tls",
        "placement": "allocator connection next ring sandbox sys",
        "intercept": "allocator arch connection next placement ring sandbox stack sys tls",
        "startup": "allocator arch connection intercept next placement python ring stack",
    },
}
# In the tracer, `record` is a house of its own.
OPENED = {"tracer": ["record"]}


def metadata():
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    return json.loads(done.stdout)["packages"]


def test_no_crate_depends_against_the_arrows():
    packages = {package["name"]: package for package in metadata()}
    assert set(packages) <= set(ALLOWED), "a new crate needs a place in the architecture"
    for name, package in packages.items():
        ours = {each["name"] for each in package["dependencies"] if each["name"] in ALLOWED}
        assert ours <= ALLOWED[name], f"{name} must not know {ours - ALLOWED[name]}"


@pytest.mark.parametrize("crate", ROOMS)
def test_no_folder_uses_another_against_the_arrows(crate):
    allowed = {room: set(used.split()) for room, used in ROOMS[crate].items()}
    found = Crate(ROOT / crate / "src", OPENED.get(crate, ())).arrows()
    assert set(found) == set(allowed), "a new folder needs a place among the others"
    for room, used in found.items():
        assert used <= allowed[room], f"{crate}: {room} must not use {used - allowed[room]}"
    assert not circles(allowed)


def test_what_a_recording_and_a_report_must_not_know():
    recording = {room: used for room, used in ROOMS["tracer"].items() if room.startswith("record/")}
    assert not any("commands" in used.split() for used in recording.values())
    assert not {"law", "model", "plan"} & set(ROOMS["analysis"]["report"].split())


@pytest.mark.parametrize(("library", "known"), [("probe", "malloc"), ("cuda", "dlsym")])
def test_what_is_preloaded_knows_nothing_that_may_panic_or_look_up_tls(library, known):
    library = ROOT / "target" / "preload" / f"libmemtrace_{library}.so"
    symbols = subprocess.run(["nm", library], capture_output=True, check=True, text=True).stdout
    assert f" T {known}" in symbols
    for forbidden in ("core9panicking", "__tls_get_addr", "unwrap_failed"):
        assert forbidden not in symbols


def tracked(*patterns):
    command = ["git", "ls-files", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
    return [ROOT / name for name in listed.stdout.splitlines()]


DOCUMENT = re.compile(r"\bdocs/[\w./-]+\.(?:md|json)\b")
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)")


def test_every_document_that_is_referred_to_exists():
    missing = []
    for path in tracked():
        if not path.is_file() or path.suffix in (".parquet", ".npy", ".png"):
            continue
        text = path.read_text(errors="replace")
        named = [ROOT / name for name in DOCUMENT.findall(text) if "NAME" not in name]
        if path.suffix == ".md":
            links = [link for link in LINK.findall(text) if "://" not in link]
            named += [path.parent / link for link in links]
        missing += [f"{path.relative_to(ROOT)}: {each}" for each in named if not each.exists()]
    assert not missing
