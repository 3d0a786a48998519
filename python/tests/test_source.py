"""Descriptions of Python functions, and the bounds that `memtrace.bound` makes of them."""

import ast
import functools
import json
import sys
import textwrap

import pytest

memtrace = pytest.importorskip("memtrace")
np = pytest.importorskip("numpy")
pytest.importorskip("memtrace._native")

from memtrace._planning.source import description, values  # noqa: E402

SCALE = 3
BOX = (1 / 3, 1 / 3, 1 / 3)
SHAPE = (100, 100, 100)
BYTES = 4_000_000


def helper(array):
    return np.sqrt(array)


def calls_helper(volume):
    first = helper(volume)
    return helper(first) * SCALE


def keeps_two(volume, count=2):
    kept = [np.sqrt(volume) for _ in range(count)]
    return np.stack(kept)


def trims(volume):
    if min(volume.shape) < 3:
        raise ValueError("too small")
    return np.sqrt(volume)[1:-1, 1:-1, 1:-1]


def branches(volume):
    if volume.mean() > 0:
        return np.sqrt(volume)
    return np.stack([volume, volume, volume])


def walks(volume):
    result = np.empty_like(volume)
    for number, plane in enumerate(volume):
        result[number] = np.sqrt(plane) * 2
    return result


def closes(volume):
    def inner(scale):
        return volume * scale

    return inner(2.0)


def keeps_many(volume):
    kept = []
    for number in range(200_000):
        kept.append(volume[:1] * number)
    return kept


LEAST = np.spacing(1.0)


def widens(volume):
    return np.maximum(LEAST, volume)


def looks_up_the_type(volume):
    if volume.dtype.type not in (np.float32, np.float64):
        raise TypeError("no float")
    return np.sqrt(volume)


def always_raises(volume):
    np.sqrt(volume)
    raise NotImplementedError


def counts(volume):
    return np.zeros(int(volume.sum()))


class Kept:
    pass


def keeps_attributes(volume):
    kept = Kept()
    kept.root = np.sqrt(volume)
    return kept.root * 2


def peak(function, *shape, **params):
    return memtrace.bound(function, shape or SHAPE, **params)["peak_bytes"]


def test_functions_of_the_program_are_described_and_those_of_libraries_named():
    described = description.describe(calls_helper)
    assert described["entry"] == f"{__name__}:calls_helper"
    assert set(described["functions"]) == {described["entry"], f"{__name__}:helper"}
    text = json.dumps(described)
    assert '{"function": "numpy.sqrt"}' in text
    assert '{"value": 3}' in text  # a constant of the module
    assert described["versions"]["numpy"] == np.__version__


def test_a_function_without_source_is_refused():
    with pytest.raises(TypeError, match="no Python source"):
        description.describe(len)
    with pytest.raises(ValueError, match="MODULE:FUNCTION"):
        description.load("numpy")


def test_names_are_those_that_users_write():
    assert values.public_name(np.fft.rfft) == "numpy.fft.rfft"
    assert values.public_name(np.add) == "numpy.add"
    ndimage = pytest.importorskip("scipy.ndimage")
    assert values.public_name(ndimage.gaussian_filter) == "scipy.ndimage.gaussian_filter"


def test_lifetimes_are_cpythons():
    # `first` lives until the function returns; next to a number no temporary is reused.
    assert peak(calls_helper) == pytest.approx(3 * BYTES, rel=0.02)
    assert peak(trims) == pytest.approx(BYTES, rel=0.02)
    assert peak(closes) == pytest.approx(BYTES, rel=0.02)


def test_lists_grow_and_loops_over_slices_do_not():
    assert peak(keeps_two) == pytest.approx(4 * BYTES, rel=0.02)
    assert peak(keeps_two, count=5) == pytest.approx(10 * BYTES, rel=0.02)
    assert peak(walks) == pytest.approx(BYTES * 1.03, rel=0.03)


def test_what_the_walk_cuts_short_is_named():
    def unknown(function):
        return " ".join(memtrace.bound(function, (20, 20, 20))["model"]["unknown"])

    assert "more than 65,536 results" in unknown(keeps_many)
    assert "attribute root" in unknown(keeps_attributes)


def test_a_numpy_scalar_has_a_type():
    # A float of Python would leave the array's.
    assert memtrace.bound(widens, SHAPE)["output_dtype"] == "<f8"


def test_the_byte_order_is_no_part_of_a_scalar_type():
    answer = memtrace.bound(looks_up_the_type, SHAPE, ">f4")
    assert answer["peak_bytes"] >= BYTES and answer["model"]["unknown"] == []


def test_no_bound_rests_on_a_length_that_is_not_known():
    for function, named in ((counts, "shape of numpy.zeros"), (always_raises, "every path")):
        answer = memtrace.bound(function, SHAPE)
        assert answer["upper_bytes"] is None
        assert named in " ".join(answer["model"]["unknown"])


CACHE = {}


def doubled(function):
    @functools.wraps(function)
    def wrapper(array):
        return function(array.astype("f8"))

    return wrapper


def converges(x):
    kept, change = [], 1.0
    while change > 1e-6:
        kept.append(x * change)
        change = float(x.max())
    return kept


def asserts(x):
    assert np.sort(x, axis=None).all()


def formats(x):
    return f"{np.sort(x)}"


def walrus(x):
    if (y := x * 2).max() > 0:
        return y * 3
    return y


@doubled
def decorated(x):
    return np.sqrt(x)


def decorated_twice(x):
    return decorated(x)


