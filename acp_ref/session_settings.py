"""Session Modes and Session Config Options, as the agent answers the client that sets them.

https://agentclientprotocol.com/protocol/session-modes
https://agentclientprotocol.com/protocol/session-config-options

Where the application need not be asked, a setting counts in wire order: a prompt in the next line sees it.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Generic, final

from typing_extensions import TypeVar

from acp_ref.errors import RequestError
from acp_ref.methods import SET_SESSION_CONFIG_OPTION, SET_SESSION_MODE
from acp_ref.requests import Answered, IncomingRequest
from acp_ref.schema import (
    CurrentModeUpdate,
    SessionConfigId,
    SessionId,
    SessionModeId,
    SessionUpdate,
    SetSessionConfigOptionRequest,
    SetSessionConfigOptionResponse,
    SetSessionModeRequest,
    SetSessionModeResponse,
)

if TYPE_CHECKING:
    from acp_ref.agent import Agent
    from acp_ref.agent_session import AgentSession
    from acp_ref.handlers import Handlers

__all__ = ["SessionSettings"]

R = TypeVar("R")
S = TypeVar("S", default=None)


@final
class SessionSettings(Generic[S]):
    """What the client may set in the sessions of one connection.

    Args:
      get: the open session of an id, or RequestError.
    """

    def __init__(self, agent: Agent[S], get: Callable[[SessionId], AgentSession[S]]) -> None:
        self._agent = agent
        self._get = get

    def add_to(self, handlers: Handlers) -> None:
        """Handle what the agent has, and only that."""
        if self._agent.modes is not None:
            handlers.on_request(SET_SESSION_MODE, self._set_mode)
        if self._agent.config_options:
            handlers.on_request(SET_SESSION_CONFIG_OPTION, self._set_config_option)

    def _set_mode(self, request: IncomingRequest, params: SetSessionModeRequest) -> Awaitable[SetSessionModeResponse]:
        session = self._get(params.session_id)
        assert session.modes is not None
        session.modes.check(params.mode_id)  # MODE-04, D-44
        ask = self._agent.set_mode

        def settle() -> SetSessionModeResponse:
            _tell_afterwards(request, session, _mode_chosen(session, params.mode_id))
            return SetSessionModeResponse()

        return Answered(settle()) if ask is None else self._after(ask(session, params.mode_id), session, settle)

    def _set_config_option(
        self, request: IncomingRequest, params: SetSessionConfigOptionRequest
    ) -> Awaitable[SetSessionConfigOptionResponse]:
        session = self._get(params.session_id)
        options = session.config_options
        assert options is not None
        options.check(params.config_id, params.value, session.client_capabilities)  # CONF-18, D-44
        ask = self._agent.set_config_option

        def settle() -> SetSessionConfigOptionResponse:
            _tell_afterwards(request, session, _option_chosen(session, params.config_id, params.value))
            visible = options.visible(session.client_capabilities)  # CONF-19
            return SetSessionConfigOptionResponse(config_options=visible)

        if ask is None:
            return Answered(settle())
        return self._after(ask(session, params.config_id, params.value), session, settle)

    async def _after(self, consent: Awaitable[None], session: AgentSession[S], settle: Callable[[], R]) -> R:
        await consent
        if self._get(session.id) is not session:
            raise RequestError.invalid_request(f"session {session.id} was loaded again meanwhile")
        return settle()


def _mode_chosen(session: AgentSession[S], mode_id: SessionModeId) -> Sequence[SessionUpdate]:
    """The client chose a mode: it counts now, and goes into the history. What the client must still be told, once its
    request is answered, is returned."""
    if session.modes is not None:
        session.modes.change(mode_id)
    session.record(CurrentModeUpdate(current_mode_id=mode_id))
    if session.config_options is not None and session.config_options.follow_mode(mode_id):
        return [session.config_options.as_update()]  # CONF-22
    return []


def _option_chosen(session: AgentSession[S], config_id: SessionConfigId, value: str | bool) -> Sequence[SessionUpdate]:
    """The client chose a value; as :func:`_mode_chosen`."""
    if session.config_options is None:
        return []
    session.config_options.change(config_id, value)
    session.record(session.config_options.as_update())
    mode_id = session.config_options.mode_of(config_id, value)
    if mode_id is not None and session.modes is not None:
        session.modes.change(mode_id)
        return [CurrentModeUpdate(current_mode_id=mode_id)]  # CONF-22
    return []


def _tell_afterwards(request: IncomingRequest, session: AgentSession[S], updates: Sequence[SessionUpdate]) -> None:
    for update in updates:
        request.on_answered(functools.partial(session.put, update))
