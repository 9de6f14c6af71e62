"""Prompt turn, as the agent lives it.

https://agentclientprotocol.com/protocol/prompt-turn

A turn begins with session/prompt and ends with its answer, a stop reason (PROMPT-02). It runs in the task of the
request; a cancellation cancels that task's scope, and whatever comes of it, the answer is ``cancelled``. The turn's
nursery is joined before the answer, so nothing the turn started can speak after it (CANCEL-09).
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Generic, final

import trio
from typing_extensions import TypeVar

from acp_ref.errors import LocalProtocolError
from acp_ref.methods import REQUEST_PERMISSION
from acp_ref.permissions import PermissionDecision, check_options, decide
from acp_ref.schema import (
    UNSET,
    AgentMessageChunk,
    AgentThoughtChunk,
    ContentBlock,
    Cost,
    MessageId,
    Notice,
    NoticeSeverity,
    PermissionOption,
    Plan,
    PlanEntry,
    RequestPermissionRequest,
    SessionUpdate,
    TextContent,
    ToolCall,
    ToolCallContent,
    ToolCallId,
    ToolCallLocation,
    ToolCallStatus,
    ToolCallUpdate,
    ToolKind,
    UnsetType,
    UsageUpdate,
)
from acp_ref.tool_calls import RunningToolCall
from acp_ref.trace import trace_context, with_trace_context

if TYPE_CHECKING:
    from acp_ref._jsonrpc import JSON, JSONObject
    from acp_ref.agent_session import AgentSession
    from acp_ref.client_services import ClientServices
    from acp_ref.compaction import RunningCompaction

__all__ = ["PromptTurn"]

S = TypeVar("S", default=None)


@final
class PromptTurn(Generic[S]):
    """One turn of a session: what the user said, and the ways to answer."""

    session: AgentSession[S]
    """The session it belongs to."""
    prompt: Sequence[ContentBlock]
    """What the user said (PROMPT-03)."""
    meta: JSONObject | None
    """The ``_meta`` of the prompt. What is in it is whatever the client put there (EXT-02)."""
    trace_meta: JSONObject | None
    """The prompt's W3C trace context, as the ``_meta`` of whatever the turn asks of others: requests of :attr:`client`
    and for permission bear it already, calls of MCP tools and of extensions take it as an argument (EXT-03)."""
    client: ClientServices
    """What the client offers: files, terminals, elicitation."""
    nursery: trio.Nursery
    """Nursery C: tasks started here belong to the turn. They are cancelled with it and joined before its answer."""

    def __init__(self, session: AgentSession[S], prompt: Sequence[ContentBlock], meta: JSONObject | None) -> None:
        self.session = session
        self.prompt = prompt
        self.meta = meta
        self.trace_meta = with_trace_context(None, trace_context(meta))
        self.client = session.client.with_meta(self.trace_meta)
        self._over = False
        self._send = session.send
        self._speaking: type[AgentMessageChunk | AgentThoughtChunk] | None = None
        self._message_id = MessageId("")

    @property
    def state(self) -> S:
        """The application's own state of the session: what its ``open_session`` gave."""
        return self.session.state

    @property
    def text(self) -> str:
        """The text blocks of the prompt, joined."""
        return "".join(block.text for block in self.prompt if isinstance(block, TextContent))

    async def send(self, update: SessionUpdate) -> None:
        """Send ``update`` to the client and record it: of any kind, in any order (PROMPT-07), also after a cancellation
        (CANCEL-08). See :meth:`AgentSession.send`.

        Raises:
          LocalProtocolError: the turn is over (CANCEL-09). Use ``turn.session`` for what may come between turns.
        """
        if self._over:
            raise LocalProtocolError("the turn is over")
        self._speaking = None
        await self._send(update)

    async def send_text(self, text: str) -> None:
        """Send a piece of the agent's answer (PROMPT-08). Pieces in a row bear one message id (PROMPT-10)."""
        await self._say(AgentMessageChunk, TextContent(text=text))

    async def send_content(self, content: ContentBlock) -> None:
        """Send any content block as a piece of the agent's answer (CONTENT-11)."""
        await self._say(AgentMessageChunk, content)

    async def send_thought(self, text: str) -> None:
        """Send a piece of the agent's reasoning."""
        await self._say(AgentThoughtChunk, TextContent(text=text))

    async def _say(self, kind: type[AgentMessageChunk | AgentThoughtChunk], content: ContentBlock) -> None:
        if self._over:
            raise LocalProtocolError("the turn is over")
        if self._speaking is not kind:
            self._speaking = kind
            self._message_id = new_message_id()
        await self._send(kind(content=content, message_id=self._message_id))

    async def send_plan(self, *entries: PlanEntry) -> None:
        """Send the whole plan, every entry as it stands now (PLAN-01, PLAN-03, PLAN-04), whatever it was (PLAN-06)."""
        await self.send(Plan(entries=[*entries]))

    async def send_usage(self, used: int, size: int, cost: Cost | None = None) -> None:
        """Tell how much of the context is used, in tokens, and what the session cost so far (PROMPT-12)."""
        await self.send(UsageUpdate(used=used, size=size, cost=cost))

    async def send_notice(
        self, severity: NoticeSeverity | str, title: str, description: str | None = None, *, or_say_it: bool = True
    ) -> None:
        """Show a notice. A client without notices gets it as a message of the agent instead, or not at all (NOTE-01).

        Nothing may depend on its being seen (NOTE-03).
        """
        announced = self.session.client_capabilities.session
        if announced is not None and announced.notices is not None:
            await self.send(Notice(severity=severity, title=title, description=description))
        elif or_say_it:
            await self.send_text(f"{title}: {description}" if description else title)

    def compaction(self) -> AbstractAsyncContextManager[RunningCompaction]:
        """Report a compaction of the context, for as long as the ``with`` block condenses it::

            async with turn.compaction() as compaction:
                await compaction.send_summary(await condense(history))

        At the end of the block it is completed, or failed when the block raised, or cancelled when it was, unless the
        block has said so itself (COMP-05). A client that did not announce compactions hears nothing (COMP-01); the
        history has it all the same, for the next one.
        """
        return self.session.compaction(send=self.send)

    @asynccontextmanager
    async def tool_call(
        self,
        title: str,
        *,
        kind: ToolKind = ToolKind.OTHER,
        name: str | None = None,
        content: Sequence[ToolCallContent] = (),
        locations: Sequence[ToolCallLocation] = (),
        raw_input: JSON | UnsetType = UNSET,
        tool_call_id: ToolCallId | None = None,
    ) -> AsyncGenerator[RunningToolCall, None]:
        """Report a tool call at once (PROMPT-09, TOOL-01), and its end when the ``with`` block ends (PROMPT-22).

        It starts as pending; call :meth:`RunningToolCall.start` when the tool really runs. At the end of the block it
        is completed, or failed when the block raised or was cancelled, unless the block has settled that itself.

        Raises:
          LocalProtocolError: ``tool_call_id`` was used before in this session (TOOL-02), or a path is not absolute.
        """
        if tool_call_id is None:
            tool_call_id = ToolCallId("call_" + secrets.token_hex(8))
        await self.send(
            ToolCall(
                tool_call_id=tool_call_id,
                title=title,
                name=name,  # TOOL-06
                kind=kind,
                content=[*content],
                locations=[*locations],
                raw_input=raw_input,
            )
        )
        call = RunningToolCall(tool_call_id, self.send, self.session.put, self.request_permission)
        try:
            yield call
        except BaseException:
            call.settle(ToolCallStatus.FAILED)  # v1 has no status for a cancelled one
            raise
        call.settle(ToolCallStatus.COMPLETED)

    async def request_permission(
        self, tool_call: ToolCallUpdate, options: Sequence[PermissionOption]
    ) -> PermissionDecision:
        """Ask the user whether a tool may run (PERM-01). Whatever is not clearly a yes is a no.

        The client may never answer; cancel the turn, or wrap the call in a cancel scope, to stop waiting.

        Raises:
          LocalProtocolError: two options have the same id, or there are none (PERM-02, PERM-06). Nothing was sent.
          trio.BrokenResourceError, trio.ClosedResourceError: the connection is over.
        """
        check_options(options)
        self.session.tool_calls.introduce(tool_call.tool_call_id)
        request = RequestPermissionRequest(
            session_id=self.session.id, tool_call=tool_call, options=[*options], meta=self.trace_meta
        )
        connection = self.session.connection
        return await decide(connection.request(REQUEST_PERMISSION, request), options, connection.report)

    def end(self) -> None:
        """No update of the turn can follow; called by the library before the answer."""
        self._over = True


def new_message_id() -> MessageId:
    """A fresh id for a message of the agent or, in the journal, of the user."""
    return MessageId("msg_" + secrets.token_hex(8))
