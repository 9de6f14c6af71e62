"""The stdio transport to an MCP server: JSON-RPC lines over the pipes of a process we start.

https://agentclientprotocol.com/protocol/session-setup#stdio-transport

It stands in for mcp's own, which loses grandchildren whose parent went first, hides why a server ended, and reads lines
without bound. Two tasks carry messages, one per direction, a third waits for the process to exit and a fourth drains
its stderr. When a direction ends or the process is gone, the exchange is over, and the reason is told *before* mcp can
see the end of its stream: whoever waits for an answer of this server is woken with that reason in place.

Importing this module imports mcp, half a second's work. See :mod:`acp_ref._mcp_connection`, which does it off the loop.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import anyio
import trio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from acp_ref._framing import FrameBuffer, OversizedFrame
from acp_ref._processes import open_child

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

    from acp_ref._mcp_types import TransportEnd

MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""64 MiB: tool results carry images and files inline, and a server that never ends its line must not fill memory."""

TOO_LONG: Final = "it wrote a line of more than 64 MiB"

LAST_WORDS: Final = 0.5
"""Seconds a server that closed a pipe has to exit and finish its stderr, so that the reason can tell of both."""


@asynccontextmanager
async def stdio_transport(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str,
    end: TransportEnd,
    on_junk: Callable[[bytes], None],
    close_timeout: float,
) -> AsyncGenerator[TransportStreams, None]:
    """Start ``command`` and yield the streams of messages from and to it.

    On the way out, however that is, the process and its group are ended: half of ``close_timeout`` to go when stdin
    closes, the other half after SIGTERM, then SIGKILL. ``on_junk`` is told of each line that is no message.

    Raises:
      OSError, ValueError: the process cannot be started.
    """
    try:
        process = await open_child(command, env=env, cwd=cwd)
    except OSError as exc:
        if exc.filename == cwd:
            raise type(exc)(exc.errno, f"{exc.strerror}, the session's working directory", cwd) from None
        raise
    # No checkpoint from here to the try: a cancellation would lose the process.
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None
    end.stderr_tail = lambda: process.stderr_tail
    to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_server, from_session = anyio.create_memory_object_stream[SessionMessage](0)

    async def receive() -> str | None:
        frames = FrameBuffer(MAX_LINE_BYTES)
        unfinished = 0  # bytes of a line that has not ended yet
        async for chunk in stdout:
            for frame in frames.feed(bytes(chunk)):
                if isinstance(frame, OversizedFrame):
                    return TOO_LONG
                try:
                    message = jsonrpc_message_adapter.validate_json(frame, by_name=False)
                except ValueError:  # pydantic's, for what is not JSON, not UTF-8 or not JSON-RPC
                    on_junk(frame)
                else:
                    await to_session.send(SessionMessage(message))
            last_newline = chunk.rfind(b"\n")
            unfinished = len(chunk) - 1 - last_newline + (unfinished if last_newline < 0 else 0)
            if unfinished > MAX_LINE_BYTES:
                return TOO_LONG
        return "it closed its stdout"

    async def send() -> str | None:
        async for item in from_session:
            line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
            try:
                await stdin.send_all(line)
            except trio.BrokenResourceError:
                return "it closed its stdin"
        return None

    async def outlive() -> str | None:
        await process.wait()
        await trio.sleep(LAST_WORDS)  # stdout ends by then, unless a child of the server holds it
        return ""

    async def exchange() -> None:
        reason: str | None = None  # none when it is we who close
        async with trio.open_nursery() as ways:

            async def until(way: Callable[[], Awaitable[str | None]]) -> None:
                nonlocal reason
                with suppress(trio.ClosedResourceError, anyio.BrokenResourceError):
                    reason = await way()
                ways.cancel_scope.cancel()

            for way in (receive, send, outlive):
                ways.start_soon(until, way)
        if reason is not None:
            with trio.move_on_after(LAST_WORDS):
                await process.wait()
                await process.wait_stderr_ended()
            end.reason = reason if process.returncode is None else f"it ended with {process.exit_reason()}"
            end.reached.set()
        to_session.close()

    with to_session, from_server, to_server, from_session:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(process.drain_stderr)
            nursery.start_soon(exchange)
            try:
                yield from_server, to_server
            finally:
                await process.shutdown(stdin_grace=close_timeout / 2, term_grace=close_timeout / 2)
                nursery.cancel_scope.cancel()
