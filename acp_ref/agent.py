"""Agent: the description of an agent, and its service on one connection.

https://agentclientprotocol.com/protocol/overview#agent

An :class:`Agent` is data: who it is, the function that answers a prompt, and what else it offers. What it announces in
``initialize`` is derived from that, so the two cannot disagree (GEN-04). :func:`serve_agent` serves it on the process's
own stdin and stdout, :class:`AgentSide` on any connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, final

import attrs
from typing_extensions import TypeVar

from acp_ref._framing import DEFAULT_MAX_FRAME_BYTES
from acp_ref.agent_session import AgentSession
from acp_ref.authentication import Authentication
from acp_ref.connection import Connection, FrameHook
from acp_ref.errors import AuthRequired, RequestError
from acp_ref.handlers import Handlers, only_extensions
from acp_ref.methods import AGENT, AUTHENTICATE, INITIALIZE, LOGOUT, PROTOCOL_VERSION
from acp_ref.prompt_turn import PromptTurn
from acp_ref.reports import Report, ReportKind, log_report
from acp_ref.requests import Answered, IncomingRequest
from acp_ref.roots import Roots
from acp_ref.schema import (
    AgentAuthCapabilities,
    AgentCapabilities,
    AuthenticateRequest,
    AuthenticateResponse,
    AuthMethod,
    AuthMethodAgent,
    AuthMethodTerminal,
    AvailableCommand,
    ClientCapabilities,
    Implementation,
    InitializeRequest,
    InitializeResponse,
    LogoutCapabilities,
    LogoutRequest,
    LogoutResponse,
    McpCapabilities,
    PromptCapabilities,
    ProtocolVersion,
    SessionAdditionalDirectoriesCapabilities,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionConfigBoolean,
    SessionConfigId,
    SessionConfigOption,
    SessionDeleteCapabilities,
    SessionListCapabilities,
    SessionModeId,
    SessionModeState,
    SessionResumeCapabilities,
    StopReason,
)
from acp_ref.session_config_options import SessionConfigOptions
from acp_ref.session_modes import SessionModes
from acp_ref.session_setup import AgentSessions
from acp_ref.session_store import SessionStore
from acp_ref.session_updates import announces_booleans
from acp_ref.stdio import open_stdio
from acp_ref.transports import Transport

if TYPE_CHECKING:
    from acp_ref._jsonrpc import JSONObject

__all__ = ["Agent", "AgentSide", "negotiate", "serve_agent"]

S = TypeVar("S", default=None)

DRAIN_TIMEOUT: Final = 0.5
"""Seconds that requests already read have to finish after the client closed the agent's stdin: enough to answer what
was piped in, short enough that no agent outlives its client by a second."""

PromptHandler: TypeAlias = Callable[[PromptTurn[S]], Awaitable[StopReason]]
OpenSession: TypeAlias = Callable[[AgentSession[S]], AbstractAsyncContextManager[S]]


@final
@attrs.frozen(kw_only=True, eq=False)
class Agent(Generic[S]):
    """An agent: data from which :func:`serve_agent` serves. ``S`` is the application's own state of a session.

    Raises:
      LocalProtocolError: its modes or its config options are none that a client could be told of.
      ValueError: an extension has a name that does not begin with an underscore.
    """

    name: str
    """Who it is, for programs (INIT-05)."""
    version: str
    """Its version."""
    prompt: PromptHandler[S]
    """Answers one prompt and returns why the turn ended (PROMPT-15, PROMPT-16). Whatever it raises after the client
    cancelled is the answer ``cancelled`` (CANCEL-06)."""
    title: str | None = None
    """Who it is, for people (INIT-28)."""
    open_session: OpenSession[S] | None = None
    """An async context manager around the life of each session; what it yields is ``turn.state``. It is entered when
    the MCP servers are up, told by ``session.origin`` and ``session.journal`` what came before, and left before they go
    down. Required when ``S`` is not None."""
    store: SessionStore | None = None
    """Keeps sessions. With one, the agent offers load, resume, list and delete."""
    prompt_capabilities: PromptCapabilities = attrs.field(factory=PromptCapabilities)
    """The content it takes beyond text and resource links (INIT-21, INIT-22)."""
    mcp_capabilities: McpCapabilities = attrs.field(factory=lambda: McpCapabilities(http=True, sse=True))
    """The MCP transports it takes beyond stdio (SETUP-23)."""
    mcp_connect_timeout: float = 15.0
    """Seconds that each MCP server has to connect before the session goes on without it."""
    additional_directories: bool = True
    """Whether its tools keep to additional roots as well as to the working directory; announced when they do."""
    check_roots: Callable[[Roots], Awaitable[None]] | None = None
    """Asked before a session is set up; raises RequestError when a root is not allowed here. None is ever left out
    instead (SETUP-65)."""
    modes: SessionModeState | None = None
    """The modes of a new session (MODE-01)."""
    config_options: Sequence[SessionConfigOption] = ()
    """The config options of a new session, with their defaults (CONF-02, CONF-15)."""
    commands: Sequence[AvailableCommand] = ()
    """The slash commands that clients are told of once a session is open (SLASH-01)."""
    authentication: Authentication | None = None
    """How to log in, if one can."""
    extensions: Handlers | None = attrs.field(default=None, validator=only_extensions)
    """Handlers of methods that begin with an underscore (EXT-06)."""
    set_mode: Callable[[AgentSession[S], SessionModeId], Awaitable[None]] | None = None
    """Told when the client changes a session's mode, before it counts; may raise RequestError to refuse."""
    set_config_option: Callable[[AgentSession[S], SessionConfigId, str | bool], Awaitable[None]] | None = None
    """Told when the client changes a config option, before it counts; may raise RequestError to refuse."""
    meta: JSONObject | None = None
    """The ``_meta`` of its capabilities, where extensions announce themselves (INIT-30, EXT-09, EXT-11)."""

    def __attrs_post_init__(self) -> None:
        if self.modes is not None:
            SessionModes(self.modes)
        SessionConfigOptions(self.config_options)

    def capabilities(self) -> AgentCapabilities:
        """What it announces: every capability by name (INIT-19), each because there is something behind it."""
        stored = self.store is not None
        authentication = self.authentication
        return AgentCapabilities(
            load_session=stored,  # INIT-26
            prompt_capabilities=self.prompt_capabilities,
            mcp_capabilities=self.mcp_capabilities,
            session_capabilities=SessionCapabilities(
                list=SessionListCapabilities() if stored else None,
                delete=SessionDeleteCapabilities() if stored else None,
                resume=SessionResumeCapabilities() if stored else None,
                close=SessionCloseCapabilities(),
                additional_directories=SessionAdditionalDirectoriesCapabilities()
                if self.additional_directories
                else None,
            ),
            auth=AgentAuthCapabilities(
                logout=LogoutCapabilities()
                if authentication is not None and authentication.logout is not None
                else None
            ),
            meta=self.meta,
        )


