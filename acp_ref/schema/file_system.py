"""File System.

https://agentclientprotocol.com/protocol/file-system
"""

from __future__ import annotations

from acp_ref.schema._base import Meta, SessionId, UInt32
from acp_ref.schema._frozen import frozen


@frozen(kw_only=True)
class ReadTextFileRequest:
    """Read a text file as the client has it, unsaved changes included."""

    session_id: SessionId
    """The session."""
    path: str
    """The file, by absolute path."""
    line: UInt32 | None = None
    """The line to begin at, counted from 1."""
    limit: UInt32 | None = None
    """The most lines to read."""
    meta: Meta = None


@frozen(kw_only=True)
class ReadTextFileResponse:
    """What the file holds."""

    content: str
    """The text asked for."""
    meta: Meta = None


@frozen(kw_only=True)
class WriteTextFileRequest:
    """Write a text file, which need not exist."""

    session_id: SessionId
    """The session."""
    path: str
    """The file, by absolute path."""
    content: str
    """All of its text from now on."""
    meta: Meta = None


@frozen(kw_only=True)
class WriteTextFileResponse:
    """The file is written."""

    meta: Meta = None
