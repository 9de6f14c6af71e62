"""The command line: ``acp-ref agent``, ``client``, ``demo`` and ``spec``.

What a command does not need is not imported: a client waits for its agent to start.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import acp_ref

__all__ = ["main"]

DESCRIPTION: Final = """\
The Agent Client Protocol, as a reference: an agent and a client to try your own with,
a demonstration of the two, and all that the specification asks for."""

COMMANDS: Final = {
    "agent": "serve the reference agent on stdin and stdout, for any client",
    "client": "talk to an agent, here in the terminal",
    "demo": "watch the two go through a session, with MCP servers and a restart",
    "spec": "look up a requirement: what it asks for, the code that meets it, the tests that show it",
}
"""Each command and what it does."""

Run: TypeAlias = Callable[[argparse.Namespace], int]
"""Carries out a command and returns the exit status."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that ``argv`` names, the process's own arguments when it is None.

    Returns:
      The exit status: 2 when there is nothing to run.
    """
    arguments = sys.argv[1:] if argv is None else argv
    chosen = next((word for word in arguments if not word.startswith("-")), None)
    try:
        parser, run = _parser(chosen)
        args = parser.parse_args(arguments)
        if run is None:
            parser.print_help()
            return 2
        return run(args)
    except KeyboardInterrupt:
        return 130


def _parser(chosen: str | None) -> tuple[argparse.ArgumentParser, Run | None]:
    """The parser, with the arguments of the command that was ``chosen`` and of no other, and that command."""
    parser = argparse.ArgumentParser(
        prog="acp-ref", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"acp-ref {acp_ref.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    run: Run | None = None
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        if name == chosen:
            gc.disable()  # to import makes many objects and no garbage; looking for some takes a tenth of the start
            run = _prepare(name, command)
            gc.enable()
            gc.freeze()
    return parser, run


def _prepare(name: str, parser: argparse.ArgumentParser) -> Run:
    """Give ``parser`` the arguments of the command ``name``, and return what runs it."""
    if name == "agent":
        from acp_ref import reference_agent

        reference_agent.add_arguments(parser)
        return reference_agent.main
    if name == "client":
        from acp_ref import reference_client

        reference_client.add_arguments(parser)
        return reference_client.main
    if name == "demo":
        from acp_ref import demo

        demo.add_arguments(parser)
        return demo.main
    parser.add_argument(
        "about",
        nargs="?",
        metavar="ID|PAGE",
        help="a requirement (SETUP-07), a section of them (SETUP), or a page (session-setup)",
    )
    return _show_spec


def _show_spec(args: argparse.Namespace) -> int:
    from acp_ref.spec.show import show

    try:
        status = show(args.about, out=sys.stdout, width=shutil.get_terminal_size().columns)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as head, has seen enough; nothing may be flushed at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status
