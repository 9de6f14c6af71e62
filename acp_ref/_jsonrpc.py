"""The JSON-RPC 2.0 envelope, both ways: bytes of one frame to a message, a message to the bytes of one frame.

https://www.jsonrpc.org/specification
https://agentclientprotocol.com/protocol/overview#communication-model

A message with ``method`` and ``id`` is a request, with ``method`` alone a notification, without ``method`` a response
(GEN-01). Nothing here knows a method or a role.
"""

from __future__ import annotations

import json
import math
import re
from typing import Final, NoReturn, TypeAlias, cast

import attrs
import orjson

from acp_ref.errors import AuthRequired, ErrorCode, RequestError

__all__ = [
    "JSON",
    "ErrorResponse",
    "InvalidMessage",
    "JSONObject",
    "Message",
    "Notification",
    "Request",
    "RequestId",
    "Result",
    "Unreadable",
    "decode",
    "dumps",
    "dumps_checked",
    "encode_error",
    "encode_notification",
    "encode_request",
    "encode_result",
    "exact",
    "loads",
    "unreadable",
]

JSON: TypeAlias = "dict[str, JSON] | list[JSON] | str | int | float | bool | None"
"""Any JSON value."""
JSONObject: TypeAlias = "dict[str, JSON]"
"""A JSON object."""
RequestId: TypeAlias = int | str | None
"""What names a request: a 64-bit integer, a string, or (never sent by us) null (ERR-05)."""

INT64: Final = range(-(2**63), 2**63)


@attrs.define
class Request:
    """A call that must be answered once."""

    id: RequestId
    method: str
    params: JSON


@attrs.define
class Notification:
    """A call that is never answered (ERR-02)."""

    method: str
    params: JSON


@attrs.define
class Result:
    """The answer to a request that succeeded."""

    id: JSON
    result: JSON


@attrs.define
class ErrorResponse:
    """The answer to a request that failed."""

    id: JSON
    error: RequestError


@attrs.define
class InvalidMessage:
    """A frame that is no message. ``answer`` is what to tell the peer, or None where nothing may be answered."""

    reason: str
    id: RequestId = None
    answer: RequestError | None = None
    is_call: bool = False
    """Whether it is a request all the same, which either role answers."""
    is_response: bool = False
    """Whether it was to be the response to ``id``, which gets no other."""


Message: TypeAlias = Request | Notification | Result | ErrorResponse | InvalidMessage


# --------------------------------------------------------------------------------------------------- JSON text


class Unreadable(ValueError):
    """It is JSON, but more than is read here: nested too deeply, or with a number that is out of range.

    ``value`` is what could be read, with an infinite number for each that is out of range.
    """

    def __init__(self, reason: str, value: JSON = None) -> None:
        super().__init__(reason)
        self.value = value


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def loads(text: bytes) -> JSON:
    """The JSON value that ``text`` spells.

    Raises:
      Unreadable: it is nested too deeply to be read in bounded memory, or has a number that is out of range.
      ValueError: it spells none, NaN and Infinity included.
    """
    value: JSON
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        # What orjson refuses but JSON allows: escaped lone surrogates, a leading byte order mark, large integers.
        # Bytes that are not UTF-8 (TRANS-01) fail here for good.
        value = _loads_slowly(text.decode("utf-8-sig"))
    return value


def _loads_slowly(text: str) -> JSON:
    out_of_range: list[str] = []  # told in the end, when it is known that all of it is JSON

    def number(digits: str) -> float:
        value = float(digits)
        if math.isinf(value):  # or it would be written as Infinity, which is not JSON
            out_of_range.append("a number beyond a double")
        return value

    def integer(digits: str) -> int | float:
        try:
            return int(digits)
        except ValueError:
            out_of_range.append(f"an integer of {len(digits)} digits")
            return math.inf

    try:
        value: JSON = json.loads(text, parse_constant=_no_constant, parse_float=number, parse_int=integer)
    except RecursionError:
        raise Unreadable("nested too deeply") from None
    if out_of_range:
        raise Unreadable(out_of_range[0], value)
    return value


_OPTIONS: Final = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def dumps(value: object) -> bytes:
    """``value`` as compact UTF-8 JSON text, which never holds a raw newline (TRANS-07).

    Text that cannot be UTF-8 (lone surrogates) is written with U+FFFD in their place. NaN and Infinity must not get
    here, where they would become null: the converter has refused them.

    Raises:
      ValueError: ``value`` is not JSON, or too deeply nested.
    """
    try:
        return orjson.dumps(value, option=_OPTIONS)
    except TypeError:
        # Lone surrogates, integers beyond 64 bits and nesting beyond orjson's bound are JSON all the same.
        return dumps_checked(value)


