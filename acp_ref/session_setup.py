"""Session Setup, and the other methods of a session's life, as the agent answers them.

https://agentclientprotocol.com/protocol/session-setup
https://agentclientprotocol.com/protocol/session-list
https://agentclientprotocol.com/protocol/session-delete

session/new, session/load and session/resume are one operation: check, take or make the journal, run the session, and
for a load replay the journal. Each is transactional: when it fails or is cancelled, the stored session and the live
one, if there is one, are as they were.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Generic, cast, final

import trio
from typing_extensions import TypeVar

from acp_ref._loading import SettingsWatch, replay, take_up
from acp_ref.agent_session import AgentSession, SessionOrigin
from acp_ref.connection import Connection
from acp_ref.elicitation import OpenElicitations
from acp_ref.errors import ErrorCode, LocalProtocolError, RequestError
from acp_ref.handlers import Handlers
from acp_ref.mcp_servers import McpServers
from acp_ref.methods import (
    ADDITIONAL_DIRECTORIES_GATE,
    CANCEL,
    CLOSE_SESSION,
    DELETE_SESSION,
    LIST_SESSIONS,
    LOAD_SESSION,
    MCP_SERVER_GATES,
    NEW_SESSION,
    PROMPT,
    PROMPT_CONTENT_GATES,
    RESUME_SESSION,
)
from acp_ref.prompt_turn import PromptTurn, new_message_id
from acp_ref.requests import IncomingRequest
from acp_ref.roots import Roots, same_directory
from acp_ref.schema import (
    AgentCapabilities,
    CancelNotification,
    ClientCapabilities,
    CloseSessionRequest,
    CloseSessionResponse,
    DeleteSessionRequest,
    DeleteSessionResponse,
    Implementation,
    ListSessionsRequest,
    ListSessionsResponse,
    LoadSessionRequest,
    LoadSessionResponse,
    McpServer,
    NewSessionRequest,
    NewSessionResponse,
    PromptRequest,
    PromptResponse,
    ResumeSessionRequest,
    ResumeSessionResponse,
    SessionId,
    StopReason,
    Unknown,
    UserMessageChunk,
)
from acp_ref.session_config_options import SessionConfigOptions
from acp_ref.session_modes import SessionModes
from acp_ref.session_settings import SessionSettings
from acp_ref.session_store import Journal, SessionStore

if TYPE_CHECKING:
    from acp_ref._jsonrpc import JSON
    from acp_ref.agent import Agent, OpenSession

__all__ = ["AgentSessions"]

S = TypeVar("S", default=None)

UNDO_TIMEOUT: Final = 5.0
"""Seconds that undoing a failed setup may take: it closes and removes a file."""


def new_session_id() -> SessionId:
    """A fresh id: random, so that it names one conversation in every process and for ever (SETUP-05, SETUP-06)."""
    return SessionId("sess_" + secrets.token_hex(16))


@asynccontextmanager
async def _no_state(session: AgentSession[None]) -> AsyncGenerator[None, None]:
    yield None


@final
class AgentSessions(Generic[S]):
    """The sessions of one agent on one connection, by id."""

    def __init__(self, agent: Agent[S], require_login: Callable[[], None]) -> None:
        self._agent = agent
        self._require_login = require_login
        self._sessions: dict[SessionId, AgentSession[S]] = {}
        # Without open_session the state is None, and then S is None: Agent says so.
        self._open_session = agent.open_session or cast("OpenSession[S]", _no_state)
        self._in_transition: set[SessionId] = set()  # being loaded, resumed or deleted
        self._elicitations = OpenElicitations()  # ELIC-10: of this connection, never looked up by session alone

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: SessionId) -> AgentSession[S]:
        """The open session of that id.

        Raises:
          RequestError: -32002, there is none (SETUP-16, D-13); -32600, it is being loaded again or deleted.
        """
        session = self._sessions.get(session_id)
        if session is None or session.closed:
            raise RequestError.session_not_found(session_id)
        self._check_settled(session_id)
        return session

    def _check_settled(self, session_id: SessionId) -> None:
        if session_id in self._in_transition:
            raise RequestError.invalid_request(f"session {session_id} is being loaded or deleted")

    def end(self) -> None:
        """The connection is over: nobody will be asked anything any more."""
        self._elicitations.close()

    def add_to(self, handlers: Handlers) -> None:
        """Handle what the agent announces, and only that (GEN-03, GEN-04)."""
        handlers.on_request(NEW_SESSION, self._new)
        handlers.on_request(PROMPT, self._prompt)
        handlers.on_notification(CANCEL, self._cancel)
        handlers.on_request(CLOSE_SESSION, self._close)
        if self._agent.store is not None:
            handlers.on_request(LOAD_SESSION, self._load)
            handlers.on_request(RESUME_SESSION, self._resume)
            handlers.on_request(LIST_SESSIONS, self._list)
            handlers.on_request(DELETE_SESSION, self._delete)
        SessionSettings(self._agent, self.get).add_to(handlers)

    # ------------------------------------------------------------------------------------------------------- setup

    async def _new(self, request: IncomingRequest, params: NewSessionRequest) -> NewSessionResponse:
        self._require_login()
        roots = self._roots(params)
        self._check_mcp_servers(params.mcp_servers)
        await self._permit(roots)
        session_id = new_session_id()
        store = self._agent.store
        journal = None if store is None else await store.create(session_id, roots.cwd)
        async with _undoing(journal, store):
            session = self._make(request.connection, session_id, SessionOrigin.NEW, roots, params, journal)
            if journal is not None:
                journal.set_additional_directories(roots.roots[1:])
            session.client.setup_request = request
            await self._start(session)
        self._sessions[session_id] = session
        request.on_answered(session.open, otherwise=session.begin_close)
        return NewSessionResponse(
            session_id=session_id,
            modes=session.modes and session.modes.as_state(),
            config_options=session.visible_config_options(),
            meta=session.mcp.meta(),
        )

    def _load(self, request: IncomingRequest, params: LoadSessionRequest) -> Awaitable[LoadSessionResponse]:
        roots, old = self._begin_take_up(params)

        async def load() -> LoadSessionResponse:
            session = await self._take_up(request, params, roots, old, SessionOrigin.LOADED)
            return LoadSessionResponse(
                modes=session.modes and session.modes.as_state(),
                config_options=session.visible_config_options(),
                meta=session.mcp.meta(),
            )

        return load()

    def _resume(self, request: IncomingRequest, params: ResumeSessionRequest) -> Awaitable[ResumeSessionResponse]:
        roots, old = self._begin_take_up(params)

        async def resume() -> ResumeSessionResponse:
            session = await self._take_up(request, params, roots, old, SessionOrigin.RESUMED)
            return ResumeSessionResponse(
                modes=session.modes and session.modes.as_state(),
                config_options=session.visible_config_options(),
                meta=session.mcp.meta(),
            )

        return resume()

    def _begin_take_up(self, params: LoadSessionRequest | ResumeSessionRequest) -> tuple[Roots, AgentSession[S] | None]:
        """In wire order: a request in the next line finds the session being loaded."""
        self._require_login()
        roots = self._roots(params)  # SETUP-62: nothing stored comes back by itself
        self._check_mcp_servers(params.mcp_servers)
        session_id = params.session_id
        self._check_settled(session_id)
        old = self._sessions.get(session_id)
        if old is not None and old.turn_running and not old.closed:
            raise RequestError.invalid_request(f"session {session_id} is busy")  # D-12
        self._in_transition.add(session_id)
        return roots, old

    async def _take_up(
        self,
        request: IncomingRequest,
        params: LoadSessionRequest | ResumeSessionRequest,
        roots: Roots,
        old: AgentSession[S] | None,
        origin: SessionOrigin,
    ) -> AgentSession[S]:
        """Load or resume: the same but for the replay (SETUP-10, SETUP-49). Then it goes on like any other (SETUP-15).

        A session that is open here already is set up anew beside the old one, with the roots and servers of this
        request, and takes its place when that went well (D-12).
        """
        session_id = params.session_id
        try:
            await self._permit(roots)
            if old is not None and old.closed:
                await old.aclose()  # it is ending, and has its journal until then
                old = None
            journal = await self._stored.open(session_id) if old is None else old.journal
            assert journal is not None, "with a store every open session has a journal"
            async with _undoing(journal) if old is None else _holding(old):
                old_settings = None if old is None else SettingsWatch(old)
                _check_same_cwd(journal, roots)
                session = self._make(request.connection, session_id, origin, roots, params, journal)
                session.owns_journal = False  # it is needed to the end of the replay, whatever becomes of the context
                updates = await take_up(session, replayed=origin is SessionOrigin.LOADED)
                settings = SettingsWatch(session)
                await self._start(session)
                async with _closing_on_error(session):
                    await replay(session, updates)  # SETUP-11, SETUP-13; nothing for a resume (SETUP-48)
                    if session.closed:
                        raise RequestError.internal_error()  # its context has failed meanwhile, which was reported
                    journal.set_additional_directories(roots.roots[1:])
            if old is not None and old_settings is not None:
                with trio.CancelScope(shield=True):  # bounded: the end of a session is. It is too late to go back
                    if not await session.replace(old):
                        await session.aclose()
                        await journal.aclose()
                        raise RequestError.internal_error()
                settings.follow(old_settings)
            session.owns_journal = True
            self._sessions[session_id] = session
            request.on_answered(session.open, otherwise=session.begin_close)
        finally:
            self._in_transition.discard(session_id)
        return session

    def _make(
        self,
        connection: Connection,
        session_id: SessionId,
        origin: SessionOrigin,
        roots: Roots,
        params: NewSessionRequest | LoadSessionRequest | ResumeSessionRequest,
        journal: Journal | None,
    ) -> AgentSession[S]:
        """Build the context of a session; nothing of it runs yet."""
        agent = self._agent
        client = connection.counterpart
        return AgentSession(
            session_id,
            origin=origin,
            roots=roots,
            mcp=McpServers(
                params.mcp_servers,
                cwd=roots.cwd,
                connect_timeout=agent.mcp_connect_timeout,
                client_info=Implementation(name=agent.name, version=agent.version),
                on_report=connection.report,
            ),
            journal=journal,
            connection=connection,
            client_capabilities=client if isinstance(client, ClientCapabilities) else ClientCapabilities(),
            elicitations=self._elicitations,
            setup_meta=params.meta,
            commands=tuple(agent.commands),
            modes=None if agent.modes is None else SessionModes(agent.modes),
            config_options=SessionConfigOptions(agent.config_options) if agent.config_options else None,
        )

    async def _start(self, session: AgentSession[S]) -> None:
        await session.connection.nursery.start(self._run, session)

    async def _run(self, session: AgentSession[S], *, task_status: trio.TaskStatus[None]) -> None:
        try:
            await session.run(self._open_session, task_status=task_status)
        finally:
            if self._sessions.get(session.id) is session:  # it has ended by itself, or the connection has
                del self._sessions[session.id]

    def _roots(self, params: NewSessionRequest | LoadSessionRequest | ResumeSessionRequest) -> Roots:
        """The roots of a session, if they may be roots at all."""
        if params.additional_directories and not self._agent.additional_directories:  # SETUP-60, D-16
            needs = ADDITIONAL_DIRECTORIES_GATE.path
            raise RequestError.invalid_params(
                f"$.additionalDirectories: needs {needs}, which this agent did not announce"
            )
        return Roots(params.cwd, params.additional_directories)  # SETUP-18, SETUP-61, SETUP-64

    async def _permit(self, roots: Roots) -> None:
        """Let the agent refuse them."""
        if self._agent.check_roots is not None:
            await self._agent.check_roots(roots)  # SETUP-65

    def _check_mcp_servers(self, servers: Sequence[McpServer]) -> None:
        """Only transports that were announced (SETUP-31, SETUP-34, SETUP-38, D-16)."""
        announced = AgentCapabilities(mcp_capabilities=self._agent.mcp_capabilities)
        for index, server in enumerate(servers):
            gate = MCP_SERVER_GATES.get(type(server))
            if gate is not None and not gate.is_open(announced):
                raise RequestError.invalid_params(
                    f"$.mcpServers[{index}]: {server.name!r} needs {gate.path}, which this agent did not announce"
                )

    # --------------------------------------------------------------------------------------------------- the turn

    def _prompt(self, request: IncomingRequest, params: PromptRequest) -> Awaitable[PromptResponse]:
        """Begin a turn, in wire order: a cancellation in the next line finds it."""
        session = self.get(params.session_id)
        announced = AgentCapabilities(prompt_capabilities=self._agent.prompt_capabilities)
        for index, block in enumerate(params.prompt):
            gate = PROMPT_CONTENT_GATES.get(type(block))
            if isinstance(block, Unknown) or (gate is not None and not gate.is_open(announced)):  # PROMPT-04, D-16
                needs = gate.path if gate is not None else "a later version"
                raise RequestError.invalid_params(
                    f"$.prompt[{index}]: needs {needs}, which this agent did not announce"
                )
        try:
            session.begin_turn(request)
        except LocalProtocolError as exc:
            raise RequestError.invalid_request(str(exc)) from exc  # D-04
        return self._run_turn(session, params)

    async def _run_turn(self, session: AgentSession[S], params: PromptRequest) -> PromptResponse:
        turn = PromptTurn(session, params.prompt, params.meta)
        message_id = new_message_id()
        reasons: list[StopReason] = []
        try:
            for block in params.prompt:  # SETUP-12: what the user said is part of the history
                session.record(UserMessageChunk(content=block, message_id=message_id))
            async with trio.open_nursery() as turn.nursery:
                reasons.append(await self._agent.prompt(turn))
            if not reasons:  # the agent cancelled the turn's nursery, which no client asked for
                raise RequestError.request_cancelled()  # CANCEL-18
            return PromptResponse(stop_reason=reasons[0])  # PROMPT-15, PROMPT-17
        finally:
            turn.end()  # CANCEL-09
            session.end_turn()

    def _cancel(self, connection: Connection, params: CancelNotification) -> None:
        session = self._sessions.get(params.session_id)
        if session is not None:
            session.cancel_turn()
        # D-05: for an unknown session or without a turn it means nothing

    # ---------------------------------------------------------------------------------------------- the rest of life

    def _close(self, request: IncomingRequest, params: CloseSessionRequest) -> Awaitable[CloseSessionResponse]:
        session = self.get(params.session_id)  # SETUP-56
        session.begin_close()  # in wire order: a prompt in the next line finds it closed
        return self._finish_close(session)

    async def _finish_close(self, session: AgentSession[S]) -> CloseSessionResponse:
        await session.aclose()
        return CloseSessionResponse()  # SETUP-55

    async def _list(self, request: IncomingRequest, params: ListSessionsRequest) -> ListSessionsResponse:
        self._require_login()
        return await self._stored.list(cwd=params.cwd, cursor=params.cursor)

    def _delete(self, request: IncomingRequest, params: DeleteSessionRequest) -> Awaitable[DeleteSessionResponse]:
        self._require_login()
        self._check_settled(params.session_id)
        self._in_transition.add(params.session_id)
        session = self._sessions.get(params.session_id)
        if session is not None:
            session.begin_close()  # DEL-08: deleting an active session closes it
        return self._finish_delete(session, params)

    async def _finish_delete(
        self, session: AgentSession[S] | None, params: DeleteSessionRequest
    ) -> DeleteSessionResponse:
        try:
            if session is not None:
                await session.aclose()
            await self._stored.delete(params.session_id)  # DEL-06: silent when there is none
        finally:
            self._in_transition.discard(params.session_id)
        return DeleteSessionResponse()  # DEL-04

    @property
    def _stored(self) -> SessionStore:
        assert self._agent.store is not None, "handled only with a store"
        return self._agent.store


@asynccontextmanager
async def _undoing(journal: Journal | None, store: SessionStore | None = None) -> AsyncGenerator[None, None]:
    """When the block fails or is cancelled, close ``journal``, and remove it from ``store`` where it was new."""
    try:
        yield
    except BaseException:
        if journal is not None:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + UNDO_TIMEOUT):
                await journal.aclose()
                if store is not None:
                    await store.delete(journal.session_id)
        raise


@asynccontextmanager
async def _holding(session: AgentSession[S]) -> AsyncGenerator[None, None]:
    """Hold ``session`` while it is set up anew in the block. When that fails or is cancelled, it goes on."""
    session.hold()
    try:
        yield
    except BaseException:
        await session.release()
        raise


@asynccontextmanager
async def _closing_on_error(session: AgentSession[S]) -> AsyncGenerator[None, None]:
    """When the block fails or is cancelled, end ``session``, which runs already."""
    try:
        yield
    except BaseException:
        with trio.CancelScope(shield=True):  # bounded: the end of a session is
            await session.aclose()
        raise


def _check_same_cwd(journal: Journal, roots: Roots) -> None:
    if not same_directory(journal.cwd, roots.cwd):  # D-14, SETUP-63
        errors: list[JSON] = [f"$.cwd: the session's working directory is {journal.cwd!r}"]
        data: JSON = {"errors": errors, "cwd": roots.cwd, "sessionCwd": journal.cwd}
        raise RequestError(ErrorCode.INVALID_PARAMS, "Invalid params", data)
