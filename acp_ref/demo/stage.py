"""What the steps of the demo share: a client, its agent, the session they have, and the servers around them.

https://agentclientprotocol.com/protocol/overview#message-flow

A step is a small function, and what it opens may outlive it. So contexts are entered on the :class:`Stage`, which
leaves the last one when a later step says so, and whatever is still open, the last first, when the story ends on
whatever path. The whole story is told by one task, as nurseries and cancel scopes want it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import TypeVar, final

import trio

import acp_ref
from acp_ref.agent_process import AgentProcess, open_agent_transport
from acp_ref.demo.leftovers import Processes
from acp_ref.demo.narrator import Narrator
from acp_ref.demo.servers import WebServer
from acp_ref.permissions import select
from acp_ref.session_state import Message, ToolCallState

__all__ = ["Stage", "shown_by", "transcript"]

T = TypeVar("T")


@final
class Stage:
    """A client with files, whose user allows every tool once; and all it has to do with."""

    tell: Narrator
    """Who tells it all."""
    processes: Processes
    """Everything that was started."""
    directory: str
    """Where the demo keeps its files."""
    project: str
    """The directory in it that the session works in."""
    token: str
    """What the MCP servers demand of whoever connects to them."""
    web_servers: Sequence[WebServer]
    """The MCP servers that the agent does not start itself."""
    agent: acp_ref.ClientSide
    """The agent, as the client sees it."""
    agent_process: AgentProcess
    """The agent, as the system sees it."""
    session: acp_ref.ClientSession
    """The session that is open."""
    trail: list[str]
    """How the tool calls of the latest turn went: each status, and each permission that was asked for."""
    transcript: Sequence[str]
    """The conversation as the first client saw it live."""
    reports: list[acp_ref.Report]
    """What the client had to ignore, mend or drop: nothing, among friends."""

    def __init__(self, tell: Narrator, processes: Processes, directory: str) -> None:
        self.tell = tell
        self.processes = processes
        self.directory = directory
        self.project = os.path.join(directory, "project")
        self.token = f"demo-secret-{os.urandom(12).hex()}"
        self.web_servers = ()
        self.trail = []
        self.transcript = ()
        self.reports = []
        self._contexts = AsyncExitStack()
        self._entered: list[AsyncExitStack] = []
        self._client = acp_ref.Client(
            name="acp-ref-demo",
            version=acp_ref.__version__,
            request_permission=self._ask_user,
            file_system=acp_ref.FileSystem(),
            on_update=self._follow,
        )

    async def __aenter__(self) -> Stage:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._contexts.__aexit__(kind, exc, traceback)

    async def enter(self, context: AbstractAsyncContextManager[T]) -> T:
        """Enter ``context``. It is left by :meth:`leave`, or at the end."""
        entered = await self._contexts.enter_async_context(AsyncExitStack())
        self._entered.append(entered)
        return await entered.enter_async_context(context)

    async def leave(self) -> None:
        """Leave the context that was entered last and not left yet."""
        await self._entered.pop().aclose()

    @asynccontextmanager
    async def open_agent(self) -> AsyncGenerator[None, None]:
        """The reference agent in a process of its own, and a connection to it, initialized."""
        command = [sys.executable, "-m", "acp_ref", "agent", "--sessions", os.path.join(self.directory, "sessions")]
        async with open_agent_transport(command, stderr=self.tell.log) as self.agent_process:
            self.processes.add(self.agent_process.pid)
            async with acp_ref.open_agent(
                self.agent_process, self._client, on_report=self.reports.append, on_frame=self.tell.frame
            ) as self.agent:
                yield

    async def prompt(self, text: str) -> str:
        """Say ``text`` to the agent, tell what it says, and return that. The turn should end by itself."""
        self.tell.say("user", text)
        self.trail.clear()
        async with self.session.prompt(text) as turn:
            answer = await turn.text()
        if answer:
            self.tell.say("agent", answer)
        if turn.stop_reason != acp_ref.StopReason.END_TURN:
            self.tell.fail(f"the turn ended with {turn.stop_reason}")
        return answer

    async def call(self, command: str, *, went: Sequence[str]) -> ToolCallState:
        """Say a slash command that calls one tool, check how the call ``went``, and return it as it is in the end.

        Raises:
          RuntimeError: it called none, or more than one.
        """
        known = {*self.session.state.tool_calls}
        await self.prompt(command)
        calls = [call for call_id, call in self.session.state.tool_calls.items() if call_id not in known]
        if len(calls) != 1:
            raise RuntimeError(f"the command made {len(calls)} tool calls")
        self.tell.say("tool", shown_by(calls[0]))
        self.tell.check(f"the call went: {', '.join(went)}", self.trail == [*went], ", ".join(self.trail))
        return calls[0]

    async def _ask_user(self, request: acp_ref.RequestPermissionRequest) -> acp_ref.PermissionOption | None:
        """The user looks at the question and chooses "allow once"."""
        self.trail.append("permission")
        self.tell.say(
            "agent", f"May I? [{request.tool_call.title}] {' / '.join(option.name for option in request.options)}"
        )
        await trio.lowlevel.checkpoint()
        option = select(request.options, acp_ref.PermissionOptionKind.ALLOW_ONCE)
        self.tell.say("user", "no answer" if option is None else option.name)
        return option

    def _follow(self, session: acp_ref.ClientSession, update: acp_ref.SessionUpdate) -> None:
        if isinstance(update, acp_ref.ToolCall | acp_ref.ToolCallUpdate) and update.status is not None:
            self.trail.append(update.status.value)


def shown_by(call: ToolCallState) -> str:
    """What a tool call shows, as text."""
    lines: list[str] = []
    for piece in call.content:
        if isinstance(piece, acp_ref.Content) and isinstance(piece.content, acp_ref.TextContent):
            lines.append(piece.content.text)
        elif isinstance(piece, acp_ref.Diff):
            lines.append(piece.path)
            lines += [f"- {line}" for line in (piece.old_text or "").splitlines()]
            lines += [f"+ {line}" for line in piece.new_text.splitlines()]
    return "\n".join(lines)


def transcript(state: acp_ref.SessionState) -> Sequence[str]:
    """A conversation in lines: who said what, and what each tool call came to."""
    lines: list[str] = []
    for entry in state.timeline:
        if isinstance(entry, Message):
            lines.append(f"{entry.role.value}: {entry.text}")
        elif isinstance(entry, ToolCallState):
            lines.append(f"{entry.title} ({entry.kind}, {entry.status}): {shown_by(entry)}")
    return lines
