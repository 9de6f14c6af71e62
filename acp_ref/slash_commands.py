"""Slash Commands.

https://agentclientprotocol.com/protocol/slash-commands

A command is text in an ordinary prompt: ``/name input``. Names are kept without the slash and sent with it (D-50).
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from acp_ref.schema import AvailableCommand, ContentBlock, TextContent

__all__ = ["Command", "bare_name", "command_prompt", "parse_command"]


@attrs.frozen(kw_only=True)
class Command:
    """A slash command that a prompt begins with."""

    command: AvailableCommand
    """What was advertised."""
    input: str
    """All text after its name, as it was written (SLASH-06); empty when there is none."""

    @property
    def name(self) -> str:
        """Its name, without the slash."""
        return bare_name(self.command.name)


def bare_name(name: str) -> str:
    """The name of a command without the slash that some agents put before it (D-50)."""
    return name.removeprefix("/")


def parse_command(prompt: Sequence[ContentBlock], commands: Sequence[AvailableCommand]) -> Command | None:
    """The command that the user runs with ``prompt``, or None when it is no command, or none of ``commands``.

    The first text of the prompt tells (SLASH-05); other blocks may stand around it (SLASH-04). Where the names of
    several commands fit, it is the longest (D-50). A name ends where the text does or white space follows, and the
    one space or line end that parts it from the input belongs to neither.
    """
    text = next((block.text for block in prompt if isinstance(block, TextContent)), "")
    if not text.startswith("/"):
        return None
    for command in sorted(commands, key=lambda command: len(bare_name(command.name)), reverse=True):
        name = bare_name(command.name)
        rest = text[1 + len(name) :]
        if name and text.startswith(name, 1) and (not rest or rest[0].isspace()):
            return Command(command=command, input=rest[2:] if rest.startswith("\r\n") else rest[1:])
    return None


def command_prompt(name: str, text: str = "") -> TextContent:
    """The block to put into a prompt to run the command ``name`` with the input ``text`` (SLASH-04).

    Raises:
      ValueError: ``name`` is empty or ends in white space, so nobody could tell it from its input.
    """
    name = bare_name(name)
    if not name or name[-1].isspace():
        raise ValueError(f"{name!r} is no name of a command")
    return TextContent(text=f"/{name} {text}" if text else f"/{name}")
