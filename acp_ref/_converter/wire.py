"""How the types of :mod:`acp_ref.schema` look on the wire: their fields, marks and tags, and the JSON path of a fault.

https://agentclientprotocol.com/protocol/schema

The annotations of a class are resolved when the class is first met, never on import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from types import NoneType, UnionType
from typing import Annotated, Final, NoReturn, Protocol, TypeAlias, Union, cast, get_args, get_origin, runtime_checkable

import attrs
from cattrs import AttributeValidationNote, ClassValidationError, IterableValidationNote

from acp_ref import schema
from acp_ref._jsonrpc import JSON, JSONObject
from acp_ref.schema._base import TAG, UNTAGGED, AlsoRead, Bounds, Mark, MinLength, Untagged, Wire

# ------------------------------------------------------------------------------------------------ faults


class Fault(Exception):
    """What is wrong with a value; ``keys`` lead from there to the member that it is about."""

    def __init__(self, reason: str, *keys: str | int) -> None:
        super().__init__(reason)
        self.keys = keys


class Mended(Exception):
    """Around a fault that a mark mends."""

    def __init__(self, fault: Exception) -> None:
        super().__init__()
        self.fault = fault


def expected(what: str, value: object) -> NoReturn:
    """Raise the fault that ``value`` is not ``what``."""
    raise Fault(f"expected {what}, got {kind(value)}")


def kind(value: object) -> str:
    """What ``value`` is, in JSON's terms."""
    return _KINDS.get(type(value), type(value).__name__)


_KINDS: Final[Mapping[type, str]] = {
    dict: "object",
    list: "array",
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    NoneType: "null",
}

MAX_FAULTS: Final = 20
"""The most faults that are told of one list or object: enough to see what is wrong, and little work for a million."""

WHOLE: Final = ""
"""The wire name of a flattened field: the object that it lies in."""


def join(path: str, key: str | int) -> str:
    """The JSON path of the member ``key`` of what is at ``path``."""
    if key == WHOLE:
        return path
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{key}" if key.isidentifier() else f"{path}[{key!r}]"


def faults(exc: Exception, path: str = "$", *, mended: bool = False) -> Iterator[tuple[bool, str, str]]:
    """Every fault in ``exc``: whether it is mended, its path, and what it is."""
    if isinstance(exc, Mended):
        yield from faults(exc.fault, path, mended=True)
    elif isinstance(exc, ClassValidationError):
        for inner in exc.exceptions:
            yield from _noted_faults(inner, exc.cl, path, mended=mended)
    elif isinstance(exc, ExceptionGroup):
        for inner in cast("ExceptionGroup[Exception]", exc).exceptions:
            yield from _noted_faults(inner, object, path, mended=mended)
    else:
        keys = exc.keys if isinstance(exc, Fault) else ()
        reason = "nested too deeply" if isinstance(exc, RecursionError) else str(exc)
        yield mended, reduce(join, keys, path), reason


def _noted_faults(exc: Exception, cl: type, path: str, *, mended: bool) -> Iterator[tuple[bool, str, str]]:
    for note in getattr(exc, "__notes__", ()):
        if isinstance(note, IterableValidationNote):
            path = join(path, note.index)
        elif isinstance(note, AttributeValidationNote):
            path = join(path, next(f.wire for f in fields(cl) if f.name == note.name))
    if isinstance(exc, KeyError):  # nothing but the generated code raises it, for a key that is not there
        yield mended, path, "required"
    else:
        yield from faults(exc, path, mended=mended)


# ------------------------------------------------------------------------------------------------ types


class AnyJSON:
    """Stands for the alias ``JSON``, which is recursive and so no type at run time."""


class AnyObject:
    """Stands for the alias ``JSONObject``."""


_STAND_INS: Final = {"JSON": AnyJSON, "JSONObject": AnyObject, "UnsetType": schema.UnsetType}


def resolved(t: object) -> object:
    """``t``, or what stands for it."""
    return AnyJSON if t == JSON else AnyObject if t == JSONObject else t


def members(t: object) -> tuple[object, ...]:
    """The members of the union that ``t`` is, if it is one."""
    return get_args(t) if get_origin(t) in (Union, UnionType) else ()


def without(t: object, *unwanted: object) -> object:
    """``t`` without some members of the union that it is."""
    rest = tuple(m for m in members(t) if m not in unwanted)
    return Union[rest] if rest else t  # noqa: UP007  # made at run time


# ------------------------------------------------------------------------------------------------ classes


@attrs.frozen
class Field:
    """A field of a class, and all that its annotation says."""

    name: str
    wire: str
    type: object
    """Without marks and without UNSET."""
    marks: frozenset[Mark]
    default: object
    """A value, a ``Factory`` or ``NOTHING``."""
    also_read: str | None

    @property
    def required(self) -> bool:
        """Whether the key must be there."""
        return self.default is attrs.NOTHING

    @property
    def nullable(self) -> bool:
        """Whether null is a value of its own."""
        return NoneType in members(self.type)

    @property
    def omitted(self) -> bool:
        """Whether the default is not written."""
        return self.default is None or self.default is schema.UNSET or Mark.OMIT_EMPTY in self.marks

    def fallback(self) -> object:
        """What is read instead of what is malformed or null; a list, where there is no default, becomes empty."""
        if isinstance(self.default, _Factory):
            return self.default.factory()
        return [] if self.required else self.default


