"""The one converter between the types of :mod:`acp_ref.schema` and JSON values.

https://agentclientprotocol.com/protocol/schema

Reading has a fast way and a slow one, and both follow the same marks. The fast one makes the value; it stops at the
first fault and of what it mends it only remembers that there was something. The slow one runs when there is something
to tell: it finds all faults and their JSON paths, the mended ones among them. Writing is strict, and looks for the
paths when it has failed.

Hooks are built when a type is first met, so that importing this module and starting a connection stay cheap.

This is the only module with ``Any`` in it: types are values here, which no checker can follow, and cattrs speaks in
``Any``. The functions for others are typed.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Sequence
from types import NoneType
from typing import Annotated, Any, Final, NewType, TypeAlias, TypeVar, cast, get_args, get_origin

import attrs
from cattrs import Converter, IterableValidationNote
from cattrs.gen import (
    make_dict_structure_fn,
    make_dict_unstructure_fn_from_attrs,  # pyright: ignore[reportUnknownVariableType]  # it says a bare Attribute
    override,
)
from typing_extensions import TypeForm

from acp_ref import _scalars, _wire, schema
from acp_ref._jsonrpc import JSON
from acp_ref._wire import Fault, Field, Mended, expected
from acp_ref.schema._base import TAG, Mark

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
Read: TypeAlias = Callable[[Any, Any], Any]
"""Makes a value; cattrs passes the type as second argument."""
Write: TypeAlias = Callable[[Any], Any]
"""Makes JSON."""


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


# ------------------------------------------------------------------------------------------------ reading


class _Reader:
    """Makes values. With ``report``, all faults are raised at once, the mended ones too."""

    def __init__(self, *, report: bool) -> None:
        self.salvaged = False
        self._report = report
        self._converter = Converter(detailed_validation=report)
        self._hooks: dict[Any, Read] = {}
        self._variants: dict[Any, Read] = {}

    def hook(self, t: Any) -> Read:
        if t not in self._hooks:
            self._hooks[t] = self._make(t)
        return self._hooks[t]

    def _make(self, t: Any) -> Read:
        if t in _scalars.READ:
            return _scalars.READ[t]
        if isinstance(t, NewType):
            return self.hook(t.__supertype__)
        if get_origin(t) is Annotated:
            base, *limits = get_args(t)
            return _scalars.limited(_scalars.READ[getattr(base, "__supertype__", base)], limits)
        if get_origin(t) is list:
            return self._list(get_args(t)[0])
        if get_origin(t) is dict:
            return self._dict(get_args(t)[1])
        if t == schema.SessionConfigSelectOptions:
            return self._select_options()
        if _wire.members(t):
            return self._union(t)
        if isinstance(t, type) and issubclass(t, enum.Enum):
            return _scalars.read_enum(t, closed=True)
        return self._object(t)

    # -- collections

    def _list(self, item: Any, *, sift: bool = False) -> Read:
        one = self.hook(item)

        def read(value: Any, _: Any) -> Any:
            if type(value) is not list:  # or "abc" would be three strings
                expected("array", value)
            try:
                return [one(x, item) for x in cast("list[object]", value)]
            except Exception:
                if not (sift or self._report):
                    raise
            return self._each(cast("list[object]", value), one, sift)

        return read

    def _each(self, values: list[object], one: Read, sift: bool) -> list[Any]:
        good: list[Any] = []
        bad: list[Exception] = []
        for index, value in enumerate(values):
            try:
                good.append(one(value, None))
            except Exception as exc:
                bad.append(_at(index, _mend(exc) if sift else exc))
        if self._report:
            raise ExceptionGroup("", bad)
        self.salvaged = True
        return good

    def _dict(self, item: Any) -> Read:
        one = self.hook(item)

        def read(value: Any, _: Any) -> Any:
            if type(value) is not dict:
                expected("object", value)
            good: dict[str, Any] = {}
            bad: list[Exception] = []
            for key, member in cast("dict[str, Any]", value).items():
                try:
                    good[key] = one(member, item)
                except Exception as exc:
                    bad.append(_at(key, exc))
            if bad:
                raise ExceptionGroup("", bad)
            return good

        return read

    # -- classes

    def _object(self, cl: Any) -> Read:
        variant = self.variant(cl)

        def read(value: Any, t: Any) -> Any:
            if type(value) is not dict:  # or [] would be an object without members
                expected("object", value)
            return variant(value, t)

        return read

    def variant(self, cl: Any) -> Read:
        """What reads a ``cl`` from an object."""
        if cl not in self._variants:
            self._variants[cl] = self._make_variant(cl)
        return self._variants[cl]

    def _make_variant(self, cl: Any) -> Read:
        fields = _wire.fields(cl)
        overrides: Any = {f.name: override(rename=f.wire, struct_hook=self._field(f)) for f in fields}
        inner: Read = make_dict_structure_fn(cl, self._converter, _cattrs_use_linecache=False, **overrides)
        older = [(f.also_read, f.wire) for f in fields if f.also_read is not None]
        flattened = any(f.wire == _wire.WHOLE for f in fields)
        if not older and not flattened:
            return inner

        def read(value: Any, t: Any) -> Any:
            members: dict[str, Any] = {**value}
            for old, wire in older:
                if wire not in members and old in members:
                    members[wire] = members[old]
            if flattened:
                members[_wire.WHOLE] = value
            return inner(members, t)

        return read

    def _field(self, f: Field) -> Read:
        if Mark.SKIP_INVALID_ITEMS in f.marks:
            array: Any = _wire.without(f.type, NoneType)
            plain = self._list(get_args(array)[0], sift=True)
            plain = _optional(plain) if f.nullable else plain
        else:
            plain = self.hook(f.type)
        lenient = Mark.DEFAULT_ON_ERROR in f.marks
        # Null reads as absent, except where the key is required and only errors are forgiven: there it is an error.
        null_is_absent = not f.nullable and (Mark.DEFAULT_ON_NULL in f.marks or (lenient and not f.required))
        if plain is _scalars.as_is or not (lenient or null_is_absent):
            return plain

        def read(value: Any, t: Any) -> Any:
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

    def _union(self, t: Any) -> Read:
        members = _wire.members(t)
        if NoneType in members:
            return _optional(self.hook(_wire.without(t, NoneType)))
        if str in members and len(members) == 2:
            return _scalars.read_enum(cast("type[enum.Enum]", _wire.without(t, str)), closed=False)
        variants = _wire.variants(t)
        key = variants.key
        met: dict[str | None, Read] = {}

        def choose(value: Any) -> Read:
            cl = variants.choose(value)
            variant = self.variant(cl) if cl is not schema.Unknown else _unknown
            if (tag := value.get(key)) in variants.by_tag:
                met[tag] = variant
            return variant

        def read(value: Any, t: Any) -> Any:
            if type(value) is not dict:
                expected("object", value)
            try:
                variant = met[value[key]]
            except (KeyError, TypeError):
                variant = choose(value)
            return variant(value, t)

        return read

    def _select_options(self) -> Read:
        flat, grouped = self._list(schema.SessionConfigSelectOption), self._list(schema.SessionConfigSelectGroup)

        def read(value: Any, t: Any) -> Any:
            first = cast("list[object]", value)[0] if isinstance(value, list) and value else None
            return grouped(value, t) if isinstance(first, dict) and "group" in first else flat(value, t)

        return read


def _optional(plain: Read) -> Read:
    return lambda value, t: None if value is None else plain(value, t)


def _unknown(value: Any, _: Any) -> Any:
    return schema.Unknown(raw=value)


def _at(index: str | int, exc: Exception) -> Exception:
    exc.add_note(IterableValidationNote("", index, None))
    return exc


def _mend(exc: Exception) -> Exception:
    """``exc`` as a mended fault; as it is when all its faults are mended already, for then the value is good."""
    return exc if all(mended for mended, _, _ in _wire.faults(exc)) else Mended(exc)


# ------------------------------------------------------------------------------------------------ writing


class _Writer:
    """Makes JSON. Raises a :class:`Fault` without the path to it, which :meth:`faults` finds."""

    def __init__(self) -> None:
        self._converter = Converter()
        self._hooks: dict[Any, Write] = {}
        self._variants: dict[Any, Write] = {}

    def hook(self, t: Any) -> Write:
        if t not in self._hooks:
            self._hooks[t] = self._make(t)
        return self._hooks[t]

    def _make(self, t: Any) -> Write:
        if t in _scalars.WRITE:
            return _scalars.WRITE[t]
        if isinstance(t, NewType):
            return self.hook(t.__supertype__)
        if get_origin(t) is Annotated:
            base, *limits = get_args(t)
            return _scalars.limited(_scalars.WRITE[getattr(base, "__supertype__", base)], limits)
        if get_origin(t) is list:
            return self._list(get_args(t)[0])
        if get_origin(t) is dict:
            return self._dict(get_args(t)[1])
        if t == schema.SessionConfigSelectOptions:
            return self._select_options()
        if _wire.members(t):
            return self._union(t)
        if isinstance(t, type) and issubclass(t, enum.Enum):
            return _scalars.write_enum(t)
        return self._object(t, tagged=False)

    def _list(self, item: Any) -> Write:
        one = self.hook(item)

        def write(value: Any) -> Any:
            if not isinstance(value, list | tuple):
                expected("array", value)
            return [one(x) for x in cast("Sequence[Any]", value)]

        return write

    def _dict(self, item: Any) -> Write:
        one = self.hook(item)
        return lambda value: {_scalars.text(key): one(member) for key, member in value.items()}

    def _select_options(self) -> Write:
        flat, grouped = self._list(schema.SessionConfigSelectOption), self._list(schema.SessionConfigSelectGroup)
        group = schema.SessionConfigSelectGroup
        return lambda value: grouped(value) if value and isinstance(value[0], group) else flat(value)

    def _union(self, t: Any) -> Write:
        members = _wire.members(t)
        if NoneType in members:
            plain = self.hook(_wire.without(t, NoneType))
            return lambda value: None if value is None else plain(value)
        if str in members and len(members) == 2:
            return _scalars.write_enum(cast("type[enum.Enum]", _wire.without(t, str)))
        variants: dict[Any, Write] = {}

        def choose(cl: type) -> Write:
            known = next((base for base in cl.__mro__ if base in members), None)
            if known is None:
                names = " or ".join(getattr(member, "__name__", "") for member in members)
                raise Fault(f"expected {names}, got {cl.__name__}")
            variants[cl] = _raw if known is schema.Unknown else self._object(known, tagged=True)
            return variants[cl]

        def write(value: Any) -> Any:
            try:
                variant = variants[type(value)]
            except KeyError:
                variant = choose(cast("type[object]", type(value)))
            return variant(value)

        return write

    def _object(self, cl: Any, *, tagged: bool) -> Write:
        fields = _wire.fields(cl)
        attributes = list(attrs.fields(cl))
        overrides: Any = {
            f.name: override(rename=f.wire, unstruct_hook=self._field(f), omit_if_default=f.omitted) for f in fields
        }
        tag = getattr(cl, TAG, None)
        if tagged and tag is not None:
            attributes = [_TAG_ATTRIBUTE, *attributes]
            overrides[TAG] = override(rename=tag[0], unstruct_hook=operator.itemgetter(1))
        inner = make_dict_unstructure_fn_from_attrs(
            attributes, cl, self._converter, _cattrs_use_linecache=False, **overrides
        )
        if all(f.wire != _wire.WHOLE for f in fields):
            return inner

        def write(value: Any) -> Any:
            members = inner(value)
            return members | members.pop(_wire.WHOLE)

        return write

    def _field(self, f: Field) -> Write:
        # A field whose default is None is left out when it is None, so its hook never meets None.
        return self.hook(_wire.without(f.type, NoneType) if f.default is None else f.type)

    def faults(self, t: Any, value: Any, path: str = "$") -> list[str]:
        """What is wrong with ``value`` and where."""
        try:
            self.hook(t)(value)
        except Exception as exc:
            inner = [fault for key, u, x in _wire.parts(t, value) for fault in self.faults(u, x, _wire.join(path, key))]
            if isinstance(t, type) and not isinstance(value, t) and attrs.has(t):
                return [f"{path}: expected {t.__name__}, got {type(value).__name__}"]
            return inner or [f"{at}: {reason}" for _, at, reason in _wire.faults(exc, path)]
        return []


_TAG_ATTRIBUTE: Final = attrs.fields(attrs.make_class("_Tagged", [TAG])).TAG


def _raw(value: Any) -> Any:
    return _scalars.json_object(value.raw)


# ------------------------------------------------------------------------------------------------ typed entry points

_fast: Final = _Reader(report=False)
_slow: Final = _Reader(report=True)
_writer: Final = _Writer()
_reads: Final[dict[Any, Callable[[JSON], Any]]] = {}
_writes: Final[dict[Any, Callable[[Any], JSON]]] = {}


def structure_hook(t: TypeForm[T]) -> Callable[[JSON], T]:
    """What reads a ``t``: a class or union of :mod:`acp_ref.schema`, or the alias ``JSON`` or ``JSONObject``.

    It raises :class:`InvalidPayload`, with every fault in it. Where a ``t`` is an object, None is read as ``{}``: that
    is how empty params (D-35) and empty results (D-36) may come.
    """
    if t not in _reads:
        _reads[t] = _make_structure_hook(t)
    return _reads[t]


def _make_structure_hook(t: Any) -> Callable[[JSON], Any]:
    u = _wire.resolved(t)
    none_is_empty = u is not _wire.AnyJSON
    is_class = isinstance(u, type) and attrs.has(u)
    read = _fast.variant(u) if is_class else _fast.hook(u)

    def hook(value: JSON) -> Any:
        if value is None and none_is_empty:
            value = {}
        try:
            if is_class and type(value) is not dict:
                expected("object", value)
            return read(value, u)
        except Exception as exc:
            _fast.salvaged = False
            errors = [f"{path}: {reason}" for mended, path, reason in _faults(u, value) if not mended]
            raise InvalidPayload(errors or [f"$: {exc}"]) from None

    return hook


def _faults(u: Any, value: JSON) -> list[tuple[bool, str, str]]:
    try:
        _slow.hook(u)(value, u)
    except Exception as exc:
        return list(_wire.faults(exc))
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
    return [Salvage(path, reason) for mended, path, reason in _faults(_wire.resolved(t), value) if mended]


def unstructure_hook(t: TypeForm[T]) -> Callable[[T], JSON]:
    """What writes a ``t``; see :func:`structure_hook` for what that can be.

    It raises :class:`InvalidPayload`, with every fault in it, for a value that its type does not allow: an unlisted
    value of a closed enum, an integer out of range, and what JSON cannot say, such as NaN.
    """
    if t not in _writes:
        _writes[t] = _make_unstructure_hook(t)
    return _writes[t]


def _make_unstructure_hook(t: Any) -> Callable[[Any], JSON]:
    u = _wire.resolved(t)
    write = _writer.hook(u)

    def hook(value: Any) -> JSON:
        try:
            return cast("JSON", write(value))
        except Exception:
            raise InvalidPayload(_writer.faults(u, value)) from None

    return hook


def unstructure(t: TypeForm[T], value: T) -> JSON:
    """Write a ``t``; see :func:`unstructure_hook`."""
    return unstructure_hook(t)(value)
