"""Notices.

https://agentclientprotocol.com/rfds/session-notices
"""

from __future__ import annotations

from typing import ClassVar

from acp_ref.schema._base import DefaultOnError, Meta, NonEmptyStr, OpenEnum
from acp_ref.schema._frozen import frozen


@frozen(kw_only=True)
class NoticeCapabilities:
    """Announces that a client takes notices."""


class NoticeSeverity(OpenEnum):
    """How grave a notice is; a hint for the looks."""

    INFO = "info"
    """Good to know."""
    WARNING = "warning"
    """Something may be wrong."""
    ERROR = "error"
    """Something is wrong."""


@frozen(kw_only=True)
class Notice:
    """Something to tell the user now (NOTE-02). It is not part of the conversation and may get lost."""

    TAG: ClassVar = ("sessionUpdate", "notice")

    severity: NoticeSeverity | str
    """How grave it is."""
    title: NonEmptyStr
    """Plain text that can stand alone."""
    description: DefaultOnError[str | None] = None
    """More about it, in plain text."""
    meta: Meta = None
