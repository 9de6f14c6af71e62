"""Session setup, as the agent lives it: one session, its nursery, and everything the nursery owns.

https://agentclientprotocol.com/protocol/session-setup

Theory of operation. A session is one task, :meth:`AgentSession.run`, a child of the connection's nursery. It opens
nursery B, connects the MCP servers in it, enters the application's ``open_session`` context, and then waits to be
closed. Whatever ends it (session/close, the end of the connection, a failed setup) ends in this one task, in the
opposite order, so nothing of the session outlives it.

The prompt turn is not a child of the session: it runs in the task of its request, whose CancelScope is the turn's. A
cancelled turn leaves the session, its MCP connections and its history as they were.

Updates that are emitted before the setup was answered are held. They become part of the history, and leave, right after
the answer; of a setup that fails nothing remains. A session that is set up anew while it is open is held as well: what
it says meanwhile follows what it said before (:meth:`AgentSession.hold`).
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final, Generic, final

import trio
from typing_extensions import TypeVar

from acp_ref import _jsonrpc as jsonrpc
from acp_ref._converter import unstructure_hook
from acp_ref._state import SESSION, TURN, SessionEvent, SessionState, TurnEvent, TurnState, after
from acp_ref.client_services import ClientServices
from acp_ref.compaction import Compactions, RunningCompaction, run_compaction
from acp_ref.elicitation import OpenElicitations
from acp_ref.errors import LocalProtocolError
from acp_ref.mcp_servers import McpServers
from acp_ref.methods import SESSION_UPDATE_GATES
from acp_ref.reports import Report, ReportKind
from acp_ref.schema import (
    AvailableCommand,
    AvailableCommandsUpdate,
    ClientCapabilities,
    CompactionSummaryChunk,
    CompactionUpdate,
    CurrentModeUpdate,
    Notice,
    SessionConfigId,
    SessionConfigOption,
    SessionId,
    SessionInfoUpdate,
    SessionModeId,
    SessionUpdate,
    ToolCall,
    ToolCallUpdate,
)
from acp_ref.session_updates import RULES
from acp_ref.tool_calls import ReportedToolCalls

if TYPE_CHECKING:
    from acp_ref._jsonrpc import JSONObject
    from acp_ref.connection import Connection
    from acp_ref.requests import IncomingRequest
    from acp_ref.roots import Roots
    from acp_ref.session_config_options import SessionConfigOptions
    from acp_ref.session_modes import SessionModes
    from acp_ref.session_store import Journal

__all__ = ["AgentSession", "SessionOrigin"]

S = TypeVar("S", default=None)

encode_update: Final = unstructure_hook(SessionUpdate)
PREFIX: Final = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%b,"update":'

CLOSE_TIMEOUT: Final = 30.0
"""Seconds after which a session that is being closed is cancelled: its application's context may not hold it."""

END_TURN_TIMEOUT: Final = 10.0
"""Seconds that a cancelled turn may hold up the end of its session: shielded code and threads are not ended at once."""


class SessionOrigin(enum.Enum):
    """How a session came to be."""

    NEW = "session/new"
    LOADED = "session/load"
    RESUMED = "session/resume"


