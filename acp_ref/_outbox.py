"""What one side has to say, in the order it was said: whole frames, one task that writes them.

A frame goes into the outbox in one step that cannot be interrupted, and from there only the writer touches it. So
whoever is cancelled, a frame is on the wire whole or not at all. The outbox is bounded by bytes: below the bound
:meth:`Outbox.wait_for_room` does not yield, and at or above it whoever sends waits there *before* the frame is put in.
:meth:`Outbox.put` never waits; alone it is for answers, whose number the peer decides.

The writer sleeps while there is nothing to write, is woken by the first frame, and takes everything that has gathered
by the time it runs: one frame alone leaves at the next turn of the scheduler, a burst leaves in few writes. While one
batch is being written the next one gathers, so at most twice the bound waits in memory.

Whoever asks or answers has the other side waiting, so such a frame need not wait for the writer's turn: where the
transport can, :meth:`Outbox.put_urgent` writes it at once, behind what is queued. That happens once for each time that
we heard from the peer (:meth:`Outbox.allow_urgent`), so a burst of requests or of answers takes few writes as well.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import trio

__all__ = ["DEFAULT_HIGH_WATER", "Outbox"]

DEFAULT_HIGH_WATER: Final = 64 * 1024
"""64 KiB, what a pipe holds by default: with more gathered here the peer would only wait longer for the first byte."""

URGENT_BYTES: Final = 4096
"""Beyond 4 KiB a system call may take as long as the turn of the scheduler that it saves, or write only a part."""


class Outbox:
    """Frames on their way to the transport; see the module."""

    frames_sent: int
    writes: int
    queued_bytes: int

    def __init__(self, high_water: int, send_now: Callable[[Sequence[bytes]], bool] | None) -> None:
        self._high_water = high_water
        self._send_now = send_now
        self._frames: list[bytes] = []
        self._writer = trio.lowlevel.ParkingLot()
        self._room = trio.lowlevel.ParkingLot()
        self._idle = False
        self._sending = False
        self._urgent = True
        self._closed = False
        self.queued_bytes = 0
        self.frames_sent = 0
        self.writes = 0

    # No interrupt comes between a frame and the note that it was written, or it would be written twice.

    @trio.lowlevel.enable_ki_protection
    def put(self, frame: bytes) -> None:
        """Queue ``frame`` now. After :meth:`close` it is dropped: there is nobody left to read it."""
        if not self._closed:
            self._frames.append(frame)
            self.queued_bytes += len(frame)
            if self._idle:
                self._wake()

    @trio.lowlevel.enable_ki_protection
    def put_urgent(self, frame: bytes) -> None:
        """:meth:`put`, and write everything now if that can be done without waiting."""
        size = self.queued_bytes + len(frame)
        if self._send_now is None or not self._urgent or self._sending or self._closed or size > URGENT_BYTES:
            self.put(frame)
            return
        self._urgent = False
        self._frames.append(frame)
        self.queued_bytes = size
        batch = self._frames.copy()
        if self._send_now(batch):
            del self._frames[: len(batch)]  # more may have been put meanwhile
            self.queued_bytes -= size
            self.writes += 1
            self.frames_sent += len(batch)
            if self._room:  # somebody waits for it
                self._room.unpark_all()
        elif self._idle:
            self._wake()

    def _wake(self) -> None:
        self._idle = False
        self._writer.unpark()

    def allow_urgent(self) -> None:
        """The peer was heard: the next urgent frame may be written at once."""
        self._urgent = True

    async def wait_for_room(self) -> None:
        """Wait until fewer bytes than the bound are queued. A checkpoint only in that it can be cancelled."""
        await trio.lowlevel.checkpoint_if_cancelled()
        while self.queued_bytes >= self._high_water and not self._closed:
            await self._room.park()

    @trio.lowlevel.enable_ki_protection
    async def write(self, send: Callable[[Sequence[bytes]], Awaitable[None]]) -> None:
        """The writer: hand everything queued to ``send``, for ever, or until :meth:`close` and all is written."""
        while True:
            while not self._frames:
                if self._closed:
                    return
                self._idle = True
                await self._writer.park()
            batch, self._frames = self._frames, []
            self.queued_bytes = 0
            self._room.unpark_all()  # the next batch gathers while this one is written
            self.writes += 1
            self.frames_sent += len(batch)
            self._sending = True
            await send(batch)
            self._sending = False
            del batch  # or an idle connection would keep the last of it

    def close(self) -> None:
        """Take nothing more. The writer ends when it has written what is there."""
        self._closed = True
        self._writer.unpark()
        self._room.unpark_all()
