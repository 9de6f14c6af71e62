"""Session Config Options, as the agent keeps them.

https://agentclientprotocol.com/protocol/session-config-options

Nothing but looks depends on categories (CONF-09), with the one exception the page itself makes: while session modes
last, the option of category ``mode`` and the modes are kept in step (CONF-22).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, final

import attrs

from acp_ref.errors import LocalProtocolError, RequestError
from acp_ref.schema import (
    ClientCapabilities,
    ConfigOptionUpdate,
    SessionConfigBoolean,
    SessionConfigId,
    SessionConfigOption,
    SessionConfigOptionCategory,
    SessionConfigSelect,
    SessionConfigSelectGroup,
    SessionConfigSelectOption,
    SessionConfigSelectOptions,
    SessionConfigValueId,
    SessionModeId,
    Unknown,
)
from acp_ref.session_updates import without_booleans

__all__ = ["SessionConfigOptions", "by_category", "flatten"]

KnownOption: TypeAlias = SessionConfigSelect | SessionConfigBoolean

CATEGORIES: Final = frozenset(SessionConfigOptionCategory)
"""The names that ACP has reserved so far."""


def flatten(options: SessionConfigSelectOptions) -> Sequence[SessionConfigSelectOption]:
    """The values of a select option in their order, whether they come in groups or not (CONF-05)."""
    values: list[SessionConfigSelectOption] = []
    for option in options:
        if isinstance(option, SessionConfigSelectGroup):
            values += option.options
        else:
            values.append(option)
    return values


def by_category(options: Sequence[SessionConfigOption], category: str) -> Sequence[SessionConfigOption]:
    """Those of ``options`` that are of ``category``, in their order, so that ties go to the earlier one (CONF-12).

    Options without a category, of an unknown one or of an unknown type are only not among them (CONF-10).
    """
    return [option for option in options if not isinstance(option, Unknown) and option.category == category]


@final
class SessionConfigOptions:
    """The config options of one session with their values, the most important first (CONF-13).

    Each has a value from the beginning, for a client that never sets one (CONF-15). Values can change at any time,
    also in a turn (CONF-17).

    Raises:
      LocalProtocolError: two options have the same id, or an option cannot be sent: its value or category is not
        allowed, or its values are not told apart.
    """

    def __init__(self, options: Sequence[SessionConfigOption]) -> None:
        self._options = _checked(options)

    def __repr__(self) -> str:
        values = ", ".join(f"{option.id}={option.current_value!r}" for option in self._options)
        return f"<SessionConfigOptions {values}>"

    @property
    def options(self) -> Sequence[SessionConfigOption]:
        """All of them with their values, in order."""
        return self._options

    def current(self, config_id: SessionConfigId) -> str | bool:
        """The value an option has now.

        Raises:
          LocalProtocolError: there is no such option.
        """
        return self._find(config_id, LocalProtocolError).current_value

    def visible(self, client: ClientCapabilities) -> list[SessionConfigOption]:
        """The options as this client may see them (CONF-07, D-49)."""
        return without_booleans(self._options, client)

    def as_update(self) -> ConfigOptionUpdate:
        """What to send after a change: the full list (CONF-20)."""
        return ConfigOptionUpdate(config_options=[*self._options])

    # ----------------------------------------------------------------------------------------------------- changes

    def change(self, config_id: SessionConfigId, value: str | bool) -> None:
        """Give an option another value. The client is not told by this.

        Raises:
          LocalProtocolError: there is no such option, or it cannot have this value; nothing changed.
        """
        option = self._find(config_id, LocalProtocolError)
        self._put(_with_value(option, value, LocalProtocolError))

    def check(self, config_id: SessionConfigId, value: str | bool, client: ClientCapabilities) -> None:
        """Whether this client may give this option this value. Nothing changes.

        Raises:
          RequestError: -32602: it knows of no such option, or the option cannot have this value (CONF-18, D-44).
        """
        option = self._find(config_id, RequestError.invalid_params)
        if option not in self.visible(client):  # CONF-07: it was never told of it
            raise RequestError.invalid_params(f"$.configId: no config option {config_id!r}")
        _with_value(option, value, RequestError.invalid_params)

    def replace(self, options: Sequence[SessionConfigOption]) -> None:
        """Have other options from now on, as when the choice of a model opens other choices (CONF-19).

        Raises:
          LocalProtocolError: as for a new :class:`SessionConfigOptions`; nothing changed.
        """
        self._options = _checked(options)

    def restore(self, options: Sequence[SessionConfigOption]) -> None:
        """Take the values of ``options``, as stored with the session. Options and values that no longer exist are left
        out, for the agent may have changed since."""
        for stored in options:
            if not isinstance(stored, Unknown):
                try:
                    self.change(stored.id, stored.current_value)
                except LocalProtocolError:
                    continue

    # ------------------------------------------------------------------------------------------------------- modes

    def follow_mode(self, mode_id: SessionModeId) -> bool:
        """The session went into another mode: bring the option of category ``mode`` in step (CONF-22).

        Returns:
          Whether a value changed. Without such an option, or when it does not know the mode, nothing does.
        """
        option = self._mode_option()
        value = SessionConfigValueId(mode_id)
        if option is None or option.current_value == value or value not in _values(option):
            return False
        self._put(attrs.evolve(option, current_value=value))
        return True

    def mode_of(self, config_id: SessionConfigId, value: str | bool) -> SessionModeId | None:
        """The mode that the session is in when the option has this value; None for options that are not about modes."""
        option = self._mode_option()
        if option is None or option.id != config_id or not isinstance(value, str):
            return None
        return SessionModeId(value)

    def _mode_option(self) -> SessionConfigSelect | None:
        options = by_category(self._options, SessionConfigOptionCategory.MODE)
        return next((option for option in options if isinstance(option, SessionConfigSelect)), None)

    # ----------------------------------------------------------------------------------------------------- options

    def _find(self, config_id: SessionConfigId, error: Callable[[str], Exception]) -> KnownOption:
        for option in self._options:
            if option.id == config_id:
                return option
        raise error(f"$.configId: no config option {config_id!r}")

    def _put(self, changed: KnownOption) -> None:
        self._options = tuple(changed if option.id == changed.id else option for option in self._options)


def _values(option: SessionConfigSelect) -> Sequence[str]:
    return [choice.value for choice in flatten(option.options)]


def _with_value(option: KnownOption, value: str | bool, error: Callable[[str], Exception]) -> KnownOption:
    if isinstance(option, SessionConfigBoolean):
        if not isinstance(value, bool):
            raise error(f'$.value: config option {option.id!r} is on or off: expected boolean, and "type": "boolean"')
        return attrs.evolve(option, current_value=value)
    if not isinstance(value, str):
        raise error(f"$.value: config option {option.id!r} is a choice: expected string")
    if value not in _values(option):
        raise error(f"$.value: config option {option.id!r} has no value {value!r}")
    return attrs.evolve(option, current_value=SessionConfigValueId(value))


def _checked(options: Sequence[SessionConfigOption]) -> tuple[KnownOption, ...]:
    checked: list[KnownOption] = []
    for index, option in enumerate(options):
        where = f"$.configOptions[{index}]"
        if isinstance(option, Unknown):
            raise LocalProtocolError(f"{where}.type: no type of config option that this version knows")
        if any(option.id == other.id for other in checked):
            raise LocalProtocolError(f"{where}.id: {option.id!r} names another option already")
        category = option.category
        if category is not None and category not in CATEGORIES and not category.startswith("_"):  # CONF-11
            raise LocalProtocolError(
                f"{where}.category: {category!r} is reserved; custom ones begin with an underscore"
            )
        if isinstance(option, SessionConfigSelect):
            _check_choices(option, where)
        checked.append(option)
    return tuple(checked)


def _check_choices(option: SessionConfigSelect, where: str) -> None:
    if len({type(item) for item in option.options}) > 1:
        raise LocalProtocolError(f"{where}.options: either all values are in groups or none is")  # CONF-05
    values = _values(option)
    if len(set(values)) != len(values):
        raise LocalProtocolError(f"{where}.options: two have the same value")
    if option.current_value not in values:  # CONF-15
        raise LocalProtocolError(f"{where}.currentValue: {option.current_value!r} is none of its values")
