"""Session Delete.

https://agentclientprotocol.com/protocol/session-delete
"""

from __future__ import annotations

from acp_ref.schema._base import Meta, SessionId
from acp_ref.schema._frozen import frozen


@frozen(kw_only=True)
class DeleteSessionRequest:
    """Forget a stored session."""

    session_id: SessionId
    """The session."""
    meta: Meta = None


@frozen(kw_only=True)
class DeleteSessionResponse:
    """The session is forgotten."""

    meta: Meta = None
