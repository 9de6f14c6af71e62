"""Client: the description of a client, and its side of one connection.

https://agentclientprotocol.com/protocol/overview#client

A :class:`Client` is data: who it is, the function that asks the user for permission, and what else it offers the
agent. What it announces in ``initialize`` is derived from that (GEN-07). :func:`open_agent_process` starts an agent and
initializes it; :func:`open_agent` does the same over any transport.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, final

import attrs
import trio

from acp_ref.agent_process import open_agent_transport
from acp_ref.client_handlers import add_services
from acp_ref.client_session import ClientSession
from acp_ref.connection import Connection, FrameHook, open_connection
from acp_ref.elicitation import OpenElicitations
from acp_ref.errors import (
    CapabilityError,
    LocalProtocolError,
    RemoteProtocolError,
    RequestError,
    UnsupportedProtocolVersion,
)
from acp_ref.file_system import FileSystem
from acp_ref.handlers import Handlers
from acp_ref.methods import (
    ADDITIONAL_DIRECTORIES_GATE,
    AUTHENTICATE,
    CLIENT,
    DELETE_SESSION,
    INITIALIZE,
    LIST_SESSIONS,
    LOAD_SESSION,
    LOGOUT,
    MCP_SERVER_GATES,
    NEW_SESSION,
    RESUME_SESSION,
    SESSION_UPDATE,
)
from acp_ref.reports import Report, ReportKind, log_report
from acp_ref.roots import Roots, distinct_directories
from acp_ref.schema import (
    AgentCapabilities,
    AuthCapabilities,
    AuthenticateRequest,
    AuthMethod,
    AuthMethodAgent,
    AuthMethodId,
    BooleanConfigOptionCapabilities,
    ClientCapabilities,
    ClientSessionCapabilities,
    CompactionCapabilities,
    DeleteSessionRequest,
    ElicitationCapabilities,
    ElicitationFormCapabilities,
    ElicitationUrlCapabilities,
    FileSystemCapabilities,
    Implementation,
    InitializeRequest,
    InitializeResponse,
    ListSessionsRequest,
    LoadSessionRequest,
    LoadSessionResponse,
    LogoutRequest,
    McpServer,
    NewSessionRequest,
    NewSessionResponse,
    NoticeCapabilities,
    ProtocolVersion,
    ResumeSessionRequest,
    ResumeSessionResponse,
    SessionConfigOptionsCapabilities,
    SessionId,
    SessionInfo,
    SessionNotification,
    SessionUpdate,
)

if TYPE_CHECKING:
    from acp_ref._jsonrpc import JSONObject
    from acp_ref.elicitation import AskForm, AskUrl
    from acp_ref.permissions import AskPermission
    from acp_ref.requests import OutgoingRequest
    from acp_ref.terminals import LocalTerminal
    from acp_ref.transports import Transport

__all__ = ["Client", "ClientSide", "open_agent", "open_agent_process"]

PROTOCOL_VERSION: Final = ProtocolVersion(1)
"""The newest protocol version spoken here (INIT-08)."""

CLOSE_TIMEOUT: Final = 30.0
"""Seconds that the agent has to close a session when its ``with`` block ends."""

MAX_EARLY_UPDATES: Final = 10_000
"""Updates kept for sessions whose session/new is not answered yet (D-09): far more than any agent sends there, and few
enough that an agent which never answers costs bounded memory."""


@final
@attrs.frozen(kw_only=True, eq=False)
class Client:
    """A client: data from which it is served to agents."""

    name: str
    """Who it is, for programs (INIT-03)."""
    version: str
    """Its version."""
    request_permission: AskPermission
    """Asks the user whether a tool may run; returns the option that was chosen, or None (GEN-06, PERM-07)."""
    title: str | None = None
    """Who it is, for people (INIT-28)."""
    file_system: FileSystem | None = None
    """Reads and writes text files for the agent, inside the roots of each session; announced when given."""
    read_only: bool = False
    """Whether ``file_system`` only reads: the two switches are independent (INIT-17)."""
    terminals: bool = False
    """Whether the agent may run commands in terminals here; all five methods are served then (INIT-18)."""
    on_terminal: Callable[[ClientSession, LocalTerminal], None] | None = None
    """Told of every change of a terminal, for the application to show it live (TERM-16)."""
    elicit_form: AskForm | None = None
    """Shows a form to the user; announced when given (ELIC-05)."""
    elicit_url: AskUrl | None = None
    """Asks the user to open a URL; announced when given (ELIC-05)."""
    on_update: Callable[[ClientSession, SessionUpdate], None] | None = None
    """Told of every update, in wire order, in turns, between them and in a replay (``session.replaying``)."""
    notices: bool = True
    """Whether notices may be sent here; ``session.state`` keeps them."""
    compaction: bool = True
    """Whether compactions may be reported here; ``session.state`` shows them."""
    boolean_config_options: bool = True
    """Whether config options that are on or off may be sent here."""
    terminal_login: bool = False
    """Whether the application runs terminal logins (AUTH-05); see :func:`acp_ref.authentication.terminal_login`."""
    extensions: Handlers | None = None
    """Handlers of methods that begin with an underscore (EXT-06)."""
    meta: JSONObject | None = None
    """The ``_meta`` of its capabilities, where extensions announce themselves (INIT-30)."""

    def capabilities(self) -> ClientCapabilities:
        """What it announces: every capability by name (INIT-16), each because there is something behind it."""
        files = self.file_system is not None
        return ClientCapabilities(
            fs=FileSystemCapabilities(read_text_file=files, write_text_file=files and not self.read_only),
            terminal=self.terminals,
            session=ClientSessionCapabilities(
                compaction=CompactionCapabilities() if self.compaction else None,
                config_options=SessionConfigOptionsCapabilities(
                    boolean=BooleanConfigOptionCapabilities() if self.boolean_config_options else None
                ),
                notices=NoticeCapabilities() if self.notices else None,
            ),
            auth=AuthCapabilities(terminal=self.terminal_login),
            elicitation=ElicitationCapabilities(
                form=ElicitationFormCapabilities() if self.elicit_form is not None else None,
                url=ElicitationUrlCapabilities() if self.elicit_url is not None else None,
            ),
            meta=self.meta,
        )


@final
class ClientSide:
    """One client at one end of one connection: what the application holds of the agent.

    Made and initialized by :func:`open_agent` and :func:`open_agent_process`.
    """

    connection: Connection
    """The connection, for extension methods and statistics."""
    elicitations: OpenElicitations
    """The URL elicitations the user agreed to and that are not complete yet."""

    def __init__(
        self,
        client: Client,
        transport: Transport,
        *,
        on_report: Callable[[Report], None] = log_report,
        on_frame: FrameHook | None = None,
    ) -> None:
        self._client = client
        self._sessions: dict[SessionId, ClientSession] = {}
        self._opening = 0
        self._early: list[SessionNotification] = []
        self._initialized: InitializeResponse | None = None
        self.elicitations = OpenElicitations()
        handlers = Handlers()
        if client.extensions is not None:
            handlers.update(client.extensions)
        handlers.on_notification(SESSION_UPDATE, self._update)
        add_services(handlers, client, self)
        self.connection = Connection(transport, CLIENT, handlers, on_report=on_report, on_frame=on_frame)
        self.connection.when_ended(self.elicitations.close)

    def __repr__(self) -> str:
        name = None if self._initialized is None or self.info is None else self.info.name
        return f"<ClientSide of agent {name!r} with {len(self._sessions)} sessions>"

    # ---------------------------------------------------------------------------------------------- initialization

    async def initialize(self) -> InitializeResponse:
        """Agree on a version and learn what the agent can do. Called once, before anything else (INIT-01, INIT-29).

        Raises:
          UnsupportedProtocolVersion: the agent answered with a version not spoken here; the connection is closed.
          RequestError, RemoteProtocolError, trio.BrokenResourceError: see :meth:`Connection.request`.
        """
        client = self._client
        request = InitializeRequest(
            protocol_version=PROTOCOL_VERSION,  # INIT-02, INIT-08
            client_capabilities=client.capabilities(),
            client_info=Implementation(name=client.name, title=client.title, version=client.version),  # INIT-03
        )
        response = await (
            await self.connection.send_request(INITIALIZE, request, on_settled=self._settle_initialize)
        ).wait()
        if response.protocol_version != PROTOCOL_VERSION:
            await self.connection.aclose()  # INIT-11
            raise UnsupportedProtocolVersion(response.protocol_version)
        return response

    def _settle_initialize(self, request: OutgoingRequest[InitializeResponse]) -> None:
        if request.error is None:
            self._initialized = request.outcome()
            self.connection.counterpart = self._initialized.agent_capabilities

    @property
    def agent(self) -> InitializeResponse:
        """What the agent answered to ``initialize``.

        Raises:
          LocalProtocolError: it has not.
        """
        if self._initialized is None:
            raise LocalProtocolError("the connection is not initialized")
        return self._initialized

    @property
    def info(self) -> Implementation | None:
        """Who the agent is, if it told (INIT-05)."""
        return self.agent.agent_info

    @property
    def capabilities(self) -> AgentCapabilities:
        """What the agent announced; what it did not mention it does not have (INIT-14)."""
        return self.agent.agent_capabilities

    @property
    def auth_methods(self) -> Sequence[AuthMethod]:
        """How one can log in (AUTH-01)."""
        return self.agent.auth_methods

    async def authenticate(self, method_id: AuthMethodId) -> None:
        """Log in by a method that the agent advertised and carries out itself (AUTH-08).

        Raises:
          LocalProtocolError: it advertised no such method, or one of another type (AUTH-02, AUTH-09, AUTH-19, D-19).
          RequestError: the login failed.
        """
        if not any(isinstance(method, AuthMethodAgent) and method.id == method_id for method in self.auth_methods):
            raise LocalProtocolError(f"the agent advertised no method {method_id!r} to authenticate with")
        await self.connection.request(AUTHENTICATE, AuthenticateRequest(method_id=method_id))

    async def logout(self) -> None:
        """End the login (AUTH-20). Session calls may raise AuthRequired from then on (AUTH-23).

        Raises:
          CapabilityError: the agent has no logout (AUTH-03).
          RequestError: the agent refused.
        """
        await self.connection.request(LOGOUT, LogoutRequest())

    # ---------------------------------------------------------------------------------------------------- sessions

    @asynccontextmanager
    async def new_session(
        self, cwd: str, *, mcp_servers: Sequence[McpServer] = (), additional_directories: Sequence[str] = ()
    ) -> AsyncGenerator[ClientSession, None]:
        """Begin a conversation, and close it at the end of the ``with`` block if the agent can close sessions.

        Args:
          cwd: the absolute working directory (SETUP-04, SETUP-18).
          mcp_servers: servers that the agent shall connect to (SETUP-21). One that fails does not fail the session; the
            response's ``_meta`` says so.
          additional_directories: further absolute roots (SETUP-60, SETUP-61).

        Raises:
          CapabilityError: the agent did not announce a server's transport, or additional directories. Nothing was sent.
          LocalProtocolError: a path is not absolute. Nothing was sent.
          AuthRequired: log in first.
          RequestError, RemoteProtocolError, trio.BrokenResourceError: see :meth:`Connection.request`.
        """
        roots = self._checked(cwd, mcp_servers, additional_directories)
        request = NewSessionRequest(cwd=cwd, mcp_servers=[*mcp_servers], additional_directories=[*roots.roots[1:]])
        opened: list[ClientSession] = []

        def settle(settled: OutgoingRequest[NewSessionResponse]) -> None:
            # In wire order: the updates behind the answer find the session.
            self._opening -= 1
            if settled.error is None:
                response = settled.outcome()
                session = self._register(response.session_id, roots)
                session.state.opened(response)
                session.setup_meta = response.meta
                if settled.abandoned:  # nobody will close it any more
                    self.connection.start_soon(session.aclose, "closing an abandoned session")
                    self._sessions.pop(session.id, None)
                opened.append(session)
            self._release_early()

        self._opening += 1
        try:
            sent = await self.connection.send_request(NEW_SESSION, request, on_settled=settle)
        except BaseException:
            self._opening -= 1
            raise
        await sent.wait()
        async with self._open(opened[0]) as session:
            yield session

    @asynccontextmanager
    async def load_session(
        self,
        session_id: SessionId,
        cwd: str,
        *,
        mcp_servers: Sequence[McpServer] = (),
        additional_directories: Sequence[str] = (),
    ) -> AsyncGenerator[ClientSession, None]:
        """Go on with an earlier conversation. What it was is in ``session.replay`` and ``session.state`` (SETUP-09).

        Args:
          cwd: the session's own working directory.
          mcp_servers, additional_directories: as for :meth:`new_session`; nothing stored comes back by itself, so give
            the full list again (SETUP-62, SETUP-63).

        Raises:
          CapabilityError: the agent loads no sessions (SETUP-07, SETUP-08). Nothing was sent.
          RequestError: -32002 when there is no such session; and as :meth:`new_session`.
        """
        roots = self._checked(cwd, mcp_servers, additional_directories)
        request = LoadSessionRequest(
            session_id=session_id,
            cwd=cwd,
            mcp_servers=[*mcp_servers],
            additional_directories=[*roots.roots[1:]],
        )
        # Registered before the request is written: the replay comes before the answer.
        session = self._register(session_id, roots, replaying=True)

        def settle(settled: OutgoingRequest[LoadSessionResponse]) -> None:
            session.replaying = False
            if settled.error is None:
                session.state.opened(settled.outcome())
                session.setup_meta = settled.outcome().meta

        try:
            await (await self.connection.send_request(LOAD_SESSION, request, on_settled=settle)).wait()
        except BaseException:
            self._forget(session)
            raise
        async with self._open(session):
            yield session

    @asynccontextmanager
    async def resume_session(
        self,
        session_id: SessionId,
        cwd: str,
        *,
        mcp_servers: Sequence[McpServer] = (),
        additional_directories: Sequence[str] = (),
    ) -> AsyncGenerator[ClientSession, None]:
        """Go on with an earlier conversation without hearing it again (SETUP-47, SETUP-48).

        Raises:
          CapabilityError: the agent resumes no sessions (SETUP-45, SETUP-46). Nothing was sent.
          RequestError: as :meth:`load_session`.
        """
        roots = self._checked(cwd, mcp_servers, additional_directories)
        request = ResumeSessionRequest(
            session_id=session_id,
            cwd=cwd,
            mcp_servers=[*mcp_servers],
            additional_directories=[*roots.roots[1:]],
        )
        session = self._register(session_id, roots)

        def settle(settled: OutgoingRequest[ResumeSessionResponse]) -> None:
            if settled.error is None:
                session.state.opened(settled.outcome())
                session.setup_meta = settled.outcome().meta

        try:
            await (await self.connection.send_request(RESUME_SESSION, request, on_settled=settle)).wait()
        except BaseException:
            self._forget(session)
            raise
        async with self._open(session):
            yield session

    def list_sessions(self, cwd: str | None = None) -> SessionListing:
        """The sessions that the agent knows, page by page as they are asked for::

            async for info in agent.list_sessions():
                print(info.session_id, info.title)

        Args:
          cwd: only those of this absolute directory (LIST-05).

        Raises (when iterated):
          CapabilityError: the agent lists no sessions (LIST-02, LIST-03). Nothing was sent.
          RequestError: the agent refused.
        """
        return SessionListing(self.connection, cwd)

    async def delete_session(self, session_id: SessionId) -> None:
        """Delete a session for good. That the agent does not know it is success (D-46).

        Raises:
          CapabilityError: the agent deletes no sessions (DEL-02, DEL-03). Nothing was sent.
          RequestError: the agent refused.
        """
        try:
            await self.connection.request(DELETE_SESSION, DeleteSessionRequest(session_id=session_id))
        except RequestError as exc:
            if exc.code != -32002:
                raise

    def session(self, session_id: SessionId) -> ClientSession:
        """The open session of that id.

        Raises:
          RequestError: -32002, there is none (D-13).
        """
        session = self._sessions.get(session_id)
        if session is None:
            raise RequestError.session_not_found(session_id)
        return session

    def _checked(self, cwd: str, servers: Sequence[McpServer], directories: Sequence[str]) -> Roots:
        """The roots of a session, once everything in its setup is known to be allowed. Nothing was sent yet."""
        announced = self.capabilities
        if directories and not ADDITIONAL_DIRECTORIES_GATE.is_open(announced):  # SETUP-60
            raise CapabilityError("additionalDirectories", ADDITIONAL_DIRECTORIES_GATE.path)
        for server in servers:
            gate = MCP_SERVER_GATES.get(type(server))
            if gate is not None and not gate.is_open(announced):  # SETUP-38
                raise CapabilityError(f"MCP server {server.name!r}", gate.path)
        try:
            return Roots(cwd, distinct_directories(cwd, directories))  # SETUP-18, SETUP-61, SETUP-68
        except RequestError as exc:
            raise LocalProtocolError(str(exc)) from exc

    def _register(self, session_id: SessionId, roots: Roots, *, replaying: bool = False) -> ClientSession:
        if session_id in self._sessions:
            raise LocalProtocolError(f"session {session_id} is open already")
        session = ClientSession(
            session_id,
            roots,
            self.connection,
            on_update=self._client.on_update,
            on_terminal=self._client.on_terminal,
            replaying=replaying,
        )
        self._sessions[session_id] = session
        return session

    def _forget(self, session: ClientSession) -> None:
        if self._sessions.get(session.id) is session:
            del self._sessions[session.id]

    @asynccontextmanager
    async def _open(self, session: ClientSession) -> AsyncGenerator[ClientSession, None]:
        try:
            yield session
        finally:
            # Shielded, so that a cancelled application still closes its session; and bounded.
            with trio.CancelScope(shield=True, deadline=trio.current_time() + CLOSE_TIMEOUT):
                await session.aclose()
            self._forget(session)

    # ---------------------------------------------------------------------------------------------------- updates

    def _update(self, connection: Connection, params: SessionNotification) -> None:
        session = self._sessions.get(params.session_id)
        if session is not None:
            session.receive(params.update)
        elif self._opening and len(self._early) < MAX_EARLY_UPDATES:
            self._early.append(params)  # D-09: perhaps of a session whose answer comes behind it
        else:
            self._report_stray(params)

    def _release_early(self) -> None:
        early, self._early = self._early, []
        for params in early:
            session = self._sessions.get(params.session_id)
            if session is not None:
                session.receive(params.update)
            elif self._opening:
                self._early.append(params)
            else:
                self._report_stray(params)

    def _report_stray(self, params: SessionNotification) -> None:
        reason = f"an update for session {params.session_id!r}, which is not open here"
        self.connection.report(Report(kind=ReportKind.IGNORED, method=SESSION_UPDATE.name, reason=reason))


@final
class SessionListing:
    """The sessions of an agent, as :meth:`ClientSide.list_sessions` gives them."""

    def __init__(self, connection: Connection, cwd: str | None) -> None:
        self._connection = connection
        self._cwd = cwd
        self._page: list[SessionInfo] = []
        self._cursor: str | None = None
        self._seen: set[str] = set()
        self._started = False

    def __aiter__(self) -> AsyncIterator[SessionInfo]:
        return self

    async def __anext__(self) -> SessionInfo:
        """The next session; asks for a page when it has to.

        Raises:
          RemoteProtocolError: the agent gave the same cursor twice, so that the listing would never end (LIST-12).
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._page:
            if self._started and self._cursor is None:  # LIST-12
                raise StopAsyncIteration
            request = ListSessionsRequest(cwd=self._cwd, cursor=self._cursor)  # LIST-11, LIST-13
            response = await self._connection.request(LIST_SESSIONS, request)
            self._started = True
            self._page = [*reversed(response.sessions)]
            self._cursor = response.next_cursor
            if self._cursor is not None:
                if self._cursor in self._seen:
                    raise RemoteProtocolError("the agent's listing goes in circles")
                self._seen.add(self._cursor)
        return self._page.pop()


