"""The HTTP transports to an MCP server: streamable HTTP, and its predecessor SSE.

https://agentclientprotocol.com/protocol/session-setup#http-transport
https://agentclientprotocol.com/protocol/session-setup#sse-transport

Both are mcp's own. What is added here is the headers, and sight: mcp tells neither an HTTP status nor that a connection
is over, and over SSE a message that could not be posted leaves its caller waiting for ever. So the HTTP client notes
what goes wrong in the :class:`~acp_ref._mcp_types.TransportEnd`, and declares the end where there is no going on.

Reading has no deadline of its own: a tool may take its time, and an event stream may be silent for hours. Callers bound
their calls.

Importing this module imports mcp, half a second's work. See :mod:`acp_ref._mcp_connection`, which does it off the loop.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import anyio
import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import MCP_SESSION_ID, streamable_http_client

if TYPE_CHECKING:
    from contextvars import Context
    from types import TracebackType

    from httpx2._client import UseClientDefault
    from httpx2._types import AuthTypes
    from mcp.client._transport import ReadStream, TransportStreams, WriteStream
    from mcp.shared.message import SessionMessage

    from acp_ref._mcp_types import TransportEnd

TIMEOUT: Final = httpx2.Timeout(30.0, read=None)
"""Seconds to connect, to write, and to wait for a free connection."""

TLS: Final = httpx2.create_ssl_context()
"""One for all connections: to read the certificates takes a tenth of a second, here and now off the loop."""

HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
HEADER_VALUE: Final = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")


class WatchedClient(httpx2.AsyncClient):
    """The HTTP client of one connection, whose every request carries ``headers``, in order, duplicates kept (SETUP-33).

    Raises:
      ValueError: a header that HTTP cannot carry. Its value is not in the text.
    """

    def __init__(self, headers: Sequence[tuple[str, str]], end: TransportEnd, *, sse: bool) -> None:
        for name, value in headers:
            if not HEADER_NAME.fullmatch(name) or not HEADER_VALUE.fullmatch(value):
                raise ValueError(f"the header {name!r} is not legal in HTTP")
        super().__init__(
            headers=[(name.encode(), value.strip(" \t").encode("utf-8", "replace")) for name, value in headers],
            timeout=TIMEOUT,
            verify=TLS,
        )
        self._end = end
        self._sse = sse

    async def send(
        self,
        request: httpx2.Request,
        *,
        stream: bool = False,
        auth: AuthTypes | UseClientDefault | None = httpx2.USE_CLIENT_DEFAULT,
        follow_redirects: bool | UseClientDefault = httpx2.USE_CLIENT_DEFAULT,
    ) -> httpx2.Response:
        """Send ``request``, and note what became of it where that tells of the connection."""
        # Servers need not have the GET stream of streamable HTTP, nor allow DELETE: only messages count there.
        counts = self._sse or request.method == "POST"
        try:
            response = await super().send(request, stream=stream, auth=auth, follow_redirects=follow_redirects)
        except httpx2.TransportError as exc:
            if counts:
                self._end.reason = f"it cannot be reached: {str(exc) or type(exc).__name__}"
                self._end.reached.set()
            raise
        if counts:
            status = response.status_code
            failed = status >= 400
            phrase = response.reason_phrase or httpx2.codes.get_reason_phrase(status)
            self._end.reason = f"HTTP {status} {phrase}" if failed else ""
            session_gone = status == 404 and MCP_SESSION_ID in request.headers
            if (failed and self._sse) or session_gone:
                self._end.reached.set()
        return response


class WatchedStream:
    """mcp's stream of messages from the server, which here tells when it is over."""

    def __init__(self, stream: ReadStream[SessionMessage | Exception], end: TransportEnd) -> None:
        self._stream = stream
        self._end = end

    @property
    def last_context(self) -> Context | None:
        """The context in which the last message was sent, which mcp looks up by this name."""
        context: Context | None = getattr(self._stream, "last_context", None)
        return context

    async def receive(self) -> SessionMessage | Exception:
        """The next message, or what stood in the place of one."""
        try:
            return await self._stream.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._end.reached.set()
            raise

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    def __aiter__(self) -> WatchedStream:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> WatchedStream:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


@asynccontextmanager
async def http_transport(
    url: str, headers: Sequence[tuple[str, str]], *, end: TransportEnd
) -> AsyncGenerator[TransportStreams, None]:
    """Yield the streams of messages from and to the streamable HTTP server at ``url``.

    Left without a cancellation, it ends the MCP session with a DELETE.
    """
    async with (
        WatchedClient(headers, end, sse=False) as client,  # mcp does not close a client it was given
        streamable_http_client(url, http_client=client) as (read, write),
    ):
        yield WatchedStream(read, end), write


@asynccontextmanager
async def sse_transport(
    url: str, headers: Sequence[tuple[str, str]], *, end: TransportEnd
) -> AsyncGenerator[TransportStreams, None]:
    """Yield the streams of messages from and to the server whose SSE endpoint is at ``url``."""

    def open_client(
        headers: dict[str, str] | None = None, timeout: httpx2.Timeout | None = None, auth: httpx2.Auth | None = None
    ) -> httpx2.AsyncClient:
        return WatchedClient(pairs, end, sse=True)

    pairs = headers
    read: ReadStream[SessionMessage | Exception]
    write: WriteStream[SessionMessage]
    async with sse_client(url, httpx_client_factory=open_client) as (read, write):
        yield WatchedStream(read, end), write
