"""Session setup and prompt turns, as the client lives them.

https://agentclientprotocol.com/protocol/session-setup
https://agentclientprotocol.com/protocol/prompt-turn

Theory of operation. A session has no task of its own at the client: the connection's reader hands it the agent's
updates in wire order (:meth:`ClientSession.receive`) and settles its turn in the same order, so a turn's updates are
complete when its stop reason is there.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar, final

import attrs
import trio

from acp_ref.client_turn import ClientTurn
from acp_ref.errors import CapabilityError, ErrorCode, LocalProtocolError, RemoteProtocolError, RequestError
from acp_ref.methods import (
    CANCEL,
    CLOSE_SESSION,
    PROMPT,
    PROMPT_CONTENT_GATES,
    SET_SESSION_CONFIG_OPTION,
    SET_SESSION_MODE,
)
from acp_ref.permissions import RememberedPermissions
from acp_ref.reports import Report, ReportKind
from acp_ref.schema import (
    AgentCapabilities,
    CancelNotification,
    CloseSessionRequest,
    ConfigOptionUpdate,
    ContentBlock,
    CurrentModeUpdate,
    PromptRequest,
    PromptResponse,
    SessionConfigBoolean,
    SessionConfigId,
    SessionConfigSelect,
    SessionConfigValueId,
    SessionId,
    SessionModeId,
    SessionUpdate,
    SetSessionConfigBooleanRequest,
    SetSessionConfigSelectRequest,
    SetSessionModeRequest,
    StopReason,
    TextContent,
    Unknown,
)
from acp_ref.session_config_options import flatten
from acp_ref.session_state import SessionState
from acp_ref.slash_commands import command_prompt
from acp_ref.terminals import LocalTerminal, Terminals

if TYPE_CHECKING:
    from acp_ref._jsonrpc import JSONObject
    from acp_ref.connection import Connection
    from acp_ref.requests import OutgoingRequest
    from acp_ref.roots import Roots

__all__ = ["ClientSession", "ClientSessionStatistics"]

R = TypeVar("R")


@attrs.frozen(kw_only=True)
class ClientSessionStatistics:
    """A snapshot of one session."""

    updates_received: int
    """Updates that came so far, those of a replay included."""
    updates_queued: int
    """Updates of the turn that the application has not taken yet."""


@final
class ClientSession:
    """One conversation with the agent. Made by the methods of :class:`ClientSide`."""

    id: SessionId
    """What names it, in every request (SETUP-16, SETUP-44)."""
    roots: Roots
    """Its working directory and additional roots: what the agent's file requests are held to (SETUP-67)."""
    state: SessionState
    """Everything the agent has told of it, merged, for an application to draw at any time."""
    replay: list[SessionUpdate]
    """What a load replayed, in order, before the session was ready. Empty for a new or resumed session."""
    replaying: bool
    """Whether the agent is replaying the history, so that what comes now is old."""

    remembered: RememberedPermissions
    """What the user allowed or rejected for the rest of the session (PERM-06)."""
    setup_meta: JSONObject | None
    """The ``_meta`` of the agent's answer to its setup, such as MCP servers that failed."""

    def __init__(
        self,
        session_id: SessionId,
        roots: Roots,
        connection: Connection,
        *,
        on_update: Callable[[ClientSession, SessionUpdate], None] | None = None,
        on_terminal: Callable[[ClientSession, LocalTerminal], None] | None = None,
        replaying: bool = False,
    ) -> None:
        self.id = session_id
        self.roots = roots
        self.state = SessionState()
        self.replay = []
        self.replaying = replaying
        self.setup_meta = None
        self.remembered = RememberedPermissions()
        self._connection = connection
        self._on_update = on_update
        self._on_terminal = on_terminal
        self._turn: ClientTurn | None = None
        self._cancelling = False
        self._prompt_sent = False
        self._questions: set[trio.CancelScope] = set()
        self._terminals: Terminals | None = None
        self._starting_terminals = trio.Lock()
        self._received = 0
        self._closed = False

    def __repr__(self) -> str:
        return f"<ClientSession {self.id}>"

    @property
    def cwd(self) -> str:
        """The working directory."""
        return self.roots.cwd

    @property
    def turn(self) -> ClientTurn | None:
        """The turn that runs now."""
        return self._turn

    def accepts(self, block: ContentBlock) -> bool:
        """Whether the agent takes ``block`` in a prompt (PROMPT-05)."""
        gate = PROMPT_CONTENT_GATES.get(type(block))
        agent = self._connection.counterpart
        return not isinstance(block, Unknown) and (
            gate is None or (isinstance(agent, AgentCapabilities) and gate.is_open(agent))
        )

    @asynccontextmanager
    async def prompt(
        self, *content: str | ContentBlock, meta: JSONObject | None = None
    ) -> AsyncGenerator[ClientTurn, None]:
        """Say something to the agent and follow its answer::

            async with session.prompt("hello") as turn:
                async for update in turn:
                    print(update)
            print(turn.stop_reason)

        A block that is left before the turn is over cancels the turn, and waits for its end unless an exception or a
        cancellation is on its way.

        Args:
          content: text, or content blocks.
          meta: the prompt's ``_meta``, such as a trace context (EXT-03): see :func:`acp_ref.trace.with_trace_context`.

        Raises:
          CapabilityError: the agent does not take such a block (PROMPT-04). Nothing was sent.
          LocalProtocolError: a turn runs already (PROMPT-24, D-04), or there is nothing to say. Nothing was sent.
          trio.BrokenResourceError, trio.ClosedResourceError: the connection is over.
        """
        blocks: list[ContentBlock] = [TextContent(text=part) if isinstance(part, str) else part for part in content]
        if not blocks:
            raise LocalProtocolError("a prompt has at least one content block")
        for block in blocks:
            if not self.accepts(block):
                gate = PROMPT_CONTENT_GATES.get(type(block))
                raise CapabilityError(PROMPT.name, gate.path if gate is not None else "a content block of that type")
        self._check_open()
        if self._turn is not None:
            raise LocalProtocolError("a turn runs in this session")
        turn = self._turn = ClientTurn(self)
        self._cancelling = self._prompt_sent = False
        self.state.begin_turn(blocks)
        request = PromptRequest(session_id=self.id, prompt=blocks, meta=meta)
        try:
            await self._connection.send_request(PROMPT, request, on_settled=self._settle_turn)
        except BaseException:
            self._end_turn(None, None)
            raise
        self._prompt_sent = True
        if self._cancelling and not turn.over:
            self._put_cancellation()
        try:
            yield turn
        except BaseException:
            turn.abandon()
            turn.cancel()
            raise
        if not turn.over:
            turn.abandon()
            turn.cancel()
            await turn.wait()

    @asynccontextmanager
    async def run_command(self, name: str, text: str = "") -> AsyncGenerator[ClientTurn, None]:
        """Run a slash command the agent advertised: a prompt that begins with it (SLASH-04).

        Raises:
          as :meth:`prompt`.
        """
        async with self.prompt(command_prompt(name, text)) as turn:
            yield turn

    def cancel(self) -> None:
        """Cancel the turn that runs, if one does: tell the agent, then answer its open questions as cancelled.

        Never waits. The turn is over when its answer comes; what comes until then still counts (CANCEL-10).
        """
        if self._turn is None or self._cancelling:
            return
        self._cancelling = True
        if self._prompt_sent:  # while the prompt still waits for room, a cancellation would overtake it
            self._put_cancellation()
        self.state.cancel()  # CANCEL-02
        for scope in self._questions:
            scope.cancel()  # CANCEL-03, PERM-05

    def _put_cancellation(self) -> None:
        self._connection.put_notification(CANCEL, CancelNotification(session_id=self.id))

    async def set_mode(self, mode_id: SessionModeId) -> None:
        """Change the session's mode to one that it lists (MODE-04).

        Raises:
          LocalProtocolError: it lists no such mode. Nothing was sent.
          RequestError: the agent refused.
        """
        if mode_id not in [mode.id for mode in self.state.available_modes]:
            raise LocalProtocolError(f"the session has no mode {mode_id!r}")
        await self._connection.request(SET_SESSION_MODE, SetSessionModeRequest(session_id=self.id, mode_id=mode_id))
        self.state.apply(CurrentModeUpdate(current_mode_id=mode_id))

    async def set_config_option(self, config_id: SessionConfigId, value: str | bool) -> None:
        """Give a config option another of its values (CONF-18).

        Raises:
          LocalProtocolError: there is no such option, or the option has no such value. Nothing was sent.
          RequestError: the agent refused.
        """
        option = next(
            (known for known in self.state.config_options if not isinstance(known, Unknown) and known.id == config_id),
            None,
        )
        request: SetSessionConfigBooleanRequest | SetSessionConfigSelectRequest
        if isinstance(option, SessionConfigBoolean) and isinstance(value, bool):
            request = SetSessionConfigBooleanRequest(session_id=self.id, config_id=config_id, value=value)
        elif isinstance(option, SessionConfigSelect) and value in [known.value for known in flatten(option.options)]:
            request = SetSessionConfigSelectRequest(
                session_id=self.id, config_id=config_id, value=SessionConfigValueId(str(value))
            )
        else:
            raise LocalProtocolError(f"the session has no config option {config_id!r} with a value {value!r}")
        response = await self._connection.request(SET_SESSION_CONFIG_OPTION, request)
        self.state.apply(ConfigOptionUpdate(config_options=response.config_options))

    def statistics(self) -> ClientSessionStatistics:
        """What the session is doing now."""
        return ClientSessionStatistics(
            updates_received=self._received, updates_queued=0 if self._turn is None else self._turn.queued
        )

    # --------------------------------------------------------------------------------------- called in wire order

    def receive(self, update: SessionUpdate) -> None:
        """The agent sent an update, in a turn or between turns (GEN-12)."""
        self._received += 1
        self.state.apply(update)
        if self.replaying:
            self.replay.append(update)
        elif self._turn is not None:
            self._turn.receive(update)
        if self._on_update is not None:
            self._on_update(self, update)

    def ask(self, answer: Callable[[], Awaitable[R]], cancelled: R) -> Awaitable[R]:
        """Let ``answer`` put a question of the agent to the user; it is answered ``cancelled`` when the turn is."""
        scope = trio.CancelScope()
        if self._cancelling or self._closed:
            scope.cancel()
        else:
            self._questions.add(scope)

        async def answered() -> R:
            try:
                with scope:
                    await trio.lowlevel.checkpoint_if_cancelled()
                    return await answer()
                return cancelled
            finally:
                self._questions.discard(scope)

        return answered()

    def _settle_turn(self, request: OutgoingRequest[PromptResponse]) -> None:
        self._end_turn(request.outcome().stop_reason if request.error is None else None, request.error)

    def _end_turn(self, stop_reason: StopReason | str | None, error: Exception | None) -> None:
        turn, self._turn = self._turn, None
        self._cancelling = False
        self.state.end_turn(stop_reason)
        if turn is not None:
            turn.settle(stop_reason, error)

    # ------------------------------------------------------------------------------------------------ life and end

    async def terminals(self) -> Terminals:
        """The session's terminals, made on first use; they end with the session (TERM-17).

        Raises:
          RequestError: -32002, the session is closed.
        """
        async with self._starting_terminals:
            if self._terminals is None:
                self._check_known()
                show = self._on_terminal
                terminals = Terminals(
                    cwd=self.cwd,
                    on_change=None if show is None else lambda terminal: show(self, terminal),
                    on_report=self._connection.report,
                )
                await self._connection.nursery.start(terminals.run)
                try:
                    self._check_known()
                except RequestError:  # closed meanwhile, by one who did not know of them
                    await terminals.aclose()
                    raise
                self._terminals = terminals
            return self._terminals

    @property
    def open_terminals(self) -> Terminals | None:
        """The session's terminals for the application to show; None as long as the agent made none."""
        return self._terminals

    async def aclose(self, *, tell_agent: bool = True) -> None:
        """End the session: cancel its turn, release its terminals, and close it at the agent if that can (SETUP-53).

        Idempotent. That the agent does not know the session any more is success (D-46); other errors are reported.
        """
        if self._closed:
            return
        self._closed = True
        self.cancel()
        for scope in self._questions:  # those outside of a turn, too
            scope.cancel()
        try:
            if tell_agent and not self._connection.ended:
                await self._connection.request(CLOSE_SESSION, CloseSessionRequest(session_id=self.id))
        except (CapabilityError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # SETUP-51, SETUP-52: an agent that did not announce it is not asked
        except (RequestError, RemoteProtocolError) as exc:
            if not (isinstance(exc, RequestError) and exc.code == ErrorCode.RESOURCE_NOT_FOUND):
                self._connection.report(
                    Report(kind=ReportKind.DEGRADED, reason=f"closing session {self.id} failed: {exc}", error=exc)
                )
        finally:
            if self._terminals is not None:  # also when the agent does not answer, and the caller gave up
                await self._terminals.aclose()

    def _check_known(self) -> None:
        if self._closed:
            raise RequestError.session_not_found(self.id)

    def _check_open(self) -> None:
        if self._closed:
            raise trio.ClosedResourceError(f"session {self.id} is closed")
