"""Values of every type of the schema, made from the annotations and marks of the types, and every place where one of
them can be wrong."""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterator
from types import NoneType
from typing import Annotated, Final, NewType, get_args, get_origin

import attrs
from hypothesis import strategies as st

from acp_ref import schema
from acp_ref._converter import wire
from acp_ref._jsonrpc import JSON, RequestId
from acp_ref.schema._base import Bounds, Mark, MinLength

__all__ = ["Place", "places", "values"]

TEXT: Final = st.one_of(st.text(max_size=8), st.sampled_from(["", "\u2028", "😀", '"\\/\n', "0"]))
INTEGERS: Final = st.one_of(st.integers(-5, 5), st.sampled_from([2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1]))
FLOATS: Final = st.floats(allow_nan=False, allow_infinity=False)
ANY: Final[st.SearchStrategy[JSON]] = st.recursive(
    st.one_of(st.none(), st.booleans(), INTEGERS, FLOATS, TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=6,
)
OBJECTS: Final = st.dictionaries(TEXT, ANY, max_size=3)
PLAIN: Final[dict[object, st.SearchStrategy[object]]] = {
    str: TEXT,
    bool: st.booleans(),
    int: INTEGERS,
    float: FLOATS,
    wire.AnyJSON: ANY,
    wire.AnyObject: OBJECTS,
    RequestId: st.one_of(st.none(), TEXT, st.integers(-(2**63), 2**63 - 1)),
    schema.ElicitationContentValue: st.one_of(TEXT, INTEGERS, FLOATS, st.booleans(), st.lists(TEXT, max_size=3)),
}


_made: dict[object, st.SearchStrategy[object]] = {}


def values(t: object) -> st.SearchStrategy[object]:
    """Values of the type ``t``: all its variants, those not known yet among them, with any of the optional fields."""
    if t not in _made:
        _made[t] = _values(wire.resolved(t))
    return _made[t]


def _values(t: object) -> st.SearchStrategy[object]:
    if t in PLAIN:
        return PLAIN[t]
    if isinstance(t, NewType):
        return values(t.__supertype__)
    if get_origin(t) is Annotated:
        return _limited(*get_args(t))
    if get_origin(t) is list:
        return st.lists(values(get_args(t)[0]), max_size=3)
    if get_origin(t) is dict:
        return st.dictionaries(TEXT, values(get_args(t)[1]), max_size=3)
    if members := wire.members(t):
        return _union(t, members)
    assert isinstance(t, type)
    if issubclass(t, enum.Enum):
        return st.sampled_from([*t])
    fields = wire.fields(t)
    return st.fixed_dictionaries(
        {f.name: values(f.type) for f in fields if f.required},
        optional={f.name: values(f.type) for f in fields if not f.required},
    ).map(lambda members: t(**members))


def _limited(base: object, *limits: object) -> st.SearchStrategy[object]:
    for limit in limits:
        if isinstance(limit, Bounds):
            return st.one_of(st.integers(limit.low, limit.high), st.sampled_from([limit.low, limit.high]))
        if isinstance(limit, MinLength):
            return st.text(min_size=limit.characters, max_size=8)
    return values(base)


def _union(t: object, members: tuple[object, ...]) -> st.SearchStrategy[object]:
    if NoneType in members:
        return st.one_of(st.none(), values(wire.without(t, NoneType)))
    if str in members and len(members) == 2:  # an enum that is open on read; some are on write as well
        listed = wire.without(t, str)
        assert isinstance(listed, type)
        assert issubclass(listed, enum.Enum)
        if not issubclass(listed, schema.OpenEnum):
            return st.sampled_from([*listed])
        return st.one_of(st.sampled_from([*listed]), TEXT.filter(lambda text: text not in [m.value for m in listed]))
    known = [values(member) for member in members if member is not schema.Unknown]
    if schema.Unknown in members:
        variants = wire.variants(t)
        tags = TEXT.filter(lambda tag: tag not in variants.by_tag)
        raws = st.builds(lambda rest, tag: {**rest, variants.key: tag}, OBJECTS, tags)
        known.append(raws.map(lambda raw: schema.Unknown(raw=raw)))
    return st.one_of(known)


# ------------------------------------------------------------------------------------------------ what can be wrong


@attrs.frozen
class Place:
    """A member or an item in the JSON of a value, and what it cannot be."""

    path: str
    keys: tuple[str | int, ...]
    wrong: JSON
    mended: bool
    """Whether the schema's marks mend it, here or further out."""


def places(t: object, value: object) -> list[Place]:
    """Every place in the JSON of ``value``, which is a ``t``, where something can be wrong."""
    return [*_places(t, value, (), mended=False)]


def _places(t: object, value: object, keys: tuple[str | int, ...], *, mended: bool) -> Iterator[Place]:
    t = wire.without(wire.resolved(t), NoneType)
    while isinstance(t, NewType):
        t = t.__supertype__
    wrong = _wrong(t)
    if keys and wrong is not None:
        path = functools.reduce(wire.join, keys, "$")
        yield Place(path, keys, wrong, mended)
    if isinstance(value, schema.Unknown):
        return
    if attrs.has(type(value)):
        for f in wire.fields(type(value)):
            inner = getattr(value, f.name)
            if f.wire == wire.WHOLE:
                yield from (place for place in _places(f.type, inner, keys, mended=mended) if place.keys != keys)
            elif inner is not None and inner is not schema.UNSET and not (f.omitted and inner == f.fallback()):
                lenient = mended or Mark.DEFAULT_ON_ERROR in f.marks
                items = Mark.SKIP_INVALID_ITEMS in f.marks
                yield from _places(f.type, inner, (*keys, f.wire), mended=lenient or items)
    elif isinstance(value, list) and t not in PLAIN:
        first = 1 if t == schema.SessionConfigSelectOptions else 0  # the first one tells how all are read
        for index, item in enumerate(value[first:], first):
            of_item = type(item) if t == schema.SessionConfigSelectOptions else get_args(t)[0]
            yield from _places(of_item, item, (*keys, index), mended=mended)
    elif isinstance(value, dict) and t not in PLAIN:
        for key, item in value.items():
            yield from _places(get_args(t)[1], item, (*keys, key), mended=mended)


def _wrong(t: object) -> JSON:
    """What no ``t`` is; None where anything is one."""
    if t is wire.AnyJSON:
        return None
    if t == schema.ElicitationContentValue:
        return {}
    if get_origin(t) is Annotated:
        base, *limits = get_args(t)
        return next((limit.high + 1 for limit in limits if isinstance(limit, Bounds)), _wrong(base))
    return "7" if t in (float, int, bool) else 1.5
