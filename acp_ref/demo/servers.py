"""MCP servers for the demo's session: one that the agent starts, two that it reaches on the web of this machine.

https://agentclientprotocol.com/protocol/session-setup#mcp-servers
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final, final

import trio

import acp_ref
from acp_ref.demo import mcp_server
from acp_ref.schema import EnvVariable, HttpHeader

__all__ = ["WebServer", "offered", "open_web_servers"]

CLOSE_TIMEOUT: Final = 3.0
"""Seconds that a server has to go once its stdin ended, before it is killed."""


@final
class WebServer:
    """An MCP server over ``http`` or ``sse``, in a process of its own. Made by :func:`open_web_servers`."""

    def __init__(self, transport: str, process: trio.Process) -> None:
        self.transport: Final = transport
        self.process: Final = process
        self._line = b""

    async def url(self) -> str:
        """Its address, as soon as it has one. One task asks at a time.

        Raises:
          RuntimeError: it ended before.
        """
        stdout = self.process.stdout
        assert stdout is not None
        while not self._line.endswith(b"\n"):
            chunk = await stdout.receive_some()
            if not chunk:
                raise RuntimeError(f"the {self.transport} server ended before it told its address")
            self._line += chunk
        return self._line.decode().strip()


@asynccontextmanager
async def open_web_servers(token: str, *, cwd: str) -> AsyncGenerator[Sequence[WebServer], None]:
    """Start a server over HTTP and one over SSE, which demand ``token``; end them at the end of the ``with`` block.

    It does not wait until they can serve: they are ready once they have their addresses.
    """
    run = trio.run_process
    if sys.platform != "win32":
        run = partial(run, start_new_session=True)
    async with trio.open_nursery() as nursery, AsyncExitStack() as pipes:
        servers: list[WebServer] = []
        for transport in ("http", "sse"):
            process: trio.Process = await nursery.start(
                partial(
                    run,
                    [sys.executable, mcp_server.__file__, transport],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env=os.environ | {mcp_server.TOKEN_VARIABLE: token},
                    cwd=cwd,
                    check=False,
                )
            )
            assert process.stdin is not None
            assert process.stdout is not None
            await pipes.enter_async_context(process.stdout)
            await pipes.enter_async_context(process.stdin)
            servers.append(WebServer(transport, process))
        yield servers
        await pipes.aclose()  # they end when their stdin does
        with trio.move_on_after(CLOSE_TIMEOUT):
            for server in servers:
                await server.process.wait()
        nursery.cancel_scope.cancel()


async def offered(token: str, web_servers: Sequence[WebServer]) -> list[acp_ref.McpServer]:
    """The servers as a client gives them to its agent, the one for the agent to start first; each with its token.

    The names are those of the transports. Waits until the web servers have their addresses.
    """
    headers = [HttpHeader(name=mcp_server.TOKEN_HEADER, value=token)]
    servers: list[acp_ref.McpServer] = [
        acp_ref.McpServerStdio(
            name="stdio",
            command=sys.executable,
            args=[mcp_server.__file__, "stdio"],
            env=[EnvVariable(name=mcp_server.TOKEN_VARIABLE, value=token)],
        )
    ]
    for web_server in web_servers:
        kind = acp_ref.McpServerHttp if web_server.transport == "http" else acp_ref.McpServerSse
        servers.append(kind(name=web_server.transport, url=await web_server.url(), headers=headers))
    return servers
