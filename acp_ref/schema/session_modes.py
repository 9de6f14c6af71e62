"""Session Modes, the older way to offer what config options offer.

https://agentclientprotocol.com/protocol/session-modes
"""

from __future__ import annotations

from typing import Annotated, ClassVar, NewType

from acp_ref.schema._base import AlsoRead, DefaultOnError, Meta, SessionId, SkipInvalidItems
from acp_ref.schema._frozen import frozen

SessionModeId = NewType("SessionModeId", str)
"""Names a mode of a session."""


@frozen(kw_only=True)
class SessionMode:
    """A way in which an agent can work, such as asking first or editing at will."""

    id: SessionModeId
    """What ``session/set_mode`` names."""
    name: str
    """For people to read."""
    description: DefaultOnError[str | None] = None
    """More about it, for people to read."""
    meta: Meta = None


@frozen(kw_only=True)
class SessionModeState:
    """The modes of a session and the one it is in."""

    current_mode_id: SessionModeId
    """One of the available ones."""
    available_modes: SkipInvalidItems[list[SessionMode]]
    """Those that ``session/set_mode`` may name."""
    meta: Meta = None


@frozen(kw_only=True)
class SetSessionModeRequest:
    """Put a session into another mode."""

    session_id: SessionId
    """The session."""
    mode_id: SessionModeId
    """One of the session's available modes (MODE-04)."""
    meta: Meta = None


@frozen(kw_only=True)
class SetSessionModeResponse:
    """The session is in that mode now."""

    meta: Meta = None


@frozen(kw_only=True)
class CurrentModeUpdate:
    """The agent went into another mode by itself (MODE-05)."""

    TAG: ClassVar = ("sessionUpdate", "current_mode_update")

    current_mode_id: Annotated[SessionModeId, AlsoRead("modeId")]
    """The mode it is in now. The page calls it ``modeId``, the schema ``currentModeId``."""
    meta: Meta = None
