"""tests/cuda/cuda.h, and the functions that cuda-probe stands in front of, against NVIDIA's headers (scripts/cuda-headers): values,
layouts, signatures, and since when functions are there."""

import re
import subprocess

import pytest
from conftest import ROOT
from cuda_headers import headers
from cuda_standin import CUDA

LAYOUTS = {
    "CUuuid": ("bytes",),
    "CUDA_ARRAY_DESCRIPTOR": ("Width", "Height", "Format", "NumChannels"),
    "CUDA_ARRAY3D_DESCRIPTOR": ("Width", "Height", "Depth", "Format", "NumChannels", "Flags"),
    "CUmemLocation": ("type", "id"),
    "CUmemAccessDesc": ("location", "flags"),
    "CUmemAllocationProp": ("type", "requestedHandleTypes", "location", "allocFlags"),
    "CUmemPoolProps": ("allocType", "handleTypes", "location", "maxSize", "usage", "reserved"),
    "CUmemPoolPtrExportData": ("reserved",),
    "CUipcMemHandle": ("reserved",),
    "CUDA_MEM_ALLOC_NODE_PARAMS": ("poolProps", "accessDescs", "bytesize", "dptr"),
    "CUgraphNodeParams": ("type", "alloc", "free", "reserved2"),
    "CUDA_GRAPH_INSTANTIATE_PARAMS": ("flags", "hUploadStream", "hErrNode_out", "result_out"),
}
# Where the real header is not at hand.
KNOWN = {
    "CUuuid": 16,
    "CUDA_ARRAY_DESCRIPTOR": 24,
    "CUDA_ARRAY3D_DESCRIPTOR": 40,
    "CUmemLocation": 8,
    "CUmemAccessDesc": 12,
    "CUmemAllocationProp": 32,
    "CUmemPoolProps": 88,
    "CUmemPoolPtrExportData": 64,
    "CUipcMemHandle": 64,
    "CUDA_MEM_ALLOC_NODE_PARAMS": 120,
    "CUgraphNodeParams": 256,
    "CUDA_GRAPH_INSTANTIATE_PARAMS": 32,
    "CUmemAllocationProp.location": 8,
    "CUmemPoolProps.location": 8,
    "CUmemPoolProps.maxSize": 24,
    "CUDA_ARRAY3D_DESCRIPTOR.Format": 24,
    "CUDA_MEM_ALLOC_NODE_PARAMS.bytesize": 104,
    "CUDA_MEM_ALLOC_NODE_PARAMS.dptr": 112,
    "CUgraphNodeParams.alloc": 16,
    "CU_MEMPOOL_ATTR_RELEASE_THRESHOLD": 4,
    "CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT": 5,
    "CU_MEMPOOL_ATTR_USED_MEM_HIGH": 8,
    "CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH": 3,
    "CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED": 115,
    "CUDA_ERROR_CONTEXT_IS_DESTROYED": 709,
}
SIGNATURES = """
#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>
#include <cudaTypedefs.h>
#include "functions.h"
#define DECLARE(symbol, base, version, per_thread, parameters) CUresult symbol parameters;
CUDA_FUNCTIONS(DECLARE)
"""


@pytest.fixture(scope="module")
def real():
    """Folder of CUDA 12's headers."""
    return headers(12, "cuda_runtime")


@pytest.fixture(scope="module")
def newest():
    """Folder of CUDA 13's headers."""
    return headers(13, "cu13")


def values(tmp_path, headers):
    """Sizes, offsets and constants as the compiler has them."""
    text = (CUDA / "cuda.h").read_text()
    constants = set(re.findall(r"\b(?:CU|CUDA)_[A-Z0-9_]+\b", text))
    constants -= {*LAYOUTS, "CUDA_RESULTS", "CUDA_FUNCTIONS"}
    named = {name: f"(long long)(intptr_t){name}" for name in constants}
    for name, fields in LAYOUTS.items():
        named[name] = f"(long long)sizeof({name})"
        named |= {f"{name}.{field}": f"(long long)offsetof({name}, {field})" for field in fields}
    prints = "\n".join(f'printf("{name} %lld\\n", {value});' for name, value in named.items())
    source, program = tmp_path / "values.c", tmp_path / "values"
    includes = "".join(f"#include <{each}.h>\n" for each in ("stdio", "stddef", "stdint", "cuda"))
    source.write_text(f"{includes}int main(void) {{\n{prints}\n}}\n")
    subprocess.run(["gcc", f"-I{headers}", "-o", program, source], check=True)
    lines = subprocess.check_output([program], text=True).splitlines()
    return {name: int(value) for name, value in map(str.split, lines)}


def test_what_is_known_without_the_real_header(tmp_path):
    ours = values(tmp_path, CUDA)
    assert {name: ours[name] for name in KNOWN} == KNOWN


