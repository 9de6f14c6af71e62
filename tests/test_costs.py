"""What a message costs, in what can be counted: tasks, turns of the scheduler, writes, passes over its text, copies.

Times are for ``python -m tests.bench``. Counts are the same on every machine, so what they hold stays.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from types import FrameType
from typing import Final

import attrs
import orjson
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from acp_ref._fd_stream import FrameStream, PolledReader, PolledWriter
from acp_ref._framing import DEFAULT_MAX_FRAME_BYTES, Frame
from acp_ref._outbox import DEFAULT_HIGH_WATER
from acp_ref.agent import Agent, AgentSide
from acp_ref.client_session import ClientSession
from acp_ref.client_side import ClientSide
from acp_ref.connection import Connection, open_connection
from acp_ref.prompt_turn import PromptTurn
from acp_ref.schema import (
    AgentMessageChunk,
    SessionMode,
    SessionModeId,
    SessionModeState,
    StopReason,
    TextContent,
    ToolCallStatus,
)
from acp_ref.session_state import Message
from acp_ref.session_store import MemoryStore
from acp_ref.testing import ScriptedPeer, open_agent_and_client
from acp_ref.timeline import ToolCallState
from acp_ref.transports import Transport, memory_transport_pair
from tests.bench.place import ROOT
from tests.bench.work import run
from tests.conversations import CWD, client_of, make_client, new_session, prompt

CHUNK: Final = AgentMessageChunk(content=TextContent(text="The quick brown fox jumps over the lazy dog."))
BURST: Final = 400
"""Updates in a row: with this text, a little more than the outbox takes before its sender waits."""

MODE: Final = SessionModeId("a")


async def answer(turn: PromptTurn) -> StopReason:
    """Do what the prompt says: so many chunks, or so many updates of one tool call."""
    match turn.text.split():
        case ["chunks", count]:
            for _ in range(int(count)):
                await turn.send(CHUNK)
        case ["calls", count]:
            async with turn.tool_call("Search") as call:
                for number in range(int(count)):
                    await call.update(title=f"Found {number}")
    return StopReason.END_TURN


def served() -> Agent:
    modes = SessionModeState(current_mode_id=MODE, available_modes=[SessionMode(id=MODE, name="A")])
    return Agent(name="a", version="1", prompt=answer, modes=modes, store=MemoryStore())


@asynccontextmanager
async def conversation() -> AsyncGenerator[tuple[Connection, ClientSession], None]:
    """A session of our client with our agent, and the agent's connection."""
    async with open_agent_and_client(served(), make_client()) as (agent, client), client.new_session(CWD) as session:
        yield agent.connection, session


async def take(session: ClientSession, text: str) -> int:
    """Prompt; how many updates came."""
    seen = 0
    async with session.prompt(text) as turn:
        async for _update in turn:
            seen += 1
    return seen


# ------------------------------------------------------------------------------------------------------ counting


@attrs.define(eq=False)
class Steps(trio.abc.Instrument):
    """What the scheduler does."""

    spawned: int = 0
    """Tasks that were started."""
    steps: int = 0
    """How often a task was run until it next gave way."""
    turns: int = 0
    """Turns of the scheduler: each runs every task that is ready."""

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        self.spawned += 1

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.steps += 1

    def after_io_wait(self, timeout: float) -> None:
        self.turns += 1


@contextmanager
def counted_steps() -> Generator[Steps]:
    steps = Steps()
    trio.lowlevel.add_instrument(steps)
    try:
        yield steps
    finally:
        trio.lowlevel.remove_instrument(steps)


@contextmanager
def counted_calls(*functions: Callable[..., object]) -> Generator[Counter[Callable[..., object]]]:
    """How often each of these functions of C is called, by anybody in this thread."""
    counts: Counter[Callable[..., object]] = Counter()

    def look(frame: FrameType, event: str, called: object) -> None:
        if event == "c_call":
            for function in functions:
                if called is function:
                    counts[function] += 1

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        yield counts
    finally:
        sys.setprofile(before)


async def steps_of(session: ClientSession, text: str) -> Steps:
    with counted_steps() as steps:
        await take(session, text)
    return steps


# --------------------------------------------------------------------------------------------------- tasks and turns


