"""Loading Sessions: how a session takes up the history of its earlier life, and sends it again.

https://agentclientprotocol.com/protocol/session-setup#loading-sessions
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Generic, TypeVar, final

from acp_ref import _jsonrpc as jsonrpc
from acp_ref._converter import InvalidPayload, structure_hook, unstructure_hook
from acp_ref.reports import Report, ReportKind
from acp_ref.schema import ConfigOptionUpdate, CurrentModeUpdate, SessionUpdate
from acp_ref.session_updates import announces_booleans, without_booleans

if TYPE_CHECKING:
    from acp_ref.agent_session import AgentSession

__all__ = ["SettingsWatch", "replay", "take_up"]

S = TypeVar("S")


async def take_up(session: AgentSession[S], *, replayed: bool) -> Iterator[bytes]:
    """Read the history of ``session``: give it the mode and the values of config options that it had, and return what
    is to be ``replayed``, if it is.

    A setting that was stored as something that cannot be read is reported, and left as the agent has it.
    """
    journal = session.journal
    if journal is None or not (replayed or session.modes is not None or session.config_options is not None):
        return iter(())
    history = await journal.history(without=_not_for(session))
    updates = history.updates if replayed else iter(())
    for line in history.settings:
        try:
            setting = structure_hook(SessionUpdate)(jsonrpc.loads(line))
        except InvalidPayload as exc:
            reason = f"a setting in the history of session {session.id} was left out: {exc}"
            session.connection.report(Report(kind=ReportKind.DEGRADED, reason=reason))
            continue
        if isinstance(setting, CurrentModeUpdate):
            if session.modes is not None:
                session.modes.restore(setting.current_mode_id)
        elif isinstance(setting, ConfigOptionUpdate):
            if session.config_options is not None:
                session.config_options.restore(setting.config_options)
            if replayed and not announces_booleans(session.client_capabilities):
                visible = without_booleans(setting.config_options, session.client_capabilities)  # CONF-07
                update = unstructure_hook(SessionUpdate)(ConfigOptionUpdate(config_options=visible))
                updates = chain(updates, [jsonrpc.dumps(update)])
    return updates


def _not_for(session: AgentSession[S]) -> Collection[str]:
    """The kinds of updates that are not replayed as they are to the client of ``session``."""
    client = session.client_capabilities
    kinds: set[str] = set()
    if client.session is None or client.session.compaction is None:
        kinds |= {"compaction_update", "compaction_summary_chunk"}  # COMP-01
    if session.commands:
        kinds.add("available_commands_update")  # those of today follow the answer
    if not announces_booleans(client):
        kinds.add("config_option_update")
    return kinds


@final
class SettingsWatch(Generic[S]):
    """Whether ``session`` has changed its mode or its config options since this was made."""

    def __init__(self, session: AgentSession[S]) -> None:
        self._modes = session.modes
        self._options = session.config_options
        self._mode_then = None if session.modes is None else session.modes.current
        self._options_then = None if session.config_options is None else session.config_options.options

    def mode_changed(self) -> bool:
        return self._modes is not None and self._modes.current != self._mode_then

    def options_changed(self) -> bool:
        return self._options is not None and self._options.options != self._options_then

    def follow(self, old: SettingsWatch[S]) -> None:
        """Set what ``old`` has set since, but where this one did: the client hears of that last."""
        modes, their_modes = self._modes, old._modes
        if modes is not None and their_modes is not None and old.mode_changed() and not self.mode_changed():
            modes.restore(their_modes.current)
        options, their_options = self._options, old._options
        if options is not None and their_options is not None and old.options_changed() and not self.options_changed():
            options.restore(their_options.options)


async def replay(session: AgentSession[S], updates: Iterator[bytes]) -> None:
    """Send the whole history again, entry by entry as the journal has it (SETUP-11, SETUP-12).

    Raises:
      trio.BrokenResourceError, trio.ClosedResourceError: the connection or the journal is closed.
    """
    send = session.connection.send_frame
    for update in updates:
        await send(session.frame(update))
