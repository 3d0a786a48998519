"""How much memory to request from a scheduler: by a law at first, and after a job was killed.

    import memtrace.sizing
    sizes = memtrace.sizing.Sizes(memtrace.Model.load("model.json"))
    sizes.request("gst3d", (200, 200, 200))            bytes for a first attempt
    sizes.mem_mb("gst3d", (200, 200, 200), attempt=2)  MB for a second, as Snakemake requests them

For Slurm, Kubernetes and other schedulers that kill a job which takes more than it requested.
"""

import re
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple, Union

from ._planning import sizes
from ._running.load import model_of

if TYPE_CHECKING:
    from ._native import Model

#: Resident size of Python with NumPy and SciPy, where the recording did not sample it.
PYTHON_BYTES = 100_000_000
#: A request after a kill, over the one that was not enough.
GROWTH = 1.5
#: From this many finished jobs of an operator on, they say more than its law's bound.
ENOUGH = 5
#: How much larger than they a job may be for that.
TWICE = 2
#: Of the range of their errors, over their number: what the next may be beyond them.
SPREAD = 2


class Sizes:
    """Requests for jobs that run one operator each, in a process of its own.

    A first request is the law's `resident_upper_bytes`: baseline, working peak and what malloc
    keeps, at their upper bounds. The peaks of finished jobs show how much of that is needed. From
    ENOUGH of them on, a request is a line through their peaks over the law's likely prediction,
    plus the largest error of any of them and some more; for jobs at most TWICE as large as they.

    A kill at the bound or above shows that the law is wrong. From then on the request of every job
    of that operator, of any shape, is its upper bound times a factor, GROWTH times the one that was
    not enough: the same mistake kills one job only. When jobs have finished since, their peaks
    bring the factor down, never to one that was killed. A kill below the bound puts the bound in
    force again until a job has finished that needed more.

    Args:
        model: The model, or its file.
        margin: A part of each request that is added to it.
        any_version: Also use laws that were recorded with other releases of libraries.

    Raises:
        ValueError: The margin is negative, or the file is no model.
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
        self._finished: Dict[str, List[Tuple[int, int]]] = {}  # likely prediction, and peak
        # What was killed below the bound: likely prediction, and granted.
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
        """Bytes to request.

        Args:
            operator: Its name in the model.
            shape: Lengths of the input's axes, in elements.
            dtype: As NumPy writes it; needed if there are laws for several.
            attempt: Of this job, from 1 on; each beyond the first requests GROWTH times as much as
                the one before, for callers that do not report kills by `killed`.
            **params: Parameters that choose the law.

        Returns:
            Bytes.

        Raises:
            ValueError: The model has no law for the operator, or the attempt is below 1.
        """
        if attempt < 1:
            raise ValueError(f"attempts are counted from 1, not {attempt}")
        likely, upper = self._law(operator, shape, dtype, params)
        size = upper * self._factor(operator)
        if operator not in self._killed and not self._doubted.get(operator):
            size = min(size, self._learned(operator, likely))
        return int(size * GROWTH ** (attempt - 1) * (1 + self._margin)) + 1

    def mem_mb(self, operator: str, shape: "Sequence[int]", **request: Any) -> int:
        """`request` in MB, rounded up: for `resources: mem_mb=` and `--mem`."""
        return -(-self.request(operator, shape, **request) // 1_000_000)

    def killed(
        self,
        operator: str,
        shape: "Sequence[int]",
        granted: "Union[int, str]",
        dtype: "Optional[str]" = None,
        **params: Any,
    ) -> int:
        """Takes in that a job was killed.

        Args:
            operator: Its operator.
            shape: Lengths of the input's axes, in elements.
            granted: The bytes that it was granted, or a text like "2GB" (Slurm: `ReqMem`).
            dtype: As for `request`.
            **params: As for `request`.

        Returns:
            Bytes to request for it now.

        Raises:
            ValueError: As for `request`, or it was granted nothing.
        """
        granted = _bytes(granted)
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
        """Takes in that a job finished.

        Args:
            operator: Its operator.
            shape: Lengths of the input's axes, in elements.
            peak: Its resident peak in bytes, or a text like "1.5GB": VmHWM of /proc/self/status at
                its end, or what `/usr/bin/time -f %MK` prints. Slurm's `MaxRSS` is the largest
                of its samples, which is too little for jobs of a few seconds. A peak of 0, which
                schedulers report for jobs too short to sample, is ignored.
            dtype: As for `request`.
            **params: As for `request`.

        Raises:
            ValueError: As for `request`.
        """
        peak = _bytes(peak)
        if peak == 0:
            return
        likely, upper = self._law(operator, shape, dtype, params)
        self._needed[operator] = max(self._needed.get(operator, 0.0), peak / upper)
        self._finished.setdefault(operator, []).append((likely, peak))
        # One that needed more than a killed job of no smaller prediction shows what that lacked.
        doubts = self._doubted.get(operator, [])
        doubts = [doubt for doubt in doubts if not (likely <= doubt[0] and peak >= doubt[1])]
        self._doubted[operator] = doubts

    def _factor(self, operator):
        killed, needed = self._killed.get(operator, 0.0), self._needed.get(operator, 0.0)
        # With the same request again, a job of the same kind would be killed again.
        grown = needed if needed > killed else killed * GROWTH
        return max(1.0, grown)

    def _learned(self, operator, likely):
        """A request by finished jobs of the operator, for one with this likely prediction."""
        jobs = self._finished.get(operator, [])
        if len(jobs) < ENOUGH or likely > TWICE * max(predicted for predicted, _ in jobs):
            return float("inf")
        start, slope = _line(jobs)
        errors = [peak - (start + slope * predicted) for predicted, peak in jobs]
        most, least = max(errors), min(errors)
        # The more have been seen, the less is the next one beyond them.
        request = start + slope * likely + most + SPREAD * (most - least) / len(jobs)
        return max(
            request, min(peak for _, peak in jobs)
        )  # a smaller one needs Python all the same

    def _law(self, operator, shape, dtype, params):
        """What a process with the operator needs: likely, and at most."""
        law = self._model.predict(
            operator, list(shape), dtype, any_version=self._any_version, **params
        )
        if law["resident_bytes"] is None:  # the recording did not sample resident memory
            fixed = law["input_bytes"] + law["one_time_bytes"] + PYTHON_BYTES
            return law["peak_bytes"] + fixed, law["upper_bytes"] + fixed
        return law["resident_bytes"], law["resident_upper_bytes"]


def _bytes(size):
    """Bytes of a size. Slurm writes `123456K`: its letters alone are powers of 1024."""
    if isinstance(size, str) and re.fullmatch(r"[\d.]+[KMGTP]", size):
        size += "iB"
    return sizes.parse(size)


def _line(points):
    """Start and slope of the line of least squares; one of slope 1 where there is but one place."""
    count = len(points)
    middle = sum(x for x, _ in points) / count, sum(y for _, y in points) / count
    spread = sum((x - middle[0]) ** 2 for x, _ in points)
    common = sum((x - middle[0]) * (y - middle[1]) for x, y in points)
    slope = max(common / spread, 0.0) if spread else 1.0
    return middle[1] - slope * middle[0], slope
