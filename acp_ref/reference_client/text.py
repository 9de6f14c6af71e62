"""Text from elsewhere, as a terminal may be given it, and how wide it is there.

https://agentclientprotocol.com/protocol/content#text-content

What an agent says is text, never commands to the terminal: an escape sequence could erase the question that it asks,
and a character that turns the direction of writing could make a command read as another one. So both become visible.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

__all__ = ["counted", "fold", "one_line", "plain_output", "visible", "width"]

# The characters that turn the direction of writing, and the two separators that some programs take for line ends.
_UNSEEN: Final = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x2028, 0x2029)

_VISIBLE: Final[dict[int, int | str]] = {
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"},
    0x7F: 0x2421,
    **{code: f"<U+{code:04X}>" for code in (*range(0x80, 0xA0), *_UNSEEN)},
    **dict.fromkeys(range(55296, 57344), 65533),
}

_ESCAPE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


def visible(text: str) -> str:
    """``text`` with a visible sign for each control character but newlines and tabs."""
    return text.replace("\r\n", "\n").translate(_VISIBLE)


def plain_output(text: str) -> str:
    """What a command wrote, without colours, and of lines that it wrote over again the last version."""
    lines = _ESCAPE.sub("", text).replace("\r\n", "\n").split("\n")
    return visible("\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines))


def width(text: str) -> int:
    """The columns that ``text``, a part of one line without tabs, takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(map(_width, text))


def _width(character: str) -> int:
    if unicodedata.category(character) in {"Mn", "Me", "Cf"}:  # on top of the character before, or not seen at all
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


def fold(line: str, columns: int) -> list[str]:
    """``line`` in pieces of at most ``columns`` columns (or one character), cut at spaces where there are any."""
    pieces: list[str] = []
    line = line.expandtabs()
    while (end := _fitting(line, columns)) < len(line):
        cut = line.rfind(" ", 0, end + 1)
        if line[: cut + 1].isspace() or cut < 0:
            pieces.append(line[:end])
            line = line[end:]
        else:
            pieces.append(line[:cut])
            line = line[cut + 1 :]
    return [*pieces, line]


def _fitting(line: str, columns: int) -> int:
    """How many characters of ``line`` fit into ``columns``, at least one."""
    if line.isascii():
        return min(len(line), max(columns, 1))
    used = 0
    for index, character in enumerate(line):
        used += _width(character)
        if used > columns and index:
            return index
    return len(line)


def one_line(text: str) -> str:
    """``text`` with all its white space made into single spaces."""
    return " ".join(text.split())


def counted(number: int, noun: str) -> str:
    """``number`` and ``noun``, which takes an "s" in the plural."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
