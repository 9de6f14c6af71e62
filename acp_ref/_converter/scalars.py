"""The values that JSON and Python have in common: what they may be when they are read and when they are written.

https://agentclientprotocol.com/protocol/schema

Nothing is coerced: "5" is no integer, and neither are true and 1.0.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from typing import Final, Protocol, cast

from acp_ref import schema
from acp_ref._converter.wire import AnyJSON, AnyObject, Fault, expected, kind
from acp_ref._jsonrpc import RequestId
from acp_ref.schema._base import Bounds, MinLength


class Scalar(Protocol):
    """Gives ``value`` back, or raises :class:`Fault`. The second argument is what cattrs passes to hooks."""

    def __call__(self, value: object, _: object = None, /) -> object: ...


def _exactly(t: type, what: str) -> Scalar:
    def check(value: object, _: object = None, /) -> object:
        if type(value) is t:  # not isinstance: to Python a boolean is an integer
            return value
        return expected(what, value)

    return check


_string: Final = _exactly(str, "string")
_integer: Final = _exactly(int, "integer")


def as_is(value: object, _: object = None, /) -> object:
    """Anything, as it came."""
    return value


def _number(value: object, _: object = None, /) -> object:
    if not isinstance(value, float | int) or type(value) is bool:
        return expected("number", value)
    if not math.isfinite(value):
        raise Fault("NaN and Infinity are not JSON")
    return value


def limited(plain: Scalar, limits: Sequence[object]) -> Scalar:
    """``plain`` within ``limits``, which are :class:`Bounds` and :class:`MinLength`."""

    def check(value: object, _: object = None, /) -> object:
        value = plain(value)
        for limit in limits:
            if isinstance(limit, Bounds) and isinstance(value, int) and not limit.low <= value <= limit.high:
                raise Fault(f"expected an integer from {limit.low} to {limit.high}, got {value}")
            if isinstance(limit, MinLength) and isinstance(value, str) and len(value) < limit.characters:
                raise Fault("expected a string that is not empty")
        return value

    return check


_int64: Final = limited(_integer, [Bounds(-(2**63), 2**63 - 1)])


def _request_id(value: object, _: object = None, /) -> object:
    if value is None or type(value) is str:
        return value
    return _int64(value) if type(value) is int else expected("string, integer or null", value)


def _content_value(value: object, _: object = None, /) -> object:
    if type(value) is str or type(value) is bool:
        return value
    if isinstance(value, list):
        for index, item in enumerate(cast("list[object]", value)):
            if type(item) is not str:
                raise Fault(f"expected string, got {kind(item)}", index)
        return cast("object", value)
    return _number(value) if isinstance(value, int | float) else expected("string, number, boolean or array", value)


READ: Final[Mapping[object, Scalar]] = {
    str: _string,
    bool: _exactly(bool, "boolean"),
    int: _integer,
    float: _number,
    AnyJSON: as_is,
    AnyObject: _exactly(dict, "object"),
    RequestId: _request_id,
    schema.ElicitationContentValue: _content_value,
}
"""What checks a scalar that came from JSON."""

# ------------------------------------------------------------------------------------------------ writing


def text(value: object, _: object = None, /) -> object:
    """``value`` as a plain ``str``: the JSON codec is slow with subclasses, such as enum members."""
    if type(value) is str:
        return value
    return str.__str__(value) if isinstance(value, str) else expected("string", value)


def _json(value: object, _: object = None, /) -> object:
    _check_json(value)
    return value


def _check_json(value: object, *keys: str | int) -> None:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise Fault("NaN and Infinity are not JSON", *keys)
    elif isinstance(value, dict):
        for key, member in cast("dict[object, object]", value).items():
            if not isinstance(key, str):
                raise Fault(f"expected keys that are strings, got {kind(key)}", *keys)
            _check_json(member, *keys, key)
    elif isinstance(value, list):
        for index, item in enumerate(cast("list[object]", value)):
            _check_json(item, *keys, index)
    elif not (value is None or isinstance(value, str | int)):
        raise Fault(f"expected JSON, got {kind(value)}", *keys)


def json_object(value: object, _: object = None, /) -> object:
    """``value``, which must be an object that JSON can say."""
    if not isinstance(value, dict):
        return expected("object", value)
    return _json(cast("object", value))


WRITE: Final[Mapping[object, Scalar]] = {**READ, str: text, AnyJSON: _json, AnyObject: json_object}
"""What checks a scalar that is to become JSON."""

# ------------------------------------------------------------------------------------------------ enums


def read_enum(t: type[enum.Enum], *, closed: bool) -> Scalar:
    """What makes a member of ``t``; without ``closed``, an unlisted value stays a string."""
    known: dict[object, object] = {member.value: member for member in t}

    def read(value: object, _: object = None, /) -> object:
        if type(value) is not str:
            expected("string", value)
        member = known.get(value)
        if member is None and closed:
            raise Fault(f"expected {_choices(t)}, got {value!r}")
        return value if member is None else member

    return read


def write_enum(t: type[enum.Enum]) -> Scalar:
    """What makes the value of a member of ``t``; an unlisted value may pass if ``t`` is an :class:`OpenEnum`."""
    known: dict[object, object] = {member.value: member.value for member in t}
    closed = not issubclass(t, schema.OpenEnum)

    def write(value: object, _: object = None, /) -> object:
        plain = known.get(value)
        if plain is None and closed:
            raise Fault(f"expected {_choices(t)}, got {value!r}")
        return text(value) if plain is None else plain

    return write


def _choices(t: type[enum.Enum]) -> str:
    return "one of " + ", ".join(str(member.value) for member in t)
