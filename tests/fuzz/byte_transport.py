"""A transport of bytes in memory: what is fed is cut into frames as bytes from a pipe are, however it was chunked."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import final

import trio

from acp_ref._framing import DEFAULT_MAX_FRAME_BYTES, Frame, FrameBuffer

__all__ = ["ByteTransport", "byte_transport_pair", "chunked"]


@final
class ByteTransport:
    """One end; the test, or another end, feeds it and looks at what was sent."""

    def __init__(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        self.sent: list[bytes] = []
        self.closed = False
        self.on_send: Callable[[Sequence[bytes]], None] | None = None
        self._buffer = FrameBuffer(max_frame_bytes)
        self._chunks: deque[bytes] = deque()
        self._ended = False
        self._news = trio.lowlevel.ParkingLot()
        self._sent_more = trio.lowlevel.ParkingLot()

    def feed(self, *chunks: bytes) -> None:
        """Bytes arrive."""
        self._chunks.extend(chunks)
        self._news.unpark_all()

    def end(self) -> None:
        """The input ends."""
        self._ended = True
        self._news.unpark_all()

    async def receive(self) -> Sequence[Frame]:
        """The frames that one chunk completes. Like a read of what is there already, it does not always yield."""
        await trio.lowlevel.checkpoint_if_cancelled()
        while True:
            while self._chunks:
                if frames := self._buffer.feed(self._chunks.popleft()):
                    return frames
            if self.closed:
                raise trio.ClosedResourceError("this side closed the transport")
            if self._ended:
                return self._buffer.end()
            await self._news.park()

    async def send(self, frames: Sequence[bytes]) -> None:
        """Note ``frames`` and pass them on."""
        await trio.lowlevel.checkpoint()
        if self.closed:
            raise trio.ClosedResourceError("this side closed the transport")
        self.sent += frames
        if self.on_send is not None:
            self.on_send(frames)
        self._sent_more.unpark_all()

    async def aclose(self) -> None:
        """Close both directions."""
        self.closed = True
        self._news.unpark_all()
        self._sent_more.unpark_all()
        await trio.lowlevel.checkpoint()

    async def wait_sent(self, is_wanted: Callable[[bytes], bool]) -> bytes | None:
        """The first frame sent that ``is_wanted``; None when the transport is closed before."""
        seen = 0
        while True:
            for frame in self.sent[seen:]:
                seen += 1
                if is_wanted(frame):
                    return frame
            if self.closed:
                return None
            await self._sent_more.park()


def chunked(rng: Random, data: bytes) -> list[bytes]:
    """``data`` in pieces: all at once, of one size, byte by byte, or anyhow."""
    size = rng.choice([len(data) or 1, 1, 7, 64, 1024, 0])
    if size == 1 and len(data) > 4000:
        size = 13
    pieces: list[bytes] = []
    at = 0
    while at < len(data):
        step = size or rng.randrange(1, 200)
        pieces.append(data[at : at + step])
        at += step
    return pieces


def byte_transport_pair(rng: Random, nursery: trio.Nursery) -> tuple[ByteTransport, ByteTransport]:
    """Two ends joined; what one sends arrives at the other in chunks of any size, at once or some time later.

    ``nursery`` carries it: cancel that in the end.
    """
    one, other = ByteTransport(), ByteTransport()
    for near, far in ((one, other), (other, one)):
        to_carry, carried = trio.open_memory_channel[bytes](float("inf"))
        near.on_send = lambda frames, to_carry=to_carry: to_carry.send_nowait(b"\n".join([*frames, b""]))
        nursery.start_soon(_carry, rng, carried, far)
    return one, other


async def _carry(rng: Random, carried: trio.MemoryReceiveChannel[bytes], far: ByteTransport) -> None:
    async for data in carried:
        await trio.sleep(rng.choice([0, 0, 0, 0.1, 1]))
        far.feed(*chunked(rng, data))
