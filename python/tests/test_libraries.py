"""Functions of libraries: spans where an argument is large, and nothing else is changed by it."""

import ast
import importlib.util
from pathlib import Path

import pytest

LIBRARY = {
    "__init__.py": """
from ._filters import blur, shrink, walk, closes, fails, warns
from ._filters import blur as _blur
from . import tools
__all__ = ["blur", "shrink", "walk", "closes", "fails", "warns", "later", "LIMIT", "tools"]
LIMIT = 3
def __getattr__(name):
    if name == "later":
        from ._lazy import later
        return later
    raise AttributeError(name)
""",
    "_filters.py": """
import functools
import warnings
from ._helpers import helper
def decorated(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)
    return wrapper
@decorated
def blur(image, sigma=2, *, mode="reflect"):
    "Blurs."
    image = helper(image)
    image = image * 2
    image = image * 2
    return image
def shrink(image, out=None, *more, **named):
    return blur(image)
def walk(images):
    count = len(images)
    while images:
        images = images[1:]
    return images
def closes(image, n):
    def inner():
        nonlocal image
        image = image * n
        return n
    for _ in range(3):
        try:
            inner()
        finally:
            n += 1
    return image
def fails(image):
    raise ValueError("no")
def warns(image):
    warnings.warn("old", FutureWarning, stacklevel=2)
    return image
""",
    "_helpers.py": """
def helper(x):
    y = x * 2
    y = y * 2
    return y
""",
    "_lazy.py": "def later(x):\n    return x\n",
    "tools.py": "__all__ = ['tool']\ndef tool(x):\n    return x\ndef unlisted(x):\n    return x\n",
}


@pytest.fixture
def library(tmp_path):
    (tmp_path / "shelf").mkdir()
    for name, text in LIBRARY.items():
        (tmp_path / "shelf" / name).write_text(text)


IMPORT = "from arrays import Array\nimport shelf\n"


def test_public_functions_are_spans_under_the_names_users_know(run, python, library):
    program = """
big, small = Array(100, 100), Array(10)
shelf.blur(big, mode="wrap")
shelf.shrink(big)
shelf.walk([small, big])
shelf.later(big)
shelf.tools.tool(big)
shelf.tools.unlisted(big)
shelf._helpers.helper(big)
shelf.blur(small)
shelf.walk([small, small])
shelf.closes(big, 1)
shelf.blur(Array(0, 100)), shelf.blur(small, big)
"""
    done = run(python, IMPORT + program, automatic=["shelf"])
    names = ["blur", "shrink", "blur", "walk", "later", None, "closes", "blur"]
    expected = ["shelf:" + name if name else "shelf.tools:tool" for name in names]
    assert [span["name"] for span in done.spans] == expected
    assert done.order[2:6] == [("begin", 2), ("begin", 3), ("end", 3), ("end", 2)]
    blur = done.spans[0]
    assert blur["inputs"][0]["shape"] == blur["end"]["outputs"][0]["shape"] == [100, 100]
    assert (blur["params"]["sigma"], blur["params"]["mode"]) == (2, "wrap")
    assert [a["shape"] for a in done.spans[3]["inputs"]] == [[10], [100, 100]]


PEAKS = {
    "rebinds its argument": "shelf.blur(Array(100, 100))",
    "a variable in a closure": "shelf.closes(Array(100, 100), 2)",
    "nested, with variable arguments": "shelf.shrink(Array(100, 100), None, 1, 2, x=3)",
    "a list is used up": "shelf.walk([Array(100, 100), Array(100, 100)]); Array(150, 100)",
    "raises": """
try:
    shelf.fails(Array(100, 100))
except ValueError:
    pass
Array(150, 100)
""",
}


@pytest.mark.parametrize("program", PEAKS.values(), ids=PEAKS.keys())
def test_peak_is_the_same_with_spans_on_and_off(run, python, library, program):
    program = IMPORT + program + "\nprint(Array.peak, Array.live)\n"
    plain = run(python, program, recorded=False)
    recorded = run(python, program, automatic=["shelf"])
    assert recorded.stdout == plain.stdout
    assert recorded.spans and all(span["end"] for span in recorded.spans)


def test_nothing_else_changes(run, python, library):
    """Identity, pickling, signatures, the place of a warning, tracebacks, the profile function."""
    program = """
import inspect, pickle, sys, traceback, threading
big = Array(100, 100)
print(pickle.loads(pickle.dumps(shelf.tools.tool)) is shelf.tools.tool, shelf.blur.__doc__)
print(inspect.signature(shelf.blur), shelf.blur is shelf._blur, inspect.getsource(shelf.walk))
shelf.warns(big)
for _ in range(2):
    try:
        shelf.fails(big)
    except ValueError:
        print(traceback.format_exc())
print(sys.getprofile())
thread = threading.Thread(target=shelf.blur, args=(big,))
thread.start(), thread.join()
seen = []
sys.setprofile(lambda *event: seen.append(event[1]))
shelf.blur(big)
sys.setprofile(None)
print("call" in seen and "return" in seen)
"""
    plain = run(python, IMPORT + program, recorded=False, check=False)
    recorded = run(python, IMPORT + program, automatic=["shelf"], check=False)

    def lines(text):  # the recorder's text comes before the program's, in the same file
        return [line for line in text.splitlines() if "program.py" not in line]

    assert recorded.code == plain.code == 0
    assert lines(recorded.stdout) == lines(plain.stdout)
    assert "program.py" in recorded.stderr and "FutureWarning: old" in recorded.stderr
    assert lines(recorded.stderr) == lines(plain.stderr)
    assert [span["name"] for span in recorded.named("shelf:fails")] == ["shelf:fails"] * 2


