"""Tool calls, as the agent reports them: objects with a life.

https://agentclientprotocol.com/protocol/tool-calls

pending, in_progress, then completed or failed (TOOL-10). Each report after the first holds only what changed (TOOL-07).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias, final

from acp_ref._jsonrpc import JSON
from acp_ref.errors import LocalProtocolError
from acp_ref.permissions import PermissionDecision, default_options
from acp_ref.schema import (
    UNSET,
    PermissionOption,
    SessionUpdate,
    ToolCall,
    ToolCallContent,
    ToolCallId,
    ToolCallLocation,
    ToolCallStatus,
    ToolCallUpdate,
    UnsetType,
)

__all__ = ["ReportedToolCalls", "RunningToolCall"]

SETTLED: Final = (ToolCallStatus.COMPLETED, ToolCallStatus.FAILED)

Ask: TypeAlias = Callable[[ToolCallUpdate, Sequence[PermissionOption]], Awaitable[PermissionDecision]]


@final
class ReportedToolCalls:
    """The tool calls of one session that the client was told of.

    Args:
      complete: whether there were none before; of a session that was loaded, only the history knows them all.
    """

    def __init__(self, *, complete: bool) -> None:
        self._complete = complete
        self._reported: set[ToolCallId] = set()
        self._introduced: set[ToolCallId] = set()

    def introduce(self, tool_call_id: ToolCallId) -> None:
        """A permission request is about to tell of the tool call, which may be new (PERM-09)."""
        self._introduced.add(tool_call_id)

    def report(self, update: ToolCall | ToolCallUpdate) -> None:
        """``update`` is about to be sent.

        Raises:
          LocalProtocolError: it is a report of a tool call that was reported before (TOOL-02), or an update of one that
            was not (D-37). Nothing changed.
        """
        tool_call_id = update.tool_call_id
        if isinstance(update, ToolCall):
            if tool_call_id in self._reported:  # TOOL-02
                raise LocalProtocolError(f"tool call {tool_call_id} was reported before")
            self._reported.add(tool_call_id)
        elif self._complete and tool_call_id not in self._reported and tool_call_id not in self._introduced:
            raise LocalProtocolError(f"tool call {tool_call_id} was not reported yet")


@final
class RunningToolCall:
    """A tool call that was reported. Made by :meth:`PromptTurn.tool_call`."""

    id: ToolCallId
    """Names it within the session (TOOL-02)."""
    status: ToolCallStatus
    """What was last reported."""

    def __init__(
        self,
        tool_call_id: ToolCallId,
        send: Callable[[SessionUpdate], Awaitable[None]],
        put: Callable[[SessionUpdate], None],
        ask: Ask,
    ) -> None:
        self.id = tool_call_id
        self.status = ToolCallStatus.PENDING
        self._send = send
        self._put = put
        self._ask = ask

    async def update(
        self,
        *,
        status: ToolCallStatus | None = None,
        title: str | None = None,
        content: Sequence[ToolCallContent] | None = None,
        locations: Sequence[ToolCallLocation] | None = None,
        raw_input: JSON | UnsetType = UNSET,
        raw_output: JSON | UnsetType = UNSET,
    ) -> None:
        """Report what is given, and nothing else (TOOL-07), as often as there is news (PROMPT-21). A list replaces the
        one before it (TOOL-08).

        Raises:
          LocalProtocolError: it was settled already, or a path is not absolute. Nothing was sent.
        """
        if self.status in SETTLED:
            raise LocalProtocolError(f"tool call {self.id} is {self.status.value} already")
        await self._send(
            ToolCallUpdate(
                tool_call_id=self.id,
                status=status,
                title=title,
                content=None if content is None else [*content],
                locations=None if locations is None else [*locations],
                raw_input=raw_input,
                raw_output=raw_output,
            )
        )
        if status is not None:
            self.status = status

    async def start(self) -> None:
        """Report that the tool runs now (PROMPT-20)."""
        await self.update(status=ToolCallStatus.IN_PROGRESS)

    async def complete(
        self, content: Sequence[ToolCallContent] | None = None, *, raw_output: JSON | UnsetType = UNSET
    ) -> None:
        """Report success and what came of it (PROMPT-22)."""
        await self.update(status=ToolCallStatus.COMPLETED, content=content, raw_output=raw_output)

    async def fail(
        self, content: Sequence[ToolCallContent] | None = None, *, raw_output: JSON | UnsetType = UNSET
    ) -> None:
        """Report failure and what came of it (PROMPT-22)."""
        await self.update(status=ToolCallStatus.FAILED, content=content, raw_output=raw_output)

    async def request_permission(self, options: Sequence[PermissionOption] | None = None) -> PermissionDecision:
        """Ask the user whether the tool may run (PROMPT-19); by default: once, always, or no.

        Raises:
          as :meth:`PromptTurn.request_permission`.
        """
        return await self._ask(ToolCallUpdate(tool_call_id=self.id), default_options() if options is None else options)

    def settle(self, status: ToolCallStatus) -> None:
        """Report the end if it was not yet; without waiting, so that a cancellation cannot stop it."""
        if self.status not in SETTLED:
            self._put(ToolCallUpdate(tool_call_id=self.id, status=status))
            self.status = status