def negotiate(
    requested: ProtocolVersion, supported: Sequence[ProtocolVersion] = (PROTOCOL_VERSION,)
) -> ProtocolVersion:
    """The version to speak: the requested one when it is supported, otherwise the latest supported (INIT-09, INIT-10).

    Never an error in v1, whatever was asked for (D-03).
    """
    return requested if requested in supported else max(supported)


@final
class AgentSide(Generic[S]):
    """One agent at one end of one connection."""

    connection: Connection
    """The connection; run it to serve."""
    sessions: AgentSessions[S]
    """The sessions that are open on it."""

    def __init__(
        self,
        agent: Agent[S],
        transport: Transport,
        *,
        on_report: Callable[[Report], None] = log_report,
        on_frame: FrameHook | None = None,
        drain_timeout: float = DRAIN_TIMEOUT,
        strict: bool = False,
    ) -> None:
        self._agent = agent
        authentication = agent.authentication
        self._logged_in = False
        self.sessions = AgentSessions(agent, self._require_login)
        handlers = Handlers()
        if agent.extensions is not None:
            handlers.update(agent.extensions)
        handlers.on_request(INITIALIZE, self._initialize)
        handlers.on_request(AUTHENTICATE, self._authenticate)
        if authentication is not None and authentication.logout is not None:
            handlers.on_request(LOGOUT, self._logout)
        self.sessions.add_to(handlers)  # INIT-23
        self.connection = Connection(
            transport,
            AGENT,
            handlers,
            on_report=on_report,
            on_frame=on_frame,
            drain_timeout=drain_timeout,
            strict=strict,
        )
        self.connection.when_ended(self.sessions.end)

    def _initialize(self, request: IncomingRequest, params: InitializeRequest) -> Awaitable[InitializeResponse]:
        # Answered from what is known already: nothing heavy may stand between a client and this answer.
        agent = self._agent
        client = request.connection.counterpart = params.client_capabilities  # INIT-14: nothing else is offered
        if isinstance(request.params, dict):
            request.connection.introduction = request.params
        if not announces_booleans(client) and any(isinstance(x, SessionConfigBoolean) for x in agent.config_options):
            reason = "this client takes no config options that are on or off, so it is told of the others only"
            request.connection.report(Report(kind=ReportKind.WITHHELD, method=INITIALIZE.name, reason=reason))  # D-49
        return Answered(
            InitializeResponse(
                protocol_version=negotiate(params.protocol_version),  # INIT-04, INIT-07
                agent_capabilities=agent.capabilities(),
                auth_methods=self._auth_methods(client),
                agent_info=Implementation(name=agent.name, title=agent.title, version=agent.version),
            )
        )

    def _auth_methods(self, client: ClientCapabilities) -> list[AuthMethod]:
        if self._agent.authentication is None:
            return []
        return [
            method
            for method in self._agent.authentication.methods
            if client.auth.terminal or not isinstance(method, AuthMethodTerminal)  # AUTH-07
        ]

    async def _authenticate(self, request: IncomingRequest, params: AuthenticateRequest) -> AuthenticateResponse:
        authentication = self._agent.authentication
        offered = () if authentication is None else authentication.methods
        if authentication is None or not any(
            isinstance(method, AuthMethodAgent) and method.id == params.method_id  # AUTH-09: no terminal method
            for method in offered
        ):
            raise RequestError.invalid_params(f"$.methodId: {params.method_id!r} is no method to authenticate with")
        await authentication.authenticate(params.method_id)
        self._logged_in = True  # AUTH-11
        return AuthenticateResponse()  # AUTH-10

    async def _logout(self, request: IncomingRequest, params: LogoutRequest) -> LogoutResponse:
        authentication = self._agent.authentication
        if authentication is not None and authentication.logout is not None:
            await authentication.logout()
            self._logged_in = False  # AUTH-21; open sessions go on (AUTH-22)
        return LogoutResponse()

    def _require_login(self) -> None:
        authentication = self._agent.authentication
        if authentication is None or not authentication.required:
            return
        logged_in = self._logged_in if authentication.logged_in is None else authentication.logged_in()
        if not logged_in:
            raise AuthRequired  # ERR-10


async def serve_agent(
    agent: Agent[S],
    transport: Transport | None = None,
    *,
    on_report: Callable[[Report], None] = log_report,
    on_frame: FrameHook | None = None,
    strict: bool = False,
    max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES,
) -> None:
    """Serve ``agent`` until the client closes the connection; then every session is closed and it returns.

    Args:
      transport: the connection to the client; the process's own stdin and stdout when it is None. While those are
        served, ``print`` and child processes write to stderr and read nothing (TRANS-10).
      on_report: hears of everything that is ignored, salvaged or fails without an answer.
      on_frame: sees every message, both ways.
      strict: refuse messages with faults that the schema tolerates, instead of mending and reporting them (D-28).
      max_frame_bytes: the longest message that is read from stdin, 128 MiB by default; a longer one fails alone (D-34).
    """
    if transport is not None:
        await AgentSide(agent, transport, on_report=on_report, on_frame=on_frame, strict=strict).connection.run()
        return
    async with open_stdio(max_frame_bytes=max_frame_bytes) as stdio:
        await AgentSide(agent, stdio, on_report=on_report, on_frame=on_frame, strict=strict).connection.run()
