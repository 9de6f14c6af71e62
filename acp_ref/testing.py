"""For tests: two ends joined in memory, and a peer that says exactly what the test says.

In the manner of ``trio.testing``: nothing here sleeps or starts a process, so tests are quick and deterministic, also
under a ``MockClock``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar, final

import trio
import trio.testing

from acp_ref._framing import Frame
from acp_ref._jsonrpc import JSON, JSONObject, dumps_checked, loads
from acp_ref.agent import Agent, AgentSide
from acp_ref.client import Client
from acp_ref.client_side import ClientSide
from acp_ref.connection import Connection, open_connection
from acp_ref.handlers import Handlers
from acp_ref.methods import Role
from acp_ref.reports import Report, log_report
from acp_ref.transports import MemoryTransport, memory_transport_pair

__all__ = [
    "ScriptedPeer",
    "open_agent_and_client",
    "open_scripted_agent",
    "open_scripted_client",
    "open_scripted_peer",
]

S = TypeVar("S")


@final
class ScriptedPeer:
    """A peer made of plain JSON, for what no well-behaved implementation would say.

    It is one end of a :func:`memory_transport_pair`; the implementation under test is at the other.
    """

    def __init__(self, transport: MemoryTransport) -> None:
        self._transport = transport
        self._received: deque[JSON] = deque()
        self._ended = False

    async def send(self, *messages: object) -> None:
        """Send messages, all in one piece. Raises ValueError when one is not JSON; see :meth:`send_frame` for those."""
        await self._transport.send([dumps_checked(message) for message in messages])

    async def send_frame(self, *frames: bytes) -> None:
        """Send frames as they are, all in one piece."""
        await self._transport.send(frames)

    async def request(self, request_id: object, method: str, params: object = None) -> None:
        """Send a request; its answer is for :meth:`receive`."""
        params = {} if params is None else params
        await self.send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})

    async def notify(self, method: str, params: object = None) -> None:
        """Send a notification."""
        await self.send({"jsonrpc": "2.0", "method": method, "params": {} if params is None else params})

    async def answer(self, request: JSONObject, result: object) -> None:
        """Answer a request that was received."""
        await self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    async def receive(self) -> JSONObject:
        """The next message of the other side.

        Raises:
          trio.EndOfChannel: the other side closed the connection.
        """
        while not self._received:
            if self._ended:
                raise trio.EndOfChannel
            self._take(await self._transport.receive())
        message = self._received.popleft()
        assert isinstance(message, dict)
        return message

    async def call(self, request_id: object, method: str, params: object = None) -> JSONObject:
        """Send a request and return the next message, which is its answer unless the other side says more."""
        await self.request(request_id, method, params)
        return await self.receive()

    async def receive_all(self) -> list[JSONObject]:
        """Everything the other side has said once nothing more happens by itself; perhaps nothing."""
        await trio.testing.wait_all_tasks_blocked()
        messages: list[JSONObject] = []
        while True:
            if not self._received and not self._ended:
                try:
                    self._take(self._transport.receive_nowait())
                except trio.WouldBlock:
                    return messages
            if not self._received:
                return messages
            messages.append(await self.receive())

    def _take(self, frames: Sequence[Frame]) -> None:
        self._ended = self._ended or not frames
        for frame in frames:
            assert isinstance(frame, bytes)
            self._received.append(loads(frame))

    def close_send(self) -> None:
        """End of input for the other side; it can still answer."""
        self._transport.close_send()

    async def aclose(self) -> None:
        """Close both directions."""
        await self._transport.aclose()


@asynccontextmanager
async def open_scripted_peer(
    role: Role, handlers: Handlers, *, on_report: Callable[[Report], None] = log_report, drain_timeout: float = 0.0
) -> AsyncGenerator[tuple[Connection, ScriptedPeer], None]:
    """A connection in ``role``, and the scripted peer at its other end."""
    ours, theirs = memory_transport_pair()
    connection = Connection(ours, role, handlers, on_report=on_report, drain_timeout=drain_timeout)
    async with open_connection(connection):
        yield connection, ScriptedPeer(theirs)


@asynccontextmanager
async def open_scripted_client(
    agent: Agent[S], *, on_report: Callable[[Report], None] = log_report, strict: bool = False
) -> AsyncGenerator[ScriptedPeer, None]:
    """``agent``, served to a client that says what the test says."""
    ours, theirs = memory_transport_pair()
    async with open_connection(AgentSide(agent, ours, on_report=on_report, strict=strict).connection):
        yield ScriptedPeer(theirs)


@asynccontextmanager
async def open_scripted_agent(
    client: Client, *, on_report: Callable[[Report], None] = log_report, agent_capabilities: JSON = None
) -> AsyncGenerator[tuple[ClientSide, ScriptedPeer], None]:
    """``client``, initialized by an agent that says what the test says.

    Args:
      agent_capabilities: what the agent announces, in wire form.
    """
    ours, theirs = memory_transport_pair()
    peer = ScriptedPeer(theirs)
    side = ClientSide(client, ours, on_report=on_report)
    async with open_connection(side.connection):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(side.initialize)
            request = await peer.receive()
            await peer.answer(request, {"protocolVersion": 1, "agentCapabilities": agent_capabilities or {}})
        yield side, peer


@asynccontextmanager
async def open_agent_and_client(
    agent: Agent[S], client: Client, *, on_report: Callable[[Report], None] = log_report
) -> AsyncGenerator[tuple[AgentSide[S], ClientSide], None]:
    """``agent`` and ``client`` joined in memory, and initialized."""
    agent_end, client_end = memory_transport_pair()
    agent_side = AgentSide(agent, agent_end, on_report=on_report)
    client_side = ClientSide(client, client_end, on_report=on_report)
    async with open_connection(agent_side.connection), open_connection(client_side.connection):
        await client_side.initialize()
        yield agent_side, client_side
