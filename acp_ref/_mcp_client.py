"""mcp's client in our terms: how it is set up for a server, and what it returns and raises.

https://agentclientprotocol.com/protocol/session-setup#mcp-servers

Importing this module imports mcp, half a second's work. See :mod:`acp_ref._mcp_connection`, which does it off the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, cast

import mcp_types
from mcp import MCPError
from mcp.client import Client
from mcp_types import CONNECTION_CLOSED
from pydantic import ValidationError

from acp_ref._converter import structure_hook
from acp_ref._mcp_http import http_transport, sse_transport
from acp_ref._mcp_stdio import stdio_transport
from acp_ref._mcp_types import Handshake, McpTool, McpToolResult, TransportEnd
from acp_ref._processes import child_environment
from acp_ref.schema import ContentBlock, Implementation, McpServer, McpServerHttp, McpServerStdio

if TYPE_CHECKING:
    from mcp.client import IncomingMessage
    from mcp.client._transport import TransportStreams


def open_client(
    server: McpServer,
    *,
    handshake: Handshake,
    cwd: str,
    inherit: Mapping[str, str],
    client_info: Implementation | None,
    end: TransportEnd,
    on_junk: Callable[[bytes], None],
    on_tools_changed: Callable[[], None],
    close_timeout: float,
) -> Client:
    """A client of ``server``, still to be entered: that starts or reaches the server and agrees on a version."""

    async def on_message(message: IncomingMessage) -> None:
        if isinstance(message, Exception):  # over HTTP; what stdio receives is looked at by our own transport
            on_junk(str(message).encode("utf-8", "replace"))
        elif isinstance(message, mcp_types.ToolListChangedNotification):
            on_tools_changed()

    transport: AbstractAsyncContextManager[TransportStreams]
    if isinstance(server, McpServerStdio):
        transport = stdio_transport(
            [server.command, *server.args],  # SETUP-27, SETUP-28
            env=child_environment({variable.name: variable.value for variable in server.env}, inherit=inherit),
            cwd=cwd,
            end=end,
            on_junk=on_junk,
            close_timeout=close_timeout,
        )
    else:
        headers = [(header.name, header.value) for header in server.headers]
        open_transport = http_transport if isinstance(server, McpServerHttp) else sse_transport
        transport = open_transport(server.url, headers, end=end)
    info = None
    if client_info is not None:
        info = mcp_types.Implementation(name=client_info.name, title=client_info.title, version=client_info.version)
    return Client(
        transport,
        mode=handshake,
        client_info=info,
        message_handler=on_message,
        cache=None,
    )


async def list_tools(client: Client) -> tuple[McpTool, ...]:
    """All tools of the server, page by page; none when it did not say that it has any."""
    if client.server_capabilities.tools is None:
        return ()
    tools: list[McpTool] = []
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor)
        tools += (
            McpTool(name=tool.name, title=tool.title, description=tool.description, input_schema=tool.input_schema)
            for tool in page.tools
        )
        cursor = page.next_cursor
        if not cursor:
            return tuple(tools)


def tool_result(result: mcp_types.CallToolResult) -> McpToolResult:
    """``result`` in ACP's types. A kind of content that ACP does not know becomes an ``Unknown`` (CONTENT-01)."""
    block = structure_hook(ContentBlock)
    return McpToolResult(
        content=[block(item.model_dump(mode="json", by_alias=True, exclude_unset=True)) for item in result.content],
        is_error=result.is_error,
        structured_content=result.structured_content,
    )


def error_code(exc: BaseException) -> int | None:
    """The code of the error a server answered with; None when ``exc`` is something else."""
    cause = _cause(exc)
    return cause.code if isinstance(cause, MCPError) else None


def is_answer_lost(exc: BaseException) -> bool:
    """Whether an answer will never come because its HTTP stream broke, which mcp itself then says as an error.

    A server's own error may have the same code, so the text counts as well.
    """
    cause = _cause(exc)
    return isinstance(cause, MCPError) and cause.code == CONNECTION_CLOSED and cause.message.startswith("SSE stream ")


def error_text(exc: BaseException) -> str:
    """What went wrong, for a person to read."""
    cause = _cause(exc)
    if is_answer_lost(cause):
        return f"its answer was lost: {cause}"
    if isinstance(cause, MCPError):
        return f"it answered with [{cause.code}] {cause.message}"
    if isinstance(cause, ValidationError):
        return f"it answered with what MCP does not allow in {cause.title}"
    if isinstance(cause, OSError) and cause.filename is not None:
        return f"it cannot be started: {cause.strerror}: {cause.filename!r}"
    text = str(cause)
    return text if text and isinstance(cause, ValueError) else f"{type(cause).__name__}: {text}"


def _cause(exc: BaseException) -> BaseException:
    """The most telling leaf of mcp's nested groups: what broke a transport, rather than that it was closed then."""
    if not isinstance(exc, BaseExceptionGroup):
        return exc
    causes = [_cause(sub) for sub in cast("BaseExceptionGroup[BaseException]", exc).exceptions]
    return next((cause for cause in causes if not isinstance(cause, MCPError)), causes[0])
