"""Our own standard input and output as a transport: the agent's side of stdio (TRANS-02).

https://agentclientprotocol.com/protocol/transports#stdio

While :func:`open_stdio` runs, the protocol lives on private descriptors that no child inherits; descriptor 1 leads to
stderr (TRANS-08) and descriptor 0 to an empty input. So whatever prints, reads input or runs a program that inherits
our stdio can neither put a byte into the protocol (TRANS-10) nor take one out. Both are as before when it ends.

The mode of an inherited descriptor (O_NONBLOCK) is never touched: it belongs to an open file that we share with our
parent, with stderr on a terminal, and with every other process that inherited it. Pipes and terminals are opened once
more for writing, which gives an open file of our own; sockets are asked per call not to block; what allows neither is
written from a thread. So it works with a pipe, a socket, a file, a terminal or /dev/null at either end.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager, redirect_stdout, suppress
from typing import Final

import trio

from acp_ref._fd_stream import (
    ByteReader,
    ByteWriter,
    FrameStream,
    PolledReader,
    PolledSocketWriter,
    PolledWriter,
    ThreadedReader,
    ThreadedWriter,
    can_be_polled,
)
from acp_ref._framing import DEFAULT_MAX_FRAME_BYTES
from acp_ref.transports import Transport

__all__ = ["open_stdio"]

STDIN: Final = 0
STDOUT: Final = 1
STDERR: Final = 2

_in_use = False  # there is one descriptor 0 in a process


@asynccontextmanager
async def open_stdio(
    *, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES, threads: bool = sys.platform == "win32"
) -> AsyncGenerator[Transport]:
    """Take over this process's stdin and stdout for the protocol (TRANS-04), and give them back in the end.

    Frames begin with the first byte not yet read from descriptor 0: read nothing through ``sys.stdin`` before.

    Args:
      max_frame_bytes: the longest frame that is read; of a longer one only the head is kept.
      threads: read and write in worker threads, the only way on Windows. A read that is given up when the context
        ends goes on in its thread and takes the next chunk of stdin with it; it does not keep the process alive.

    Raises:
      OSError: stdin or stdout is closed.
      trio.BusyResourceError: they are taken over already.
    """
    with _private_stdio() as (stdin, stdout):
        stream = FrameStream(_reader(stdin, threads=threads), _writer(stdout, threads=threads), max_frame_bytes)
        try:
            yield stream
        finally:
            stream.close()


@contextmanager
def _private_stdio() -> Generator[tuple[int, int]]:
    """The real stdin and stdout on private descriptors, with harmless ones in their places."""
    global _in_use
    if _in_use:
        raise trio.BusyResourceError("stdin and stdout are taken over already")
    for fd in (STDIN, STDOUT):
        os.fstat(fd)  # raises; were it closed, the next new descriptor would take its place
    with ExitStack() as undo:
        null = os.open(os.devnull, os.O_RDWR)  # and becomes stderr, if that is closed
        undo.callback(os.close, null)
        stdin, stdout = os.dup(STDIN), os.dup(STDOUT)
        undo.callback(os.close, stdin)
        undo.callback(os.close, stdout)
        _flush_stdout()
        _in_use = True
        try:
            os.dup2(null, STDIN)
            os.dup2(STDERR, STDOUT)
            with redirect_stdout(sys.stderr):  # its own buffer would hold prints back until the end
                yield stdin, stdout
        finally:
            _flush_stdout()  # what was printed through an older reference goes to stderr still
            os.dup2(stdin, STDIN)
            os.dup2(stdout, STDOUT)
            _in_use = False


def _flush_stdout() -> None:
    for file in (sys.stdout, sys.__stdout__):
        if file is not None:
            with suppress(OSError, ValueError):
                file.flush()


def _reader(stdin: int, *, threads: bool) -> ByteReader:
    fd = os.dup(stdin)
    return ThreadedReader(fd) if threads or not can_be_polled(fd) else PolledReader(fd)


def _writer(stdout: int, *, threads: bool) -> ByteWriter:
    if not threads and can_be_polled(stdout):
        if stat.S_ISSOCK(os.fstat(stdout).st_mode):
            return PolledSocketWriter(os.dup(stdout))
        if sys.platform == "linux":
            with suppress(OSError):  # no /proc, no permission, or no reader any more
                return PolledWriter(os.open(f"/proc/self/fd/{stdout}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY))
    return ThreadedWriter(os.dup(stdout))
