"""The connection to one MCP server: its task, its states and its end.

https://agentclientprotocol.com/protocol/session-setup#mcp-servers

Theory of operation. What mcp opens, the same task must close; and an error in one of its transports cancels whatever
stands around it. So each :class:`McpConnection` has a task of its own that enters *and* leaves mcp's context
(``_own``), in a scope shielded from everything around it. Beside it :meth:`McpConnection.run` watches from outside:

* at the deadline it reports the failure and cancels the scope; a server that will not go is then ended in its own time,
  while the session is already being answered;
* when the session ends, by :meth:`McpConnection.aclose` or by cancellation alike, it asks ``_own`` to leave in good
  order (an HTTP server is sent its DELETE, a process sees its stdin close) and gives it ``close_timeout`` for that.

So no server can fail the session or another server, nothing outlives :meth:`McpConnection.run`, and no wait is
unbounded. The state of a connection only moves forward::

    connecting -> ready -> closed          connecting -> failed          ready -> failed
                                           connecting -> closed

Whatever is told of a failure (:attr:`McpConnection.failure`, reports, ``_meta``) is free of the values of environment
variables and headers, also where the server itself said them.

mcp is slow to import (half a second, 40 MiB). It is imported in a thread, and only when a session has a server.
"""

from __future__ import annotations

import importlib
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal, cast
from urllib.parse import urlsplit

import trio

from acp_ref._jsonrpc import JSONObject, dumps_checked, loads
from acp_ref._mcp_types import (
    Handshake,
    McpRequestError,
    McpState,
    McpTool,
    McpToolResult,
    McpUnavailable,
    TransportEnd,
)
from acp_ref.reports import EXCERPT, Report, ReportKind, log_report
from acp_ref.schema import Implementation, McpServer, McpServerSse, McpServerStdio

if TYPE_CHECKING:
    from mcp.client import Client
    from mcp_types import RequestParamsMeta

DEFAULT_CONNECT_TIMEOUT: Final = 15.0
"""Seconds a server has to start, agree on a version and list its tools. ``npx`` may have to download it first."""

DEFAULT_CLOSE_TIMEOUT: Final = 2.0
"""Seconds a server has to end in good order: one once its stdin is closed, one more after SIGTERM. An agent that is
itself killed meanwhile leaves the rest of them behind, so all this must take less than clients give their agents."""

STDERR_CHARACTERS: Final = 1000
"""How much of the end of a server's stderr is told: enough for the last error, too little to flood a screen."""

LEAST_SECRET: Final = 4
"""Values shorter than this keep no secret, and to hide each ``1`` would garble every text."""

INHERITED: Final = re.compile(
    "HOME|LANG|LANGUAGE|LC_.*|LOGNAME|PATH|SHELL|TERM|TMPDIR|TZ|USER"
    "|APPDATA|COMSPEC|HOMEDRIVE|HOMEPATH|LOCALAPPDATA|PATHEXT|PROCESSOR_ARCHITECTURE|PROGRAMDATA|PROGRAMFILES"
    "|SYSTEMDRIVE|SYSTEMROOT|TEMP|TMP|USERNAME|USERPROFILE|WINDIR"
)
"""The names of the variables in :func:`safe_environment`, POSIX's and Windows'."""

REFUSALS: Final = frozenset({-32022, -32600, -32601, -32602})
"""The codes with which a server refuses a handshake it does not know: MCP's own for the version, and JSON-RPC's."""


_NOT_CONNECTED: Final = {
    McpState.CONNECTING: "it is not connected yet",
    McpState.READY: "the connection was lost",
    McpState.FAILED: "the connection failed",
    McpState.CLOSED: "the connection is closed",
}


def safe_environment() -> dict[str, str]:
    """What a stdio server inherits of our environment: what programs need to run, none of our keys and tokens."""
    return {name: value for name, value in os.environ.items() if INHERITED.fullmatch(name)}


