"""What happened beside the conversation: everything that was ignored, salvaged or failed without an answer on the wire.

Nothing is lost in silence. Whatever a Connection drops or repairs goes to its ``on_report`` hook as a
:class:`Report`; the default hook, :func:`log_report`, writes it to the logger ``acp_ref``.
"""

from __future__ import annotations

import enum
import logging
from typing import Final

import attrs

__all__ = ["Report", "ReportKind", "log_report"]

logger: Final = logging.getLogger("acp_ref")

EXCERPT: Final = 200
"""The longest excerpt of a frame that a report carries, in bytes: enough to recognise it, too short to flood a log."""


LONGEST: Final = 2000
"""The most characters of a reason, a method or a path. The peer may have chosen them."""


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


class ReportKind(enum.Enum):
    """What a :class:`Report` is about."""

    JUNK = "junk"
    """A line that is no JSON-RPC message, where the protocol expects one."""
    SALVAGED = "salvaged"
    """A tolerated fault in a message: the value was replaced or dropped, as the schema's marks allow."""
    IGNORED = "ignored"
    """A notification nobody here handles, or one that this moment does not allow."""
    WITHHELD = "withheld"
    """Something of ours is kept from a peer that did not announce that it takes it."""
    INVALID = "invalid"
    """A notification or response whose payload has the wrong shape; it was dropped."""
    UNMATCHED = "unmatched"
    """A response to no request of ours."""
    HANDLER_FAILED = "handler failed"
    """A handler raised; ``error`` is what it raised."""
    DEGRADED = "degraded"
    """Something of ours went on with less than it should have, such as a journal that can no longer be written."""


@attrs.frozen(kw_only=True)
class Report:
    """One thing that was ignored, salvaged or failed without an answer on the wire."""

    kind: ReportKind
    """What it is about."""
    reason: str = attrs.field(converter=_short)
    """What was wrong, for a person to read."""
    method: str | None = attrs.field(default=None, converter=attrs.converters.optional(_short))
    """The method of the message, when it has one."""
    path: str | None = attrs.field(default=None, converter=attrs.converters.optional(_short))
    """The JSON path of the fault, such as ``$.params.mcpServers[0].env``."""
    excerpt: bytes = b""
    """The beginning of the frame, at most :data:`EXCERPT` bytes."""
    error: BaseException | None = None
    """What was raised, when something was."""

    def __str__(self) -> str:
        where = "".join(f" {part}" for part in (self.method, self.path) if part)
        return f"{self.kind.value}{where}: {self.reason}"


def log_report(report: Report) -> None:
    """Write ``report`` to the logger ``acp_ref``: a failed handler as an error with its traceback, what was only
    ignored or withheld as a debug message, all else as a warning.

    The excerpt is left out: a message may carry what does not belong in a log.
    """
    if report.error is not None:
        logger.error("%s", report, exc_info=report.error)
    else:
        quiet = report.kind in (ReportKind.IGNORED, ReportKind.WITHHELD)
        logger.log(logging.DEBUG if quiet else logging.WARNING, "%s", report)
