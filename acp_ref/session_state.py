"""The state of a session as its client knows it: all its updates, merged, ready to be drawn at any time.

https://agentclientprotocol.com/protocol/prompt-turn#3-agent-reports-output

Theory of operation. :meth:`SessionState.apply` takes the updates in the order they came, those of a replay like those
of a live turn, and each costs the same however long the session is: a chunk is appended to a list and joined when
somebody reads it, a tool call is changed in place, everything else replaces what was there.

Messages, tool calls and compactions stand in the timeline, each where it was first mentioned. Chunks with a message id
belong to the message of that id, whatever comes between (PROMPT-10). A chunk without one goes on with the message
before it, unless that is of another kind or another entry of the timeline has come between (D-39). What takes no place
in the timeline (plan, usage, notices, progress of a known tool call, updates of unknown kinds) breaks no message: it
may arrive in the middle of a word, and a replay, which tells only how such things stood last, must give the same
messages as the live session did.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias, cast, final

import attrs

from acp_ref._jsonrpc import JSONObject
from acp_ref.schema import (
    UNSET,
    AgentMessageChunk,
    AgentThoughtChunk,
    AvailableCommand,
    AvailableCommandsUpdate,
    CompactionId,
    CompactionSummaryChunk,
    CompactionUpdate,
    ConfigOptionUpdate,
    ContentBlock,
    CurrentModeUpdate,
    LoadSessionResponse,
    MessageId,
    NewSessionResponse,
    Notice,
    Plan,
    ResumeSessionResponse,
    SessionConfigId,
    SessionConfigOption,
    SessionConfigOptionCategory,
    SessionConfigSelect,
    SessionInfoUpdate,
    SessionMode,
    SessionModeId,
    SessionUpdate,
    StopReason,
    ToolCall,
    ToolCallId,
    ToolCallUpdate,
    Unknown,
    UsageUpdate,
    UserMessageChunk,
)
from acp_ref.session_config_options import flatten
from acp_ref.slash_commands import bare_name
from acp_ref.timeline import CompactionState, Message, MessageRole, TimelineEntry, ToolCallState

__all__ = [
    "CompactionState",
    "Message",
    "MessageRole",
    "ModeChoice",
    "SessionState",
    "TimelineEntry",
    "ToolCallState",
]

KEPT: Final = 100
"""How many notices, and how many unknown updates, are kept: enough to show, too few to fill memory."""

MessageChunk: TypeAlias = UserMessageChunk | AgentMessageChunk | AgentThoughtChunk

_ROLES: Final[Mapping[type[MessageChunk], MessageRole]] = {
    UserMessageChunk: MessageRole.USER,
    AgentMessageChunk: MessageRole.AGENT,
    AgentThoughtChunk: MessageRole.THOUGHT,
}


@attrs.frozen(kw_only=True)
class ModeChoice:
    """The modes a user can choose from, wherever the agent told of them."""

    current: SessionModeId
    """The one the session is in."""
    modes: Sequence[SessionMode]
    """All of them, in the agent's order (CONF-03)."""
    config_id: SessionConfigId | None
    """The config option to set; None where it is ``session/set_mode`` that changes the mode."""


