"""The screen: where a person reads the conversation.

https://agentclientprotocol.com/protocol/prompt-turn#3-agent-reports-output

The same calls serve a terminal and a file. On a terminal there are colours, and lines are folded at words; a file gets
the bare text, line by line, so that scripts can rely on it. Nothing here waits or writes: the text goes to a function.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from typing import Final, final

from acp_ref.reference_client.text import fold, visible, width

__all__ = ["TOOL", "USER", "Screen", "Style"]

_TOKEN: Final = re.compile(r"\n|[^\S\n]+|\S+")

USER: Final = "user"
"""The kind of what the person says."""

TOOL: Final = "tool"
"""The kind of what is told of tool calls."""

FEWEST_COLUMNS: Final = 20
"""Narrower terminals fold what does not fit by themselves."""


class Style(enum.StrEnum):
    """How a piece of text looks, where there are colours: parameters of the terminal's own SGR sequence."""

    PLAIN = ""
    BOLD = "1"
    DIM = "2"
    RED = "31"
    GREEN = "32"
    YELLOW = "33"
    CYAN = "36"


@final
class Screen:
    """Text, and where its end stands.

    Args:
      write: takes the text, escape sequences included.
      columns: tells how wide the terminal is at the moment; None when it is no terminal.
    """

    def __init__(self, write: Callable[[str], None], *, columns: Callable[[], int] | None = None) -> None:
        self._write = write
        self._columns = columns
        self._column = 0  # where the next character goes; exact only on a terminal
        self._word = ""  # the part of a word that ends the line, as long as it may still have to move
        self._word_columns = 0
        self._gap = True  # whether a gap would be one too many
        self.kind: str = ""
        """What sort of thing was written last."""
        self.at_prompt: bool = False
        """Whether the last thing on the screen is a prompt, which waits for somebody to type."""

    def begin(self, kind: str) -> bool:
        """Something of ``kind`` follows; a gap parts it from another kind. True when it is another kind."""
        if kind == self.kind:
            return False
        if self.kind == USER:  # what follows a prompt belongs to it
            self.fresh_line()
        else:
            self.gap()
        self.kind = kind
        return True

    def stream(self, text: str, style: Style = Style.PLAIN) -> None:
        """Go on with ``text`` where the last :meth:`stream` ended."""
        if self.at_prompt:
            self.fresh_line()
        text = visible(text)
        if text:
            limit = self._limit()
            self._write(self._styled(text if limit is None else self._folded(text, limit), style))
            if limit is None:
                self._column = len(text) - text.rfind("\n") - 1
            self._gap = False

    def line(self, text: str = "", style: Style = Style.PLAIN, *, gutter: str = "", folded: bool = True) -> None:
        """Write ``text`` in lines of its own, each behind the ``gutter``.

        Args:
          folded: whether to fold what is too wide; not for what somebody may copy.
        """
        self.fresh_line()
        limit = self._limit()
        for whole in visible(text).split("\n"):
            pieces = [whole] if limit is None or not folded else fold(whole, max(limit - width(gutter), 1))
            for piece in pieces:
                self._write(self._styled(gutter, Style.DIM) + self._styled(piece, style) + "\n")
        self._gap = False

    def gap(self) -> None:
        """Leave a line empty, unless one is."""
        self.fresh_line()
        if not self._gap:
            self._write("\n")
            self._gap = True

    def fresh_line(self) -> None:
        """Begin a new line, unless this one is empty."""
        if self._column:
            self._write("\n")
        self._start_line()

    def prompt(self, text: str) -> None:
        """Show that somebody may type now."""
        self.fresh_line()
        self._write(self._styled(text, Style.BOLD))
        self._column = width(text)
        self._gap = False
        self.at_prompt = True

    def entered(self) -> None:
        """Somebody typed a line, and the terminal showed it: the next character goes to the beginning of a line."""
        self._start_line()
        self._gap = False

    def disturbed(self) -> None:
        """The terminal showed something by itself, such as ``^C``."""
        self._column = max(self._column, 1)
        self._word = ""
        self.at_prompt = False

    def _start_line(self) -> None:
        self._column = 0
        self._word = ""
        self._word_columns = 0
        self.at_prompt = False

    def _limit(self) -> int | None:
        """The columns to use. The last one stays empty: a terminal may or may not be on the next line behind it."""
        return None if self._columns is None else max(self._columns(), FEWEST_COLUMNS) - 1

    def _styled(self, text: str, style: Style) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if style and text and self._columns is not None else text

    def _folded(self, text: str, limit: int) -> str:
        """``text`` as it is written from here on. A word that turns out too long for the line moves to the next one."""
        out: list[str] = []
        for token in _TOKEN.findall(text):
            if token == "\n":
                self._start_line()
            elif token.isspace():
                token = self._folded_space(token, limit)
            else:
                token = self._folded_word(token, limit)
            out.append(token)
        return "".join(out)

    def _folded_space(self, space: str, limit: int) -> str:
        start = self._column
        for character in space:
            self._column += 8 - self._column % 8 if character == "\t" else 1
        self._word, self._word_columns = "", 0
        if self._column <= limit:
            return space
        self._column = 0
        return "\n" if start else ""

    def _folded_word(self, part: str, limit: int) -> str:
        columns = width(part)
        before, word = self._word_columns, self._word
        self._word_columns += columns
        if self._word_columns > limit:  # wider than a line: the terminal folds it
            self._word = ""
            self._column = (self._column + columns) % (limit + 1)
            return part
        self._word += part
        if self._column + columns <= limit:
            self._column += columns
            return part
        self._column = self._word_columns
        erase = f"\x1b[{before}D\x1b[K" if before else ""
        return f"{erase}\n{word}{part}"
