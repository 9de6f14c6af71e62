"""Terminals.

https://agentclientprotocol.com/protocol/terminals
"""

from __future__ import annotations

from typing import NewType

import attrs

from acp_ref.schema._base import DefaultOnError, DefaultOnNull, Meta, SessionId, UInt32, UInt64
from acp_ref.schema._frozen import frozen
from acp_ref.schema.session_setup import EnvVariable

TerminalId = NewType("TerminalId", str)
"""Names a terminal of a client."""


@frozen(kw_only=True)
class CreateTerminalRequest:
    """Start a command in a new terminal."""

    session_id: SessionId
    """The session."""
    command: str
    """The command."""
    args: DefaultOnNull[list[str]] = attrs.field(factory=list[str])
    """Its arguments."""
    env: DefaultOnNull[list[EnvVariable]] = attrs.field(factory=list[EnvVariable])
    """Variables to set over the client's own environment."""
    cwd: str | None = None
    """The directory to run it in, an absolute path; the session's when None."""
    output_byte_limit: UInt64 | None = None
    """The most bytes of output to keep; the oldest go first, at the border of a character."""
    meta: Meta = None


@frozen(kw_only=True)
class CreateTerminalResponse:
    """The command was started."""

    terminal_id: TerminalId
    """Names the terminal until it is released."""
    meta: Meta = None


@frozen(kw_only=True)
class TerminalOutputRequest:
    """Ask for the output so far, without waiting."""

    session_id: SessionId
    """The session."""
    terminal_id: TerminalId
    """The terminal."""
    meta: Meta = None


@frozen(kw_only=True)
class TerminalExitStatus:
    """How a command ended."""

    exit_code: DefaultOnError[UInt32 | None] = None
    """Its exit code; None when a signal ended it."""
    signal: DefaultOnError[str | None] = None
    """The signal that ended it."""
    meta: Meta = None


@frozen(kw_only=True)
class TerminalOutputResponse:
    """The output so far."""

    output: str
    """The output that was kept."""
    truncated: bool
    """Whether some was dropped."""
    exit_status: DefaultOnError[TerminalExitStatus | None] = None
    """How the command ended; None while it runs."""
    meta: Meta = None


@frozen(kw_only=True)
class WaitForTerminalExitRequest:
    """Wait until the command has ended."""

    session_id: SessionId
    """The session."""
    terminal_id: TerminalId
    """The terminal."""
    meta: Meta = None


@frozen(kw_only=True)
class WaitForTerminalExitResponse:
    """How the command ended."""

    exit_code: DefaultOnError[UInt32 | None] = None
    """Its exit code; None when a signal ended it."""
    signal: DefaultOnError[str | None] = None
    """The signal that ended it."""
    meta: Meta = None


@frozen(kw_only=True)
class KillTerminalRequest:
    """End the command and keep the terminal."""

    session_id: SessionId
    """The session."""
    terminal_id: TerminalId
    """The terminal."""
    meta: Meta = None


@frozen(kw_only=True)
class KillTerminalResponse:
    """The command was told to end."""

    meta: Meta = None


@frozen(kw_only=True)
class ReleaseTerminalRequest:
    """End the command if it still runs and let go of the terminal."""

    session_id: SessionId
    """The session."""
    terminal_id: TerminalId
    """The terminal, whose id is not valid any more."""
    meta: Meta = None


@frozen(kw_only=True)
class ReleaseTerminalResponse:
    """The terminal is gone."""

    meta: Meta = None
