"""The config options of a session, as its agent keeps them."""

from __future__ import annotations

import attrs
import pytest

from acp_ref.errors import ErrorCode, LocalProtocolError, RequestError
from acp_ref.schema import (
    BooleanConfigOptionCapabilities,
    ClientCapabilities,
    ClientSessionCapabilities,
    SessionConfigBoolean,
    SessionConfigGroupId,
    SessionConfigId,
    SessionConfigOption,
    SessionConfigOptionCategory,
    SessionConfigOptionsCapabilities,
    SessionConfigSelect,
    SessionConfigSelectGroup,
    SessionConfigSelectOption,
    SessionConfigSelectOptions,
    SessionConfigValueId,
    SessionModeId,
    Unknown,
)
from acp_ref.session_config_options import SessionConfigOptions, by_category, flatten

MODEL, MODE, LEVEL, WEB = map(SessionConfigId, ("model", "mode", "level", "web"))
TAKES_BOOLEANS = ClientCapabilities(
    session=ClientSessionCapabilities(
        config_options=SessionConfigOptionsCapabilities(boolean=BooleanConfigOptionCapabilities())
    )
)


def values(*names: str) -> list[SessionConfigSelectOption]:
    return [SessionConfigSelectOption(value=SessionConfigValueId(name), name=name) for name in names]


def groups(**names: str) -> list[SessionConfigSelectGroup]:
    return [
        SessionConfigSelectGroup(group=SessionConfigGroupId(group), name=group, options=values(*members.split()))
        for group, members in names.items()
    ]


def select(
    name: SessionConfigId, options: SessionConfigSelectOptions, current: str, category: str | None = None
) -> SessionConfigSelect:
    return SessionConfigSelect(
        id=name, name=name.title(), category=category, current_value=SessionConfigValueId(current), options=options
    )


def boolean(name: SessionConfigId, on: bool, category: str | None = None) -> SessionConfigBoolean:
    return SessionConfigBoolean(id=name, name=name.title(), category=category, current_value=on)


def listed(*, model: str = "b", web: bool = False) -> list[SessionConfigOption]:
    return [
        select(MODEL, groups(small="a b", large="c"), model, "model"),
        select(MODE, values("ask", "code"), "ask", "mode"),
        boolean(WEB, on=web, category="_search"),
        select(LEVEL, values("low", "high"), "low", "model_config"),
    ]


OPTIONS = listed()


def make() -> SessionConfigOptions:
    return SessionConfigOptions(OPTIONS)


def ids(options: object) -> list[str]:
    assert isinstance(options, list | tuple)
    return [option.id for option in options if isinstance(option, SessionConfigSelect | SessionConfigBoolean)]


@pytest.mark.spec("CONF-03", "CONF-13", "CONF-15")
def test_options_keep_their_order_and_have_a_value_from_the_beginning() -> None:
    options = make()
    assert ids(options.options) == ["model", "mode", "web", "level"]
    assert [options.current(name) for name in (MODEL, MODE, WEB, LEVEL)] == ["b", "ask", False, "low"]


@pytest.mark.spec("CONF-03", "CONF-19", "CONF-20")
def test_after_a_change_the_full_list_is_sent_in_the_old_order() -> None:
    options = make()
    before = options.options
    options.change(MODEL, "c")
    options.change(WEB, value=True)
    update = options.as_update().config_options
    assert ids(update) == ["model", "mode", "web", "level"]
    assert [options.current(name) for name in (MODEL, MODE, WEB, LEVEL)] == ["c", "ask", True, "low"]
    assert update == listed(model="c", web=True)
    assert [*before] == OPTIONS  # what was given out does not change


WRONG_VALUES: list[tuple[SessionConfigId, str | bool, str]] = [
    (SessionConfigId("nope"), "x", "$.configId: no config option 'nope'"),
    (MODEL, "d", "$.value: config option 'model' has no value 'd'"),
    (MODEL, "large", "$.value: config option 'model' has no value 'large'"),  # a group is no value
    (MODE, True, "$.value: config option 'mode' is a choice: expected string"),
    (WEB, "true", '$.value: config option \'web\' is on or off: expected boolean, and "type": "boolean"'),
]


@pytest.mark.spec("CONF-18", "CONF-05")
@pytest.mark.parametrize(("config_id", "value", "fault"), WRONG_VALUES)
def test_a_client_that_names_a_wrong_option_or_value_is_told_where_and_nothing_changes(
    config_id: SessionConfigId, value: str | bool, fault: str
) -> None:
    options = make()
    with pytest.raises(RequestError) as caught:
        options.check(config_id, value, TAKES_BOOLEANS)
    assert (caught.value.code, caught.value.data) == (ErrorCode.INVALID_PARAMS, {"errors": [fault]})
    assert [*options.options] == OPTIONS


@pytest.mark.parametrize(("config_id", "value", "fault"), WRONG_VALUES)
def test_the_agent_cannot_set_a_wrong_option_or_value(
    config_id: SessionConfigId, value: str | bool, fault: str
) -> None:
    options = make()
    with pytest.raises(LocalProtocolError) as caught:
        options.change(config_id, value)
    assert str(caught.value) == fault
    assert [*options.options] == OPTIONS


@pytest.mark.spec("CONF-18")
def test_a_right_value_passes_the_check_and_changes_nothing_by_that() -> None:
    options = make()
    options.check(MODEL, "c", TAKES_BOOLEANS)
    options.check(MODE, "code", TAKES_BOOLEANS)
    options.check(WEB, True, TAKES_BOOLEANS)
    assert [*options.options] == OPTIONS


