"""Permissions: a yes is a yes, and everything else is a no, on both sides."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_ref._jsonrpc import JSON
from acp_ref.errors import ErrorCode, LocalProtocolError, RemoteProtocolError, RequestError
from acp_ref.permissions import (
    RememberedPermissions,
    answer_permission,
    answer_with,
    check_options,
    decide,
    default_options,
    judge,
    same_call,
    select,
)
from acp_ref.reports import Report, ReportKind
from acp_ref.schema import (
    CancelledPermissionOutcome,
    PermissionOption,
    PermissionOptionId,
    PermissionOptionKind,
    RequestPermissionOutcome,
    RequestPermissionRequest,
    RequestPermissionResponse,
    SelectedPermissionOutcome,
    SessionId,
    ToolCallId,
    ToolCallLocation,
    ToolCallStatus,
    ToolCallUpdate,
    ToolKind,
    Unknown,
)

ALLOW_ONCE, ALLOW_ALWAYS, REJECT_ONCE, REJECT_ALWAYS = PermissionOptionKind
ALL = default_options(*PermissionOptionKind)


def option(option_id: str, kind: PermissionOptionKind | str = ALLOW_ONCE) -> PermissionOption:
    return PermissionOption(option_id=PermissionOptionId(option_id), name=option_id, kind=kind)


def selected(option_id: str) -> SelectedPermissionOutcome:
    return SelectedPermissionOutcome(option_id=PermissionOptionId(option_id))


def asking(*options: PermissionOption, tool_call: ToolCallUpdate | None = None) -> RequestPermissionRequest:
    return RequestPermissionRequest(
        session_id=SessionId("s"),
        tool_call=tool_call or ToolCallUpdate(tool_call_id=ToolCallId("c")),
        options=[*options],
    )


def call(
    tool_call_id: str = "c",
    *,
    title: str | None = "Run tests",
    kind: ToolKind = ToolKind.EXECUTE,
    raw_input: JSON = "make test",
    status: ToolCallStatus | None = None,
) -> ToolCallUpdate:
    return ToolCallUpdate(
        tool_call_id=ToolCallId(tool_call_id), title=title, kind=kind, raw_input=raw_input, status=status
    )


async def chosen(
    request: RequestPermissionRequest,
    ask: Callable[[RequestPermissionRequest], Awaitable[PermissionOption | None]] | None,
    remembered: RememberedPermissions | None = None,
    reports: list[Report] | None = None,
) -> str | None:
    """The option id of the answer, None when it is cancelled."""
    response = await answer_permission(request, ask, remembered, ([] if reports is None else reports).append)
    outcome = response.outcome
    if isinstance(outcome, SelectedPermissionOutcome):
        return outcome.option_id
    assert isinstance(outcome, CancelledPermissionOutcome)
    return None


# ----------------------------------------------------------------------------------------------------- the agent's side


@pytest.mark.spec("PERM-03", "PERM-08")
@pytest.mark.field_note(95)
def test_selected_means_what_the_kind_of_the_option_says() -> None:
    allowed = {kind.value: bool(judge(ALL, selected(kind.value))) for kind in PermissionOptionKind}
    assert allowed == {"allow_once": True, "allow_always": True, "reject_once": False, "reject_always": False}
    decision = judge(ALL, selected("reject_once"))
    assert decision.option == ALL[2]
    assert not decision.cancelled
    assert "Reject" in decision.reason


@pytest.mark.spec("PERM-08")
@pytest.mark.field_note(95)
@pytest.mark.parametrize(
    ("options", "outcome"),
    [
        ([option("yes")], selected("zzz")),
        ([option("yes")], selected("")),
        ([option("yes")], selected("YES")),
        ([option("yes"), option("yes")], selected("yes")),
        ([option("yes"), option("yes", REJECT_ONCE)], selected("yes")),
        ([option("yes", "allow_for_a_week")], selected("yes")),
        ([option("yes", "ALLOW_ONCE")], selected("yes")),
        ([], selected("yes")),
        ([option("yes")], Unknown(raw={"outcome": "approved", "optionId": "yes"})),
        ([option("yes")], None),
        ([option("yes")], True),
        ([option("yes")], "yes"),
    ],
)
def test_what_is_not_clearly_a_yes_is_a_no(options: list[PermissionOption], outcome: object) -> None:
    decision = judge(options, outcome)
    assert not decision
    assert not decision.allowed
    assert not decision.cancelled
    assert decision.reason


@pytest.mark.spec("PERM-03")
def test_cancelled_is_no_yes_and_told_apart() -> None:
    decision = judge(ALL, CancelledPermissionOutcome())
    assert not decision
    assert decision.cancelled


kinds = st.sampled_from([*PermissionOptionKind, "allow", "allow_once ", "yes", ""])
ids = st.sampled_from(["a", "b", "c", ""])


@pytest.mark.spec("PERM-08")
@settings(deadline=None)
@given(st.lists(st.tuples(ids, kinds), max_size=5), ids)
def test_only_an_allowing_option_offered_once_under_that_id_allows(
    offered: list[tuple[str, PermissionOptionKind | str]], answer: str
) -> None:
    decision = judge([option(option_id, kind) for option_id, kind in offered], selected(answer))
    matching = [kind for option_id, kind in offered if option_id == answer]
    assert decision.allowed == (matching in ([ALLOW_ONCE], [ALLOW_ALWAYS]))


@pytest.mark.spec("PERM-02", "PERM-06")
@pytest.mark.field_note(95)
@pytest.mark.parametrize(
    "options", [[], [option("a"), option("b"), option("a", REJECT_ONCE)], [option("a", "allow_for_a_week")]]
)
def test_options_that_no_client_could_answer_are_refused_before_sending(options: list[PermissionOption]) -> None:
    with pytest.raises(LocalProtocolError):
        check_options(options)


def test_the_default_options_can_be_sent() -> None:
    check_options(default_options())
    assert [made.kind for made in default_options()] == [ALLOW_ONCE, ALLOW_ALWAYS, REJECT_ONCE]
    check_options(ALL)
    assert [made.option_id for made in ALL] == ["allow_once", "allow_always", "reject_once", "reject_always"]


async def answer_of(outcome: RequestPermissionOutcome | Exception) -> RequestPermissionResponse:
    await trio.lowlevel.checkpoint()
    if isinstance(outcome, Exception):
        raise outcome
    return RequestPermissionResponse(outcome=outcome)


@pytest.mark.spec("PERM-08")
@pytest.mark.field_note(95)
@pytest.mark.parametrize(
    ("answer", "cancelled"),
    [
        (RequestError.method_not_found("session/request_permission"), False),
        (RequestError.internal_error(), False),
        (RequestError.request_cancelled(), True),
        (RemoteProtocolError("$.outcome.optionId: missing"), False),
    ],
)
async def test_an_error_in_place_of_an_answer_is_a_no(answer: Exception, cancelled: bool) -> None:
    decision = await decide(answer_of(answer), ALL)
    assert not decision
    assert decision.cancelled == cancelled
    assert str(answer) in decision.reason


async def test_the_end_of_the_connection_is_not_taken_for_an_answer() -> None:
    with pytest.raises(trio.BrokenResourceError):
        await decide(answer_of(trio.BrokenResourceError("gone")), ALL)


async def test_an_answer_that_makes_no_sense_is_reported() -> None:
    reports: list[Report] = []
    assert await decide(answer_of(selected("allow_once")), ALL, reports.append)
    assert not await decide(answer_of(selected("reject_once")), ALL, reports.append)
    assert not await decide(answer_of(CancelledPermissionOutcome()), ALL, reports.append)
    assert not reports
    assert not await decide(answer_of(selected("zzz")), ALL, reports.append)
    assert not await decide(answer_of(Unknown(raw={"outcome": "approved"})), ALL, reports.append)
    assert [report.kind for report in reports] == [ReportKind.INVALID] * 2
    assert "'zzz'" in reports[0].reason


# ---------------------------------------------------------------------------------------------------- the client's side


@pytest.mark.field_note(95)
@pytest.mark.parametrize(
    ("offered", "wanted", "expected"),
    [
        ([REJECT_ONCE, ALLOW_ONCE], ALLOW_ONCE, ALLOW_ONCE),
        ([ALLOW_ALWAYS, REJECT_ONCE], ALLOW_ONCE, REJECT_ONCE),
        ([ALLOW_ALWAYS, REJECT_ALWAYS], ALLOW_ONCE, REJECT_ALWAYS),
        ([ALLOW_ALWAYS], ALLOW_ONCE, None),
        ([ALLOW_ONCE], ALLOW_ALWAYS, ALLOW_ONCE),
        ([REJECT_ONCE], ALLOW_ALWAYS, REJECT_ONCE),
        ([ALLOW_ONCE, REJECT_ALWAYS], REJECT_ONCE, REJECT_ALWAYS),
        ([ALLOW_ONCE, REJECT_ONCE], REJECT_ALWAYS, REJECT_ONCE),
        ([ALLOW_ONCE, ALLOW_ALWAYS], REJECT_ONCE, None),
        (["allow_for_a_week"], ALLOW_ONCE, None),
        ([], ALLOW_ONCE, None),
    ],
)
def test_selecting_by_kind_never_allows_more_than_was_wanted(
    offered: list[PermissionOptionKind | str], wanted: PermissionOptionKind, expected: PermissionOptionKind | None
) -> None:
    found = select([option(f"{index}", kind) for index, kind in enumerate(offered)], wanted)
    assert (None if found is None else found.kind) == expected


@pytest.mark.spec("PERM-03", "PERM-07")
async def test_the_user_s_choice_is_the_answer() -> None:
    shown: list[RequestPermissionRequest] = []

    async def ask(request: RequestPermissionRequest) -> PermissionOption | None:
        await trio.lowlevel.checkpoint()
        shown.append(request)
        return request.options[1]

    request = asking(*ALL)
    assert await chosen(request, ask) == "allow_always"
    assert shown == [request]


@pytest.mark.spec("PERM-03")
async def test_an_option_of_an_unknown_kind_can_be_chosen_by_the_user() -> None:
    offered = asking(option("week", "allow_for_a_week"), option("no", REJECT_ONCE))

    async def ask(request: RequestPermissionRequest) -> PermissionOption | None:
        return request.options[0]

    assert await chosen(offered, ask) == "week"


@pytest.mark.spec("PERM-04")
@pytest.mark.parametrize("kind", PermissionOptionKind)
async def test_a_policy_answers_without_asking(kind: PermissionOptionKind) -> None:
    assert await chosen(asking(*ALL), answer_with(kind)) == kind.value


@pytest.mark.field_note(95)
async def test_a_policy_of_yes_does_not_choose_an_option_of_another_kind() -> None:
    assert await chosen(asking(option("first", REJECT_ONCE), option("x", "other")), answer_with(ALLOW_ONCE)) == "first"
    assert await chosen(asking(option("x", "other")), answer_with(ALLOW_ONCE)) is None


async def dismiss(_request: RequestPermissionRequest) -> PermissionOption | None:
    return None


async def fail(_request: RequestPermissionRequest) -> PermissionOption | None:
    raise KeyError("user interface")


async def invent(_request: RequestPermissionRequest) -> PermissionOption | None:
    return option("root")


async def alter(request: RequestPermissionRequest) -> PermissionOption | None:
    return attrs.evolve(request.options[0], kind=ALLOW_ALWAYS)


@pytest.mark.field_note(95)
@pytest.mark.parametrize(
    ("ask", "reported"), [(None, False), (dismiss, False), (fail, True), (invent, True), (alter, True)]
)
async def test_without_a_proper_choice_the_tool_is_rejected(
    ask: Callable[[RequestPermissionRequest], Awaitable[PermissionOption | None]] | None, reported: bool
) -> None:
    reports: list[Report] = []
    remembered = RememberedPermissions()
    with_no = asking(option("yes"), option("never", REJECT_ALWAYS), option("no", REJECT_ONCE), tool_call=call())
    assert await chosen(with_no, ask, remembered, reports) == "no"
    without_no = asking(option("yes"), option("always", ALLOW_ALWAYS), tool_call=call())
    assert await chosen(without_no, ask, remembered, reports) is None
    assert [report.kind for report in reports] == [ReportKind.HANDLER_FAILED] * (2 if reported else 0)
    assert remembered.recall(asking(*ALL, tool_call=call())) is None


@pytest.mark.field_note(95)
async def test_a_request_without_options_is_answered_cancelled_without_asking() -> None:
    assert await chosen(asking(), fail) is None


@pytest.mark.spec("PERM-06")
async def test_a_request_with_an_ambiguous_id_is_refused() -> None:
    with pytest.raises(RequestError, match=r"\$\.options\[0\].*\$\.options\[2\]") as refused:
        await answer_permission(asking(option("a"), option("b"), option("a", REJECT_ONCE)), fail)
    assert refused.value.code == ErrorCode.INVALID_PARAMS


@pytest.mark.spec("PERM-05")
@pytest.mark.field_note(84)
async def test_a_cancelled_question_is_cancelled_and_neither_rejected_nor_reported() -> None:
    reports: list[Report] = []

    async def ask(_request: RequestPermissionRequest) -> PermissionOption | None:
        scope.cancel()
        await trio.lowlevel.checkpoint()
        return None

    with trio.CancelScope() as scope:
        await chosen(asking(*ALL), ask, reports=reports)
    assert scope.cancelled_caught
    assert not reports


# -------------------------------------------------------------------------------------------------------------- always


class User:
    """Chooses by kind and counts how often they were asked."""

    def __init__(self, kind: PermissionOptionKind) -> None:
        self.kind = kind
        self.asked = 0

    async def ask(self, request: RequestPermissionRequest) -> PermissionOption | None:
        await trio.lowlevel.checkpoint()
        self.asked += 1
        return select(request.options, self.kind)


@pytest.mark.spec("PERM-04", "PERM-06")
@pytest.mark.parametrize(
    ("kind", "repeated"), [(ALLOW_ALWAYS, "allow_once"), (REJECT_ALWAYS, "reject_once")], ids=["allow", "reject"]
)
async def test_always_is_remembered_for_the_same_question(kind: PermissionOptionKind, repeated: str) -> None:
    user = User(kind)
    remembered = RememberedPermissions()
    assert await chosen(asking(*ALL, tool_call=call("1")), user.ask, remembered) == kind.value
    again = asking(*ALL, tool_call=call("2", status=ToolCallStatus.PENDING))
    assert await chosen(again, user.ask, remembered) == repeated
    assert user.asked == 1
    only_always = asking(option("forever", kind), option("x", "other"), tool_call=call("3"))
    assert await chosen(only_always, user.ask, remembered) == "forever"
    assert user.asked == 1
    remembered.forget()
    await chosen(again, user.ask, remembered)
    assert user.asked == 2


@pytest.mark.spec("PERM-06")
@pytest.mark.parametrize("kind", [ALLOW_ONCE, REJECT_ONCE])
async def test_once_is_not_remembered(kind: PermissionOptionKind) -> None:
    user = User(kind)
    remembered = RememberedPermissions()
    for _ in range(2):
        await chosen(asking(*ALL, tool_call=call()), user.ask, remembered)
    assert user.asked == 2


@pytest.mark.field_note(95)
async def test_a_remembered_yes_is_asked_again_where_it_cannot_be_given() -> None:
    user = User(ALLOW_ALWAYS)
    remembered = RememberedPermissions()
    await chosen(asking(*ALL, tool_call=call()), user.ask, remembered)
    assert await chosen(asking(option("no", REJECT_ONCE), tool_call=call()), user.ask, remembered) == "no"
    assert user.asked == 2


@pytest.mark.spec("PERM-06")
@pytest.mark.parametrize(
    "other",
    [
        call(raw_input="make clean"),
        call(raw_input={"force": 1}),
        call(title="Run all tests"),
        call(kind=ToolKind.OTHER),
        attrs.evolve(call(), name="bash"),
        attrs.evolve(call(), locations=[ToolCallLocation(path="/etc/passwd")]),
    ],
)
def test_another_question_has_another_key(other: ToolCallUpdate) -> None:
    keys = {same_call(call()), same_call(call(raw_input={"force": True})), same_call(other)}
    assert None not in keys
    assert len(keys) == 3


@pytest.mark.spec("PERM-06")
@pytest.mark.parametrize("vague", [call(title=None), call(title=""), call(raw_input=None), call(raw_input={})])
async def test_a_call_that_shows_next_to_nothing_is_asked_for_each_time(vague: ToolCallUpdate) -> None:
    user = User(ALLOW_ALWAYS)
    remembered = RememberedPermissions()
    for _ in range(2):
        assert await chosen(asking(*ALL, tool_call=vague), user.ask, remembered) == "allow_always"
    assert user.asked == 2


async def test_a_client_may_say_itself_what_the_same_question_is() -> None:
    user = User(ALLOW_ALWAYS)
    remembered = RememberedPermissions(key=lambda tool_call: tool_call.name)
    for raw_input in ("make test", "make clean"):
        tool_call = attrs.evolve(call(raw_input=raw_input), name="make")
        await chosen(asking(*ALL, tool_call=tool_call), user.ask, remembered)
    assert user.asked == 1
