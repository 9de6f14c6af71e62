"""The reference agent's modes and config options, and what they change.

https://agentclientprotocol.com/protocol/session-modes
https://agentclientprotocol.com/protocol/session-config-options
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import acp_ref as acp
from acp_ref.schema import (
    SessionConfigBoolean,
    SessionConfigGroupId,
    SessionConfigId,
    SessionConfigOption,
    SessionConfigOptionCategory,
    SessionConfigSelect,
    SessionConfigSelectGroup,
    SessionConfigSelectOption,
    SessionConfigValueId,
    SessionMode,
    SessionModeId,
    SessionModeState,
)

__all__ = ["CODE_MODE", "CONFIG_OPTIONS", "MODES", "asks_first", "is_loud", "thinks_aloud"]

ASK_MODE: Final = SessionModeId("ask")
CODE_MODE: Final = SessionModeId("code")

MODES: Final = SessionModeState(
    current_mode_id=ASK_MODE,
    available_modes=[
        SessionMode(id=ASK_MODE, name="Ask", description="Asks before it writes, runs or calls anything"),
        SessionMode(id=CODE_MODE, name="Code", description="Does what it is told without asking"),
    ],
)

MODEL: Final = SessionConfigId("model")
GREY_PARROT: Final = SessionConfigValueId("grey-parrot")
COCKATOO: Final = SessionConfigValueId("cockatoo")

THINK_ALOUD: Final = SessionConfigId("think_aloud")

CONFIG_OPTIONS: Final[Sequence[SessionConfigOption]] = (
    # The modes once more, for clients that know config options; the library keeps the two in step (CONF-22).
    SessionConfigSelect(
        id=SessionConfigId("mode"),
        name="Mode",
        category=SessionConfigOptionCategory.MODE,
        current_value=SessionConfigValueId(MODES.current_mode_id),
        options=[
            SessionConfigSelectOption(value=SessionConfigValueId(mode.id), name=mode.name, description=mode.description)
            for mode in MODES.available_modes
        ],
    ),
    SessionConfigSelect(
        id=MODEL,
        name="Model",
        description="Who answers",
        category=SessionConfigOptionCategory.MODEL,
        current_value=GREY_PARROT,
        options=[
            SessionConfigSelectGroup(
                group=SessionConfigGroupId("quiet"),
                name="Quiet",
                options=[
                    SessionConfigSelectOption(
                        value=GREY_PARROT, name="Grey parrot", description="Says what it hears, as it is"
                    )
                ],
            ),
            SessionConfigSelectGroup(
                group=SessionConfigGroupId("loud"),
                name="Loud",
                options=[
                    SessionConfigSelectOption(value=COCKATOO, name="Cockatoo", description="Says it in capital letters")
                ],
            ),
        ],
    ),
    SessionConfigBoolean(
        id=THINK_ALOUD,
        name="Think aloud",
        description="Tells what it is about to do before it says anything",
        category=SessionConfigOptionCategory.THOUGHT_LEVEL,
        current_value=False,
    ),
)


def asks_first(session: acp.AgentSession) -> bool:
    """Whether tools need the user's permission."""
    return session.modes is None or session.modes.current != CODE_MODE


def is_loud(session: acp.AgentSession) -> bool:
    """Whether the model speaks in capital letters."""
    return session.config_options is not None and session.config_options.current(MODEL) == COCKATOO


def thinks_aloud(session: acp.AgentSession) -> bool:
    """Whether thoughts are sent before an answer."""
    return session.config_options is not None and session.config_options.current(THINK_ALOUD) is True