def test_the_value_of_an_unknown_option_cannot_be_asked_for() -> None:
    with pytest.raises(LocalProtocolError, match="nope"):
        make().current(SessionConfigId("nope"))


@pytest.mark.spec("CONF-06", "CONF-07")
def test_boolean_options_show_only_to_clients_that_announced_them() -> None:
    options = make()
    assert options.visible(TAKES_BOOLEANS) == OPTIONS
    for client in (
        ClientCapabilities(),
        ClientCapabilities(session=ClientSessionCapabilities()),
        ClientCapabilities(session=ClientSessionCapabilities(config_options=SessionConfigOptionsCapabilities())),
    ):
        assert ids(options.visible(client)) == ["model", "mode", "level"]


# What cannot be sent


@pytest.mark.spec("CONF-15")
def test_a_value_that_is_none_of_the_listed_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match=r"^\$\.configOptions\[0\]\.currentValue: 'x' is none of its values$"):
        SessionConfigOptions([select(MODEL, values("a"), "x")])
    with pytest.raises(LocalProtocolError, match="currentValue"):
        SessionConfigOptions([select(MODEL, [], "x")])


@pytest.mark.spec("CONF-11")
def test_a_category_is_known_or_begins_with_an_underscore() -> None:
    for category in (None, "_mine", "mode", SessionConfigOptionCategory.THOUGHT_LEVEL):
        SessionConfigOptions([boolean(WEB, on=True, category=category)])
    with pytest.raises(LocalProtocolError, match=r"configOptions\[1\]\.category: 'mine' is reserved"):
        SessionConfigOptions([select(MODEL, values("a"), "a"), boolean(WEB, on=True, category="mine")])


def test_two_options_or_values_of_one_name_are_refused() -> None:
    with pytest.raises(LocalProtocolError, match=r"configOptions\[1\]\.id"):
        SessionConfigOptions([boolean(WEB, on=True), boolean(WEB, on=False)])
    with pytest.raises(LocalProtocolError, match="two have the same value"):
        SessionConfigOptions([select(MODEL, groups(x="a b", y="a"), "a")])


def test_an_option_of_a_type_nobody_knows_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="type"):
        SessionConfigOptions([Unknown(raw={"type": "slider", "id": "x"})])


@pytest.mark.spec("CONF-19")
def test_the_agent_can_have_other_options_from_now_on() -> None:
    options = make()
    with pytest.raises(LocalProtocolError):
        options.replace([select(MODEL, values("a"), "x")])
    assert [*options.options] == OPTIONS
    options.replace(OPTIONS[1:3])
    assert ids(options.options) == ["mode", "web"]


def test_stored_values_are_restored_and_those_that_are_gone_are_left_out() -> None:
    options = make()
    options.restore(
        [
            select(LEVEL, values("low", "high", "max"), "max"),
            boolean(MODE, on=True),
            Unknown(raw={"type": "slider", "id": "model"}),
            select(SessionConfigId("gone"), values("x"), "x"),
            boolean(WEB, on=True),
            select(MODEL, values("a"), "a"),
        ]
    )
    assert [options.current(name) for name in (MODEL, MODE, WEB, LEVEL)] == ["a", "ask", True, "low"]
    assert ids(options.options) == ["model", "mode", "web", "level"]
    assert [*options.options] == listed(model="a", web=True)


# Modes


@pytest.mark.spec("CONF-22")
def test_the_option_about_modes_follows_the_mode() -> None:
    options = make()
    assert options.follow_mode(SessionModeId("code"))
    assert options.current(MODE) == "code"
    assert not options.follow_mode(SessionModeId("code"))
    assert not options.follow_mode(SessionModeId("unheard of"))
    assert options.current(MODE) == "code"


@pytest.mark.spec("CONF-22")
def test_the_mode_follows_the_option_about_modes_and_no_other() -> None:
    options = make()
    assert options.mode_of(MODE, "code") == "code"
    assert options.mode_of(LEVEL, "high") is None
    assert options.mode_of(WEB, value=True) is None


@pytest.mark.spec("CONF-09")
def test_without_a_category_nothing_else_fails() -> None:
    plain = [attrs.evolve(option, category=None) for option in OPTIONS if not isinstance(option, Unknown)]
    options = SessionConfigOptions(plain)
    assert not options.follow_mode(SessionModeId("code"))
    assert options.mode_of(MODE, "code") is None
    options.change(MODE, "code")
    assert options.current(MODE) == "code"
    assert ids(options.visible(ClientCapabilities())) == ["model", "mode", "level"]


# Lists


@pytest.mark.spec("CONF-05")
def test_values_are_read_in_order_from_groups_and_from_flat_lists() -> None:
    assert flatten(groups(small="a b", large="c")) == values("a", "b", "c")
    assert flatten(values("a", "b")) == values("a", "b")
    assert flatten([]) == []


@pytest.mark.spec("CONF-12", "CONF-10", "CONF-08")
def test_options_of_a_category_keep_their_order_and_odd_ones_do_no_harm() -> None:
    options: list[SessionConfigOption] = [
        boolean(SessionConfigId("z"), on=True, category="model_config"),
        Unknown(raw={"type": "slider", "category": "model_config"}),
        boolean(SessionConfigId("none"), on=True),
        boolean(SessionConfigId("odd"), on=True, category="zodiac"),
        boolean(SessionConfigId("a"), on=True, category="model_config"),
    ]
    assert ids(by_category(options, SessionConfigOptionCategory.MODEL_CONFIG)) == ["z", "a"]
    assert ids(by_category(options, "zodiac")) == ["odd"]
