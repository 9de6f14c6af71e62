"""The reference client at work: one agent, one session, the prompts of a person or of a script.

https://agentclientprotocol.com/protocol/overview#client

Theory of operation. The conversation runs in one task, and everything in it can be cancelled: :meth:`Program.quit`
does. Three things reach it from the side. The connection's reader tells each update as it comes. The signals
(:meth:`Program.heed_signals`) cancel the turn or the whole, and cut the connection when its end takes too long. And
when the agent goes while everybody waits for the person, whoever waits at the prompt is woken and learns why.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Final, TypeVar, final

import attrs
import trio

import acp_ref as acp
from acp_ref.connection import FrameHook
from acp_ref.methods import CANCEL
from acp_ref.reference_client.commands import list_sessions, run_command
from acp_ref.reference_client.conversation import Conversation
from acp_ref.reference_client.dialogue import Dialogue
from acp_ref.reference_client.elicitation import Elicitation
from acp_ref.reference_client.questions import Permissions, log_in
from acp_ref.reference_client.screen import Screen, Style
from acp_ref.reference_client.text import one_line
from acp_ref.reports import log_report
from acp_ref.schema import CancelNotification, ElicitationId, TerminalId
from acp_ref.session_state import ToolCallState
from acp_ref.terminals import LocalTerminal

__all__ = ["Options", "Program"]

T = TypeVar("T")

CLOSE_GRACE: Final = 3.0
"""Seconds that the agent has to close its session when somebody wants to leave. Then the connection is cut, and the
agent ended."""

LIVE_PAUSE: Final = 0.1
"""Seconds between two looks at the output of a running command."""

SIGNALS: Final = [
    signum for name in ("SIGINT", "SIGTERM", "SIGHUP") if (signum := getattr(signal, name, None)) is not None
]

Expected = acp.ProtocolError | acp.RequestError | trio.BrokenResourceError | trio.ClosedResourceError | OSError
EXPECTED: Final = (
    acp.ProtocolError,
    acp.RequestError,
    trio.BrokenResourceError,
    trio.ClosedResourceError,
    trio.TooSlowError,
    OSError,
    ValueError,
)
"""What may go wrong without a fault of this program: told in a line, without a traceback."""


@attrs.frozen(kw_only=True)
class Options:
    """What the client was started with."""

    command: Sequence[str]
    """The agent's program and its arguments."""
    cwd: str
    """The session's working directory, an absolute path."""
    mcp_servers: Sequence[acp.McpServer] = ()
    """Servers for the agent to connect to."""
    load: str | None = None
    """The session to load instead of opening a new one."""
    resume: str | None = None
    """The session to resume instead of opening a new one."""
    list_sessions: bool = False
    """List the agent's sessions, and nothing else."""
    list_cwd: str | None = None
    """Only those of this directory."""
    permission: str = "ask"
    """Who answers permission requests: ``ask`` the person, or always ``allow`` or ``reject``."""
    prompts: Sequence[str] = ()
    """What to say; nothing: ask the person."""
    verbose: bool = False
    """Show what the agent writes to stderr, and what of its messages is ignored."""


