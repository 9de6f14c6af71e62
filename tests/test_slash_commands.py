"""Slash commands in a prompt, from both sides."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_ref.schema import AvailableCommand, ContentBlock, ResourceLink, TextContent
from acp_ref.slash_commands import Command, bare_name, command_prompt, parse_command


def commands(*names: str) -> Sequence[AvailableCommand]:
    return [AvailableCommand(name=name, description="d") for name in names]


KNOWN = commands("web", "git", "git:commit", "git log", "/slashed")
LINK = ResourceLink(name="f", uri="file:///f")


def parse(*prompt: str | ContentBlock, known: Sequence[AvailableCommand] = KNOWN) -> tuple[str, str] | None:
    found = parse_command([TextContent(text=block) if isinstance(block, str) else block for block in prompt], known)
    return None if found is None else (found.name, found.input)


@pytest.mark.spec("SLASH-05", "SLASH-06")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/web", ("web", "")),
        ("/web agent protocol", ("web", "agent protocol")),
        ("/web  two  spaces ", ("web", " two  spaces ")),
        ("/web\nnext line\n", ("web", "next line\n")),
        ("/web\r\nnext line", ("web", "next line")),
        ("/web\tx", ("web", "x")),
        ("/web ", ("web", "")),
        ("/web /git x", ("web", "/git x")),
    ],
)
def test_all_text_behind_the_name_is_the_input_as_it_was_written(text: str, expected: tuple[str, str]) -> None:
    assert parse(text) == expected


@pytest.mark.spec("SLASH-05")
@pytest.mark.parametrize("text", ["web x", " /web x", "/", "/ web", "//web", "/website", "/unknown x", "/Web", ""])
def test_what_is_no_advertised_command_is_ordinary_text(text: str) -> None:
    assert parse(text) is None


@pytest.mark.spec("SLASH-05")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/git x", ("git", "x")),
        ("/git:commit x", ("git:commit", "x")),
        ("/git log x", ("git log", "x")),
        ("/git logs", ("git", "logs")),
        ("/git:x", None),
    ],
)
def test_the_longest_advertised_name_wins(text: str, expected: tuple[str, str] | None) -> None:
    assert parse(text) == expected


@pytest.mark.spec("SLASH-04")
def test_other_blocks_may_stand_around_the_command() -> None:
    assert parse(LINK, "/web x", LINK, "/git y") == ("web", "x")
    assert parse("words", "/web x") is None
    assert parse(LINK) is None
    assert parse() is None


def test_a_name_that_was_advertised_with_its_slash_is_found_without() -> None:
    assert parse("/slashed x") == ("slashed", "x")
    assert parse("/x", known=commands("", "/")) is None


def test_the_command_that_was_advertised_comes_along() -> None:
    found = parse_command([TextContent(text="/git x")], KNOWN)
    assert found == Command(command=KNOWN[1], input="x")


@pytest.mark.spec("SLASH-02")
def test_a_command_has_a_name_and_a_description_and_may_have_no_input() -> None:
    (command,) = commands("web")
    assert (command.name, command.description, command.input) == ("web", "d", None)


@pytest.mark.spec("SLASH-04")
def test_a_command_is_sent_with_its_slash() -> None:
    assert command_prompt("web") == TextContent(text="/web")
    assert command_prompt("/web", "a b") == TextContent(text="/web a b")


@pytest.mark.parametrize("name", ["", "/", "web ", "web\n"])
def test_a_name_that_nobody_could_find_again_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no name of a command"):
        command_prompt(name)


@pytest.mark.spec("SLASH-04", "SLASH-06")
@given(st.text(min_size=1).filter(lambda name: not bare_name(name)[-1:].isspace() and bare_name(name)), st.text())
def test_what_the_client_sends_the_agent_reads(name: str, words: str) -> None:
    found = parse_command([command_prompt(name, words)], commands(name))
    assert found is not None
    assert (found.name, found.input) == (bare_name(name), words)
