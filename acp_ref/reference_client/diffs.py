"""Diffs: what a tool changes in a file, line by line.

https://agentclientprotocol.com/protocol/tool-calls#diffs
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import Final

__all__ = ["changed_lines"]

CONTEXT: Final = 3
"""Unchanged lines that are shown before and after a change."""

MAX_COMPARISONS: Final = 1_000_000
"""Old lines times new lines up to which they are matched with each other, which takes well below a second. Beyond
that all old lines are shown as gone and all new ones as added."""


def changed_lines(old: str | None, new: str) -> Iterator[str]:
    """The difference between two texts as a unified diff without file names; ``old`` is None when there was no file."""
    before, after = _lines(old or ""), _lines(new)
    first, last = _common(before, after)
    cut_before, cut_after = before[first : len(before) - last], after[first : len(after) - last]
    if len(cut_before) * len(cut_after) <= MAX_COMPARISONS:
        changes = difflib.SequenceMatcher(None, cut_before, cut_after, autojunk=False).get_opcodes()
    else:
        changes = [("replace", 0, len(cut_before), 0, len(cut_after))]
    shifted = [(tag, i1 + first, i2 + first, j1 + first, j2 + first) for tag, i1, i2, j1, j2 in changes]
    if first:
        shifted.insert(0, ("equal", 0, first, 0, first))
    if last:
        shifted.append(("equal", len(before) - last, len(before), len(after) - last, len(after)))
    yield from _hunks(shifted, before, after)


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    if lines[-1]:
        lines[-1] += "  (no newline at the end)"
    else:
        lines.pop()
    return lines


def _common(before: Sequence[str], after: Sequence[str]) -> tuple[int, int]:
    """How many lines are the same at the beginning, and how many at the end."""
    most = min(len(before), len(after))
    first = 0
    while first < most and before[first] == after[first]:
        first += 1
    last = 0
    while last < most - first and before[-1 - last] == after[-1 - last]:
        last += 1
    return first, last


def _hunks(
    changes: Sequence[tuple[str, int, int, int, int]], before: Sequence[str], after: Sequence[str]
) -> Iterator[str]:
    """Each change with the unchanged lines around it; what is further away is left out."""
    for index, (tag, i1, i2, j1, j2) in enumerate(changes):
        if tag != "equal":
            yield from (f"-{line}" for line in before[i1:i2])
            yield from (f"+{line}" for line in after[j1:j2])
            continue
        head = 0 if index == 0 else CONTEXT
        tail = 0 if index == len(changes) - 1 else CONTEXT
        if i2 - i1 <= head + tail:
            yield from (f" {line}" for line in before[i1:i2])
            continue
        yield from (f" {line}" for line in before[i1 : i1 + head])
        if tail:
            yield f"@@ line {j2 - tail + 1}"
            yield from (f" {line}" for line in before[i2 - tail : i2])
