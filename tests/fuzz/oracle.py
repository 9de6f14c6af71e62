"""What must be answered, decided from the bytes alone: the rules of JSON-RPC 2.0 and ACP, written a second time.

It shares nothing with the code under test but the spec: the JSON is read by the standard library.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Literal, NoReturn, TypeAlias

import attrs

from acp_ref._jsonrpc import JSON, JSONObject

__all__ = ["Expected", "Fault", "check_answers", "expect", "read_sent"]

READER_DEPTH: Final = 20_000
_LIKE_RESPONSE: Final = re.compile(rb'"(?:result|error)"\s*:')
"""What text that is no JSON has when it was to be a response, perhaps."""
_BEGIN: Final = rb'\{"jsonrpc"\s*:\s*"2\.0"\s*,\s*'
_ID: Final = rb'"id"\s*:\s*(?:-?\d+|"[^"\\]*")\s*,\s*'
_USUAL_REQUEST: Final = re.compile(_BEGIN + _ID + rb'"method"\s*:')
"""The beginning of a request as everybody writes it."""
_USUAL_SILENT: Final = re.compile(
    _BEGIN + rb"(?:" + _ID + rb'"(?:result|error)"|"method"\s*:\s*"[^"\\]*"\s*,\s*"params")\s*:'
)
"""The same of a response and of a notification."""
INT64: Final = range(-(2**63), 2**63)

Id: TypeAlias = tuple[str, JSON]
"""The kind and the value of an id: to Python 1, 1.0 and True are the same."""

NULL: Final[Id] = ("NoneType", None)


class Fault(AssertionError):
    """The connection broke a promise."""


@attrs.define
class Expected:
    """What must be answered."""

    calls: Counter[Id] = attrs.field(factory=Counter["Id"])
    """Requests, by id: each is answered, once."""
    junk: int = 0
    """What is no message: an agent answers each with an error and a null id."""
    unreadable: Counter[Id] = attrs.field(factory=Counter["Id"])
    """Right but beyond what the other side reads: each is answered once, with its id or a null one."""
    unread: int = 0
    """What is beyond it and odd as well, such as a request with its parts in another order: what it looks like at its
    ends is not what it is, so it may be answered or not."""


class _Beyond(Exception):
    """JSON, but with a number that Python cannot hold."""


def _no_constant(text: str) -> NoReturn:
    raise ValueError(text)


def _number(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise _Beyond
    return value


def _integer(text: str) -> int:
    if len(text) > 4000:
        raise _Beyond
    return int(text)


@contextmanager
def _deep_reader() -> Iterator[None]:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(READER_DEPTH)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def _depth(value: JSON) -> int:
    depth, level = 0, [value]
    while level:
        depth += 1
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer if isinstance(outer, list) else ())
        ]
    return depth


def _read(frame: bytes, *, beyond: bool = False) -> JSON:
    text = frame.decode("utf-8-sig")
    value: JSON = (
        json.loads(text, parse_constant=_no_constant, parse_float=lambda _: 0.5, parse_int=lambda x: int(x[:30]))
        if beyond
        else json.loads(text, parse_constant=_no_constant, parse_float=_number, parse_int=_integer)
    )
    return value


def _repeats_a_key(frame: bytes) -> bool:
    """Whether the message, or anything in it, has two members of the same name."""
    repeated = False

    def pairs(members: list[tuple[str, JSON]]) -> JSONObject:
        nonlocal repeated
        made = dict(members)
        repeated = repeated or len(made) < len(members)
        return made

    json.loads(frame.decode("utf-8-sig"), parse_int=lambda text: 0, object_pairs_hook=pairs)
    return repeated


def kind_of(frame: bytes) -> tuple[Literal["call", "junk", "silent", "unreadable", "doubtful", "broken"], Id]:
    """What ``frame`` is to the one who gets it: a call to be answered under an id, junk, or nothing to answer."""
    if not frame.removesuffix(b"\r").strip(b" \t\r\x0b\x0c"):
        return "silent", NULL
    unreadable = False
    with _deep_reader():
        try:
            try:
                value = _read(frame)
            except _Beyond:
                unreadable = True
                value = _read(frame, beyond=True)
        except ValueError:
            return ("broken" if _LIKE_RESPONSE.search(frame) else "junk"), NULL
        if _depth(value) > 800:
            unreadable = True
        if unreadable and _repeats_a_key(frame):
            return "doubtful", NULL  # what it says twice has no meaning, and which of the two was read nobody knows
    if not isinstance(value, dict):
        return ("unreadable" if unreadable else "junk"), NULL
    has_answer = "result" in value or value.get("error") is not None
    if "method" not in value or (value["method"] is None and has_answer):
        if "result" not in value and "id" not in value and "error" not in value:
            return ("unreadable" if unreadable else "junk"), NULL
        return ("doubtful" if unreadable else "silent"), NULL
    if "id" not in value:
        return ("doubtful" if unreadable else "silent"), NULL
    if unreadable and ("result" in value or "error" in value):
        return "doubtful", NULL
    raw_id = value["id"]
    if raw_id is None or isinstance(raw_id, str) or (type(raw_id) is int and raw_id in INT64):
        return ("unreadable" if unreadable else "call"), (type(raw_id).__name__, _as_written(raw_id))
    return ("unreadable" if unreadable else "junk"), NULL


def _as_written(request_id: JSON) -> JSON:
    """A lone surrogate has no UTF-8, so it comes back as the replacement character."""
    if isinstance(request_id, str):
        return "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in request_id)
    return request_id


def expect(frames: Sequence[bytes], max_frame_bytes: int = sys.maxsize) -> Expected:
    """What must be answered of ``frames`` by a side that reads none that is longer than ``max_frame_bytes``."""
    expected = Expected()
    for frame in frames:
        kind, request_id = kind_of(frame)
        too_long = len(frame) > max_frame_bytes
        if kind == "unreadable" or (kind == "call" and too_long and _USUAL_REQUEST.match(frame)):
            expected.unreadable[request_id] += 1
        elif kind == "broken":  # junk, unless it began as a response, and where it broke nobody can tell
            expected.unread += 1
        elif kind == "doubtful" or too_long:
            expected.unread += not (kind in ("silent", "doubtful") and _USUAL_SILENT.match(frame))
        elif kind == "call":
            expected.calls[request_id] += 1
        elif kind == "junk":
            expected.junk += 1
    return expected


def read_sent(frame: bytes) -> JSONObject:
    """A message that was sent, which must be one in every respect."""
    if b"\n" in frame:
        raise Fault(f"a newline inside a frame: {frame[:200]!r}")
    with _deep_reader():
        try:
            message = _read(frame)
        except (ValueError, _Beyond) as exc:
            raise Fault(f"not JSON ({exc}): {frame[:200]!r}") from exc
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise Fault(f"no message: {frame[:200]!r}")
    shape = "id" in message, "method" in message, "result" in message, "error" in message
    if shape not in {
        (True, True, False, False),
        (False, True, False, False),
        (True, False, True, False),
        (True, False, False, True),
    }:
        raise Fault(f"neither request, notification nor response: {frame[:200]!r}")
    if "error" in message:
        match message["error"]:
            case {"code": int(), "message": str()}:
                pass
            case _:
                raise Fault(f"a malformed error: {frame[:200]!r}")
    return message


def check_answers(expected: Expected, sent: Sequence[bytes], *, answers_junk: bool) -> int:
    """Check that ``sent`` answers what is expected exactly once, and nothing else; how many answers there are.

    Raises:
      Fault: it does not.
    """
    answered: Counter[Id] = Counter()
    requested: set[JSON] = set()
    for frame in sent:
        message = read_sent(frame)
        request_id = message.get("id")
        if "method" not in message:
            answered[type(request_id).__name__, request_id] += 1
        elif "id" in message:
            if request_id in requested:
                raise Fault(f"the id {request_id!r} was used twice")
            requested.add(request_id)
    total = answered.total()
    nulls = answered.pop(NULL, 0)
    owed_nulls = expected.calls[NULL] + (expected.junk if answers_junk else 0)
    spare, unread = expected.unreadable.total(), expected.unread
    for key in {*expected.calls, *answered} - {NULL}:
        asked, said = expected.calls[key], answered[key]
        by_unreadable = expected.unreadable[key]
        unread += min(asked + by_unreadable - said, 0)
        if unread < 0:
            raise Fault(f"{key} was asked {asked} times and answered {said} times")
        if asked and not said:
            raise Fault(f"{key} was asked {asked} times and never answered")
        if said <= asked:
            owed_nulls += asked - said  # the id was in use: refused under a null id
        else:
            spare -= min(said - asked, by_unreadable)
    least, most = owed_nulls + (spare if answers_junk else 0), owed_nulls + spare + unread
    if not least <= nulls <= most:
        raise Fault(f"{nulls} answers have a null id, and {least} to {most} were due")
    return total
