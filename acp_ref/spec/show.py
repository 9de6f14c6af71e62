"""The register on a terminal: ``acp-ref spec [ID|PAGE]``."""

from __future__ import annotations

import difflib
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, TextIO

from acp_ref.spec import (
    SITE,
    Decision,
    Level,
    Mark,
    Place,
    Requirement,
    decisions,
    enforced_at,
    on_page,
    page_url,
    requirements,
    sections,
)

__all__ = ["show"]

MARKS: Final = {
    Mark.SEED: "in the edition of the page that this project began with",
    Mark.REWORDED: "worded differently since that edition",
    Mark.NEWEST_SCHEMA: "stable in the newest schema, not yet on the pages",
    Mark.RFD: "from an RFD only",
    Mark.DIFFERS: "page and schema disagree: see `acp-ref spec X`",
}
HINT: Final = """\
acp-ref spec SETUP           a section
acp-ref spec session-setup   a page, a heading of it, or its address
acp-ref spec SETUP-07        a requirement: its source, its code, its tests
acp-ref spec D               what is done where the specification is silent
acp-ref spec X               what is done where it is at odds with itself"""


def show(argument: str | None, *, out: TextIO, width: int) -> int:
    """Write what ``argument`` names to ``out``, at most ``width`` columns wide where words can be wrapped.

    ``argument`` is an id (``SETUP-07``, ``D-04``), a section (``SETUP``, ``D``), a page or a heading of one, in any
    case; None is the overview. Bold and dim are used on a terminal only. Returns the exit status: 0, or 2 with a
    suggestion when ``argument`` names nothing.
    """
    paper = _Paper(out, width)
    if argument is None:
        _overview(paper)
        return 0
    key = _normalised(argument)
    for entry in _entries():
        if entry.id == key.upper():
            _entry(paper, entry)
            return 0
    for section in sections():
        if section.id == key.upper():
            paper.heading(section.id, section.title)
            _page(paper, section.source, [found for found in requirements() if found.section == section.id])
            return 0
    if listed := [entry for entry in decisions() if entry.id.startswith(f"{key.upper()}-")]:
        _decisions(paper, listed)
        return 0
    names = {name.lower(): name for found in requirements() for name in (found.source, found.page)}
    if key.lower() in names:
        source = names[key.lower()]
        paper.heading(source)
        _page(paper, source, on_page(source))
        return 0
    out.write(f"Nothing in the register is called {argument!r}.{_suggestion(key, names.values())}\n")
    return 2


def _entries() -> Sequence[Requirement | Decision]:
    return (*requirements(), *decisions())


def _normalised(argument: str) -> str:
    """``setup7`` as ``setup-07``, an address as the page it is of, ``session_setup`` as ``session-setup``."""
    name = argument.strip().removeprefix(f"{SITE}/protocol/").removeprefix("v1/").strip("/").replace("_", "-")
    if numbered := re.fullmatch(r"([A-Za-z]+)[- ]?([0-9]{1,2})", name):
        return f"{numbered[1]}-{int(numbered[2]):02}"
    return name


def _suggestion(key: str, pages: Iterable[str]) -> str:
    names = {name.lower(): name for name in (*pages, *(entry.id for entry in (*_entries(), *sections())))}
    close = difflib.get_close_matches(key.lower(), names, n=3)
    return f" Did you mean {' or '.join(names[name] for name in close)}?" if close else " Try it without an argument."


