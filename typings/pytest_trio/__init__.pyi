from collections.abc import Callable
from typing import TypeVar

_F = TypeVar("_F", bound=Callable[..., object])

def trio_fixture(fn: _F) -> _F: ...
