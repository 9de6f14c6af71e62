"""The register of requirements is whole, and what it says of tests and code is so."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from acp_ref import spec
from acp_ref.spec._source import named_in, places
from acp_ref.spec.show import show
from tests.register import MisplacedMark, field_notes, node_ids, stored_tests, unshown


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(argument: str | None, width: int = 100) -> str:
    out = io.StringIO()
    assert show(argument, out=out, width=width) == 0
    return out.getvalue()


# The data


def test_it_holds_all_requirements_of_the_specification() -> None:
    found = spec.requirements()
    levels = Counter(entry.level.value for entry in found)
    assert levels == {"MUST": 94, "MUST NOT": 30, "SHOULD": 56, "SHOULD NOT": 4, "MAY": 35, "FACT": 183}
    assert Counter(entry.binds for entry in found) == {"agent": 162, "client": 143, "both": 95, "SDK": 2}
    marks = Counter(mark.value for entry in found for mark in entry.marks)
    assert marks == {"seed": 42, "reworded": 2, "newest schema": 16, "rfd": 16, "differs": 9}


def test_the_requirements_of_a_section_are_numbered_without_a_gap() -> None:
    sizes = Counter(entry.section for entry in spec.requirements())
    assert [*sizes] == [section.id for section in spec.sections()]
    expected = [f"{section}-{number:02}" for section, size in sizes.items() for number in range(1, size + 1)]
    assert [entry.id for entry in spec.requirements()] == expected


def test_it_holds_all_decisions() -> None:
    expected = [*(f"D-{number:02}" for number in range(1, 51)), *(f"X-{number:02}" for number in range(1, 21))]
    assert [entry.id for entry in spec.decisions()] == expected


def test_a_requirement_is_found_by_its_id() -> None:
    found = spec.requirement("SETUP-07")
    assert (found.level, found.binds, found.page) == (spec.Level.MUST, "client", "session-setup")
    with pytest.raises(KeyError):
        spec.requirement("SETUP-99")


def test_requirements_are_found_by_page_heading_and_schema_type() -> None:
    assert [entry.id for entry in spec.on_page("schema RequestId")] == ["ERR-03", "ERR-04", "ERR-05"]
    assert [entry.id for entry in spec.on_page("session-list#checking-support")] == ["LIST-02", "LIST-03"]
    sections = {entry.section for entry in spec.on_page("tool-calls")}
    assert sections == {"TOOL", "PERM"}
    assert spec.on_page("nowhere") == ()


@pytest.mark.parametrize(
    ("source", "address"),
    [
        ("session-setup#mcp-servers", "https://agentclientprotocol.com/protocol/session-setup#mcp-servers"),
        ("schema ToolCallUpdate.name", "https://agentclientprotocol.com/protocol/schema#toolcallupdate"),
        ("rfd message-id", "https://agentclientprotocol.com/rfds/message-id"),
    ],
)
def test_a_source_has_an_address(source: str, address: str) -> None:
    assert spec.page_url(source) == address


# The tests it names


def test_every_mark_names_a_requirement() -> None:
    known = {entry.id for entry in spec.requirements()}
    unknown = {name: tests for name, tests in node_ids("spec").items() if name not in known}
    assert not unknown


def test_the_stored_tests_are_those_marked() -> None:
    assert stored_tests() == node_ids("spec"), "run: python -m tests.register --write"


def test_every_requirement_has_a_test_or_a_reason() -> None:
    lacking = [name for names in unshown().values() for name in names]
    assert not lacking, f"no test is marked with {' '.join(lacking)}"


def test_every_requirement_of_the_founding_page_has_a_test() -> None:
    assert all(entry.not_testable is None for entry in spec.requirements() if spec.Mark.SEED in entry.marks)


def test_every_must_is_named_by_the_code_that_keeps_it() -> None:
    musts = [entry.id for entry in spec.requirements() if entry.level in (spec.Level.MUST, spec.Level.MUST_NOT)]
    assert not [name for name in musts if not spec.enforced_at(name)]


def test_what_a_test_shows_is_not_called_untestable() -> None:
    marked = node_ids("spec")
    assert not [entry.id for entry in spec.requirements() if entry.not_testable and entry.id in marked]


def test_every_mark_of_a_field_note_has_a_number_that_exists() -> None:
    assert node_ids("field_note").keys() <= {note.number for note in field_notes()}


def test_a_field_note_that_a_test_shows_is_ours() -> None:
    marked = node_ids("field_note")
    assert not [note.number for note in field_notes() if note.not_ours and note.number in marked]


def test_every_field_note_has_a_test_or_a_reason() -> None:
    marked = node_ids("field_note")
    lacking = [note for note in field_notes() if note.number not in marked and note.not_ours is None]
    assert not lacking


SAMPLE: Final = """\
import pytest

pytestmark = pytest.mark.spec("GEN-01")
CASES = [pytest.param(1, marks=pytest.mark.spec("GEN-02")), 2]


@pytest.mark.spec("GEN-03", "GEN-04")
def test_plain(): ...


async def test_unmarked(): ...


@pytest.mark.parametrize("n", [pytest.param(1, marks=[pytest.mark.spec("GEN-05"), pytest.mark.field_note(7)])])
@pytest.mark.spec("GEN-06")
def test_params(n): ...


@pytest.mark.parametrize("n", CASES)
def test_constant_params(n): ...


@pytest.mark.spec("GEN-07")
class TestInside:
    pytestmark = [pytest.mark.spec("GEN-08")]

    def test_method(self): ...

    class TestDeeper:
        @pytest.mark.spec("GEN-09")
        def test_method(self): ...
"""

RECORDER: Final = """\
import json
from pathlib import Path


