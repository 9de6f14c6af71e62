"""Session updates, as they reach a client's sessions: in wire order, also those that come before their session.

https://agentclientprotocol.com/protocol/prompt-turn#3-agent-reports-output

An agent may speak of a new session before the answer that names it to the client (D-09). So while an answer to
session/new is awaited, updates for unknown sessions are kept, and looked at again when it is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, final

from acp_ref.methods import SESSION_UPDATE, SESSION_UPDATE_GATES
from acp_ref.reports import Report, ReportKind
from acp_ref.schema import ClientCapabilities, SessionId, SessionNotification

if TYPE_CHECKING:
    from acp_ref.client_session import ClientSession
    from acp_ref.connection import Connection

__all__ = ["SessionUpdates"]

MAX_EARLY_UPDATES: Final = 10_000
"""Updates kept for sessions whose session/new is not answered yet (D-09): far more than any agent sends there, and few
enough that an agent which never answers costs bounded memory."""


@final
class SessionUpdates:
    """The updates of all sessions of one connection. Nothing here waits: it runs in the connection's reader."""

    def __init__(self, sessions: Mapping[SessionId, ClientSession], announced: ClientCapabilities) -> None:
        self._sessions = sessions
        self._unannounced = {kind for kind, gate in SESSION_UPDATE_GATES.items() if not gate.is_open(announced)}
        self._opening = 0
        self._early: list[SessionNotification] = []

    def receive(self, connection: Connection, params: SessionNotification) -> None:
        """An update came: hand it to its session."""
        update = params.update
        if type(update) in self._unannounced:
            _ignore(connection, f"{type(update).__name__} was not announced")
            return
        session = self._sessions.get(params.session_id)
        if session is not None:
            session.receive(update)
        elif self._opening and len(self._early) < MAX_EARLY_UPDATES:
            self._early.append(params)  # D-09: perhaps of a session whose answer comes behind it
        else:
            _ignore(connection, f"an update for session {params.session_id!r}, which is not open here")

    def begin_opening(self) -> None:
        """A session/new is about to be sent."""
        self._opening += 1

    def end_opening(self, connection: Connection) -> None:
        """A session/new was answered, or never will be: its session, if there is one, is known now."""
        self._opening -= 1
        early, self._early = self._early, []
        for params in early:
            try:
                self.receive(connection, params)
            except Exception as exc:  # the application's, and no reason to keep the next one from it
                reason = "its handler raised"
                connection.report(
                    Report(kind=ReportKind.HANDLER_FAILED, method=SESSION_UPDATE.name, reason=reason, error=exc)
                )


def _ignore(connection: Connection, reason: str) -> None:
    connection.report(Report(kind=ReportKind.IGNORED, method=SESSION_UPDATE.name, reason=reason))
