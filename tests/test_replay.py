"""What of a journal is replayed, as a pure function of its lines."""

from __future__ import annotations

import time
from collections.abc import Collection

import pytest

from acp_ref._jsonrpc import JSON, JSONObject, dumps, loads
from acp_ref._replay import Replay, merge_compaction, merge_session_info, merge_tool_call


def replay(*updates: JSONObject, without: Collection[str] = ()) -> list[JSON]:
    """What is replayed of a journal of ``updates``."""
    lines = [dumps(update) for update in updates]
    return [loads(line) for line in Replay(lines, without=without).history(lines).updates]


def chunk(kind: str, text: str) -> JSONObject:
    return {"sessionUpdate": f"{kind}_chunk", "content": {"type": "text", "text": text}}


def tool_call(**fields: JSON) -> JSONObject:
    return {"sessionUpdate": "tool_call", **fields}


def tool_call_update(**fields: JSON) -> JSONObject:
    return {"sessionUpdate": "tool_call_update", **fields}


def compaction(**fields: JSON) -> JSONObject:
    return {"sessionUpdate": "compaction_update", **fields}


def summary_chunk(text: str) -> JSONObject:
    return {"sessionUpdate": "compaction_summary_chunk", "compactionId": "k", "content": {"type": "text", "text": text}}


USER = chunk("user_message", "hello")
THOUGHT = chunk("agent_thought", "hm")
AGENT = chunk("agent_message", "hi")


@pytest.mark.spec("SETUP-11", "SETUP-12")
def test_user_agent_and_thought_chunks_come_back_in_their_order_and_unmerged() -> None:
    assert replay(USER, THOUGHT, AGENT, AGENT, USER) == [USER, THOUGHT, AGENT, AGENT, USER]


@pytest.mark.spec("SETUP-11")
def test_a_chunk_comes_back_byte_for_byte() -> None:
    line = b'{"content":{"text":"a  \\u00e4 1.0","type":"text"},  "sessionUpdate":"agent_message_chunk","_meta":null}'
    assert list(Replay([line]).history([line]).updates) == [line]


@pytest.mark.spec("SETUP-11", "TOOL-07", "TOOL-08", "TOOL-09")
def test_a_tool_call_comes_back_once_in_its_final_form_where_it_was_first_reported() -> None:
    result = replay(
        USER,
        tool_call(toolCallId="1", title="Read", kind="read", status="pending", rawInput={"path": "/a"}),
        AGENT,
        tool_call_update(toolCallId="1", status="in_progress", content=[{"type": "terminal", "terminalId": "t"}]),
        tool_call(toolCallId="2", title="Write"),
        tool_call_update(toolCallId="1", status="completed", title=None, content=[], rawOutput={"ok": True}),
        tool_call_update(toolCallId="2", status="failed"),
        AGENT,
    )
    assert result == [
        USER,
        tool_call(
            toolCallId="1",
            title="Read",
            kind="read",
            status="completed",
            rawInput={"path": "/a"},
            content=[],
            rawOutput={"ok": True},
        ),
        AGENT,
        tool_call(toolCallId="2", title="Write", status="failed"),
        AGENT,
    ]


def test_values_that_are_false_but_not_null_do_change_a_tool_call() -> None:
    state: JSONObject = {"rawOutput": 1, "content": [1], "title": "t", "rawInput": {"a": 1}}
    merge_tool_call(state, {"rawOutput": False, "content": [], "title": "", "rawInput": 0})
    assert state == {"rawOutput": False, "content": [], "title": "", "rawInput": 0}


def test_an_update_of_a_tool_call_that_was_never_reported_stays_an_update_until_a_title_comes() -> None:
    untitled = tool_call_update(toolCallId="1", status="completed")
    assert replay(untitled) == [untitled]
    assert replay(untitled, tool_call_update(toolCallId="1", title="T")) == [
        tool_call(toolCallId="1", status="completed", title="T")
    ]


def test_a_second_report_of_a_known_tool_call_updates_it() -> None:
    assert replay(
        tool_call(toolCallId="1", title="A", kind="read"),
        AGENT,
        tool_call(toolCallId="1", title="B", status="completed"),
    ) == [tool_call(toolCallId="1", title="B", kind="read", status="completed"), AGENT]


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("plan", {"entries": [{"content": "a", "priority": "low", "status": "pending"}]}, {"entries": []}),
        (
            "available_commands_update",
            {"availableCommands": [{"name": "a", "description": ""}]},
            {"availableCommands": []},
        ),
        ("current_mode_update", {"currentModeId": "ask"}, {"currentModeId": "code"}),
        ("config_option_update", {"configOptions": [1]}, {"configOptions": []}),
        ("usage_update", {"used": 1, "size": 10}, {"used": 5, "size": 10}),
    ],
)
@pytest.mark.spec("SETUP-11", "PLAN-05")
def test_of_a_state_only_the_last_word_comes_back_where_it_was_said(
    kind: str, old: JSONObject, new: JSONObject
) -> None:
    before: JSONObject = {"sessionUpdate": kind, **old}
    after: JSONObject = {"sessionUpdate": kind, **new}
    assert replay(before, USER, before, AGENT, after, USER) == [USER, AGENT, after, USER]


