"""Authentication: what an agent offers, and how a client goes through it.

https://agentclientprotocol.com/protocol/authentication

Whether a login is needed shows only when a call is refused with -32000 (ERR-10). The user is then asked to choose one
of the agent's methods. One of type agent is carried out by the agent itself, on the same connection, and the call is
made once more. One of type terminal is carried out here, by a process of its own, and the agent has to be started again
to know of it: :func:`acp_ref.client.use_agent_process` does all of that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar, final

import attrs
import trio

from acp_ref.errors import AuthRequired, LocalProtocolError
from acp_ref.schema import AuthMethod, AuthMethodAgent, AuthMethodId, AuthMethodTerminal, Unknown

if TYPE_CHECKING:
    from acp_ref.client_side import ClientSide

__all__ = ["Authentication", "ChooseLogin", "Logins", "TerminalLoginRequired"]

T = TypeVar("T")

ChooseLogin: TypeAlias = Callable[[Sequence[AuthMethod]], Awaitable[AuthMethod | None]]
"""Asks the user by which of the agent's methods to log in; None when by none of them. A method of a type that is not
known here is an ``Unknown``: it can be shown, but not be chosen (D-19)."""


def _distinct(instance: object, attribute: object, methods: Sequence[AuthMethod]) -> None:
    ids = [method.id for method in methods if not isinstance(method, Unknown)]
    if len(set(ids)) != len(ids):
        raise ValueError(f"two authentication methods have the same id: {', '.join(ids)}")  # AUTH-01


@attrs.frozen(kw_only=True)
class Authentication:
    """How a client logs in at an agent.

    Raises:
      ValueError: two methods have the same id.
    """

    methods: Sequence[AuthMethod] = attrs.field(validator=_distinct)
    """What is offered (AUTH-01). Terminal methods are shown only to clients that can run them (AUTH-06, AUTH-07). Their
    ``args`` should make the agent's own program log in, do nothing else, and exit with 0 when it worked (AUTH-17)."""
    authenticate: Callable[[AuthMethodId], Awaitable[None]]
    """Carries out the login for a method that is not of type terminal; raises RequestError when it fails."""
    logout: Callable[[], Awaitable[None]] | None = None
    """Ends the login; announced when given (AUTH-03)."""
    required: bool = True
    """Whether sessions need a login: without one they are refused with -32000 (ERR-10)."""
    logged_in: Callable[[], bool] | None = None
    """Whether there is a login now, for an agent that keeps one itself, such as one from a terminal login (AUTH-15) or
    one that expires. It is asked whenever a login is needed. Without it there is one from ``authenticate`` to
    ``logout``, on each connection for itself."""


class TerminalLoginRequired(AuthRequired):
    """The user chose a terminal method: close the connection, run the login, and connect again (AUTH-12, AUTH-15)."""

    method: AuthMethodTerminal
    """What was chosen."""

    def __init__(self, method: AuthMethodTerminal) -> None:
        super().__init__(f"Authentication required, by {method.name!r} in a terminal")
        self.method = method


@final
class Logins:
    """The logins on one connection of a client: one at a time, each for all calls that were refused before it."""

    def __init__(self, agent: ClientSide, choose: ChooseLogin | None) -> None:
        self._agent = agent
        self._choose = choose
        self._lock = trio.Lock()
        self._count = 0

    async def retried(self, call: Callable[[], Awaitable[T]]) -> T:
        """What ``call`` gives; when it needs a login, let the user log in and call once more (ERR-10, AUTH-23).

        Raises:
          AuthRequired: there is no way to log in, or nobody to choose one, or the user chose none; or the second call
            needs a login too.
          TerminalLoginRequired: the user chose a terminal method.
          RequestError: the login failed.
          and what ``call`` raises.
        """
        before = self._count
        try:
            return await call()
        except AuthRequired as exc:
            refusal = exc
        async with self._lock:
            if self._count == before:
                await self._log_in(refusal)
                self._count += 1
        return await call()

    async def _log_in(self, refusal: AuthRequired) -> None:
        methods = self._agent.auth_methods
        if not methods:  # D-47
            raise AuthRequired(f"{refusal.message}, but the agent offers no way to log in", refusal.data) from refusal
        chosen = None if self._choose is None else await self._choose(methods)
        if chosen is None:
            raise refusal
        if isinstance(chosen, AuthMethodTerminal):
            raise TerminalLoginRequired(chosen)  # AUTH-02, AUTH-09, AUTH-19: never by authenticate
        if not isinstance(chosen, AuthMethodAgent):
            raise LocalProtocolError("a method of a type that is not known here cannot be used")  # D-19
        await self._agent.authenticate(chosen.id)  # AUTH-08
