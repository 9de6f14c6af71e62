"""Slash Commands.

https://agentclientprotocol.com/protocol/slash-commands
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from acp_ref.schema._base import DefaultOnError, Meta, SkipInvalidItems
from acp_ref.schema._frozen import frozen


@frozen(kw_only=True)
class UnstructuredCommandInput:
    """All text after the command's name is its input."""

    hint: str
    """What to show while there is none yet."""
    meta: Meta = None


AvailableCommandInput: TypeAlias = UnstructuredCommandInput
"""What a command takes; today only text."""


@frozen(kw_only=True)
class AvailableCommand:
    """A command that a prompt may begin with."""

    name: str
    """Its name, without the slash (D-50)."""
    description: str
    """What it does, for people to read."""
    input: DefaultOnError[AvailableCommandInput | None] = None
    """What it takes; None when it takes nothing."""
    meta: Meta = None


@frozen(kw_only=True)
class AvailableCommandsUpdate:
    """The commands of the session as they are now."""

    TAG: ClassVar = ("sessionUpdate", "available_commands_update")

    available_commands: SkipInvalidItems[list[AvailableCommand]]
    """All of them."""
    meta: Meta = None