@pytest.mark.spec("LIST-16", "LIST-17")
def test_session_info_is_merged_and_what_was_cleared_is_null() -> None:
    def info(**fields: JSON) -> JSONObject:
        return {"sessionUpdate": "session_info_update", **fields}

    assert replay(
        info(title="A", updatedAt="2025-01-01T00:00:00Z"), USER, info(title="B"), AGENT, info(updatedAt=None)
    ) == [
        USER,
        AGENT,
        info(title="B", updatedAt=None),
    ]


def test_session_info_keeps_what_an_update_leaves_out() -> None:
    state: JSONObject = {"title": "A"}
    merge_session_info(state, {"_meta": {"x": 1}})
    assert state == {"title": "A", "_meta": {"x": 1}}


@pytest.mark.spec("NOTE-04")
def test_notices_do_not_come_back() -> None:
    assert replay({"sessionUpdate": "notice", "severity": "info", "title": "Hi"}, USER) == [USER]


@pytest.mark.spec("COMP-02", "COMP-03", "COMP-04")
def test_a_finished_compaction_comes_back_merged_in_its_place() -> None:
    assert replay(
        USER,
        compaction(compactionId="k", status="in_progress"),
        AGENT,
        summary_chunk("one"),
        summary_chunk("two"),
        compaction(compactionId="k", status="completed", _meta={"a": 1}),
        USER,
    ) == [
        USER,
        compaction(
            compactionId="k",
            status="completed",
            summary=[{"type": "text", "text": "one"}, {"type": "text", "text": "two"}],
            _meta={"a": 1},
        ),
        AGENT,
        USER,
    ]


@pytest.mark.spec("COMP-04")
def test_a_compaction_that_began_with_a_chunk_or_never_ended_does_not_come_back() -> None:
    assert replay(summary_chunk("one"), USER) == [USER]
    assert replay(compaction(compactionId="k", status="in_progress"), USER) == [USER]


@pytest.mark.spec("COMP-03")
def test_null_clears_a_field_of_a_compaction_and_a_list_replaces_its_summary() -> None:
    state: JSONObject = {"summary": [1], "error": "e", "_meta": {"a": 1}}
    merge_compaction(state, compaction(status="completed", summary=[2], error=None))
    assert state == {"sessionUpdate": "compaction_update", "status": "completed", "summary": [2], "_meta": {"a": 1}}


@pytest.mark.spec("COMP-01")
def test_a_client_that_did_not_announce_compactions_gets_none() -> None:
    done = compaction(compactionId="k", status="completed")
    assert replay(USER, done, AGENT) == [USER, done, AGENT]
    assert replay(USER, done, AGENT, without=("compaction_update", "compaction_summary_chunk")) == [USER, AGENT]


def test_updates_of_a_kind_not_known_here_come_back_as_they_are() -> None:
    unknown: JSONObject = {"sessionUpdate": "_vendor_thing", "x": [1, None]}
    assert replay(unknown, USER, unknown) == [unknown, USER, unknown]


@pytest.mark.parametrize(
    "damage",
    [
        b"{",
        b"\0" * 40,
        b'{"sessionUpdate":"agent_message_chunk","content":{"type":"te',
        b"[1]",
        b"7",
        b"{}",
        b'{"sessionUpdate":["plan"]}',
        b'{"sessionUpdate":"agent_message_chunk","content":"\xff"}',
        b'{"sessionUpdate":"tool_call","title":"of no id"}',
        b'{"sessionUpdate":"compaction_update","compactionId":7}',
        b"[" * 100_000,
    ],
)
def test_a_damaged_line_is_left_out_and_counted(damage: bytes) -> None:
    lines = [dumps(USER), damage, dumps(AGENT)]
    result = Replay(lines)
    assert result.damaged == 1
    assert list(result.history(lines).updates) == [dumps(USER), dumps(AGENT)]


def test_lines_that_came_after_the_first_pass_are_not_selected() -> None:
    lines = [dumps(USER)]
    result = Replay(lines)
    lines.append(dumps(AGENT))
    assert list(result.history(lines).updates) == [dumps(USER)]


@pytest.mark.field_note(77)
def test_the_cost_is_linear_in_the_bytes() -> None:
    def cost(updates: int) -> float:
        lines = [dumps(tool_call(toolCallId="1", title="T"))]
        lines += [
            dumps(tool_call_update(toolCallId="1", content=[{"text": "x" * 200}], rawOutput=n)) for n in range(updates)
        ]
        best = 1e9
        for _ in range(3):
            start = time.process_time()
            assert len(list(Replay(lines).history(lines).updates)) == 1
            best = min(best, time.process_time() - start)
        return best

    # Twice the lines cost some twice the time; a quadratic merge would cost four times as much.
    assert cost(8_000) < 3.2 * cost(4_000)
