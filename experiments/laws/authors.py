"""Published peaks of three operators: leave one volume out, beside every model family that was tried on them.

Our entry is `memtrace.fit_table`; the others are scikit-learn's and XGBoost's with their defaults, as the
authors of the data ran them, on the three lengths and on features made of them. Nothing is fitted to what is left out.
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
    """Lengths, and what the authors made of them: products, surface, diagonal, logarithms, ratios."""
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
    """name -> function that makes an untrained model; scikit-learn is needed for this study alone."""
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


def explained(shapes, peaks):
    """What is known of the envelope's peaks without a fit: SciPy's course needs 28·V with the input, and 20·V are
    held longest. A sample that comes too late sees less, never more."""
    volume = shapes.prod(axis=1).astype(float)
    baseline = (peaks - 28 * volume).max()
    missed = 1 - peaks / (baseline + 28 * volume)
    inside = (peaks <= baseline + 28 * volume + 1) & (peaks >= baseline * 0.999)
    pairs = [
        abs(peaks[a] - peaks[b]) / max(peaks[a], peaks[b])
        for a in range(len(peaks))
        for b in range(a)
        if volume[a] == volume[b]
    ]
    return baseline, 100 * missed, bool(inside.all()), 100 * max(pairs)


def cell(found):
    mean, worst = np.abs(found).mean(), np.abs(found).max()
    digits = 3 if mean < 0.1 else 2
    return f"{mean:.{digits}f} ({worst:.2g})" if worst < 100 else f"{mean:.0f} ({worst:.0f})"


def main(arguments):
    warnings.filterwarnings("ignore")
    data = tables()
    order = ["gst3d", "gaussian-filter", "envelope"]
    entries = {"memtrace, fit_table": ours}
    for name, make in families(arguments.quick).items():
        entries[f"{name}, lengths"] = of_family(make, lambda shapes: shapes.astype(float))
        entries[f"{name}, features"] = of_family(make, features)
    rows, found = [], {}
    for name, fit in entries.items():
        cells = []
        for operator in order:
            left, far = errors(fit, *data[operator]), beyond(fit, *data[operator])
            found[name, operator] = np.abs(left).mean(), np.abs(far).mean()
            cells += [cell(left), cell(far)]
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    gst = data["gst3d"]
    law, law_far = errors(exact, *gst), beyond(exact, *gst)
    baseline = np.median(gst[1] - sequence(gst[0]))
    base, missed, inside, spread = explained(*data["envelope"])
    entry = "memtrace, fit_table"
    held = {
        operator: round(found[entry, operator][0], 3) <= target
        for operator, target in TARGETS.items()
    }
    best = all(
        found[entry, operator][0]
        <= 1.05 * min(v[0] for (n, o), v in found.items() if o == operator)
        for operator in order
    )
    lines = [
        "# Published peaks, predicted",
        "",
        "`scripts/experiments laws authors` writes this page. The data, [experiments/data](../../experiments/data/README.md),"
        " are resident peaks of three operators, 54 to 64 shapes each, sampled every 10 ms by others.",
        "",
        "| what | target | measured | holds |",
        "|---|---|---|---|",
    ]
    for operator, target in TARGETS.items():
        answer = "yes" if held[operator] else "no"
        lines.append(
            f"| {NAMES[operator]}, leave one volume out, mean error | ≤ {target} % | {found[entry, operator][0]:.3f} % | {answer} |"
        )
    lines.append(
        f"| envelope: no sample above 28·V + baseline | all | {'all' if inside else 'not all'} | {'yes' if inside else 'no'} |"
    )
    lines += [
        "",
        "Published for an affine law on these data: "
        + ", ".join(
            f"{NAMES[o]} {a} % (larger than 8·10⁶ voxels from smaller ones: {b} %)"
            for o, (a, b) in PUBLISHED.items()
        )
        + ". Targets are compared to three digits, as the figures were published.",
        "",
        "## Beside the model families that were tried on them",
        "",
        "Mean error in % (largest in brackets). *left out*: each volume from all others. *larger*: trained on V ≤ 8·10⁶ alone."
        " The families are those of the data's authors, with the libraries' defaults, on the three lengths and on 15 features"
        " of them. fit_table chooses its monomials inside each training set.",
        "",
        "| model | "
        + " | ".join(f"{NAMES[o]}, {kind}" for o in order for kind in ("left out", "larger"))
        + " |",
        "|---|" + "---|" * 6,
        *rows,
        f"| exact law of GST3D + baseline | {cell(law)} | {cell(law_far)} | | | | |",
        "",
        (
            "No family is better than fit_table by more than a twentieth in a left-out volume."
            if best
            else "Some family is better than fit_table in a left-out volume: see the table."
        ),
        "",
        "## GST3D, from its exact law",
        "",
        "The sequence of allocations gives 16·V + 228·(n0−2)(n1−2)(n2−2) bytes at the peak. What the table holds beyond that is"
        f" flat, {baseline / 1e6:.1f} MB (interpreter and libraries), once 4·V more is counted for V up to 8.39·10⁶ voxels:"
        " an array of up to 32 MiB that was released stays in glibc's heap, a larger one is a mapping and vanishes"
        " (mallopt(3), M_MMAP_THRESHOLD). This is why an affine law misses by half a per cent, and why training on V ≤ 8·10⁶"
        " alone cannot tell the kept 4·V from the needed 240·V: no regression below that size can. With the sequence and the"
        f" allocator's rule only the baseline is taken from the small shapes, and the larger ones come out within"
        f" {np.abs(law_far).mean():.3f} % ({np.abs(law_far).max():.2f} % at most).",
        "",
        "## Envelope, explained by its sampling",
        "",
        f"Shapes of one volume, which need the same memory, differ by up to {spread:.0f} % in the table: no function of the shape"
        " fits that, and no model is tried on it here beyond the table above. The operator's course needs 28·V with its input"
        " (SciPy 1.15), for an instant: a sample each 10 ms sees it or comes late. If the table's peaks are such samples, none may"
        f" exceed 28·V + baseline, with one baseline: that of the largest, {base / 1e6:.1f} MB, against {baseline / 1e6:.1f} MB of GST3D's"
        f" process. {'None does' if inside else 'Some do'}; the samples miss {missed.mean():.1f} % on average, {missed.max():.0f} % at most."
        " (Up to 27 % was measured when a real envelope was sampled at 10 ms.)",
        "",
    ]
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    if not arguments.quick:
        RESULTS.write_text("\n".join(lines), encoding="utf-8")
    else:
        print("\n".join(lines))
    return all(held.values()) and inside
