"""Compaction.

https://agentclientprotocol.com/rfds/session-compaction
"""

from __future__ import annotations

from typing import ClassVar, NewType

from acp_ref.schema._base import UNSET, DefaultOnError, Meta, OpenEnum, PatchMeta, SkipInvalidItems, UnsetType
from acp_ref.schema._frozen import frozen
from acp_ref.schema.content import ContentBlock

CompactionId = NewType("CompactionId", str)
"""Names a compaction within its session; never used twice (COMP-05)."""


@frozen(kw_only=True)
class CompactionCapabilities:
    """Announces that a client takes compaction updates."""


class CompactionStatus(OpenEnum):
    """How far a compaction has come."""

    IN_PROGRESS = "in_progress"
    """It runs."""
    COMPLETED = "completed"
    """It succeeded."""
    FAILED = "failed"
    """It failed."""
    CANCELLED = "cancelled"
    """It was given up."""


@frozen(kw_only=True)
class CompactionUpdate:
    """The agent condenses its context: a compaction begins or changes (COMP-02).

    ``UNSET`` keeps a field, ``None`` clears it; an empty summary clears it too (COMP-03).
    """

    TAG: ClassVar = ("sessionUpdate", "compaction_update")

    compaction_id: CompactionId
    """The compaction."""
    status: CompactionStatus | str
    """How far it has come."""
    summary: SkipInvalidItems[list[ContentBlock] | UnsetType | None] = UNSET
    """All of what the user may read of the result."""
    error: DefaultOnError[str | UnsetType | None] = UNSET
    """Why it failed, for people to read."""
    meta: PatchMeta = UNSET


@frozen(kw_only=True)
class CompactionSummaryChunk:
    """One more block of a compaction's summary; an unknown id begins a compaction (COMP-04)."""

    TAG: ClassVar = ("sessionUpdate", "compaction_summary_chunk")

    compaction_id: CompactionId
    """The compaction."""
    content: ContentBlock
    """The block to append."""
    meta: Meta = None
