"""Values of every type of the schema, made from the types themselves."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Sequence
from types import NoneType
from typing import Annotated, NewType, get_args, get_origin

import attrs
from typing_extensions import TypeForm

from acp_ref import schema
from acp_ref._converter import wire
from acp_ref._jsonrpc import RequestId
from acp_ref.methods import AGENT, CLIENT
from acp_ref.schema._base import Bounds


def classes() -> Sequence[type]:
    """The classes of the schema that describe an object, without :class:`Unknown`, which may be anything."""
    found = [getattr(schema, name) for name in schema.__all__]
    return [cl for cl in found if inspect.isclass(cl) and attrs.has(cl) and cl is not schema.Unknown]


def samples(t: object) -> Sequence[object]:
    """Values of the type ``t`` that together use each variant of each union in it, with all fields and with few."""
    if t in _PLAIN:
        return _PLAIN[t]
    if isinstance(t, NewType):
        return samples(t.__supertype__)
    if get_origin(t) is Annotated:
        base, *limits = get_args(t)
        bounds = next((limit for limit in limits if isinstance(limit, Bounds)), None)
        return samples(base) if bounds is None else [bounds.high, 1]
    if get_origin(t) is list:
        return [list(samples(get_args(t)[0])), []]
    if get_origin(t) is dict:
        return [{f"key {i}": x for i, x in enumerate(samples(get_args(t)[1]))}, {}]
    if members := wire.members(t):
        known = [m for m in members if m not in (NoneType, schema.Unknown)]
        if len(known) > 1 and str in known:  # an enum that is open on read
            known.remove(str)
        return [x for m in known for x in samples(m)]
    if isinstance(t, type) and issubclass(t, enum.Enum):
        return list(t)
    assert isinstance(t, type)
    return _instances(t)


_PLAIN: dict[object, Sequence[object]] = {
    str: ["text with é and \n"],
    bool: [True, False],
    int: [7],
    float: [0.5],
    wire.AnyJSON: [{"any": [1, None, {"x": 0.5}]}, None, "plain"],
    wire.AnyObject: [{"vendor": {"k": None}}],
    RequestId: [5, "five"],
    schema.ElicitationContentValue: ["text", 3, 0.25, True, ["a", "b"]],
}


def _instances(cl: type) -> Sequence[object]:
    fields = wire.fields(cl)
    values = {
        f.name: ["https://example.com/a?b"] if f.name == "url" and f.type is str else samples(f.type) for f in fields
    }
    count = max((len(v) for v in values.values()), default=1)
    full = [cl(**{name: v[i % len(v)] for name, v in values.items()}) for i in range(count)]
    least = cl(**{f.name: values[f.name][0] for f in fields if f.required})
    return [*full, least] if fields else [least]


def payloads() -> Sequence[tuple[str, TypeForm[object], object]]:
    """Name, type and value of samples of all params and results."""
    types: dict[str, TypeForm[object]] = {}
    for call in (*AGENT.handles, *CLIENT.handles):
        for t in (call.params, getattr(call, "result", call.params)):
            types.setdefault(next(name for name in schema.__all__ if getattr(schema, name) == t), t)
    return [(name, t, value) for name, t in types.items() for value in samples(t)]
