"""scripts/gpu-check of JAX, on the stand-ins."""

from device_recording import gpu_check


def test_its_figures_are_those_of_xla(standin, tmp_path):
    """What arenas have reserved, and what is used where each buffer comes from the driver."""
    _, lines = gpu_check(standin, tmp_path)
    rows = [line.split(" | ") for line in lines if "| JAX" in line]
    assert [row[0].removeprefix("| ") for row in rows] == [
        "JAX, arena: reserved",
        "JAX, arena as needed: reserved",
        "JAX, every buffer from the driver: used",
    ]
    assert all(ours == own for _, ours, own, _ in rows)
