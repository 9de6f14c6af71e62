"""Session Setup.

https://agentclientprotocol.com/protocol/session-setup
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

import attrs

from acp_ref.schema._base import DefaultOnError, DefaultOnNull, Meta, OmitEmpty, SkipInvalidItems, Untagged
from acp_ref.schema._base import SessionId as SessionId
from acp_ref.schema._frozen import frozen
from acp_ref.schema.session_config_options import SessionConfigOption
from acp_ref.schema.session_modes import SessionModeState

# ------------------------------------------------------------------------------------------------ MCP servers


@frozen(kw_only=True)
class EnvVariable:
    """A variable to set in the environment of a process."""

    name: str
    """Its name."""
    value: str
    """Its value."""
    meta: Meta = None


@frozen(kw_only=True)
class HttpHeader:
    """A header to send with HTTP requests."""

    name: str
    """Its name."""
    value: str
    """Its value."""
    meta: Meta = None


@frozen(kw_only=True)
class McpServerStdio:
    """An MCP server that the agent starts and talks to over its stdin and stdout; all agents can (SETUP-24)."""

    UNTAGGED: ClassVar = Untagged("type", reads="stdio")  # SETUP-25

    name: str
    """Tells it from the session's other servers, for people to read."""
    command: str
    """The program, by absolute path."""
    args: DefaultOnNull[list[str]]
    """Its arguments."""
    env: DefaultOnNull[list[EnvVariable]]
    """Variables to set over the agent's own environment."""
    meta: Meta = None


@frozen(kw_only=True)
class McpServerHttp:
    """An MCP server reached over streamable HTTP. Only for agents that announced ``mcpCapabilities.http``."""

    TAG: ClassVar = ("type", "http")

    name: str
    """Tells it from the session's other servers, for people to read."""
    url: str
    """Where it is."""
    headers: DefaultOnNull[list[HttpHeader]]
    """Headers to send with every request."""
    meta: Meta = None


@frozen(kw_only=True)
class McpServerSse:
    """An MCP server reached over server-sent events. Only for agents that announced ``mcpCapabilities.sse``."""

    TAG: ClassVar = ("type", "sse")

    name: str
    """Tells it from the session's other servers, for people to read."""
    url: str
    """Where it is."""
    headers: DefaultOnNull[list[HttpHeader]]
    """Headers to send with every request."""
    meta: Meta = None


McpServer: TypeAlias = McpServerHttp | McpServerSse | McpServerStdio
"""An MCP server and the way to reach it. Never an unknown one: a type nobody knows must not start a process (D-18)."""

# ------------------------------------------------------------------------------------------------ session/new


@frozen(kw_only=True)
class NewSessionRequest:
    """Open a session."""

    cwd: str
    """The working directory, an absolute path."""
    additional_directories: DefaultOnNull[OmitEmpty[list[str]]] = attrs.field(factory=list[str])
    """More roots, absolute paths. Only for agents that announced ``sessionCapabilities.additionalDirectories``."""
    mcp_servers: DefaultOnNull[list[McpServer]]
    """The MCP servers to connect."""
    meta: Meta = None


@frozen(kw_only=True)
class NewSessionResponse:
    """The session is open."""

    session_id: SessionId
    """Names it from now on (SETUP-05)."""
    modes: DefaultOnError[SessionModeState | None] = None
    """Its modes, when the agent has any."""
    config_options: SkipInvalidItems[list[SessionConfigOption] | None] = None
    """Its config options, when the agent has any."""
    meta: Meta = None


# ------------------------------------------------------------------------------------------------ session/load


@frozen(kw_only=True)
class LoadSessionRequest:
    """Open a stored session; its conversation comes as ``session/update`` before the answer."""

    mcp_servers: DefaultOnNull[list[McpServer]]
    """The MCP servers to connect."""
    cwd: str
    """The working directory, an absolute path."""
    additional_directories: DefaultOnNull[OmitEmpty[list[str]]] = attrs.field(factory=list[str])
    """More roots, absolute paths; the stored ones are not restored."""
    session_id: SessionId
    """The session."""
    meta: Meta = None


@frozen(kw_only=True)
class LoadSessionResponse:
    """The session is open and its whole conversation was sent."""

    modes: DefaultOnError[SessionModeState | None] = None
    """Its modes, when the agent has any."""
    config_options: SkipInvalidItems[list[SessionConfigOption] | None] = None
    """Its config options, when the agent has any."""
    meta: Meta = None


# ------------------------------------------------------------------------------------------------ session/resume


@frozen(kw_only=True)
class ResumeSessionRequest:
    """Open a stored session without being sent its conversation."""

    session_id: SessionId
    """The session."""
    cwd: str
    """The working directory, an absolute path."""
    additional_directories: DefaultOnNull[OmitEmpty[list[str]]] = attrs.field(factory=list[str])
    """More roots, absolute paths; the stored ones are not restored."""
    mcp_servers: DefaultOnNull[list[McpServer]] = attrs.field(factory=list[McpServer])
    """The MCP servers to connect."""
    meta: Meta = None


@frozen(kw_only=True)
class ResumeSessionResponse:
    """The session is open, and perhaps how it stands (SETUP-50)."""

    modes: DefaultOnError[SessionModeState | None] = None
    """Its modes, when the agent has any."""
    config_options: SkipInvalidItems[list[SessionConfigOption] | None] = None
    """Its config options, when the agent has any."""
    meta: Meta = None


# ------------------------------------------------------------------------------------------------ session/close


@frozen(kw_only=True)
class CloseSessionRequest:
    """Cancel what goes on in a session and let go of what it holds. A stored session stays stored."""

    session_id: SessionId
    """The session."""
    meta: Meta = None


@frozen(kw_only=True)
class CloseSessionResponse:
    """The session is closed."""

    meta: Meta = None
