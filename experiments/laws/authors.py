"""Published peaks of three operators, left out one volume at a time.

Our entry is `memtrace.fit_table`; the other model families are those that were tried on these data
by their authors: scikit-learn's and XGBoost's with their defaults, on the three lengths and on
features made of them. Nothing is fitted to what is left out.
"""

import csv
import warnings
from pathlib import Path

import memtrace
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "experiments" / "data" / "unicamp_peaks.csv"
RESULTS = ROOT / "docs" / "results" / "laws-authors.md"
GIB = 1 << 30
TRAINING_LIMIT = 8_000_000
KEPT_LIMIT = 32 << 20
#: Most a mean error may be, %, to the digits it was published with.
TARGETS = {"gst3d": 0.30, "gaussian-filter": 0.012}
PUBLISHED = {"gst3d": (0.49, 1.25), "gaussian-filter": (0.012, 0.016), "envelope": (4.9, 6.9)}
NAMES = {"gst3d": "GST3D", "gaussian-filter": "Gaussian", "envelope": "envelope"}


def tables():
    """operator -> (shapes, bytes)."""
    found = {}
    with DATA.open() as file:
        for row in csv.DictReader(file):
            shapes, peaks = found.setdefault(row["operator"], ([], []))
            shapes.append([int(row[name]) for name in ("inlines", "xlines", "samples")])
            peaks.append(float(row["avg_peak_memory_usage"]) * GIB)
    return {name: (np.array(shapes), np.array(peaks)) for name, (shapes, peaks) in found.items()}


def features(shapes):
    """Lengths, products, surface, diagonal, logarithms, ratios: what the authors made of them."""
    n = shapes.astype(float)
    volume, pairs = n.prod(axis=1, keepdims=True), n * np.roll(n, -1, axis=1)
    surface, diagonal = (
        2 * pairs.sum(axis=1, keepdims=True),
        np.sqrt((n**2).sum(axis=1, keepdims=True)),
    )
    return np.hstack(
        [
            n,
            volume,
            pairs,
            surface,
            diagonal,
            np.log2(n),
            np.log2(volume),
            n / np.roll(n, -1, axis=1),
        ]
    )


def families(quick):
    """name -> function that makes an untrained model."""
    from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
    from sklearn.linear_model import ElasticNet, LinearRegression
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler
    from sklearn.svm import SVR
    from sklearn.tree import DecisionTreeRegressor
    from xgboost import XGBRegressor

    plain = {
        "linear": LinearRegression,
        "polynomial, degree 2": lambda: make_pipeline(
            PolynomialFeatures(degree=2, include_bias=False), LinearRegression()
        ),
        "elastic net": ElasticNet,
        "decision tree": lambda: DecisionTreeRegressor(random_state=0),
        "support vectors": SVR,
    }
    slow = {
        "random forest": lambda: RandomForestRegressor(random_state=0, n_jobs=1),
        "gradient boosting": lambda: GradientBoostingRegressor(random_state=0),
        "XGBoost": lambda: XGBRegressor(random_state=0, n_jobs=1),
        "neural network": lambda: make_pipeline(StandardScaler(), MLPRegressor(random_state=0)),
    }
    return plain if quick else plain | slow


def of_family(make, of):
    """Fits in GiB, as the authors did, on `of(shapes)`."""

    def fit(shapes, peaks):
        model = make()
        model.fit(of(shapes), peaks / GIB)
        return lambda wanted: np.ravel(model.predict(of(wanted))) * GIB

    return fit


def ours(shapes, peaks):
    model = memtrace.fit_table(shapes.tolist(), [round(peak) for peak in peaks], "<f4", "measured")
    return lambda wanted: np.array(
        [model.predict("measured", shape)["peak_bytes"] for shape in wanted.tolist()]
    )


def sequence(shapes):
    """The exact law of GST3D, 16·V + 228·Vi, with the 4·V that glibc keeps up to 32 MiB; bytes."""
    volume, inner = shapes.prod(axis=1), (shapes - 2).prod(axis=1)
    return 16 * volume + 228 * inner + np.where(4 * volume <= KEPT_LIMIT, 4 * volume, 0)


def exact(shapes, peaks):
    """The exact law: nothing but the process's baseline is taken from the table."""
    baseline = np.median(peaks - sequence(shapes))
    return lambda wanted: sequence(wanted) + baseline


def errors(fit, shapes, peaks):
    """Relative errors, each volume predicted from the others."""
    volumes, found = shapes.prod(axis=1), np.empty(len(peaks))
    for volume in np.unique(volumes):
        out = volumes == volume
        found[out] = fit(shapes[~out], peaks[~out])(shapes[out]) / peaks[out] - 1
    return 100 * found


def beyond(fit, shapes, peaks):
    """Relative errors above the training limit, from what lies below."""
    small = shapes.prod(axis=1) <= TRAINING_LIMIT
    return 100 * (fit(shapes[small], peaks[small])(shapes[~small]) / peaks[~small] - 1)


def explained(data):
    """The envelope's peaks without a fit to them: 28·V with the input (SciPy 1.15), and the
    process's own memory from the Gaussian's table. What is missing of that, in %, for each shape;
    and how much shapes of one volume, which need the same memory, differ."""
    shapes, peaks = data["envelope"]
    volume = shapes.prod(axis=1)
    baseline = ours(*data["gaussian-filter"])(np.ones((1, 3), int))[0]
    missing = 100 * (1 - peaks / (baseline + 28 * volume))
    groups = [peaks[volume == each] for each in np.unique(volume)]
    return baseline, missing, max(100 * (1 - group.min() / group.max()) for group in groups)