async def test_an_update_takes_no_task_on_either_side() -> None:
    async with conversation() as (_, session):
        one, many = [await steps_of(session, f"chunks {count}") for count in (1, 1_000)]
        assert many.spawned == one.spawned


async def test_an_update_takes_no_turn_of_the_scheduler_on_either_side() -> None:
    async with conversation() as (_, session):
        none, burst, many = [await steps_of(session, f"chunks {count}") for count in (0, BURST, 20 * BURST)]
        # Once in a burst the outbox is full: then the agent waits, and writer, reader and application have their turns.
        assert burst.steps <= none.steps + 2 * 8
        assert many.steps <= none.steps + 21 * 8


async def test_a_notification_to_the_agent_takes_no_task_either() -> None:
    async with client_of(served()) as peer:
        session_id = await new_session(peer)
        with counted_steps() as steps:
            for _ in range(100):
                await peer.notify("session/cancel", {"sessionId": session_id})
            assert await peer.receive_all() == []
        assert steps.spawned == 0


async def test_a_request_takes_one_task_at_most() -> None:
    async with conversation() as (_, session):
        await session.set_mode(MODE)
        with counted_steps() as steps:
            for _ in range(50):
                await session.set_mode(MODE)
        assert steps.spawned <= 50
        # The caller and two readers, and perhaps that task: no writer, for both frames leave where they were made.
        assert steps.steps <= 50 * 5


# ------------------------------------------------------------------------------------------------------------ writes


@asynccontextmanager
async def piped() -> AsyncGenerator[tuple[AgentSide, ClientSession], None]:
    """The same conversation through real pipes."""
    to_agent, from_client = os.pipe()
    to_client, from_agent = os.pipe()
    for fd in (from_client, from_agent):
        os.set_blocking(fd, False)
    agent_end = FrameStream(PolledReader(to_agent), PolledWriter(from_agent), DEFAULT_MAX_FRAME_BYTES)
    client_end = FrameStream(PolledReader(to_client), PolledWriter(from_client), DEFAULT_MAX_FRAME_BYTES)
    agent = AgentSide(served(), agent_end)
    client = ClientSide(make_client(), client_end)
    async with open_connection(agent.connection), open_connection(client.connection):
        await client.initialize()
        async with client.new_session(CWD) as session:
            yield agent, session


async def test_a_burst_of_updates_takes_few_writes() -> None:
    async with conversation() as (connection, session):
        before = connection.statistics()
        assert await take(session, f"chunks {BURST}") == BURST
        after = connection.statistics()
        assert after.frames_sent - before.frames_sent == BURST + 1
        assert after.writes - before.writes <= 3  # up to the bound of the outbox, the rest, the answer


async def test_updates_take_as_few_system_calls_as_a_pipe_allows() -> None:
    count = 20 * BURST
    async with piped() as (agent, session):
        before = agent.connection.statistics().frames_sent
        with counted_calls(os.write, os.read) as calls:
            assert await take(session, f"chunks {count}") == count
        assert agent.connection.statistics().frames_sent - before == count + 1
        # A pipe holds 64 KiB, some 400 updates. Writer and reader are in step at worst twice for each filling.
        assert calls[os.write] <= 20 * 4
        assert calls[os.read] <= 20 * 4


# -------------------------------------------------------------------------------------------------- passes and copies


async def test_an_update_is_encoded_once_and_decoded_once_also_when_it_is_stored() -> None:
    async with conversation() as (_, session):
        passes = []
        for count in (1, 1 + BURST):
            with counted_calls(orjson.dumps, orjson.loads) as calls:
                await take(session, f"chunks {count}")
            passes.append(calls)
        one, more = passes
        assert more[orjson.dumps] - one[orjson.dumps] == BURST
        assert more[orjson.loads] - one[orjson.loads] == BURST


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
@pytest.mark.parametrize("task", ["prompt", "large"])
@pytest.mark.parametrize("client", ["raw_client", "ours_client"])
def test_a_large_message_is_in_memory_a_few_times_at_most(client: str, task: str) -> None:
    size = 16 * 1024 * 1024
    agent = "ours_agent" if client == "raw_client" else "raw_agent"
    program = [sys.executable, "-m", "tests.bench.programs."]
    command = [*program[:-1], program[-1] + client, task, str(size), "--", *program[:-1], program[-1] + agent]
    figures = run(command, os.environ, str(ROOT))
    # What is said or heard, its frame, and what is written or has been read of it.
    assert (figures["peak_mib"] - figures["before_mib"]) * 1024 * 1024 <= 5 * size


