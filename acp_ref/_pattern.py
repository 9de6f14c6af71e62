r"""Patterns of form fields, matched in bounded time.

https://agentclientprotocol.com/protocol/elicitation#form-mode

A pattern comes from the peer, and an engine that backtracks, such as Python's, takes exponential time for some, such as
``(a+)+$``. This one, Thompson's, goes through the text once and follows all possibilities side by side. Its time is the
length of the text by the length of the program, and that product has a limit (ELIC-44).

It reads what is regular in ECMA-262: alternatives, groups, classes, repetitions (lazy or not is the same here), and
``^ $ \b \B``. Back references and looking around, which no such engine can do, are refused, as are ``\p{...}``,
``\u{...}`` and flags. What a single character may be is left to Python's engine.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, TypeAlias, final

__all__ = ["Pattern"]

MAX_SOURCE: Final = 1000
"""Characters of a pattern."""

MAX_PROGRAM: Final = 2000
"""Steps of its program; a repetition that is counted takes as many copies of what it repeats."""

MAX_DEPTH: Final = 50
"""Groups in groups."""

MAX_WORK: Final = 500_000
"""Characters of the text by steps of the program: some tenths of a second."""


class _One(NamedTuple):
    """Go on with the next character when this one matches."""

    character: re.Pattern[str]


class _Fork(NamedTuple):
    """Go on at each of these steps, counted from this one."""

    offsets: tuple[int, ...]


class _Place(NamedTuple):
    """Go on when this is the place in the text: ``^``, ``$``, ``\\b`` or ``\\B``."""

    name: str


_Program: TypeAlias = "list[_One | _Fork | _Place]"

TOKEN: Final = re.compile(
    r"""
    (?P<open> \( (?: \?: | \?<[A-Za-z_]\w*> | (?!\?) ) )
    | (?P<close> \) )
    | (?P<bar> \| )
    | (?P<place> [\^$] | \\[bB] )
    | (?P<repeat> (?: [*+?] | \{ (?P<least>\d+) (?P<more>,(?P<most>\d*))? \} ) \?? )
    | (?P<one>
        \[ (?: \\. | [^\\\]] )+ \]
        | \\ (?: [dDwWsStnvfr0] | x[0-9A-Fa-f]{2} | u[0-9A-Fa-f]{4} | [^A-Za-z0-9] )
        | [^\\\[(]
      )
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
IN_CLASS: Final = re.compile(r"(\\[dDwWsS])-|\\.|[\[&|~]", re.DOTALL)


def _character(text: str) -> re.Pattern[str]:
    if text.startswith("["):
        if "--" in text:
            raise ValueError(f"{text} is not supported")
        text = f"[{IN_CLASS.sub(_as_python, text[1:-1])}]"
    elif len(text) == 1 and text != ".":
        text = re.escape(text)
    try:
        return re.compile(text, re.ASCII)
    except re.error as exc:
        raise ValueError(f"{text}: {exc}") from None


def _as_python(found: re.Match[str]) -> str:
    """Inside of a class: what would mean something else to Python stands for itself."""
    if found[1]:
        return found[1] + r"\-"
    return found[0] if found[0].startswith("\\") else "\\" + found[0]


class _Parser:
    """Recursive descent; what it has read becomes a program at once."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._depth = 0

    def pattern(self) -> _Program:
        program = self._alternatives()
        if self._at < len(self._source):
            raise ValueError("unmatched )")
        return program

    def _take(self, *kinds: str) -> re.Match[str] | None:
        token = TOKEN.match(self._source, self._at)
        if token is None and self._at < len(self._source):
            raise ValueError(f"{self._source[self._at :]} is not supported")
        if token is None or token.lastgroup not in kinds:
            return None
        self._at = token.end()
        return token

    def _alternatives(self) -> _Program:
        branches = [self._sequence()]
        while self._take("bar"):
            branches.append(self._sequence())
        if len(branches) == 1:
            return branches[0]
        end = sum(len(branch) + 1 for branch in branches)
        starts: list[int] = []
        program: _Program = []
        for branch in branches:
            starts.append(1 + len(program))
            program += branch
            program.append(_Fork((end - len(program),)))
        return [_Fork(tuple(starts)), *program]

    def _sequence(self) -> _Program:
        program: _Program = []
        while (token := self._take("open", "place", "repeat", "one")) is not None:
            if token.lastgroup == "repeat":
                raise ValueError(f"nothing to repeat before {token[0]}")
            if token.lastgroup == "place":
                program.append(_Place(token[0]))
            else:
                body: _Program = [_One(_character(token[0]))] if token.lastgroup == "one" else self._group()
                program += self._repeated(body)
            if len(program) > MAX_PROGRAM:
                raise ValueError("the pattern is too large")
        return program

    def _group(self) -> _Program:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ValueError("groups are nested too deeply")
        program = self._alternatives()
        self._depth -= 1
        if not self._take("close"):
            raise ValueError("missing )")
        return program

    def _repeated(self, body: _Program) -> _Program:
        token = self._take("repeat")
        if token is None:
            return body
        least, most = _bounds(token)
        if most is not None and most < least:
            raise ValueError(f"{token[0]} counts down")
        if max(least, most or 1) * (len(body) + 1) > MAX_PROGRAM:
            raise ValueError("the pattern is too large")
        program = body * least
        if most is not None:
            for left in range(most - least, 0, -1):
                program += [_Fork((1, left * (len(body) + 1))), *body]
        elif least:
            program.append(_Fork((-len(body), 1)))
        else:
            program = [_Fork((1, len(body) + 2)), *body, _Fork((-len(body) - 1,))]
        return program


def _bounds(token: re.Match[str]) -> tuple[int, int | None]:
    if token["least"] is None:
        return {"*": (0, None), "+": (1, None), "?": (0, 1)}[token[0][0]]
    least = int(token["least"])
    if token["more"] is None:
        return least, least
    return least, int(token["most"]) if token["most"] else None


@final
class Pattern:
    """A regular expression.

    Raises:
      ValueError: ``source`` is none, is too large, or uses what is not supported.
    """

    def __init__(self, source: str) -> None:
        if len(source) > MAX_SOURCE:
            raise ValueError("the pattern is too long")
        self.source: Final = source
        self._program: Final = _Parser(source).pattern()

    def found_in(self, text: str) -> bool:
        """Whether some part of ``text`` matches, as in JSON Schema; ``^...$`` asks for all of it.

        Raises:
          ValueError: the text is too long for this pattern.
        """
        program = self._program
        if (len(text) + 1) * (len(program) + 1) > MAX_WORK:
            raise ValueError("the text is too long to be matched")
        waiting: list[int] = []
        for index in range(len(text) + 1):
            steps = [*waiting, 0]  # a match may begin anywhere
            waiting = []
            reached: set[int] = set()
            while steps:
                at = steps.pop()
                if at in reached:
                    continue
                reached.add(at)
                if at == len(program):
                    return True
                step = program[at]
                if isinstance(step, _Fork):
                    steps += [at + offset for offset in step.offsets]
                elif isinstance(step, _Place):
                    if _is_at(step.name, text, index):
                        steps.append(at + 1)
                elif index < len(text) and step.character.match(text, index):
                    waiting.append(at + 1)
        return False


def _is_at(place: str, text: str, index: int) -> bool:
    if place == "^":
        return index == 0
    if place == "$":
        return index == len(text)
    before, after = text[max(0, index - 1) : index], text[index : index + 1]
    return (_is_word(before) != _is_word(after)) == (place == r"\b")


def _is_word(character: str) -> bool:
    return character == "_" or (character.isascii() and character.isalnum())
