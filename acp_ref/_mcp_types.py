"""What the connection to an MCP server is made of: its states, tools and errors, and the end of its transport.

https://agentclientprotocol.com/protocol/session-setup#mcp-servers
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Literal, TypeAlias

import attrs
import trio

from acp_ref._jsonrpc import JSON, JSONObject
from acp_ref.schema import ContentBlock

Handshake: TypeAlias = Literal["legacy", "auto"]
"""How mcp agrees on a version: by ``initialize``, or by ``server/discover`` first, which came with 2026-07-28."""


class McpState(enum.Enum):
    """Where a connection to an MCP server stands."""

    CONNECTING = "connecting"
    """Its deadline runs."""
    READY = "ready"
    """Its tools can be called."""
    FAILED = "failed"
    """It never came about, or the server was lost; ``McpConnection.failure`` says why."""
    CLOSED = "closed"
    """We ended it."""


class McpUnavailable(Exception):
    """The MCP server is not connected, or was lost before it answered; the text says why."""


class McpRequestError(Exception):
    """The MCP server answered with an error in place of a tool's result, or with what MCP does not allow.

    A tool that ran and failed is not this, but an :class:`McpToolResult` with ``is_error``.
    """

    code: int | None
    """The JSON-RPC code of the server's error; None when it was no error but no valid result either."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


@attrs.frozen(kw_only=True)
class McpTool:
    """A tool that an MCP server offers."""

    name: str
    """What to call it by."""
    title: str | None = None
    """For people to read."""
    description: str | None = None
    """For the language model to read."""
    input_schema: JSONObject
    """The JSON Schema of its arguments."""


@attrs.frozen(kw_only=True)
class McpToolResult:
    """What a tool returned."""

    content: list[ContentBlock]
    """Its output. MCP's blocks are ACP's (CONTENT-01), so they can go into a tool call or a message as they are."""
    is_error: bool = False
    """Whether the tool failed; ``content`` then says why."""
    structured_content: JSON = None
    """Its output as one JSON value, when the tool has an output schema."""


@attrs.define(eq=False)
class TransportEnd:
    """Where a transport tells its connection that it is over, and what it saw that tells why."""

    reached: trio.Event = attrs.field(factory=trio.Event)
    reason: str = ""
    stderr_tail: Callable[[], str] = str