@runtime_checkable
class _Factory(Protocol):
    """What ``attrs.Factory`` makes, which attrs types as a function."""

    factory: Callable[[], object]
    takes_self: bool


_FIELDS: Final[dict[type, tuple[Field, ...]]] = {}


def fields(cl: type) -> tuple[Field, ...]:
    """The fields of an attrs class."""
    if cl not in _FIELDS:
        if not attrs.has(cl):
            raise TypeError(f"{cl!r} has no JSON form")
        attrs.resolve_types(cl, localns=_STAND_INS)
        _FIELDS[cl] = tuple(_field(a.name, a.type, a.default) for a in attrs.fields(cl))
    return _FIELDS[cl]


def _field(name: str, t: object, default: object) -> Field:
    marks: tuple[object, ...] = ()
    if get_origin(t) is Annotated:
        t, *rest = get_args(t)
        marks = tuple(rest)
        if limits := tuple(m for m in marks if isinstance(m, Bounds | MinLength)):
            t = Annotated[(t, *limits)]
    head, *tail = name.split("_")
    wire = head + "".join(map(str.capitalize, tail))  # GEN-11; the annotation says what is spelt otherwise
    also_read = None
    for mark in marks:
        if isinstance(mark, Wire):
            wire = mark.name
        elif isinstance(mark, AlsoRead):
            also_read = mark.name
        elif mark is Mark.FLATTENED:
            wire = WHOLE
    t = without(t, schema.UnsetType)
    return Field(name, wire, t, frozenset(m for m in marks if isinstance(m, Mark)), default, also_read)


def parts(t: object, value: object) -> list[tuple[str | int, object, object]]:
    """The key, the type and the value of each part of ``value``, which is a ``t``."""
    cl: type = type(value)
    if cl is schema.Unknown:
        return []
    if attrs.has(cl):
        pairs = [(f, getattr(value, f.name)) for f in fields(cl)]
        return [(f.wire, f.type, x) for f, x in pairs if not (f.omitted and x == f.fallback())]
    of = next((u for u in (t, *members(t)) if get_origin(u) in (list, dict)), None)
    if of is not None and isinstance(value, list):
        return [(i, get_args(of)[-1], x) for i, x in enumerate(cast("list[object]", value))]
    if of is not None and isinstance(value, dict):
        return [(key, get_args(of)[-1], x) for key, x in cast("dict[str, object]", value).items()]
    return []


# ------------------------------------------------------------------------------------------------ unions

Shape: TypeAlias = Callable[[dict[str, object]], type]
"""Tells the variant of an object by its keys, or raises :class:`Fault`."""


@attrs.frozen
class Variants:
    """How the variants of a union are told from each other: by a tag, or by their shape."""

    key: str = ""
    """Where the tag is."""
    by_tag: Mapping[str | None, type] = attrs.field(factory=dict[str | None, type])
    """The variant of each tag; of None, the variant without one."""
    otherwise: type | None = None
    """The variant of all other tags."""
    shape: Shape | None = None

    def choose(self, value: dict[str, object]) -> type:
        """The variant that ``value`` is."""
        if self.shape is not None:
            return self.shape(value)
        tag = value.get(self.key)
        if tag is not None and not isinstance(tag, str):
            raise Fault(f"expected string, got {kind(tag)}", self.key)
        cl = self.by_tag.get(tag)
        if cl is None and tag is not None:
            cl = self.otherwise
        if cl is None:
            raise Fault("required" if tag is None else f"unknown {self.key} {tag!r}", self.key)  # D-18
        return cl


def _resource(value: dict[str, object]) -> type:
    has_text, has_blob = value.get("text") is not None, value.get("blob") is not None
    if has_text is has_blob:  # CONTENT-07
        raise Fault(f"expected text or blob, got {'both' if has_text else 'neither'}")
    return schema.TextResourceContents if has_text else schema.BlobResourceContents


def _scope(value: dict[str, object]) -> type:
    has_session, has_request = value.get("sessionId") is not None, value.get("requestId") is not None
    if has_session and has_request:  # D-43
        raise Fault("expected sessionId or requestId, got both")
    if not has_session and "requestId" not in value:  # D-43; null is a request id
        raise Fault("expected sessionId or requestId, got neither")
    return schema.ElicitationSessionScope if has_session else schema.ElicitationRequestScope


_SHAPES: Final[Mapping[object, Shape]] = {
    schema.EmbeddedResourceResource: _resource,
    schema.ElicitationScope: _scope,
}


def variants(t: object) -> Variants:
    """How the variants of the union ``t`` are told from each other."""
    if t in _SHAPES:
        return Variants(shape=_SHAPES[t])
    key = ""
    by_tag: dict[str | None, type] = {}
    otherwise: type | None = None
    for cl in members(t):
        tag, untagged = getattr(cl, TAG, None), getattr(cl, UNTAGGED, None)
        if not isinstance(cl, type) or not (cl is schema.Unknown or tag or untagged):
            raise TypeError(f"{t!r} has no JSON form: {cl!r} has no {TAG}")
        if tag is not None:
            key, value = tag
            by_tag[value] = cl
        elif isinstance(untagged, Untagged):
            key = untagged.key
            by_tag[None] = cl
            if untagged.reads is not None:
                by_tag[untagged.reads] = cl
            if untagged.reads_any:
                otherwise = cl
        else:
            otherwise = cl
    return Variants(key, by_tag, otherwise)
