"""Prompt Turn.

https://agentclientprotocol.com/protocol/prompt-turn
"""

from __future__ import annotations

import enum
from typing import ClassVar, NewType, TypeAlias

from acp_ref.schema._base import DefaultOnError, Meta, SessionId, UInt64, Unknown
from acp_ref.schema._frozen import frozen
from acp_ref.schema.agent_plan import Plan
from acp_ref.schema.compaction import CompactionSummaryChunk, CompactionUpdate
from acp_ref.schema.content import ContentBlock
from acp_ref.schema.notices import Notice
from acp_ref.schema.session_config_options import ConfigOptionUpdate
from acp_ref.schema.session_list import SessionInfoUpdate
from acp_ref.schema.session_modes import CurrentModeUpdate
from acp_ref.schema.slash_commands import AvailableCommandsUpdate
from acp_ref.schema.tool_calls import ToolCall, ToolCallUpdate

MessageId = NewType("MessageId", str)
"""Names a message of a session; all its chunks bear it. In a replay it may be another one (SETUP-43)."""


@frozen(kw_only=True)
class PromptRequest:
    """What the user says: begin a turn."""

    session_id: SessionId
    """The session."""
    prompt: list[ContentBlock]
    """The message. Blocks other than text and resource links need a prompt capability of the agent."""
    meta: Meta = None


class StopReason(enum.StrEnum):
    """Why a turn ended."""

    END_TURN = "end_turn"
    """The agent is done."""
    MAX_TOKENS = "max_tokens"
    """The model reached its limit of tokens."""
    MAX_TURN_REQUESTS = "max_turn_requests"
    """The agent reached its limit of model requests in one turn."""
    REFUSAL = "refusal"
    """The agent refused. This prompt and what followed it are not part of the next one."""
    CANCELLED = "cancelled"
    """The client cancelled the turn."""


@frozen(kw_only=True)
class PromptResponse:
    """The turn ended."""

    stop_reason: StopReason | str
    """Why. A plain string is a reason that the protocol does not list."""
    meta: Meta = None


@frozen(kw_only=True)
class CancelNotification:
    """Cancel the turn that runs in a session; its answer will be ``cancelled``."""

    session_id: SessionId
    """The session."""
    meta: Meta = None


# ------------------------------------------------------------------------------------------------ session/update


@frozen(kw_only=True)
class UserMessageChunk:
    """A part of a message of the user, as when a session is loaded."""

    TAG: ClassVar = ("sessionUpdate", "user_message_chunk")

    content: ContentBlock
    """The part."""
    message_id: DefaultOnError[MessageId | None] = None
    """The message it belongs to; another id begins another message."""
    meta: Meta = None


@frozen(kw_only=True)
class AgentMessageChunk:
    """A part of a message of the agent."""

    TAG: ClassVar = ("sessionUpdate", "agent_message_chunk")

    content: ContentBlock
    """The part."""
    message_id: DefaultOnError[MessageId | None] = None
    """The message it belongs to; another id begins another message."""
    meta: Meta = None


@frozen(kw_only=True)
class AgentThoughtChunk:
    """A part of the agent's reasoning."""

    TAG: ClassVar = ("sessionUpdate", "agent_thought_chunk")

    content: ContentBlock
    """The part."""
    message_id: DefaultOnError[MessageId | None] = None
    """The message it belongs to; another id begins another message."""
    meta: Meta = None


@frozen(kw_only=True)
class Cost:
    """What a session has cost so far."""

    amount: float
    """How much."""
    currency: str
    """Of what: an ISO 4217 code, or another unit such as credits (PROMPT-14)."""
    meta: Meta = None


@frozen(kw_only=True)
class UsageUpdate:
    """How full the model's context is, and what the session has cost."""

    TAG: ClassVar = ("sessionUpdate", "usage_update")

    used: UInt64
    """Tokens in the context (PROMPT-13)."""
    size: UInt64
    """Tokens the context can hold (PROMPT-13)."""
    cost: DefaultOnError[Cost | None] = None
    """What the session has cost so far."""
    meta: Meta = None


SessionUpdate: TypeAlias = (
    UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | ToolCall
    | ToolCallUpdate
    | Plan
    | AvailableCommandsUpdate
    | CurrentModeUpdate
    | ConfigOptionUpdate
    | SessionInfoUpdate
    | UsageUpdate
    | Notice
    | CompactionUpdate
    | CompactionSummaryChunk
    | Unknown
)
"""Something that happened in a session."""


@frozen(kw_only=True)
class SessionNotification:
    """Tell the client what happened in a session."""

    session_id: SessionId
    """The session."""
    update: SessionUpdate
    """What happened."""
    meta: Meta = None
