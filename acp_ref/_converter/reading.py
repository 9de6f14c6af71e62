"""Reading: JSON to the values that :mod:`acp_ref.schema` has classes for.

https://agentclientprotocol.com/protocol/schema

There is a fast way and a slow one, and both follow the same marks. The fast one makes the value; it stops at the first
fault, and of what it mends it only remembers that there was something. The slow one runs when there is something to
tell: it raises all faults at once, the mended ones among them, and :func:`~acp_ref._converter.wire.faults` gives them
their paths.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from types import NoneType
from typing import Annotated, NewType, Protocol, TypeAlias, cast, get_args, get_origin

from cattrs import Converter, IterableValidationNote
from cattrs.gen import make_dict_structure_fn, override

from acp_ref import schema
from acp_ref._converter import scalars, wire
from acp_ref._converter.wire import expected
from acp_ref._jsonrpc import JSONObject
from acp_ref.schema._base import Mark

Read: TypeAlias = Callable[[object, object], object]
"""A hook of cattrs: makes a value from the first argument; the second one, the type, is not used.

A hook that says to take an object or a list checks that it got one, but for those of :meth:`Reader.variant`.
"""


class _MakeRead(Protocol):
    """``make_dict_structure_fn``, whose own annotation does not let a dict of overrides through."""

    def __call__(self, cl: type, converter: Converter, /, **overrides: object) -> Read: ...


class Reader:
    """What reads each type, built when the type is first met. With ``report`` it is the slow way."""

    salvaged: bool
    """Set when the fast way mended something."""

    def __init__(self, *, report: bool) -> None:
        self.salvaged = False
        self._report = report
        self._converter = Converter(detailed_validation=report)
        self._hooks: dict[object, Read] = {}
        self._variants: dict[type, Read] = {}

    def hook(self, t: object) -> Read:
        """What reads a ``t``."""
        if t not in self._hooks:
            self._hooks[t] = self._make(t)
        return self._hooks[t]

    def _make(self, t: object) -> Read:
        if t in scalars.READ:
            return scalars.READ[t]
        if isinstance(t, NewType):
            return self.hook(t.__supertype__)
        if get_origin(t) is Annotated:
            base, *limits = get_args(t)
            return scalars.limited(scalars.READ[getattr(base, "__supertype__", base)], limits)
        if get_origin(t) is list:
            return self._list(get_args(t)[0])
        if get_origin(t) is dict:
            return self._dict(get_args(t)[1])
        if t == schema.SessionConfigSelectOptions:
            return self._select_options()
        if wire.members(t):
            return self._union(t)
        if isinstance(t, type) and issubclass(t, enum.Enum):
            return scalars.read_enum(t, closed=True)
        if isinstance(t, type):
            return _object(self.variant(t))
        raise TypeError(f"{t!r} has no JSON form")

    # -- collections

    def _list(self, item: object, *, sift: bool = False) -> Read:
        one = self.hook(item)

        def read(value: list[object], _: object) -> object:
            if type(value) is not list:  # or "abc" would be three strings
                expected("array", value)
            try:
                return [one(x, None) for x in value]
            except Exception:
                if not (sift or self._report):
                    raise
            return self._each(value, one, sift)

        return cast("Read", read)

    def _each(self, values: list[object], one: Read, sift: bool) -> list[object]:
        good: list[object] = []
        bad: list[Exception] = []
        for index, value in enumerate(values):
            try:
                good.append(one(value, None))
            except Exception as exc:
                if self._report:
                    bad.append(_at(index, _mend(exc) if sift else exc))
                    if len(bad) == wire.MAX_FAULTS:
                        break
        if self._report:
            raise ExceptionGroup("", bad)
        self.salvaged = True
        return good

    def _dict(self, item: object) -> Read:
        one = self.hook(item)

        def read(value: dict[str, object], _: object) -> object:
            if type(value) is not dict:
                expected("object", value)
            good: dict[str, object] = {}
            bad: list[Exception] = []
            for key, member in value.items():
                try:
                    good[key] = one(member, None)
                except Exception as exc:
                    bad.append(_at(key, exc))
                    if len(bad) == wire.MAX_FAULTS:
                        break
            if bad:
                raise ExceptionGroup("", bad)
            return good

        return cast("Read", read)

    # -- classes

    def variant(self, cl: type) -> Read:
        """What reads a ``cl`` from what is known to be an object."""
        if cl not in self._variants:
            self._variants[cl] = self._make_variant(cl)
        return self._variants[cl]

    def _make_variant(self, cl: type) -> Read:
        fields = wire.fields(cl)
        overrides = {f.name: override(rename=f.wire, struct_hook=self._field(f)) for f in fields}
        inner = cast("_MakeRead", make_dict_structure_fn)(cl, self._converter, **overrides)
        older = [(f.also_read, f.wire) for f in fields if f.also_read is not None]
        flattened = any(f.wire == wire.WHOLE for f in fields)
        if not older and not flattened:
            return inner

        def read(value: dict[str, object], t: object) -> object:
            members = {**value}
            for old, name in older:
                if name not in members and old in members:
                    members[name] = members[old]
            if flattened:
                members[wire.WHOLE] = value
            return inner(members, t)

        return cast("Read", read)

    def _field(self, f: wire.Field) -> Read:
        if Mark.SKIP_INVALID_ITEMS in f.marks:
            array = self._list(get_args(wire.without(f.type, NoneType))[0], sift=True)
            plain = _optional(array) if f.nullable else array
        else:
            plain = self.hook(f.type)
        lenient = Mark.DEFAULT_ON_ERROR in f.marks
        # Null reads as absent, except where the key is required and only errors are forgiven: there it is an error.
        null_is_absent = not f.nullable and (Mark.DEFAULT_ON_NULL in f.marks or (lenient and not f.required))
        if plain is scalars.as_is or not (lenient or null_is_absent):
            return plain

        def read(value: object, t: object) -> object:
            if value is None and null_is_absent:
                return f.fallback()
            try:
                return plain(value, t)
            except Exception as exc:
                if not lenient:
                    raise
                if self._report:
                    raise _mend(exc) from None
            self.salvaged = True
            return f.fallback()

        return read

    # -- unions

    def _union(self, t: object) -> Read:
        members = wire.members(t)
        if NoneType in members:
            return _optional(self.hook(wire.without(t, NoneType)))
        if str in members and len(members) == 2:
            return scalars.read_enum(cast("type[enum.Enum]", wire.without(t, str)), closed=False)
        variants = wire.variants(t)
        key = variants.key
        met: dict[object, Read] = {}

        def choose(value: dict[str, object]) -> Read:
            cl = variants.choose(value)
            variant = self.variant(cl) if cl is not schema.Unknown else _unknown
            if (tag := value.get(key)) in variants.by_tag:
                met[tag] = variant
            return variant

        def read(value: dict[str, object], _: object) -> object:
            if type(value) is not dict:
                expected("object", value)
            try:
                variant = met[value[key]]
            except (KeyError, TypeError):  # not there, not met before, not a string
                variant = choose(value)
            return variant(value, None)

        return cast("Read", read)

    def _select_options(self) -> Read:
        flat, grouped = self._list(schema.SessionConfigSelectOption), self._list(schema.SessionConfigSelectGroup)

        def read(value: list[object], t: object) -> object:
            first = value[0] if type(value) is list and value else None
            return grouped(value, t) if isinstance(first, dict) and "group" in first else flat(value, t)

        return cast("Read", read)


def _object(variant: Read) -> Read:
    def read(value: dict[str, object], t: object) -> object:
        if type(value) is not dict:  # or [] would be an object without members
            expected("object", value)
        return variant(value, t)

    return cast("Read", read)


def _optional(plain: Read) -> Read:
    return lambda value, t: None if value is None else plain(value, t)


def _unknown(value: object, _: object) -> object:
    return schema.Unknown(raw=cast("JSONObject", value))


def _at(index: str | int, exc: Exception) -> Exception:
    exc.add_note(IterableValidationNote("", index, None))
    return exc


def _mend(exc: Exception) -> Exception:
    """``exc`` as a mended fault; as it is when all its faults are mended already, for then the value is good."""
    return exc if all(mended for mended, _, _ in wire.faults(exc)) else wire.Mended(exc)
