"""Reference agent: ``acp-ref agent``, an agent for any client. It has no language model, so it always does the same.

https://agentclientprotocol.com/protocol/overview#agent

What it is told it says again, unless that begins with a slash: then it is a command, and there is one for everything
that an agent can do. It is written with nothing but what ``acp_ref`` offers to everybody, as an example:

* here: the agent, its commands, and how it is served;
* ``settings``: its modes and config options;
* ``commands``: what a command is, and those that only talk; ``tools``: those that do something; ``questions``: the one
  that asks the user; ``showcase``: the one that shows all there is.
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import signal
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import attrs
import trio

import acp_ref as acp
from acp_ref.mcp_servers import DEFAULT_CONNECT_TIMEOUT
from acp_ref.reference_agent import commands, questions, showcase, tools
from acp_ref.reference_agent.commands import CommandError, SlashCommand, UsageError
from acp_ref.reference_agent.settings import CONFIG_OPTIONS, MODES, is_loud, thinks_aloud
from acp_ref.schema import AuthMethodAgent, AuthMethodId, PromptCapabilities
from acp_ref.session_store import default_sessions_directory
from acp_ref.slash_commands import parse_command
from acp_ref.stdio import open_stdio
from acp_ref.trace import JsonLinesTrace

__all__ = ["add_arguments", "main", "make_agent"]

LOGIN_METHOD: Final = AuthMethodId("demo")


def make_agent(
    store: acp.SessionStore, *, require_login: bool = False, mcp_connect_timeout: float = DEFAULT_CONNECT_TIMEOUT
) -> acp.Agent:
    """The reference agent, keeping its sessions in ``store``.

    Args:
      require_login: whether it begins logged out. In any case sessions need a login after a logout.
      mcp_connect_timeout: seconds that each MCP server has to connect before the session goes on without it.
    """
    login = Login(not require_login)
    table = {command.name: command for command in slash_commands(login)}
    available = [command.as_available() for command in table.values()]

    async def prompt(turn: acp.PromptTurn) -> acp.StopReason:
        given = parse_command(turn.prompt, available)
        if given is not None:
            await run_command(turn, table[given.name], given.input)
        elif turn.text.startswith("/"):
            usages = "".join(f"- {command.usage}: {command.description}\n" for command in table.values())
            await turn.send_text(f"There is no such command. These are all:\n{usages}")
        else:
            await repeat(turn)
        return acp.StopReason.END_TURN

    return acp.Agent(
        name="acp-ref",
        title="ACP reference agent",
        version=acp.__version__,
        prompt=prompt,
        prompt_capabilities=PromptCapabilities(image=True, audio=True, embedded_context=True),  # it repeats them all
        store=store,
        mcp_connect_timeout=mcp_connect_timeout,
        modes=MODES,
        config_options=CONFIG_OPTIONS,
        commands=available,
        authentication=acp.Authentication(
            methods=[
                AuthMethodAgent(id=LOGIN_METHOD, name="Demo login", description="Lets everybody in, with no password")
            ],
            authenticate=login.authenticate,
            logout=login.logout,
            logged_in=lambda: login.is_in,
        ),
    )


async def repeat(turn: acp.PromptTurn) -> None:
    """Say what the user said, whatever it is, one chunk for each block."""
    loud = is_loud(turn.session)
    if thinks_aloud(turn.session):
        await turn.send_thought("I shall say that " + ("again, but louder." if loud else "again."))
    for block in turn.prompt:
        if loud and isinstance(block, acp.TextContent):
            block = attrs.evolve(block, text=block.text.upper())
        await turn.send_content(block)


async def run_command(turn: acp.PromptTurn, command: SlashCommand, text: str) -> None:
    """Carry out ``command``. What it cannot do, and what the client refuses, is an answer and not an error."""
    try:
        await command.run(turn, text)
    except UsageError:
        await turn.send_text(f"Usage: {command.usage}")
    except CommandError as exc:
        await turn.send_text(str(exc))
    except (acp.RequestError, acp.RemoteProtocolError) as exc:
        await turn.send_text(f"The client could not do that: {exc}")


@attrs.define
class Login:
    """Whether somebody is logged in: for all connections of the process, and as long as it runs."""

    is_in: bool

    async def authenticate(self, method_id: AuthMethodId) -> None:
        """``authenticate``, by the one method there is."""
        self.is_in = True

    async def logout(self) -> None:
        """``logout``: the sessions that are open go on, but no others can be opened (AUTH-22)."""
        self.is_in = False

    async def command_login(self, turn: acp.PromptTurn, text: str) -> None:
        """``/login``, in a session that is open still."""
        self.is_in = True
        await turn.send_text("You are logged in.")

    async def command_logout(self, turn: acp.PromptTurn, text: str) -> None:
        """``/logout``: what ``logout`` does, for clients that have no button for it."""
        self.is_in = False
        await turn.send_text("You are logged out. This session goes on, but others need a login first.")


def slash_commands(login: Login) -> list[SlashCommand]:
    """All commands, in the order to show them."""
    return [
        SlashCommand("echo", "TEXT", "Say TEXT", commands.echo),
        SlashCommand("stream", "N", "Say N pieces of text", commands.stream),
        SlashCommand("sleep", "SECONDS", "Do nothing for a while; cancel it", commands.sleep),
        SlashCommand("where", "", "Tell the session's directories", commands.where),
        SlashCommand("mcp", "", "Tell how the MCP servers do", commands.mcp),
        SlashCommand("call", "SERVER TOOL [JSON]", "Call a tool of an MCP server", tools.call),
        SlashCommand("read", "PATH [LINE [LIMIT]]", "Read a file through the client", tools.read),
        SlashCommand("write", "PATH TEXT", "Write a file through the client", tools.write),
        SlashCommand("run", "COMMAND [ARGUMENT...]", "Run a command in a terminal of the client", tools.run),
        SlashCommand("plan", "", "Make a plan and carry it out", commands.plan),
        SlashCommand("ask", "", "Ask you something", questions.ask),
        SlashCommand("mode", "ID", "Go into another mode", commands.mode),
        SlashCommand("set", "ID VALUE", "Change a config option", commands.set_option),
        SlashCommand("title", "TEXT", "Name the session", commands.title),
        SlashCommand("login", "", "Log in", login.command_login),
        SlashCommand("logout", "", "Log out", login.command_logout),
        SlashCommand("showcase", "", "Show every kind of update and ask for every service", showcase.showcase),
    ]


# ------------------------------------------------------------------------------------------------------ command line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``acp-ref agent``."""
    sessions = str(default_sessions_directory())
    parser.add_argument(
        "--sessions", metavar="DIR", default=sessions, help="keep sessions there (default: %(default)s)"
    )
    parser.add_argument("--wire", metavar="FILE", help="append every message to FILE, as lines of JSON without secrets")
    parser.add_argument(
        "--mcp-timeout",
        metavar="SECONDS",
        type=seconds,
        default=DEFAULT_CONNECT_TIMEOUT,
        help="open a session without the MCP servers that need longer to start (default: %(default)g)",
    )
    parser.add_argument(
        "--threads", action="store_true", help="read and write in threads, as is always done on Windows"
    )
    parser.add_argument("--require-login", action="store_true", help="open no session before the client has logged in")
    parser.add_argument("-v", "--verbose", action="store_true", help="log to stderr even what is only ignored")


