"""A client and its bad agents: whatever ends the conversation, and whoever is killed, no process of the agent is left.

The agents are in this process's care here; in the second half the client is a process of its own, to be signalled.
"""

from __future__ import annotations

import os
import signal
import sys
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import attrs
import pytest
import trio

import acp_ref as acp
from acp_ref.agent_process import AgentProcess, open_agent_transport
from acp_ref.client_turn import ClientTurn
from acp_ref.methods import CANCEL
from acp_ref.reports import Report
from acp_ref.schema import CancelNotification, SessionId
from tests.conversations import make_client
from tests.faults.raw_client import ROOT
from tests.faults.system import alive, kill_all, nothing_left

FAULTY: Final = str(ROOT / "tests" / "faults" / "faulty_agent.py")

GRACE: Final = 0.2
"""Seconds that an agent has to go by itself, and once more after SIGTERM."""

HABITS: Final = (
    "none",
    "deaf",
    "stubborn",
    "parent",
    "parent,stubborn",
    "loud,deaf",
    "junk,loud",
    "stuck",
    "flood",
    "flood,parent,stubborn",
)


def faulty(habits: Sequence[str], tag: str, *, wrapped: bool = False) -> list[str]:
    """The command of an agent with those habits; ``wrapped`` makes it the child of a shell that waits for it."""
    command = [sys.executable, "-I", "-S", FAULTY, ",".join(habits), tag]
    return ["sh", "-c", '"$@"; :', "sh", *command] if wrapped else command


class Fault(Exception):
    """Something of the application's own."""


@attrs.frozen
class Conversation:
    """A conversation with a bad agent, until it is ended in some way."""

    habits: Sequence[str]
    wrapped: bool
    tag: str

    @asynccontextmanager
    async def begun(self) -> AsyncGenerator[tuple[AgentProcess, acp.ClientSide, ClientTurn]]:
        """A turn that the agent is at."""
        command = faulty(self.habits, self.tag, wrapped=self.wrapped)
        reports: list[Report] = []
        async with (
            open_agent_transport(command, stdin_grace=GRACE, term_grace=GRACE) as transport,
            acp.open_agent(transport, make_client(), on_report=reports.append) as agent,
            agent.new_session("/") as session,
            session.prompt("hello") as turn,
        ):
            yield transport, agent, turn

    async def is_left(self) -> None:
        """In good order, where the agent lets us."""
        if "stuck" in self.habits or "flood" in self.habits:
            return
        async with self.begun() as (_, _, turn):
            assert await turn.wait() is acp.StopReason.END_TURN

    async def fails(self) -> None:
        """By an error of the application."""
        with pytest.raises(Fault):
            async with self.begun():
                raise Fault

    async def is_cancelled(self) -> None:
        """By a scope around all of it."""
        with trio.CancelScope() as scope:
            async with self.begun():
                scope.cancel()
                await trio.sleep_forever()
        assert scope.cancelled_caught

    async def loses_its_agent(self) -> None:
        """Only the process that was started is killed, as the kernel does when memory is short; its children live."""
        if self.wrapped and "flood" in self.habits:  # the wrapper dies, but the agent talks on
            return
        async with self.begun() as (transport, agent, _):
            ended = trio.Event()
            agent.connection.when_ended(ended.set)
            os.kill(transport.pid, signal.SIGKILL)
            await ended.wait()
            with pytest.raises(acp.AgentProcessError, match="ended with signal SIGKILL"):
                await agent.connection.notify(CANCEL, CancelNotification(session_id=SessionId("s")))


@pytest.mark.field_note(11, 16, 18, 56)
@pytest.mark.spec("TRANS-12")
@pytest.mark.parametrize(
    "end",
    [Conversation.is_left, Conversation.fails, Conversation.is_cancelled, Conversation.loses_its_agent],
    ids=lambda end: end.__name__,
)
async def test_however_a_conversation_ends_nothing_of_a_bad_agent_is_left(
    end: Callable[[Conversation], Awaitable[None]],
) -> None:
    async def hold(habits: str, wrapped: bool) -> None:
        tag = uuid.uuid4().hex
        try:
            with trio.fail_after(10):
                await end(Conversation(habits.split(","), wrapped, tag))
            assert alive(tag) == [], habits
        finally:
            kill_all(tag)

    async with nothing_left(), trio.open_nursery() as nursery:
        for habits in HABITS:
            for wrapped in (False, True):
                nursery.start_soon(hold, habits, wrapped)
