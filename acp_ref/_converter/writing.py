"""Writing: values of :mod:`acp_ref.schema` to JSON, strictly.

https://agentclientprotocol.com/protocol/schema

What a type does not allow is not written. The hooks raise a :class:`Fault` that does not know where it is;
:meth:`Writer.faults` goes through the value again to tell.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Sequence
from types import NoneType
from typing import Annotated, Final, NewType, Protocol, TypeAlias, cast, get_args, get_origin

import attrs
from cattrs import Converter
from cattrs.gen import (
    make_dict_unstructure_fn_from_attrs,  # pyright: ignore[reportUnknownVariableType]  # it names a bare Attribute
    override,
)

from acp_ref import schema
from acp_ref._converter import scalars, wire
from acp_ref._converter.wire import Fault, expected
from acp_ref.schema._base import TAG

Write: TypeAlias = Callable[[object], object]
"""A hook of cattrs that makes JSON."""


class _MakeWrite(Protocol):
    """``make_dict_unstructure_fn_from_attrs``, whose own annotation does not let a dict of overrides through."""

    def __call__(
        self, attributes: Sequence[object], cl: type, converter: Converter, /, **overrides: object
    ) -> Callable[[object], dict[str, object]]: ...


_TAG_ATTRIBUTE: Final = attrs.fields(attrs.make_class("_Tagged", [TAG])).TAG
"""Makes the class variable ``TAG`` look like a field to cattrs."""


class Writer:
    """What writes each type, built when the type is first met."""

    def __init__(self) -> None:
        self._converter = Converter()
        self._hooks: dict[object, Write] = {}

    def hook(self, t: object) -> Write:
        """What writes a ``t``."""
        if t not in self._hooks:
            self._hooks[t] = self._make(t)
        return self._hooks[t]

    def _make(self, t: object) -> Write:
        if t in scalars.WRITE:
            return scalars.WRITE[t]
        if isinstance(t, NewType):
            return self.hook(t.__supertype__)
        if get_origin(t) is Annotated:
            base, *limits = get_args(t)
            return scalars.limited(scalars.WRITE[getattr(base, "__supertype__", base)], limits)
        if get_origin(t) is list:
            return self._list(get_args(t)[0])
        if get_origin(t) is dict:
            return self._dict(get_args(t)[1])
        if t == schema.SessionConfigSelectOptions:
            return self._select_options()
        if wire.members(t):
            return self._union(t)
        if isinstance(t, type) and issubclass(t, enum.Enum):
            return scalars.write_enum(t)
        if isinstance(t, type):
            return self._object(t, tagged=False)
        raise TypeError(f"{t!r} has no JSON form")

    def _list(self, item: object) -> Write:
        one = self.hook(item)

        def write(value: object) -> object:
            if not isinstance(value, list):
                expected("array", value)
            return [one(x) for x in cast("list[object]", value)]

        return write

    def _dict(self, item: object) -> Write:
        one = self.hook(item)

        def write(value: object) -> object:
            if not isinstance(value, dict):
                expected("object", value)
            return {scalars.text(key): one(member) for key, member in cast("dict[object, object]", value).items()}

        return write

    def _select_options(self) -> Write:
        flat, grouped = self._list(schema.SessionConfigSelectOption), self._list(schema.SessionConfigSelectGroup)

        def write(value: list[object]) -> object:
            first = value[0] if type(value) is list and value else None
            return grouped(value) if isinstance(first, schema.SessionConfigSelectGroup) else flat(value)

        return cast("Write", write)

    def _union(self, t: object) -> Write:
        members = wire.members(t)
        if NoneType in members:
            plain = self.hook(wire.without(t, NoneType))
            return lambda value: None if value is None else plain(value)
        if str in members and len(members) == 2:
            return scalars.write_enum(cast("type[enum.Enum]", wire.without(t, str)))
        wire.variants(t)  # which says when t is none that can be read back
        met: dict[type, Write] = {}

        def choose(cl: type) -> Write:
            known = next((base for base in cl.__mro__ if base in members), None)
            if known is None:
                names = " or ".join(getattr(member, "__name__", "") for member in members)
                raise Fault(f"expected {names}, got {cl.__name__}")
            met[cl] = _raw if known is schema.Unknown else self._object(known, tagged=True)
            return met[cl]

        def write(value: object) -> object:
            try:
                variant = met[type(value)]
            except KeyError:
                variant = choose(type(value))
            return variant(value)

        return write

    def _object(self, cl: type, *, tagged: bool) -> Write:
        fields = wire.fields(cl)
        attributes: list[object] = [*attrs.fields(cl)]  # EXT-04: there is no other way to get a key into an object
        overrides = {
            f.name: override(rename=f.wire, unstruct_hook=self._field(f), omit_if_default=f.omitted) for f in fields
        }
        tag = getattr(cl, TAG, None)
        if tagged and tag is not None:
            attributes.insert(0, _TAG_ATTRIBUTE)
            overrides[TAG] = override(rename=tag[0], unstruct_hook=operator.itemgetter(1))
        inner = cast("_MakeWrite", make_dict_unstructure_fn_from_attrs)(attributes, cl, self._converter, **overrides)
        if not any(f.wire == wire.WHOLE for f in fields):
            return inner

        def write(value: object) -> object:
            members = inner(value)
            flattened = cast("dict[str, object]", members.pop(wire.WHOLE))
            return {**members, **flattened}

        return write

    def _field(self, f: wire.Field) -> Write:
        # A field whose default is None is left out when it is None, so its hook never meets None.
        return self.hook(wire.without(f.type, NoneType) if f.default is None else f.type)

    def faults(self, t: object, value: object, path: str = "$") -> list[str]:
        """What is wrong with ``value`` and where."""
        try:
            self.hook(t)(value)
        except Exception as exc:
            cl = wire.without(t, NoneType)
            if isinstance(cl, type) and attrs.has(cl) and not isinstance(value, cl):
                return [f"{path}: expected {cl.__name__}, got {type(value).__name__}"]
            parts = wire.parts(t, value)
            inner = [fault for key, u, x in parts for fault in self.faults(u, x, wire.join(path, key))]
            return inner or [f"{at}: {reason}" for _, at, reason in wire.faults(exc, path)]
        return []


def _raw(value: object) -> object:
    return scalars.json_object(cast("schema.Unknown", value).raw)