def handles(x):
    try:
        return np.sqrt(x)[:1]
    except ValueError:
        return np.stack([x, x, x])


def builtins_of(x):
    return pow(x, 2), round(x, 2)


def lists(x):
    return list(x.ravel())


def chosen(x):
    return {0: x, 1: x * 2}[int(x.max() > 0)] * 2


def numpy_scalar(x):
    return x / np.sqrt(2)


def epsilon(x):
    return x + np.finfo(float).eps


def branches_in_a_loop(x):
    for i in range(3):
        if x[i].max() > 2:
            a = x * 2
        elif x[i].max() > 1:
            b = x * 3
        else:
            c = x * 4
    return a, b, c


def sets_default(x):
    kept = {}
    for i in range(8):
        kept.setdefault(i, x * i)
    return kept


def caches(x):
    for i in range(8):
        CACHE[i] = x * i


def grid(x):
    return [x[i : i + 1] * 2.0 for i, j in np.ndindex(300, 300)]


def taken(x):
    return np.take(x, range(50), axis=0)


def shrinks(x):
    kept = []
    for i in range(100):
        kept.append(x[i:].copy())
    return kept


def grows(x):
    return [x.ravel()[: i * 1000].copy() for i in range(1000)]


def overlaps(x):
    x[1:] += x[:-1]


def windows(x):
    return np.hanning(1_000_000) * x[0, 0, 0]


def counted(x):
    return np.bincount(x.astype("i8").ravel())


#: Working peaks in bytes, by the arrays that are live at once, for 4 MB of float32 in SHAPE.
PEAKS = {
    converges: 1e9,
    asserts: BYTES,
    formats: BYTES,
    walrus: 2 * BYTES,
    decorated: 4 * BYTES,
    decorated_twice: 4 * BYTES,
    handles: 3 * BYTES,
    builtins_of: 2 * BYTES,
    lists: 32e6,
    chosen: 2 * BYTES,
    numpy_scalar: 2 * BYTES,
    epsilon: 2 * BYTES,
    branches_in_a_loop: 3 * BYTES,
    sets_default: 8 * BYTES,
    caches: 8 * BYTES,
    grid: 1e9,
    taken: BYTES // 2,
    shrinks: 50 * BYTES,
    grows: 2e9,
    overlaps: BYTES - 40_000,
    windows: 8e6,
    counted: 16e6,
}


@pytest.mark.parametrize("function", PEAKS, ids=lambda function: function.__name__)
def test_no_bound_is_too_low(function):
    upper = memtrace.bound(function, SHAPE)["upper_bytes"]
    assert upper is None or upper >= PEAKS[function]


@pytest.mark.parametrize(
    "function", [decorated, handles, numpy_scalar, epsilon, sets_default, taken, overlaps]
)
def test_plain_code_has_a_bound(function):
    assert memtrace.bound(function, SHAPE)["model"]["unknown"] == []


def test_both_arms_of_a_condition_on_data_count():
    answer = memtrace.bound(branches, SHAPE)
    assert answer["model"]["paths"] == 2
    assert answer["model"]["control"]["undecided"] == 1
    assert answer["peak_bytes"] == pytest.approx(3 * BYTES, rel=0.02)


def test_answers_say_what_comes_out_and_what_they_rest_on():
    answer = memtrace.bound(trims, SHAPE, ">f4")
    assert answer["output_shape"] == [98, 98, 98]
    assert answer["confidence"] == answer["model"]["proof"] == "unverified"
    assert answer["model"]["kind"] == "generic"
    assert answer["upper_bytes"] >= answer["peak_bytes"]
    assert "numpy.sqrt" in answer["model"]["terms"][0]["words"]
    assert "test_source.py:" in answer["model"]["terms"][0]["words"]


def test_shapes_and_types_that_are_none_are_refused():
    with pytest.raises(ValueError, match="shape"):
        memtrace.bound(trims, (0, 3))
    with pytest.raises(ValueError, match="element type"):
        memtrace.bound(trims, SHAPE, "q9")


SYNTAX = """
def everything(volume, *rest, named=1, **more):
    global elsewhere
    a, *b = volume, 1, 2
    a: int = 3
    a += 1
    b[0], c = b, a
    del a
    with open("x") as file:
        pass
    try:
        c = [i for i in range(3) if i]
    except ValueError:
        c = {i: i for i in range(3)}
    finally:
        c = {1, 2}
    while c:
        if not c:
            continue
        break
    else:
        c = lambda x: x + 1
    d = volume[..., 1:-1:2, None] if named else -c
    e = (y := 3) and not y or 1 < y <= 4
    f = f"{e}"
    assert e
    import os.path as p
    from math import sqrt
    async def g():
        await g()
        yield 1
    return d @ e, ~e, lambda: f, (*b, *rest), {**more}
"""
NEWER = """
def newer(volume):
    match volume:
        case [1, x]:
            return x
        case _:
            pass
"""


@pytest.mark.parametrize(
    "text",
    [SYNTAX, *([NEWER] if sys.version_info >= (3, 10) else [])],
    ids=lambda text: text.split()[1],
)
def test_all_statements_and_expressions_can_be_described(tmp_path, monkeypatch, text):
    ast.parse(text)
    (tmp_path / "written.py").write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "written", raising=False)
    name = text.split()[1].split("(")[0]
    function = description.load(f"written:{name}")
    described = json.loads(json.dumps(description.describe(function)))
    assert described["functions"][f"written:{name}"]["body"]
    assert memtrace.bound(function, (10, 10))["confidence"] == "unverified"