def cell(found):
    mean, worst = np.abs(found).mean(), np.abs(found).max()
    return f"{mean:.{3 if mean < 0.1 else 2}f} ({worst:.{2 if worst < 10 else 0}f})"


PAGE = """\
# Published peaks, predicted

`scripts/experiments laws authors` writes this page. The data,
[experiments/data](../../experiments/data/README.md), are resident peaks of three operators at
54 to 64 shapes each, sampled every 10 ms.

| what | target | measured | holds |
|---|---|---|---|
{targets}

Published for an affine law on these data: {published}. Compared to as many digits as a target
has.

## Beside the model families that were tried on them

Mean error in % (largest in brackets). *Left out*: each volume from all others. *Larger*: those
above 8·10⁶ voxels from those up to it. `fit_table` chooses its monomials inside each training
set.

| model | {columns} |
|---|---|---|---|---|---|---|
{rows}
| exact law of GST3D + baseline | {law} | {law_far} | | | | |

{best}

The rule that an array is kept up to 32 MiB, which `fit_table` may take as a term, is glibc's; that
it matters here was seen in this table, so GST3D's figure is no independent test of it. Without it
the same regression is the affine law that was published, 0.49 % off.

## GST3D, from its exact law

The sequence of allocations gives 16·V + 228·(n0−2)(n1−2)(n2−2) bytes at the peak. What the
table holds beyond that is flat, {baseline:.1f} MB (interpreter and libraries), once 4·V more is
counted up to 8.39·10⁶ voxels: an array of up to 32 MiB that was released stays in glibc's heap,
a larger one is a mapping and vanishes (mallopt(3), M_MMAP_THRESHOLD). This is why an affine law
misses by half a per cent, and why shapes of up to 8·10⁶ voxels alone cannot tell the 4·V that
are kept from those that are needed: no regression below that size can. With the sequence and
the allocator's rule only the baseline is taken from the small shapes, and the larger ones come
out within {far:.3f} % on average, {far_most:.2f} % at most.

## Envelope, explained by its sampling

Shapes of one volume, which need the same memory, differ by up to {spread:.0f} % in the table:
no function of the volume fits that. The operator needs 28·V with its input (SciPy 1.15), for an
instant; a sample each 10 ms sees it or comes late. If that is what happened, then with the
process's own memory taken from the Gaussian's table, {own:.1f} MB, every peak lies at or below
28·V + {own:.1f} MB, none above. {inside} of {of} do. {missing_mean:.1f} % are missing on
average, {missing_most:.0f} % at most; up to 27 % was missed when a real envelope was sampled
every 10 ms.
"""


def main(arguments):
    warnings.filterwarnings("ignore")
    data = tables()
    order = list(NAMES)
    entry = "memtrace, fit_table"
    entries = {entry: ours}
    for name, make in families(arguments.quick).items():
        entries[f"{name}, lengths"] = of_family(make, lambda shapes: shapes.astype(float))
        entries[f"{name}, features"] = of_family(make, features)
    rows, found = [], {}
    for name, fit in entries.items():
        cells = []
        for operator in order:
            left, far = errors(fit, *data[operator]), beyond(fit, *data[operator])
            found[name, operator] = np.abs(left).mean()
            cells += [cell(left), cell(far)]
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
        print(rows[-1], flush=True)
    own, missing, spread = explained(data)
    inside = int((missing >= -0.1).sum())
    targets, holds = [], [inside == len(missing)]
    for operator, target in TARGETS.items():
        digits = len(str(target).partition(".")[2])
        mean = found[entry, operator]
        holds.append(round(mean, digits) <= target)
        what = f"{NAMES[operator]}, one volume left out, mean error"
        answer = "yes" if holds[-1] else "no"
        targets.append(f"| {what} | ≤ {target} % | {mean:.4f} % | {answer} |")
    answer = "yes" if holds[0] else "no"
    targets.append(f"| envelope: peaks at or below 28·V + baseline | all | {inside} | {answer} |")
    better = [
        f"{name} ({NAMES[operator]}, {mean:.3f} %)"
        for (name, operator), mean in found.items()
        if mean < found[entry, operator]
    ]
    far = np.abs(beyond(exact, *data["gst3d"]))
    shapes, peaks = data["gst3d"]
    text = PAGE.format(
        targets="\n".join(targets),
        published=", ".join(
            f"{NAMES[name]} {left} % left out, {larger} % larger"
            for name, (left, larger) in PUBLISHED.items()
        ),
        columns=" | ".join(f"{NAMES[o]}, {kind}" for o in order for kind in ("left out", "larger")),
        rows="\n".join(rows),
        law=cell(errors(exact, *data["gst3d"])),
        law_far=cell(far),
        best="Better than `fit_table` with a volume left out: "
        + ("; ".join(better) or "none")
        + ".",
        baseline=np.median(peaks - sequence(shapes)) / 1e6,
        far=far.mean(),
        far_most=far.max(),
        spread=spread,
        own=own / 1e6,
        inside=inside,
        of=len(missing),
        missing_mean=missing.mean(),
        missing_most=missing.max(),
    )
    if arguments.quick:
        print(text)
    else:
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        RESULTS.write_text(text, encoding="utf-8")
    return all(holds)
