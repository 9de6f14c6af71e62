"""Reference client: ``acp-ref client``, to talk to any agent at a terminal, or from a script.

https://agentclientprotocol.com/protocol/overview#client

* here: the command line;
* ``program``: the agent, the session, the prompts and the signals; ``commands``: what is typed for the client itself;
* ``conversation``, ``tool_calls``, ``diffs``, ``content``: what is told of the agent's updates;
* ``dialogue``, ``questions``, ``elicitation``: what the person is asked;
* ``screen``, ``text``, ``console``: how it looks, and the terminal.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
from contextlib import ExitStack
from typing import Final

import trio

from acp_ref.mcp_config import McpConfigError, load_mcp_config
from acp_ref.reference_client.commands import is_command
from acp_ref.reference_client.console import Keyboard, Output
from acp_ref.reference_client.dialogue import Dialogue
from acp_ref.reference_client.program import Options, Program
from acp_ref.reference_client.screen import Screen
from acp_ref.reference_client.text import visible
from acp_ref.trace import JsonLinesTrace

__all__ = ["add_arguments", "main"]

EPILOG: Final = """\
Without --prompt, prompts are read from the terminal, or line by line from what stdin is instead. Lines that begin with
a colon are for the client; :help shows them. Ctrl-C cancels the turn, and leaves when none runs; Ctrl-D leaves.

The exit status is 0; 1 when something failed; 2 when it could not begin; 128 + N after signal N.
"""

NOBODY_READS: Final = 141
"""The exit status when nobody reads stdout any more, such as ``head``: what shells have for SIGPIPE."""

FLUSH_GRACE: Final = 1.0
"""Seconds for the last words to be read, when somebody wants to leave."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``acp-ref client``."""
    parser.usage = "%(prog)s [OPTION...] -- AGENT [ARGUMENT...]"
    parser.epilog = EPILOG
    parser.add_argument("--cwd", metavar="DIR", help="the session's working directory (default: the current one)")
    parser.add_argument("--mcp", metavar="FILE", help='MCP servers for the session: a JSON file with "mcpServers"')
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--load", metavar="ID", help="go on with this session, and show what was said before")
    which.add_argument("--resume", metavar="ID", help="go on with this session")
    which.add_argument("--list", action="store_true", help="list the agent's sessions, those in --cwd if it is given")
    parser.add_argument(
        "--permission",
        choices=["ask", "allow", "reject"],
        default="ask",
        help="how to answer when the agent asks for permission (default: %(default)s; without a terminal: reject)",
    )
    parser.add_argument("--wire", metavar="FILE", help="append every message to FILE, as lines of JSON without secrets")
    parser.add_argument("-v", "--verbose", action="store_true", help="show the agent's stderr, and what is ignored")
    parser.add_argument(
        "--prompt", metavar="TEXT", action="append", default=[], help="say this and leave; may be given repeatedly"
    )
    parser.add_argument(
        "agent", metavar="AGENT", nargs=argparse.REMAINDER, help="after --, the agent's program and its arguments"
    )


def main(args: argparse.Namespace) -> int:
    """Talk to an agent until the prompts are over, the person leaves, or the agent goes.

    Returns:
      The exit status, as told in the help.
    """
    try:
        options = _options(args)
        with ExitStack() as files:
            trace: JsonLinesTrace | None = None
            if args.wire is not None:
                # Without a buffer: what was said stands in the file at once, whatever happens next.
                trace = JsonLinesTrace(files.enter_context(open(args.wire, "ab", buffering=0)))
            return trio.run(_run, options, trace)
    except (McpConfigError, OSError, _UsageError) as exc:
        print(f"acp-ref client: {exc}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


class _UsageError(Exception):
    """The arguments make no sense."""


def _options(args: argparse.Namespace) -> Options:
    command: list[str] = args.agent[1:] if args.agent[:1] == ["--"] else args.agent
    if not command:
        raise _UsageError("which agent? Give its program and arguments after --")
    cwd = os.path.abspath(args.cwd or os.curdir)
    if not os.path.isdir(cwd):
        raise _UsageError(f"--cwd: {cwd} is not a directory")
    return Options(
        command=command,
        cwd=cwd,
        mcp_servers=[] if args.mcp is None else load_mcp_config(args.mcp),
        load=args.load,
        resume=args.resume,
        list_sessions=args.list,
        list_cwd=cwd if args.cwd is not None else None,
        permission=args.permission,
        prompts=args.prompt,
        verbose=args.verbose,
    )


async def _run(options: Options, trace: JsonLinesTrace | None) -> int:
    is_terminal = os.isatty(1)
    output = Output(1, sys.stdout.encoding)
    looks = is_terminal and os.environ.get("TERM") != "dumb"
    screen = Screen(output.write, columns=(lambda: shutil.get_terminal_size().columns) if looks else None)
    dialogue = Dialogue(screen, Keyboard(0, is_command), output, interactive=is_terminal and os.isatty(0))
    program = Program(options, screen, dialogue, live=is_terminal)
    async with trio.open_nursery() as nursery:
        await nursery.start(program.heed_signals)

        async def write() -> None:
            await output.run()
            program.quit(NOBODY_READS)

        nursery.start_soon(write)
        with program.scope:
            await program.run(trace)
            screen.fresh_line()
            await output.flush()
        with trio.move_on_after(FLUSH_GRACE):
            await output.flush()
        nursery.cancel_scope.cancel()
    if program.error is not None:
        print(f"acp-ref client: {visible(program.error)}", file=sys.stderr)
    return program.status
