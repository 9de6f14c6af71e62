"""Traces: what went over the wire, without its secrets; and the trace context that travels in ``_meta``.

https://agentclientprotocol.com/protocol/extensibility#the-_meta-field
https://www.w3.org/TR/trace-context/

Environment variables and HTTP headers carry tokens. Wherever a message has a member ``env`` or ``headers``, a trace
shows the names in it and ``***`` for everything else: in MCP servers, terminals and terminal logins, and in what a tool
was given, since nothing there is worth a leak.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Literal, Protocol, final

import attrs

from acp_ref._jsonrpc import JSON, JSONObject, dumps, loads
from acp_ref.reports import EXCERPT, Report, ReportKind, log_report
from acp_ref.schema import TRACE_CONTEXT_KEYS

__all__ = ["JsonLinesTrace", "TraceContext", "redacted", "trace_context", "with_trace_context"]

REDACTED: Final = "***"

SECRET: Final = frozenset({"env", "headers"})
"""The members whose values never show in a trace."""

SUSPECT: Final = (b"env", b"headers", b"\\u")
"""What a frame with such a member contains in lower case, however JSON spells the name."""


def redacted(frame: bytes) -> bytes:
    """``frame`` as it may be shown: a message in one line, byte for byte as it was unless it may hold a secret.

    A frame that is no JSON may be anything, so only its beginning is shown, and nothing from the point on where a
    secret might be. Never raises.
    """
    return _readable(frame) or _excerpt(frame)


def _readable(frame: bytes) -> bytes | None:
    """The message without its secrets, in one line; None when the frame is no JSON."""
    try:
        value = loads(frame)
        if _first_suspect(frame) is None and frame.startswith(b"{") and b"\n" not in frame and b"\r" not in frame:
            return frame
        _redact(value)
        return dumps(value)
    except ValueError:
        return None


def _excerpt(frame: bytes) -> bytes:
    suspect = _first_suspect(frame[:EXCERPT])
    end = EXCERPT if suspect is None else suspect
    return frame if len(frame) <= end else frame[:end] + REDACTED.encode()


def _first_suspect(frame: bytes) -> int | None:
    """Where in ``frame`` the first trace of a secret is."""
    lowered = frame.lower()
    found = [lowered.index(word) for word in SUSPECT if word in lowered]
    return min(found, default=None)


def _redact(value: JSON) -> None:
    """Take the secrets out of ``value``, in place. Not recursive: the peer decides how deep it is."""
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, dict):
            for key, member in node.items():
                if key.lower() in SECRET:
                    node[key] = _names_only(member)
                else:
                    waiting.append(member)


def _names_only(member: JSON) -> JSON:
    """``env`` or ``headers`` as a list of names and values (the protocol's way) or as an object (everybody else's)."""
    if isinstance(member, dict):
        return dict.fromkeys(member, REDACTED)
    if isinstance(member, list):
        return [
            {key: value if key == "name" and isinstance(value, str) else REDACTED for key, value in item.items()}
            if isinstance(item, dict)
            else REDACTED
            for item in member
        ]
    return member if member is None else REDACTED


class _File(Protocol):
    def write(self, data: bytes, /) -> object: ...


@final
class JsonLinesTrace:
    """Writes every frame of a connection as a line of JSON, its secrets redacted. Give it as ``on_frame``.

    Each line is an object with ``time`` (seconds of ``clock``), ``direction`` (``sent`` or ``received``) and either
    ``message`` or, where the frame is no JSON, ``unreadable`` with its beginning as text.

    Args:
      file: takes the lines, as bytes; opened and closed by you. It is written in the connection's own task, so let it
        be a local file with a buffer.
      clock: gives the seconds; they only grow.
      on_report: told once when the file cannot be written. The trace ends then; the connection goes on.
    """

    def __init__(
        self,
        file: _File,
        *,
        clock: Callable[[], float] = time.monotonic,
        on_report: Callable[[Report], None] = log_report,
    ) -> None:
        self._file: _File | None = file
        self._clock = clock
        self._on_report = on_report

    def __call__(self, direction: Literal["sent", "received"], frame: bytes) -> None:
        """Write one frame. Never raises."""
        if self._file is None:
            return
        message = _readable(frame)
        kind = "unreadable" if message is None else "message"
        body = dumps(_excerpt(frame).decode(errors="replace")) if message is None else message
        line = b'{"time":%.6f,"direction":"%b","%b":%b}\n' % (self._clock(), direction.encode(), kind.encode(), body)
        try:
            self._file.write(line)
        except (OSError, ValueError) as exc:  # ValueError: the file is closed
            self._file = None
            self._on_report(Report(kind=ReportKind.DEGRADED, reason="the trace can no longer be written", error=exc))


# ------------------------------------------------------------------------------------------------ trace context


@attrs.frozen(kw_only=True)
class TraceContext:
    """The W3C trace context of a message, as text that is passed on and not looked into (EXT-03)."""

    traceparent: str | None = None
    """Which trace and which span the message belongs to."""
    tracestate: str | None = None
    """What the tracing systems on the way have added."""
    baggage: str | None = None
    """What the application has added."""


def trace_context(meta: JSONObject | None) -> TraceContext:
    """The trace context in a ``_meta``. What is there but is no text counts as absent; never raises (EXT-02)."""
    found = {key: value for key in TRACE_CONTEXT_KEYS if isinstance(value := (meta or {}).get(key), str)}
    return TraceContext(**found)


def with_trace_context(meta: JSONObject | None, context: TraceContext) -> JSONObject | None:
    """``meta`` with ``context`` in place of the one it had; all else in it stays (EXT-01, EXT-03).

    Returns:
      A new object, or None when nothing is in it.
    """
    kept: JSONObject = {key: value for key, value in (meta or {}).items() if key not in TRACE_CONTEXT_KEYS}
    for key, value in zip(TRACE_CONTEXT_KEYS, (context.traceparent, context.tracestate, context.baggage), strict=True):
        if value is not None:
            kept[key] = value
    return kept or None
