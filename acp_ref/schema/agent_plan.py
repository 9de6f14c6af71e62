"""Agent Plan.

https://agentclientprotocol.com/protocol/agent-plan
"""

from __future__ import annotations

import enum
from typing import ClassVar

from acp_ref.schema._base import Meta, SkipInvalidItems
from acp_ref.schema._frozen import frozen


class PlanEntryPriority(enum.StrEnum):
    """How much an entry matters."""

    HIGH = "high"
    """The goal cannot be reached without it."""
    MEDIUM = "medium"
    """It matters, but the goal does not hang on it."""
    LOW = "low"
    """It would be good to have."""


class PlanEntryStatus(enum.StrEnum):
    """How far an entry has come."""

    PENDING = "pending"
    """Not begun."""
    IN_PROGRESS = "in_progress"
    """Being worked on."""
    COMPLETED = "completed"
    """Done."""


@frozen(kw_only=True)
class PlanEntry:
    """One task of a plan. All three are required (PLAN-02)."""

    content: str
    """What is to be done, for people to read."""
    priority: PlanEntryPriority | str
    """How much it matters. A plain string is a priority that the protocol does not list."""
    status: PlanEntryStatus | str
    """How far it has come. A plain string is a status that the protocol does not list."""
    meta: Meta = None


@frozen(kw_only=True)
class Plan:
    """The whole plan as it is now; it replaces the one before."""

    TAG: ClassVar = ("sessionUpdate", "plan")

    entries: SkipInvalidItems[list[PlanEntry]]
    """All of its tasks."""
    meta: Meta = None
