"""Session List.

https://agentclientprotocol.com/protocol/session-list
"""

from __future__ import annotations

from typing import ClassVar

import attrs

from acp_ref.schema._base import (
    UNSET,
    DefaultOnError,
    Meta,
    OmitEmpty,
    PatchMeta,
    SessionId,
    SkipInvalidItems,
    UnsetType,
)
from acp_ref.schema._frozen import frozen


@frozen(kw_only=True)
class ListSessionsRequest:
    """Ask for the stored sessions, a page at a time."""

    cwd: str | None = None
    """Only sessions with this working directory, an absolute path."""
    cursor: str | None = None
    """Where to go on: the ``next_cursor`` of the page before."""
    meta: Meta = None


@frozen(kw_only=True)
class SessionInfo:
    """What is known of a stored session."""

    session_id: SessionId
    """The session."""
    cwd: str
    """Its working directory, an absolute path."""
    additional_directories: SkipInvalidItems[OmitEmpty[list[str]]] = attrs.field(factory=list[str])
    """Its other roots, absolute paths."""
    title: DefaultOnError[str | None] = None
    """For people to read."""
    updated_at: DefaultOnError[str | None] = None
    """When something last happened in it, as ISO 8601 says."""
    meta: Meta = None


@frozen(kw_only=True)
class ListSessionsResponse:
    """One page of the stored sessions."""

    sessions: SkipInvalidItems[list[SessionInfo]]
    """The sessions; none is an empty list."""
    next_cursor: DefaultOnError[str | None] = None
    """What to ask for the next page with; None on the last one. Opaque."""
    meta: Meta = None


@frozen(kw_only=True)
class SessionInfoUpdate:
    """What is known of the session changed; its id and its roots never do (LIST-18). ``UNSET`` keeps a field, ``None``
    clears it."""

    TAG: ClassVar = ("sessionUpdate", "session_info_update")

    title: DefaultOnError[str | UnsetType | None] = UNSET
    """For people to read."""
    updated_at: DefaultOnError[str | UnsetType | None] = UNSET
    """When something last happened in the session, as ISO 8601 says."""
    meta: PatchMeta = UNSET
