"""Session Modes, as the agent keeps them. Config options will take their place (MODE-06).

https://agentclientprotocol.com/protocol/session-modes
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import attrs

from acp_ref.errors import LocalProtocolError, RequestError
from acp_ref.schema import SessionMode, SessionModeId, SessionModeState

__all__ = ["SessionModes"]


@final
class SessionModes:
    """The modes of one session, and the one it is in. The mode can change at any time, also in a turn (MODE-03).

    Raises:
      LocalProtocolError: two modes have the same id, or the current one is none of them (MODE-02).
    """

    def __init__(self, state: SessionModeState) -> None:
        ids = [mode.id for mode in state.available_modes]
        if len(set(ids)) != len(ids):
            raise LocalProtocolError(f"two session modes have the same id: {', '.join(ids)}")
        self._state = state
        self.change(state.current_mode_id)  # MODE-02

    def __repr__(self) -> str:
        return f"<SessionModes {self.current!r} of {[*self._ids()]!r}>"

    @property
    def current(self) -> SessionModeId:
        """The mode the session is in."""
        return self._state.current_mode_id

    @property
    def available(self) -> Sequence[SessionMode]:
        """All modes, in the order to show them."""
        return self._state.available_modes

    def as_state(self) -> SessionModeState:
        """What to answer to the setup of a session (MODE-01)."""
        return self._state

    def change(self, mode_id: SessionModeId) -> None:
        """Go into another mode. The client is not told by this.

        Raises:
          LocalProtocolError: there is no such mode; nothing changed.
        """
        if mode_id not in self._ids():
            raise LocalProtocolError(f"no session mode {mode_id!r}, only {', '.join(self._ids()) or 'none'}")
        self._state = attrs.evolve(self._state, current_mode_id=mode_id)

    def check(self, mode_id: SessionModeId) -> None:
        """Whether the client may choose this mode.

        Raises:
          RequestError: -32602: there is no such mode (MODE-04, D-44).
        """
        if mode_id not in self._ids():
            raise RequestError.invalid_params(f"$.modeId: no session mode {mode_id!r}")

    def restore(self, mode_id: SessionModeId) -> None:
        """Go into the mode that was stored with the session, if there still is such a mode."""
        if mode_id in self._ids():
            self.change(mode_id)

    def _ids(self) -> Sequence[SessionModeId]:
        return [mode.id for mode in self._state.available_modes]
