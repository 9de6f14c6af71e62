"""The console: the lines that are typed, and the descriptor that the conversation is written to.

https://agentclientprotocol.com/protocol/overview#client

Theory of operation. A terminal keeps what is typed until somebody reads it, so nothing is read before a line is wanted,
and no task or thread waits for a person when the program ends. What was typed ahead is the next prompt, but never the
answer to a question that was not on the screen yet. Writing is different: a pager may stop reading at any time, and
that must not stop the connection or Ctrl-C. So text is queued and one task writes it, by a thread that may hang.
"""

from __future__ import annotations

import os
import select
import sys
from collections import deque
from collections.abc import Callable
from typing import Final, final

import trio

from acp_ref._fd_stream import PolledReader, ThreadedReader, ThreadedWriter, can_be_polled

__all__ = ["Keyboard", "Output"]

PASTE_PAUSE: Final = 0.02
"""Seconds between the lines of one paste at most. Nobody types a line in that time."""

SETTLE_PAUSE: Final = 0.05
"""Seconds without news after which it is worth to show a prompt."""

_ASCII: Final = str.maketrans(
    {"✔": "+", "✘": "x", "○": "o", "◐": "~", "•": "*", "│": "|", "…": "...", "·": "-", "—": "-", "→": "->"}
)


@final
class Keyboard:
    """The lines that a person types, or that a file has.

    Args:
      fd: where they come from; not closed here.
      stands_alone: whether a line is always an input of its own, also within a paste.
    """

    def __init__(self, fd: int, stands_alone: Callable[[str], bool] = lambda line: False) -> None:
        self._fd = fd
        self._stands_alone = stands_alone
        self._is_terminal = os.isatty(fd)
        self._reader: PolledReader | ThreadedReader | None = None
        self._lines: deque[str | None] = deque()  # None: the input ended here; a terminal's may go on behind it
        self._begun = b""

    async def prompt(self) -> str | None:
        """The next prompt, perhaps typed already: a line, or all lines of a paste. None when the input ended."""
        while not self._lines:
            await self._read()
        if self._is_terminal:
            await self._read_paste()
        line = self._take()
        if line is None or not self._is_terminal or self._stands_alone(line):
            return line
        lines = [line]
        while self._lines and (line := self._lines[0]) is not None and not self._stands_alone(line):
            lines.append(line)
            self._lines.popleft()
        return "\n".join(lines)

    async def answer(self) -> str | None:
        """A line of a terminal that was not typed before this call. None when the person ended the input instead."""
        while not self._ended and self._has_more():
            await self._read()
        ahead = len(self._lines)
        while len(self._lines) == ahead:
            await self._read()
        line = self._lines[ahead]
        del self._lines[ahead]
        return line

    def _has_more(self) -> bool:
        """Whether something was typed that is not read yet. Nobody can tell on Windows."""
        return sys.platform != "win32" and bool(select.select([self._fd], [], [], 0)[0])

    async def _read(self) -> None:
        """Wait for more lines, or the end of the input."""
        try:
            if self._reader is None:
                self._reader = PolledReader(self._fd) if can_be_polled(self._fd) else ThreadedReader(self._fd)
            chunk = await self._reader.read()
        except (OSError, trio.BrokenResourceError):  # closed, or broken
            chunk = b""
        *lines, self._begun = (self._begun + chunk).split(b"\n")
        if not chunk and self._begun:
            lines, self._begun = [self._begun], b""
        self._lines.extend(line.removesuffix(b"\r").decode(errors="replace") for line in lines)
        if not chunk:
            self._lines.append(None)

    async def _read_paste(self) -> None:
        reading = True
        while reading and not self._ended:
            with trio.move_on_after(PASTE_PAUSE) as pause:
                await self._read()
            reading = not pause.cancelled_caught

    @property
    def _ended(self) -> bool:
        """Whether the input has ended where it was read last."""
        return bool(self._lines) and self._lines[-1] is None

    def _take(self) -> str | None:
        line = self._lines.popleft()
        if line is None and not self._is_terminal:
            self._lines.append(None)  # a file stays at its end
        return line


@final
class Output:
    """Text on its way to a descriptor, which is not closed here.

    Args:
      fd: where it goes.
      encoding: how. Signs that it does not have are replaced.
    """

    def __init__(self, fd: int, encoding: str = "utf-8") -> None:
        self._writer = ThreadedWriter(fd)
        self._encoding = encoding
        self._waiting: list[str] = []
        self._idle = True
        self._news = trio.lowlevel.ParkingLot()
        self._changes = trio.lowlevel.ParkingLot()
        self._last = -SETTLE_PAUSE
        self.broken: trio.BrokenResourceError | None = None
        """Why nothing can be written any more."""

    def write(self, text: str) -> None:
        """Queue ``text``."""
        if self.broken is None:
            self._waiting.append(text)
            self._idle = False
            self._last = trio.current_time()
            self._news.unpark_all()
            self._changes.unpark_all()

    async def run(self) -> None:
        """Write what comes, until cancelled, or until nobody reads any more."""
        while True:
            while not self._waiting:
                await self._news.park()
            text = "".join(self._waiting)
            self._waiting.clear()
            try:
                await self._writer.write(self._encoded(text))
            except trio.BrokenResourceError as exc:
                self.broken = exc
                self._waiting.clear()
            if not self._waiting:
                self._idle = True
                self._changes.unpark_all()
            if self.broken is not None:
                return

    async def flush(self) -> None:
        """Wait until everything is written, or cannot be."""
        while not self._idle:
            await self._changes.park()

    async def settle(self) -> None:
        """Wait until nothing was written for a moment."""
        last = None
        while last != self._last:
            last = self._last
            await trio.sleep_until(last + SETTLE_PAUSE)
        await self.flush()

    async def wait_written(self) -> None:
        """Wait until something more is written."""
        await self._news.park()

    def _encoded(self, text: str) -> bytes:
        if self._encoding.lower().replace("-", "") != "utf8":
            try:
                return text.encode(self._encoding)
            except UnicodeEncodeError:
                text = text.translate(_ASCII)
        return text.encode(self._encoding, "replace")
