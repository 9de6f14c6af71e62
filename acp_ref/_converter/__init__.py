"""The one converter between the types of :mod:`acp_ref.schema` and JSON values: strict, and driven by their marks.

https://agentclientprotocol.com/protocol/schema

A hook is built when its type is first met, so that importing this package and starting a connection stay cheap. Types
are values here, which no checker can follow: the two casts below are where the types of the outside come back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar, cast

import attrs
from typing_extensions import TypeForm

from acp_ref._converter import wire
from acp_ref._converter.reading import Reader
from acp_ref._converter.wire import expected
from acp_ref._converter.writing import Writer
from acp_ref._jsonrpc import JSON

__all__ = [
    "InvalidPayload",
    "Salvage",
    "salvages",
    "structure",
    "structure_hook",
    "take_salvaged",
    "unstructure",
    "unstructure_hook",
]

T = TypeVar("T")

_fast: Final = Reader(report=False)
_slow: Final = Reader(report=True)
_writer: Final = Writer()
_structure_hooks: Final[dict[object, object]] = {}
_unstructure_hooks: Final[dict[object, object]] = {}


class InvalidPayload(ValueError):
    """A value that does not have the shape its type asks for; ``errors`` says where (a JSON path) and what."""

    errors: list[str]

    def __init__(self, errors: list[str]) -> None:
        super().__init__("; ".join(errors))
        self.errors = errors


@attrs.frozen
class Salvage:
    """A fault that the schema's marks told the reader to mend."""

    path: str
    """Where it was, a JSON path such as ``$.availableCommands[2].name``."""
    reason: str
    """What was wrong."""


def structure_hook(t: TypeForm[T]) -> Callable[[JSON], T]:
    """What reads a ``t``: a class or union of :mod:`acp_ref.schema`, or the alias ``JSON`` or ``JSONObject``.

    It raises :class:`InvalidPayload`, with every fault in it, or the first ones of many. Where a ``t`` is an object,
    None is read as ``{}``: so may empty params (D-35) and empty results (D-36, SETUP-14, FS-07) come.
    """
    hook = _structure_hooks.get(t)
    if hook is None:
        hook = _structure_hooks[t] = _make_structure_hook(t)
    return cast("Callable[[JSON], T]", hook)


def _make_structure_hook(t: object) -> Callable[[JSON], object]:
    u = wire.resolved(t)
    any_json, is_class = u is wire.AnyJSON, isinstance(u, type) and attrs.has(u)
    read = _fast.variant(u) if isinstance(u, type) and is_class else _fast.hook(u)

    def hook(value: JSON) -> object:
        if value is None and not any_json:
            value = {}
        try:
            if is_class and type(value) is not dict:
                expected("object", value)
            return read(value, None)
        except Exception as exc:
            _fast.salvaged = False
            errors = [f"{path}: {reason}" for mended, path, reason in _faults(u, value) if not mended]
            raise InvalidPayload(errors or [f"$: {exc}"]) from None

    return hook


def _faults(u: object, value: JSON) -> list[tuple[bool, str, str]]:
    try:
        _slow.hook(u)(value, None)
    except Exception as exc:
        return list(wire.faults(exc))
    return []


def structure(t: TypeForm[T], value: JSON) -> T:
    """Read a ``t``; see :func:`structure_hook`."""
    return structure_hook(t)(value)


def take_salvaged() -> bool:
    """Whether anything was mended since this was last asked. Only a hint: it may be set though nothing was."""
    salvaged, _fast.salvaged = _fast.salvaged, False
    return salvaged


def salvages(t: TypeForm[T], value: JSON) -> list[Salvage]:
    """What is mended when ``value`` is read as a ``t``. Slow: ask only when :func:`take_salvaged` says so."""
    return [Salvage(path, reason) for mended, path, reason in _faults(wire.resolved(t), value) if mended]


def unstructure_hook(t: TypeForm[T]) -> Callable[[T], JSON]:
    """What writes a ``t``; see :func:`structure_hook` for what that can be.

    It raises :class:`InvalidPayload`, with every fault in it, for a value that its type does not allow: an unlisted
    value of a closed enum, an integer out of range, and what JSON cannot say, such as NaN.
    """
    hook = _unstructure_hooks.get(t)
    if hook is None:
        hook = _unstructure_hooks[t] = _make_unstructure_hook(t)
    return cast("Callable[[T], JSON]", hook)


def _make_unstructure_hook(t: object) -> Callable[[object], object]:
    u = wire.resolved(t)
    write = _writer.hook(u)

    def hook(value: object) -> object:
        try:
            return write(value)
        except Exception:
            raise InvalidPayload(_writer.faults(u, value)) from None

    return hook


def unstructure(t: TypeForm[T], value: T) -> JSON:
    """Write a ``t``; see :func:`unstructure_hook`."""
    return unstructure_hook(t)(value)
