"""Device memory as those see it who watch a recording, on the stand-in for NVIDIA's driver."""

import json

from viewing import lines, watched  # noqa: F401 (fixtures)

MIB = 1 << 20


def of_devices(figures):
    return [figures["device_driver_bytes"], figures["device_used_bytes"]]


def test_a_client_sees_devices(cuda, watched, lines, monkeypatch):  # noqa: F811
    monkeypatch.setenv("LD_LIBRARY_PATH", str(cuda.folder))
    recording = watched(*cuda.program("spans", "linked", "hold-inside"))
    assert recording.recorder.stdout.readline() == b"holding\n"
    viewer = lines(recording.path)
    figures = viewer.until(lambda figures: figures["device_used_bytes"] == 38 * MIB)
    assert of_devices(figures) == [87 * MIB, 38 * MIB]
    [process] = figures["processes"]
    assert [*of_devices(process), process["peak_device_driver_bytes"]] == [
        *(87 * MIB, 38 * MIB),
        87 * MIB,
    ]
    assert of_devices(figures["peak"]) == [87 * MIB, 38 * MIB]
    [span] = figures["spans"]
    assert (span["operator"], span["device_bytes"], span["device_peak_bytes"]) == (
        "second of pool",
        7 * MIB,
        7 * MIB,
    )
    run = recording.end()
    last = viewer.until(lambda figures: figures["ended"])
    peak = run.report["peak"]
    assert of_devices(last["peak"]) == [peak["device_driver_bytes"], peak["device_used_bytes"]]
    assert of_devices(last) == [0, 0]


def test_a_program_without_devices_has_no_figures_of_any(watched, lines):  # noqa: F811
    recording = watched()
    figures = lines(recording.path).next()
    assert of_devices(figures) == of_devices(figures["peak"]) == [None, None]
    assert "device_driver_bytes" not in json.dumps(figures["spans"])