class _Paper:
    """A terminal, or a file that looks like one: lines of a width, bold and dim only where they show."""

    def __init__(self, out: TextIO, width: int) -> None:
        self._out = out
        self._ansi = out.isatty()
        self.width = max(width, 40)

    def bold(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self._ansi else text

    def dim(self, text: str) -> str:
        return f"\x1b[2m{text}\x1b[0m" if self._ansi else text

    def line(self, text: str = "") -> None:
        self._out.write(f"{text}\n")

    def heading(self, name: str, title: str = "") -> None:
        self.line(f"{self.bold(name)}  {title}" if title else self.bold(name))

    def words(self, text: str, *, label: str = "", indent: int) -> None:
        """``text`` wrapped at ``indent``, with ``label`` (of that many visible columns) before its first line."""
        wrapped = textwrap.wrap(text, self.width - indent, break_long_words=False, break_on_hyphens=False)
        for number, line in enumerate(wrapped):
            self.line(f"{' ' * indent if number or not label else label}{line}")


def _overview(paper: _Paper) -> None:
    rows = [(section, [found for found in requirements() if found.section == section.id]) for section in sections()]
    paper.heading("Agent Client Protocol v1")
    paper.words(_summary(requirements()), indent=0)
    paper.line()
    paper.line(paper.dim(f"{'':8} {'':35}{'all':>5}{'MUST':>6}{'in code':>9}{'tested':>8}{'open':>6}"))
    for section, found in rows:
        paper.line(f"{paper.bold(f'{section.id:8}')} {section.title:35}{_counts(found)}")
    paper.line(f"{'':8} {'':35}{_counts(requirements())}")
    paper.line()
    for line in HINT.splitlines():
        paper.line(paper.dim(line))


def _counts(found: Sequence[Requirement]) -> str:
    musts = sum(entry.level in (Level.MUST, Level.MUST_NOT) for entry in found)
    in_code = sum(bool(enforced_at(entry.id)) for entry in found)
    tested = sum(bool(entry.tests) for entry in found)
    still_open = sum(entry.is_open for entry in found)
    return f"{len(found):5}{musts:6}{in_code:9}{tested:8}{still_open:6}"


def _summary(found: Sequence[Requirement]) -> str:
    """Such as ``68 requirements: 25 MUST, 43 FACT; 60 tested, 2 not testable, 6 open``."""
    levels = Counter(entry.level for entry in found)
    states = {
        "tested": sum(bool(entry.tests) for entry in found),
        "not testable": sum(entry.not_testable is not None for entry in found),
        "open": sum(entry.is_open for entry in found),
    }
    noun = "requirement" if len(found) == 1 else "requirements"
    by_level = ", ".join(f"{levels[level]} {level.value}" for level in Level if levels[level])
    by_state = ", ".join(f"{count} {state}" for state, count in states.items() if count)
    return f"{len(found)} {noun}: {by_level}; {by_state}"


def _page(paper: _Paper, source: str, found: Sequence[Requirement]) -> None:
    paper.line(paper.dim(page_url(source)))
    paper.words(_summary(found), indent=0)
    last = None
    for entry in found:
        if entry.source != last:
            paper.line()
            paper.line(paper.dim(entry.source))
            last = entry.source
        label = f"  {paper.bold(f'{entry.id:11}')}{entry.level.value:12}{entry.binds:8}"
        note = " (open)" if entry.is_open else " (not testable)" if entry.not_testable else ""
        paper.words(entry.statement + note, label=label, indent=33)


def _decisions(paper: _Paper, listed: Sequence[Decision]) -> None:
    for entry in listed:
        paper.words(entry.question, label=f"{paper.bold(entry.id)}  ", indent=6)
        paper.words(entry.decision, indent=8)


def _entry(paper: _Paper, entry: Requirement | Decision) -> None:
    if isinstance(entry, Decision):
        paper.words(entry.question, label=f"{paper.bold(entry.id)}  ", indent=6)
        paper.line()
        paper.words(entry.decision, indent=2)
        paper.line()
    else:
        bound = {"both": "both sides", "SDK": "whoever writes a transport"}.get(entry.binds, f"the {entry.binds}")
        paper.heading(entry.id, f"{entry.level.value}, binds {bound}")
        paper.line()
        paper.words(entry.statement, indent=2)
        paper.line()
        _list(paper, "Source", [page_url(entry.source), *(MARKS[mark] for mark in entry.marks)])
    _list(paper, "Code", [_place(paper, place) for place in enforced_at(entry.id)])
    if isinstance(entry, Requirement):
        _list(paper, "Tests", entry.tests or (f"none: {entry.not_testable}" if entry.not_testable else "none yet",))


def _place(paper: _Paper, place: Place) -> str:
    room = paper.width - len(f"{'':8}{place}  ")
    return f"{place}  {paper.dim(place.text if len(place.text) <= room else f'{place.text[: room - 3]}...')}"


def _list(paper: _Paper, label: str, lines: Sequence[str]) -> None:
    for number, line in enumerate(lines or ("not named",)):
        paper.line(f"{'' if number else label:8}{line}")
