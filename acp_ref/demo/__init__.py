"""The paired demo: ``acp-ref demo``, an agent and a client in two processes, and what they say to each other.

https://agentclientprotocol.com/protocol/overview#message-flow

It is written with nothing but what ``acp_ref`` offers to everybody, and can be read from the top:

* ``story``: the steps, in order, each with the page of the specification it comes from;
* ``stage``: what they share: the client, its agent, their session;
* ``servers``, ``mcp_server``: the MCP servers of the session; what runs in their processes;
* ``narrator``: how it is told; ``leftovers``: how it is known that nothing is left.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import Final, cast

import trio

from acp_ref.demo.leftovers import Processes, open_files, tasks
from acp_ref.demo.narrator import Narrator
from acp_ref.demo.stage import Stage
from acp_ref.demo.story import STORY, Step

__all__ = ["add_arguments", "main", "perform"]

STEP_TIMEOUT: Final = 60.0
"""Seconds that a step may take: far more than any needs, so that nothing can hang."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``acp-ref demo``."""
    parser.add_argument("--wire", action="store_true", help="show the messages too, without their secrets")


def main(args: argparse.Namespace, story: Sequence[Step] = STORY) -> int:
    """Perform ``story`` and tell it on stdout.

    Returns:
      The exit status: 0 when all was as it should be, else 1.

    Raises:
      KeyboardInterrupt: the user has seen enough. Everything was ended.
    """
    narrator = Narrator(sys.stdout, wire=args.wire)
    interrupted = False
    try:
        trio.run(perform, narrator, story)
    except* KeyboardInterrupt:
        interrupted = True
    if interrupted:
        raise KeyboardInterrupt
    if not narrator.heard:  # nothing may be flushed at exit to a reader that is gone, such as head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1 if narrator.failures else 0


async def perform(narrator: Narrator, story: Sequence[Step]) -> None:
    """Perform ``story``, see that nothing of it is left, and sum up. What went wrong is in ``narrator.failures``.

    A step that raises or takes too long ends the story; one whose checks fail does not.
    """
    began = trio.current_time()
    tasks_before, files_before = tasks(), open_files()
    processes = Processes()
    narrator.begin()
    with tempfile.TemporaryDirectory(prefix="acp-ref-demo-") as directory:
        await _tell(narrator, processes, str(await trio.Path(directory).resolve()), story)

    narrator.heading(len(story) + 1, "See that nothing is left")
    left = processes.left()
    if left is not None:
        kind = "processes have ended" if processes.sees_descendants else "process groups are empty"
        narrator.check(f"all {len(processes)} {kind}", not left, "\n".join(left))
    extra_tasks = tasks() - tasks_before
    narrator.check("all tasks have ended", extra_tasks == 0, f"{extra_tasks} more than before")
    if files_before is not None:
        extra_files = sorted((open_files() or files_before) - files_before)
        narrator.check("all file descriptors are closed", not extra_files, "\n".join(extra_files))

    narrator.sum_up(trio.current_time() - began)


async def _tell(narrator: Narrator, processes: Processes, directory: str, story: Sequence[Step]) -> None:
    try:
        with trio.CancelScope() as scope:
            async with Stage(narrator, processes, directory) as stage:
                for number, step in enumerate(story, 1):
                    scope.deadline = trio.current_time() + STEP_TIMEOUT
                    narrator.heading(number, step.title, step.page)
                    await step.body(stage)
                    processes.look()
        if scope.cancelled_caught:
            narrator.fail(f"this took more than {STEP_TIMEOUT:.0f} seconds")
    except Exception as exc:
        for leaf in _leaves(exc):
            narrator.fail(f"{type(leaf).__name__}: {leaf}")


def _leaves(exc: Exception) -> Iterator[Exception]:
    """The exceptions in a group and in the groups in it; one that is no group by itself."""
    if isinstance(exc, ExceptionGroup):
        # The cast: isinstance cannot say what is in the group.
        for inner in cast("ExceptionGroup[Exception]", exc).exceptions:
            yield from _leaves(inner)
    else:
        yield exc
