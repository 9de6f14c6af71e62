"""Where the code of this package names a requirement or a decision: in its comments and docstrings, read when asked."""

from __future__ import annotations

import functools
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

import attrs

__all__ = ["Place", "enforced_at", "named_in", "places"]

PACKAGE: Final = "acp_ref"
OWN: Final = "acp_ref/spec"
"""Left out: the register speaks about ids, it holds no requirement."""

_ID: Final = re.compile(r"\b[A-Z]+-[0-9]{2}\b")


@attrs.frozen
class Place:
    """A line of this package's source."""

    path: str
    """Such as ``acp_ref/connection.py``."""
    line: int
    """Counted from 1."""
    text: str
    """The whole line, without its indentation."""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


def enforced_at(name: str) -> Sequence[Place]:
    """The places whose comment or docstring names the id ``name``, by path and line."""
    return places().get(name, ())


@functools.cache
def places() -> Mapping[str, Sequence[Place]]:
    """For every word in a comment or docstring that looks like an id its places. The whole source is read, once."""
    found: defaultdict[str, list[Place]] = defaultdict(list)
    for path, file in _modules(resources.files(PACKAGE), PACKAGE):
        for name, line, text in named_in(file.read_text("utf-8")):
            found[name].append(Place(path, line, text))
    return found


def named_in(source: str) -> Iterator[tuple[str, int, str]]:
    """The ids that comments and docstrings of ``source`` name: each with its line number and the line."""
    if not _ID.search(source):
        return
    lines = source.splitlines()
    begins = True  # whether a string here would be a statement of its own: a docstring
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and begins):
            for line, words in enumerate(token.string.split("\n"), token.start[0]):
                for name in dict.fromkeys(_ID.findall(words)):
                    yield name, line, lines[line - 1].strip()
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            begins = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


def _modules(folder: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        inner = f"{path}/{entry.name}"
        if entry.is_dir() and inner != OWN:
            yield from _modules(entry, inner)
        elif entry.name.endswith(".py"):
            yield inner, entry