# ----------------------------------------------------------------------------------------- latency and back-pressure


@attrs.define
class Noted(Transport):
    """A transport that notes in which turn of the scheduler it is given what."""

    inner: Transport
    steps: Steps
    sent: list[tuple[int, int]] = attrs.field(factory=list[tuple[int, int]])
    """Turn, frames."""

    async def receive(self) -> Sequence[Frame]:
        return await self.inner.receive()

    async def send(self, frames: Sequence[bytes]) -> None:
        self.sent.append((self.steps.turns, len(frames)))
        await self.inner.send(frames)

    async def aclose(self) -> None:
        await self.inner.aclose()


async def test_an_update_alone_leaves_at_the_next_turn_of_the_scheduler() -> None:
    said: list[int] = []

    async def slowly(turn: PromptTurn) -> StopReason:
        for _ in range(5):
            await wait_all_tasks_blocked()
            said.append(steps.turns)
            await turn.send(CHUNK)
        await wait_all_tasks_blocked()
        return StopReason.END_TURN

    ours, theirs = memory_transport_pair()
    with counted_steps() as steps:
        transport = Noted(ours, steps)
        async with open_connection(AgentSide(Agent(name="a", version="1", prompt=slowly), transport).connection):
            peer = ScriptedPeer(theirs)
            await peer.call(0, "initialize", {"protocolVersion": 1})
            session_id = await new_session(peer)
            transport.sent.clear()
            await peer.request(1, "session/prompt", prompt(session_id, "go"))
            for _ in range(6):
                await peer.receive()
    assert [frames for _, frames in transport.sent] == [1] * 6
    delays = [turn - before for before, (turn, _) in zip(said, transport.sent, strict=False)]
    assert max(delays) <= 1


async def test_a_client_that_does_not_read_stops_the_agent_that_streams() -> None:
    sent = 0

    async def stream(turn: PromptTurn) -> StopReason:
        nonlocal sent
        for _ in range(20 * BURST):
            await turn.send(CHUNK)
            sent += 1
        return StopReason.END_TURN

    ours, theirs = memory_transport_pair(buffer=0)
    side = AgentSide(Agent(name="a", version="1", prompt=stream), ours, drain_timeout=0)
    async with open_connection(side.connection):
        peer = ScriptedPeer(theirs)
        await peer.call(0, "initialize", {"protocolVersion": 1})
        session_id = await new_session(peer)
        await peer.request(1, "session/prompt", prompt(session_id, "go"))
        await wait_all_tasks_blocked()
        stopped = sent
        # One batch is being written while the next one gathers.
        frame = len(orjson.dumps(await peer.receive()))
        assert (stopped - 1) * frame <= 2 * (DEFAULT_HIGH_WATER + frame)
        await wait_all_tasks_blocked()
        assert stopped < sent <= stopped + 2 * BURST  # and goes on as far as it is read
        await peer.aclose()


# -------------------------------------------------------------------------------------------------------- linear cost


async def seconds_of(text: str, updates: int, times: int) -> float:
    """The least CPU seconds that a turn takes, in a session of its own, read by the application in the end."""
    least = float("inf")
    for _ in range(times):
        async with conversation() as (_, session):
            before = time.process_time()
            assert await take(session, text) >= updates
            entry = session.state.timeline[-1]
            assert isinstance(entry, ToolCallState | Message)
            least = min(least, time.process_time() - before)
            if isinstance(entry, ToolCallState):
                assert entry.title == f"Found {updates - 1}"
                assert entry.status is ToolCallStatus.COMPLETED
            else:
                assert len(entry.text) == updates * 44
    return least


@pytest.mark.parametrize(("what", "many"), [("chunks", 20_000), ("calls", 5_000)])
async def test_the_cost_of_an_update_does_not_grow_with_what_came_before(what: str, many: int) -> None:
    few = many // 20
    base = await seconds_of(f"{what} {few}", few, times=5)
    # Twenty times as much is twenty times as dear; were each update to look at all before it, 400 times.
    assert await seconds_of(f"{what} {many}", many, times=2) <= 2 * 20 * base
