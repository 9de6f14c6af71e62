"""The reference client at work: one agent, one session, the prompts of a person or of a script.

https://agentclientprotocol.com/protocol/overview#client

Theory of operation. The conversation runs in one task, and everything in it can be cancelled: :meth:`Program.quit`
does. Three things reach it from the side. The connection's reader tells each update as it comes. The signals
(:meth:`Program.heed_signals`) cancel the turn or the whole, and cut the connection when its end takes too long. And
when the agent goes while everybody waits for the person, whoever waits at the prompt is woken and learns why.
"""

from __future__ import annotations

import shlex
import signal
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Final, TypeVar, final

import attrs
import trio

import acp_ref as acp
from acp_ref.authentication import TerminalLoginRequired
from acp_ref.client import use_agent_process
from acp_ref.connection import FrameHook
from acp_ref.methods import CANCEL
from acp_ref.reference_client.commands import list_sessions, run_command
from acp_ref.reference_client.conversation import Conversation
from acp_ref.reference_client.dialogue import Dialogue
from acp_ref.reference_client.elicitation import Elicitation
from acp_ref.reference_client.questions import Permissions, log_in
from acp_ref.reference_client.screen import TOOL, Screen, Style
from acp_ref.reference_client.text import one_line
from acp_ref.reports import log_report
from acp_ref.schema import CancelNotification, ElicitationId, TerminalId
from acp_ref.session_state import ToolCallState
from acp_ref.terminal_login import LoginCommand, LoginFailed, run_in_terminal
from acp_ref.terminals import LocalTerminal

__all__ = ["Options", "Program"]

T = TypeVar("T")

CLOSE_GRACE: Final = 3.0
"""Seconds that the agent has to close its session when somebody wants to leave. Then the connection is cut, and the
agent ended."""

LIVE_PAUSE: Final = 0.1
"""Seconds between two looks at the output of a running command."""

SIGNALS: Final[list[signal.Signals]] = [s for s in signal.Signals if s.name in ("SIGINT", "SIGTERM", "SIGHUP")]

EXPECTED: Final = (
    acp.AgentStartError,
    acp.ProtocolError,
    acp.RequestError,
    LoginFailed,
    trio.BrokenResourceError,
    trio.ClosedResourceError,
    trio.TooSlowError,
)
"""What may go wrong without a fault of this program: told in a line, without a traceback."""

