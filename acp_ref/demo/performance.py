"""The performance of a story: its steps, one after the other, and then a look at what is left of them.

https://agentclientprotocol.com/protocol/overview#message-flow
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from typing import Final, cast

import trio

from acp_ref.demo.leftovers import Processes, open_files, tasks
from acp_ref.demo.narrator import Narrator
from acp_ref.demo.stage import Stage
from acp_ref.demo.story import Step

__all__ = ["perform"]

STEP_TIMEOUT: Final = 60.0
"""Seconds that a step may take: far more than any needs, so that nothing can hang."""


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
