"""What a client offers its agent, as the agent calls it: files, terminals, elicitation.

https://agentclientprotocol.com/protocol/file-system
https://agentclientprotocol.com/protocol/terminals
https://agentclientprotocol.com/protocol/elicitation

Every call is checked against what the client announced before anything is written; ask first with ``can_...`` where
there is another way (INIT-13).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, final

import attrs
import trio

from acp_ref.elicitation import OpenElicitations, accepted_content, check_url, consented
from acp_ref.elicitation_forms import check_form, lint_form
from acp_ref.errors import CapabilityError, LocalProtocolError, RemoteProtocolError, RequestError
from acp_ref.methods import (
    COMPLETE_ELICITATION,
    CREATE_ELICITATION,
    CREATE_TERMINAL,
    ELICITATION_GATES,
    KILL_TERMINAL,
    READ_TEXT_FILE,
    RELEASE_TERMINAL,
    TERMINAL_OUTPUT,
    WAIT_FOR_TERMINAL_EXIT,
    WRITE_TEXT_FILE,
)
from acp_ref.reports import Report, ReportKind
from acp_ref.roots import is_absolute
from acp_ref.schema import (
    ClientCapabilities,
    CreateTerminalRequest,
    CreateTerminalResponse,
    ElicitationContentValue,
    ElicitationFormRequest,
    ElicitationRequestScope,
    ElicitationSchema,
    ElicitationScope,
    ElicitationSessionScope,
    ElicitationUrlRequest,
    EnvVariable,
    KillTerminalRequest,
    ReadTextFileRequest,
    ReleaseTerminalRequest,
    SessionId,
    Terminal,
    TerminalExitStatus,
    TerminalId,
    TerminalOutputRequest,
    TerminalOutputResponse,
    ToolCallId,
    WaitForTerminalExitRequest,
    WriteTextFileRequest,
)

if TYPE_CHECKING:
    from acp_ref._jsonrpc import JSONObject
    from acp_ref.connection import Connection
    from acp_ref.requests import IncomingRequest, OutgoingRequest

__all__ = ["ClientServices", "RemoteTerminal"]

RELEASE_TIMEOUT = 5.0
"""Seconds that the client has to answer terminal/release when the agent gives a terminal back."""


@final
class ClientServices:
    """The client's services within one session."""

    meta: JSONObject | None
    """The ``_meta`` that every request here bears."""
    setup_request: IncomingRequest | None
    """The session/new that is not answered yet, so that the client knows of no session. Set by the library."""

    def __init__(
        self,
        connection: Connection,
        session_id: SessionId,
        elicitations: OpenElicitations,
        *,
        meta: JSONObject | None = None,
    ) -> None:
        self._connection = connection
        self._session_id = session_id
        self._elicitations = elicitations
        self.meta = meta
        self.setup_request = None

    def with_meta(self, meta: JSONObject | None) -> ClientServices:
        """The same services, with requests that bear ``meta``, such as a trace context (EXT-03)."""
        return ClientServices(self._connection, self._session_id, self._elicitations, meta=meta)

    @property
    def capabilities(self) -> ClientCapabilities:
        """What the client announced."""
        counterpart = self._connection.counterpart
        return counterpart if isinstance(counterpart, ClientCapabilities) else ClientCapabilities()

    @property
    def raw_capabilities(self) -> JSONObject:
        """What the client announced, as it came: with capabilities that this version does not know (INIT-15)."""
        raw = self._connection.introduction.get("clientCapabilities")
        return raw if isinstance(raw, dict) else {}

    @property
    def can_read_text_files(self) -> bool:
        """Whether :meth:`read_text_file` may be called (FS-01)."""
        return self.capabilities.fs.read_text_file

    @property
    def can_write_text_files(self) -> bool:
        """Whether :meth:`write_text_file` may be called (FS-01)."""
        return self.capabilities.fs.write_text_file

    @property
    def can_run_terminals(self) -> bool:
        """Whether :meth:`create_terminal` may be called (TERM-01)."""
        return self.capabilities.terminal

    async def read_text_file(self, path: str, *, line: int | None = None, limit: int | None = None) -> str:
        """The text of the file at the absolute ``path``, unsaved changes of the editor included (FS-03, FS-05).

        Args:
          line: the first line to read, counted from 1 (FS-04).
          limit: the most lines to read.

        Raises:
          CapabilityError: the client does not read files (FS-02).
          LocalProtocolError: ``path`` is not absolute, or ``line`` is 0. Nothing was sent.
          RequestError: the client refused; -32002 when there is no such file.
        """
        _check_absolute(path)
        if line == 0:
            raise LocalProtocolError("lines count from 1")  # GEN-10
        request = ReadTextFileRequest(session_id=self._session_id, path=path, line=line, limit=limit, meta=self.meta)
        return (await self._connection.request(READ_TEXT_FILE, request)).content

    async def write_text_file(self, path: str, content: str) -> None:
        """Write ``content`` to the absolute ``path``; the client creates the file when it is missing (FS-06).

        Raises:
          CapabilityError: the client does not write files (FS-02).
          LocalProtocolError: ``path`` is not absolute. Nothing was sent.
          RequestError: the client refused.
        """
        _check_absolute(path)
        request = WriteTextFileRequest(session_id=self._session_id, path=path, content=content, meta=self.meta)
        await self._connection.request(WRITE_TEXT_FILE, request)

    @asynccontextmanager
    async def create_terminal(
        self,
        command: str,
        args: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        output_byte_limit: int | None = None,
    ) -> AsyncGenerator[RemoteTerminal, None]:
        """Run ``command`` in a terminal of the client, for as long as the ``with`` block lasts.

        The terminal is released at the end of the block on every path (TERM-07, TERM-12), also when the turn is
        cancelled. Put it into a tool call before that (TOOL-14); the client keeps showing its output.

        Args:
          command: the program; ``args`` are its arguments. A shell line is yours to wrap in a shell.
          env: variables set in addition to the client's own.
          cwd: the absolute working directory, the session's by default.
          output_byte_limit: the most bytes of output that the client keeps; the oldest are dropped (TERM-04).

        Raises:
          CapabilityError: the client runs no terminals (TERM-02).
          LocalProtocolError: ``cwd`` is not absolute. Nothing was sent.
          RequestError: the client could not start it.
        """
        if cwd is not None:
            _check_absolute(cwd)  # TERM-03
        request = CreateTerminalRequest(
            session_id=self._session_id,
            command=command,
            args=[*args],
            env=[EnvVariable(name=name, value=value) for name, value in (env or {}).items()],
            cwd=cwd,
            output_byte_limit=output_byte_limit,
            meta=self.meta,
        )
        created: list[RemoteTerminal] = []

        def settle(settled: OutgoingRequest[CreateTerminalResponse]) -> None:
            if settled.error is None:
                terminal_id = settled.outcome().terminal_id
                terminal = RemoteTerminal(self._connection, self._session_id, terminal_id, self.meta)
                created.append(terminal)
                if settled.abandoned:  # cancelled before the answer: nobody else would release it (TERM-12)
                    self._connection.nursery.start_soon(terminal.aclose)

        await (await self._connection.send_request(CREATE_TERMINAL, request, on_settled=settle)).wait()
        (terminal,) = created
        try:
            yield terminal
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + RELEASE_TIMEOUT):
                await terminal.aclose()

    @property
    def can_elicit_forms(self) -> bool:
        """Whether :meth:`elicit_form` may be called (ELIC-05, ELIC-07)."""
        return ELICITATION_GATES[ElicitationFormRequest].is_open(self.capabilities)

    @property
    def can_elicit_urls(self) -> bool:
        """Whether :meth:`elicit_url` may be called (ELIC-05, ELIC-07)."""
        return ELICITATION_GATES[ElicitationUrlRequest].is_open(self.capabilities)

    def _scope(self, tool_call_id: ToolCallId | None) -> ElicitationScope:
        """What a question belongs to: the session, or the request that makes it (ELIC-09, D-42)."""
        if self.setup_request is not None:
            return ElicitationRequestScope(request_id=self.setup_request.id)
        return ElicitationSessionScope(session_id=self._session_id, tool_call_id=tool_call_id)

    async def elicit_form(
        self, message: str, schema: ElicitationSchema, *, tool_call_id: ToolCallId | None = None
    ) -> dict[str, ElicitationContentValue] | None:
        """Ask the user to fill in a form: what they filled in, or None when they did not agree (ELIC-24).

        Never ask for secrets this way, and there is no falling back to it from :meth:`elicit_url` (ELIC-15, ELIC-17).

        Raises:
          CapabilityError: the client shows no forms (ELIC-06). Nothing was sent.
          LocalProtocolError: the form is none that a client can show. Nothing was sent.
          RemoteProtocolError: the answer does not fit the form (ELIC-13).
          RequestError: the client refused.
        """
        if not self.can_elicit_forms:
            raise CapabilityError(CREATE_ELICITATION.name, ELICITATION_GATES[ElicitationFormRequest].path)
        check_form(schema)
        request = ElicitationFormRequest(
            message=message, scope=self._scope(tool_call_id), requested_schema=schema, meta=self.meta
        )
        for warning in lint_form(request):  # ELIC-15, ELIC-33
            self._connection.report(Report(kind=ReportKind.DEGRADED, method=CREATE_ELICITATION.name, reason=warning))
        return accepted_content(schema, await self._connection.request(CREATE_ELICITATION, request))

    @asynccontextmanager
    async def elicit_url(
        self, message: str, url: str, *, tool_call_id: ToolCallId | None = None
    ) -> AsyncGenerator[bool, None]:
        """Ask the user to open a page, for as long as the ``with`` block lasts: whether they agreed (ELIC-18, ELIC-23).

        At the end of a block that did not fail, the client is told that the page is done with (ELIC-27, ELIC-28).

        Raises:
          CapabilityError: the client opens no pages (ELIC-06). Nothing was sent.
          LocalProtocolError: the URL carries what it must not (ELIC-31). Nothing was sent.
          RequestError: the client refused.
        """
        if not self.can_elicit_urls:
            raise CapabilityError(CREATE_ELICITATION.name, ELICITATION_GATES[ElicitationUrlRequest].path)
        for warning in check_url(url):  # ELIC-32
            self._connection.report(Report(kind=ReportKind.DEGRADED, method=CREATE_ELICITATION.name, reason=warning))
        elicitation_id = self._elicitations.issue()
        scope = self._scope(tool_call_id)
        request = ElicitationUrlRequest(
            message=message, scope=scope, elicitation_id=elicitation_id, url=url, meta=self.meta
        )
        try:
            agreed = consented(await self._connection.request(CREATE_ELICITATION, request))
            yield agreed
            if agreed:
                await self._connection.notify(COMPLETE_ELICITATION, self._elicitations.completion(elicitation_id))
        finally:
            self._elicitations.drop(elicitation_id)