class McpConnection:
    """The connection to one MCP server. Made and run by :class:`McpServers`."""

    server: Final[McpServer]
    """The server, as the client named it."""

    def __init__(
        self,
        server: McpServer,
        *,
        cwd: str,
        connect_timeout: float = DEFAULT_CONNECT_TIMEOUT,
        close_timeout: float = DEFAULT_CLOSE_TIMEOUT,
        inherit: Mapping[str, str] | None = None,
        client_info: Implementation | None = None,
        on_report: Callable[[Report], None] = log_report,
    ) -> None:
        self.server = server
        self._cwd = cwd
        self._connect_timeout = connect_timeout
        self._close_timeout = close_timeout
        self._inherit = inherit
        self._client_info = client_info
        self._on_report = on_report
        self._secrets = _secrets(server)
        self._state = McpState.CONNECTING
        self._failure: str | None = None
        self._tools: tuple[McpTool, ...] = ()
        self._client: Client | None = None
        self._end = TransportEnd()
        self._scope = trio.CancelScope(shield=True)
        self._running = False
        self._tried = trio.Event()  # ready, failed or closed
        self._stopping = trio.Event()  # failed or closed
        self._ended = trio.Event()  # and nothing is left open

    def __repr__(self) -> str:
        return f"<McpConnection {self.name!r}: {self._state.value}>"  # and not what is in the server's env or headers

    @property
    def name(self) -> str:
        """The server's name, a label for people (SETUP-26): two servers may have the same."""
        return self.server.name

    @property
    def state(self) -> McpState:
        """Where the connection stands."""
        return self._state

    @property
    def failure(self) -> str | None:
        """Why it failed, for a person to read: what could not be started, the exit status and the end of stderr, the
        HTTP status, the error it answered with, or the deadline it missed. None in all other states."""
        return self._failure

    @property
    def tools(self) -> Sequence[McpTool]:
        """The tools it offers, empty until it is ready. They follow the server's notice that they changed."""
        return self._tools

    @property
    def client(self) -> Client:
        """The ``mcp.client.Client``, for all that is not here: resources, prompts, progress.

        Raises:
          McpUnavailable: the connection is not ready.
        """
        if self._client is None:
            raise McpUnavailable(self._describe())
        return self._client

    async def wait_tried(self) -> McpState:
        """Wait until it is ready, or has failed or was closed before it was; at most ``connect_timeout``."""
        await self._tried.wait()
        return self._state

    async def call_tool(
        self,
        name: str,
        arguments: JSONObject | None = None,
        *,
        timeout: float = math.inf,
        meta: JSONObject | None = None,
    ) -> McpToolResult:
        """Call the tool ``name``. Safe in any task; a cancelled caller has the server told that nobody waits any more.

        Args:
          timeout: seconds to wait for the answer.
          meta: the ``_meta`` of the call, such as :attr:`PromptTurn.trace_meta` (EXT-03).

        Raises:
          McpUnavailable: the server is not connected, or was lost before it answered.
          McpRequestError: it answered with an error, such as that there is no such tool.
          trio.TooSlowError: no answer within ``timeout`` seconds.
          ValueError: ``arguments`` or ``meta`` are not JSON.
        """
        client, end = self.client, self._end
        plain, plain_meta = _plain(arguments or {}), _plain(meta or {})
        from acp_ref import _mcp_client

        try:
            with trio.fail_after(timeout):
                result = await client.call_tool(name, plain, meta=cast("RequestParamsMeta", plain_meta) or None)
            return _mcp_client.tool_result(result)
        except trio.TooSlowError:
            raise
        except Exception as exc:
            if self._client is client and not end.reached.is_set():
                text = self._hide(f"{self.name}: {_mcp_client.error_text(exc)}")
                if _mcp_client.is_answer_lost(exc):
                    raise McpUnavailable(text) from None
                raise McpRequestError(text, _mcp_client.error_code(exc)) from None
            await self._stopping.wait()  # at once, or as soon as mcp has unwound
            raise McpUnavailable(self._describe()) from None  # mcp's own may quote what is to be hidden

    # ------------------------------------------------------------------------------------------------- its whole life

    async def run(self) -> None:
        """Own the connection from beginning to end, which :meth:`aclose`, a failure or cancellation bring."""
        if self._stopping.is_set():
            return
        self._running = True
        self._report_oddities()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._own)
            try:
                with trio.move_on_after(self._connect_timeout):
                    await self._tried.wait()
                if not self._tried.is_set():
                    self._fail(f"no answer within {self._connect_timeout:g} s")
                    self._scope.cancel()
                await self._ended.wait()
            finally:
                self._stop()

    async def aclose(self) -> None:
        """End the connection and wait until nothing of it is left. Idempotent, from any task.

        When cancelled, the connection still ends, only without this task waiting for it.
        """
        self._stop()
        if self._running:
            await self._ended.wait()
        else:
            await trio.lowlevel.checkpoint()

    def _stop(self) -> None:
        if self._state is McpState.CONNECTING:
            self._scope.cancel()
        elif self._state is McpState.READY:
            self._scope.deadline = trio.current_time() + self._close_timeout
        self._leave(McpState.CLOSED)

    def _fail(self, reason: str) -> None:
        if self._stopping.is_set():
            return
        self._failure = self._hide(reason)
        if tail := self._hide(self._end.stderr_tail()).strip()[-STDERR_CHARACTERS:]:
            self._failure += f"; stderr: {tail}"
        self._leave(McpState.FAILED)
        self._report(ReportKind.DEGRADED, f"failed: {self._failure}")

    def _leave(self, state: Literal[McpState.FAILED, McpState.CLOSED]) -> None:
        """Go to ``state``, unless the connection already failed or was closed."""
        if not self._stopping.is_set():
            self._state = state
            self._client = None
            self._stopping.set()
            self._tried.set()

    async def _own(self) -> None:
        """Enter and leave mcp's context, in this one task."""
        try:
            with self._scope:
                await self._connect()
        except Exception as exc:  # mcp's groups of them included, as the scope has taken all cancellation out
            self._fail_with(exc)
        finally:
            self._leave(McpState.CLOSED)
            self._ended.set()

    async def _connect(self) -> None:
        try:
            await trio.to_thread.run_sync(importlib.import_module, "acp_ref._mcp_client")
        except Exception as exc:
            return self._fail(f"the mcp package cannot be imported: {exc}")
        from acp_ref import _mcp_client

        # First `initialize`: all but the servers of MCP 2026-07-28 alone answer it, and some exit, or never answer,
        # when anything else comes first. Those few refuse it, and are asked in their own way over a fresh transport.
        try:
            await self._hold("legacy")
        except Exception as exc:
            if self._state is not McpState.CONNECTING or _mcp_client.error_code(exc) not in REFUSALS:
                raise
            await self._hold("auto")

    def _fail_with(self, exc: Exception) -> None:
        from acp_ref import _mcp_client

        reason = _mcp_client.error_text(exc)
        if self._end.reason:  # an HTTP status says less than the error in its body, all else says more
            reason = f"{self._end.reason} ({reason})" if _mcp_client.error_code(exc) else self._end.reason
        if self._state is McpState.CLOSED:
            self._report(ReportKind.DEGRADED, f"did not close in good order: {self._hide(reason)}")
        self._fail(reason)

    async def _hold(self, handshake: Handshake) -> None:
        """Connect over a fresh transport, and stay until the connection is closed or its transport ends."""
        from acp_ref import _mcp_client

        end = self._end = TransportEnd()
        changes, changed = trio.open_memory_channel[None](1)

        def on_tools_changed() -> None:
            with suppress(trio.WouldBlock):
                changes.send_nowait(None)

        async def follow_tools(client: Client) -> None:
            async for _ in changed:
                try:
                    self._tools = await _mcp_client.list_tools(client)
                except Exception as exc:
                    if not self._stopping.is_set():
                        why = self._hide(_mcp_client.error_text(exc))
                        self._report(ReportKind.DEGRADED, f"did not list its tools again: {why}")

        async def follow_end(scope: trio.CancelScope) -> None:
            await end.reached.wait()
            if not self._stopping.is_set():  # else it is our own closing, which is to go on in good order
                self._fail(end.reason or "it closed the connection")
                scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow_end, nursery.cancel_scope)
            async with _mcp_client.open_client(
                self.server,
                handshake=handshake,
                cwd=self._cwd,
                inherit=safe_environment() if self._inherit is None else self._inherit,
                client_info=self._client_info,
                end=end,
                on_junk=self._report_junk,
                on_tools_changed=on_tools_changed,
                close_timeout=self._close_timeout,
            ) as client:
                self._tools = await _mcp_client.list_tools(client)
                nursery.start_soon(follow_tools, client)
                try:
                    if not self._stopping.is_set():
                        self._client = client
                        self._state = McpState.READY
                        self._tried.set()
                    await self._stopping.wait()
                finally:
                    self._client = None
            nursery.cancel_scope.cancel()

    # ------------------------------------------------------------------------------------------------- what is told

    def _report_junk(self, junk: bytes) -> None:
        text = junk[: 16 * EXCERPT].decode("utf-8", "surrogateescape")
        excerpt = self._hide(text).encode("utf-8", "surrogateescape")[:EXCERPT]
        self._report(ReportKind.JUNK, "sent what is no message", excerpt)

    def _report_oddities(self) -> None:
        if isinstance(self.server, McpServerStdio):
            for name, times in Counter(variable.name for variable in self.server.env).items():
                if times > 1:
                    self._report(ReportKind.SALVAGED, f"has {times} values for {name} in its env; the last one counts")
        elif isinstance(self.server, McpServerSse):
            # No DeprecationWarning: those are for the program's author, who did not choose the client's servers.
            self._report(ReportKind.DEGRADED, "uses SSE, a transport that MCP has deprecated")  # SETUP-35

    def _report(self, kind: ReportKind, what: str, excerpt: bytes = b"") -> None:
        self._on_report(Report(kind=kind, reason=f"MCP server {self.name!r} {what}", excerpt=excerpt))

    def _describe(self) -> str:
        return f"{self.name}: {self._failure or _NOT_CONNECTED[self._state]}"

    def _hide(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "[hidden]")
        return text


def _secrets(server: McpServer) -> list[str]:
    """What must not be told of ``server``, the longest first: values whole, and the words of a header's value."""
    secrets: set[str] = set()
    if isinstance(server, McpServerStdio):
        secrets.update(variable.value for variable in server.env)
    else:
        for header in server.headers:
            secrets.update([header.value, *header.value.split()])
        with suppress(ValueError):
            url = urlsplit(server.url)
            secrets.update([url.query, url.password or ""])
    return sorted((secret for secret in secrets if len(secret) >= LEAST_SECRET), key=len, reverse=True)


def _plain(value: JSONObject) -> JSONObject:
    """``value`` as a peer would read it: a lone surrogate, for one, would break the transport for all."""
    read = loads(dumps_checked(value))
    assert isinstance(read, dict)
    return read
