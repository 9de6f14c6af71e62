"""The reference agent's slash commands: what one is, how its input is read, and those that only talk.

https://agentclientprotocol.com/protocol/slash-commands
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import attrs
import trio

import acp_ref as acp
from acp_ref.mcp_servers import McpConnection
from acp_ref.schema import (
    AvailableCommand,
    PlanEntryPriority,
    PlanEntryStatus,
    SessionConfigId,
    SessionModeId,
    UnstructuredCommandInput,
)

__all__ = ["CommandError", "SlashCommand", "UsageError", "needs", "take_word", "words"]

Run: TypeAlias = Callable[[acp.PromptTurn, str], Awaitable[None]]
"""Carries out a command of the turn, given the text after its name."""


class CommandError(Exception):
    """The command cannot be carried out. The text tells the user why; it is the answer."""


class UsageError(CommandError):
    """The input makes no sense. The answer is how to use the command."""


@attrs.frozen
class SlashCommand:
    """A slash command."""

    name: str
    """Its name, without the slash."""
    hint: str
    """What comes after the name; empty when nothing does."""
    description: str
    """What it does, for people to read."""
    run: Run
    """Carries it out; raises CommandError when that cannot be."""

    @property
    def usage(self) -> str:
        """How to type it."""
        return f"/{self.name} {self.hint}".rstrip()

    def as_available(self) -> AvailableCommand:
        """What the client is told of it (SLASH-02)."""
        hint = UnstructuredCommandInput(hint=self.hint) if self.hint else None
        return AvailableCommand(name=self.name, description=self.description, input=hint)


# ------------------------------------------------------------------------------------------------------------- input

WORD: Final = re.compile(r'\s*(?:"([^"]*)"|(\S+))\s?')


def take_word(text: str) -> tuple[str, str]:
    """The first word of ``text``, and the rest as it is; in double quotes a word may hold white space.

    Raises:
      UsageError: there is no word.
    """
    match = WORD.match(text)
    if match is None:
        raise UsageError
    quoted, bare = match.groups()
    return bare if quoted is None else quoted, text[match.end() :]


def words(text: str) -> list[str]:
    """All words of ``text``."""
    found: list[str] = []
    while text.strip():
        word, text = take_word(text)
        found.append(word)
    return found


def whole_number(text: str) -> int:
    """``text`` as a number of things.

    Raises:
      UsageError: it is none.
    """
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise UsageError
    return int(text)


def needs(*, announced: bool, capability: str) -> None:
    """Go on only with what the client announced (INIT-13).

    Raises:
      CommandError: it did not.
    """
    if not announced:
        raise CommandError(f"This client cannot do that: it did not announce {capability}.")


# ---------------------------------------------------------------------------------------------------------- commands


async def echo(turn: acp.PromptTurn, text: str) -> None:
    """Say ``text``."""
    if not text:
        raise UsageError
    await turn.send_text(text)


async def stream(turn: acp.PromptTurn, text: str) -> None:
    """Say something in many pieces."""
    for number in range(1, whole_number(text.strip()) + 1):
        await turn.send_text(f"chunk {number}")


async def sleep(turn: acp.PromptTurn, text: str) -> None:
    """Do nothing for a while, as a slow model would; to be cancelled."""
    try:
        seconds = float(text)
    except ValueError:
        raise UsageError from None
    if not 0 <= seconds < math.inf:  # not a number is neither
        raise UsageError
    await trio.sleep(seconds)
    await turn.send_text(f"Slept for {seconds:g} seconds.")


async def where(turn: acp.PromptTurn, text: str) -> None:
    """Tell the session's directories (SETUP-17)."""
    cwd, *others = turn.session.roots.roots
    await turn.send_text("\n".join([f"Working directory: {cwd}", *(f"Additional root: {root}" for root in others)]))


async def mcp(turn: acp.PromptTurn, text: str) -> None:
    """Tell how each MCP server does, and why one failed."""
    servers = turn.session.mcp
    await turn.send_text("\n".join(map(describe, servers)) if len(servers) else "This session has no MCP servers.")


def describe(server: McpConnection) -> str:
    """One line about an MCP server."""
    if server.failure is not None:
        return f"- {server.name}: {server.state.value}: {server.failure}"
    return f"- {server.name}: {server.state.value}, tools: {', '.join(tool.name for tool in server.tools) or 'none'}"


STEPS: Final = {
    "Listen to the question": PlanEntryPriority.HIGH,
    "Think of nothing else": PlanEntryPriority.LOW,
    "Say it again": PlanEntryPriority.MEDIUM,
}


async def plan(turn: acp.PromptTurn, text: str) -> None:
    """Make a plan and carry it out; each update has all of it (PLAN-04)."""
    pending, in_progress, completed = PlanEntryStatus.PENDING, PlanEntryStatus.IN_PROGRESS, PlanEntryStatus.COMPLETED
    for statuses in (
        (in_progress, pending, pending),
        (completed, in_progress, pending),
        (completed, completed, in_progress),
        (completed, completed, completed),
    ):
        await turn.send_plan(
            *(
                acp.PlanEntry(content=step, priority=priority, status=status)
                for (step, priority), status in zip(STEPS.items(), statuses, strict=True)
            )
        )
    await turn.send_text("The plan is carried out.")


async def mode(turn: acp.PromptTurn, text: str) -> None:
    """Go into another mode by itself (MODE-05)."""
    mode_id, _ = take_word(text)
    try:
        await turn.session.set_mode(SessionModeId(mode_id))
    except acp.LocalProtocolError as exc:
        raise CommandError(f"That is not possible: {exc}.") from exc
    await turn.send_text(f"The mode is {mode_id} now.")


SWITCH: Final = {"on": True, "true": True, "off": False, "false": False}


async def set_option(turn: acp.PromptTurn, text: str) -> None:
    """Change a config option by itself (CONF-20)."""
    config_id, rest = take_word(text)
    value, _ = take_word(rest)
    options = turn.session.config_options
    try:
        is_switch = options is not None and isinstance(options.current(SessionConfigId(config_id)), bool)
        await turn.session.set_config_option(
            SessionConfigId(config_id), SWITCH.get(value.lower(), value) if is_switch else value
        )
    except acp.LocalProtocolError as exc:
        raise CommandError(f"That is not possible: {exc}.") from exc
    await turn.send_text(f"{config_id} is {value} now.")


async def title(turn: acp.PromptTurn, text: str) -> None:
    """Name the session."""
    if not text.strip():
        raise UsageError
    await turn.session.set_title(text.strip())
    await turn.send_text(f"This session is called {text.strip()!r} now.")
