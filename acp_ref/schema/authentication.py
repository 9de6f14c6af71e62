"""Authentication.

https://agentclientprotocol.com/protocol/authentication
"""

from __future__ import annotations

from typing import ClassVar, NewType, TypeAlias

import attrs

from acp_ref.schema._base import DefaultOnError, DefaultOnNull, Meta, OmitEmpty, Unknown, Untagged
from acp_ref.schema._frozen import frozen

AuthMethodId = NewType("AuthMethodId", str)
"""Names an authentication method of an agent."""


@frozen(kw_only=True)
class AuthCapabilities:
    """Which opt-in authentication methods a client can carry out."""

    terminal: DefaultOnError[bool] = False
    """Whether it can run the agent's own command in an interactive terminal."""
    meta: Meta = None


@frozen(kw_only=True)
class LogoutCapabilities:
    """Announces ``logout``."""

    meta: Meta = None


@frozen(kw_only=True)
class AgentAuthCapabilities:
    """What an agent offers besides ``authenticate``."""

    logout: DefaultOnError[LogoutCapabilities | None] = None
    """Not None when the agent handles ``logout``."""
    meta: Meta = None


@frozen(kw_only=True)
class AuthMethodAgent:
    """A method the agent carries out by itself when ``authenticate`` names it."""

    UNTAGGED: ClassVar = Untagged("type", reads="agent")  # AUTH-04

    id: AuthMethodId
    """What ``authenticate`` names."""
    name: str
    """For people to read."""
    description: DefaultOnError[str | None] = None
    """More about it, for people to read."""
    meta: Meta = None


@frozen(kw_only=True)
class AuthMethodTerminal:
    """A method the client carries out by running the agent's command in a terminal; never named by ``authenticate``.

    The login succeeded if the process exits with 0.
    """

    TAG: ClassVar = ("type", "terminal")

    id: AuthMethodId
    """Tells it from the agent's other methods."""
    name: str
    """For people to read."""
    description: DefaultOnError[str | None] = None
    """More about it, for people to read."""
    args: DefaultOnNull[OmitEmpty[list[str]]] = attrs.field(factory=list[str])
    """Arguments to append to the agent's command."""
    env: DefaultOnNull[OmitEmpty[dict[str, str]]] = attrs.field(factory=dict[str, str])
    """Variables to set over the agent's environment."""
    meta: Meta = None


AuthMethod: TypeAlias = AuthMethodTerminal | AuthMethodAgent | Unknown
"""One way to log in. ``authenticate`` is never called with an unknown one (D-19)."""


@frozen(kw_only=True)
class AuthenticateRequest:
    """Log in by one of the announced methods."""

    method_id: AuthMethodId
    """The id of an :class:`AuthMethodAgent` the agent announced."""
    meta: Meta = None


@frozen(kw_only=True)
class AuthenticateResponse:
    """The login succeeded."""

    meta: Meta = None


@frozen(kw_only=True)
class LogoutRequest:
    """End the login: sessions need a new one from now on."""

    meta: Meta = None


@frozen(kw_only=True)
class LogoutResponse:
    """The login is over."""

    meta: Meta = None
