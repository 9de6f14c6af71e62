"""The agent's permission requests and its login, put to the person at the terminal.

https://agentclientprotocol.com/protocol/tool-calls#requesting-permission
https://agentclientprotocol.com/protocol/authentication

A permission request shows the whole tool call before its options. Everything that is not a choice is a no.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, final

import acp_ref as acp
from acp_ref.authentication import TerminalLoginRequired
from acp_ref.permissions import answer_with, select
from acp_ref.reference_client.conversation import Conversation
from acp_ref.reference_client.dialogue import Dialogue
from acp_ref.reference_client.screen import Screen, Style
from acp_ref.reference_client.text import one_line
from acp_ref.schema import AuthMethodAgent, AuthMethodTerminal

__all__ = ["Permissions", "log_in"]

ANSWERS: Final[Mapping[str, acp.PermissionOptionKind]] = {
    "allow": acp.PermissionOptionKind.ALLOW_ONCE,
    "reject": acp.PermissionOptionKind.REJECT_ONCE,
}
"""What ``--permission`` says, unless that is to ask."""


@final
class Permissions:
    """Answers permission requests.

    Args:
      policy: ``allow``, ``reject`` or ``ask``; when there is nobody to ask, the answer is no.
      conversation: gives the conversation of a session.
    """

    def __init__(
        self, policy: str, dialogue: Dialogue, screen: Screen, conversation: Callable[[acp.SessionId], Conversation]
    ) -> None:
        self._policy = policy
        self._dialogue = dialogue
        self._screen = screen
        self._conversation = conversation

    async def ask(self, request: acp.RequestPermissionRequest) -> acp.PermissionOption | None:
        """The option that was chosen, None for none."""
        conversation = self._conversation(request.session_id)
        kind = ANSWERS.get(self._policy)
        if kind is None and self._dialogue.interactive:
            async with self._dialogue.asking():
                conversation.tell_tool_call(request.tool_call.tool_call_id)
                return await self._choose(request)
        conversation.tell_tool_call(request.tool_call.tool_call_id)
        if kind is None:
            kind = acp.PermissionOptionKind.REJECT_ONCE
            reason = "nobody is here to ask"
        else:
            reason = f"--permission {self._policy}"
        option = select(request.options, kind)
        chosen = "rejected, without an option that says so" if option is None else one_line(option.name)
        self._screen.line(f"{chosen}  ({reason})", Style.DIM, gutter="  ")
        return await answer_with(kind)(request)

    async def _choose(self, request: acp.RequestPermissionRequest) -> acp.PermissionOption | None:
        self._screen.line("May the agent do this?", Style.YELLOW)
        names = [
            one_line(option.name)
            + ("" if isinstance(option.kind, acp.PermissionOptionKind) else "  (of a kind that is never a yes)")
            for option in request.options
        ]
        index = await self._dialogue.choose(names)
        return None if index is None else request.options[index]


async def log_in(agent: acp.ClientSide, required: acp.AuthRequired | None, dialogue: Dialogue, screen: Screen) -> bool:
    """Let the person choose how to log in, and do it. False when they do not, or cannot.

    Args:
      required: the agent's refusal to go on without a login, None when the person began this.

    Raises:
      TerminalLoginRequired: by a login that is a program of its own (AUTH-12).
      trio.BrokenResourceError, trio.ClosedResourceError, RemoteProtocolError: see :meth:`Connection.request`.
    """
    screen.begin("question")
    if required is not None:
        screen.line(f"The agent wants you to log in: {one_line(required.message)}", Style.YELLOW)
    methods = [method for method in agent.auth_methods if isinstance(method, AuthMethodAgent | AuthMethodTerminal)]
    if not methods:
        screen.line("It offers no login that this client can do.", Style.YELLOW)  # D-19, D-47
        return False
    names = [method.name + (f": {method.description}" if method.description else "") for method in methods]
    if not dialogue.interactive:
        screen.line(f"Nobody is here to choose one of: {', '.join(map(one_line, names))}", Style.YELLOW)
        return False
    while True:
        async with dialogue.asking():
            index = await dialogue.choose(names, "Log in by")
        if index is None:
            return False
        method = methods[index]
        if isinstance(method, AuthMethodTerminal):
            raise TerminalLoginRequired(method)  # AUTH-19
        try:
            await agent.authenticate(method.id)
        except acp.RequestError as exc:
            screen.line(f"The login failed: {exc}", Style.RED)
        else:
            screen.line(f"Logged in by {one_line(method.name)}.", Style.GREEN)
            return True