def dumps_checked(value: object) -> bytes:
    """As :func:`dumps`, slower, for values that no converter has seen: it refuses NaN and Infinity.

    Raises:
      ValueError: ``value`` is not JSON, or too deeply nested.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except (TypeError, ValueError) as exc:
        raise ValueError(f"not JSON: {exc}") from exc
    return _SURROGATE.sub("\ufffd", text).encode()


def exact(text: bytes) -> bytes:
    """A copy of what :func:`dumps` made, for keeping: the codec's own has a kibibyte or more in reserve behind it."""
    return bytes(memoryview(text))


# --------------------------------------------------------------------------------------------------- reading


def decode(frame: bytes) -> Message:
    """The message in ``frame``, one line without its newline. Never raises."""
    try:
        value = loads(frame)
    except Unreadable as exc:
        if type(exc.value) is dict:
            return _too_much(str(exc), *_members(exc.value))
        return unreadable(str(exc), frame[:HEAD_BYTES], frame[-TAIL_BYTES:])
    except ValueError as exc:
        return _no_json(str(exc), frame)
    if type(value) is not dict:
        what = "a batch, which v1 does not have" if type(value) is list else "not an object"  # TRANS-05
        return InvalidMessage(f"the message is {what}", None, RequestError.invalid_request(f"the message is {what}"))
    method = value.get("method")
    if type(method) is str and "id" not in value and value.get("jsonrpc") == "2.0":
        return Notification(method, value.get("params"))  # by far the most common, so it goes first
    # Some peers write every key they know, so a response may have a null method.
    if method is None and ("method" not in value or "result" in value or value.get("error") is not None):
        return _decode_response(value)
    raw_id = value.get("id")
    id_kind = type(raw_id)
    # ERR-05: null, a 64-bit integer or a string; ERR-04: no fractions. bool is an int to Python, so types are compared.
    if not (id_kind is str or raw_id is None or (id_kind is int and raw_id in INT64)):
        return InvalidMessage("id is no integer, string or null", None, RequestError.invalid_request("$.id: bad type"))
    request_id = cast("RequestId", raw_id)
    is_call = raw_id is not None or "id" in value
    if type(method) is not str:
        return _refuse("$.method: expected string", request_id, is_call)
    # A missing `jsonrpc` is accepted, as the other implementations do; another version is not.
    if value.get("jsonrpc", "2.0") != "2.0":
        return _refuse('$.jsonrpc: expected "2.0"', request_id, is_call)
    params = value.get("params")
    if is_call:
        return Request(request_id, method, params)
    return Notification(method, params)


def _refuse(reason: str, request_id: RequestId, is_call: bool) -> InvalidMessage:
    return InvalidMessage(reason, request_id, RequestError.invalid_request(reason) if is_call else None, is_call)


def _decode_response(value: JSONObject) -> Message:
    """A response is never answered, whatever is wrong with it: two strict peers would never stop."""
    if "result" in value:
        if "error" in value and value["error"] is not None:  # ERR-01: never both
            return _no_response("a response with both result and error", value)
        return Result(value.get("id"), value["result"])
    error = value.get("error")
    if error is None:
        if "id" in value or "error" in value:
            return _no_response("a response with neither result nor error", value)  # ERR-01
        reason = "neither a request nor a response"
        return InvalidMessage(reason, None, RequestError.invalid_request(reason))
    if type(error) is not dict:
        return ErrorResponse(value.get("id"), RequestError(ErrorCode.INTERNAL_ERROR, "Malformed error", error))
    code, message = error.get("code"), error.get("message")
    if type(code) is not int:  # ERR-07: an integer, so neither a fraction nor a boolean
        code = int(ErrorCode.INTERNAL_ERROR)
    if type(message) is not str:
        message = ""
    kind = AuthRequired if code == ErrorCode.AUTH_REQUIRED else RequestError
    return ErrorResponse(value.get("id"), kind.received(code, message, error.get("data"), has_data="data" in error))


def _no_response(reason: str, value: JSONObject) -> InvalidMessage:
    request_id = value.get("id")
    return InvalidMessage(reason, request_id if type(request_id) is int else None, is_response=True)


# ----------------------------------------------------------------------------------------------- what cannot be read

HEAD_BYTES: Final = 4096
"""How much of the beginning of a message tells what it is."""
TAIL_BYTES: Final = 1024
"""The same of its end, for peers that write the id last."""

SILENT_WHEN_NULL: Final = frozenset({"method", "error"})
"""The members that say nothing when they are null; see :func:`decode`."""

