"""A client and its bad agents: whatever ends the conversation, and whoever is killed, no process of the agent is left.

The agents are in this process's care here; in the second half the client is a process of its own, to be signalled.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
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
from tests.faults.raw_client import AGENT, NASTY, ROOT
from tests.faults.system import alive, kill_all, nothing_left, soon, until

FAULTY: Final = str(ROOT / "tests" / "faults" / "faulty_agent.py")

CLIENT: Final = str(ROOT / "tests" / "faults" / "client_program.py")

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


async def wait_for_its_start(habits: Sequence[str], tag: str, wrapped: bool) -> None:
    async with open_agent_transport(
        faulty(habits, tag, wrapped=wrapped), stdin_grace=GRACE, term_grace=GRACE
    ) as transport:
        if "mute" in habits:
            await until(lambda: len(alive(tag)) > ("parent" in habits) + wrapped)
        with trio.fail_after(0.2 if "mute" in habits else 5):
            async with acp.open_agent(transport, make_client()):
                pass


@pytest.mark.field_note(10, 18)
async def test_an_agent_that_does_not_get_going_is_given_up_with_all_its_children() -> None:
    async def start(habits: Sequence[str], wrapped: bool) -> None:
        tag = uuid.uuid4().hex
        try:
            with pytest.raises(trio.TooSlowError if "mute" in habits else acp.AgentProcessError):
                await wait_for_its_start(habits, tag, wrapped)
            assert alive(tag) == [], habits
        finally:
            kill_all(tag)

    async with nothing_left(), trio.open_nursery() as nursery:
        for habits in ("mute", "mute,deaf", "mute,stubborn,parent", "mute,loud", "exit", "exit,parent,stubborn"):
            for wrapped in (False, True):
                nursery.start_soon(start, habits.split(","), wrapped)


# ------------------------------------------------------------------------------------------- the client as a process


@attrs.frozen
class Program:
    """A client that is a process, and how it ends."""

    signals: Sequence[signal.Signals]
    habits: str
    """Those of its agent; of its agent's MCP servers, separated by commas, when it begins with ``servers:``."""
    reference: bool = False
    """Whether it is ``acp-ref client``, and not just a program that uses the library."""

    def agent(self, tag: str) -> list[str]:
        """The command of its agent."""
        if self.servers(tag):
            return [*AGENT, "--sessions", f"/nonexistent/{tag}", "--mcp-timeout", "2"]
        return faulty(self.habits.split(","), tag, wrapped=True)

    def servers(self, tag: str) -> list[list[str]]:
        """The commands of its agent's MCP servers."""
        kind, _, habits = self.habits.partition(":")
        return [[sys.executable, "-I", "-S", NASTY, habit, tag] for habit in habits.split(",") if kind == "servers"]

    def command(self, tag: str) -> list[str]:
        """What starts it."""
        if self.reference:
            return [sys.executable, "-m", "acp_ref", "client", "--cwd", "/", "--", *self.agent(tag)]
        return [sys.executable, CLIENT, json.dumps(self.agent(tag)), json.dumps(self.servers(tag))]

    async def run(self, few_at_once: trio.Semaphore) -> None:
        """Start it, end it when it has got going, and look for what is left."""
        tag = uuid.uuid4().hex
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        async with few_at_once:
            process = await trio.lowlevel.open_process(
                self.command(tag), stdin=pipe, stdout=pipe, stderr=null, cwd=ROOT
            )
            assert process.stdin is not None
            assert process.stdout is not None
            await process.stdout.receive_some()
        try:
            async with process.stdin, process.stdout:
                with trio.fail_after(15):
                    for signum in self.signals:
                        os.kill(process.pid, signum)
                        await trio.sleep(0.3)
                    await process.wait()
            assert soon(lambda: alive(tag), within=10) == [], self
        finally:
            kill_all(tag)


OURS: Final = ("stubborn", "loud,junk,deaf", "flood,parent,stubborn", "servers:ok,clinging,stubborn parent")
"""Agents that are gone when the client has had the time to end them."""

THEIRS: Final = ("loud,junk,flood", "servers:ok,stubborn,parent")
"""Agents that go when their stdin ends, and see to their own children."""


@pytest.mark.field_note(11, 18)
async def test_whatever_ends_a_client_nothing_of_its_agents_is_left() -> None:
    """Only a client that is killed, or knows no SIGTERM, cannot end agents that do not listen."""
    interrupt, terminate, hang_up, kill = signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL
    programs = [
        *(Program([interrupt], habits) for habits in OURS),
        Program([interrupt, interrupt], "flood,parent,stubborn"),
        *(Program([kill], habits) for habits in THEIRS),
        Program([terminate], "none"),
        Program([terminate], "flood,parent,stubborn", reference=True),
        *(Program([end], "stubborn", reference=True) for end in (interrupt, hang_up)),
    ]
    few_at_once = trio.Semaphore(3)
    async with nothing_left(), trio.open_nursery() as nursery:
        for program in programs:
            nursery.start_soon(program.run, few_at_once)
