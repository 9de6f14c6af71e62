"""Client, at one end of one connection: what the application holds of an agent.

https://agentclientprotocol.com/protocol/initialization
https://agentclientprotocol.com/protocol/session-setup

It asks before it sends: what the agent did not announce is refused here, and nothing is written.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, TypeVar, final

import trio

from acp_ref.authentication import Logins
from acp_ref.client_handlers import add_services
from acp_ref.client_session import ClientSession
from acp_ref.client_session_list import SessionListing
from acp_ref.client_session_updates import SessionUpdates
from acp_ref.connection import Connection, FrameHook
from acp_ref.elicitation import OpenElicitations
from acp_ref.errors import (
    CapabilityError,
    LocalProtocolError,
    RemoteProtocolError,
    RequestError,
    UnsupportedProtocolVersion,
)
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
    PROTOCOL_VERSION,
    RESUME_SESSION,
    SESSION_UPDATE,
    Method,
)
from acp_ref.reports import Report, log_report
from acp_ref.roots import Roots, distinct_directories, is_absolute
from acp_ref.schema import (
    AgentCapabilities,
    AuthenticateRequest,
    AuthMethod,
    AuthMethodAgent,
    AuthMethodId,
    DeleteSessionRequest,
    Implementation,
    InitializeRequest,
    InitializeResponse,
    LoadSessionRequest,
    LoadSessionResponse,
    LogoutRequest,
    McpServer,
    McpServerStdio,
    NewSessionRequest,
    NewSessionResponse,
    ResumeSessionRequest,
    ResumeSessionResponse,
    SessionId,
)

if TYPE_CHECKING:
    from acp_ref._jsonrpc import JSONObject
    from acp_ref.client import Client
    from acp_ref.requests import OutgoingRequest
    from acp_ref.transports import Transport

__all__ = ["ClientSide"]

P = TypeVar("P")
R = TypeVar("R", LoadSessionResponse, ResumeSessionResponse)

CLOSE_TIMEOUT: Final = 30.0
"""Seconds that the agent has to close a session when its ``with`` block ends."""


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
        strict: bool = False,
    ) -> None:
        self._client = client
        self._sessions: dict[SessionId, ClientSession] = {}
        self._awaited: set[SessionId] = set()  # being loaded or resumed, perhaps for a caller who gave up
        self._updates = SessionUpdates(self._sessions, client.capabilities())
        self._logins = Logins(self, client.choose_login)
        self._initialized: InitializeResponse | None = None
        self.elicitations = OpenElicitations()
        handlers = Handlers()
        if client.extensions is not None:
            handlers.update(client.extensions)
        handlers.on_notification(SESSION_UPDATE, self._updates.receive)
        add_services(handlers, client, self)
        self.connection = Connection(transport, CLIENT, handlers, on_report=on_report, on_frame=on_frame, strict=strict)
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
            if isinstance(request.raw_result, dict):
                self.connection.introduction = request.raw_result

    @property
    def agent(self) -> InitializeResponse:
        """What the agent answered to ``initialize``.

        Raises:
          LocalProtocolError: it has not.
        """
        if self._initialized is None:
            raise LocalProtocolError("the connection is not initialized")  # INIT-01, SETUP-02
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
    def raw_capabilities(self) -> JSONObject:
        """What the agent announced, as it came: with capabilities that this version does not know (INIT-15)."""
        raw = self.connection.introduction.get("agentCapabilities")
        return raw if isinstance(raw, dict) else {}

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
        self,
        cwd: str,
        *,
        mcp_servers: Sequence[McpServer] = (),
        additional_directories: Sequence[str] = (),
        meta: JSONObject | None = None,
    ) -> AsyncGenerator[ClientSession, None]:
        """Begin a conversation, and close it at the end of the ``with`` block if the agent can close sessions.

        Args:
          cwd: the absolute working directory (SETUP-04, SETUP-18).
          mcp_servers: servers that the agent shall connect to (SETUP-21), your own among them (SETUP-42). One that
            fails does not fail the session; the response's ``_meta`` says so.
          additional_directories: further absolute roots (SETUP-60, SETUP-61).
          meta: the ``_meta`` of the request.

        Raises:
          CapabilityError: the agent did not announce a server's transport, or additional directories. Nothing was sent.
          LocalProtocolError: a path is not absolute, the command of a server among them. Nothing was sent.
          AuthRequired: log in first. When the client has ``choose_login``, that was tried; see :class:`Logins`.
          RequestError, RemoteProtocolError, trio.BrokenResourceError: see :meth:`Connection.request`.
        """
        roots = self._checked(cwd, mcp_servers, additional_directories)
        request = NewSessionRequest(
            cwd=cwd, mcp_servers=[*mcp_servers], additional_directories=[*roots.roots[1:]], meta=meta
        )
        opened: list[ClientSession] = []

        def settle(settled: OutgoingRequest[NewSessionResponse]) -> None:
            # In wire order: the updates behind the answer find the session.
            if settled.error is None and not self._is_taken((response := settled.outcome()).session_id):  # SETUP-05
                session = self._register(response.session_id, roots)
                session.state.opened(response)
                session.setup_meta = response.meta
                if settled.abandoned:  # nobody will close it any more
                    self.connection.nursery.start_soon(session.aclose)
                    self._sessions.pop(session.id, None)
                opened.append(session)
            self._updates.end_opening(self.connection)

        async def call() -> None:
            self._updates.begin_opening()
            try:
                sent = await self.connection.send_request(NEW_SESSION, request, on_settled=settle)
            except BaseException:
                self._updates.end_opening(self.connection)
                raise
            await sent.wait()

        await self._logins.retried(call)
        if not opened:
            raise RemoteProtocolError("the agent answered session/new with the id of a session that is open already")
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
        meta: JSONObject | None = None,
    ) -> AsyncGenerator[ClientSession, None]:
        """Go on with an earlier conversation. What it was is in ``session.replay`` and ``session.state`` (SETUP-09).

        Args:
          cwd: the session's own working directory.
          mcp_servers, additional_directories: as for :meth:`new_session`; nothing stored comes back by itself, so give
            the full list again (SETUP-62, SETUP-63).
          meta: the ``_meta`` of the request.

        Raises:
          CapabilityError: the agent loads no sessions (SETUP-07, SETUP-08). Nothing was sent.
          LocalProtocolError: the session is open here, or an earlier call for it is not answered yet. Nothing was sent.
          RequestError: -32002 when there is no such session; and as :meth:`new_session`.
        """
        roots = self._checked(cwd, mcp_servers, additional_directories)
        request = LoadSessionRequest(
            session_id=session_id,
            cwd=cwd,
            mcp_servers=[*mcp_servers],
            additional_directories=[*roots.roots[1:]],
            meta=meta,
        )
        async with self._take_up(session_id, roots, LOAD_SESSION, request, replaying=True) as session:
            yield session

    @asynccontextmanager
    async def resume_session(
        self,
        session_id: SessionId,
        cwd: str,
        *,
        mcp_servers: Sequence[McpServer] = (),
        additional_directories: Sequence[str] = (),
        meta: JSONObject | None = None,
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
            meta=meta,
        )
        async with self._take_up(session_id, roots, RESUME_SESSION, request) as session:
            yield session

    @asynccontextmanager
    async def _take_up(
        self, session_id: SessionId, roots: Roots, method: Method[P, R], request: P, *, replaying: bool = False
    ) -> AsyncGenerator[ClientSession, None]:
        async def call() -> ClientSession:
            # Registered before the request is written: the replay comes before the answer.
            session = self._register(session_id, roots, replaying=replaying)

            def settle(settled: OutgoingRequest[R]) -> None:
                session.replaying = False
                self._awaited.discard(session_id)
                if settled.error is None:
                    session.state.opened(settled.outcome())
                    session.setup_meta = settled.outcome().meta
                    if settled.abandoned:  # nobody will close it any more
                        self.connection.nursery.start_soon(session.aclose)

            try:
                sent = await self.connection.send_request(method, request, on_settled=settle)
                self._awaited.add(session_id)
                await sent.wait()
            except BaseException:
                self._forget(session)
                raise
            return session

        async with self._open(await self._logins.retried(call)) as session:
            yield session

    def list_sessions(self, cwd: str | None = None) -> SessionListing:
        """The sessions that the agent knows, page by page as they are asked for::

            async for info in agent.list_sessions():
                print(info.session_id, info.title)

        Args:
          cwd: only those of this absolute directory (LIST-05).

        Raises:
          LocalProtocolError: ``cwd`` is not absolute.

        Raises (when iterated):
          CapabilityError: the agent lists no sessions (LIST-02, LIST-03). Nothing was sent.
          RequestError: the agent refused.
        """
        if cwd is not None and not is_absolute(cwd):
            raise LocalProtocolError(f"the directory {cwd!r} is not absolute")  # LIST-05, GEN-09
        request = functools.partial(self.connection.request, LIST_SESSIONS)
        return SessionListing(lambda params: self._logins.retried(lambda: request(params)), cwd)

    async def delete_session(self, session_id: SessionId) -> None:
        """Delete a session for good. That the agent does not know it is success (D-46).

        Raises:
          CapabilityError: the agent deletes no sessions (DEL-02, DEL-03). Nothing was sent.
          RequestError: the agent refused.
        """
        request = DeleteSessionRequest(session_id=session_id)
        try:
            await self._logins.retried(lambda: self.connection.request(DELETE_SESSION, request))
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
            if isinstance(server, McpServerStdio) and not is_absolute(server.command):  # SETUP-27, GEN-09
                raise LocalProtocolError(f"MCP server {server.name!r}: the command {server.command!r} is not absolute")
        try:
            return Roots(cwd, distinct_directories(cwd, directories))  # SETUP-18, SETUP-61, SETUP-68
        except RequestError as exc:
            raise LocalProtocolError(str(exc)) from exc

    def _is_taken(self, session_id: SessionId) -> bool:
        return session_id in self._sessions or session_id in self._awaited

    def _register(self, session_id: SessionId, roots: Roots, *, replaying: bool = False) -> ClientSession:
        if self._is_taken(session_id):
            raise LocalProtocolError(f"session {session_id} is open already, or about to be")
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
