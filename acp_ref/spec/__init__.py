"""The register of requirements: what the specification says, the code that holds it, the tests that show it.

https://agentclientprotocol.com/protocol/overview

A comment or docstring of this package that names ``SETUP-07`` marks the line that holds that requirement, and a test
marked ``@pytest.mark.spec("SETUP-07")`` shows it. The statements stand in ``requirements.toml``, what was decided
where the specification is silent (``D-04``) or at odds with itself (``X-01``) in ``decisions.toml``; both are written
by hand. ``tests.json`` is written from the tests' marks by ``python -m tests.register --write``, so that an installed
package knows its tests. The places in the code are not stored: :func:`enforced_at` reads the source.
"""

from __future__ import annotations

import enum
import functools
import json
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Final, Literal

import attrs
import cattrs

from acp_ref.spec._source import Place, enforced_at

__all__ = [
    "Decision",
    "Level",
    "Mark",
    "Place",
    "Requirement",
    "Section",
    "decisions",
    "enforced_at",
    "on_page",
    "page_url",
    "requirement",
    "requirements",
    "sections",
]

SITE: Final = "https://agentclientprotocol.com"


class Level(enum.Enum):
    """How much a requirement demands."""

    MUST = "MUST"
    MUST_NOT = "MUST NOT"
    SHOULD = "SHOULD"
    SHOULD_NOT = "SHOULD NOT"
    MAY = "MAY"
    FACT = "FACT"
    """A plain statement that binds all the same."""


class Mark(enum.Enum):
    """What is to be known about where a requirement comes from."""

    SEED = "seed"
    """Already in the edition of the Session Setup page that this project began with."""
    REWORDED = "reworded"
    """Worded differently since that edition."""
    NEWEST_SCHEMA = "newest schema"
    """Stable in the newest schema, not yet on the pages."""
    RFD = "rfd"
    """From an RFD only."""
    DIFFERS = "differs"
    """Page and schema disagree; an ``X`` decision says which is followed."""


@attrs.frozen(kw_only=True)
class Requirement:
    """One thing the specification demands or states."""

    id: str
    """Such as ``SETUP-07``."""
    level: Level
    """How much it demands."""
    binds: Literal["agent", "client", "both", "SDK"]
    """Who has to act; ``SDK`` is whoever writes a transport."""
    statement: str
    """What it says, in our own words."""
    source: str
    """``page#heading``, ``schema Type.field`` or ``rfd name#heading``."""
    marks: tuple[Mark, ...] = ()
    """What is to be known about its source."""
    not_testable: str | None = None
    """Why no test of a library can show it."""
    tests: tuple[str, ...] = ()
    """The pytest node ids of the tests that show it."""

    @property
    def section(self) -> str:
        """The prefix of its id, such as ``SETUP``."""
        return self.id.partition("-")[0]

    @property
    def page(self) -> str:
        """The page it stands on: ``session-setup``, ``schema`` or ``rfd message-id``."""
        return "schema" if self.source.startswith("schema ") else self.source.partition("#")[0]

    @property
    def is_open(self) -> bool:
        """Whether no test shows it although one could."""
        return not self.tests and self.not_testable is None


@attrs.frozen(kw_only=True)
class Section:
    """A group of requirements, named as the page it mostly comes from."""

    id: str
    """The prefix of its requirements' ids, such as ``SETUP``."""
    title: str
    """Such as ``Session setup``."""
    source: str
    """The page it mostly comes from, written as :attr:`Requirement.source`."""


@attrs.frozen(kw_only=True)
class Decision:
    """What this project does where the specification is silent (``D``) or at odds with itself (``X``)."""

    id: str
    """Such as ``D-04`` or ``X-01``."""
    question: str
    """What is open, or what disagrees with what."""
    decision: str
    """What is done."""


def sections() -> Sequence[Section]:
    """All sections, from the general to the particular."""
    tables = _tables("requirements.toml").items()
    return tuple(_converter.structure({"id": name, **entry}, Section) for name, entry in tables if "-" not in name)


def requirements() -> Sequence[Requirement]:
    """All requirements, by section and number."""
    return tuple(_register().values())


def requirement(name: str) -> Requirement:
    """The requirement of that id; KeyError when there is none."""
    return _register()[name]


def on_page(page: str) -> Sequence[Requirement]:
    """The requirements of a page, a page's heading or a schema type, such as ``session-setup#mcp-servers``.

    ``schema`` is the page of all that is said in the schema only. Empty when nothing comes from there.
    """
    return tuple(found for found in requirements() if page in {found.page, found.source})


def decisions() -> Sequence[Decision]:
    """All decisions: the ``D`` first, then the ``X``."""
    tables = _tables("decisions.toml").items()
    return tuple(_converter.structure({"id": name, **entry}, Decision) for name, entry in tables)


def page_url(source: str) -> str:
    """The address of a :attr:`Requirement.source` on the specification's site."""
    kind, _, name = source.rpartition(" ")
    if kind == "schema":
        return f"{SITE}/protocol/schema#{name.partition('.')[0].lower()}"
    if kind == "rfd":
        return f"{SITE}/rfds/{name}"
    return f"{SITE}/protocol/{name}"


_converter: Final = cattrs.Converter(forbid_extra_keys=True)


def _text(name: str) -> str:
    return resources.files(__name__).joinpath(name).read_text("utf-8")


@functools.cache
def _tables(name: str) -> Mapping[str, Mapping[str, object]]:
    return tomllib.loads(_text(name))


@functools.cache
def _register() -> Mapping[str, Requirement]:
    tests: Mapping[str, Sequence[str]] = json.loads(_text("tests.json"))
    return {
        name: _converter.structure({"id": name, "tests": tests.get(name, ()), **entry}, Requirement)
        for name, entry in _tables("requirements.toml").items()
        if "-" in name
    }
