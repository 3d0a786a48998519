"""How much memory to ask a scheduler for: by a law at first, and after a job was killed.

    import memtrace.sizing
    sizes = memtrace.sizing.Sizes(memtrace.Model.load("model.json"))
    sizes.request("gst3d", (200, 200, 200))            bytes for a first attempt
    sizes.mem_mb("gst3d", (200, 200, 200), attempt=2)  MB for a second, as Snakemake asks

Slurm, Kubernetes and whatever else kills a job that takes more than it asked for.
"""

from typing import TYPE_CHECKING, Any, Dict, Optional, Sequence

if TYPE_CHECKING:
    from ._native import Model

#: What is asked for after a kill, over what was not enough.
GROWTH = 1.5


class Sizes:
    """Requests for jobs that run one operator each, in a process of its own.

    A first request is the law's `resident_upper_bytes`: baseline, working peak and what malloc
    keeps, at their upper bounds. Each operator has a factor on it, 1 at first. A kill shows that
    so much was too little: from then on every job of the operator, of whatever shape, is asked for
    with a factor GROWTH times the one that was not enough, so no kill is paid for twice. When jobs
    have finished since, their peaks say by how much the law is wrong, and the factor is brought
    down to that, never to one that was killed.

    margin: a part of each request that is added to it. any_version: also use laws that were
    recorded with other releases of libraries.
    """

    def __init__(self, model: "Model", *, margin: float = 0.0, any_version: bool = False):
        if margin < 0:
            raise ValueError(f"the margin must not be negative, as {margin} is")
        self._model, self._margin, self._any_version = model, margin, any_version
        self._killed: Dict[str, float] = {}  # largest factor that was too little
        self._needed: Dict[str, float] = {}  # largest factor that a finished job needed

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
        law = self._law(operator, shape, dtype, params)
        factor = self._factor(operator) * GROWTH ** (attempt - 1)
        return int(law * factor * (1 + self._margin)) + 1

    def mem_mb(self, operator: str, shape: "Sequence[int]", **asked: Any) -> int:
        """The same in MB, rounded up: for `resources: mem_mb=` and `--mem`."""
        return -(-self.request(operator, shape, **asked) // 1_000_000)

    def killed(
        self,
        operator: str,
        shape: "Sequence[int]",
        granted: int,
        dtype: "Optional[str]" = None,
        **params: Any,
    ) -> int:
        """A job was killed at `granted` bytes; what to ask for now, for it."""
        factor = granted / self._law(operator, shape, dtype, params)
        self._killed[operator] = max(self._killed.get(operator, 0.0), factor)
        return self.request(operator, shape, dtype, **params)

    def finished(
        self,
        operator: str,
        shape: "Sequence[int]",
        peak: int,
        dtype: "Optional[str]" = None,
        **params: Any,
    ) -> None:
        """A job finished with this resident peak in bytes (Slurm: `MaxRSS`)."""
        factor = peak / self._law(operator, shape, dtype, params)
        self._needed[operator] = max(self._needed.get(operator, 0.0), factor)

    def _factor(self, operator):
        killed, needed = self._killed.get(operator, 0.0), self._needed.get(operator, 0.0)
        # Asked for so little once more, a job of the same kind would be killed once more.
        grown = needed if needed > killed else killed * GROWTH
        return max(1.0, grown)

    def _law(self, operator, shape, dtype, params):
        law = self._model.predict(
            operator, list(shape), dtype, any_version=self._any_version, **params
        )
        bytes_ = law["resident_upper_bytes"]
        if bytes_ is None:  # the recording did not look at resident memory
            bytes_ = law["upper_bytes"] + law["input_bytes"] + law["once_bytes"]
        return bytes_
