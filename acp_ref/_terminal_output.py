"""Getting output: what is kept of what a command writes.

https://agentclientprotocol.com/protocol/terminals#getting-output
"""

from __future__ import annotations

import codecs
from typing import Final, final

__all__ = ["OutputBuffer"]

SLACK_BYTES: Final = 64 * 1024
"""How much a buffer outgrows its limit before it is cut: one cut for many writes."""


@final
class OutputBuffer:
    """The end of a stream of text, at most ``limit`` bytes in UTF-8, cut between two characters.

    Time is linear in what is written; memory is at most twice the limit and some 64 KiB, however much that was.
    """

    def __init__(self, limit: int) -> None:
        self.limit: Final = limit
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a character may come in two writes
        self._bytes = bytearray()
        self._dropped = False

    def write(self, data: bytes, *, final: bool = False) -> None:
        """Append ``data``. What is no UTF-8 becomes U+FFFD, and counts as that (D-22)."""
        self._bytes += self._decoder.decode(data, final).encode()
        if len(self._bytes) > self.limit + max(self.limit, SLACK_BYTES):
            self._cut()

    def finish(self) -> None:
        """Nothing follows: the beginning of a character becomes U+FFFD, and spare memory is given back."""
        self.write(b"", final=True)
        self._cut()

    def text(self) -> str:
        """What is kept."""
        return self._bytes[self._start() :].decode()

    def __len__(self) -> int:
        """The bytes of what is kept."""
        return len(self._bytes) - self._start()

    @property
    def truncated(self) -> bool:
        """Whether something was dropped."""
        return self._dropped or self._start() > 0

    def _start(self) -> int:
        start = max(0, len(self._bytes) - self.limit)  # TERM-04: the oldest go
        while 0 < start < len(self._bytes) and self._bytes[start] & 0xC0 == 0x80:  # TERM-05: inside a character
            start += 1
        return start

    def _cut(self) -> None:
        start = self._start()
        self._dropped |= start > 0
        self._bytes = self._bytes[start:]
