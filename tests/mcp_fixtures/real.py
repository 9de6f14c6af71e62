"""A real MCP server, of the mcp package: ``python -m tests.mcp_fixtures.real`` serves stdio under trio."""

from __future__ import annotations

import trio
from mcp.server.mcpserver import MCPServer


def make_server() -> MCPServer:
    server = MCPServer("real")

    @server.tool(title="Add")
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool()
    def boom() -> str:
        """Fail."""
        raise RuntimeError("boom")

    @server.tool()
    async def hang() -> str:
        """Never answer."""
        await trio.sleep_forever()
        raise AssertionError

    return server


if __name__ == "__main__":
    trio.run(make_server().run_stdio_async)