@final
class SessionState:
    """A session, as its updates have told it so far. Everything may be read at any time; nothing here waits."""

    plan: Plan | None
    """The plan, whole, as it was sent last (PLAN-05)."""
    available_modes: Sequence[SessionMode]
    """The modes; see :attr:`mode_choice` for what to show."""
    current_mode_id: SessionModeId | None
    """The mode the session is in (MODE-03)."""
    available_commands: Sequence[AvailableCommand]
    """The slash commands as they were sent last (SLASH-03), their names without a slash (D-50)."""
    config_options: Sequence[SessionConfigOption]
    """The config options in the agent's order, the most important first (CONF-03, CONF-14, CONF-17)."""
    usage: UsageUpdate | None
    """How full the context is, and what the session has cost (PROMPT-12)."""
    title: str | None
    """What to call the session."""
    updated_at: str | None
    """When something last happened in it, as ISO 8601 says."""
    meta: JSONObject | None
    """The agent's own data about the session."""
    stop_reason: StopReason | str | None
    """Why the last turn ended; None while one runs, when none has, and when it ended in an error."""

    def __init__(self) -> None:
        self.plan = None
        self.available_modes = ()
        self.current_mode_id = None
        self.available_commands = ()
        self.config_options = ()
        self.usage = None
        self.title = None
        self.updated_at = None
        self.meta = None
        self.stop_reason = None
        self._timeline: list[TimelineEntry] = []
        self._messages: dict[tuple[MessageRole, MessageId], Message] = {}
        self._tool_calls: dict[ToolCallId, ToolCallState] = {}
        self._compactions: dict[CompactionId, CompactionState] = {}
        self._notices: deque[Notice] = deque(maxlen=KEPT)
        self._unknown: deque[Unknown] = deque(maxlen=KEPT)
        self._turn_start: int | None = None  # where in the timeline the running turn begins
        self._open: Message | None = None  # what a chunk without an id goes on with

    def __repr__(self) -> str:
        return f"<SessionState {self.title!r}, {len(self._timeline)} entries>"

    # ------------------------------------------------------------------------------------------------------ reading

    @property
    def timeline(self) -> Sequence[TimelineEntry]:
        """Messages, tool calls and compactions, each where it was first mentioned. It grows as updates come."""
        return self._timeline

    @property
    def tool_calls(self) -> Mapping[ToolCallId, ToolCallState]:
        """The tool calls by id."""
        return self._tool_calls

    @property
    def compactions(self) -> Mapping[CompactionId, CompactionState]:
        """The compactions by id (COMP-02)."""
        return self._compactions

    @property
    def notices(self) -> Sequence[Notice]:
        """The latest notices, at most 100. They are no part of the conversation and change nothing in it (NOTE-05)."""
        return self._notices

    @property
    def unknown(self) -> Sequence[Unknown]:
        """The latest updates of kinds that are not known here, at most 100."""
        return self._unknown

    @property
    def turn_running(self) -> bool:
        """Whether a turn was begun and not ended."""
        return self._turn_start is not None

    @property
    def mode(self) -> SessionMode | None:
        """The mode the session is in, when its agent has modes and told what this one is."""
        return next((mode for mode in self.available_modes if mode.id == self.current_mode_id), None)

    @property
    def mode_choice(self) -> ModeChoice | None:
        """The one choice of modes to show: of the config options when there are any, else of the modes.

        An agent that offers both keeps them in step, so its modes are only for clients that know no config options
        (CONF-01, CONF-23).
        """
        for option in self.config_options:
            if isinstance(option, SessionConfigSelect) and option.category == SessionConfigOptionCategory.MODE:
                return ModeChoice(
                    current=SessionModeId(option.current_value),
                    modes=[
                        SessionMode(id=SessionModeId(choice.value), name=choice.name, description=choice.description)
                        for choice in flatten(option.options)
                    ],
                    config_id=option.id,
                )
        if self.config_options or self.current_mode_id is None:
            return None
        return ModeChoice(current=self.current_mode_id, modes=self.available_modes, config_id=None)

    # ------------------------------------------------------------------------------------------------------- turns

    def opened(self, response: NewSessionResponse | LoadSessionResponse | ResumeSessionResponse) -> None:
        """The session was set up: take the modes and config options that came with the answer (MODE-01, CONF-02)."""
        if response.modes is not None:
            self.available_modes = response.modes.available_modes
            self.current_mode_id = response.modes.current_mode_id
        if response.config_options is not None:
            self.config_options = response.config_options

    def begin_turn(self, prompt: Sequence[ContentBlock]) -> None:
        """The user said something; the agent does not say it again in a live turn."""
        self._turn_start = len(self._timeline)
        self.stop_reason = None
        self._place(Message(MessageRole.USER, content=prompt))

    def introduce(self, tool_call: ToolCallUpdate) -> None:
        """A permission request told of ``tool_call``, which may be new (PERM-09)."""
        self._apply_tool_call_update(tool_call)

    def cancel(self) -> None:
        """The running turn was told to stop: its unfinished tool calls are cancelled for the user (CANCEL-02).

        Updates still count (CANCEL-10).
        """
        for entry in self._turn():
            if isinstance(entry, ToolCallState) and not entry.finished:
                entry.cancelled = True

    def end_turn(self, stop_reason: StopReason | str | None) -> None:
        """The running turn is over; ``None`` when it ended in an error.

        After a refusal the entries of the turn are marked, for they are not part of the next prompt (PROMPT-18). After
        a cancellation no tool call of the turn is left unfinished (CANCEL-02). Updates that come later count as well.
        """
        if stop_reason == StopReason.REFUSAL:
            for entry in self._turn():
                entry.refused = True
        elif stop_reason == StopReason.CANCELLED:
            self.cancel()
        self.stop_reason = stop_reason
        self._turn_start = None
        self._open = None

    def _turn(self) -> Sequence[TimelineEntry]:
        return () if self._turn_start is None else self._timeline[self._turn_start :]

    # ----------------------------------------------------------------------------------------------------- updates

    def apply(self, update: SessionUpdate) -> None:
        """Merge ``update``. Takes any update at any time, in a turn or not."""
        self._APPLY[type(update)](self, update)

    def _place(self, entry: TimelineEntry) -> None:
        self._timeline.append(entry)
        self._open = None

    def _apply_chunk(self, update: MessageChunk) -> None:
        role, message_id, message = _ROLES[type(update)], update.message_id, self._open
        if message is None or message.role is not role or (message_id is not None and message_id != message.message_id):
            self._open = message = self._message(role, message_id)
        message.append(update.content)

    def _message(self, role: MessageRole, message_id: MessageId | None) -> Message:
        """The message of that id, or a new one."""
        message = None if message_id is None else self._messages.get((role, message_id))
        if message is None:
            message = Message(role, message_id)
            self._place(message)
            if message_id is not None:
                self._messages[role, message_id] = message  # PROMPT-10
        return message

    def _apply_tool_call(self, update: ToolCall) -> None:
        self._tool_call(update.tool_call_id).merge_report(update)

    def _apply_tool_call_update(self, update: ToolCallUpdate) -> None:
        self._tool_call(update.tool_call_id).merge(update)

    def _tool_call(self, tool_call_id: ToolCallId) -> ToolCallState:
        """The tool call, whichever kind of update mentions it first (D-37)."""
        call = self._tool_calls.get(tool_call_id)
        if call is None:
            call = self._tool_calls[tool_call_id] = ToolCallState(tool_call_id=tool_call_id)
            self._place(call)
        return call

    def _apply_compaction_update(self, update: CompactionUpdate) -> None:
        self._compaction(update.compaction_id).merge(update)

    def _apply_compaction_summary_chunk(self, update: CompactionSummaryChunk) -> None:
        self._compaction(update.compaction_id).append(update.content)

    def _compaction(self, compaction_id: CompactionId) -> CompactionState:
        compaction = self._compactions.get(compaction_id)
        if compaction is None:  # COMP-02: its first mention is its place; COMP-04: it is in progress
            compaction = self._compactions[compaction_id] = CompactionState(compaction_id=compaction_id)
            self._place(compaction)
        return compaction

    def _apply_plan(self, update: Plan) -> None:
        self.plan = update

    def _apply_available_commands(self, update: AvailableCommandsUpdate) -> None:
        self.available_commands = [
            command if (name := bare_name(command.name)) == command.name else attrs.evolve(command, name=name)
            for command in update.available_commands
        ]

    def _apply_current_mode(self, update: CurrentModeUpdate) -> None:
        self.current_mode_id = update.current_mode_id

    def _apply_config_options(self, update: ConfigOptionUpdate) -> None:
        self.config_options = update.config_options

    def _apply_session_info(self, update: SessionInfoUpdate) -> None:
        """Absent leaves a field as it was (LIST-16), null clears it (LIST-17)."""
        if update.title is not UNSET:
            self.title = update.title
        if update.updated_at is not UNSET:
            self.updated_at = update.updated_at
        if update.meta is not UNSET:
            self.meta = update.meta

    def _apply_usage(self, update: UsageUpdate) -> None:
        self.usage = update

    def _apply_notice(self, update: Notice) -> None:
        self._notices.append(update)

    def _apply_unknown(self, update: Unknown) -> None:
        self._unknown.append(update)

    # The cast: each function takes the type it stands under, which the type of a dict cannot say.
    _APPLY: Final = cast(
        "Mapping[type[SessionUpdate], Callable[[SessionState, SessionUpdate], None]]",
        {
            UserMessageChunk: _apply_chunk,
            AgentMessageChunk: _apply_chunk,
            AgentThoughtChunk: _apply_chunk,
            ToolCall: _apply_tool_call,
            ToolCallUpdate: _apply_tool_call_update,
            Plan: _apply_plan,
            AvailableCommandsUpdate: _apply_available_commands,
            CurrentModeUpdate: _apply_current_mode,
            ConfigOptionUpdate: _apply_config_options,
            SessionInfoUpdate: _apply_session_info,
            UsageUpdate: _apply_usage,
            Notice: _apply_notice,
            CompactionUpdate: _apply_compaction_update,
            CompactionSummaryChunk: _apply_compaction_summary_chunk,
            Unknown: _apply_unknown,
        },
    )