def test_values_and_layouts(tmp_path, real):
    assert values(tmp_path, CUDA) == values(tmp_path, real)


def test_signatures(tmp_path, real):
    source = tmp_path / "signatures.c"
    source.write_text(SIGNATURES)
    command = ["gcc", "-fsyntax-only", f"-I{real}", f"-I{CUDA}", source]
    subprocess.run(command, check=True)


def test_since_when_functions_are_there(real):
    """The real headers name a type of pointer for each function and the version that brought it."""
    types = set(re.findall(r"PFN_\w+", (real / "cudaTypedefs.h").read_text()))
    rows = re.findall(r'X\((\w+), "(\w+)", (\d+), (\d)', (CUDA / "functions.h").read_text())
    assert len(rows) > 100
    for _, base, version, per_thread in rows:
        assert f"PFN_{base}_v{version}" + "_ptsz" * int(per_thread) in types


PROBE = ROOT / "cuda-probe" / "src"
SIZES = {"c_int": 4, "c_uint": 4, "u32": 4, "u64": 8, "usize": 8, "c_ulonglong": 8, "IpcHandle": 64}


def arguments(text, separator):
    """Types of a list of arguments, `name: type` or `type name`."""
    parts = [part.strip() for part in text.split(",")] if text.strip() not in ("", "void") else []
    if separator == ":":
        return [part.split(":")[1].strip() for part in parts]
    return [re.sub(r"\w+(\[\])?$", "", part) for part in parts]


def own_functions():
    """Those that cuda-probe stands in front of: name, version and types of arguments."""
    text = (PROBE / "intercept" / "calls.rs").read_text()
    rows = re.findall(r"^    (\d+) (cu\w+)\((.*?)\) =>", text, re.MULTILINE)
    assert len(rows) > 50
    return {name: (int(version), arguments(text, ":")) for version, name, text in rows}


def questions():
    """Those that it asks the driver."""
    rows = re.findall(r'= c"(cu\w+)" \((.*?)\);', (PROBE / "driver" / "query.rs").read_text())
    assert len(rows) > 10
    return {name: arguments(text, ":") for name, text in rows}


def pointers(folder):
    """What the headers call a pointer to each function: its name, the version that brought it, and whether it is one of two."""
    text = (folder / "cudaTypedefs.h").read_text()
    return {
        (name, int(version), bool(own))
        for name, version, own in re.findall(r"\*PFN_(\w+?)_v(\d+)(_ptsz)?\)", text)
    }


def test_the_probe_knows_every_version_of_its_functions(real, newest):
    """And since when there is each: a version that it does not know would be called with the arguments of another."""
    suffixes = r"(?:_v\d)?(_ptsz)?$"
    own = {
        (re.sub(suffixes, "", name), version, name.endswith("_ptsz"))
        for name, (version, _) in own_functions().items()
    }
    known = pointers(real) | pointers(newest)
    names = {name for name, _, _ in own}
    assert own == {pointer for pointer in known if pointer[0] in names}


MODES = ("", "-D__CUDA_API_VERSION_INTERNAL", "-DCUDA_API_PER_THREAD_DEFAULT_STREAM")


def exported(folder):
    """Types of the arguments of all functions, by the names that they are exported under."""
    found = {}
    for mode in MODES:
        command = ["gcc", "-E", "-P", *mode.split(), folder / "cuda.h"]
        text = subprocess.check_output(command, text=True)
        rows = re.findall(r"CUresult\s+(cu\w+)\s*\(([^;]*?)\)\s*;", text)
        found |= {name: arguments(" ".join(text.split()), " ") for name, text in rows}
    return found


def sizes_of_arguments(folder, names, tmp_path):
    """As the compiler has them."""
    lines = ["#include <cuda.h>", "#include <stdio.h>", "int main(void) {"]
    for name, types in exported(folder).items():
        if name in names:
            sizes = "".join(f", (int)sizeof({each})" for each in types)
            lines.append(f'printf("{name}{" %d" * len(types)}\\n"{sizes});')
    source, program = tmp_path / "sizes.c", tmp_path / "sizes"
    source.write_text("\n".join([*lines, "}"]))
    subprocess.run(["gcc", "-w", MODES[1], f"-I{folder}", "-o", program, source], check=True)
    rows = map(str.split, subprocess.check_output([program], text=True).splitlines())
    return {name: [int(size) for size in sizes] for name, *sizes in rows}


def test_the_probe_passes_on_what_functions_take(newest, tmp_path):
    own = {name: types for name, (_, types) in own_functions().items()} | questions()
    expected = {
        name: [8 if each.startswith("*") else SIZES[each] for each in types]
        for name, types in own.items()
    }
    assert expected == sizes_of_arguments(newest, own, tmp_path)