@final
class AgentSession(Generic[S]):
    """One conversation, with its own context, history and state (SETUP-01).

    The application sees it on every turn, and in ``open_session`` before the first.
    """

    id: SessionId
    """What names it, for ever and in every process (SETUP-05, SETUP-06)."""
    origin: SessionOrigin
    """Whether it is new, loaded or resumed."""
    roots: Roots
    """Its working directory and additional roots. Never the process's own directory (SETUP-19)."""
    mcp: McpServers
    """Its MCP servers, with the state and the tools of each."""
    client: ClientServices
    """What the client offers: files, terminals, elicitation, permission."""
    journal: Journal | None
    """Its history; None without a store."""
    modes: SessionModes | None
    """Its modes, when the agent has any."""
    config_options: SessionConfigOptions | None
    """Its config options, when the agent has any."""
    commands: tuple[AvailableCommand, ...]
    """Its slash commands; see :meth:`set_commands`."""
    connection: Connection
    """The connection it came by."""
    tool_calls: ReportedToolCalls
    """Those the client knows of."""
    setup_meta: JSONObject | None
    """The ``_meta`` of the request that set it up here."""

    def __init__(
        self,
        session_id: SessionId,
        *,
        origin: SessionOrigin,
        roots: Roots,
        mcp: McpServers,
        journal: Journal | None,
        connection: Connection,
        client_capabilities: ClientCapabilities,
        elicitations: OpenElicitations,
        commands: tuple[AvailableCommand, ...] = (),
        modes: SessionModes | None = None,
        config_options: SessionConfigOptions | None = None,
        setup_meta: JSONObject | None = None,
    ) -> None:
        self.id = session_id
        self.origin = origin
        self.roots = roots
        self.mcp = mcp
        self.journal = journal
        self.connection = connection
        self.setup_meta = setup_meta
        self.modes = modes
        self.config_options = config_options
        self.client_capabilities = client_capabilities
        self.client = ClientServices(connection, session_id, elicitations)
        self.tool_calls = ReportedToolCalls(complete=origin is SessionOrigin.NEW)
        self.owns_journal: bool = True
        self.turn_request: IncomingRequest | None = None
        self.commands = commands
        self._compactions = Compactions()
        self._state = SessionState.OPENING
        self._turn = TurnState.IDLE
        self._turn_over = trio.lowlevel.ParkingLot()
        self._held: list[bytes] | None = []  # not None until the setup is answered, and while it is set up anew
        self._unrecorded: list[bytes] = []  # what the held ones are to the history, until the setup is answered
        self._prefix = PREFIX % jsonrpc.dumps(session_id)
        self._nursery: trio.Nursery | None = None
        self._closing = trio.Event()
        self._closed = trio.Event()
        self._application_state: list[S] = []

    def __repr__(self) -> str:
        return f"<AgentSession {self.id} {self._state.value}, {self._turn.value}>"

    @property
    def cwd(self) -> str:
        """The working directory: absolute, and the base of relative paths (SETUP-57)."""
        return self.roots.cwd

    @property
    def state(self) -> S:
        """What the application's ``open_session`` gave for this session."""
        return self._application_state[0]

    @property
    def nursery(self) -> trio.Nursery:
        """Nursery B: tasks started here live as long as the session and are cancelled at its end.

        Raises:
          trio.ClosedResourceError: the session is over.
        """
        if self._nursery is None or self.closed:
            raise trio.ClosedResourceError(f"session {self.id} is closed")
        return self._nursery

    # ----------------------------------------------------------------------------------------------------- updates

    async def send(self, update: SessionUpdate) -> None:
        """Send ``update`` to the client and record it. Allowed at any time in the life of the session (GEN-12).

        It is queued whole and at once; only when many bytes wait to be written already does this wait.

        Raises:
          CapabilityError: the client did not announce this kind of update (NOTE-01, COMP-01). Nothing was sent.
          LocalProtocolError: the update does not fit those before it (TOOL-02, COMP-05, COMP-06). Nothing was sent.
          ValueError: the update breaks the schema. Nothing was sent.
          trio.BrokenResourceError, trio.ClosedResourceError: the connection or the session is over.
        """
        await self._wait_for_room()  # before it is recorded: whoever is cancelled here has said nothing
        self.put(update)

    async def _wait_for_room(self) -> None:
        if self._held is None:
            await self.connection.wait_for_room()
        else:  # there is always room, but who says much must not keep all others from running
            await trio.lowlevel.checkpoint()

    def put(self, update: SessionUpdate) -> None:
        """:meth:`send` without waiting for room, for code that must not be interrupted, such as an ``__aexit__``.

        Raises:
          CapabilityError, LocalProtocolError, ValueError: as :meth:`send`.
          trio.ClosedResourceError: the session is over.
        """
        frame = self.frame(self._record(update))
        if self._held is not None:
            self._held.append(frame)
        else:
            self.connection.put_frame(frame)

    def record(self, update: SessionUpdate) -> None:
        """Put ``update`` into the history without sending it, as for what the user said."""
        self._append(jsonrpc.dumps(encode_update(update)))

    def _append(self, update: bytes) -> None:
        if self.journal is not None:
            if self._state is SessionState.CLOSED:  # by now the journal may be another's
                raise trio.ClosedResourceError(f"session {self.id} is closed")
            append = self._unrecorded.append if self._state is SessionState.OPENING else self.journal.append
            append(update)

    def frame(self, update: bytes) -> bytes:
        """The notification that tells the client of ``update``, which is in wire form."""
        return self._prefix + update + b"}}"

    def _record(self, update: SessionUpdate) -> bytes:
        if self._state is SessionState.CLOSED:
            raise trio.ClosedResourceError(f"session {self.id} is closed")
        rule = RULES.get(type(update))
        told = update if rule is None else rule(update, self.client_capabilities)
        if isinstance(told, CompactionUpdate | CompactionSummaryChunk):
            self._compactions.report(told)  # COMP-05, COMP-06
        elif isinstance(told, ToolCall | ToolCallUpdate):
            self.tool_calls.report(told)  # TOOL-02, D-37
        body = jsonrpc.dumps(encode_update(told))
        if not isinstance(told, Notice):  # NOTE-04
            self._append(body if told is update else jsonrpc.dumps(encode_update(update)))  # another client may see all
        return body

    def compaction(
        self, *, send: Callable[[SessionUpdate], Awaitable[None]] | None = None
    ) -> AbstractAsyncContextManager[RunningCompaction]:
        """Report a compaction of the context, for as long as the ``with`` block condenses it; see
        :meth:`PromptTurn.compaction`, which is the one to use in a turn."""
        announced = SESSION_UPDATE_GATES[CompactionUpdate].is_open(self.client_capabilities)  # COMP-01
        return run_compaction(send or self.send, self.put) if announced else run_compaction(None, self.record)

    async def set_title(self, title: str | None) -> None:
        """Name the session, or take its name away with None, and tell the client."""
        await self.send(SessionInfoUpdate(title=title))

    async def set_commands(self, *commands: AvailableCommand) -> None:
        """Replace the slash commands and tell the client (SLASH-03)."""
        self.commands = commands
        await self.send(AvailableCommandsUpdate(available_commands=[*commands]))

    async def set_mode(self, mode_id: SessionModeId) -> None:
        """Change the mode from the agent's side and tell the client (MODE-03, MODE-05).

        Raises:
          LocalProtocolError: the session has no such mode.
        """
        if self.modes is None:
            raise LocalProtocolError("this session has no modes")
        await self._wait_for_room()  # so that what is set is told
        self.modes.change(mode_id)
        self.put(CurrentModeUpdate(current_mode_id=mode_id))
        if self.config_options is not None and self.config_options.follow_mode(mode_id):
            self.put(self.config_options.as_update())  # CONF-22

    async def set_config_option(self, config_id: SessionConfigId, value: str | bool) -> None:
        """Change a config option from the agent's side and send the full list (CONF-17, CONF-20).

        Raises:
          LocalProtocolError: the session has no such option, or the option no such value.
        """
        if self.config_options is None:
            raise LocalProtocolError("this session has no config options")
        await self._wait_for_room()
        self.config_options.change(config_id, value)
        self.put(self.config_options.as_update())
        mode_id = self.config_options.mode_of(config_id, value)
        if mode_id is not None and self.modes is not None:
            self.modes.change(mode_id)
            self.put(CurrentModeUpdate(current_mode_id=mode_id))  # CONF-22

    def visible_config_options(self) -> list[SessionConfigOption] | None:
        """The config options as this client may see them (CONF-07); None when the session has none."""
        return None if self.config_options is None else self.config_options.visible(self.client_capabilities)

    # ------------------------------------------------------------------------------------------------ life and end

    async def run(
        self,
        open_session: Callable[[AgentSession[S]], AbstractAsyncContextManager[S]],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Own the session for its whole life. Started once its context is built and its servers have been tried.

        What goes wrong before that is raised to the one who starts it; what goes wrong later is reported, and ends the
        session but nothing else.
        """
        started = False
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                await nursery.start(self.mcp.run)  # SETUP-03, SETUP-41: after the context, before the answer
                async with open_session(self) as state:
                    self._application_state.append(state)
                    started = True
                    task_status.started()
                    await self._closing.wait()
                    await self._end_turn()
                await self.mcp.aclose()
                nursery.cancel_scope.cancel()
        except* Exception as bugs:  # and only they: a cancellation that came with them goes on
            if not started:
                raise
            self.connection.report(
                Report(kind=ReportKind.HANDLER_FAILED, reason=f"session {self.id} ended by an error", error=bugs)
            )
        finally:
            self._state = SessionState.CLOSED
            self._closing.set()
            if self.turn_request is not None:
                self.turn_request.cancel()
            if self.owns_journal:
                await self._close_journal()
            self._closed.set()

    async def _close_journal(self) -> None:
        if self.journal is not None:
            with trio.CancelScope(shield=True):  # bounded: it closes a file
                await self.journal.aclose()

    def open(self) -> None:
        """The setup was answered: what was held leaves now, in order, then the slash commands (SLASH-01)."""
        if self._state is SessionState.CLOSED:  # it has ended by itself in that moment
            return
        self._state = after(SESSION, self._state, SessionEvent.OPENED)
        self.client.setup_request = None
        unrecorded, self._unrecorded = self._unrecorded, []
        for update in unrecorded:
            self._append(update)
        self._let_go()
        if self.commands:
            self.put(AvailableCommandsUpdate(available_commands=[*self.commands]))

    def _let_go(self) -> None:
        held, self._held = self._held or [], None
        for frame in held:
            self.connection.put_frame(frame)

    def hold(self) -> None:
        """It is being set up anew. Until that fails (:meth:`release`) or succeeds (:meth:`replace`) both have the
        journal, and what it says waits, or the client would take it for a part of the replay."""
        self.owns_journal = False
        self._held = []

    async def release(self) -> None:
        """It goes on as it was, if it has not ended by itself meanwhile."""
        self._let_go()
        self.owns_journal = True
        if self._closed.is_set():
            await self._close_journal()

    async def replace(self, old: AgentSession[S]) -> bool:
        """End ``old``, which is the same session and was held, and say first what it has said since. False when this
        one has ended by itself meanwhile."""
        await old.aclose()
        self._held = [*(old._held or ()), *(self._held or ())]
        return not self.closed

    def check_call(self) -> None:
        """Whether the session takes a request now.

        Raises:
          LocalProtocolError: it does not; the text says why.
        """
        after(SESSION, self._state, SessionEvent.CALL)

    def begin_close(self) -> None:
        """From now on it is ending: it takes no requests, and its turn is cancelled."""
        self._closing.set()
        self.cancel_turn()  # SETUP-54: as for session/cancel
        if self._nursery is not None:
            scope = self._nursery.cancel_scope
            scope.deadline = min(scope.deadline, trio.current_time() + CLOSE_TIMEOUT)

    async def aclose(self) -> None:
        """End the session: the turn, the application's context, the servers, the journal. Idempotent and bounded."""
        self.begin_close()
        await self._closed.wait()

    @property
    def closed(self) -> bool:
        """Whether the session is over, or about to be: it was closed, or something of its own has failed."""
        failed = self._nursery is not None and self._nursery.cancel_scope.cancel_called
        return failed or self._closing.is_set()

    # ---------------------------------------------------------------------------------------------------- the turn

    @property
    def turn_running(self) -> bool:
        """Whether a prompt turn runs or is being cancelled."""
        return self._turn is not TurnState.IDLE

    def begin_turn(self, request: IncomingRequest) -> None:
        """A prompt arrived.

        Raises:
          LocalProtocolError: another turn runs (D-04), or the session takes no requests now.
        """
        self.check_call()
        self._turn = after(TURN, self._turn, TurnEvent.PROMPT)
        self.turn_request = request

    def cancel_turn(self) -> None:
        """session/cancel: cancel the turn, if one runs, and only the turn."""
        self._turn = after(TURN, self._turn, TurnEvent.CANCEL)
        if self.turn_request is not None:
            self.turn_request.cancel()  # CANCEL-04, CANCEL-17

    def end_turn(self) -> None:
        """The turn is over; its answer follows at once, and so may the next prompt."""
        self._turn = after(TURN, self._turn, TurnEvent.ANSWER)
        self.turn_request = None
        self._turn_over.unpark_all()

    async def _end_turn(self) -> None:
        self.cancel_turn()  # SETUP-54
        with trio.move_on_after(END_TURN_TIMEOUT):
            while self.turn_running:
                await self._turn_over.park()
