"""File descriptors as a two-way channel of frames: what our own stdio and a spawned agent have in common.

https://agentclientprotocol.com/protocol/transports#stdio

Two ways to read and to write, with the same meaning:

* **Polled**: wait until the kernel says "ready", then one plain system call. For pipes, sockets and terminals on
  POSIX. Reading this way works on a blocking descriptor too; writing needs a system call that cannot block.
* **Threaded**: a blocking call in a worker thread. For everything else, such as regular files, and for Windows. A
  thread that hangs in a system call is abandoned when its task is cancelled. It keeps its descriptor open until it
  returns, and a chunk it has read by then is kept for the next read.

Reading waits *before* it reads: in a conversation there is nothing to read yet when the reader comes back, and the wait
is the checkpoint. Writing tries first and waits only when the peer is slow; all it owes the scheduler is a look for a
cancellation, as its caller, the one writer of a connection, sleeps whenever there is nothing to write.

A write that is cancelled half way leaves half a frame on the wire. Nothing can follow it: that writer stays broken.
"""

from __future__ import annotations

import errno
import math
import os
import select
import socket
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import trio

from acp_ref._framing import Frame, FrameBuffer

__all__ = [
    "ByteReader",
    "ByteWriter",
    "FrameStream",
    "PolledReader",
    "PolledSocketWriter",
    "PolledWriter",
    "ThreadedReader",
    "ThreadedWriter",
    "can_be_polled",
]

READ_BYTES: Final = 64 * 1024
"""A pipe's usual capacity. Larger buffers cost a trip to the kernel's memory management for each small message."""

BULK_READ_BYTES: Final = 256 * 1024
"""The next read after a full one: more is coming, and fewer turns of the scheduler carry it."""

if sys.platform == "win32":
    DO_NOT_WAIT: Final = 0
else:
    DO_NOT_WAIT: Final = socket.MSG_DONTWAIT

CLOSED: Final = "this side closed the stream"
CUT_OFF: Final = "an earlier write was cut off inside a frame"


class ByteReader(Protocol):
    """Reads chunks from a file descriptor that it owns."""

    async def read(self) -> bytes:
        """Wait for some bytes; empty at the end of input. ClosedResourceError, BrokenResourceError as in trio."""
        ...

    def close(self) -> None:
        """Close the descriptor and wake who waits for it. Idempotent."""
        ...


class ByteWriter(Protocol):
    """Writes to a file descriptor that it owns. One task writes."""

    async def write(self, data: bytes) -> None:
        """Write all of ``data``. ClosedResourceError, BrokenResourceError as in trio."""
        ...

    def write_now(self, data: bytes) -> bool:
        """Write what goes without waiting, and say whether that was all. If not, what is written next begins with
        ``data`` again."""
        ...

    def close(self) -> None:
        """Close the descriptor and wake who waits for it. Idempotent."""
        ...


class FrameStream:
    """Newline frames over a reader and a writer; a :class:`~acp_ref.transports.Transport`."""

    def __init__(self, reader: ByteReader, writer: ByteWriter, max_frame_bytes: int) -> None:
        self._reader = reader
        self._writer = writer
        self._buffer = FrameBuffer(max_frame_bytes)

    async def receive(self) -> Sequence[Frame]:
        """All the frames that one read completes; empty at the end of input."""
        while chunk := await self._reader.read():
            if frames := self._buffer.feed(chunk):
                return frames
        return self._buffer.end()

    async def send(self, frames: Sequence[bytes]) -> None:
        """Write ``frames`` in one system call, unless the reader is slow."""
        await self._writer.write(b"\n".join([*frames, b""]))

    def send_now(self, frames: Sequence[bytes]) -> bool:
        """Write ``frames`` if that needs no wait; see :class:`~acp_ref.transports.EagerTransport`."""
        return self._writer.write_now(b"\n".join([*frames, b""]))

    def close_writing(self) -> None:
        """Let the other side read the end of input."""
        self._writer.close()

    def close_reading(self) -> None:
        """Read no more; who waits for frames gets ClosedResourceError."""
        self._reader.close()

    def close(self) -> None:
        """Close both directions."""
        self._writer.close()
        self._reader.close()

    async def aclose(self) -> None:
        """Close both directions."""
        self.close()
        await trio.lowlevel.checkpoint()


