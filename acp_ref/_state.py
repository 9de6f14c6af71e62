"""The states of a connection, a session and a prompt turn, as tables; and a snapshot of a connection.

https://agentclientprotocol.com/protocol/overview#message-flow

Rule 1: every transition stands here. Rule 2: nothing here knows which role it plays. An event that a state has no entry
for is illegal in it; :func:`after` turns that into a :class:`LocalProtocolError`, and whoever got the event from the
peer turns it into -32600.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, TypeAlias, TypeVar

import attrs

from acp_ref.errors import LocalProtocolError

__all__ = [
    "CONNECTION",
    "SESSION",
    "TURN",
    "ConnectionEvent",
    "ConnectionState",
    "ConnectionStatistics",
    "SessionEvent",
    "SessionState",
    "TurnEvent",
    "TurnState",
    "after",
    "event_of",
]


class ConnectionState(enum.Enum):
    """Where a connection stands (GEN-02)."""

    FRESH = "not initialized"
    INITIALIZING = "being initialized"
    READY = "initialized"
    ENDED = "ended"


class ConnectionEvent(enum.Enum):
    """What moves a connection."""

    INITIALIZE = "initialize"
    INITIALIZED = "the answer to initialize"
    REFUSED = "an error in answer to initialize"
    CALL = "any other request or notification"
    END = "the end of the stream"


class SessionState(enum.Enum):
    """Where a session stands, from its setup to its end."""

    OPENING = "being set up"
    OPEN = "open"
    CLOSING = "being closed"
    CLOSED = "closed"


class SessionEvent(enum.Enum):
    """What moves a session."""

    OPENED = "the answer to session/new, session/load or session/resume"
    CALL = "a request in the session"
    CLOSE = "session/close"
    CLOSED = "the end of everything the session owned"


class TurnState(enum.Enum):
    """Where the prompt turn of a session stands; there is one at a time (D-04)."""

    IDLE = "no turn"
    RUNNING = "a turn runs"
    CANCELLING = "a turn is being cancelled"


class TurnEvent(enum.Enum):
    """What moves a turn."""

    PROMPT = "session/prompt"
    CANCEL = "session/cancel"
    ANSWER = "the answer to session/prompt"


S = TypeVar("S", bound=enum.Enum)
E = TypeVar("E", bound=enum.Enum)
Table: TypeAlias = Mapping[S, Mapping[E, S]]

CONNECTION: Final[Table[ConnectionState, ConnectionEvent]] = {
    ConnectionState.FRESH: {  # INIT-01, SETUP-02, LIST-01, DEL-01, PROMPT-01: nothing else comes first
        ConnectionEvent.INITIALIZE: ConnectionState.INITIALIZING,
        ConnectionEvent.END: ConnectionState.ENDED,
    },
    ConnectionState.INITIALIZING: {
        ConnectionEvent.INITIALIZED: ConnectionState.READY,
        ConnectionEvent.REFUSED: ConnectionState.FRESH,  # a failed initialize may be tried again
        ConnectionEvent.END: ConnectionState.ENDED,
    },
    ConnectionState.READY: {  # INIT-29, D-02: no second initialize
        ConnectionEvent.CALL: ConnectionState.READY,
        ConnectionEvent.END: ConnectionState.ENDED,
    },
    ConnectionState.ENDED: {ConnectionEvent.END: ConnectionState.ENDED},
}

SESSION: Final[Table[SessionState, SessionEvent]] = {
    SessionState.OPENING: {
        SessionEvent.OPENED: SessionState.OPEN,
        SessionEvent.CLOSE: SessionState.CLOSING,
        SessionEvent.CLOSED: SessionState.CLOSED,
    },
    SessionState.OPEN: {
        SessionEvent.CALL: SessionState.OPEN,
        SessionEvent.CLOSE: SessionState.CLOSING,
        SessionEvent.CLOSED: SessionState.CLOSED,
    },
    SessionState.CLOSING: {SessionEvent.CLOSED: SessionState.CLOSED},
    SessionState.CLOSED: {},
}

TURN: Final[Table[TurnState, TurnEvent]] = {
    TurnState.IDLE: {
        TurnEvent.PROMPT: TurnState.RUNNING,
        TurnEvent.CANCEL: TurnState.IDLE,  # D-05: harmless
    },
    TurnState.RUNNING: {  # D-04: no second prompt
        TurnEvent.CANCEL: TurnState.CANCELLING,
        TurnEvent.ANSWER: TurnState.IDLE,
    },
    TurnState.CANCELLING: {
        TurnEvent.CANCEL: TurnState.CANCELLING,
        TurnEvent.ANSWER: TurnState.IDLE,
    },
}


def after(table: Table[S, E], state: S, event: E) -> S:
    """The state that follows ``event`` in ``state``.

    Raises:
      LocalProtocolError: ``event`` is not legal in ``state``.
    """
    try:
        return table[state][event]
    except KeyError:
        raise LocalProtocolError(f"{event.value} is not allowed while {state.value}") from None


def event_of(method: str) -> ConnectionEvent:
    """What a request for ``method`` is to the state of the connection."""
    return ConnectionEvent.INITIALIZE if method == "initialize" else ConnectionEvent.CALL


@attrs.frozen(kw_only=True)
class ConnectionStatistics:
    """A snapshot, for debugging and for tests of cost."""

    state: str
    """Where the connection stands."""
    requests_pending: int
    """Our requests that wait for their answer."""
    requests_in_flight: int
    """The peer's requests that are being handled."""
    requests_served: int
    """The peer's requests accepted so far, each with one task."""
    frames_received: int
    """Frames read so far."""
    frames_sent: int
    """Frames handed to the transport so far."""
    writes: int
    """How many times frames were handed to the transport: fewer than frames when they gather."""
    outbox_bytes: int
    """Bytes that wait to be written."""
