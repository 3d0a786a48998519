"""`plot`: what is drawn are the figures of the object."""

import sys

import memtrace
import pytest
from notebooks import recorded

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

SHAPES = [(10, 20), (20, 30), (30, 50), (40, 50)]
PEAKS = [1600, 4800, 12_000, 16_000]


@pytest.fixture(scope="module")
def model():
    return memtrace.fit_table(SHAPES, PEAKS, "<f8", "costs $a$b")


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


def lines(ax):
    return {line.get_label(): line for line in ax.get_lines()}


def points(line):
    return list(zip(*(map(float, axis) for axis in line.get_data()), strict=True))


def test_a_law_is_drawn_with_its_runs_its_bound_and_its_range(model):
    _, ax = pyplot.subplots()
    assert model.plot(ax=ax) is ax
    drawn, [law] = lines(ax), model.laws()
    for label, key in (("law", "peak_bytes"), ("at most", "upper_bytes")):
        curve = points(drawn[label])
        assert len(curve) > 10
        assert curve == [(n, law.predict((int(n), 50))[key]) for n, _ in curve]
    assert points(drawn["measured"]) == [(30, 12_000), (40, 16_000)]
    assert points(drawn["measured at other lengths"]) == [(10, 1600), (20, 4800)]
    said = [law.predict(shape)["peak_bytes"] for shape in SHAPES[:2]]
    assert [peak for _, peak in points(drawn["law there"])] == said
    [span] = [patch for patch in ax.patches if patch.get_label().startswith("range of the runs")]
    assert (span.get_extents().x0, span.get_extents().x1) == tuple(
        ax.transData.transform([(10, 0), (40, 0)])[:, 0]
    )
    assert ax.get_xlabel() == "n0, at n1=50"
    assert ax.get_title().startswith("costs $a$b <f8")
    ax.figure.canvas.draw()  # a dollar sign is no formula


def test_a_law_is_named_or_the_largest(model):
    small = memtrace.fit_table([(5,), (6,), (7,)], [50, 60, 70], "<f8", "small")
    both = small.merge(model)
    assert both.plot().get_title().startswith("costs")
    assert both.plot("small").get_title().startswith("small")
    with pytest.raises(ValueError, match="no law for absent"):
        both.plot("absent")


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    source = (
        "import time\nkept = bytearray(30_000_000)\ntime.sleep(0.2)\nmore = bytearray(20_000_000)\n"
        "time.sleep(0.2)\ndel more\ntime.sleep(0.2)\n"
    )
    return recorded(source, tmp_path_factory.mktemp("plots"))


def test_a_trace_is_drawn_over_time_with_its_peak(trace):
    ax = trace.plot()
    drawn, peak = lines(ax), trace.report()["peak"]
    [label] = [label for label in drawn if label.startswith("peak: ")]
    [(seconds, bytes_)] = points(drawn[label])
    assert bytes_ == peak["live_bytes"] > 50_000_000
    assert seconds == pytest.approx(peak["seconds"])
    live = dict(points(drawn["live"]))
    assert live[seconds] == max(live.values()) == peak["live_bytes"]
    assert any(30e6 < bytes_ < 45e6 for later, bytes_ in live.items() if later > seconds)
    assert max(bytes_ for _, bytes_ in points(drawn["resident"]) if bytes_ == bytes_) > 50_000_000
    assert ax.get_xlabel() == "seconds"
    ax.figure.canvas.draw()


def test_a_plan_is_drawn_against_its_budget(model):
    plan = model.recommend("costs $a$b", (10_000, 50_000), "1.5 GB", 2)
    ax = plan.plot()
    drawn = lines(ax)
    levels = [float(line.get_ydata()[0]) for label, line in drawn.items() if ": " in label]
    assert levels == [plan["predicted_worker_bytes"], plan["budget_bytes"]]
    assert points(drawn["chosen"]) == [(plan["tasks"], plan["predicted_worker_bytes"])]
    choices = {(each["tasks"], each["predicted_worker_bytes"]) for each in plan["pareto"]}
    assert choices <= set(points(drawn["choices"]))


STEP = {"bytes": {"per_element": 16.0}, "output": {"dtype": "<f8"}}
GRAPH = {
    "version": 1,
    "sources": {"x": {"shape": [3000, 5000], "dtype": "<f8"}},
    "steps": [
        {"name": "$first$", "operator": "blend", "inputs": ["x"], **STEP},
        {"name": "second_$", "operator": "blend", "inputs": ["$first$"], **STEP},
    ],
}


def test_a_pipeline_is_drawn_by_its_steps(model):
    plan = memtrace.plan(model, GRAPH, memory_limit="1 GB", workers=2)
    ax = plan.plot()
    needed = [each["task_bytes"] for each in plan["operators"]]
    assert [bar.get_height() for bar in ax.patches] == needed
    assert len(needed) == len(ax.get_xticks()) > 0
    assert plan["budget_bytes"] in [line.get_ydata()[0] for line in ax.get_lines()]
    ax.figure.canvas.draw()


def test_a_forecast_is_drawn_over_time(model):
    forecast = memtrace.plan(model, GRAPH)
    drawn = lines(forecast.plot())
    moments = [(at, each["live_bytes"]) for at, each in enumerate(forecast["timeline"])]
    assert points(drawn["live"]) == moments  # given bytes have no times
    [(_, peak)] = [points(drawn[label])[0] for label in drawn if label.startswith("peak: ")]
    assert peak == forecast["peak_bytes"] == max(bytes_ for _, bytes_ in moments)


def test_without_matplotlib_a_sentence_says_what_to_install(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="plots need matplotlib: pip install matplotlib"):
        model.plot()