def seconds(text: str) -> float:
    """``text`` as a time to wait.

    Raises:
      ValueError: it is none.
    """
    number = float(text)
    if not 0 < number < math.inf:
        raise ValueError(text)
    return number


def main(args: argparse.Namespace) -> int:
    """Serve the reference agent on stdin and stdout until the client closes stdin or a signal ends it.

    Returns:
      The exit status: 0 after the end of input, 128 + N after signal N, as shells have it; 1 when it cannot begin.
    """
    logging.basicConfig(format="acp-ref agent: %(message)s", level=logging.WARNING)
    if args.verbose:
        logging.getLogger("acp_ref").setLevel(logging.DEBUG)  # and no one else's: theirs may show headers
    if sys.stdin is not None and sys.stdin.isatty():
        print(
            "acp-ref agent speaks the Agent Client Protocol on stdin and stdout; a client is what starts it.\n"
            "To talk to it here: acp-ref client -- acp-ref agent",
            file=sys.stderr,
        )
    store = acp.DirectoryStore(args.sessions)
    agent = make_agent(store, require_login=args.require_login, mcp_connect_timeout=args.mcp_timeout)
    try:
        with ExitStack() as files:
            check_descriptors()
            trace: JsonLinesTrace | None = None
            if args.wire is not None:
                # Without a buffer: what was said stands in the file at once, whatever happens next.
                trace = JsonLinesTrace(files.enter_context(Path(args.wire).open("ab", buffering=0)))
            return trio.run(serve, agent, trace, args.threads)
    except OSError as exc:  # no such file, or no stdin and stdout
        print(f"acp-ref agent: {exc}", file=sys.stderr)
        return 1


def check_descriptors() -> None:
    """Whether there are a stdin and a stdout, before whatever is opened next takes the place of one that is closed.

    Raises:
      OSError: one is closed.
    """
    for number in (0, 1):
        os.fstat(number)
    with suppress(OSError):
        os.fstat(2)
        return
    os.open(os.devnull, os.O_WRONLY)  # it becomes stderr


async def serve(agent: acp.Agent, trace: JsonLinesTrace | None, threads: bool) -> int:
    """Serve ``agent`` until the client closes stdin or a signal comes.

    Either way its sessions are closed, and their MCP servers ended, before this returns.

    Returns:
      The exit status.
    """
    # Whoever started us may have had some ignored, as nohup and shells do for what runs in the background.
    others = [signum for name in ("SIGINT", "SIGHUP") if (signum := getattr(signal, name, None)) is not None]
    heeded = [signal.SIGTERM, *(signum for signum in others if signal.getsignal(signum) != signal.SIG_IGN)]
    status = 0
    async with open_stdio(threads=threads or sys.platform == "win32") as stdio:
        with trio.open_signal_receiver(*heeded) as received:
            async with trio.open_nursery() as nursery:
                serving = trio.CancelScope()

                async def stop() -> None:
                    nonlocal status
                    async for signum in received:  # and those that come while it ends change nothing
                        status = status or 128 + signum
                        serving.cancel()

                nursery.start_soon(stop)
                with serving:
                    await acp.serve_agent(agent, stdio, on_frame=trace)
                nursery.cancel_scope.cancel()
    return status
