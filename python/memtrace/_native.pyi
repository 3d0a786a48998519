from os import PathLike
from pathlib import Path
from typing import Any, Callable, Sequence, final

from ._notebook.answers import Forecast, Plan, Prediction
from ._notebook.page import Page

__all__ = [
    "ChunkChooser",
    "Follower",
    "Law",
    "Model",
    "Table",
    "Trace",
    "Traces",
    "bound_source",
    "fit",
    "fit_dry_runs",
    "fit_profiles",
    "fit_table",
    "read_profiles",
    "trace_directories",
]

_Path = str | PathLike[str]
_Scalar = bool | int | float | str

@final
class Table:
    @property
    def name(self) -> str: ...
    @property
    def columns(self) -> list[str]: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...
    def _first(self, most: int) -> list[list[Any]]: ...
    def _repr_html_(self) -> str: ...

@final
class Traces:
    def __new__(cls, path: _Path) -> Traces: ...
    @property
    def path(self) -> PathLike[str]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Trace: ...
    def report(self) -> dict[str, Any]: ...

@final
class Trace:
    def __new__(cls, path: _Path) -> Trace: ...
    @property
    def path(self) -> PathLike[str]: ...
    @property
    def meta(self) -> dict[str, Any]: ...
    @property
    def operators(self) -> Table: ...
    @property
    def allocations(self) -> Table: ...
    @property
    def spans(self) -> Table: ...
    @property
    def sites(self) -> Table: ...
    @property
    def frames(self) -> Table: ...
    @property
    def processes(self) -> Table: ...
    @property
    def threads(self) -> Table: ...
    @property
    def modules(self) -> Table: ...
    @property
    def timeline(self) -> Table: ...
    @property
    def kernel_events(self) -> Table: ...
    @property
    def accesses(self) -> Table: ...
    @property
    def placements(self) -> Table: ...
    @property
    def folded(self) -> Table: ...
    @property
    def devices(self) -> Table: ...
    def report(self) -> dict[str, Any]: ...
    def during(self, start_ns: int, end_ns: int | None = None, most: int = 5) -> dict[str, Any]: ...
    def show(self, height: int = 600) -> Page: ...
    def plot(self, *, ax: Any = None) -> Any: ...
    def _summary(self) -> dict[str, Any]: ...
    def _timeline(self) -> tuple[list[int], list[dict[str, Any]]]: ...
    def _repr_html_(self) -> str: ...

@final
class Law:
    @property
    def key(self) -> dict[str, Any]: ...
    @property
    def variables(self) -> list[dict[str, Any]]: ...
    @property
    def trained_on(self) -> list[dict[str, Any]]: ...
    @property
    def internal(self) -> bool: ...
    def predict(self, shape: Sequence[int]) -> Prediction: ...
    def _curve(self) -> dict[str, Any]: ...
    def plot(self, *, ax: Any = None) -> Any: ...
    def _repr_html_(self) -> str: ...

@final
class Model:
    @staticmethod
    def load(path: _Path) -> Model: ...
    def save(self, path: _Path) -> None: ...
    def merge(self, other: Model) -> Model: ...
    def operators(self) -> list[str]: ...
    def laws(self) -> list[Law]: ...
    @property
    def notes(self) -> list[str]: ...
    @property
    def sources(self) -> list[dict[str, Any]]: ...
    def predict(
        self,
        operator: str,
        shape: Sequence[int],
        dtype: str | None = None,
        *,
        any_version: bool = False,
        **params: _Scalar,
    ) -> Prediction: ...
    def observe(
        self,
        operator: str,
        span: dict[str, Any] | Sequence[int],
        bytes: int | None = None,
        seconds: float | None = None,
        dtype: str | None = None,
        *,
        any_version: bool = False,
        **params: _Scalar,
    ) -> dict[str, Any]: ...
    def follow(
        self,
        operator: str,
        shape: Sequence[int],
        dtype: str | None = None,
        *,
        any_version: bool = False,
        **params: _Scalar,
    ) -> Follower: ...
    def recommend(
        self,
        operator: str,
        shape: Sequence[int],
        memory_limit: int | str,
        workers: int | str,
        threads_per_worker: int = 1,
        halo: int | Sequence[int] | None = None,
        whole_axes: Sequence[int] = ...,
        dtype: str | None = None,
        budget_fraction: float | None = None,
        baseline_bytes: int | None = None,
        any_version: bool = False,
        *,
        warmed: bool = False,
        extra_bytes: Callable[[Sequence[Sequence[int]], int, int], int] | None = None,
        minimise: str = "time",
        source: str = "dask",
        storage_chunks: Sequence[int] | None = None,
        aligned: bool = False,
        compare: str | Sequence[int] | None = None,
        device_memory_limit: int | str | None = None,
        slow_memory: int | str | None = None,
        machine: _Path | None = None,
        **params: _Scalar,
    ) -> Plan: ...
    def longest(
        self,
        operator: str,
        shape: Sequence[int],
        axis: int,
        memory_limit: int | str,
        device_memory_limit: int | str | None = None,
        multiple: int = 1,
        dtype: str | None = None,
        baseline_bytes: int | None = None,
        any_version: bool = False,
        **params: _Scalar,
    ) -> dict[str, Any]: ...
    def plan_graph(
        self,
        graph: str,
        *,
        memory_limit: int | str | None = None,
        workers: int | str | None = None,
        threads: int = 1,
        executor: str | None = None,
        baseline_bytes: int | None = None,
        budget_fraction: float | None = None,
        any_version: bool = False,
    ) -> Plan | Forecast: ...
    def plot(
        self,
        operator: str | None = None,
        dtype: str | None = None,
        *,
        ax: Any = None,
        **params: _Scalar,
    ) -> Any: ...
    def _repr_html_(self) -> str: ...

def fit(traces: _Path | Trace | Sequence[_Path | Trace]) -> Model: ...
def trace_directories(traces: _Path | Trace | Sequence[_Path | Trace]) -> list[Path]: ...
def read_profiles(directories: Sequence[tuple[_Path, str | None]]) -> bytes: ...
def fit_profiles(parts: Sequence[bytes]) -> Model: ...
def fit_table(
    shapes: Sequence[Sequence[int]],
    bytes: Sequence[int],
    dtype: str = "<f4",
    operator: str = "operator",
) -> Model: ...
def fit_dry_runs(
    operator: str,
    runs: Sequence[tuple[Sequence[int], Sequence[int], Sequence[int], int]],
) -> Model: ...
def bound_source(
    source: str,
    shapes: Sequence[Sequence[int]],
    dtypes: Sequence[str],
    layout: str = "C",
    params: dict[str, Any] | None = None,
    library: str | None = None,
) -> dict[str, Any]: ...

@final
class Follower:
    def allocated(self, bytes: int) -> None: ...
    def released(self, bytes: int) -> None: ...
    def forecast(self) -> dict[str, Any]: ...

@final
class ChunkChooser:
    def __new__(
        cls,
        shape: Sequence[int],
        budget: int | str,
        workers: int = 1,
        threads_per_worker: int = 1,
        halo: int | Sequence[int] | None = None,
        whole_axes: Sequence[int] = ...,
        chunks: Sequence[Sequence[int]] | None = None,
        seed: int = 0,
    ) -> ChunkChooser: ...
    def choose(self) -> tuple[int, ...]: ...
    def best(self) -> tuple[int, ...]: ...
    def observe(self, chunk: Sequence[int], bytes: int, seconds: float) -> None: ...
    def failed(self, chunk: Sequence[int]) -> None: ...
    def belief(self, chunk: Sequence[int]) -> dict[str, Any]: ...
