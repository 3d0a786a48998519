"""scripts/gpu-check, as far as that goes without a GPU: its programs of the driver's calls, with stand-ins for the driver, NVML and
CUPTI. The last two are built by NVIDIA's headers as well, where there are any: signatures, values and layouts are those then."""

import ctypes.util
import subprocess
import sys
from typing import NamedTuple

import pytest
from conftest import MEMTRACE, ROOT
from cuda_headers import headers_of_counters
from cuda_standin import Standin, build_counters

CHECK = [sys.executable, str(ROOT / "scripts" / "gpu-check"), "--memtrace", str(MEMTRACE)]
HEADERS = {"own": None, "CUDA 12": (12, "cuda_runtime"), "CUDA 13": (13, "cu13")}
CUPTI = ("allocations", "their bytes", "used at most", "managed at most", "host memory at most")


class Page(NamedTuple):
    """What the check wrote."""

    status: int
    text: str

    def held(self, case):
        """What was compared of a program, and whether it holds."""
        rows = [line.strip("| ").split(" | ") for line in self.text.splitlines()]
        start = f"{case}: "
        return {
            row[0].removeprefix(start): row[-1] == "yes" for row in rows if row[0].startswith(start)
        }

    def not_checked(self, case):
        """Why."""
        start = f"Not checked: {case}: "
        [reason] = [
            line.removeprefix(start) for line in self.text.splitlines() if line.startswith(start)
        ]
        return reason


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A Python that has neither PyTorch nor CuPy nor JAX."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return str(folder / "bin" / "python")


@pytest.fixture
def check(bare, tmp_path):
    def run(standin, **variables):
        command = [*CHECK, "--python", bare, "--output", str(tmp_path)]
        environment = standin.environment(**variables)
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        page = tmp_path / "gpu-stand-in-0.md"
        assert page.exists(), done.stderr
        assert page.read_text() in done.stdout
        return Page(done.returncode, page.read_text())

    return run


def with_counters(cuda, folder, *headers):
    (folder / "libcuda.so.1").symlink_to(cuda.folder / "libcuda.so.1")
    build_counters(folder, *headers)
    return Standin(folder)


@pytest.fixture(scope="module")
def counters(cuda, tmp_path_factory):
    """The stand-ins for NVML and CUPTI, and the driver's."""
    return with_counters(cuda, tmp_path_factory.mktemp("counters"))


def test_what_the_driver_set_aside_is_what_the_program_requested(check, cuda):
    page = check(cuda)
    assert page.status == 0, page.text
    assert page.held("calls of the driver") == {"taken from the driver": True}
    assert "| no |" not in page.text
    for package in ("torch", "cupy", "jax"):
        assert f"no {package}." in page.text
    for library in ("NVML", "CUPTI"):
        assert page.held(library) == {} and page.not_checked(library)


@pytest.mark.parametrize("name", HEADERS)
def test_figures_are_those_of_nvml_and_cupti(check, cuda, tmp_path, name):
    headers = headers_of_counters(*HEADERS[name]) if HEADERS[name] else ()
    folder = tmp_path / "counters"
    folder.mkdir()
    page = check(with_counters(cuda, folder, *headers))
    assert page.status == 0, page.text
    both = {"taken from the driver": True}
    assert page.held("NVML") == {**both, "bytes of the process": True}
    assert page.held("CUPTI") == both | dict.fromkeys(CUPTI, True)


@pytest.mark.parametrize(
    ("variable", "place"),
    [("PYTHONPATH", "nvidia/cuda_cupti/lib"), ("CUDA_HOME", "extras/CUPTI/lib64")],
)
def test_where_cupti_is(check, cuda, counters, tmp_path, variable, place):
    """Of NVIDIA's packages for Python, or of a toolkit."""
    folder = tmp_path / "root" / place
    folder.mkdir(parents=True)
    (folder / "libcupti.so.12").symlink_to(counters.folder / "libcupti.so.12")
    page = check(cuda, **{variable: str(tmp_path / "root")})
    assert page.held("CUPTI") == {"taken from the driver": True} | dict.fromkeys(CUPTI, True)


@pytest.mark.parametrize("way", ["hidden", "namesake", "silent"])
def test_where_nvml_does_not_know_the_process_the_device_is_queried(check, counters, way):
    page = check(counters, STANDIN_NVML=way)
    assert page.status == 0, page.text
    assert page.held("NVML") == {"taken from the driver": True, "bytes of the whole device": True}


def test_a_part_of_a_device(check, counters):
    assert check(counters, STANDIN_NVML="mig").held("NVML")["bytes of the process"]


@pytest.mark.parametrize(
    ("library", "way", "why"),
    [
        ("NVML", "none", "nvmlInit_v2: Driver Not Loaded."),
        ("NVML", "deaf", "nvmlDeviceGetMemoryInfo: Some Error."),
        ("CUPTI", "refused", "cuptiActivityEnable: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES."),
        ("CUPTI", "dropped", "1 records were dropped."),
    ],
)
def test_what_does_not_answer_is_not_checked(check, counters, library, way, why):
    page = check(counters, **{f"STANDIN_{library}": way})
    assert (page.status, page.held(library), page.not_checked(library)) == (0, {}, why)


@pytest.mark.parametrize(
    ("library", "way", "wrong"),
    [
        ("NVML", "more", {"bytes of the process"}),
        ("CUPTI", "missing", {"allocations", "their bytes", "managed at most"}),
        ("CUPTI", "short", set(CUPTI) - {"allocations"}),
        ("CUPTI", "held", {"used at most"}),
    ],
)
def test_figures_that_differ_do_not_hold(check, counters, library, way, wrong):
    page = check(counters, **{f"STANDIN_{library}": way})
    assert page.status == 1
    assert {what for what, held in page.held(library).items() if not held} == wrong


def test_a_program_that_fails_does_not_keep_the_others_from_being_checked(check, counters):
    page = check(counters, STANDIN_FAIL="cuArrayCreate_v2:1:2")
    assert page.status == 1
    assert page.held("calls of the driver") == page.held("CUPTI") == {"runs": False}
    assert all(page.held("NVML").values())


def test_packages_that_do_not_work_do_not_either(check, counters, tmp_path):
    """One that cannot be imported, one that has no GPU."""
    (tmp_path / "torch.py").write_text("raise RuntimeError('broken')\n")
    (tmp_path / "cupy.py").write_text("import sys\nprint('{}')\nsys.exit()\n")
    page = check(counters, PYTHONPATH=str(tmp_path))
    assert page.status == 1
    assert page.held("ResNet-50, training") == {"runs": False, "is timed": False}
    assert page.held("GST3D on CuPy") == {"uses a device": False}
    assert all(page.held("NVML").values())


def test_without_a_driver_it_says_so(tmp_path):
    if ctypes.util.find_library("cuda"):
        pytest.skip("this machine has a driver")
    done = subprocess.run([*CHECK, "--output", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 1
    assert "no NVIDIA driver" in done.stderr and "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())