def test_an_operator_with_a_name_of_its_own_is_one_span(run, python, library):
    program = "shelf.blur(Array(100, 100))\n"
    done = run(python, IMPORT + program, ["shelf:blur"], automatic=["shelf"])
    assert [span["name"] for span in done.spans] == ["shelf:blur"]


ENTRIES = """
import dis, io, json, sys, textwrap, traceback, argparse, csv, difflib, random, tokenize
recorder = sys.modules["_memtrace_recorder"]
modules = [json.decoder, json.encoder, textwrap, traceback, argparse, csv, difflib, random]
modules += [tokenize]
done = refused = 0
seen = []
for module in modules:
    spaces = [vars(module)]
    spaces += [vars(kind) for kind in spaces[0].values() if isinstance(kind, type)]
    for space in spaces:
        for function in list(space.values()):
            if type(function) is type(lambda: 0) and function.__module__ == module.__name__:
                code = function.__code__
                names = code.co_varnames[: min(code.co_argcount, 3)]
                lines = [line for _, line in dis.findlinestarts(code) if line is not None]
                if ANNOUNCE:
                    announced = recorder.announce(function, names, lambda *all: seen.append(all))
                    done, refused = done + announced, refused + (not announced)
                    found = [l for _, l in dis.findlinestarts(function.__code__) if l is not None]
                    assert found[: len(lines)] == lines
if ANNOUNCE:
    assert done > 150 and refused <= done / 20, (done, refused)
seen.clear()
print(json.loads('{"a": [1, 2, {"b": "c"}], "d": 1.5}'))
print(json.dumps({"a": [1, {"b": None}]}, indent=1))
for text in ("[1,]", "{", "nul"):
    try:
        json.loads(text)
    except ValueError:
        print(traceback.format_exc())
print(textwrap.fill("hello world " * 20, 30))
parser = argparse.ArgumentParser(prog="x")
parser.add_argument("--foo", type=int, choices=range(9), help="what " * 30)
parser.add_argument("rest", nargs="*")
print(parser.parse_args(["--foo", "3", "1", "2"]), parser.format_help())
print(list(difflib.unified_diff(["a", "b", "c"], ["a", "x", "c"], lineterm="")))
print([token.string for token in tokenize.generate_tokens(io.StringIO("x = (1+2)").readline)])
print(random.Random(3).sample(range(100), 3), random.Random(4).gauss(0, 1))
print(list(csv.DictReader(io.StringIO("a,b\\n1,2"))))
assert bool(seen) == ANNOUNCE
"""


def test_functions_of_the_standard_library_work_as_before(run, python):
    """Whatever instructions a function has: jumps, handlers, closures, tables of lines."""
    plain, announced = (run(python, f"ANNOUNCE = {each}\n" + ENTRIES) for each in (False, True))
    assert announced.stdout == plain.stdout


def test_no_two_texts_of_the_recorder_define_the_same_name():
    """They are run as one."""
    places = {}
    for path in (Path(__file__).resolve().parents[1] / "memtrace" / "_recorder").glob("*.py"):
        for node in ast.parse(path.read_text()).body:
            targets = getattr(node, "targets", [])
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            names += [node.name] if hasattr(node, "name") else []
            for name in set(names) - {"TYPE_CHECKING"}:
                places.setdefault(name, set()).add(path.name)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


TORCH = """
import torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(200, 300), torch.nn.ReLU(), torch.nn.Linear(300, 10))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(torch.randn(400, 200)), torch.arange(400) % 10)
    loss.backward()
    optimizer.step()
    print(repr(loss.item()))
small = torch.nn.Linear(3, 2)
print(small(torch.ones(4, 3)).tolist())
"""


def test_pytorch(run):
    """Modules with the operators inside them, the backward pass, the optimizer."""
    import sys

    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    plain = run(sys.executable, TORCH, recorded=False)
    done = run(sys.executable, TORCH, automatic=["numpy.linalg"])
    assert done.stdout == plain.stdout
    names = {span["name"] for span in done.spans}
    assert {"torch.nn:Sequential", "torch.nn:Linear", "torch.nn:ReLU", "aten::addmm"} <= names
    assert {"torch.autograd:backward", "aten::mm", "torch.optim:SGD.step"} <= names
    [first, *_] = done.named("torch.nn:Linear")
    assert first["inputs"][0]["shape"] == [400, 200] and first["inputs"][0]["dtype"] == "<f4"
    assert first["end"]["outputs"][0]["shape"] == [400, 300]
    assert all(span["inputs"][0]["shape"][0] > 4 for span in done.named("torch.nn:Linear"))
