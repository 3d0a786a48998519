"""The look-ups by which programs come to the CUDA driver, with the library in front of it: whose function is found, and what else
is left as it was."""

import os
import subprocess
import sys

import pytest
from conftest import environment
from cuda_sent import ACQUIRE, FOUND, LINEAR, MANAGED, RELEASE, compiled, library

JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"


def test_what_functions_of_the_driver_call_in_turn_is_reported_once(reported, tmp_path):
    driver = tmp_path / "driver"
    driver.mkdir()
    # Both are in the global scope, so that the driver's own call comes to the library in front of it.
    library(driver, "libcuda.so.1", "cuda_nested.c")
    program = """
import ctypes
driver = ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL, use_errno=True)
address = ctypes.c_uint64()
assert driver.cuMemAllocManaged(ctypes.byref(address), ctypes.c_size_t(5000), 1) == 0
assert ctypes.get_errno() == 55, ctypes.get_errno()
assert driver.cuMemFree_v2(address) == 0
assert driver.cuMemAllocManaged(ctypes.byref(address), ctypes.c_size_t(5000), 0) == 1
ctypes.set_errno(77)
assert driver.cuMemFree_v2(ctypes.c_uint64(0)) == 1 and ctypes.get_errno() == 77
"""
    _, events = reported(sys.executable, "-c", program, driver=driver)
    assert [(e["kind"], e["memory"], e["bytes"]) for e in events] == [
        (ACQUIRE, MANAGED, 5000),
        (RELEASE, LINEAR, 0),
    ]


@pytest.mark.parametrize("place", ["before", "after"])
def test_another_library_in_front_of_the_driver_is_called_too(reported, standin, tmp_path, place):
    chain = library(tmp_path, "chain.so", "cuda_chain.c")
    done, events = reported(
        *(standin / "all_calls_linked", "linked", "linear"), driver=standin, **{place: [chain]}
    )
    linear = [e for e in events if (e["kind"], e["memory"]) == (ACQUIRE, LINEAR)]
    assert len(linear) == 10
    # With the calls that fail.
    assert int(done.stderr.split()[0]) == 14


@pytest.mark.parametrize("with_driver", [False, True])
@pytest.mark.parametrize("allocator", [None, JEMALLOC])
def test_other_look_ups_are_left_alone(reported, standin, tmp_path, with_driver, allocator):
    if allocator and not os.path.exists(allocator):
        pytest.skip("libjemalloc.so.2 is not installed")
    own = library(tmp_path, "own.so", "lookups_library.c", "-DOWN")
    library(tmp_path, "chain.so", "lookups_library.c")
    program = compiled(
        *(tmp_path, "lookups", "lookups.c", "-rdynamic", "-Wl,--no-as-needed"),
        *(tmp_path / "chain.so", f"-Wl,-rpath,{tmp_path}"),
    )
    driver = standin if with_driver else None
    variables = {"LD_LIBRARY_PATH": str(driver)} if driver else {}
    plain = subprocess.run(
        [program, own], env=environment(**variables), capture_output=True, text=True, check=False
    )
    after = [allocator] if allocator else []
    done, events = reported(program, own, driver=driver, after=after)
    assert (plain.returncode, plain.stderr) == (0, "")
    assert (done.stdout, done.stderr) == (plain.stdout, "")
    assert done.stdout == ("driver\n" if with_driver else "no driver\n")
    assert events == []


def test_a_driver_may_be_closed_and_opened_again(reported, standin, tmp_path):
    program = compiled(tmp_path, "reopened", "cuda_reopened.c")
    done, events = reported(program, driver=standin)
    assert done.stdout == "0\n"
    assert [event["bytes"] for event in events if event["kind"] == ACQUIRE] == [1 << 20]


def test_a_library_that_answers_for_dlsym_keeps_its_limits(reported, standin, tmp_path):
    limiter = library(tmp_path, "limiter.so", "cuda_limiter.c")
    program = compiled(tmp_path, "reopened", "cuda_reopened.c")
    for place in ("before", "after"):
        done, events = reported(program, driver=standin, **{place: [limiter]})
        assert done.stdout == "2\n"
        assert not [event for event in events if event["kind"] == ACQUIRE]


def test_python_opens_the_driver(reported, standin):
    program = """
import ctypes
driver = ctypes.CDLL("libcuda.so.1")
context, address = ctypes.c_void_p(), ctypes.c_uint64()
assert driver.cuInit(0) == 0
assert driver.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
assert driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(12345)) == 0
assert driver.cuMemFree_v2(address) == 0
assert not hasattr(driver, "cuMemAlloc_v3") and not hasattr(ctypes.CDLL(None), "cuMemAlloc_v3")
"""
    _, events = reported(sys.executable, "-c", program, driver=standin)
    assert [event["kind"] for event in events] == [FOUND, ACQUIRE, RELEASE]
    assert events[1]["bytes"] == 12345
    assert events[1]["context"] != 0


def test_functions_of_a_later_cuda_are_not_stood_in_front_of(reported, standin):
    """Their arguments may be others: a function requested with an unknown version is answered as the driver does."""
    program = """
import ctypes
driver = ctypes.CDLL("libcuda.so.1")
found = ctypes.c_void_p()
def ask(version, name=b"cuMemAlloc"):
    assert driver.cuGetProcAddress(name, ctypes.byref(found), version, ctypes.c_uint64(0)) == 0
    return found.value
exported = ctypes.cast(driver.cuMemAlloc_v2, ctypes.c_void_p).value
assert ask(12000) == ask(13000) == exported
assert ask(2000) == ctypes.cast(driver.cuMemAlloc, ctypes.c_void_p).value != exported
assert len({ask(version, b"cuGraphAddNode") for version in (12020, 12030, 12090, 13040, 13050)}) == 3
print(ask(99000) == exported)
"""
    done, _ = reported(sys.executable, "-c", program, driver=standin)
    assert done.stdout == "True\n", "the driver's own answer is the function that is known"
