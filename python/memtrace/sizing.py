"""How much memory to ask a scheduler for: by a law at first, and after a job was killed.

    import memtrace.sizing
    sizes = memtrace.sizing.Sizes(memtrace.Model.load("model.json"))
    sizes.request("gst3d", (200, 200, 200))            bytes for a first attempt
    sizes.mem_mb("gst3d", (200, 200, 200), attempt=2)  MB for a second, as Snakemake asks

Slurm, Kubernetes and whatever else kills a job that takes more than it asked for.
"""

from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple, Union

from . import _sizes
from ._load import model_of

if TYPE_CHECKING:
    from ._native import Model

#: Resident size of Python with NumPy and SciPy, where the recording did not look.
PYTHON_BYTES = 100_000_000
#: What is asked for after a kill, over what was not enough.
GROWTH = 1.5
#: Finished jobs of an operator that say more than its law's bound.
ENOUGH = 5
#: How much larger than they a job may be for that.
TWICE = 2
#: Of the range of their errors, over their number: what the next may be beyond them.
SPREAD = 2


class Sizes:
    """Requests for jobs that run one operator each, in a process of its own.

    A first request is the law's `resident_upper_bytes`: baseline, working peak and what malloc
    keeps, at their upper bounds. What finished jobs peaked at says how much of that is needed:
    from ENOUGH of them on, a line through their peaks over what the law foretold as likely, and
    the most that any of them was above it, and some more; for jobs at most TWICE as large as they.

    A kill at the bound or above shows that the law is wrong. From then on every job of that
    operator, of whatever shape, is asked for at its upper bound times a factor GROWTH times the one
    that was not enough, so no kill is paid for twice. When jobs have finished since, their peaks
    bring the factor down, never to one that was killed. A kill below the bound puts the bound in
    force again until a job has finished that needed more.

    model: it, or its file. margin: a part of each request that is added to it. any_version: also
    use laws that were recorded with other releases of libraries.
    """

    def __init__(
        self, model: "Union[Model, str]", *, margin: float = 0.0, any_version: bool = False
    ):
        if margin < 0:
            raise ValueError(f"the margin must not be negative, as {margin} is")
        model = model_of(model)
        self._model, self._margin, self._any_version = model, margin, any_version
        self._killed: Dict[str, float] = {}  # largest factor that was too little
        self._needed: Dict[str, float] = {}  # largest factor that a finished job needed
        self._finished: Dict[str, List[Tuple[int, int]]] = {}  # foretold as likely, and the peak
        # What was killed below the bound: foretold as likely, and granted.
        self._doubted: Dict[str, List[Tuple[int, int]]] = {}

    def request(
        self,
        operator: str,
        shape: "Sequence[int]",
        dtype: "Optional[str]" = None,
        *,
        attempt: int = 1,
        **params: Any,
    ) -> int:
        """Bytes to ask for.

        attempt: of this job; each beyond the first asks for GROWTH times as much as the one
        before, where nobody says `killed`. ValueError: the model has no law for the operator.
        """
        if attempt < 1:
            raise ValueError(f"attempts are counted from 1, not {attempt}")
        likely, upper = self._law(operator, shape, dtype, params)
        size = upper * self._factor(operator)
        if operator not in self._killed and not self._doubted.get(operator):
            size = min(size, self._learned(operator, likely))
        return int(size * GROWTH ** (attempt - 1) * (1 + self._margin)) + 1

    def mem_mb(self, operator: str, shape: "Sequence[int]", **asked: Any) -> int:
        """The same in MB, rounded up: for `resources: mem_mb=` and `--mem`."""
        return -(-self.request(operator, shape, **asked) // 1_000_000)

    def killed(
        self,
        operator: str,
        shape: "Sequence[int]",
        granted: "Union[int, str]",
        dtype: "Optional[str]" = None,
        **params: Any,
    ) -> int:
        """A job was killed at `granted` bytes (or "2GB"); what to ask for now, for it."""
        granted = _sizes.parse(granted)
        if granted == 0:
            raise ValueError("a job cannot have been granted no memory")
        likely, upper = self._law(operator, shape, dtype, params)
        if granted < upper:
            self._doubted.setdefault(operator, []).append((likely, granted))
        else:
            self._killed[operator] = max(self._killed.get(operator, 0.0), granted / upper)
        return self.request(operator, shape, dtype, **params)

    def finished(
        self,
        operator: str,
        shape: "Sequence[int]",
        peak: "Union[int, str]",
        dtype: "Optional[str]" = None,
        **params: Any,
    ) -> None:
        """A job finished with this resident peak in bytes, or "1.5GB" (Slurm: `MaxRSS`). One of 0,
        which schedulers tell of jobs too short to look at, says nothing."""
        peak = _sizes.parse(peak)
        if peak == 0:
            return
        likely, upper = self._law(operator, shape, dtype, params)
        self._needed[operator] = max(self._needed.get(operator, 0.0), peak / upper)
        self._finished.setdefault(operator, []).append((likely, peak))
        # One that was foretold to need no more than the killed job, and did, says what it lacked.
        doubts = self._doubted.get(operator, [])
        doubts = [doubt for doubt in doubts if not (likely <= doubt[0] and peak >= doubt[1])]
        self._doubted[operator] = doubts

    def _factor(self, operator):
        killed, needed = self._killed.get(operator, 0.0), self._needed.get(operator, 0.0)
        # Asked for so little once more, a job of the same kind would be killed once more.
        grown = needed if needed > killed else killed * GROWTH
        return max(1.0, grown)

    def _learned(self, operator, likely):
        """What finished jobs of the operator say of one that is foretold to need so much."""
        jobs = self._finished.get(operator, [])
        if len(jobs) < ENOUGH or likely > TWICE * max(foretold for foretold, _ in jobs):
            return float("inf")
        start, slope = _line(jobs)
        errors = [peak - (start + slope * foretold) for foretold, peak in jobs]
        most, least = max(errors), min(errors)
        # The more have been seen, the less is the next one beyond them.
        asked = start + slope * likely + most + SPREAD * (most - least) / len(jobs)
        return max(asked, min(peak for _, peak in jobs))  # a smaller one needs Python all the same

    def _law(self, operator, shape, dtype, params):
        """What a process with the operator needs: likely, and at most."""
        law = self._model.predict(
            operator, list(shape), dtype, any_version=self._any_version, **params
        )
        if law["resident_bytes"] is None:  # the recording did not look at resident memory
            fixed = law["input_bytes"] + law["once_bytes"] + PYTHON_BYTES
            return law["peak_bytes"] + fixed, law["upper_bytes"] + fixed
        return law["resident_bytes"], law["resident_upper_bytes"]


def _line(points):
    """Start and slope of the line of least squares; one of slope 1 where there is but one place."""
    count = len(points)
    middle = sum(x for x, _ in points) / count, sum(y for _, y in points) / count
    spread = sum((x - middle[0]) ** 2 for x, _ in points)
    common = sum((x - middle[0]) * (y - middle[1]) for x, y in points)
    slope = max(common / spread, 0.0) if spread else 1.0
    return middle[1] - slope * middle[0], slope
