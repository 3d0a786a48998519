"""The law view of a page: what was measured, and a shape that the page evaluates as `memtrace predict` does."""

import hashlib
import json
import sys

import browser
import memtrace as package
import pytest
from browser import Shown, html
from conftest import memtrace

PROGRAM = """
import numpy as np

def smooth(volume):
    padded = np.pad(volume, 1)
    return padded[1:-1, 1:-1] + padded[:-2, 1:-1]

for shape in {shapes}:
    for _ in range(2):
        smooth(np.ones(shape, np.float32))
"""
TRAINING = [(300, 410), (400, 530), (600, 620), (2000, 2400)]
SHAPES = ["300,410", "500,500", "2000,2400", "9000,7000", "40,40", "1,100000", "123457,98765"]


def form(coefficient, *factors, constant=0):
    factors = [{"rule": "length", "offset": 0, "power": 1} | factor for factor in factors]
    return {"coefficient": coefficient, "factors": factors, "constant": constant}


AREA = form(4, {"variable": 0}, {"variable": 1, "offset": -2})
LINE = form(8, {"variable": 1, "offset": 2})
FIT = {
    "terms": [
        {"coefficient": 3.7, "powers": [1, 2]},
        {"coefficient": 0.3, "powers": [1, 1], "up_to": 600_000},
    ],
    "error": 0.07,
    "runs": 4,
}
RULES = [
    "half_plus_one",
    {"hops": 64},
    "power_of_two",
    "fast_real",
    "half_fast_real",
    "fast_complex",
]
SEEN = [{"shape": [300, 410], "bytes": 70_000}, {"shape": [2000, 2400], "bytes": 90_001}]
SMALL = {"bounded": {"bytes": 70_001}}
SIZES = [
    {"exact": {"form": AREA, "others": [form(4, {"variable": 0}, {"variable": 1})]}},
    {"lines": {"line": LINE, "counted": LINE, "budget": 256_000, "budget_upper": 257_000}},
    {"capped": {"form": AREA, "cap": 5_000_001}},
    {"remainder": {"form": AREA, "block": 524_288}},
    {"units": {"form": AREA, "most": form(5, {"variable": 0, "power": 2}), "unit": 512}},
    {"nearby": {"seen": SEEN}},
    SMALL,
    {"fitted": FIT},
    *({"exact": {"form": form(5, {"variable": 0, "rule": rule, "offset": 3})}} for rule in RULES),
    {"exact": {"form": form(7, {"variable": 1, "offset": -500}, constant=-3)}},
]
STEPS = [*range(1, len(SIZES) + 1), -1, -8, 2, 2, 8, -3]
SEQUENCE = {"symbolic": {"threshold_bytes": 4096, "sizes": SIZES, "steps": STEPS}}
# What a law may have in the place of what was fitted.
VARIATIONS = {
    "sizes": {"body": SEQUENCE, "residual": SMALL},
    "regression": {"body": {"regression": FIT}},
    "unverified": {"body": SEQUENCE, "residual": SMALL, "proof": "unverified"},
    "unverified regression": {"body": {"regression": FIT}, "proof": "unverified"},
    "calibrated": {"body": {"regression": FIT}, "proof": {"calibrated": {"runs": 23}}},
    "worst data values": {"worst": {"body": SEQUENCE, "residual": SMALL, "factor": 1.37}},
    "runs above it": {"short": 1.61, "proof": "unverified"},
    "choices of libraries": {"choices": ["numpy:einsum"]},
    "fitted residual": {"residual": {"fitted": FIT}},
}


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("law")
    program = PROGRAM.format(shapes=TRAINING)
    operator = ("--operator", "__main__:smooth")
    done = memtrace("-q", "-o", folder / "trace", *operator, "--", sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr.decode()
    done = memtrace("fit", folder / "trace", "-o", folder / "model.json")
    assert done.returncode == 0, done.stderr.decode()
    return folder / "trace"


@pytest.fixture(scope="module")
def model(trace):
    return trace.parent / "model.json"


def opened(chromium, trace, model, **how):
    page = html(trace, trace.parent / f"{model.stem}.html", "--model", model)
    shown = Shown(chromium, page, **how)
    shown.select(view="law")
    return shown


def evaluated(shown, shape):
    """What the page says of a shape."""
    shown.page.fill("input[name=shape]", shape)
    shown.page.keyboard.press("Enter")
    answer = shown.page.locator(".answer")
    keys = ("peak", "upper", "input", "output", "confidence")
    return [answer.get_attribute(f"data-{key}") for key in keys], answer.text_content()


def predicted(model, shape):
    """What the command line says of it."""
    asked = ("--operator", "__main__:smooth", "--shape", shape, "--json")
    done = memtrace("predict", model, *asked)
    assert done.returncode == 0, done.stderr.decode()
    answer = json.loads(done.stdout)
    figures = ("peak_bytes", "upper_bytes", "input_bytes", "output_bytes")
    return [*(str(answer[name]) for name in figures), answer["confidence"]], answer


def assert_same(shown, model, shapes=SHAPES):
    for shape in shapes:
        said, text = evaluated(shown, shape)
        expected, answer = predicted(model, shape)
        assert said == expected, shape
        assert (answer["unverified_because"] or "") in text


def test_the_page_evaluates_a_law_to_the_byte(chromium, trace, model):
    confidences = [predicted(model, shape)[0][-1] for shape in SHAPES]
    assert "unverified" in confidences and {"exact", "worst case"} & set(confidences)
    shown = opened(chromium, trace, model)
    assert_same(shown, model)
    assert "shape=123457%2C98765" in shown.page.url
    shown.close()


def smooth_of(model):
    [law] = [law for law in laws_of(model) if law["key"]["operator"] == "__main__:smooth"]
    return law


def laws_of(model):
    return json.loads(model.read_text())["laws"]


def altered(model, name, changes):
    """A model whose law of the operator is another."""
    return written(model, name, [smooth_of(model) | changes])


def written(model, name, laws):
    """A model of other laws, with the digest of its text: else no law of it is proven."""
    blank = "0" * 64
    text = json.dumps(json.loads(model.read_text()) | {"laws": laws, "sha256": blank})
    digest = hashlib.sha256(text.encode()).hexdigest()
    path = model.parent / f"{name.replace(' ', '-')}.json"
    path.write_text(text.replace(blank, digest))
    return path


@pytest.mark.parametrize("name", VARIATIONS)
def test_every_law_is_evaluated_as_predict_does(chromium, trace, model, name):
    path = altered(model, name, VARIATIONS[name])
    shown = opened(chromium, trace, path)
    assert_same(shown, path, [*SHAPES, "301,411", "777,778"])
    shown.close()


def test_a_law_that_has_learned_is_left_to_predict(chromium, trace, model):
    seen = {"count": 3, "products": [3.0, 0.1, 0.1, 3.0], "responses": [0.2, 0.1], "squares": 0.1}
    path = altered(model, "learned", {"proof": "unverified", "learned": {"bytes": seen}})
    shown = opened(chromium, trace, path)
    assert shown.page.is_disabled("input[name=shape]")
    assert "memtrace predict does" in shown.page.text_content(".answer")
    shown.close()


def test_what_has_no_shape_is_one_sentence(chromium, trace, model):
    shown = opened(chromium, trace, model)
    for shape, said in [
        ("words", "write lengths like 200,200,100"),
        ("100", "takes 2 dimensions"),
        ("0,100", "is empty"),
        ("18446744073709551615,18446744073709551615", "too large for any memory"),
    ]:
        figures, text = evaluated(shown, shape)
        assert said in text and figures[0] is None
    shown.close()


def test_runs_and_calls_are_beside_what_the_law_says(chromium, trace, model):
    shown = opened(chromium, trace, model)
    rows = shown.page.eval_on_selector_all(
        "#panel-law tbody tr",
        "rows => rows.map(row => [row.cells[0].textContent, row.dataset.shape,"
        " Number(row.dataset.measured), Number(row.dataset.law)])",
    )
    law = smooth_of(model)
    runs = {
        (",".join(map(str, run["shape"])), run["working_peak_bytes"]) for run in law["trained_on"]
    }
    assert {(shape, measured) for of, shape, measured, _ in rows if of == "fit"} == runs
    report = json.loads(memtrace("report", trace, "--json").stdout)
    [operator] = [each for each in report["operators"] if each["name"] == "__main__:smooth"]
    calls = {
        (",".join(map(str, span["inputs"][0]["shape"])), span["working_peak_bytes"])
        for span in operator["spans"]
    }
    assert {(shape, measured) for of, shape, measured, _ in rows if of == "trace"} == calls
    for _, shape, _, says in rows:
        assert str(says) == predicted(model, shape)[0][0]
    assert "verified range" in shown.page.get_attribute("#panel-law .chart", "aria-label")
    shown.close()


def test_every_point_is_drawn(chromium, trace, model):
    law = smooth_of(model)
    runs = [
        dict(run, working_peak_bytes=run["working_peak_bytes"] + more)
        for run in law["trained_on"]
        for more in (0, 90_000)
    ]
    path = altered(model, "spread", {"trained_on": runs})
    shown = opened(chromium, trace, path)
    data = json.loads(browser.text_of((trace.parent / "spread.html").read_text()))
    curve = data["laws"]["shown"][0]["curve"]
    lengths = [length for length, _ in curve["measured"]]
    assert len(lengths) > len(set(lengths))
    series = [curve["law"], curve["law"], curve["measured"], curve["elsewhere"]]
    drawn = shown.page.get_attribute("#panel-law .chart", "data-points")
    assert drawn == ",".join(str(len(points)) for points in series if points)
    shown.close()


def test_what_is_left_out_is_said(chromium, trace, model):
    [run, *_] = smooth_of(model)["trained_on"]
    runs = [dict(run, working_peak_bytes=1000 + more) for more in range(100)]
    shown = opened(chromium, trace, altered(model, "many runs", {"trained_on": runs}))
    rows = shown.page.locator("#panel-law tbody tr td:first-child").all_text_contents()
    assert rows.count("fit") == 60
    assert "Left out: 40 that needed less" in shown.page.text_content("#panel-law caption")
    shown.close()


@pytest.fixture(scope="module")
def several(trace):
    """A trace of two operators with calls of two and three axes, and a model of the first."""
    path = trace.parent / "several"
    program = PROGRAM.format(shapes=[*TRAINING, (20, 30, 40)])
    operators = ("--operator", "__main__:smooth", "--operator", "numpy:pad")
    done = memtrace("-q", "-o", path, *operators, "--", sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr.decode()
    done = memtrace("fit", path, "-o", trace.parent / "both.json")
    assert done.returncode == 0, done.stderr.decode()
    return path


def test_calls_of_other_axes_are_not_beside_a_law(chromium, several, model):
    shown = opened(chromium, several, model)
    shapes = shown.page.locator("#panel-law tr[data-shape]").evaluate_all(
        "rows => rows.filter(row => row.cells[0].textContent === 'trace')"
        ".map(row => row.dataset.shape)"
    )
    assert set(shapes) == {f"{rows},{columns}" for rows, columns in TRAINING}
    shown.close()


def test_the_law_is_of_the_selected_operator(chromium, several):
    both = several.parent / "both.json"
    shown = opened(chromium, several, both)
    names = shown.page.locator("select[aria-label=Law] option").all_text_contents()
    [smooth, *_] = [name for name in names if "smooth" in name]
    [pad, *_] = [name for name in names if "pad" in name]
    status = shown.page.locator("#panel-law .status")
    for name, operator in ((smooth, "numpy:pad"), (pad, "__main__:smooth")):
        shown.page.select_option("select[aria-label=Law]", name)
        shown.page.select_option("select[name=operator]", operator)
        assert status.text_content().startswith(f"{operator} ")
    shown.page.select_option("select[aria-label=Law]", pad)
    assert status.text_content().startswith("numpy:pad ")
    assert shown.page.input_value("select[name=operator]") == "numpy:pad"
    shown.close()


def test_a_law_that_is_too_large_leaves_room_for_others(chromium, several):
    laws = laws_of(several.parent / "both.json")
    [smooth, *_] = [law for law in laws if law["key"]["operator"] == "__main__:smooth"]
    [pad, *_] = [law for law in laws if law["key"]["operator"] == "numpy:pad"]
    [run, *_] = smooth["trained_on"]
    runs = [dict(run, working_peak_bytes=1 << 40)] * 8000
    path = written(several.parent / "both.json", "large", [smooth | {"trained_on": runs}, pad])
    shown = opened(chromium, several, path)
    assert "Left out: 1 more law" in shown.page.text_content("#panel-law .status")
    shown.select(view="law", operator="__main__:smooth")
    said = shown.page.text_content("#panel-law .status")
    assert said == "The page has no law for __main__:smooth."
    assert shown.page.is_hidden("#panel-law .chart")
    shown.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_law_keeps_no_reader_out(chromium, trace, model, scheme):
    shown = opened(chromium, trace, model, color_scheme=scheme, bypass_csp=True)
    evaluated(shown, "500,500")
    shown.assert_accessible()
    shown.close()


def test_a_model_of_other_operators_is_one_sentence(trace, tmp_path):
    other = package.fit_table([(5,), (6,), (7,)], [50, 60, 70], "<f8", "small")
    other.save(tmp_path / "other.json")
    asked = ("--html", tmp_path / "page.html", "--model", tmp_path / "other.json")
    done = memtrace("report", trace, *asked)
    assert done.returncode == 1
    assert b"no law for an operator of this trace; it has small" in done.stderr
    assert not (tmp_path / "page.html").exists()
    assert memtrace("report", trace, "--model", tmp_path / "other.json").returncode == 2
