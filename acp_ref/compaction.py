"""Compaction, as the agent reports it: it condenses its context, and may show what it kept.

https://agentclientprotocol.com/rfds/session-compaction

A compaction is in progress, then completed, failed or cancelled; it may also be reported once, when it is over. What
ended stays ended: a later update may add to it, but neither changes its status nor begins it anew (COMP-05).
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import cast, final

import trio

from acp_ref.errors import LocalProtocolError
from acp_ref.schema import (
    UNSET,
    CompactionId,
    CompactionStatus,
    CompactionSummaryChunk,
    CompactionUpdate,
    ContentBlock,
    SessionUpdate,
    TextContent,
    UnsetType,
)

__all__ = ["Compactions", "RunningCompaction", "run_compaction"]


@final
class Compactions:
    """The compactions of one session that were reported on this connection, and what may still be said of them."""

    def __init__(self) -> None:
        self._status: dict[CompactionId, CompactionStatus | str] = {}

    def report(self, update: CompactionUpdate | CompactionSummaryChunk) -> None:
        """``update`` is about to be sent.

        Raises:
          LocalProtocolError: it must not be; the text says why. Nothing changed.
        """
        compaction_id = update.compaction_id
        status = self._status.get(compaction_id)
        if isinstance(update, CompactionSummaryChunk):
            if status != CompactionStatus.IN_PROGRESS:  # COMP-06
                raise LocalProtocolError(
                    f"compaction {compaction_id} is {status or 'not begun'}: no chunk of a summary"
                )
            return
        if status not in (None, CompactionStatus.IN_PROGRESS, update.status):  # COMP-05
            raise LocalProtocolError(f"compaction {compaction_id} is {status} already")
        if update.summary and update.status != CompactionStatus.COMPLETED:  # COMP-06
            raise LocalProtocolError(f"compaction {compaction_id} is {update.status}: it has no summary")
        if update.error not in (UNSET, None) and update.status != CompactionStatus.FAILED:  # COMP-06
            raise LocalProtocolError(f"compaction {compaction_id} is {update.status}: it has no error")
        self._status[compaction_id] = update.status


@final
class RunningCompaction:
    """A compaction in progress. Made by :meth:`PromptTurn.compaction`."""

    id: CompactionId
    """Names it within the session."""
    status: CompactionStatus
    """What was last reported."""

    def __init__(
        self,
        compaction_id: CompactionId,
        send: Callable[[SessionUpdate], Awaitable[None]],
        put: Callable[[SessionUpdate], None],
    ) -> None:
        self.id = compaction_id
        self.status = CompactionStatus.IN_PROGRESS
        self._send = send
        self._put = put
        self._has_summary = False

    async def send_summary(self, content: str | ContentBlock) -> None:
        """Send one more piece of the summary (COMP-04).

        Raises:
          LocalProtocolError: the compaction is over. Nothing was sent.
        """
        self._check_runs()
        block = TextContent(text=content) if isinstance(content, str) else content
        await self._send(CompactionSummaryChunk(compaction_id=self.id, content=block))
        self._has_summary = True

    async def complete(self, summary: Sequence[ContentBlock] | None = None) -> None:
        """Report success. A ``summary`` replaces what was sent of it before.

        Raises:
          LocalProtocolError: the compaction is over. Nothing was sent.
        """
        await self._end(CompactionStatus.COMPLETED, summary=UNSET if summary is None else [*summary])

    async def fail(self, error: str | None = None) -> None:
        """Report failure, and why, for people to read.

        Raises:
          LocalProtocolError: the compaction is over. Nothing was sent.
        """
        await self._end(CompactionStatus.FAILED, error=UNSET if error is None else error)

    async def _end(
        self,
        status: CompactionStatus,
        *,
        summary: list[ContentBlock] | UnsetType = UNSET,
        error: str | UnsetType = UNSET,
    ) -> None:
        self._check_runs()
        await self._send(self._last_update(status, summary, error))
        self.status = status

    def settle(self, status: CompactionStatus) -> None:
        """Report the end if it was not yet; without waiting, so that a cancellation cannot stop it."""
        if self.status is CompactionStatus.IN_PROGRESS:
            self._put(self._last_update(status, UNSET, UNSET))
            self.status = status

    def _last_update(
        self, status: CompactionStatus, summary: list[ContentBlock] | UnsetType, error: str | UnsetType
    ) -> CompactionUpdate:
        gone = self._has_summary and status is not CompactionStatus.COMPLETED  # COMP-06: half a summary is none
        return CompactionUpdate(compaction_id=self.id, status=status, summary=None if gone else summary, error=error)

    def _check_runs(self) -> None:
        if self.status is not CompactionStatus.IN_PROGRESS:
            raise LocalProtocolError(f"compaction {self.id} is {self.status.value} already")


@asynccontextmanager
async def run_compaction(
    send: Callable[[SessionUpdate], Awaitable[None]] | None, put: Callable[[SessionUpdate], None]
) -> AsyncGenerator[RunningCompaction, None]:
    """Report that a compaction begins, and its one end when the ``with`` block ends (COMP-05).

    ``send`` waits for room on the connection, ``put`` does not, and does for both where nothing is sent. The id is
    random: one that was counted would come again when the agent is started again, and change what an earlier compaction
    left in the session.
    """

    async def keep(update: SessionUpdate) -> None:
        put(update)
        await trio.lowlevel.checkpoint()

    send = send or keep
    compaction_id = CompactionId("compaction_" + secrets.token_hex(8))  # COMP-05
    await send(CompactionUpdate(compaction_id=compaction_id, status=CompactionStatus.IN_PROGRESS))
    compaction = RunningCompaction(compaction_id, send, put)
    try:
        yield compaction
    except BaseException as exc:
        compaction.settle(CompactionStatus.CANCELLED if _is_cancellation(exc) else CompactionStatus.FAILED)
        raise
    compaction.settle(CompactionStatus.COMPLETED)


def _is_cancellation(exc: BaseException) -> bool:
    if isinstance(exc, BaseExceptionGroup):
        return cast("BaseExceptionGroup[BaseException]", exc).split(trio.Cancelled)[1] is None
    return isinstance(exc, trio.Cancelled)
