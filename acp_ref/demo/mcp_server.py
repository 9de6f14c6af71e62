"""An MCP server for the demo: one tool, over stdio, streamable HTTP or SSE.

https://agentclientprotocol.com/protocol/session-setup#mcp-servers

``python -m acp_ref.demo.mcp_server stdio|http|sse`` knows nothing of ACP, and nothing of this package: it also runs as
a plain file, from any directory. It demands a token, to show that what a client gives for a server arrives there: as a
variable of its environment over stdio (SETUP-30), as a header of every request over HTTP and SSE (SETUP-33, SETUP-37),
which are answered 401 without it. What it says of the token is a fingerprint.

Over HTTP and SSE it listens on a free port of 127.0.0.1, prints its address as one line, and ends when its stdin does,
so that it cannot outlive whoever started it.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import socket
import sys
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import uvicorn
    from mcp.server.mcpserver import MCPServer
    from starlette.applications import Starlette
    from starlette.types import ASGIApp, Receive, Scope, Send

# mcp is imported where a server is made: the demo takes the names below from here and need not wait for it.

TOKEN_VARIABLE: Final = "ACP_REF_DEMO_TOKEN"
"""The variable with the token: of the session over stdio, of the one who starts the server otherwise."""

TOKEN_HEADER: Final = "X-Demo-Token"
"""The header with the token, over HTTP and SSE."""

CLOSE_TIMEOUT: Final = 1
"""Seconds that open connections may hold up the end of the server."""


def greeting(name: str, transport: str, cwd: str, token: str) -> str:
    """What the tool answers: who speaks, where it runs, and a fingerprint of the token it was given."""
    fingerprint = hashlib.sha256(token.encode()).hexdigest()[:8]
    return f"Hello {name}, from the {transport} server in {cwd} (token {fingerprint})"


def make_server(transport: str, token: str) -> MCPServer[object]:
    """The server, whatever it is served over."""
    from mcp.server.mcpserver import MCPServer

    server = MCPServer[object](f"demo-{transport}", log_level="ERROR")

    @server.tool()
    def greet(name: str) -> str:
        """Greet somebody, and tell where the greeting comes from."""
        return greeting(name, transport, os.getcwd(), token)

    return server


def serve_stdio(token: str) -> None:
    """Serve on stdin and stdout until stdin ends."""
    import trio

    trio.run(make_server("stdio", token).run_stdio_async)


def serve_web(transport: str, token: str) -> None:
    """Serve ``http`` or ``sse`` on a free port until stdin ends."""
    import uvicorn

    server = make_server(transport, token)
    app, path = (server.streamable_http_app(), "/mcp") if transport == "http" else (server.sse_app(), "/sse")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        web = uvicorn.Server(
            uvicorn.Config(_only_with(token, app), log_level="critical", timeout_graceful_shutdown=CLOSE_TIMEOUT)
        )
        threading.Thread(target=_end_with_stdin, args=[web], daemon=True).start()
        print(f"http://127.0.0.1:{listener.getsockname()[1]}{path}", flush=True)
        web.run(sockets=[listener])


def _only_with(token: str, app: Starlette) -> ASGIApp:
    """``app``, with 401 for every request that has not the token in its header."""
    from starlette.responses import PlainTextResponse

    header = (TOKEN_HEADER.lower().encode(), token.encode())

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and header not in scope["headers"]:
            await PlainTextResponse(f"no valid {TOKEN_HEADER}", status_code=401)(scope, receive, send)
        else:
            await app(scope, receive, send)

    return guarded


def _end_with_stdin(web: uvicorn.Server) -> None:
    while os.read(0, 4096):
        pass
    web.should_exit = True


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="An MCP server for the demo.")
    parser.add_argument("transport", choices=["stdio", "http", "sse"])
    transport: str = parser.parse_args().transport
    token = os.environ.get(TOKEN_VARIABLE)
    if not token:
        sys.exit(f"{TOKEN_VARIABLE} is not set")
    if transport == "stdio":
        serve_stdio(token)
    else:
        serve_web(transport, token)


if __name__ == "__main__":
    main()
