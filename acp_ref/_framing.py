"""Newline frames, sans-IO: bytes in, whole frames out.

https://agentclientprotocol.com/protocol/transports#stdio

The byte 0x0A ends a message and nothing else does (TRANS-06): not U+2028, not a lone carriage return. One carriage
return before it is stripped and blank lines are skipped. A frame beyond the size limit costs no more memory than the
limit: the rest of it is dropped as it arrives, and an :class:`OversizedFrame` stands in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import Final, TypeAlias

import attrs

__all__ = ["DEFAULT_MAX_FRAME_BYTES", "Frame", "FrameBuffer", "OversizedFrame", "UnterminatedFrame"]

DEFAULT_MAX_FRAME_BYTES: Final = 128 * 1024 * 1024
"""128 MiB: a prompt may carry images and files inline, and the specification names no limit."""

KEPT_BYTES: Final = 4096
"""How much of either end of an oversized frame is kept, to tell which request or response it was."""


@attrs.frozen
class OversizedFrame:
    """A frame beyond the size limit."""

    head: bytes
    """Its beginning."""
    tail: bytes
    """Its end."""
    size: int
    """Its whole size in bytes."""


class UnterminatedFrame(bytes):
    """The last line before the end of input, which may have been cut off: no newline ends it."""


Frame: TypeAlias = bytes | OversizedFrame


class FrameBuffer:
    """Cuts a stream of bytes into frames. Time is linear in the bytes, whatever the chunks, and so is memory."""

    def __init__(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        self._max = max_frame_bytes
        self._pending = BytesIO()  # not a list, for the chunks may be single bytes
        self._size = 0
        self._head: bytes | None = None  # not None while an oversized frame is being dropped
        self._tail = b""

    def feed(self, chunk: bytes) -> Sequence[Frame]:
        """The frames that ``chunk`` completes, in order."""
        lines = chunk.split(b"\n")
        rest = lines.pop()
        frames: list[Frame] = []
        if lines:
            if self._size:
                self._keep(lines[0])
                lines = lines[1:]
                self._finish(frames)
            limit = self._max
            for line in lines:
                if line.endswith(b"\r"):
                    line = line[:-1]
                if len(line) > limit:
                    frames.append(OversizedFrame(line[:KEPT_BYTES], line[-KEPT_BYTES:], len(line)))
                elif line and not line.isspace():
                    frames.append(line)
        if rest:
            self._keep(rest)
        return frames

    def end(self) -> Sequence[Frame]:
        """The unterminated last line, if there is one, at end of input."""
        frames: list[Frame] = []
        if self._size:
            self._finish(frames)
        return [UnterminatedFrame(frame) if isinstance(frame, bytes) else frame for frame in frames]

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._head is not None:
            if len(self._head) < KEPT_BYTES:  # the limit is smaller still
                self._head = (self._head + part)[:KEPT_BYTES]
            self._tail = (self._tail + part)[-KEPT_BYTES:]
            return
        self._pending.write(part)
        if self._size > self._max + 1:  # one byte more for a carriage return
            kept = self._pending.getvalue()
            self._head, self._tail = kept[:KEPT_BYTES], kept[-KEPT_BYTES:]
            self._pending = BytesIO()

    def _finish(self, frames: list[Frame]) -> None:
        if self._head is not None:
            frames.append(OversizedFrame(self._head, self._tail, self._size))
            self._head = None
        else:
            line = self._pending.getvalue()
            self._pending = BytesIO()
            if line.endswith(b"\r"):
                line = line[:-1]
            if len(line) > self._max:
                frames.append(OversizedFrame(line[:KEPT_BYTES], line[-KEPT_BYTES:], len(line)))
            elif line and not line.isspace():
                frames.append(line)
        self._size = 0
