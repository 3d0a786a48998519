"""What summaries and plots say of laws, in words."""

from .._planning import sizes

#: Terms of a formula that are written out; of the others, the sum.
SHOWN_TERMS = 4


def shape_of(lengths):
    """`60×50×40`."""
    return "×".join(map(str, lengths)) or "scalar"


def name_of(key):
    """An operator with its parameters and dtype: `gst3d(sigma=2) <f4`."""
    params = ", ".join(f"{name}={value}" for name, value in key["params"].items())
    called = f"({params})" if params else ""
    return f"{key['operator']}{called} {key['dtype']}".rstrip()


def formula(prediction):
    """The working peak as a function of the variables."""
    model = prediction["model"]
    terms = [term["words"] for term in model["terms"][:SHOWN_TERMS]]
    others = model["terms"][SHOWN_TERMS:]
    if others:
        plural = "" if len(others) == 1 else "s"
        bytes_ = sum(term["bytes"] for term in others)
        terms.append(f"{sizes.text(bytes_)} in {len(others)} more term{plural}")
    if model["residual_bytes"]:
        terms.append(f"{sizes.text(model['residual_bytes'])} of small blocks")
    at = f" (these sums at {shape_of(prediction['shape'])})"
    has_sums = others or model["residual_bytes"]
    return (" + ".join(terms) or "0") + (at if has_sums else "")


def verifying_shape(prediction):
    """The shape of the run that verified the law, which it was not fitted on; None without one."""
    evidence = prediction["model"]["evidence"]
    about = next(iter(evidence.values())) if isinstance(evidence, dict) else {}
    return about.get("shape")


def ranges(prediction):
    """For each variable its name, and the smallest and largest length in the law's runs, the one
    that verified it among them."""
    variables = prediction["model"]["variables"]
    verified = verifying_shape(prediction) or [None] * len(variables)
    for variable, length in zip(variables, verified):
        ends = [variable["min"], variable["max"], *([] if length is None else [length])]
        yield variable["name"], min(ends), max(ends)


def verified(prediction):
    """What the law's bound rests on, in words."""
    shape = verifying_shape(prediction)
    proof = prediction["model"]["proof"]
    return proof if shape is None else f"{proof}, verified at {shape_of(shape)}"


def largest(law):
    """The run with the largest peak that the law was fitted on; None without any."""
    return max(law.trained_on, key=lambda run: run["working_peak_bytes"], default=None)


def by_size(model):
    """Laws of a model: the largest recorded peak first, those of libraries' own calls last."""

    def rank(law):
        run = largest(law)
        return law.internal, -(run["working_peak_bytes"] if run else 0)

    return sorted(model.laws(), key=rank)
