"""The conversation, as a person reads it.

https://agentclientprotocol.com/protocol/prompt-turn#3-agent-reports-output

Each update of a session is told once, in the order in which it came; what it changed is read from the session's merged
state. Text streams. What has no place in the conversation (title, commands, modes, usage) may arrive in the middle of
a word, so it waits until the message is over; a notice does not wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Final, final

from acp_ref._jsonrpc import JSON, JSONObject
from acp_ref.mcp_servers import META_KEY, McpState
from acp_ref.reference_client.content import described
from acp_ref.reference_client.screen import TOOL, USER, Screen, Style
from acp_ref.reference_client.text import one_line
from acp_ref.reference_client.tool_calls import FindTerminal, ToolCalls
from acp_ref.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    AvailableCommandsUpdate,
    CompactionId,
    CompactionStatus,
    CompactionSummaryChunk,
    CompactionUpdate,
    ConfigOptionUpdate,
    ContentBlock,
    CurrentModeUpdate,
    MessageId,
    Notice,
    NoticeSeverity,
    Plan,
    PlanEntry,
    PlanEntryPriority,
    PlanEntryStatus,
    SessionConfigOption,
    SessionConfigSelect,
    SessionInfoUpdate,
    SessionUpdate,
    StopReason,
    TextContent,
    ToolCall,
    ToolCallId,
    ToolCallUpdate,
    Unknown,
    UsageUpdate,
    UserMessageChunk,
)
from acp_ref.session_config_options import flatten
from acp_ref.session_state import SessionState, ToolCallState
from acp_ref.terminals import LocalTerminal

__all__ = ["Conversation", "config_value"]

SEVERITIES: Final[Mapping[str, Style]] = {
    NoticeSeverity.INFO: Style.CYAN,
    NoticeSeverity.WARNING: Style.YELLOW,
    NoticeSeverity.ERROR: Style.RED,
}

CHECKMARKS: Final[Mapping[str, tuple[str, Style]]] = {
    PlanEntryStatus.PENDING: ("○", Style.PLAIN),
    PlanEntryStatus.IN_PROGRESS: ("◐", Style.CYAN),
    PlanEntryStatus.COMPLETED: ("✔", Style.GREEN),
}

STOP_REASONS: Final[Mapping[str, str]] = {
    StopReason.MAX_TOKENS: "the model reached its limit of tokens",
    StopReason.MAX_TURN_REQUESTS: "the agent reached its limit of requests to the model",
    StopReason.REFUSAL: "the agent refuses to go on; it will not remember this prompt",
    StopReason.CANCELLED: "the turn was cancelled",
}

Lines = Sequence[tuple[str, Style]]


@final
class Conversation:
    """One session on the screen.

    Args:
      screen: where it is told.
      state: what has been merged of the session's updates, those that are told included.
      cwd: the session's directory.
      terminal: finds the terminals that tool calls show.
      follow: told of a running terminal when it is first shown; whoever follows it calls :meth:`tell_output`.
    """

    def __init__(
        self,
        screen: Screen,
        state: SessionState,
        cwd: str,
        terminal: FindTerminal = lambda terminal_id: None,
        follow: Callable[[ToolCallState, LocalTerminal], None] = lambda call, terminal: None,
    ) -> None:
        self._screen = screen
        self._state = state
        self._calls = ToolCalls(screen, cwd, terminal, follow)
        self._message_id: MessageId | None = None
        self._later: dict[str, Lines] = {}
        self._replaying = False
        self._in_turn = False
        self._streaming = False
        self._told_mode: object = None
        self._told_options: dict[str, str] = {}
        self._told_servers = False
        self._told_commands = ""
        self._told_plan: Sequence[PlanEntry] = ()
        self._told_compactions: dict[CompactionId, str] = {}
        self._unfinished: dict[ToolCallId, ToolCallState] = {}

    # ------------------------------------------------------------------------------------------------ session setup

    def begin(self, agent: str, session_id: str) -> None:
        """Tell which session this is."""
        self._screen.begin("aside")
        self._screen.line(f"{one_line(agent)}, session {one_line(session_id)}", Style.BOLD)

    def set_up(self, meta: JSONObject | None) -> None:
        """Tell what came with the answer to the session's setup, unless it was told already.

        Args:
          meta: the ``_meta`` of the answer, where our agents tell of MCP servers that failed.
        """
        self._end_replay()
        self._tell_mode()
        self._tell_options()
        if meta is not None and not self._told_servers:
            self._told_servers = True
            for name, reason in _failed_servers(meta.get(META_KEY)):
                self._aside([(f"MCP server {name!r} failed: {reason}", Style.YELLOW)])

    # ------------------------------------------------------------------------------------------------------- turns

    def said(self, prompt: str, *, typed: bool) -> None:
        """The user said ``prompt``; when they typed it, it is on the screen."""
        if typed:
            self._screen.kind = USER
        else:
            self._begin(USER)
            self._screen.line("\n".join(f"> {line}" for line in prompt.split("\n")), Style.BOLD)

    def begin_turn(self) -> None:
        """A turn begins; its updates follow."""
        self._in_turn = True

    def end_turn(self) -> None:
        """The turn is over, if it was not already: tell why. An error is told elsewhere."""
        if not self._in_turn:
            return
        self._in_turn = False
        self._pause()
        for call in [*self._unfinished.values()]:
            if call.cancelled:  # CANCEL-02
                self._tell_call(call)
        self._unfinished.clear()
        stop_reason = self._state.stop_reason
        if stop_reason is not None and stop_reason != StopReason.END_TURN:
            reason = STOP_REASONS.get(stop_reason, f"the turn ended: {one_line(stop_reason)}")
            self._aside([(f"({reason})", Style.YELLOW)])
        if self._screen.kind == USER:
            self._screen.kind = ""  # nothing followed; another prompt may

    # ------------------------------------------------------------------------------------------------------ updates

    def tell(self, update: SessionUpdate, *, replayed: bool = False) -> None:
        """Tell one update, which is in the state already."""
        if self._in_turn and not self._state.turn_running:
            self.end_turn()  # before what came behind its answer
        if replayed and not self._replaying:
            self._replaying = True
            self._aside([("--- what was said before ---", Style.DIM)])
        elif not replayed:
            self._end_replay()
        match update:
            case AgentMessageChunk():
                self._chunk("agent", update.message_id, update.content)
            case AgentThoughtChunk():
                self._chunk("thought", update.message_id, update.content, Style.DIM)
            case UserMessageChunk():
                self._chunk(USER, update.message_id, update.content, Style.BOLD, mark="> ")
            case ToolCall() | ToolCallUpdate():
                self._tell_call(self._state.tool_calls[update.tool_call_id])
            case Plan():
                self._tell_plan(update)
            case Notice():
                description = f": {update.description}" if update.description else ""
                style = SEVERITIES.get(update.severity, Style.YELLOW)
                self._aside([(f"{one_line(update.severity)}: {update.title}{description}", style)])
            case CompactionUpdate() | CompactionSummaryChunk():
                self._tell_compaction(update)
            case _:
                self._tell_aside(update)

    def tell_tool_call(self, tool_call_id: ToolCallId) -> None:
        """Tell what there is to know of a tool call, as when permission for it is asked."""
        self._tell_call(self._state.tool_calls[tool_call_id], again=True)

    def tell_output(self, call: ToolCallState, terminal: LocalTerminal) -> None:
        """Tell what a terminal of ``call`` wrote since the last time."""
        self._begin(TOOL)
        self._calls.tell_output(call, terminal)

    def aside(self, text: str, style: Style = Style.DIM) -> None:
        """Tell something that is no part of the conversation."""
        self._aside([(text, style)])

    # --------------------------------------------------------------------------------------- messages and tool calls

    def _begin(self, kind: str) -> None:
        """Something of ``kind`` follows."""
        if self._screen.kind != kind:
            self._pause()
            self._screen.begin(kind)
            self._calls.interrupted()
            self._message_id = None
            self._streaming = False

    def _chunk(
        self, kind: str, message_id: MessageId | None, content: ContentBlock, style: Style = Style.PLAIN, mark: str = ""
    ) -> None:
        if self._screen.kind == kind and message_id is not None and self._message_id not in (None, message_id):
            self._streaming = False  # another message
            self._screen.gap()
        self._begin(kind)
        self._message_id = message_id or self._message_id
        text = content.text if isinstance(content, TextContent) else ""
        if not self._streaming:
            text = text.lstrip("\n")
            self._screen.stream(mark, style)
            self._streaming = True
        self._screen.stream(text, style)
        if not isinstance(content, TextContent):
            self._screen.line(described(content), style)

    def _tell_call(self, call: ToolCallState, *, again: bool = False) -> None:
        self._begin(TOOL)
        self._calls.tell(call, again=again)
        if call.finished:
            self._unfinished.pop(call.tool_call_id, None)
        else:
            self._unfinished[call.tool_call_id] = call

    def _tell_plan(self, plan: Plan) -> None:
        told, self._told_plan = self._told_plan, plan.entries
        if plan.entries == told:
            return
        fresh = self._screen.kind != "plan"
        self._begin("plan")
        if fresh or len(plan.entries) != len(told):
            self._screen.line("Plan:" if plan.entries else "Plan: nothing", Style.BOLD)
        for entry, before in zip_longest(plan.entries, told[: len(plan.entries)]):
            if entry != before or len(plan.entries) != len(told):
                mark, style = CHECKMARKS.get(entry.status, ("?", Style.PLAIN))
                matters = "" if entry.priority == PlanEntryPriority.MEDIUM else f"  ({one_line(entry.priority)})"
                self._screen.line(f"{mark} {one_line(entry.content)}{matters}", style, gutter="  ")

    def _tell_compaction(self, update: CompactionUpdate | CompactionSummaryChunk) -> None:
        compaction = self._state.compactions[update.compaction_id]
        told = self._told_compactions.get(update.compaction_id)
        self._told_compactions[update.compaction_id] = compaction.status
        if compaction.status == told:
            return
        if compaction.status == CompactionStatus.IN_PROGRESS:
            self._aside([("compacting the conversation", Style.DIM)])
            return
        reason = f": {compaction.error}" if compaction.error else ""
        lines = [(f"compacting the conversation: {one_line(compaction.status)}{reason}", Style.DIM)]
        if compaction.summary:
            shown = "".join(
                described(block) if isinstance(block, TextContent) else f"\n{described(block)}\n"
                for block in compaction.summary
            )
            lines.append((shown.strip("\n"), Style.DIM))
        self._aside(lines)

    # ------------------------------------------------------------------------- what is no part of the conversation

    def _tell_aside(self, update: SessionUpdate) -> None:
        match update:
            case CurrentModeUpdate():
                self._tell_mode()
            case ConfigOptionUpdate():
                self._tell_mode()
                self._tell_options()
            case SessionInfoUpdate():
                if update.title:
                    self._soon("title", [(f"title: {one_line(update.title)}", Style.DIM)])
            case AvailableCommandsUpdate():
                names = one_line(" ".join(f"/{command.name}" for command in self._state.available_commands))
                if names != self._told_commands:
                    self._told_commands = names
                    self._soon("commands", [(f"commands: {names or 'none'}", Style.DIM)])
            case UsageUpdate():
                self._soon("usage", [(_usage(update), Style.DIM)], in_turn=True)
            case Unknown():
                kind = one_line(str(update.raw.get("sessionUpdate")))
                self._soon("unknown", [(f"(an update of a kind that is not known here: {kind})", Style.DIM)])
            case _:
                pass

    def _tell_mode(self) -> None:
        choice = self._state.mode_choice
        if choice is None or choice.current == self._told_mode or choice.config_id is not None:
            return  # a config option is told with the other ones
        name = next((mode.name for mode in choice.modes if mode.id == choice.current), None)
        self._told_mode = choice.current
        shown = one_line(choice.current if name is None else f"{name} ({choice.current})")
        self._soon("mode", [(f"mode: {shown}", Style.DIM)])

    def _tell_options(self) -> None:
        lines = [*self._later.get("options", ())]
        for option in self._state.config_options:
            if not isinstance(option, Unknown) and self._told_options.get(option.id) != (value := config_value(option)):
                self._told_options[option.id] = value
                lines.append((f"{one_line(option.name)}: {value}", Style.DIM))
        if lines:
            self._soon("options", lines)

    def _soon(self, what: str, lines: Lines, *, in_turn: bool = False) -> None:
        """Tell ``lines`` now, unless a message is in the middle of a line; then when it is over.

        Args:
          what: names them; of several that wait under the same name, only the last are told.
          in_turn: whether it can wait for the end of a running turn.
        """
        self._later[what] = lines
        streaming = self._streaming and (self._in_turn or self._replaying)
        if not streaming and not (in_turn and self._state.turn_running):
            self._pause()

    def _pause(self) -> None:
        """Tell what has waited."""
        waiting, self._later = self._later, {}
        if self._state.turn_running and "usage" in waiting:
            self._later["usage"] = waiting.pop("usage")
        for lines in waiting.values():
            self._aside(lines)

    def _aside(self, lines: Lines) -> None:
        self._begin("aside")
        for text, style in lines:
            self._screen.line(text, style)

    def _end_replay(self) -> None:
        if self._replaying:
            self._replaying = False
            self._pause()
            self._unfinished.clear()
            self._aside([("--- end of what was said before ---", Style.DIM)])


def config_value(option: SessionConfigOption) -> str:
    """The value of a config option, as people and as programs call it."""
    if isinstance(option, SessionConfigSelect):
        name = next((choice.name for choice in flatten(option.options) if choice.value == option.current_value), None)
        value = option.current_value if name is None else f"{name} ({option.current_value})"
        return one_line(value)
    return "" if isinstance(option, Unknown) else "on" if option.current_value else "off"


def _usage(usage: UsageUpdate) -> str:
    share = f" ({usage.used / usage.size:.0%})" if usage.size else ""
    cost = f", {usage.cost.amount:g} {one_line(usage.cost.currency)}" if usage.cost is not None else ""
    return f"context: {usage.used:,} of {usage.size:,} tokens{share}{cost}"


def _failed_servers(told: JSON) -> list[tuple[str, str]]:
    """Name and reason of the MCP servers that failed, as far as the agent told of them in a way that is known here."""
    failed: list[tuple[str, str]] = []
    for entry in told if isinstance(told, list) else ():
        match entry:
            case {"name": str(name), "state": McpState.FAILED.value, "reason": str(reason)}:
                failed.append((one_line(name), one_line(reason)))
            case _:
                pass
    return failed
