"""scripts/gpu-check of CuPy, on the stand-ins."""

from device_recording import gpu_check


def test_its_figures_are_those_of_cupy(standin, tmp_path):
    """Three calls of GST3D, the driver's bytes and the pool's."""
    printed, lines = gpu_check(standin, tmp_path)
    rows = [line.split(" | ") for line in lines if "GST3D on CuPy" in line]
    assert [row[0].rpartition(": ")[2] for row in rows] == [
        "reserved",
        "used",
        "calls of gst3d whose peaks agree",
    ]
    assert rows[2][1:3] == ["3", "3"]
    assert "no torch" in printed and "no jax" in printed