@final
class Program:
    """The reference client: one conversation with one agent.

    Args:
      live: whether the output of running commands is shown as it comes, instead of once they ended.
    """

    def __init__(self, options: Options, screen: Screen, dialogue: Dialogue, *, live: bool = False) -> None:
        self.screen = screen
        self.status = 0
        """The exit status so far."""
        self.error: str | None = None
        """Why it failed, for stderr."""
        self._options = options
        self._dialogue = dialogue
        self._live = live
        self._scope = trio.CancelScope()
        self._waiting: trio.CancelScope | None = None  # for the person
        self._conversations: dict[acp.SessionId, Conversation] = {}
        self._agent: acp.ClientSide | None = None
        self._session: acp.ClientSession | None = None
        self._interrupted = False
        self._done = False
        self._agent_gone = False
        elicitation = Elicitation(dialogue, screen, self._who, self._agreed)
        self.client: Final = acp.Client(
            name="acp-ref-client",
            title="ACP reference client",
            version=acp.__version__,
            request_permission=Permissions(options.permission, dialogue, screen, self._conversation).ask,
            file_system=acp.FileSystem(on_write=self._written),
            terminals=True,
            elicit_form=elicitation.ask_form,
            elicit_url=elicitation.ask_url,
            on_update=self._tell,
        )
        """What the agent is told of this client."""

    # ---------------------------------------------------------------------------------------------------- the whole

    async def run(self, on_frame: FrameHook | None = None) -> None:
        """Start the agent, hold the conversation, end the agent. How it went is in :attr:`status`."""
        with self._scope:
            try:
                async with acp.open_agent_process(
                    self._options.command,
                    self.client,
                    stderr=self._hear_stderr,
                    on_report=self._report,
                    on_frame=on_frame,
                ) as agent:
                    await self.converse(agent)
            except trio.TooSlowError:
                self._fail("the agent did not answer in time")
            except EXPECTED as exc:
                self._fail(str(exc))

    async def converse(self, agent: acp.ClientSide) -> None:
        """Hold the conversation with ``agent``.

        Raises:
          ProtocolError, RequestError, trio.BrokenResourceError, trio.ClosedResourceError: it cannot begin or go on.
        """
        self._agent = agent
        agent.connection.when_ended(self._stop_waiting)
        if self._options.list_sessions:
            await self._logged_in(partial(list_sessions, agent, self.screen, self._options.list_cwd))
            return
        async with AsyncExitStack() as stack:
            session = self._session = await self._logged_in(partial(self._open, agent, stack))
            self._conversation(session.id).set_up(session.setup_meta)
            for prompt in self._options.prompts:
                if not await self._say(prompt, typed=False) or self._done:
                    return
            while not self._options.prompts and not self._done:
                line = await self._next_prompt()
                if line is None:
                    return
                await self._say(line, typed=self._dialogue.interactive)

    def quit(self, status: int) -> None:
        """Leave as soon as possible, with this exit status."""
        self.status = status
        self._scope.cancel()

    async def heed_signals(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """SIGINT cancels the turn, or leaves when none runs or it is being cancelled already; SIGTERM and SIGHUP leave.

        Leaving is polite: the session is closed at the agent. A further signal, or :data:`CLOSE_GRACE`, ends that.
        """
        with trio.open_signal_receiver(*SIGNALS) as signals:
            task_status.started()
            async for signum in signals:
                self.screen.disturbed()
                if signum == signal.SIGINT and self._cancel_turn():
                    continue
                self.quit(128 + signum)
                break
            with trio.move_on_after(CLOSE_GRACE):
                await anext(signals)  # somebody is in a hurry
            if self._agent is not None:
                await self._agent.connection.aclose()
            await trio.sleep_forever()  # what comes now is late

    def _cancel_turn(self) -> bool:
        if self._session is None or self._session.turn is None or self._interrupted:
            return False
        self._interrupted = True
        self._session.cancel()
        self._conversation(self._session.id).aside("cancelling the turn; Ctrl-C again leaves at once")
        return True

    def _fail(self, reason: str) -> None:
        self.status = self.status or 1
        self.error = reason

    # --------------------------------------------------------------------------------------------------- the session

    async def _open(self, agent: acp.ClientSide, stack: AsyncExitStack) -> acp.ClientSession:
        options = self._options
        if options.load is not None:
            opening = agent.load_session(acp.SessionId(options.load), options.cwd, mcp_servers=options.mcp_servers)
        elif options.resume is not None:
            opening = agent.resume_session(acp.SessionId(options.resume), options.cwd, mcp_servers=options.mcp_servers)
        else:
            opening = agent.new_session(options.cwd, mcp_servers=options.mcp_servers)
        return await stack.enter_async_context(opening)

    async def _logged_in(self, call: Callable[[], Awaitable[T]]) -> T:
        """What ``call`` returns, after as many logins as the agent asks for and the person does."""
        while True:
            try:
                return await call()
            except acp.AuthRequired as exc:
                if not await log_in(self.agent, exc, self._dialogue, self.screen):
                    raise

    def _conversation(self, session_id: acp.SessionId) -> Conversation:
        conversation = self._conversations.get(session_id)
        if conversation is None:
            session = self.agent.session(session_id)

            def find(terminal_id: TerminalId) -> LocalTerminal | None:
                return None if session.open_terminals is None else session.open_terminals.get(terminal_id)

            def follow(call: ToolCallState, terminal: LocalTerminal) -> None:
                if self._live:
                    self.agent.connection.nursery.start_soon(self._follow, told, call, terminal)

            told = conversation = Conversation(self.screen, session.state, session.cwd, find, follow)
            self._conversations[session_id] = conversation
            conversation.begin(f"{self._who()} in {session.cwd}", session_id)
        return conversation

    def _tell(self, session: acp.ClientSession, update: acp.SessionUpdate) -> None:
        """Called in wire order, also for what comes right behind the answer that opened the session."""
        conversation = self._conversation(session.id)
        if self._session is None and not session.replaying and self._options.resume is None:
            conversation.set_up(session.setup_meta)
        conversation.tell(update, replayed=session.replaying)

    async def _follow(self, conversation: Conversation, call: ToolCallState, terminal: LocalTerminal) -> None:
        while not terminal.ended and not call.finished:
            await terminal.wait_changed()
            conversation.tell_output(call, terminal)
            await trio.sleep(LIVE_PAUSE)

    # --------------------------------------------------------------------------------------------------- the prompts

    async def _next_prompt(self) -> str | None:
        with trio.CancelScope() as self._waiting:
            if self._agent_gone:
                self._waiting.cancel()
            return await self._dialogue.next_prompt()
        # The agent has gone; the next call tells how. In a session without a turn there is nothing to cancel.
        await self.agent.connection.notify(CANCEL, CancelNotification(session_id=self.session.id))
        return None

    def _stop_waiting(self) -> None:
        self._agent_gone = True
        if self._waiting is not None:
            self._waiting.cancel()

    async def _say(self, prompt: str, *, typed: bool) -> bool:
        """Carry out one prompt or command; False when something failed, which was told."""
        prompt = prompt.strip("\n")
        if not prompt.strip():
            return True
        if prompt.startswith("::"):
            prompt = prompt[1:]
        elif prompt.startswith(":"):
            if not await run_command(self, prompt):
                self.status = self.status or 1
                return False
            return True
        try:
            await self._logged_in(partial(self._take_turn, prompt, typed))
        except (acp.RequestError, acp.RemoteProtocolError) as exc:
            self._conversation(self.session.id).aside(f"The turn failed: {exc}", Style.RED)
            self.status = self.status or 1
            return False
        if self._interrupted and not self._dialogue.interactive:
            self.quit(128 + signal.SIGINT)
        self._interrupted = False
        return True

    async def _take_turn(self, prompt: str, typed: bool) -> None:
        conversation = self._conversation(self.session.id)
        conversation.begin_turn(prompt, typed=typed)
        try:
            async with self.session.prompt(prompt) as turn:
                await turn.wait()
        finally:
            conversation.end_turn()

    # ------------------------------------------------------------------------------------------ what comes in between

    @property
    def agent(self) -> acp.ClientSide:
        """The agent."""
        assert self._agent is not None
        return self._agent

    @property
    def session(self) -> acp.ClientSession:
        """The session that is open."""
        assert self._session is not None
        return self._session

    def tell_settings(self) -> None:
        """Tell what has changed of the session's mode and config options."""
        self._conversation(self.session.id).set_up(None)

    def leave(self) -> None:
        """End the conversation after this prompt."""
        self._done = True

    async def log_in(self) -> bool:
        """Let the person log in; False when they did not."""
        return await log_in(self.agent, None, self._dialogue, self.screen)

    def _who(self) -> str:
        info = self.agent.info
        return "the agent" if info is None else f"{info.title or info.name} {info.version}"

    async def _written(self, path: str, text: str) -> None:
        await trio.lowlevel.checkpoint()
        self._aside(f"(the agent wrote {one_line(path)})")

    def _agreed(self, elicitation_id: ElicitationId) -> None:
        self.agent.connection.nursery.start_soon(self._wait_completed, elicitation_id)

    async def _wait_completed(self, elicitation_id: ElicitationId) -> None:
        if await self.agent.elicitations.wait_completed(elicitation_id):
            self._aside("(the agent says that the page is done with)")

    def _report(self, report: acp.Report) -> None:
        if report.kind is acp.ReportKind.HANDLER_FAILED:
            log_report(report)  # a fault of this program, with its traceback
        elif self._options.verbose or report.kind is not acp.ReportKind.IGNORED:
            excerpt = f": {report.excerpt.decode(errors='replace')}" if report.excerpt else ""
            self._aside(f"({report}{one_line(excerpt)})")

    def _hear_stderr(self, chunk: bytes) -> None:
        if self._options.verbose:
            self._aside("\n".join(f"stderr: {line}" for line in chunk.decode(errors="replace").splitlines()))

    def _aside(self, text: str) -> None:
        self.screen.begin("aside")
        self.screen.line(text, Style.DIM)
