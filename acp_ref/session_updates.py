"""Session updates: what an agent may send in session/update, and to whom.

https://agentclientprotocol.com/protocol/prompt-turn#3-agent-reports-output

A reader is tolerant, a writer is strict. :data:`RULES` holds one function per kind of update that needs a check beyond
its types; it returns the update to send, or raises before anything is written. Kinds without an entry, the message
chunks among them, cost nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from acp_ref.errors import CapabilityError, LocalProtocolError
from acp_ref.methods import BOOLEAN_CONFIG_OPTION_GATE, SESSION_UPDATE, SESSION_UPDATE_GATES
from acp_ref.roots import is_absolute
from acp_ref.schema import (
    ClientCapabilities,
    ConfigOptionUpdate,
    Diff,
    SessionConfigBoolean,
    SessionConfigOption,
    SessionUpdate,
    ToolCall,
    ToolCallContent,
    ToolCallLocation,
    ToolCallUpdate,
)

__all__ = ["RULES", "announces_booleans", "without_booleans"]

Rule: TypeAlias = Callable[[SessionUpdate, ClientCapabilities], SessionUpdate]


def announces_booleans(client: ClientCapabilities) -> bool:
    """Whether boolean config options may be sent to this client (CONF-06)."""
    return BOOLEAN_CONFIG_OPTION_GATE.is_open(client)


def without_booleans(options: Sequence[SessionConfigOption], client: ClientCapabilities) -> list[SessionConfigOption]:
    """``options`` as this client may see them (CONF-07, D-49): the one filter for every payload that lists them."""
    if announces_booleans(client):
        return [*options]
    return [option for option in options if not isinstance(option, SessionConfigBoolean)]


def _gated(update: SessionUpdate, client: ClientCapabilities) -> SessionUpdate:
    gate = SESSION_UPDATE_GATES[type(update)]
    if not gate.is_open(client):  # NOTE-01, COMP-01
        raise CapabilityError(SESSION_UPDATE.name, gate.path)
    return update


def _config_options(update: SessionUpdate, client: ClientCapabilities) -> SessionUpdate:
    assert isinstance(update, ConfigOptionUpdate)
    if announces_booleans(client):
        return update
    return attrs.evolve(update, config_options=without_booleans(update.config_options, client))


def _tool_call(update: SessionUpdate, client: ClientCapabilities) -> SessionUpdate:
    assert isinstance(update, ToolCall | ToolCallUpdate)
    check_tool_call(update.content or (), update.locations or ())
    return update


def check_tool_call(content: Sequence[ToolCallContent], locations: Sequence[ToolCallLocation]) -> None:
    """Paths in a tool call are absolute and lines count from 1.

    Raises:
      LocalProtocolError: they are not; the text says which.
    """
    for index, item in enumerate(content):
        if isinstance(item, Diff) and not is_absolute(item.path):  # GEN-09, TOOL-12
            raise LocalProtocolError(f"$.content[{index}].path: {item.path!r} is not absolute")
    for index, location in enumerate(locations):
        if not is_absolute(location.path):  # GEN-09, TOOL-16
            raise LocalProtocolError(f"$.locations[{index}].path: {location.path!r} is not absolute")
        if location.line == 0:  # GEN-10, TOOL-16
            raise LocalProtocolError(f"$.locations[{index}].line: lines count from 1")


RULES: Final[Mapping[type, Rule]] = {
    **dict.fromkeys(SESSION_UPDATE_GATES, _gated),
    ConfigOptionUpdate: _config_options,
    ToolCall: _tool_call,
    ToolCallUpdate: _tool_call,
}
