"""MCP servers of a session: how an agent connects to them all, and what it tells the client of those that failed.

https://agentclientprotocol.com/protocol/session-setup#mcp-servers

Each server has a connection of its own, an :class:`McpConnection`, whose life :mod:`acp_ref._mcp_connection` tells.
They are connected side by side, and none can fail the session or another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import trio

from acp_ref._jsonrpc import JSON, JSONObject
from acp_ref._mcp_connection import DEFAULT_CLOSE_TIMEOUT, DEFAULT_CONNECT_TIMEOUT, McpConnection, safe_environment
from acp_ref._mcp_types import McpRequestError, McpState, McpTool, McpToolResult, McpUnavailable
from acp_ref.reports import Report, log_report
from acp_ref.schema import Implementation, McpServer

__all__ = [
    "DEFAULT_CLOSE_TIMEOUT",
    "DEFAULT_CONNECT_TIMEOUT",
    "META_KEY",
    "McpConnection",
    "McpRequestError",
    "McpServers",
    "McpState",
    "McpTool",
    "McpToolResult",
    "McpUnavailable",
    "mcp_meta",
    "safe_environment",
]

META_KEY: Final = "acp_ref/mcpServers"
"""Where :func:`mcp_meta` stands in the ``_meta`` of a response. The protocol itself has no place for it."""


class McpServers:
    """The MCP servers of one session: run it in the session's nursery, with ``await nursery.start(servers.run)``.

    ``cwd`` is the session's, and the directory in which stdio servers start. They get ``inherit``, or what
    :func:`safe_environment` gives, with their own ``env`` over it (SETUP-30). ``connect_timeout`` and ``close_timeout``
    are seconds for each server, and servers take theirs side by side. ``client_info`` is how we are named to them.
    ``on_report`` is told of failures, of junk on a server's stdout, and of the use of SSE.
    """

    connections: Final[Sequence[McpConnection]]
    """One for each server, in the order in which the client named them."""

    def __init__(
        self,
        servers: Iterable[McpServer],
        *,
        cwd: str,
        connect_timeout: float = DEFAULT_CONNECT_TIMEOUT,
        close_timeout: float = DEFAULT_CLOSE_TIMEOUT,
        inherit: Mapping[str, str] | None = None,
        client_info: Implementation | None = None,
        on_report: Callable[[Report], None] = log_report,
    ) -> None:
        self.connections = tuple(
            McpConnection(
                server,
                cwd=cwd,
                connect_timeout=connect_timeout,
                close_timeout=close_timeout,
                inherit=inherit,
                client_info=client_info,
                on_report=on_report,
            )
            for server in servers
        )

    def __iter__(self) -> Iterator[McpConnection]:
        return iter(self.connections)

    def __len__(self) -> int:
        return len(self.connections)

    def get(self, name: str) -> McpConnection | None:
        """The first connection whose server has that ``name``: names need not differ (SETUP-26)."""
        return next((connection for connection in self.connections if connection.name == name), None)

    def meta(self) -> JSONObject | None:
        """See :func:`mcp_meta`."""
        return mcp_meta(self.connections)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Connect to all servers at once (SETUP-41), and own the connections until all have ended.

        Started when each is ready or has failed, so after ``connect_timeout`` at the latest. Raises nothing but
        cancellation, before which all connections have ended.
        """
        async with trio.open_nursery() as nursery:
            for connection in self.connections:
                nursery.start_soon(connection.run)
            for connection in self.connections:
                await connection.wait_tried()
            task_status.started()

    async def aclose(self) -> None:
        """End all connections at once and wait until nothing of them is left. Idempotent, from any task."""
        async with trio.open_nursery() as nursery:
            for connection in self.connections:
                nursery.start_soon(connection.aclose)


def mcp_meta(connections: Iterable[McpConnection]) -> JSONObject | None:
    """What the ``_meta`` of a response says of the session's MCP servers: nothing, unless one failed; then of each, in
    the order in which the client named them, its name and state, and the reason where it failed."""
    servers: list[JSON] = []
    failed = False
    for connection in connections:
        entry: JSONObject = {"name": connection.name, "state": connection.state.value}
        if connection.failure is not None:
            failed = True
            entry["reason"] = connection.failure
        servers.append(entry)
    return {META_KEY: servers} if failed else None