class PolledReader:
    """Reads a descriptor that can be polled, whether it is blocking or not."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._size = READ_BYTES

    async def read(self) -> bytes:
        while True:
            if self._fd < 0:
                raise trio.ClosedResourceError(CLOSED)
            await trio.lowlevel.wait_readable(self._fd)
            try:
                chunk = os.read(self._fd, self._size)
            except BlockingIOError:  # woken for nothing
                continue
            except OSError as exc:
                return _end_or_raise(exc)
            self._size = READ_BYTES if len(chunk) < READ_BYTES else BULK_READ_BYTES
            return chunk

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            trio.lowlevel.notify_closing(fd)
            os.close(fd)


class PolledWriter:
    """Writes a descriptor that can be polled and whose open file is non-blocking."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._broken = ""
        self._ahead = 0  # bytes of what is to be written next that were written already

    def write_now(self, data: bytes) -> bool:
        if self._fd < 0 or self._broken:
            return False
        try:
            self._ahead += self._write_some(memoryview(data)[self._ahead :] if self._ahead else data)
        except trio.BrokenResourceError:  # and so it stays
            return False
        if self._ahead < len(data):
            return False
        self._ahead = 0
        return True

    async def write(self, data: bytes) -> None:
        if self._fd < 0:
            raise trio.ClosedResourceError(CLOSED)
        if self._broken:
            raise trio.BrokenResourceError(self._broken)
        ahead, self._ahead = self._ahead, 0
        if ahead:
            self._broken = CUT_OFF
        await trio.lowlevel.checkpoint_if_cancelled()
        sent = ahead + self._write_some(memoryview(data)[ahead:] if ahead else data)
        if sent == len(data):
            self._broken = ""
            return
        rest = memoryview(data)[sent:]
        while rest:
            if len(rest) < len(data):
                self._broken = CUT_OFF
            await trio.lowlevel.wait_writable(self._fd)
            rest = rest[self._write_some(rest) :]
        self._broken = ""

    def _write_some(self, data: bytes | memoryview) -> int:
        try:
            return self._write_now(data)
        except BlockingIOError:
            return 0
        except OSError as exc:
            self._broken = f"the other side stopped reading: {exc.strerror}"
            raise trio.BrokenResourceError(self._broken) from exc

    def _write_now(self, data: bytes | memoryview) -> int:
        return os.write(self._fd, data)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            trio.lowlevel.notify_closing(fd)
            os.close(fd)


class PolledSocketWriter(PolledWriter):
    """Writes a stream socket, whether it is blocking or not."""

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        if sys.platform == "win32":
            self._socket = socket.socket(fileno=fd)
        else:
            blocking = os.get_blocking(fd)
            self._socket = socket.socket(fileno=fd)
            if self._socket.gettimeout() is not None:  # from socket.setdefaulttimeout(), which changed the mode
                self._socket.settimeout(None)
                os.set_blocking(fd, blocking)

    def _write_now(self, data: bytes | memoryview) -> int:
        return self._socket.send(data, DO_NOT_WAIT)

    def close(self) -> None:
        self._socket.detach()
        super().close()


class _ThreadedFd:
    """A descriptor used by one worker thread at a time, and closed by whoever is the last to need it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._closed = False
        self._in_use = threading.Lock()
        self._limiter = trio.CapacityLimiter(math.inf)  # a thread that hangs must not use up trio's common limit
        self._waiting: trio.CancelScope | None = None

    async def _in_thread(self, call: Callable[[], None]) -> None:
        if self._closed:
            raise trio.ClosedResourceError(CLOSED)
        if self._waiting is not None:
            raise trio.BusyResourceError("another task is using this stream")
        try:
            with trio.CancelScope() as self._waiting:
                await trio.to_thread.run_sync(self._hold, call, abandon_on_cancel=True, limiter=self._limiter)
        finally:
            self._waiting = None
        if self._closed:
            raise trio.ClosedResourceError(CLOSED)

    def _hold(self, call: Callable[[], None]) -> None:
        try:
            with self._in_use:
                if not self._closed:
                    call()
        finally:
            if self._closed:
                self._close_if_unused()

    def _close_if_unused(self) -> None:
        if self._in_use.acquire(blocking=False):
            try:
                fd, self._fd = self._fd, -1
                if fd >= 0:
                    os.close(fd)
            finally:
                self._in_use.release()

    def close(self) -> None:
        self._closed = True
        self._close_if_unused()
        if self._waiting is not None:
            self._waiting.cancel()


class ThreadedReader(_ThreadedFd):
    """Reads a blocking descriptor in a worker thread."""

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        self._chunks: deque[bytes] = deque()

    async def read(self) -> bytes:
        try:
            await self._in_thread(self._read)
        except OSError as exc:
            return _end_or_raise(exc)
        return self._chunks.popleft()

    def _read(self) -> None:
        while not self._chunks:  # a thread abandoned before may have read for us
            try:
                self._chunks.append(os.read(self._fd, BULK_READ_BYTES))
            except BlockingIOError:  # somebody else made the shared file non-blocking
                select.select([self._fd], [], [])


class ThreadedWriter(_ThreadedFd):
    """Writes a blocking descriptor in a worker thread."""

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        self._broken = ""

    def write_now(self, data: bytes) -> bool:
        return False

    async def write(self, data: bytes) -> None:
        if self._broken and not self._closed:
            raise trio.BrokenResourceError(self._broken)
        await trio.lowlevel.checkpoint_if_cancelled()
        self._broken = CUT_OFF
        try:
            await self._in_thread(lambda: self._write(data))
        except OSError as exc:
            self._broken = f"the other side stopped reading: {exc.strerror}"
            raise trio.BrokenResourceError(self._broken) from exc
        self._broken = ""

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest and not self._closed:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:
                select.select([], [self._fd], [])


def can_be_polled(fd: int) -> bool:
    """Whether the kernel can tell when ``fd`` is ready: a pipe, a socket or a terminal, and not on Windows."""
    mode = os.fstat(fd).st_mode
    return sys.platform != "win32" and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd))


def _end_or_raise(error: OSError) -> bytes:
    if error.errno == errno.EIO:  # a terminal that was hung up
        return b""
    raise trio.BrokenResourceError(f"cannot read any more: {error.strerror}") from error
