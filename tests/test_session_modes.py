"""The modes of a session, as its agent keeps them."""

from __future__ import annotations

import pytest

from acp_ref.errors import ErrorCode, LocalProtocolError, RequestError
from acp_ref.schema import SessionMode, SessionModeId, SessionModeState
from acp_ref.session_modes import SessionModes

ASK, CODE, NONE = SessionModeId("ask"), SessionModeId("code"), SessionModeId("none")


def state(*ids: SessionModeId, current: SessionModeId = ASK) -> SessionModeState:
    return SessionModeState(
        current_mode_id=current, available_modes=[SessionMode(id=mode_id, name=mode_id.title()) for mode_id in ids]
    )


@pytest.mark.spec("MODE-01", "MODE-02")
def test_a_session_begins_in_the_mode_that_was_given() -> None:
    modes = SessionModes(state(ASK, CODE))
    assert modes.current == ASK
    assert [mode.name for mode in modes.available] == ["Ask", "Code"]
    assert modes.as_state() == state(ASK, CODE)


@pytest.mark.spec("MODE-03")
def test_a_change_shows_in_the_state_and_not_in_the_one_given_before() -> None:
    given = state(ASK, CODE)
    modes, other = SessionModes(given), SessionModes(given)
    before = modes.as_state()
    modes.change(CODE)
    assert (modes.current, modes.as_state()) == (CODE, state(ASK, CODE, current=CODE))
    assert (before, other.current) == (state(ASK, CODE), ASK)


@pytest.mark.spec("MODE-02")
@pytest.mark.parametrize("given", [state(CODE), state(), state(ASK, CODE, ASK)], ids=["not listed", "empty", "twice"])
def test_modes_that_do_not_hold_together_are_refused(given: SessionModeState) -> None:
    with pytest.raises(LocalProtocolError, match="mode"):
        SessionModes(given)


def test_the_agent_cannot_go_into_an_unknown_mode() -> None:
    modes = SessionModes(state(ASK, CODE))
    with pytest.raises(LocalProtocolError, match="no session mode 'none', only ask, code"):
        modes.change(NONE)
    assert modes.current == ASK


@pytest.mark.spec("MODE-04")
def test_a_client_that_names_an_unknown_mode_is_told_so_and_nothing_changes() -> None:
    modes = SessionModes(state(ASK, CODE))
    modes.check(CODE)
    with pytest.raises(RequestError) as caught:
        modes.check(NONE)
    assert (caught.value.code, caught.value.data) == (
        ErrorCode.INVALID_PARAMS,
        {"errors": ["$.modeId: no session mode 'none'"]},
    )
    assert modes.current == ASK


def test_a_stored_mode_is_restored_unless_it_is_gone() -> None:
    modes = SessionModes(state(ASK, CODE))
    modes.restore(CODE)
    assert modes.current == CODE
    modes.restore(NONE)
    assert modes.current == CODE