_SCALAR: Final = rb'(?:[-+.\deE]+|"(?:[^"\\]|\\.)*"|null|true|false)'
_MEMBER: Final = re.compile(rb'\s*"(\w+)"\s*:\s*(' + _SCALAR + rb")\s*,", re.DOTALL)
_KEY: Final = re.compile(rb'\s*"(\w+)"\s*:')
_OPEN: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*\{")
# An unescaped quote begins or ends a string, so these members are in the object that the last brace closes.
_TAIL: Final = re.compile(rb'((?:,\s*"\w+"\s*:\s*' + _SCALAR + rb"\s*)+)\}\s*\Z", re.DOTALL)


def _members(message: JSONObject) -> tuple[set[str], RequestId]:
    """Which members ``message`` has that say something, and its id."""
    keys = {key for key, value in message.items() if value is not None or key not in SILENT_WHEN_NULL}
    return keys, _sound_id(message.get("id"))


def _sound_id(value: JSON) -> str | int | None:
    return value if type(value) is str or (type(value) is int and value in INT64) else None


def _outline(head: bytes, tail: bytes) -> tuple[set[str], RequestId]:
    """As :func:`_members`, as far as the beginning and the end of a message tell."""
    keys: set[str] = set()
    raw_id = b""
    opening = _OPEN.match(head)
    if opening is None:
        return keys, None
    members: list[re.Match[bytes]] = []
    at = opening.end()
    while member := _MEMBER.match(head, at):
        members.append(member)
        at = member.end()
    if last := _KEY.match(head, at):
        keys.add(last[1].decode())
    if ending := _TAIL.search(tail):
        members += _MEMBER.finditer(ending[1][1:] + b",")
    for member in members:
        key = member[1].decode()
        if member[2] != b"null" or key not in SILENT_WHEN_NULL:
            keys.add(key)
        if key == "id":
            raw_id = member[2]
    try:
        return keys, _sound_id(loads(raw_id))
    except ValueError:  # there is none, or it is malformed
        return keys, None


def _is_response(keys: set[str]) -> bool:
    return "method" not in keys and bool(keys & {"result", "error"})


def unreadable(reason: str, head: bytes, tail: bytes) -> InvalidMessage:
    """The message that begins with ``head``, ends with ``tail`` and is not read, because of ``reason``.

    A request is refused, a response is known to have come, a notification is let go. What cannot be told is answered
    like a line that is no JSON at all.
    """
    return _too_much(reason, *_outline(head, tail))


def _too_much(reason: str, keys: set[str], request_id: RequestId) -> InvalidMessage:
    if _is_response(keys):
        return InvalidMessage(reason, request_id, is_response=True)
    if "method" in keys and "id" not in keys:
        return InvalidMessage(reason)
    is_call = request_id is not None and bool(keys & {"method", "params"})
    return InvalidMessage(
        reason, request_id if is_call else None, RequestError.invalid_request(reason), is_call=is_call
    )


def _no_json(reason: str, frame: bytes) -> InvalidMessage:
    """D-33; but what began as a response is none the less the only one that its request gets."""
    keys, request_id = _outline(frame[:HEAD_BYTES], b"")
    if _is_response(keys):
        return InvalidMessage(f"not JSON: {reason}", request_id, is_response=True)
    return InvalidMessage(f"not JSON: {reason}", None, RequestError(ErrorCode.PARSE_ERROR, "Parse error"))


# --------------------------------------------------------------------------------------------------- writing


def encode_request(request_id: int, method: str, params: JSON) -> bytes:
    """The frame of a request. Raises ValueError when ``params`` is not JSON."""
    message: JSONObject = {"jsonrpc": "2.0", "id": request_id, "method": method}
    return dumps(message if params is None else {**message, "params": params})


def encode_notification(method: str, params: JSON) -> bytes:
    """The frame of a notification. Raises ValueError when ``params`` is not JSON."""
    message: JSONObject = {"jsonrpc": "2.0", "method": method}
    return dumps(message if params is None else {**message, "params": params})


def encode_result(request_id: RequestId, result: JSON) -> bytes:
    """The frame of a success. The id is the caller's, type and value (ERR-03)."""
    return dumps({"jsonrpc": "2.0", "id": request_id, "result": result})


def encode_error(request_id: RequestId, error: RequestError) -> bytes:
    """The frame of a failure: ``error`` and no ``result`` (ERR-01); ``data`` only where there is one (ERR-09).

    Raises:
      ValueError: the data, which no converter has seen, is not JSON.
    """
    body: JSONObject = {"code": int(error.code), "message": error.message}
    if error.has_data:
        body["data"] = error.data
    return dumps_checked({"jsonrpc": "2.0", "id": request_id, "error": body})
