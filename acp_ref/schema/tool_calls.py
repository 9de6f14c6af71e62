"""Tool Calls.

https://agentclientprotocol.com/protocol/tool-calls
"""

from __future__ import annotations

import enum
from typing import ClassVar, NewType, TypeAlias

import attrs

from acp_ref._jsonrpc import JSON
from acp_ref.schema._base import (
    UNSET,
    DefaultOnError,
    Meta,
    OmitEmpty,
    SessionId,
    SkipInvalidItems,
    UInt32,
    Unknown,
    UnsetType,
)
from acp_ref.schema._frozen import frozen
from acp_ref.schema.content import ContentBlock
from acp_ref.schema.terminals import TerminalId

ToolCallId = NewType("ToolCallId", str)
"""Names a tool call within its session."""
PermissionOptionId = NewType("PermissionOptionId", str)
"""Names an option of a permission request."""


class ToolKind(enum.StrEnum):
    """What sort of thing a tool does, for icons and looks."""

    READ = "read"
    """Reads files or data."""
    EDIT = "edit"
    """Changes files or content."""
    DELETE = "delete"
    """Removes files or data."""
    MOVE = "move"
    """Moves or renames files."""
    SEARCH = "search"
    """Looks for something."""
    EXECUTE = "execute"
    """Runs commands or code."""
    THINK = "think"
    """Reasons or plans."""
    FETCH = "fetch"
    """Gets data from elsewhere."""
    SWITCH_MODE = "switch_mode"
    """Changes the session's mode (TOOL-04)."""
    OTHER = "other"
    """Something else (TOOL-03)."""


class ToolCallStatus(enum.StrEnum):
    """How far a tool call has come."""

    PENDING = "pending"
    """Not begun: its input still streams in, or it waits for permission."""
    IN_PROGRESS = "in_progress"
    """It runs."""
    COMPLETED = "completed"
    """It succeeded."""
    FAILED = "failed"
    """It failed."""


@frozen(kw_only=True)
class Content:
    """A piece of content that a tool made."""

    TAG: ClassVar = ("type", "content")

    content: ContentBlock
    """The piece."""
    meta: Meta = None


@frozen(kw_only=True)
class Diff:
    """What a tool changes in a file."""

    TAG: ClassVar = ("type", "diff")

    path: str
    """The file, by absolute path."""
    old_text: DefaultOnError[str | None] = None
    """Its text before; None for a new file."""
    new_text: str
    """Its text after."""
    meta: Meta = None


@frozen(kw_only=True)
class Terminal:
    """A terminal whose output is shown live in the tool call (TOOL-15)."""

    TAG: ClassVar = ("type", "terminal")

    terminal_id: TerminalId
    """A terminal made by ``terminal/create`` and not yet released (TOOL-14)."""
    meta: Meta = None


ToolCallContent: TypeAlias = Content | Diff | Terminal | Unknown
"""One thing that a tool call shows (TOOL-11)."""


@frozen(kw_only=True)
class ToolCallLocation:
    """A place in a file that a tool works at, for the client to follow along."""

    path: str
    """The file, by absolute path."""
    line: DefaultOnError[UInt32 | None] = None
    """The line, counted from 1."""
    meta: Meta = None


@frozen(kw_only=True)
class ToolCall:
    """A tool call that begins."""

    TAG: ClassVar = ("sessionUpdate", "tool_call")

    tool_call_id: ToolCallId
    """Names it within its session (TOOL-02)."""
    title: str
    """What it does, for people to read."""
    name: DefaultOnError[str | None] = None
    """The tool's name in programs (TOOL-05)."""
    kind: DefaultOnError[ToolKind] = ToolKind.OTHER
    """What sort of thing it does."""
    status: DefaultOnError[ToolCallStatus] = ToolCallStatus.PENDING
    """How far it has come."""
    content: SkipInvalidItems[OmitEmpty[list[ToolCallContent]]] = attrs.field(factory=list[ToolCallContent])
    """What it shows."""
    locations: SkipInvalidItems[OmitEmpty[list[ToolCallLocation]]] = attrs.field(factory=list[ToolCallLocation])
    """Where it works."""
    raw_input: DefaultOnError[JSON | UnsetType] = UNSET
    """The tool's input as the model gave it."""
    raw_output: DefaultOnError[JSON | UnsetType] = UNSET
    """The tool's output as it came."""
    meta: Meta = None


@frozen(kw_only=True)
class ToolCallUpdate:
    """What changed in a tool call: None keeps what was there, a list replaces the old one whole (TOOL-08, TOOL-09)."""

    TAG: ClassVar = ("sessionUpdate", "tool_call_update")

    tool_call_id: ToolCallId
    """The tool call."""
    kind: DefaultOnError[ToolKind | None] = None
    """What sort of thing it does."""
    status: DefaultOnError[ToolCallStatus | None] = None
    """How far it has come."""
    title: DefaultOnError[str | None] = None
    """What it does, for people to read."""
    name: DefaultOnError[str | None] = None
    """The tool's name in programs, only to correct it (TOOL-06)."""
    content: SkipInvalidItems[list[ToolCallContent] | None] = None
    """What it shows."""
    locations: SkipInvalidItems[list[ToolCallLocation] | None] = None
    """Where it works."""
    raw_input: DefaultOnError[JSON | UnsetType] = UNSET
    """The tool's input as the model gave it."""
    raw_output: DefaultOnError[JSON | UnsetType] = UNSET
    """The tool's output as it came."""
    meta: Meta = None


# ------------------------------------------------------------------------------------------------ permission


class PermissionOptionKind(enum.StrEnum):
    """What choosing an option means."""

    ALLOW_ONCE = "allow_once"
    """Yes, this time."""
    ALLOW_ALWAYS = "allow_always"
    """Yes, and remember it."""
    REJECT_ONCE = "reject_once"
    """No, this time."""
    REJECT_ALWAYS = "reject_always"
    """No, and remember it."""


@frozen(kw_only=True)
class PermissionOption:
    """One answer that the user can give."""

    option_id: PermissionOptionId
    """What the answer names."""
    name: str
    """For people to read."""
    kind: PermissionOptionKind | str
    """What choosing it means. A plain string is a kind that the protocol does not list: never read it as a yes."""
    meta: Meta = None


@frozen(kw_only=True)
class RequestPermissionRequest:
    """Ask the user whether a tool call may go on."""

    session_id: SessionId
    """The session."""
    tool_call: ToolCallUpdate
    """The tool call."""
    options: list[PermissionOption]
    """The answers to choose from."""
    meta: Meta = None


@frozen(kw_only=True)
class CancelledPermissionOutcome:
    """The turn was cancelled before the user answered."""

    TAG: ClassVar = ("outcome", "cancelled")


@frozen(kw_only=True)
class SelectedPermissionOutcome:
    """The user chose an option, which may be a no: look at its kind."""

    TAG: ClassVar = ("outcome", "selected")

    option_id: PermissionOptionId
    """The option."""
    meta: Meta = None


RequestPermissionOutcome: TypeAlias = CancelledPermissionOutcome | SelectedPermissionOutcome | Unknown
"""What came of a permission request (PERM-03). An unknown one is no permission."""


@frozen(kw_only=True)
class RequestPermissionResponse:
    """What the user said."""

    outcome: RequestPermissionOutcome
    """What came of it."""
    meta: Meta = None
