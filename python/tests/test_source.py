"""Descriptions of Python functions, and the bounds that `memtrace.bound` makes of them."""

import ast
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
