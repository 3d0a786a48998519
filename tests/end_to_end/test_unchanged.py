"""Python programs that a recorder in their interpreter could easily change: they print what they print without it."""

import subprocess

import pytest

POOL = """
import sys, numpy as np
from concurrent.futures import ThreadPoolExecutor
import scipy.ndimage as ndi
ndi.gaussian_filter(np.ones((300, 300)), 1)
def fails(block):
    raise ValueError
with ThreadPoolExecutor(1) as pool:
    for _ in range(20):
        pool.submit(fails, np.ones(1_000_000)).exception()
"""

HOOK = """
import sys, dask
class Hook:
    def find_spec(self, name, path=None, target=None):
        for finder in sys.meta_path:
            if finder is not self:
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    return spec
sys.meta_path.insert(0, Hook())
import xarray
print("ok")
"""

ZIPPED = """
import sys, zipfile, importlib.util
with zipfile.ZipFile("packed.zip", "w") as packed:
    packed.writestr("pandas/__init__.py", "from . import inside")
    packed.writestr("pandas/inside.py", "def f(x): return x")
sys.path.insert(0, "packed.zip")
importlib.util.find_spec("pandas")
import pandas
print(pandas.inside.f(3))
"""

ODD_ARGUMENTS = """
import numpy as np, scipy.ndimage as ndi
class Odd(type):
    def __eq__(self, other): return self is other
class Weights(metaclass=Odd):
    def __array__(self, dtype=None, copy=None): return np.ones(3)
print(ndi.convolve1d(np.ones(3), Weights()))
class Proxy:
    @property
    def __class__(self): raise RuntimeError("outside")
try:
    ndi.convolve1d(np.ones(3), Proxy())
except Exception as error:
    print(type(error).__name__)
"""

LAST_WORDS = """
class Last:
    def __del__(self): print("last words")
kept = Last()
"""

TIMEOUTS = """
import signal, numpy as np, scipy.ndimage as ndi
class Late(Exception): pass
def late(*_): raise Late
signal.signal(signal.SIGALRM, late)
block = np.ones((128, 128))
caught = 0
for _ in range(20):
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.5)  # again, should one be lost
    try:
        while True:
            ndi.gaussian_filter(block, 1)
    except Late:
        caught += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
print(caught)
"""


def printed_alone(python, program, folder):
    done = subprocess.run([python, "-c", program], cwd=folder, capture_output=True, check=True)
    return done.stdout


@pytest.mark.parametrize(
    "program",
    [HOOK, ZIPPED, ODD_ARGUMENTS, LAST_WORDS, TIMEOUTS],
    ids=["import hook", "zip", "odd arguments", "__del__ at exit", "timeouts"],
)
def test_output_is_the_same(record, python, tmp_path, program):
    (tmp_path / "alone").mkdir()
    (tmp_path / "recorded").mkdir()
    alone = printed_alone(python, program, tmp_path / "alone")
    run = record(python, "-c", program, cwd=tmp_path / "recorded", timeout=100)
    assert run.code == 0, run.stderr.decode()
    assert run.stdout == alone


def test_failed_work_of_a_pool_is_not_kept(record, python):
    run = record(python, "-c", POOL)
    alone = record(python, "-c", POOL, options=("--auto-operators", "none"))
    assert run.report["operators"] and not alone.report["operators"]
    assert run.report["peak"]["live_bytes"] < alone.report["peak"]["live_bytes"] + 12_000_000