@asynccontextmanager
async def open_agent(
    transport: Transport,
    client: Client,
    *,
    on_report: Callable[[Report], None] = log_report,
    on_frame: FrameHook | None = None,
) -> AsyncGenerator[ClientSide, None]:
    """Initialize the agent at the other end of ``transport``; close the connection at the end of the ``with`` block.

    Raises:
      UnsupportedProtocolVersion: the agent speaks another version (INIT-11).
      RequestError, RemoteProtocolError, trio.BrokenResourceError: see :meth:`Connection.request`.
    """
    side = ClientSide(client, transport, on_report=on_report, on_frame=on_frame)
    async with open_connection(side.connection):
        await side.initialize()
        yield side


@asynccontextmanager
async def open_agent_process(
    command: Sequence[str],
    client: Client,
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    stderr: Callable[[bytes], None] | None = None,
    on_report: Callable[[Report], None] = log_report,
    on_frame: FrameHook | None = None,
    start_timeout: float = 60.0,
) -> AsyncGenerator[ClientSide, None]:
    """Start an agent, initialize it, and end it with everything it started at the end of the ``with`` block.

    Args:
      command: the program and its arguments; no shell is involved (TRANS-03).
      env: variables set in addition to the own ones.
      cwd: the directory it starts in. Sessions have directories of their own.
      stderr: takes what the agent writes to its stderr (TRANS-09); it is read in any case, and its end is kept for
        error messages.
      start_timeout: seconds until it must have answered ``initialize``.

    Raises:
      AgentStartError: there is no such program, or it cannot be run.
      AgentProcessError: it ended; the text has its exit status and the end of its stderr.
      trio.TooSlowError: it did not answer ``initialize`` in time.
      UnsupportedProtocolVersion, RequestError, RemoteProtocolError: see :func:`open_agent`.
    """
    async with open_agent_transport(command, env=env, cwd=cwd, stderr=stderr) as transport:
        side = ClientSide(client, transport, on_report=on_report, on_frame=on_frame)
        async with open_connection(side.connection):
            with trio.fail_after(start_timeout):
                await side.initialize()
            yield side
