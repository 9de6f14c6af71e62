"""Transports.

https://agentclientprotocol.com/protocol/transports

A transport knows where a message begins and ends, and nothing else; all rules of the protocol are the connection's
(TRANS-15). :mod:`acp_ref.stdio` is the agent's own stdin and stdout, :mod:`acp_ref.agent_process` the other end of them
at the client, and :func:`memory_transport_pair` joins two connections of one program.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol, final, runtime_checkable

import trio

from acp_ref._framing import Frame

__all__ = ["EagerTransport", "MemoryTransport", "Transport", "memory_transport_pair"]


class Transport(Protocol):
    """A two-way channel of whole messages (TRANS-14). Any object with these three methods is one.

    Say in the documentation of your own how it is set up and how a message is delimited (TRANS-16).
    """

    async def receive(self) -> Sequence[Frame]:
        """Wait for the next messages. An empty sequence is the end of input.

        Raises:
          trio.BrokenResourceError: the other side is gone in a way that deserves a reason; the text gives it.
          trio.ClosedResourceError: this side closed the transport.
        """
        ...

    async def send(self, frames: Sequence[bytes]) -> None:
        """Write whole messages, in order. Called by one task only.

        Raises:
          trio.BrokenResourceError: nobody reads any more.
          trio.ClosedResourceError: this side closed the transport.
        """
        ...

    async def aclose(self) -> None:
        """Close both directions. Idempotent; closes even when it is cancelled."""
        ...


@runtime_checkable
class EagerTransport(Transport, Protocol):
    """A transport that may also be tried without waiting, which saves a request the wait for the writer's turn."""

    def send_now(self, frames: Sequence[bytes]) -> bool:
        """Write whole messages if that needs no wait, and say whether it is done.

        Never called while :meth:`send` runs. When it is not done, ``frames`` are given again, first to be written, to
        ``send`` or to this. It raises nothing: what is wrong is for ``send`` to say.
        """
        ...


@final
class MemoryTransport:
    """One end of :func:`memory_transport_pair`."""

    def __init__(
        self, outgoing: trio.MemorySendChannel[Sequence[bytes]], incoming: trio.MemoryReceiveChannel[Sequence[bytes]]
    ) -> None:
        self._outgoing = outgoing
        self._incoming = incoming

    async def receive(self) -> Sequence[Frame]:
        """The messages of one ``send`` of the other end; empty once that is closed."""
        try:
            return await self._incoming.receive()
        except trio.EndOfChannel:
            return ()

    def receive_nowait(self) -> Sequence[Frame]:
        """Like :meth:`receive`, but raises trio.WouldBlock when nothing is there."""
        try:
            return self._incoming.receive_nowait()
        except trio.EndOfChannel:
            return ()

    async def send(self, frames: Sequence[bytes]) -> None:
        """Hand ``frames`` to the other end."""
        await self._outgoing.send(frames)

    def send_now(self, frames: Sequence[bytes]) -> bool:
        """Hand ``frames`` to the other end if it has room for them."""
        try:
            self._outgoing.send_nowait(frames)
        except (trio.WouldBlock, trio.BrokenResourceError, trio.ClosedResourceError):
            return False
        return True

    def close_send(self) -> None:
        """Close only the outgoing direction: the other end sees the end of input and can still answer."""
        self._outgoing.close()

    async def aclose(self) -> None:
        """Close both directions."""
        self._outgoing.close()
        self._incoming.close()
        await trio.lowlevel.checkpoint()


def memory_transport_pair(buffer: float = math.inf) -> tuple[MemoryTransport, MemoryTransport]:
    """Two transports joined in memory. A message is what was given to one ``send``, without any delimiter.

    Args:
      buffer: how many sends may wait unread before a further one waits; 0 shows back-pressure at once.
    """
    to_right, from_left = trio.open_memory_channel[Sequence[bytes]](buffer)
    to_left, from_right = trio.open_memory_channel[Sequence[bytes]](buffer)
    return MemoryTransport(to_right, from_right), MemoryTransport(to_left, from_left)
