"""``python -m tests.bench.profile``: where the time of one streamed update goes, on either side.

Each stage is run alone, many times over, in this process; the least time counts. Stages below a sum are parts of it.
What they leave of a row of the benchmark is the kernel's and the scheduler's: system calls, copies, turns of the loop.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Final

import attrs
import orjson
import trio

from acp_ref import _jsonrpc as jsonrpc
from acp_ref._converter import structure_hook, unstructure_hook
from acp_ref._framing import Frame, FrameBuffer
from acp_ref._state import ConnectionState
from acp_ref.agent import Agent
from acp_ref.client_side import ClientSide
from acp_ref.client_turn import ClientTurn
from acp_ref.methods import SESSION_UPDATE
from acp_ref.prompt_turn import PromptTurn
from acp_ref.roots import Roots
from acp_ref.schema import AgentMessageChunk, SessionId, SessionNotification, SessionUpdate, StopReason, TextContent
from acp_ref.session_state import SessionState
from acp_ref.testing import open_agent_and_client
from acp_ref.transports import memory_transport_pair
from tests.bench.programs.script import CWD, TEXT
from tests.conversations import make_client

COUNT: Final = 20_000
ROUNDS: Final = 15
CHUNK: Final = 64 * 1024
"""Bytes of one read."""

ID: Final = SessionId("sess_0123456789abcdef0123456789abcdef")


@attrs.define
class Profile:
    """Prints stages as they are measured."""

    _fresh: Callable[[], object]
    """Puts the side in its first state before each round."""
    _empty: float = 0.0

    def __attrs_post_init__(self) -> None:
        self._empty = self._least(_nothing)

    def _least(self, stage: Callable[[], object]) -> float:
        least = float("inf")
        for _ in range(ROUNDS):
            self._fresh()
            gc.collect()
            before = time.perf_counter()
            stage()
            least = min(least, time.perf_counter() - before)
        return least

    def stage(self, what: str, stage: Callable[[], object]) -> None:
        """Measure what handles ``COUNT`` updates in a call."""
        say(what, self._least(stage) - self._empty)

    def each(self, what: str, call: Callable[[], object]) -> None:
        """Measure what handles one update in a call."""

        def stage() -> None:
            for _ in range(COUNT):
                call()

        self.stage(what, stage)


def _nothing() -> None:
    for _ in range(COUNT):
        pass


def say(what: str, seconds: float) -> None:
    print(f"  {seconds / COUNT * 1e6:6.2f}  {what}", flush=True)


# ---------------------------------------------------------------------------------------------------------- the client


def profile_client() -> None:
    """The client side: from the bytes of a read to an update in the hands of the application."""
    update = AgentMessageChunk(content=TextContent(text=TEXT))
    params = unstructure_hook(SESSION_UPDATE.params)(SessionNotification(session_id=ID, update=update))
    frame = jsonrpc.encode_notification(SESSION_UPDATE.name, params)
    frames: list[Frame] = [bytes(memoryview(frame)) for _ in range(COUNT)]
    stream = b"".join([frame + b"\n"] * COUNT)
    ours, _ = memory_transport_pair()
    side = ClientSide(make_client(), ours)
    connection = side.connection
    connection.state = ConnectionState.READY
    session = side._register(ID, Roots(CWD, ()))
    notification = SessionNotification(session_id=ID, update=update)

    def fresh() -> None:
        session.state = SessionState()
        session._turn = ClientTurn(session)

    def split() -> None:
        buffer = FrameBuffer()
        for start in range(0, len(stream), CHUNK):
            buffer.feed(stream[start : start + CHUNK])

    profile = Profile(fresh)
    loads, read = orjson.loads, structure_hook(SESSION_UPDATE.params)
    print(f"Client, microseconds for an update of {len(frame)} bytes")
    profile.stage("bytes of a read to frames", split)
    profile.stage("frames to the session: the reader's work, all of it", lambda: connection._handle_all(frames))
    profile.each("  JSON to values (orjson)", lambda: loads(frame))
    profile.each("  the same and the envelope", lambda: jsonrpc.decode(frame))
    profile.each("  values to typed objects, checked (cattrs)", lambda: read(params))
    profile.each("  to its session, all of it", lambda: side._updates.receive(connection, notification))
    profile.each("    the session's state", lambda: session.state.apply(update))
    _profile_taking(session._turn, update)


def _profile_taking(turn: ClientTurn | None, update: SessionUpdate) -> None:
    assert turn is not None
    turn._over = True

    async def take() -> float:
        least = float("inf")
        for _ in range(ROUNDS):
            turn._updates.extend([update] * COUNT)
            before = time.perf_counter()
            async for _ in turn:
                pass
            least = min(least, time.perf_counter() - before)
        return least

    say("to the application: async for", trio.run(take))


# ----------------------------------------------------------------------------------------------------------- the agent


def profile_agent() -> None:
    """The agent side: from the values of an update to the bytes in the outbox."""
    print("Agent, microseconds for an update of the same text")
    write = unstructure_hook(SessionUpdate)
    update = AgentMessageChunk(content=TextContent(text=TEXT))
    value = write(update)
    profile = Profile(lambda: None)
    profile.each("the typed objects themselves", lambda: AgentMessageChunk(content=TextContent(text=TEXT)))
    trio.run(_profile_turn, profile, write, update, value)


async def _profile_turn(
    profile: Profile, write: Callable[[SessionUpdate], object], update: SessionUpdate, value: object
) -> None:
    async def measure(turn: PromptTurn) -> StopReason:
        outbox, dumps = turn.session.connection._outbox, orjson.dumps
        outbox.close()  # takes nothing: what it costs to write is the kernel's

        async def timed(send: Callable[[SessionUpdate], Awaitable[None]]) -> float:
            least = float("inf")
            for _ in range(ROUNDS):
                before = time.perf_counter()
                for _ in range(COUNT):
                    await send(update)
                least = min(least, time.perf_counter() - before)
            return least

        say("turn.send: to the outbox, all of it", await timed(turn.send))
        say("  session.send", await timed(turn.session.send))
        profile.each("    without the wait for room", lambda: turn.session.put(update))
        profile.each("      typed objects to values, checked (cattrs)", lambda: write(update))
        profile.each("      values to JSON (orjson)", lambda: dumps(value))
        turn.session.connection._outbox._closed = False
        return StopReason.END_TURN

    agent = Agent(name="profile", version="1", prompt=measure)
    async with open_agent_and_client(agent, make_client()) as (_, client), client.new_session(CWD) as session:
        async with session.prompt("go") as turn:
            await turn.wait()


def main() -> int:
    """Print both profiles."""
    profile_client()
    profile_agent()
    return 0


if __name__ == "__main__":
    sys.exit(main())
