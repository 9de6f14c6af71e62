"""Client: the description of a client, and its side of one connection.

https://agentclientprotocol.com/protocol/overview#client

A :class:`Client` is data: who it is, the function that asks the user for permission, and what else it offers the
agent. What it announces in ``initialize`` is derived from that (GEN-07). :func:`open_agent_process` starts an agent and
initializes it; :func:`open_agent` does the same over any transport.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, final

import attrs
import trio

from acp_ref.agent_process import open_agent_transport
from acp_ref.client_side import ClientSide
from acp_ref.connection import FrameHook, open_connection
from acp_ref.file_system import FileSystem
from acp_ref.handlers import Handlers
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

if TYPE_CHECKING:
    from acp_ref._jsonrpc import JSONObject
    from acp_ref.client_session import ClientSession
    from acp_ref.elicitation import AskForm, AskUrl
    from acp_ref.permissions import AskPermission
    from acp_ref.terminals import LocalTerminal
    from acp_ref.transports import Transport

__all__ = ["Client", "open_agent", "open_agent_process"]


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
    terminal_login: bool = False
    """Whether the application runs terminal logins (AUTH-05); see :func:`acp_ref.authentication.terminal_login`."""
    extensions: Handlers | None = None
    """Handlers of methods that begin with an underscore (EXT-06)."""
    meta: JSONObject | None = None
    """The ``_meta`` of its capabilities, where extensions announce themselves (INIT-30)."""

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
            auth=AuthCapabilities(terminal=self.terminal_login),
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
) -> AsyncGenerator[ClientSide, None]:
    """Initialize the agent at the other end of ``transport``; close the connection at the end of the ``with`` block.

    Raises:
      UnsupportedProtocolVersion: the agent speaks another version (INIT-11).
      RequestError, RemoteProtocolError, trio.BrokenResourceError: see :meth:`Connection.request`.
    """
    side = ClientSide(client, transport, on_report=on_report, on_frame=on_frame)
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
    start_timeout: float = 60.0,
) -> AsyncGenerator[ClientSide, None]:
    """Start an agent, initialize it, and end it with everything it started at the end of the ``with`` block.

    Args:
      command: the program and its arguments; no shell is involved (TRANS-03).
      env: variables set in addition to the own ones.
      cwd: the directory it starts in. Sessions have directories of their own.
      stderr: takes what the agent writes to its stderr (TRANS-09); it is read in any case, and its end is kept for
        error messages.
      start_timeout: seconds until it must have answered ``initialize``.

    Raises:
      AgentStartError: there is no such program, or it cannot be run.
      AgentProcessError: it ended; the text has its exit status and the end of its stderr.
      trio.TooSlowError: it did not answer ``initialize`` in time.
      UnsupportedProtocolVersion, RequestError, RemoteProtocolError: see :func:`open_agent`.
    """
    async with open_agent_transport(command, env=env, cwd=cwd, stderr=stderr) as transport:
        side = ClientSide(client, transport, on_report=on_report, on_frame=on_frame)
        async with open_connection(side.connection):
            with trio.fail_after(start_timeout):
                await side.initialize()
            yield side
