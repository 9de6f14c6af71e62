"""The entries of a session's timeline, as its client merges them: messages, tool calls and compactions.

https://agentclientprotocol.com/protocol/prompt-turn#3-agent-reports-output

Applications read them; :class:`acp_ref.session_state.SessionState` alone changes them. What streams in is kept in
pieces and joined when somebody reads it, so that the cost of an update does not grow with what came before.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TypeAlias, final

import attrs
from typing_extensions import TypeIs

from acp_ref._jsonrpc import JSON, JSONObject
from acp_ref.schema import (
    UNSET,
    CompactionId,
    CompactionStatus,
    CompactionUpdate,
    ContentBlock,
    MessageId,
    TextContent,
    ToolCall,
    ToolCallContent,
    ToolCallId,
    ToolCallLocation,
    ToolCallStatus,
    ToolCallUpdate,
    ToolKind,
    UnsetType,
)

__all__ = ["CompactionState", "Message", "MessageRole", "TimelineEntry", "ToolCallState"]


class MessageRole(enum.Enum):
    """Whose message it is."""

    USER = "user"
    AGENT = "agent"
    THOUGHT = "thought"
    """The agent's reasoning."""


@final
class Message:
    """A message, as far as it has come."""

    __slots__ = ("_blocks", "_fresh", "_limit", "message_id", "refused", "role")

    role: MessageRole
    """Whose it is."""
    message_id: MessageId | None
    """What the agent calls it, if it gave it an id (PROMPT-11)."""
    refused: bool
    """Whether the agent forgot it with the turn it refused (PROMPT-18)."""

    def __init__(
        self, role: MessageRole, message_id: MessageId | None = None, content: Sequence[ContentBlock] = ()
    ) -> None:
        self.role = role
        self.message_id = message_id
        self.refused = False
        self._blocks = [*content]
        self._fresh: list[str | ContentBlock] = []  # chunks that were not joined yet, plain text as such
        self._limit = 1024

    def __repr__(self) -> str:
        return f"<Message {self.role.value} {self.text!r}>"

    def append(self, block: ContentBlock) -> None:
        """Take one more chunk; there may be tens of thousands a second.

        Chunks are joined when somebody reads them, or when as many have come as were joined before: each byte is
        copied a few times at most, and of a long message only half is kept in pieces.
        """
        fresh = self._fresh
        fresh.append(block.text if _is_plain(block) else block)
        if len(fresh) >= self._limit:
            self._join()
            self._limit *= 2

    @property
    def content(self) -> Sequence[ContentBlock]:
        """Its content up to now. Text that came in pieces is one block again."""
        self._join()
        return tuple(self._blocks)

    @property
    def text(self) -> str:
        """All its text, without the content between."""
        self._join()
        return _text(self._blocks)

    def _join(self) -> None:
        pieces: list[str] = []
        for piece in self._fresh:
            if isinstance(piece, str):
                pieces.append(piece)
            else:
                self._append_text(pieces)
                pieces.clear()
                self._blocks.append(piece)
        self._append_text(pieces)
        self._fresh.clear()

    def _append_text(self, pieces: Sequence[str]) -> None:
        if not pieces:
            return
        last = self._blocks[-1] if self._blocks else None
        if _is_plain(last):
            self._blocks[-1] = TextContent(text="".join((last.text, *pieces)))
        else:
            self._blocks.append(TextContent(text="".join(pieces)))


def _is_plain(block: ContentBlock | None) -> TypeIs[TextContent]:
    return type(block) is TextContent and block.annotations is None and block.meta is None


def _text(blocks: Sequence[ContentBlock]) -> str:
    return "".join([block.text for block in blocks if isinstance(block, TextContent)])