LAST_WORDS: Final = 12
"""Lines of the agent's stderr that are shown when it went."""


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
        self.status: int = 0
        """The exit status so far."""
        self.error: str | None = None
        """Why it failed, for stderr."""
        self._options = options
        self._prompts = deque(options.prompts)
        self._dialogue = dialogue
        self._live = live
        self.scope: Final = trio.CancelScope()
        """What :meth:`quit` cancels: for whoever runs this to be in."""
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
            terminal_login=self._run_login if dialogue.interactive else None,
            on_update=self._tell,
        )
        """What the agent is told of this client."""

    # ---------------------------------------------------------------------------------------------------- the whole

    async def run(self, on_frame: FrameHook | None = None) -> None:
        """Start the agent, hold the conversation, end the agent. How it went is in :attr:`status`."""
        try:
            await use_agent_process(
                self._options.command,
                self.client,
                self.converse,
                stderr=self._hear_stderr,
                on_report=self._report,
                on_frame=on_frame,
            )
        except EXPECTED as exc:
            self.status = self.status or 1
            self.error = _told(exc)

    async def converse(self, agent: acp.ClientSide) -> None:
        """Hold the conversation with ``agent``. Called once more after a login that needed another start of the agent.

        Raises:
          TerminalLoginRequired: the person wants to log in that way.
          ProtocolError, RequestError, trio.BrokenResourceError, trio.ClosedResourceError: it cannot begin or go on.
        """
        self._agent = agent
        self._session = None
        self._conversations.clear()
        self._agent_gone = False
        agent.connection.when_ended(self._stop_waiting)
        if self._options.list_sessions:
            await self._logged_in(partial(list_sessions, agent, self.screen, self._options.list_cwd))
            return
        async with AsyncExitStack() as stack:
            session = self._session = await self._logged_in(partial(self._open, agent, stack))
            self._conversation(session.id).set_up(session.setup_meta)
            while self._prompts and not self._done:
                if not await self._say(self._prompts[0], typed=False):
                    return
                self._prompts.popleft()
            typed = self._dialogue.interactive
            while not self._options.prompts and not self._done:
                line = await self._next_prompt()
                if line is None or not (await self._say(line, typed=typed) or typed):
                    return

    def quit(self, status: int) -> None:
        """Leave as soon as possible, with this exit status."""
        self.status = status
        self.scope.cancel()

    async def heed_signals(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """SIGINT cancels the turn, or leaves when none runs or it is being cancelled already; SIGTERM and SIGHUP leave.

        Leaving is polite: the session is closed at the agent. A further signal, or :data:`CLOSE_GRACE`, ends that.
        """
        # Whoever started us may have had some ignored, as nohup and shells do for what runs in the background.
        heeded = [signum for signum in SIGNALS if signal.getsignal(signum) != signal.SIG_IGN]
        with trio.open_signal_receiver(*heeded) as signals:
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
        while not call.finished:
            conversation.tell_output(call, terminal)
            if terminal.ended:
                return
            await terminal.wait_changed()
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
        self._conversation(self.session.id).said(prompt, typed=typed)
        is_text = prompt.startswith("::")
        prompt = prompt[1:] if is_text else prompt
        if prompt.startswith(":") and not is_text:
            succeeded = await run_command(self, prompt)
        else:
            succeeded = await self._talk(prompt)
        if not typed and not succeeded:
            self.status = self.status or 1
        if not typed and self._interrupted:
            self.quit(128 + signal.SIGINT)
        self._interrupted = False
        return succeeded

    async def _talk(self, prompt: str) -> bool:
        """Say ``prompt`` to the agent, and follow its turn."""
        conversation = self._conversation(self.session.id)
        try:
            await self._logged_in(partial(self._take_turn, conversation, prompt))
        except TerminalLoginRequired:  # the agent will be another one
            if self.agent.capabilities.session_capabilities.resume is not None:
                self._options = attrs.evolve(self._options, load=None, resume=self.session.id)
            raise
        except (acp.RequestError, acp.RemoteProtocolError) as exc:
            conversation.aside(f"The turn failed: {exc}", Style.RED)
            return False
        return True

    async def _take_turn(self, conversation: Conversation, prompt: str) -> None:
        conversation.begin_turn()
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

    async def _run_login(self, login: LoginCommand) -> int:
        self._aside(f"$ {one_line(shlex.join(login.command))}")
        await self._dialogue.lend()
        return await run_in_terminal(login)

    def _who(self) -> str:
        info = self.agent.info
        return "the agent" if info is None else f"{info.title or info.name} {info.version}"

    async def _written(self, path: str, text: str) -> None:
        await trio.lowlevel.checkpoint()
        if self.screen.kind != TOOL:  # the tool call that did it
            self.screen.begin("aside")
        self.screen.line(f"(the agent wrote {one_line(path)})", Style.DIM)

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


def _told(error: Exception) -> str:
    """``error`` in words; the end of an agent's stderr in lines of its own, unless it is one."""
    if isinstance(error, trio.TooSlowError):
        return "the agent did not answer in time"
    if isinstance(error, acp.AgentProcessError):
        last_words = error.stderr_tail.strip().splitlines()[-LAST_WORDS:]
        if len(last_words) > 1:
            ended = f"the agent {shlex.join(error.command)!r} {error.what}; the end of its stderr:"
            return "\n  ".join([ended, *last_words])
    return (isinstance(error, acp.AgentStartError) and error.strerror) or str(error)