def _check_absolute(path: str) -> None:
    if not is_absolute(path):
        raise LocalProtocolError(f"the path {path!r} is not absolute")  # GEN-09


@final
@attrs.define(eq=False)
class RemoteTerminal:
    """A terminal of the client's that runs one command. Made by :meth:`ClientServices.create_terminal`."""

    _connection: Connection
    _session_id: SessionId
    id: TerminalId
    """What names it, within the session."""
    _meta: JSONObject | None = None
    released: bool = False
    """Whether it was given back."""

    def as_content(self) -> Terminal:
        """A reference to it for a tool call's content (TOOL-13); the client shows its output live.

        Raises:
          trio.ClosedResourceError: it was released already (TOOL-14).
        """
        if self.released:
            raise trio.ClosedResourceError("the terminal was released")
        return Terminal(terminal_id=self.id)

    async def output(self) -> TerminalOutputResponse:
        """What the command printed so far, and its exit status once it has ended (TERM-08). Does not wait for it."""
        request = TerminalOutputRequest(session_id=self._session_id, terminal_id=self.id, meta=self._meta)
        return await self._connection.request(TERMINAL_OUTPUT, request)

    async def wait_for_exit(self) -> TerminalExitStatus:
        """Wait until the command has ended (TERM-10), however long that takes; see :meth:`kill` (TERM-15)."""
        request = WaitForTerminalExitRequest(session_id=self._session_id, terminal_id=self.id, meta=self._meta)
        status = await self._connection.request(WAIT_FOR_TERMINAL_EXIT, request)
        return TerminalExitStatus(exit_code=status.exit_code, signal=status.signal)

    async def kill(self) -> None:
        """End the command; the terminal stays readable and must still be released (TERM-11, TERM-12)."""
        await self._connection.request(
            KILL_TERMINAL, KillTerminalRequest(session_id=self._session_id, terminal_id=self.id, meta=self._meta)
        )

    async def aclose(self) -> None:
        """Release the terminal: a command that still runs is killed, the id is no longer valid (TERM-13).

        Idempotent. Whatever the client answers, and the end of the connection, are the same as success: it is gone.
        """
        if self.released:
            return
        self.released = True
        request = ReleaseTerminalRequest(session_id=self._session_id, terminal_id=self.id, meta=self._meta)
        with suppress(RequestError, RemoteProtocolError, trio.BrokenResourceError, trio.ClosedResourceError):
            await self._connection.request(RELEASE_TERMINAL, request)
