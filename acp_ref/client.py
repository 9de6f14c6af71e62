"""Client: the description of a client, and its side of one connection.

https://agentclientprotocol.com/protocol/overview#client

A :class:`Client` is data: who it is, the function that asks the user for permission, and what else it offers the
agent. What it announces in ``initialize`` is derived from that (GEN-07). :func:`open_agent_process` starts an agent and
initializes it; :func:`open_agent` does the same over any transport; :func:`use_agent_process` also starts it again
after a login in a terminal.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar, cast, final

import attrs
import trio

from acp_ref._framing import DEFAULT_MAX_FRAME_BYTES
from acp_ref.agent_process import open_agent_transport
from acp_ref.authentication import TerminalLoginRequired
from acp_ref.client_side import ClientSide
from acp_ref.connection import FrameHook, open_connection
from acp_ref.file_system import FileSystem
from acp_ref.handlers import Handlers, only_extensions
from acp_ref.reports import Report, log_report
from acp_ref.schema import (
    AuthCapabilities,
    BooleanConfigOptionCapabilities,
    ClientCapabilities,
    ClientSessionCapabilities,
    CompactionCapabilities,
    ElicitationCapabilities,
    ElicitationFormCapabilities,
    ElicitationUrlCapabilities,
    FileSystemCapabilities,
    NoticeCapabilities,
    SessionConfigOptionsCapabilities,
    SessionUpdate,
)
from acp_ref.terminal_login import log_in_at_terminal, login_command

if TYPE_CHECKING:
    from acp_ref._jsonrpc import JSONObject
    from acp_ref.authentication import ChooseLogin
    from acp_ref.client_session import ClientSession
    from acp_ref.elicitation import AskForm, AskUrl
    from acp_ref.permissions import AskPermission
    from acp_ref.terminal_login import RunLogin
    from acp_ref.terminals import LocalTerminal
    from acp_ref.transports import Transport

__all__ = ["Client", "open_agent", "open_agent_process", "use_agent_process"]

T = TypeVar("T")


@final
@attrs.frozen(kw_only=True, eq=False)
class Client:
    """A client: data from which it is served to agents."""

    name: str
    """Who it is, for programs (INIT-03)."""
    version: str
    """Its version."""
    request_permission: AskPermission
    """Asks the user whether a tool may run; returns the option that was chosen, or None (GEN-06, PERM-07)."""
    title: str | None = None
    """Who it is, for people (INIT-28)."""
    file_system: FileSystem | None = None
    """Reads and writes text files for the agent, inside the roots of each session; announced when given."""
    read_only: bool = False
    """Whether ``file_system`` only reads: the two switches are independent (INIT-17)."""
    terminals: bool = False
    """Whether the agent may run commands in terminals here; all five methods are served then (INIT-18)."""
    on_terminal: Callable[[ClientSession, LocalTerminal], None] | None = None
    """Told of every change of a terminal, for the application to show it live (TERM-16)."""
    elicit_form: AskForm | None = None
    """Shows a form to the user; announced when given (ELIC-05)."""
    elicit_url: AskUrl | None = None
    """Asks the user to open a URL; announced when given (ELIC-05)."""
    on_update: Callable[[ClientSession, SessionUpdate], None] | None = None
    """Told of every update, in wire order, in turns, between them and in a replay (``session.replaying``)."""
    notices: bool = True
    """Whether notices may be sent here; ``session.state`` keeps them."""
    compaction: bool = True
    """Whether compactions may be reported here; ``session.state`` shows them."""
    boolean_config_options: bool = True
    """Whether config options that are on or off may be sent here."""
    choose_login: ChooseLogin | None = None
    """Asks the user how to log in when the agent needs that. It is then done, and the call that was refused is made
    once more (ERR-10, AUTH-23). Without this, such a call raises AuthRequired at once."""
    terminal_login: RunLogin | None = None
    """Runs a login in a terminal, such as :func:`acp_ref.terminal_login.run_in_terminal`; announced when given, to an
    agent whose command is known (AUTH-05). See :func:`use_agent_process`."""
    extensions: Handlers | None = attrs.field(default=None, validator=only_extensions)
    """Handlers of methods that begin with an underscore (EXT-06)."""
    meta: JSONObject | None = None
    """The ``_meta`` of its capabilities, where extensions announce themselves (INIT-30, EXT-09, EXT-11)."""

    def capabilities(self) -> ClientCapabilities:
        """What it announces: every capability by name (INIT-16), each because there is something behind it."""
        files = self.file_system is not None
        return ClientCapabilities(
            fs=FileSystemCapabilities(read_text_file=files, write_text_file=files and not self.read_only),
            terminal=self.terminals,
            session=ClientSessionCapabilities(
                compaction=CompactionCapabilities() if self.compaction else None,
                config_options=SessionConfigOptionsCapabilities(
                    boolean=BooleanConfigOptionCapabilities() if self.boolean_config_options else None
                ),
                notices=NoticeCapabilities() if self.notices else None,
            ),
            auth=AuthCapabilities(terminal=self.terminal_login is not None),  # AUTH-05
            elicitation=ElicitationCapabilities(
                form=ElicitationFormCapabilities() if self.elicit_form is not None else None,
                url=ElicitationUrlCapabilities() if self.elicit_url is not None else None,
            ),
            meta=self.meta,
        )


@asynccontextmanager
async def open_agent(
    transport: Transport,
    client: Client,
    *,
    on_report: Callable[[Report], None] = log_report,
    on_frame: FrameHook | None = None,
    strict: bool = False,
) -> AsyncGenerator[ClientSide, None]:
    """Initialize the agent at the other end of ``transport``; close the connection at the end of the ``with`` block.

    Args:
      on_report: hears of everything that is ignored, salvaged or fails without an answer.
      on_frame: sees every message, both ways.
      strict: refuse messages with faults that the schema tolerates, instead of mending and reporting them (D-28).

    Raises:
      UnsupportedProtocolVersion: the agent speaks another version (INIT-11).
      RequestError, RemoteProtocolError, trio.BrokenResourceError: see :meth:`Connection.request`.
    """
    client = attrs.evolve(client, terminal_login=None)  # AUTH-05: how the agent is started is not known here
    side = ClientSide(client, transport, on_report=on_report, on_frame=on_frame, strict=strict)
    async with open_connection(side.connection):
        await side.initialize()
        yield side


@asynccontextmanager
async def open_agent_process(
    command: Sequence[str],
    client: Client,
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    stderr: Callable[[bytes], None] | None = None,
    on_report: Callable[[Report], None] = log_report,
    on_frame: FrameHook | None = None,
    strict: bool = False,
    max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES,
    start_timeout: float = 60.0,
) -> AsyncGenerator[ClientSide, None]:
    """Start an agent, initialize it, and end it with everything it started at the end of the ``with`` block.

    Args:
      command: the program and its arguments; no shell is involved (TRANS-03).
      env: variables set in addition to the own ones.
      cwd: the directory it starts in. Sessions have directories of their own.
      stderr: takes what the agent writes to its stderr (TRANS-09); it is read in any case, and its end is kept for
        error messages.
      on_report, on_frame, strict: as for :func:`open_agent`.
      max_frame_bytes: the longest message that is read from the agent, 128 MiB by default; a longer one fails alone
        (D-34).
      start_timeout: seconds until it must have answered ``initialize``.

    Raises:
      AgentStartError: there is no such program, or it cannot be run.
      AgentProcessError: it ended; the text has its exit status and the end of its stderr.
      trio.TooSlowError: it did not answer ``initialize`` in time.
      UnsupportedProtocolVersion, RequestError, RemoteProtocolError: see :func:`open_agent`.
    """
    transport = open_agent_transport(command, env=env, cwd=cwd, stderr=stderr, max_frame_bytes=max_frame_bytes)
    async with transport as process:
        side = ClientSide(client, process, on_report=on_report, on_frame=on_frame, strict=strict)
        async with open_connection(side.connection):
            with trio.fail_after(start_timeout):
                await side.initialize()
            yield side


async def use_agent_process(
    command: Sequence[str],
    client: Client,
    use: Callable[[ClientSide], Awaitable[T]],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    stderr: Callable[[bytes], None] | None = None,
    on_report: Callable[[Report], None] = log_report,
    on_frame: FrameHook | None = None,
    strict: bool = False,
    max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES,
    start_timeout: float = 60.0,
) -> T:
    """Start an agent as :func:`open_agent_process` does, ``use`` it, and end it; log in between when it needs that::

        async def converse(agent):
            async with agent.new_session(cwd="/src/project") as session: ...

        await acp.use_agent_process(["parrot"], client, converse)

    When the user chooses a login in a terminal (see ``Client.choose_login``), ``use`` ends with TerminalLoginRequired.
    The agent is ended then, ``Client.terminal_login`` carries out the login, the agent is started and initialized again
    (AUTH-15), and ``use`` is called once more, from its beginning.

    Returns:
      What ``use`` returns.

    Raises:
      LoginFailed: the login in the terminal did not succeed (AUTH-14).
      TerminalLoginRequired: nothing runs logins in a terminal here, or the agent needs another one after the first.
      and what :func:`open_agent_process` and ``use`` raise.
    """
    opened = functools.partial(
        open_agent_process,
        command,
        client,
        env=env,
        cwd=cwd,
        stderr=stderr,
        on_report=on_report,
        on_frame=on_frame,
        strict=strict,
        max_frame_bytes=max_frame_bytes,
        start_timeout=start_timeout,
    )
    try:
        async with opened() as agent:
            return await use(agent)
    except (TerminalLoginRequired, ExceptionGroup) as exc:
        required = _terminal_login_in(exc)
        if required is None or client.terminal_login is None:
            raise
    login = login_command(required.method, command, env=env, cwd=cwd)
    await log_in_at_terminal(required.method, login, client.terminal_login)
    async with opened() as agent:
        return await use(agent)


def _terminal_login_in(exc: Exception) -> TerminalLoginRequired | None:
    """The choice of a terminal login, which a nursery of the application may have put into a group."""
    while isinstance(exc, ExceptionGroup):
        members = cast("ExceptionGroup[Exception]", exc).exceptions
        if len(members) != 1:
            return None
        exc = members[0]
    return exc if isinstance(exc, TerminalLoginRequired) else None
