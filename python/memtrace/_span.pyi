from typing import Any, Callable, Sequence, TypeVar, overload

_Function = TypeVar("_Function", bound=Callable[..., Any])

@overload
def operator(function: _Function) -> _Function: ...
@overload
def operator(
    *,
    name: str | None = None,
    params: str | Sequence[str] | None = None,
    shape_of: str | Sequence[str] | None = None,
) -> Callable[[_Function], _Function]: ...

class _Running:
    def __enter__(self) -> _Running: ...
    def __exit__(self, *error: object) -> None: ...
    def outputs(self, *arrays: object) -> None: ...

def span(name: str, *inputs: object, **params: object) -> _Running: ...
