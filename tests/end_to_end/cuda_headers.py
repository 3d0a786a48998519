"""NVIDIA's headers: scripts/cuda-headers installs them, or a toolkit has them."""

import os
import re
from pathlib import Path

import pytest

INSTALLED = Path(__file__).resolve().parents[2] / "target" / "cuda" / "nvidia"
TOOLKIT = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
#: Where packages put the headers of CUPTI and what these include, by version of CUDA; what is in crt serves both.
COUNTERS = {12: ("cuda_cupti", "nvml_dev", "cu13"), 13: ("cu13", "nvml_dev")}
NEEDED = ("cupti_activity.h", "nvml.h", "crt/host_defines.h")


def headers(version, place):
    """Folder of the headers of that version of CUDA."""
    for folder in (INSTALLED / place / "include", TOOLKIT / "include"):
        header = folder / "cuda.h"
        if header.exists() and re.search(rf"define CUDA_VERSION {version}\d+", header.read_text()):
            return folder
    pytest.skip(f"CUDA {version}'s headers are not there: scripts/cuda-headers installs them")


def headers_of_counters(version, place):
    """Folders of the headers of NVML and of that version of CUPTI, in the order in which to look there."""
    toolkit = TOOLKIT / "extras" / "CUPTI" / "include"
    installed = [INSTALLED / each / "include" for each in COUNTERS[version]]
    folders = [headers(version, place), *installed, toolkit]
    for name in NEEDED:
        if not any((folder / name).exists() for folder in folders):
            pytest.skip(f"{name} is not there: scripts/cuda-headers installs it")
    return folders
