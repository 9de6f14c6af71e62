"""``frozen``: how every class of the protocol is made.

To a type checker it is ``attrs.frozen``: assigning to a field is an error. At run time nothing stands guard over the
fields, for the guard would cost as much again as making the object does, on every message that is read. And what all
classes share, their ``repr``, equality and hash, is made once here instead of being compiled for each of them, which
is most of the time it takes to import them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import attrs

__all__ = ["frozen"]

T = TypeVar("T")


def _repr(self: object) -> str:
    """Without the fields that were left at their default, so that a message reads as it does on the wire."""
    fields: tuple[attrs.Attribute[object], ...] = attrs.fields(type(self))  # type: ignore[arg-type]  # an attrs class
    shown = [f"{a.name}={value!r}" for a in fields if (value := getattr(self, a.name)) is not a.default]
    return f"{type(self).__name__}({', '.join(shown)})"


def _values(self: object) -> tuple[object, ...]:
    return tuple(getattr(self, name) for name in type(self).__slots__ if name != "__weakref__")  # type: ignore[attr-defined]  # made with slots


def _eq(self: object, other: object) -> bool:
    return _values(self) == _values(other) if type(self) is type(other) else NotImplemented


def _hash(self: object) -> int:
    return hash((type(self), _values(self)))


if TYPE_CHECKING:
    from attrs import frozen
else:

    def frozen(*, kw_only: bool):
        """``attrs.frozen``; see the module."""

        def make(cls: type[T]) -> type[T]:
            cls.__repr__, cls.__eq__, cls.__hash__ = _repr, _eq, _hash
            return attrs.define(cls, kw_only=kw_only, repr=False, eq=False)

        return make