@final
@attrs.define(kw_only=True, eq=False)
class ToolCallState:
    """A tool call, as far as it has come."""

    tool_call_id: ToolCallId
    """Names it within its session (TOOL-02)."""
    title: str = ""
    """What it does, for people to read; empty as long as the agent has not said."""
    name: str | None = None
    """The tool's name in programs (TOOL-05)."""
    kind: ToolKind = ToolKind.OTHER
    """What sort of thing it does (TOOL-03)."""
    status: ToolCallStatus = ToolCallStatus.PENDING
    """How far it has come, as the agent said last (TOOL-03, TOOL-10)."""
    content: Sequence[ToolCallContent] = ()
    """What it shows."""
    locations: Sequence[ToolCallLocation] = ()
    """Where it works."""
    raw_input: JSON | UnsetType = UNSET
    """The tool's input as the model gave it."""
    raw_output: JSON | UnsetType = UNSET
    """The tool's output as it came."""
    meta: JSONObject | None = None
    cancelled: bool = False
    """Whether it was unfinished when its turn was cancelled. Known here only (X-18), until the agent says otherwise."""
    refused: bool = False
    """Whether the agent forgot it with the turn it refused (PROMPT-18)."""

    @property
    def finished(self) -> bool:
        """Whether nothing more is expected of it."""
        return self.cancelled or self.status in (ToolCallStatus.COMPLETED, ToolCallStatus.FAILED)

    def as_update(self) -> ToolCallUpdate:
        """All that is known of it, as one update."""
        return ToolCallUpdate(
            tool_call_id=self.tool_call_id,
            title=self.title or None,
            name=self.name,
            kind=self.kind,
            status=self.status,
            content=[*self.content],
            locations=[*self.locations],
            raw_input=self.raw_input,
            raw_output=self.raw_output,
            meta=self.meta,
        )

    def merge(self, update: ToolCallUpdate) -> None:
        """Absent and null leave a field as it was (TOOL-07, TOOL-09, D-38)."""
        if update.title is not None:
            self.title = update.title
        if update.kind is not None:
            self.kind = update.kind
        if update.status is not None:
            self.status = update.status
            self.cancelled = False  # CANCEL-10: what the agent says counts
        if update.content is not None:
            self.content = update.content  # TOOL-08: replaced as a whole
        if update.locations is not None:
            self.locations = update.locations  # TOOL-08
        self._merge_rest(update)

    def merge_report(self, report: ToolCall) -> None:
        """The same for a ``tool_call``, where absent reads as the default (D-37)."""
        self.title = report.title
        if report.kind is not ToolKind.OTHER:
            self.kind = report.kind
        if report.status is not ToolCallStatus.PENDING:
            self.status = report.status
            self.cancelled = False
        self.content = report.content or self.content
        self.locations = report.locations or self.locations
        self._merge_rest(report)

    def _merge_rest(self, update: ToolCall | ToolCallUpdate) -> None:
        if update.name is not None:
            self.name = update.name
        if update.raw_input is not UNSET and update.raw_input is not None:
            self.raw_input = update.raw_input
        if update.raw_output is not UNSET and update.raw_output is not None:
            self.raw_output = update.raw_output
        if update.meta is not None:
            self.meta = update.meta


@final
@attrs.define(kw_only=True, eq=False)
class CompactionState:
    """A compaction of the agent's context, as far as it has come."""

    compaction_id: CompactionId
    """Names it within its session."""
    status: CompactionStatus | str = CompactionStatus.IN_PROGRESS
    """How far it has come."""
    error: str | None = None
    """Why it failed, for people to read."""
    meta: JSONObject | None = None
    refused: bool = False
    """Whether the agent forgot it with the turn it refused (PROMPT-18)."""
    _summary: list[ContentBlock] = attrs.field(factory=list[ContentBlock])

    @property
    def summary(self) -> Sequence[ContentBlock]:
        """What the user may read of the result."""
        return self._summary

    @property
    def text(self) -> str:
        """All text of the summary."""
        return _text(self._summary)

    def merge(self, update: CompactionUpdate) -> None:
        """Absent leaves a field as it was, null clears it (COMP-03)."""
        self.status = update.status
        if update.summary is not UNSET:
            self._summary = [*(update.summary or ())]
        if update.error is not UNSET:
            self.error = update.error
        if update.meta is not UNSET:
            self.meta = update.meta

    def append(self, block: ContentBlock) -> None:
        """Take one more block of the summary (COMP-04)."""
        self._summary.append(block)


TimelineEntry: TypeAlias = Message | ToolCallState | CompactionState
"""What has a place in the conversation."""