def pytest_collection_modifyitems(items):
    found = {}
    for item in items:
        for mark in item.iter_markers("spec"):
            for name in mark.args:
                found.setdefault(name, set()).add(item.nodeid.partition("[")[0])
    Path("found.json").write_text(json.dumps({name: sorted(tests) for name, tests in found.items()}))
"""


def test_marks_are_read_as_pytest_collects_them(tmp_path: Path) -> None:
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "test_sample.py").write_text(SAMPLE)
    (folder / "conftest.py").write_text(RECORDER)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    spec(id)\n    field_note(number)\n")
    subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        timeout=60,
    )
    collected = json.loads((tmp_path / "found.json").read_text())
    assert {name: sorted(tests) for name, tests in node_ids("spec", folder).items()} == collected
    assert node_ids("field_note", folder) == {7: ["tests/test_sample.py::test_params"]}


@pytest.mark.parametrize(
    ("name", "source", "fault"),
    [
        ("test_a.py", "@pytest.mark.spec('GEN-01')\ndef helper(): ...\n", "belongs to no test"),
        ("contract.py", "@pytest.mark.spec('GEN-01')\ndef test_it(): ...\n", "belongs to no test"),
        ("test_b.py", "@pytest.mark.spec(NAME)\ndef test_it(): ...\n", "literals only"),
    ],
)
def test_a_mark_that_would_be_lost_is_an_error(tmp_path: Path, name: str, source: str, fault: str) -> None:
    (tmp_path / name).write_text(source)
    with pytest.raises(MisplacedMark, match=fault):
        node_ids("spec", tmp_path)


# The code it names


def test_ids_are_looked_for_in_comments_and_docstrings_only() -> None:
    source = '''\
"""A module.

Of GEN-01."""
NAME = "GEN-02"  # GEN-03, D-01
LIMIT = 1
"""GEN-04: the doc of LIMIT."""
def f() -> str:
    """GEN-05."""
    return g(
        "GEN-06",  # xGEN-07, GEN-08x, GEN-099
    )
'''
    found = [(name, line) for name, line, _ in named_in(source)]
    assert found == [("GEN-01", 3), ("GEN-03", 4), ("D-01", 4), ("GEN-04", 6), ("GEN-05", 8)]


def test_a_place_is_a_line_of_this_package() -> None:
    found = spec.enforced_at("TRANS-06")
    assert found
    for place in found:
        lines = (Path(spec.__file__).parents[2] / place.path).read_text("utf-8").splitlines()
        assert lines[place.line - 1].strip() == place.text
        assert "TRANS-06" in place.text
    assert spec.enforced_at("TRANS-99") == ()


def test_every_id_named_in_the_code_exists() -> None:
    known = {entry.id for entry in spec.requirements()} | {entry.id for entry in spec.decisions()}
    prefixes = {name.partition("-")[0] for name in known}
    named = {name for name in places() if name.partition("-")[0] in prefixes}
    assert named <= known, sorted(named - known)


# On the terminal


def test_the_overview_counts_every_section() -> None:
    text = shown(None)
    for section in spec.sections():
        assert f"{section.id:8} {section.title}" in text
    assert f"{'':8} {'':35}{402:5}{124:6}" in text


@pytest.mark.parametrize("argument", ["SETUP-07", "setup-07", " Setup7 "])
def test_an_id_is_shown_whole(argument: str) -> None:
    text = shown(argument)
    assert text.startswith("SETUP-07  MUST, binds the client\n")
    assert "Before session/load the client looks at loadSession" in text
    assert "https://agentclientprotocol.com/protocol/session-setup#checking-support" in text
    for place in spec.enforced_at("SETUP-07"):
        assert str(place) in text
    for test in spec.requirement("SETUP-07").tests:
        assert test in text


def test_what_no_test_can_show_is_shown_with_the_reason() -> None:
    reason = spec.requirement("ELIC-36").not_testable
    assert reason is not None
    assert f"none: {reason}" in shown("ELIC-36")


@pytest.mark.parametrize(
    "argument", ["session-list", "Session_List", "https://agentclientprotocol.com/protocol/v1/session-list", "LIST"]
)
def test_a_page_or_a_section_is_shown_in_order(argument: str) -> None:
    text = shown(argument)
    positions = [text.index(f"LIST-{number:02}") for number in range(1, 20)]
    assert positions == sorted(positions)


def test_a_heading_is_shown_alone() -> None:
    text = shown("session-list#checking-support")
    assert "LIST-02" in text
    assert "LIST-04" not in text


def test_a_decision_is_shown_with_its_places_and_decisions_are_listed() -> None:
    assert shown("d-04").startswith("D-04  Two prompts at once")
    assert all(f"X-{number:02}  " in shown("x") for number in range(1, 21))


@pytest.mark.parametrize(
    ("argument", "suggestion"),
    [("SETUP-99", "SETUP-"), ("sesion-setup", "Did you mean session-setup"), ("%&", "Try it without")],
)
def test_what_is_not_there_gets_a_suggestion_and_status_2(argument: str, suggestion: str) -> None:
    out = io.StringIO()
    assert show(argument, out=out, width=80) == 2
    assert suggestion in out.getvalue()


@pytest.mark.parametrize("argument", ["SETUP", "schema", "D", "X", "D-12", None])
@pytest.mark.parametrize("width", [80, 100])
def test_words_keep_to_the_width(argument: str | None, width: int) -> None:
    assert max(map(len, shown(argument, width).splitlines())) <= width


def test_bold_is_for_terminals_only() -> None:
    out = Terminal()
    show("SETUP", out=out, width=80)
    assert "\x1b[1mSETUP-01" in out.getvalue()
    assert "\x1b" not in shown("SETUP")
