"""What a person can tell the client itself: lines that begin with a colon. All else goes to the agent.

https://agentclientprotocol.com/protocol/overview#client
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol, TypeAlias

import attrs

import acp_ref as acp
from acp_ref.reference_client.conversation import config_value
from acp_ref.reference_client.screen import Screen, Style
from acp_ref.reference_client.text import one_line
from acp_ref.schema import SessionConfigBoolean, SessionConfigId, SessionConfigSelect, SessionModeId
from acp_ref.session_config_options import flatten

__all__ = ["Desk", "is_command", "list_sessions", "run_command"]


class Desk(Protocol):
    """What the commands work on."""

    @property
    def agent(self) -> acp.ClientSide:
        """The agent."""
        ...

    @property
    def session(self) -> acp.ClientSession:
        """The session that is open."""
        ...

    @property
    def screen(self) -> Screen:
        """Where to answer."""
        ...

    def tell_settings(self) -> None:
        """Tell what has changed of the session's mode and config options."""
        ...

    def leave(self) -> None:
        """End the conversation."""
        ...

    async def log_in(self) -> bool:
        """Let the person log in; False when they did not."""
        ...


Run: TypeAlias = Callable[[Desk, str], Awaitable[bool]]
"""Carries out a command with what stands behind its name; False when that was not possible, which was told."""


@attrs.frozen
class Command:
    """A command to the client."""

    usage: str
    """How to type it."""
    description: str
    """What it does."""
    run: Run
    """Does it."""


def is_command(line: str) -> bool:
    """Whether ``line`` is one of the commands here."""
    return line.startswith(":") and line[1:].partition(" ")[0].rstrip() in COMMANDS


async def run_command(desk: Desk, line: str) -> bool:
    """Carry out ``line``, which begins with a colon; False when that was not possible, which was told.

    Raises:
      trio.BrokenResourceError, trio.ClosedResourceError: the connection is over.
    """
    name, _, argument = line[1:].partition(" ")
    desk.screen.begin("aside")
    command = COMMANDS.get(name.rstrip())
    if command is None:
        desk.screen.line(
            f"There is no command :{one_line(name)}, see :help. To say it to the agent, type ::", Style.RED
        )
        return False
    try:
        return await command.run(desk, argument.strip())
    except (acp.LocalProtocolError, acp.RemoteProtocolError, acp.RequestError) as exc:
        desk.screen.line(f"That is not possible: {exc}", Style.RED)
        return False


# ------------------------------------------------------------------------------------------------------- the commands


async def show_help(desk: Desk, argument: str) -> bool:
    """``:help``."""
    screen = desk.screen
    screen.line("Lines that begin with a colon are for this client (:: is a colon for the agent):", Style.BOLD)
    for command in COMMANDS.values():
        screen.line(f"{command.usage:<16}  {command.description}", gutter="  ")
    available = desk.session.state.available_commands
    if available:
        screen.line("The agent's own commands:", Style.BOLD)
        for offered in available:
            hint = f" {offered.input.hint}" if offered.input is not None else ""
            screen.line(one_line(f"/{offered.name}{hint}").ljust(16) + f"  {offered.description}", gutter="  ")
    return True


async def mode(desk: Desk, argument: str) -> bool:
    """``:mode``, also for an agent whose modes are a config option."""
    choice = desk.session.state.mode_choice
    if choice is None:
        desk.screen.line("The agent has no modes.")
        return False
    if not argument:
        for known in choice.modes:
            _choice(desk.screen, known.id, known.name, known.description, current=known.id == choice.current)
        return True
    if choice.config_id is not None:
        await desk.session.set_config_option(choice.config_id, argument)
    else:
        await desk.session.set_mode(SessionModeId(argument))
    desk.tell_settings()
    return True


async def set_option(desk: Desk, argument: str) -> bool:
    """``:set``."""
    options = {option.id: option for option in desk.session.state.config_options if not isinstance(option, acp.Unknown)}
    config_id, _, value = argument.partition(" ")
    option = options.get(SessionConfigId(config_id))
    if option is None and config_id:
        desk.screen.line(f"The agent has no config option {one_line(config_id)!r}.", Style.RED)
        return False
    if not value:
        for known in options.values() if option is None else [option]:
            _show_option(desk.screen, known)
        return True
    chosen = SWITCH.get(value.strip().lower(), value) if isinstance(option, SessionConfigBoolean) else value.strip()
    await desk.session.set_config_option(SessionConfigId(config_id), chosen)
    desk.tell_settings()
    return True


SWITCH: Final = {"on": True, "true": True, "off": False, "false": False}


def _show_option(screen: Screen, option: SessionConfigSelect | SessionConfigBoolean) -> None:
    screen.line(f"{one_line(option.id)}  {one_line(option.name)}: {config_value(option)}", Style.BOLD)
    if option.description:
        screen.line(option.description, Style.DIM, gutter="  ")
    if isinstance(option, SessionConfigSelect):
        for value in flatten(option.options):
            _choice(screen, value.value, value.name, value.description, current=value.value == option.current_value)
    else:
        screen.line("on or off", Style.DIM, gutter="  ")


def _choice(screen: Screen, value: str, name: str, description: str | None, *, current: bool) -> None:
    mark = "•" if current else " "
    explained = f": {description}" if description else ""
    screen.line(f"{mark} {one_line(value)}  {one_line(name)}{one_line(explained)}", gutter="  ")


async def sessions(desk: Desk, argument: str) -> bool:
    """``:sessions``."""
    await list_sessions(desk.agent, desk.screen, argument or None)
    return True


async def list_sessions(agent: acp.ClientSide, screen: Screen, cwd: str | None) -> None:
    """Write a line for each session that the agent knows.

    Raises:
      CapabilityError, RequestError, RemoteProtocolError, trio.BrokenResourceError, trio.ClosedResourceError: as
        :meth:`ClientSide.list_sessions`.
    """
    found = False
    async for info in agent.list_sessions(cwd):
        found = True
        columns = (info.session_id, info.updated_at or "-", one_line(info.title or "-"), info.cwd)
        screen.line("\t".join(map(one_line, columns)))
    if not found:
        screen.line("(no sessions)", Style.DIM)


async def delete(desk: Desk, argument: str) -> bool:
    """``:delete``."""
    if not argument:
        desk.screen.line("Which one? See :sessions.")
        return False
    await desk.agent.delete_session(acp.SessionId(argument))
    desk.screen.line("The session is deleted.", Style.DIM)
    return True


async def log_in(desk: Desk, argument: str) -> bool:
    """``:login``."""
    return await desk.log_in()


async def log_out(desk: Desk, argument: str) -> bool:
    """``:logout``."""
    await desk.agent.logout()
    desk.screen.line("You are logged out.", Style.DIM)
    return True


async def leave(desk: Desk, argument: str) -> bool:
    """``:quit``."""
    desk.leave()
    return True


COMMANDS: Final[Mapping[str, Command]] = {
    "help": Command(":help", "show this", show_help),
    "mode": Command(":mode [ID]", "change the agent's mode, or show the modes", mode),
    "set": Command(":set [ID [VALUE]]", "change a config option, or show the options", set_option),
    "sessions": Command(":sessions [DIR]", "list the sessions that the agent knows", sessions),
    "delete": Command(":delete ID", "delete a session for good", delete),
    "login": Command(":login", "log in", log_in),
    "logout": Command(":logout", "log out", log_out),
    "quit": Command(":quit", "leave, as Ctrl-D does", leave),
}
