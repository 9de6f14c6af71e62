"""A client's picture of a session: what many updates come to."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import get_args

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_ref._converter import structure, unstructure
from acp_ref._jsonrpc import dumps, loads
from acp_ref._replay import Replay
from acp_ref.schema import (
    UNSET,
    AgentMessageChunk,
    AgentThoughtChunk,
    Annotations,
    AvailableCommand,
    AvailableCommandsUpdate,
    CompactionId,
    CompactionStatus,
    CompactionSummaryChunk,
    CompactionUpdate,
    ConfigOptionUpdate,
    Content,
    ContentBlock,
    Cost,
    CurrentModeUpdate,
    Diff,
    ImageContent,
    LoadSessionResponse,
    MessageId,
    NewSessionResponse,
    Notice,
    NoticeSeverity,
    Plan,
    PlanEntry,
    PlanEntryPriority,
    PlanEntryStatus,
    ResourceLink,
    SessionConfigBoolean,
    SessionConfigGroupId,
    SessionConfigId,
    SessionConfigOption,
    SessionConfigSelect,
    SessionConfigSelectGroup,
    SessionConfigSelectOption,
    SessionConfigValueId,
    SessionId,
    SessionInfoUpdate,
    SessionMode,
    SessionModeId,
    SessionModeState,
    SessionUpdate,
    StopReason,
    TextContent,
    ToolCall,
    ToolCallContent,
    ToolCallId,
    ToolCallLocation,
    ToolCallStatus,
    ToolCallUpdate,
    ToolKind,
    Unknown,
    UsageUpdate,
    UserMessageChunk,
)
from acp_ref.session_state import CompactionState, Message, MessageRole, SessionState, ToolCallState

T1 = ToolCallId("t1")
C1 = CompactionId("c1")


def text(words: str) -> TextContent:
    return TextContent(text=words)


def agent(words: str, message_id: str | None = None) -> AgentMessageChunk:
    return AgentMessageChunk(content=text(words), message_id=None if message_id is None else MessageId(message_id))


def thought(words: str, message_id: str | None = None) -> AgentThoughtChunk:
    return AgentThoughtChunk(content=text(words), message_id=None if message_id is None else MessageId(message_id))


def user(words: str) -> UserMessageChunk:
    return UserMessageChunk(content=text(words))


def entry(words: str, status: PlanEntryStatus = PlanEntryStatus.PENDING) -> PlanEntry:
    return PlanEntry(content=words, priority=PlanEntryPriority.LOW, status=status)


def after(*updates: SessionUpdate) -> SessionState:
    state = SessionState()
    for update in updates:
        state.apply(update)
    return state


def spoken(state: SessionState) -> list[tuple[str, str]]:
    return [(message.role.value, message.text) for message in state.timeline if isinstance(message, Message)]


def outline(state: SessionState) -> list[str]:
    lines: list[str] = []
    for item in state.timeline:
        match item:
            case Message():
                lines.append(f"{item.role.value}: {item.text}")
            case ToolCallState():
                lines.append(f"tool {item.tool_call_id}")
            case CompactionState():
                lines.append(f"compaction {item.compaction_id}")
    return lines


def test_every_kind_of_update_is_taken() -> None:
    assert SessionState._APPLY.keys() == set(get_args(SessionUpdate))


# Messages


@pytest.mark.spec("PROMPT-10")
def test_chunks_of_one_id_are_one_message_even_when_messages_interleave() -> None:
    state = after(agent("Hel", "a"), agent("Ot", "b"), agent("lo", "a"), agent("her", "b"))
    assert spoken(state) == [("agent", "Hello"), ("agent", "Other")]
    assert [message.message_id for message in state.timeline if isinstance(message, Message)] == ["a", "b"]


@pytest.mark.spec("PROMPT-10")
def test_a_new_id_begins_a_new_message() -> None:
    assert spoken(after(agent("one", "a"), agent("two", "b"))) == [("agent", "one"), ("agent", "two")]


@pytest.mark.spec("PROMPT-10")
def test_an_id_after_chunks_without_one_begins_a_new_message() -> None:
    assert spoken(after(agent("one"), agent("two", "b"))) == [("agent", "one"), ("agent", "two")]


@pytest.mark.spec("PROMPT-10", "PROMPT-11")
def test_a_chunk_without_an_id_goes_on_with_the_message_before_it() -> None:
    assert spoken(after(agent("one ", "a"), agent("two"), agent("!", "a"))) == [("agent", "one two!")]


@pytest.mark.spec("PROMPT-10")
def test_the_same_id_in_another_kind_is_another_message() -> None:
    state = after(thought("hm", "a"), agent("yes", "a"), thought("!", "a"))
    assert spoken(state) == [("thought", "hm!"), ("agent", "yes")]


@pytest.mark.spec("PROMPT-10", "PROMPT-07")
def test_a_message_of_an_id_goes_on_after_a_tool_call() -> None:
    state = after(agent("be", "a"), ToolCall(tool_call_id=T1, title="t"), agent("fore", "a"))
    assert outline(state) == ["agent: before", "tool t1"]


@pytest.mark.spec("PROMPT-07", "PROMPT-10")
def test_without_ids_a_message_ends_where_the_kind_changes_or_a_tool_call_comes_between() -> None:
    state = after(
        user("do "),
        user("it"),
        thought("hm"),
        agent("a"),
        agent("b"),
        ToolCall(tool_call_id=T1, title="t"),
        agent("c"),
        thought("d"),
    )
    assert outline(state) == ["user: do it", "thought: hm", "agent: ab", "tool t1", "agent: c", "thought: d"]


@pytest.mark.parametrize(
    "between",
    [
        ToolCallUpdate(tool_call_id=T1, status=ToolCallStatus.COMPLETED),
        ToolCall(tool_call_id=T1, title="again"),
        Plan(entries=[]),
        UsageUpdate(used=1, size=2),
        SessionInfoUpdate(title="t"),
        CurrentModeUpdate(current_mode_id=SessionModeId("m")),
        AvailableCommandsUpdate(available_commands=[]),
        ConfigOptionUpdate(config_options=[]),
        Notice(severity=NoticeSeverity.ERROR, title="n"),
        Unknown(raw={"sessionUpdate": "weather"}),
    ],
    ids=lambda update: type(update).__name__,
)
def test_what_has_no_place_in_the_timeline_breaks_no_message(between: SessionUpdate) -> None:
    state = after(ToolCall(tool_call_id=T1, title="t"), agent("Hel"), between, agent("lo"))
    assert outline(state) == ["tool t1", "agent: Hello"]


def test_text_in_pieces_is_one_block_and_other_content_keeps_its_place() -> None:
    image = AgentMessageChunk(content=ImageContent(data="aGk=", mime_type="image/png"))
    (message,) = after(agent("a"), agent("b"), image, agent("c"), agent("d")).timeline
    assert isinstance(message, Message)
    assert message.content == (text("ab"), image.content, text("cd"))
    assert message.text == "abcd"


def test_annotated_text_is_not_merged_with_its_neighbours() -> None:
    noted = TextContent(text="b", annotations=Annotations(priority=1.0))
    (message,) = after(agent("a"), AgentMessageChunk(content=noted), agent("c")).timeline
    assert isinstance(message, Message)
    assert message.content == (text("a"), noted, text("c"))


def test_a_message_can_be_read_while_it_grows() -> None:
    state = SessionState()
    seen: list[str] = []
    for word in ("a", "b", "c"):
        state.apply(agent(word))
        (message,) = state.timeline
        assert isinstance(message, Message)
        seen.append(message.text)
        assert message.content == (text(seen[-1]),)
    assert seen == ["a", "ab", "abc"]


# Tool calls


@pytest.mark.spec("TOOL-03")
def test_a_tool_call_is_pending_and_of_other_kind_until_something_else_is_said() -> None:
    call = after(ToolCall(tool_call_id=T1, title="t")).tool_calls[T1]
    assert (call.title, call.kind, call.status, call.finished) == ("t", ToolKind.OTHER, ToolCallStatus.PENDING, False)


@pytest.mark.spec("TOOL-07", "TOOL-09")
def test_an_update_changes_what_it_names_and_nothing_else() -> None:
    location = ToolCallLocation(path="/a")
    before = ToolCall(
        tool_call_id=T1,
        title="Read",
        name="read",
        kind=ToolKind.READ,
        status=ToolCallStatus.IN_PROGRESS,
        content=[Content(content=text("x"))],
        locations=[location],
        raw_input={"path": "/a"},
        raw_output=1,
        meta={"k": 1},
    )
    state = after(before, ToolCallUpdate(tool_call_id=T1, status=ToolCallStatus.COMPLETED))
    (call,) = state.timeline
    assert call is state.tool_calls[T1]
    assert (call.title, call.name, call.kind) == ("Read", "read", ToolKind.READ)
    assert (call.status, call.finished) == (ToolCallStatus.COMPLETED, True)
    assert (call.content, call.locations) == (before.content, [location])
    assert (call.raw_input, call.raw_output, call.meta) == ({"path": "/a"}, 1, {"k": 1})


def test_null_in_an_update_leaves_raw_input_and_output_as_they_were() -> None:
    state = after(
        ToolCall(tool_call_id=T1, title="t", raw_input={"a": 1}, raw_output="out"),
        ToolCallUpdate(tool_call_id=T1, raw_input=None, raw_output=None),
    )
    assert (state.tool_calls[T1].raw_input, state.tool_calls[T1].raw_output) == ({"a": 1}, "out")


@pytest.mark.spec("TOOL-07")
def test_an_update_replaces_all_that_it_names() -> None:
    update = ToolCallUpdate(
        tool_call_id=T1,
        title="Write",
        name="write",
        kind=ToolKind.EDIT,
        raw_input=[],
        raw_output=False,
        meta={"k": 2},
    )
    call = after(ToolCall(tool_call_id=T1, title="t", name="wrong", meta={"old": 1}), update).tool_calls[T1]
    assert (call.title, call.name, call.kind) == ("Write", "write", ToolKind.EDIT)
    assert (call.raw_input, call.raw_output, call.meta) == ([], False, {"k": 2})


@pytest.mark.spec("TOOL-08")
def test_lists_in_an_update_replace_the_old_ones_as_a_whole() -> None:
    old: list[ToolCallContent] = [Content(content=text("a")), Content(content=text("b"))]
    new: list[ToolCallContent] = [Diff(path="/f", new_text="n")]
    state = after(ToolCall(tool_call_id=T1, title="t", content=old, locations=[ToolCallLocation(path="/f")]))
    state.apply(ToolCallUpdate(tool_call_id=T1, content=new, locations=[]))
    assert state.tool_calls[T1].content == new
    assert state.tool_calls[T1].locations == []


@pytest.mark.spec("TOOL-10")
def test_no_order_of_statuses_is_demanded() -> None:
    state = after(ToolCall(tool_call_id=T1, title="t", status=ToolCallStatus.COMPLETED))
    state.apply(ToolCallUpdate(tool_call_id=T1, status=ToolCallStatus.PENDING))
    assert state.tool_calls[T1].status is ToolCallStatus.PENDING


def test_an_update_of_an_unknown_tool_call_introduces_it() -> None:
    state = after(agent("a"), ToolCallUpdate(tool_call_id=T1, status=ToolCallStatus.IN_PROGRESS), agent("b"))
    assert outline(state) == ["agent: a", "tool t1", "agent: b"]
    assert state.tool_calls[T1].status is ToolCallStatus.IN_PROGRESS
    state.apply(ToolCall(tool_call_id=T1, title="Told late", kind=ToolKind.EXECUTE))
    call = state.tool_calls[T1]
    assert (call.title, call.kind, call.status) == ("Told late", ToolKind.EXECUTE, ToolCallStatus.IN_PROGRESS)


def test_a_second_report_of_a_tool_call_is_an_update() -> None:
    content: list[ToolCallContent] = [Content(content=text("x"))]
    state = after(
        ToolCall(tool_call_id=T1, title="one", kind=ToolKind.READ, name="read", content=content),
        ToolCall(tool_call_id=T1, title="two", status=ToolCallStatus.COMPLETED, raw_output="done"),
    )
    (call,) = state.timeline
    assert isinstance(call, ToolCallState)
    assert (call.title, call.kind, call.name, call.content) == ("two", ToolKind.READ, "read", content)
    assert (call.status, call.raw_output) == (ToolCallStatus.COMPLETED, "done")


@pytest.mark.spec("PERM-09")
def test_a_permission_request_can_introduce_its_tool_call() -> None:
    state = SessionState()
    state.introduce(ToolCallUpdate(tool_call_id=T1, title="Delete it all", kind=ToolKind.DELETE))
    assert outline(state) == ["tool t1"]
    state.introduce(ToolCallUpdate(tool_call_id=T1, raw_input={"path": "/"}))
    call = state.tool_calls[T1]
    assert (call.title, call.kind, call.raw_input) == ("Delete it all", ToolKind.DELETE, {"path": "/"})


# Turns


def test_what_the_user_says_is_a_message_of_its_own() -> None:
    link = ResourceLink(name="f", uri="file:///f")
    state = SessionState()
    state.begin_turn([text("look at"), link])
    state.apply(agent("done"))
    state.end_turn(StopReason.END_TURN)
    state.begin_turn([text("thanks")])
    first = state.timeline[0]
    assert isinstance(first, Message)
    assert (first.role, first.content) == (MessageRole.USER, (text("look at"), link))
    assert outline(state) == ["user: look at", "agent: done", "user: thanks"]


def test_a_turn_runs_from_its_prompt_to_its_stop_reason() -> None:
    state = SessionState()
    seen = [(state.turn_running, state.stop_reason)]
    state.begin_turn([text("hi")])
    seen.append((state.turn_running, state.stop_reason))
    state.end_turn(StopReason.MAX_TOKENS)
    seen.append((state.turn_running, state.stop_reason))
    state.begin_turn([text("again")])
    seen.append((state.turn_running, state.stop_reason))
    state.end_turn(None)
    seen.append((state.turn_running, state.stop_reason))
    assert seen == [(False, None), (True, None), (False, StopReason.MAX_TOKENS), (True, None), (False, None)]


@pytest.mark.field_note(37)
def test_an_update_outside_a_turn_counts_and_is_not_mixed_into_the_turn_before() -> None:
    state = SessionState()
    state.begin_turn([text("hi")])
    state.apply(agent("done"))
    state.end_turn(StopReason.END_TURN)
    state.apply(agent("By the way"))
    assert outline(state) == ["user: hi", "agent: done", "agent: By the way"]


@pytest.mark.spec("PROMPT-18")
def test_a_refusal_marks_the_prompt_and_all_that_followed_and_nothing_before() -> None:
    state = SessionState()
    state.begin_turn([text("good")])
    state.apply(agent("fine"))
    state.end_turn(StopReason.END_TURN)
    state.begin_turn([text("bad")])
    state.apply(ToolCall(tool_call_id=T1, title="t"))
    state.apply(CompactionUpdate(compaction_id=C1, status=CompactionStatus.IN_PROGRESS))
    state.apply(agent("no"))
    state.end_turn(StopReason.REFUSAL)
    assert [entry.refused for entry in state.timeline] == [False, False, True, True, True, True]


@pytest.mark.spec("CANCEL-02")
def test_cancelling_marks_the_unfinished_tool_calls_of_the_running_turn() -> None:
    state = SessionState()
    state.begin_turn([text("one")])
    state.apply(ToolCall(tool_call_id=ToolCallId("earlier"), title="t"))
    state.end_turn(StopReason.END_TURN)
    state.begin_turn([text("two")])
    state.apply(ToolCall(tool_call_id=ToolCallId("waiting"), title="t"))
    state.apply(ToolCall(tool_call_id=ToolCallId("running"), title="t", status=ToolCallStatus.IN_PROGRESS))
    state.apply(ToolCall(tool_call_id=ToolCallId("done"), title="t", status=ToolCallStatus.COMPLETED))
    state.apply(ToolCall(tool_call_id=ToolCallId("broken"), title="t", status=ToolCallStatus.FAILED))
    state.cancel()
    assert [name for name, call in state.tool_calls.items() if call.cancelled] == ["waiting", "running"]
    assert state.tool_calls[ToolCallId("running")].status is ToolCallStatus.IN_PROGRESS  # not on the wire
    assert state.tool_calls[ToolCallId("running")].finished


def test_cancelling_without_a_turn_changes_nothing() -> None:
    state = after(ToolCall(tool_call_id=T1, title="t"))
    state.cancel()
    assert not state.tool_calls[T1].cancelled


@pytest.mark.spec("CANCEL-10")
@pytest.mark.parametrize(
    "late",
    [
        ToolCallUpdate(tool_call_id=T1, status=ToolCallStatus.FAILED),
        ToolCall(tool_call_id=T1, title="t", status=ToolCallStatus.FAILED),
    ],
    ids=lambda update: type(update).__name__,
)
def test_updates_after_the_cancel_still_count(late: SessionUpdate) -> None:
    state = SessionState()
    state.begin_turn([text("go")])
    state.apply(ToolCall(tool_call_id=T1, title="t"))
    state.cancel()
    state.apply(ToolCallUpdate(tool_call_id=T1, content=[Content(content=text("partial"))]))
    assert state.tool_calls[T1].cancelled
    state.apply(late)
    call = state.tool_calls[T1]
    assert (call.cancelled, call.status) == (False, ToolCallStatus.FAILED)
    assert call.content == [Content(content=text("partial"))]


@pytest.mark.spec("CANCEL-02")
def test_no_tool_call_is_left_running_by_a_cancelled_turn() -> None:
    state = SessionState()
    state.begin_turn([text("go")])
    state.cancel()
    state.apply(ToolCall(tool_call_id=T1, title="late", status=ToolCallStatus.IN_PROGRESS))
    assert not state.tool_calls[T1].finished
    state.end_turn(StopReason.CANCELLED)
    assert state.tool_calls[T1].cancelled


# What replaces what was there


@pytest.mark.spec("PLAN-05", "PLAN-06")
def test_a_plan_replaces_the_one_before_entirely() -> None:
    state = after(Plan(entries=[entry("a"), entry("b")]))
    assert after().plan is None
    new = Plan(entries=[entry("c", PlanEntryStatus.COMPLETED)])
    state.apply(new)
    assert state.plan == new


@pytest.mark.spec("SLASH-03")
def test_commands_are_replaced_and_kept_without_a_slash() -> None:
    state = after(AvailableCommandsUpdate(available_commands=[AvailableCommand(name="old", description="d")]))
    state.apply(
        AvailableCommandsUpdate(
            available_commands=[
                AvailableCommand(name="/web", description="d"),
                AvailableCommand(name="test", description="d"),
            ]
        )
    )
    assert [command.name for command in state.available_commands] == ["web", "test"]


@pytest.mark.spec("PROMPT-12")
def test_usage_is_what_was_reported_last() -> None:
    state = after(UsageUpdate(used=1, size=10, cost=Cost(amount=0.5, currency="USD")))
    last = UsageUpdate(used=2, size=10)
    state.apply(last)
    assert state.usage == last


@pytest.mark.spec("LIST-16", "LIST-17")
@pytest.mark.field_note(89)
def test_session_info_keeps_what_is_absent_and_clears_what_is_null() -> None:
    state = after(SessionInfoUpdate(title="A title", updated_at="2026-01-01T00:00:00Z", meta={"k": 1}))
    state.apply(SessionInfoUpdate(title="Another"))
    assert (state.title, state.updated_at, state.meta) == ("Another", "2026-01-01T00:00:00Z", {"k": 1})
    state.apply(SessionInfoUpdate(title=None, meta=None))
    assert (state.title, state.updated_at, state.meta) == (None, "2026-01-01T00:00:00Z", None)
    state.apply(SessionInfoUpdate(updated_at=None))
    assert state.updated_at is None


@pytest.mark.spec("LIST-18")
def test_session_info_cannot_change_what_the_setup_fixed() -> None:
    assert {field.name for field in attrs.fields(SessionInfoUpdate)} == {"title", "updated_at", "meta"}


@pytest.mark.spec("NOTE-05")
def test_notices_are_kept_apart_and_change_nothing() -> None:
    state = SessionState()
    state.begin_turn([text("go")])
    state.apply(Notice(severity=NoticeSeverity.ERROR, title="The disk is full"))
    assert state.turn_running
    assert outline(state) == ["user: go"]
    assert [notice.title for notice in state.notices] == ["The disk is full"]


@pytest.mark.field_note(87)
def test_unknown_updates_are_kept_apart() -> None:
    strange = Unknown(raw={"sessionUpdate": "weather", "sky": "blue"})
    state = after(strange)
    assert [*state.unknown] == [strange]
    assert not state.timeline


def test_only_the_latest_notices_and_unknown_updates_are_kept() -> None:
    state = SessionState()
    for number in range(1000):
        state.apply(Notice(severity="info", title=str(number)))
        state.apply(Unknown(raw={"sessionUpdate": "x", "n": number}))
    assert [notice.title for notice in state.notices] == [str(number) for number in range(900, 1000)]
    assert [update.raw["n"] for update in state.unknown] == [*range(900, 1000)]


# Compaction


@pytest.mark.spec("COMP-02")
def test_a_compaction_stands_where_it_was_first_mentioned() -> None:
    state = after(
        agent("a"),
        CompactionUpdate(compaction_id=C1, status=CompactionStatus.IN_PROGRESS),
        agent("b"),
        CompactionUpdate(compaction_id=C1, status=CompactionStatus.COMPLETED, summary=[text("short")]),
    )
    assert outline(state) == ["agent: a", "compaction c1", "agent: b"]
    compaction = state.compactions[C1]
    assert (compaction.status, compaction.text) == (CompactionStatus.COMPLETED, "short")


@pytest.mark.spec("COMP-03")
def test_a_compaction_update_keeps_clears_and_replaces() -> None:
    state = after(
        CompactionUpdate(
            compaction_id=C1, status=CompactionStatus.FAILED, summary=[text("s")], error="e", meta={"k": 1}
        ),
        CompactionUpdate(compaction_id=C1, status=CompactionStatus.FAILED),
    )
    compaction = state.compactions[C1]
    assert (compaction.summary, compaction.error, compaction.meta) == ([text("s")], "e", {"k": 1})
    state.apply(CompactionUpdate(compaction_id=C1, status="paused", summary=[], error=None, meta=None))
    assert (compaction.status, compaction.summary, compaction.error, compaction.meta) == ("paused", [], None, None)
    state.apply(CompactionUpdate(compaction_id=C1, status="paused", summary=[text("new")]))
    state.apply(CompactionUpdate(compaction_id=C1, status="paused", summary=None))
    assert compaction.summary == []


@pytest.mark.spec("COMP-04")
def test_a_summary_chunk_appends_and_begins_an_unknown_compaction() -> None:
    state = after(
        CompactionSummaryChunk(compaction_id=C1, content=text("one ")),
        CompactionSummaryChunk(compaction_id=C1, content=text("two")),
    )
    compaction = state.compactions[C1]
    assert compaction.status is CompactionStatus.IN_PROGRESS
    assert compaction.summary == [text("one "), text("two")]
    assert compaction.text == "one two"


@pytest.mark.spec("COMP-04")
def test_a_chunk_does_not_change_the_update_it_follows() -> None:
    update = CompactionUpdate(compaction_id=C1, status=CompactionStatus.IN_PROGRESS, summary=[text("a")])
    state = after(update, CompactionSummaryChunk(compaction_id=C1, content=text("b")))
    assert state.compactions[C1].text == "ab"
    assert update.summary == [text("a")]


# Modes and config options

ASK, CODE = SessionMode(id=SessionModeId("ask"), name="Ask"), SessionMode(id=SessionModeId("code"), name="Code")
MODES = SessionModeState(current_mode_id=ASK.id, available_modes=[ASK, CODE])


def select(name: str, *values: str, category: str | None = None) -> SessionConfigSelect:
    return SessionConfigSelect(
        id=SessionConfigId(name),
        name=name,
        category=category,
        current_value=SessionConfigValueId(values[0]),
        options=[SessionConfigSelectOption(value=SessionConfigValueId(value), name=value) for value in values],
    )


def opened(*options: SessionConfigOption, modes: SessionModeState | None = MODES) -> SessionState:
    state = SessionState()
    state.opened(NewSessionResponse(session_id=SessionId("s"), modes=modes, config_options=[*options]))
    return state


@pytest.mark.spec("MODE-01", "MODE-03")
def test_the_mode_is_the_one_of_the_setup_until_the_agent_changes_it() -> None:
    state = opened()
    assert (state.current_mode_id, state.mode, state.available_modes) == ("ask", ASK, [ASK, CODE])
    state.begin_turn([text("go")])
    state.apply(CurrentModeUpdate(current_mode_id=CODE.id))
    assert (state.current_mode_id, state.mode) == ("code", CODE)


def test_a_mode_that_was_not_listed_has_an_id_and_no_description() -> None:
    state = after(CurrentModeUpdate(current_mode_id=SessionModeId("odd")))
    assert (state.current_mode_id, state.mode) == ("odd", None)


@pytest.mark.spec("CONF-02", "CONF-03", "CONF-17")
def test_config_options_are_replaced_and_keep_their_order() -> None:
    state = opened(select("z", "1"), select("a", "1"))
    assert [option.id for option in state.config_options if isinstance(option, SessionConfigSelect)] == ["z", "a"]
    state.begin_turn([text("go")])
    new: list[SessionConfigOption] = [select("b", "1"), select("a", "2")]
    state.apply(ConfigOptionUpdate(config_options=new))
    assert state.config_options == new


def test_the_answer_to_a_load_counts_over_the_replay_and_leaves_alone_what_it_does_not_name() -> None:
    state = after(CurrentModeUpdate(current_mode_id=CODE.id), ConfigOptionUpdate(config_options=[select("a", "1")]))
    state.opened(LoadSessionResponse(modes=MODES))
    assert state.current_mode_id == "ask"
    assert state.config_options == [select("a", "1")]


@pytest.mark.spec("CONF-23")
def test_modes_are_shown_where_there_are_no_config_options() -> None:
    choice = opened().mode_choice
    assert choice is not None
    assert (choice.current, choice.modes, choice.config_id) == ("ask", [ASK, CODE], None)


@pytest.mark.spec("CONF-01", "CONF-23", "CONF-05")
def test_config_options_are_shown_in_place_of_modes() -> None:
    mode = attrs.evolve(
        select("how", "plan", category="mode"),
        options=[
            SessionConfigSelectGroup(
                group=SessionConfigGroupId(value),
                name=value,
                options=[SessionConfigSelectOption(value=SessionConfigValueId(value), name=value)],
            )
            for value in ("plan", "build")
        ],
    )
    choice = opened(select("model", "x"), mode).mode_choice
    assert choice is not None
    assert (choice.current, choice.config_id) == ("plan", "how")
    assert [mode.id for mode in choice.modes] == ["plan", "build"]


@pytest.mark.spec("CONF-01", "CONF-09")
def test_no_modes_are_shown_beside_config_options_whatever_their_categories() -> None:
    flag = SessionConfigBoolean(id=SessionConfigId("f"), name="F", category="mode", current_value=True)
    assert opened(select("how", "ask", "code"), flag).mode_choice is None


@pytest.mark.spec("CONF-10", "CONF-16")
def test_unknown_categories_and_types_are_no_trouble() -> None:
    state = opened(
        select("a", "1", category="zodiac"),
        Unknown(raw={"type": "slider", "id": "s", "category": "mode"}),
        select("how", "ask", category="mode"),
    )
    choice = state.mode_choice
    assert choice is not None
    assert choice.config_id == "how"
    assert len(state.config_options) == 3


def test_a_session_without_modes_has_no_choice_of_modes() -> None:
    assert SessionState().mode_choice is None


# Replay

IDS = st.sampled_from([None, MessageId("a"), MessageId("b")])
WORDS = st.sampled_from(["x", "y "]).map(text)
CALL_IDS = st.sampled_from([T1, ToolCallId("t2")])
UPDATES: st.SearchStrategy[SessionUpdate] = st.one_of(
    st.builds(UserMessageChunk, content=WORDS),
    st.builds(AgentMessageChunk, content=WORDS, message_id=IDS),
    st.builds(AgentThoughtChunk, content=WORDS, message_id=IDS),
    st.builds(
        ToolCallUpdate,
        tool_call_id=CALL_IDS,
        title=st.sampled_from([None, "one", "two"]),
        kind=st.sampled_from([None, ToolKind.READ, ToolKind.OTHER]),
        status=st.sampled_from([None, *ToolCallStatus]),
        content=st.sampled_from([None, [], [Content(content=text("c"))]]),
        raw_output=st.sampled_from([None, 1, "o"]),
    ),
    st.builds(CompactionUpdate, compaction_id=st.just(C1), status=st.just(CompactionStatus.COMPLETED)),
    st.builds(Plan, entries=st.lists(WORDS.map(lambda word: entry(word.text)), max_size=2)),
    st.builds(SessionInfoUpdate, title=st.sampled_from([UNSET, None, "t"])),
    st.builds(UsageUpdate, used=st.integers(0, 9), size=st.just(10)),
    st.builds(CurrentModeUpdate, current_mode_id=st.sampled_from([SessionModeId("m"), SessionModeId("n")])),
)


def picture(state: SessionState) -> object:
    calls = [
        (call.title, call.kind, call.status, [*call.content], call.raw_output) for call in state.tool_calls.values()
    ]
    return outline(state), calls, state.plan, state.title, state.usage, state.current_mode_id


@pytest.mark.spec("SETUP-11", "SETUP-12", "LIST-17")
@pytest.mark.field_note(67)
@given(st.lists(UPDATES, max_size=12))
def test_a_replayed_session_looks_like_the_live_one(updates: list[SessionUpdate]) -> None:
    lines = [dumps(unstructure(SessionUpdate, update)) for update in updates]
    replayed = [structure(SessionUpdate, loads(line)) for line in Replay(lines).history(lines).updates]
    assert picture(after(*replayed)) == picture(after(*updates))


# Cost


def seconds(make: Callable[[int], Sequence[SessionUpdate]], size: int) -> float:
    updates = make(size)
    best = float("inf")
    for _ in range(5):
        state = SessionState()
        begin = time.process_time()
        for update in updates:
            state.apply(update)
        best = min(best, time.process_time() - begin)
    return best


def one_byte_chunks(size: int) -> Sequence[SessionUpdate]:
    return [agent("x") for _ in range(size)]


def interleaved_messages(size: int) -> Sequence[SessionUpdate]:
    return [agent("x", str(number % 7)) for number in range(size)]


def growing_tool_call(size: int) -> Sequence[SessionUpdate]:
    lines: list[ContentBlock] = [text("line") for _ in range(size)]
    content: list[ToolCallContent] = [Content(content=line) for line in lines]
    shared = [content[: number + 1] for number in range(0, size, max(1, size // 50))]
    return [ToolCallUpdate(tool_call_id=T1, content=shared[number % len(shared)]) for number in range(size)]


def summary_chunks(size: int) -> Sequence[SessionUpdate]:
    return [CompactionSummaryChunk(compaction_id=C1, content=text("x")) for _ in range(size)]


@pytest.mark.field_note(77)
@pytest.mark.parametrize("make", [one_byte_chunks, interleaved_messages, growing_tool_call, summary_chunks])
def test_the_cost_of_updates_is_linear_in_their_number(make: Callable[[int], Sequence[SessionUpdate]]) -> None:
    # Four times as many cost four times as much, and not sixteen.
    assert seconds(make, 20_000) < 9 * seconds(make, 5_000)


@pytest.mark.field_note(77)
def test_chunks_that_are_read_cost_the_memory_of_their_text() -> None:
    state = SessionState()
    tracemalloc.start()
    try:
        for _ in range(20):
            for _ in range(1000):
                state.apply(agent("xxxxxxxxxx"))
            assert len(spoken(state)) == 1
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2 * 200_000
    assert peak < 6 * 200_000
