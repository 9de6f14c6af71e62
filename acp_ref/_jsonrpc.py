"""The JSON-RPC 2.0 envelope, both ways: bytes of one frame to a message, a message to the bytes of one frame.

https://www.jsonrpc.org/specification
https://agentclientprotocol.com/protocol/overview#communication-model

A message with ``method`` and ``id`` is a request, with ``method`` alone a notification, without ``method`` a response
(GEN-01). Nothing here knows a method or a role.
"""

from __future__ import annotations

import json
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
    "decode",
    "dumps",
    "encode_error",
    "encode_notification",
    "encode_request",
    "encode_result",
    "loads",
    "sniff",
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


Message: TypeAlias = Request | Notification | Result | ErrorResponse | InvalidMessage


# --------------------------------------------------------------------------------------------------- JSON text


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def loads(text: bytes) -> JSON:
    """The JSON value that ``text`` spells.

    Raises:
      ValueError: it spells none, NaN and Infinity included, or is nested too deeply to be read in bounded memory.
    """
    value: JSON
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        # What orjson refuses but JSON allows: escaped lone surrogates, a leading byte order mark, numbers beyond a
        # double. Bytes that are not UTF-8 (TRANS-01) fail here for good.
        try:
            value = json.loads(text.decode("utf-8-sig"), parse_constant=_no_constant)
        except RecursionError:
            raise ValueError("nested too deeply") from None
    return value


_OPTIONS: Final = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def dumps(value: object) -> bytes:
    """``value`` as compact UTF-8 JSON text, which never holds a raw newline (TRANS-07).

    Text that cannot be UTF-8 (lone surrogates) is written with U+FFFD in their place.

    Raises:
      ValueError: ``value`` is not JSON, or too deeply nested.
    """
    try:
        return orjson.dumps(value, option=_OPTIONS)
    except TypeError as refused:
        # Lone surrogates, integers beyond 64 bits and nesting beyond orjson's bound are JSON all the same.
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        except (TypeError, ValueError, RecursionError):
            raise ValueError(f"not JSON: {refused}") from refused
        return _SURROGATE.sub("\ufffd", text).encode()


# --------------------------------------------------------------------------------------------------- reading


def decode(frame: bytes) -> Message:
    """The message in ``frame``, one line without its newline. Never raises."""
    try:
        value = loads(frame)
    except ValueError as exc:
        return InvalidMessage(f"not JSON: {exc}", None, RequestError(ErrorCode.PARSE_ERROR, "Parse error"))
    if type(value) is not dict:
        what = "a batch, which v1 does not have" if type(value) is list else "not an object"  # TRANS-05
        return InvalidMessage(f"the message is {what}", None, RequestError.invalid_request(f"the message is {what}"))
    method = value.get("method")
    if type(method) is str and "id" not in value and value.get("jsonrpc") == "2.0":
        return Notification(method, value.get("params"))  # by far the most common, so it goes first
    if method is None and "method" not in value:
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
    return InvalidMessage(reason, request_id, RequestError.invalid_request(reason) if is_call else None)


def _decode_response(value: JSONObject) -> Message:
    """A response is never answered, whatever is wrong with it: two strict peers would never stop."""
    if "result" in value:
        if "error" in value and value["error"] is not None:  # ERR-01: never both
            return InvalidMessage("a response with both result and error")
        return Result(value.get("id"), value["result"])
    error = value.get("error")
    if error is None:
        if "id" in value or "error" in value:
            return InvalidMessage("a response with neither result nor error")  # ERR-01
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


_HEAD: Final = re.compile(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(-?\d{1,19}|"(?:[^"\\]|\\.){0,256}")\s*,\s*"(\w+)"'
)


def sniff(head: bytes) -> tuple[RequestId, bool]:
    """The id in the beginning of a frame that is too large to be read, and whether the frame is a request.

    ``(None, True)`` when it cannot be told: such a frame is answered like one that is no JSON at all.
    """
    found = _HEAD.match(head)
    if found is None:
        return None, b'"method"' not in head or b'"id"' in head
    return cast("RequestId", loads(found[1])), found[2] not in (b"result", b"error")


# --------------------------------------------------------------------------------------------------- writing


def encode_request(request_id: int, method: str, params: JSON) -> bytes:
    """The frame of a request. Raises ValueError when ``params`` is not JSON."""
    return dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})


def encode_notification(method: str, params: JSON) -> bytes:
    """The frame of a notification. Raises ValueError when ``params`` is not JSON."""
    return dumps({"jsonrpc": "2.0", "method": method, "params": params})


def encode_result(request_id: RequestId, result: JSON) -> bytes:
    """The frame of a success. The id is the caller's, type and value (ERR-03)."""
    return dumps({"jsonrpc": "2.0", "id": request_id, "result": result})


def encode_error(request_id: RequestId, error: RequestError) -> bytes:
    """The frame of a failure: ``error`` and no ``result`` (ERR-01); ``data`` only where there is one (ERR-09)."""
    body: JSONObject = {"code": int(error.code), "message": error.message}
    if error.has_data:
        body["data"] = error.data
    return dumps({"jsonrpc": "2.0", "id": request_id, "error": body})
