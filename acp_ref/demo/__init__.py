"""The paired demo: ``acp-ref demo``, an agent and a client in two processes, and what they say to each other.

https://agentclientprotocol.com/protocol/overview#message-flow

It is written with nothing but what ``acp_ref`` offers to everybody, and can be read from the top:

* ``story``: the steps, in order, each with the page of the specification it comes from;
* ``stage``: what they share: the client, its agent, their session;
* ``servers``, ``mcp_server``: the MCP servers of the session; what runs in their processes;
* ``performance``: how a story is performed; ``narrator``: how it is told; ``leftovers``: how it is known that nothing
  of it is left.
"""

from __future__ import annotations

import argparse
import os
import sys

import trio

__all__ = ["add_arguments", "main"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``acp-ref demo``."""
    parser.add_argument("--wire", action="store_true", help="show the messages too, without their secrets")


def main(args: argparse.Namespace) -> int:
    """Perform the story and tell it on stdout.

    Returns:
      The exit status: 0 when all was as it should be, else 1.

    Raises:
      KeyboardInterrupt: the user has seen enough. Everything was ended.
    """
    # Not at the top: the MCP server is a module of this package too, and needs none of it.
    from acp_ref.demo import story
    from acp_ref.demo.narrator import Narrator
    from acp_ref.demo.performance import perform

    narrator = Narrator(sys.stdout, wire=args.wire)
    interrupted = False
    try:
        trio.run(perform, narrator, story.STORY)
    except* KeyboardInterrupt:
        interrupted = True
    if interrupted:
        raise KeyboardInterrupt
    if not narrator.heard:  # nothing may be flushed at exit to a reader that is gone, such as head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1 if narrator.failures else 0
