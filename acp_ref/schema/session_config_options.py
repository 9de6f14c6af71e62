"""Session Config Options.

https://agentclientprotocol.com/protocol/session-config-options
"""

from __future__ import annotations

from typing import ClassVar, NewType, TypeAlias

from acp_ref.schema._base import DefaultOnError, Meta, OpenEnum, SessionId, SkipInvalidItems, Unknown, Untagged
from acp_ref.schema._frozen import frozen

SessionConfigId = NewType("SessionConfigId", str)
"""Names a config option of a session."""
SessionConfigValueId = NewType("SessionConfigValueId", str)
"""Names a value of a select option."""
SessionConfigGroupId = NewType("SessionConfigGroupId", str)
"""Names a group of values of a select option."""


class SessionConfigOptionCategory(OpenEnum):
    """What a config option is about; only a hint for the looks. Custom ones start with an underscore."""

    MODE = "mode"
    """How the agent works, as session modes say."""
    MODEL = "model"
    """Which model it uses."""
    MODEL_CONFIG = "model_config"
    """A parameter of the model."""
    THOUGHT_LEVEL = "thought_level"
    """How much it reasons."""


@frozen(kw_only=True)
class SessionConfigSelectOption:
    """One value of a select option."""

    value: SessionConfigValueId
    """What ``session/set_config_option`` names."""
    name: str
    """For people to read."""
    description: DefaultOnError[str | None] = None
    """More about it, for people to read."""
    meta: Meta = None


@frozen(kw_only=True)
class SessionConfigSelectGroup:
    """Some values of a select option under a heading."""

    group: SessionConfigGroupId
    """Tells the group from the option's other ones."""
    name: str
    """The heading, for people to read."""
    options: SkipInvalidItems[list[SessionConfigSelectOption]]
    """The values."""
    meta: Meta = None


SessionConfigSelectOptions: TypeAlias = list[SessionConfigSelectOption] | list[SessionConfigSelectGroup]
"""The values of a select option, either all in groups or none."""


@frozen(kw_only=True)
class SessionConfigSelect:
    """A config option whose value is one of several, and the value it has."""

    TAG: ClassVar = ("type", "select")

    id: SessionConfigId
    """What ``session/set_config_option`` names."""
    name: str
    """For people to read."""
    description: DefaultOnError[str | None] = None
    """More about it, for people to read."""
    category: DefaultOnError[SessionConfigOptionCategory | str | None] = None
    """What it is about, a hint for the looks (CONF-08, CONF-09)."""
    current_value: SessionConfigValueId
    """The value it has."""
    options: SessionConfigSelectOptions
    """The values it can have."""
    meta: Meta = None


@frozen(kw_only=True)
class SessionConfigBoolean:
    """A config option that is on or off. Only for clients that announced ``session.configOptions.boolean``."""

    TAG: ClassVar = ("type", "boolean")

    id: SessionConfigId
    """What ``session/set_config_option`` names."""
    name: str
    """For people to read."""
    description: DefaultOnError[str | None] = None
    """More about it, for people to read."""
    category: DefaultOnError[SessionConfigOptionCategory | str | None] = None
    """What it is about, a hint for the looks (CONF-08, CONF-09)."""
    current_value: bool
    """Whether it is on."""
    meta: Meta = None


SessionConfigOption: TypeAlias = SessionConfigSelect | SessionConfigBoolean | Unknown
"""A config option of a session and its state (CONF-04). One of an unknown type is not for showing (CONF-16)."""


@frozen(kw_only=True)
class SetSessionConfigSelectRequest:
    """Give a select option another value."""

    UNTAGGED: ClassVar = Untagged("type", reads_any=True)  # CONF-21

    session_id: SessionId
    """The session."""
    config_id: SessionConfigId
    """The option."""
    value: SessionConfigValueId
    """One of the option's values."""
    meta: Meta = None


@frozen(kw_only=True)
class SetSessionConfigBooleanRequest:
    """Turn a boolean option on or off."""

    TAG: ClassVar = ("type", "boolean")

    session_id: SessionId
    """The session."""
    config_id: SessionConfigId
    """The option."""
    value: bool
    """Whether it shall be on."""
    meta: Meta = None


SetSessionConfigOptionRequest: TypeAlias = SetSessionConfigSelectRequest | SetSessionConfigBooleanRequest
"""Give a config option another value."""


@frozen(kw_only=True)
class SetSessionConfigOptionResponse:
    """The value was taken; other options may have changed with it."""

    config_options: SkipInvalidItems[list[SessionConfigOption]]
    """All options of the session as they are now."""
    meta: Meta = None


@frozen(kw_only=True)
class ConfigOptionUpdate:
    """Config options changed without the client's doing."""

    TAG: ClassVar = ("sessionUpdate", "config_option_update")

    config_options: SkipInvalidItems[list[SessionConfigOption]]
    """All options of the session as they are now."""
    meta: Meta = None
