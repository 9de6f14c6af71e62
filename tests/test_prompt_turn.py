"""Prompt Turn and Cancellation, at the agent and at the client.

https://agentclientprotocol.com/protocol/prompt-turn
https://agentclientprotocol.com/protocol/cancellation
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import pytest
import trio
import trio.testing

from acp_ref._jsonrpc import JSONObject
from acp_ref.agent import Agent
from acp_ref.client import Client
from acp_ref.client_session import ClientSession
from acp_ref.client_side import ClientSide
from acp_ref.errors import CapabilityError, ErrorCode, LocalProtocolError, RequestError
from acp_ref.permissions import answer_with
from acp_ref.prompt_turn import PromptTurn
from acp_ref.reports import Report, ReportKind
from acp_ref.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    ImageContent,
    Notice,
    NoticeSeverity,
    PermissionOption,
    PermissionOptionKind,
    PlanEntry,
    PlanEntryPriority,
    PlanEntryStatus,
    RequestPermissionRequest,
    SessionId,
    SessionUpdate,
    StopReason,
    TextContent,
    ToolCallStatus,
    Unknown,
)
from acp_ref.session_store import MemoryStore
from acp_ref.testing import ScriptedPeer, open_agent_and_client, open_scripted_agent
from tests.conversations import CWD, client_of, code_of, new_session, parrot, prompt, result_of, say, text_of, update_of

CANCELLED: JSONObject = {"stopReason": "cancelled"}


async def wait_forever(turn: PromptTurn) -> StopReason:
    await trio.sleep_forever()
    return StopReason.END_TURN


def served(handler: object = parrot) -> Agent:
    return Agent(name="a", version="1", prompt=handler, store=MemoryStore())  # type: ignore[arg-type]


def client(**more: object) -> Client:
    settings: dict[str, object] = {
        "name": "c",
        "version": "1",
        "request_permission": answer_with(PermissionOptionKind.ALLOW_ONCE),
    } | more
    return Client(**settings)  # type: ignore[arg-type]  # the tests give what each of them is about


# ------------------------------------------------------------------------------------------------- at the agent


@pytest.mark.spec("PROMPT-02", "PROMPT-08", "PROMPT-15", "PROMPT-16", "PROMPT-17", "GEN-05")
async def test_a_turn_sends_its_updates_and_then_exactly_one_stop_reason() -> None:
    for reason in StopReason:

        async def answer(turn: PromptTurn, reason: StopReason = reason) -> StopReason:
            await turn.send_text("a")
            return reason

        async with client_of(served(answer)) as peer:
            session_id = await new_session(peer)
            update, response = await say(peer, session_id, "hi")
            assert text_of(update) == "a"
            assert result_of(response) == {"stopReason": reason.value}


@pytest.mark.spec("PROMPT-10")
async def test_pieces_in_a_row_bear_one_message_id_and_a_new_message_another() -> None:
    async def answer(turn: PromptTurn) -> StopReason:
        await turn.send_thought("hm")
        await turn.send_text("a")
        await turn.send_text("b")
        await turn.send_plan()
        await turn.send_text("c")
        return StopReason.END_TURN

    async with client_of(served(answer)) as peer:
        messages = await say(peer, await new_session(peer), "hi")
        ids = [update_of(message).get("messageId") for message in messages[:-1]]
        assert ids[1] == ids[2]
        assert ids[3] is None
        assert len({ids[0], ids[1], ids[4]}) == 3


@pytest.mark.spec("PROMPT-24")
@pytest.mark.field_note(38)
async def test_a_second_prompt_is_refused_while_a_turn_runs_and_the_first_goes_on() -> None:
    release = trio.Event()

    async def wait(turn: PromptTurn) -> StopReason:
        await release.wait()
        return StopReason.END_TURN

    async with client_of(served(wait)) as peer:
        session_id = await new_session(peer)
        await peer.request(1, "session/prompt", prompt(session_id, "one"))
        refused = await peer.call(2, "session/prompt", prompt(session_id, "two"))
        assert (refused["id"], code_of(refused)) == (2, ErrorCode.INVALID_REQUEST)
        release.set()
        assert (await peer.receive())["id"] == 1


@pytest.mark.field_note(38)
async def test_a_prompt_right_behind_an_answer_is_always_accepted() -> None:
    async with client_of(served()) as peer:
        session_id = await new_session(peer)
        for n in range(300):
            assert result_of((await say(peer, session_id, f"{n}"))[-1]) == {"stopReason": "end_turn"}


@pytest.mark.spec("CANCEL-01", "CANCEL-04", "CANCEL-05", "CANCEL-07")
@pytest.mark.field_note(78, 82)
async def test_a_cancelled_turn_is_answered_cancelled_and_the_session_goes_on() -> None:
    async def slow_or_not(turn: PromptTurn) -> StopReason:
        if turn.text == "slow":
            await trio.sleep_forever()
        return await parrot(turn)

    async with client_of(served(slow_or_not)) as peer:
        session_id = await new_session(peer)
        for _ in range(2):
            await peer.request(1, "session/prompt", prompt(session_id, "slow"))
            await peer.notify("session/cancel", {"sessionId": session_id})
            assert result_of(await peer.receive()) == CANCELLED
            assert result_of((await say(peer, session_id, "quick"))[-1]) == {"stopReason": "end_turn"}


@pytest.mark.spec("CANCEL-05")
@pytest.mark.field_note(80)
async def test_a_cancel_in_the_same_chunk_as_its_prompt_is_never_lost() -> None:
    reached: list[int] = []

    async def work(turn: PromptTurn) -> StopReason:
        await trio.lowlevel.checkpoint()
        reached.append(1)
        return StopReason.END_TURN

    async with client_of(served(work)) as peer:
        session_id = await new_session(peer)
        for n in range(200):
            await peer.send(
                {"jsonrpc": "2.0", "id": n, "method": "session/prompt", "params": prompt(session_id, "hi")},
                {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session_id}},
            )
            assert await peer.receive() == {"jsonrpc": "2.0", "id": n, "result": CANCELLED}
        assert reached == []


@pytest.mark.spec("CANCEL-06", "CANCEL-07")
@pytest.mark.field_note(79)
async def test_whatever_blows_up_because_of_a_cancel_the_answer_is_cancelled() -> None:
    async def in_a_nursery(turn: PromptTurn) -> StopReason:
        async def child() -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise RuntimeError("torn down")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(child)
            nursery.start_soon(trio.sleep_forever)
        return StopReason.END_TURN

    async def in_its_own_nursery(turn: PromptTurn) -> StopReason:
        turn.nursery.start_soon(trio.sleep_forever)
        return StopReason.END_TURN

    async def swallows(turn: PromptTurn) -> StopReason:
        with suppress(trio.Cancelled):
            await trio.sleep_forever()
        return StopReason.END_TURN

    async def raises_instead(turn: PromptTurn) -> StopReason:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            raise RequestError(1, "aborted") from None
        return StopReason.END_TURN

    async def in_a_thread(turn: PromptTurn) -> StopReason:
        started.set()
        await trio.to_thread.run_sync(stop.wait, abandon_on_cancel=True)
        return StopReason.END_TURN

    import threading

    stop, started = threading.Event(), trio.Event()
    for handler in (wait_forever, in_a_nursery, in_its_own_nursery, swallows, raises_instead, in_a_thread):
        reports: list[Report] = []
        async with client_of(served(handler), reports=reports) as peer:
            session_id = await new_session(peer)
            await peer.request(1, "session/prompt", prompt(session_id, "hi"))
            if handler is in_a_thread:
                await started.wait()
            else:
                await trio.testing.wait_all_tasks_blocked()
            await peer.notify("session/cancel", {"sessionId": session_id})
            assert result_of(await peer.receive()) == CANCELLED, handler
    stop.set()


@pytest.mark.spec("CANCEL-17", "CANCEL-15")
@pytest.mark.field_note(85)
async def test_cancelling_the_prompts_request_cancels_the_turn() -> None:
    async with client_of(served(wait_forever)) as peer:
        session_id = await new_session(peer)
        await peer.request(1, "session/prompt", prompt(session_id, "hi"))
        await peer.notify("$/cancel_request", {"requestId": 1})
        assert result_of(await peer.receive()) == CANCELLED


@pytest.mark.spec("CANCEL-08", "CANCEL-09")
@pytest.mark.field_note(37)
async def test_updates_after_a_cancel_come_before_the_answer_and_none_after_it() -> None:
    late: list[PromptTurn] = []

    async def last_words(turn: PromptTurn) -> StopReason:
        late.append(turn)
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await turn.send_text("last words")
        return StopReason.END_TURN

    async with client_of(served(last_words)) as peer:
        session_id = await new_session(peer)
        await peer.request(1, "session/prompt", prompt(session_id, "hi"))
        await trio.testing.wait_all_tasks_blocked()
        await peer.notify("session/cancel", {"sessionId": session_id})
        assert text_of(await peer.receive()) == "last words"
        assert result_of(await peer.receive()) == CANCELLED
        with pytest.raises(LocalProtocolError, match="over"):
            await late[0].send_text("too late")
        assert await peer.receive_all() == []


@pytest.mark.field_note(37)
async def test_what_a_turn_started_is_joined_before_its_answer() -> None:
    async def answer(turn: PromptTurn) -> StopReason:
        async def background() -> None:
            for n in range(10):
                await trio.lowlevel.checkpoint()
                await turn.send_text(str(n))

        turn.nursery.start_soon(background)
        return StopReason.END_TURN

    async with client_of(served(answer)) as peer:
        *updates, response = await say(peer, await new_session(peer), "hi")
        assert [text_of(update) for update in updates] == [str(n) for n in range(10)]
        assert "result" in response


@pytest.mark.field_note(88)
async def test_a_failing_turn_is_an_error_and_the_session_goes_on() -> None:
    async def fail(turn: PromptTurn) -> StopReason:
        if turn.text == "fail":
            raise RuntimeError("429")
        return await parrot(turn)

    reports: list[Report] = []
    async with client_of(served(fail), reports=reports) as peer:
        session_id = await new_session(peer)
        (answer,) = await say(peer, session_id, "fail")
        assert answer["error"] == {"code": -32603, "message": "Internal error"}
        assert [report.kind for report in reports] == [ReportKind.HANDLER_FAILED]
        assert "result" in (await say(peer, session_id, "ok"))[-1]


@pytest.mark.spec("NOTE-01", "COMP-01")
async def test_a_notice_goes_only_to_a_client_that_announced_it() -> None:
    async def notify(turn: PromptTurn) -> StopReason:
        await turn.send_notice(NoticeSeverity.WARNING, "Low", "Fuel")
        with pytest.raises(CapabilityError):
            await turn.send(Notice(severity=NoticeSeverity.INFO, title="x"))
        return StopReason.END_TURN

    async with client_of(served(notify)) as peer:
        (instead, _) = await say(peer, await new_session(peer), "hi")
        assert text_of(instead) == "Low: Fuel"

    async def announced(turn: PromptTurn) -> StopReason:
        await turn.send_notice(NoticeSeverity.WARNING, "Low")
        return StopReason.END_TURN

    async with client_of(served(announced), capabilities={"session": {"notices": {}}}) as peer:
        (notice, _) = await say(peer, await new_session(peer), "hi")
        assert update_of(notice) == {"sessionUpdate": "notice", "severity": "warning", "title": "Low"}


@pytest.mark.spec("PROMPT-09", "PROMPT-20", "PROMPT-22", "TOOL-01", "TOOL-02", "TOOL-06", "TOOL-07", "TOOL-10")
async def test_a_tool_call_has_a_life_and_its_updates_hold_only_what_changed() -> None:
    async def work(turn: PromptTurn) -> StopReason:
        async with turn.tool_call("Reading", name="read") as call:
            await call.start()
            await call.update(title="Reading more")
        with pytest.raises(RuntimeError):
            async with turn.tool_call("Failing"):
                raise RuntimeError
        return StopReason.END_TURN

    async with client_of(served(work)) as peer:
        messages = await say(peer, await new_session(peer), "hi")
        first, start, title, done, second, failed = map(update_of, messages[:-1])
        call_id = first["toolCallId"]
        assert first | {"kind": "other", "status": "pending"} == {
            "sessionUpdate": "tool_call",
            "toolCallId": call_id,
            "title": "Reading",
            "name": "read",
            "kind": "other",
            "status": "pending",
        }
        base: JSONObject = {"sessionUpdate": "tool_call_update", "toolCallId": call_id}
        assert start == {**base, "status": "in_progress"}
        assert title == {**base, "title": "Reading more"}
        assert done == {**base, "status": "completed"}
        assert second["toolCallId"] != call_id
        assert failed["status"] == "failed"


@pytest.mark.spec("CANCEL-05", "PROMPT-22")
async def test_a_tool_call_that_is_cancelled_is_reported_failed_before_the_answer() -> None:
    async def work(turn: PromptTurn) -> StopReason:
        async with turn.tool_call("Running") as call:
            await call.start()
            await trio.sleep_forever()
        return StopReason.END_TURN

    async with client_of(served(work)) as peer:
        session_id = await new_session(peer)
        await peer.request(1, "session/prompt", prompt(session_id, "hi"))
        await trio.testing.wait_all_tasks_blocked()
        await peer.notify("session/cancel", {"sessionId": session_id})
        messages = [await peer.receive() for _ in range(4)]
        assert update_of(messages[2])["status"] == "failed"
        assert result_of(messages[3]) == CANCELLED


@pytest.mark.spec("GEN-09", "GEN-10", "TOOL-12", "TOOL-16")
async def test_relative_paths_and_line_0_never_leave_the_agent() -> None:
    from acp_ref.schema import Diff, ToolCallLocation

    async def work(turn: PromptTurn) -> StopReason:
        with pytest.raises(LocalProtocolError, match=r"content\[0\]\.path"):
            async with turn.tool_call("Edit", content=[Diff(path="x", new_text="")]):
                pass
        for location in (ToolCallLocation(path="x"), ToolCallLocation(path="/x", line=0)):
            with pytest.raises(LocalProtocolError, match=r"locations\[0\]"):
                async with turn.tool_call("Edit", locations=[location]):
                    pass
        return StopReason.END_TURN

    async with client_of(served(work)) as peer:
        assert len(await say(peer, await new_session(peer), "hi")) == 1


@pytest.mark.field_note(84)
async def test_a_turn_ends_cancelled_even_when_the_client_never_answers_a_permission_request() -> None:
    async def ask(turn: PromptTurn) -> StopReason:
        async with turn.tool_call("Delete") as call:
            await call.request_permission()
        return StopReason.END_TURN

    async with client_of(served(ask)) as peer:
        session_id = await new_session(peer)
        await peer.request(1, "session/prompt", prompt(session_id, "hi"))
        assert update_of(await peer.receive())["sessionUpdate"] == "tool_call"
        question = await peer.receive()
        await peer.notify("session/cancel", {"sessionId": session_id})
        messages = [await peer.receive() for _ in range(3)]
        assert [message.get("method") for message in messages] == ["$/cancel_request", "session/update", None]
        assert result_of(messages[-1]) == CANCELLED
        await peer.answer(question, {"outcome": {"outcome": "selected", "optionId": "allow_once"}})
        assert await peer.receive_all() == []


@pytest.mark.spec("PERM-02", "PERM-03", "PERM-08", "CANCEL-03")
@pytest.mark.field_note(95)
@pytest.mark.parametrize(
    ("answer", "allowed"),
    [
        ({"result": {"outcome": {"outcome": "selected", "optionId": "yes"}}}, True),
        ({"result": {"outcome": {"outcome": "selected", "optionId": "no"}}}, False),
        ({"result": {"outcome": {"outcome": "selected", "optionId": "zzz"}}}, False),
        ({"result": {"outcome": {"outcome": "selected"}}}, False),
        ({"result": {"outcome": {"outcome": "cancelled"}}}, False),
        ({"result": {"outcome": {"outcome": "whatever"}}}, False),
        ({"result": {}}, False),
        ({"error": {"code": -32601, "message": "Method not found"}}, False),
    ],
)
async def test_what_is_not_clearly_a_yes_is_a_no(answer: JSONObject, allowed: bool) -> None:
    decisions: list[bool] = []
    options = [
        PermissionOption(option_id="yes", name="Yes", kind=PermissionOptionKind.ALLOW_ONCE),  # type: ignore[arg-type]
        PermissionOption(option_id="no", name="No", kind=PermissionOptionKind.REJECT_ONCE),  # type: ignore[arg-type]
    ]

    async def ask(turn: PromptTurn) -> StopReason:
        async with turn.tool_call("Delete") as call:
            decisions.append((await call.request_permission(options)).allowed)
        return StopReason.END_TURN

    async with client_of(served(ask), reports=[]) as peer:
        await peer.request(1, "session/prompt", prompt(await new_session(peer), "hi"))
        await peer.receive()
        question = await peer.receive()
        await peer.send({"jsonrpc": "2.0", "id": question["id"], **answer})
        await peer.receive_all()
        assert decisions == [allowed]


# ------------------------------------------------------------------------------------------------ at the client


@asynccontextmanager
async def session_with(
    **more: object,
) -> AsyncGenerator[tuple[ClientSide, ClientSession, ScriptedPeer], None]:
    """A client's session with a scripted agent."""
    async with open_scripted_agent(client(**more), on_report=lambda report: None) as (side, peer):

        async def answer() -> None:
            await peer.answer(await peer.receive(), {"sessionId": "s"})

        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            async with side.new_session(CWD) as session:
                yield side, session, peer


def chunk(text: str, session_id: str = "s") -> JSONObject:
    update: JSONObject = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session_id, "update": update}}


@pytest.mark.spec("PROMPT-03", "CANCEL-10")
@pytest.mark.field_note(32)
async def test_a_turn_yields_every_update_before_its_stop_reason() -> None:
    async with session_with() as (_, session, peer):
        async with session.prompt("hello", TextContent(text="world")) as turn:
            question = await peer.receive()
            assert question["params"] == {
                "sessionId": "s",
                "prompt": [{"type": "text", "text": "hello"}, {"type": "text", "text": "world"}],
            }
            response: JSONObject = {"jsonrpc": "2.0", "id": question["id"], "result": {"stopReason": "end_turn"}}
            await peer.send(*(chunk(str(n)) for n in range(200)), response, chunk("between turns"))
            texts = [
                u.content.text
                async for u in turn
                if isinstance(u, AgentMessageChunk) and isinstance(u.content, TextContent)
            ]
        assert texts == [str(n) for n in range(200)]
        assert turn.stop_reason is StopReason.END_TURN
        await trio.testing.wait_all_tasks_blocked()
        assert session.statistics().updates_received == 201


@pytest.mark.spec("PROMPT-24")
async def test_a_client_prompts_once_at_a_time_and_again_after_the_answer() -> None:
    async with open_agent_and_client(served(), client()) as (_, side), side.new_session(CWD) as session:
        async with session.prompt("one") as turn:
            with pytest.raises(LocalProtocolError):
                async with session.prompt("two"):
                    pass
            assert await turn.text() == "one"
        async with session.prompt("two") as turn:
            assert await turn.wait() is StopReason.END_TURN


@pytest.mark.spec("PROMPT-04", "PROMPT-05", "CONTENT-04")
@pytest.mark.field_note(97)
async def test_a_client_sends_no_block_that_the_agent_did_not_announce() -> None:
    image = ImageContent(data="", mime_type="image/png")
    async with session_with() as (_, session, peer):
        assert not session.accepts(image)
        assert session.accepts(TextContent(text=""))
        with pytest.raises(CapabilityError, match="image"):
            async with session.prompt("look", image):
                pass
        assert await peer.receive_all() == []


@pytest.mark.spec("CANCEL-01", "CANCEL-02", "CANCEL-03", "CANCEL-10", "PERM-05")
@pytest.mark.field_note(84)
async def test_cancelling_tells_the_agent_first_and_answers_every_question_cancelled() -> None:
    async def never(request: RequestPermissionRequest) -> PermissionOption | None:
        await trio.sleep_forever()
        return None

    def permission(request_id: int, call_id: str) -> JSONObject:
        return {
            "jsonrpc": "2.0",
            "id": request_id,
            "method": "session/request_permission",
            "params": {
                "sessionId": "s",
                "toolCall": {"toolCallId": call_id},
                "options": [{"optionId": "a", "name": "A", "kind": "allow_once"}],
            },
        }

    async with session_with(request_permission=never) as (_, session, peer):
        async with session.prompt("hi") as turn:
            question = await peer.receive()
            await peer.send(permission(1, "x"), permission(2, "y"))
            assert await peer.receive_all() == []
            turn.cancel()
            turn.cancel()
            await peer.send(permission(3, "z"), chunk("late"))
            messages = await peer.receive_all()
            assert messages[0] == {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}}
            cancelled: JSONObject = {"outcome": {"outcome": "cancelled"}}
            assert {m["id"]: m["result"] for m in messages[1:]} == {1: cancelled, 2: cancelled, 3: cancelled}
            assert [call.cancelled for call in session.state.tool_calls.values()] == [True, True, False]
            await peer.answer(question, {"stopReason": "cancelled"})
            updates = [update async for update in turn]
            assert len(updates) == 1
        assert turn.stop_reason is StopReason.CANCELLED


async def test_leaving_a_turn_early_cancels_it_and_waits_for_its_end() -> None:
    started = trio.Event()

    async def stream(turn: PromptTurn) -> StopReason:
        await turn.send_text("one")
        started.set()
        await trio.sleep_forever()
        return StopReason.END_TURN

    async with open_agent_and_client(served(stream), client()) as (_, side), side.new_session(CWD) as session:
        async with session.prompt("hi") as turn:
            async for _ in turn:
                break
        assert turn.stop_reason is StopReason.CANCELLED
        with pytest.raises(KeyError):
            async with session.prompt("hi") as turn:
                raise KeyError


@pytest.mark.field_note(40)
async def test_a_deadline_around_a_turn_cancels_it_and_leaves_the_connection_usable(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def slow_or_not(turn: PromptTurn) -> StopReason:
        if turn.text == "slow":
            await trio.sleep(10_000)
        return await parrot(turn)

    async with open_agent_and_client(served(slow_or_not), client()) as (_, side), side.new_session(CWD) as session:
        with trio.move_on_after(5000) as scope:
            async with session.prompt("slow") as turn:
                await turn.wait()
        assert scope.cancelled_caught
        await trio.testing.wait_all_tasks_blocked()
        assert turn.stop_reason is StopReason.CANCELLED
        async with session.prompt("quick") as turn:
            assert await turn.text() == "quick"


@pytest.mark.spec("PROMPT-18")
@pytest.mark.field_note(88)
async def test_an_unknown_stop_reason_is_shown_as_it_came() -> None:
    async with session_with() as (_, session, peer):
        async with session.prompt("hi") as turn:
            await peer.answer(await peer.receive(), {"stopReason": "error"})
            assert await turn.wait() == "error"
        assert not isinstance(turn.stop_reason, StopReason)


async def test_an_error_in_answer_to_a_prompt_is_raised_as_it_is() -> None:
    async with session_with() as (_, session, peer):
        async with session.prompt("hi") as turn:
            question = await peer.receive()
            error: JSONObject = {"code": 42, "message": "quota"}
            await peer.send(chunk("a"), {"jsonrpc": "2.0", "id": question["id"], "error": error})
            with pytest.raises(RequestError, match="quota"):
                await turn.text()
        assert session.turn is None


@pytest.mark.field_note(87)
async def test_an_update_of_a_later_version_reaches_the_application_raw() -> None:
    seen: list[SessionUpdate] = []
    async with session_with(on_update=lambda session, update: seen.append(update)) as (_, _session, peer):
        raw: JSONObject = {"sessionUpdate": "plan_v9", "x": 1, "_meta": {"k": None}}
        message: JSONObject = {
            "jsonrpc": "2.0",
            "method": "session/update",
            "params": {"sessionId": "s", "update": raw},
        }
        bad: JSONObject = {**chunk("")}
        bad["params"] = {"sessionId": "s", "update": {"sessionUpdate": "agent_message_chunk", "content": 5}}
        await peer.send(chunk("a"), message, bad, chunk("b"))
        await trio.testing.wait_all_tasks_blocked()
        assert [type(update) for update in seen] == [AgentMessageChunk, Unknown, AgentMessageChunk]
        assert seen[1] == Unknown(raw=raw)


@pytest.mark.spec("GEN-12", "LIST-16")
@pytest.mark.field_note(36)
async def test_updates_that_come_before_the_answer_to_new_reach_the_new_session() -> None:
    seen: list[tuple[str, SessionUpdate]] = []
    reports: list[Report] = []

    def note(session: ClientSession, update: SessionUpdate) -> None:
        seen.append((session.id, update))

    async with open_scripted_agent(client(on_update=note), on_report=reports.append) as (side, peer):

        async def answer() -> None:
            question = await peer.receive()
            response: JSONObject = {"jsonrpc": "2.0", "id": question["id"], "result": {"sessionId": "s"}}
            await peer.send(chunk("early"), chunk("stray", "other"), response, chunk("behind"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            async with side.new_session(CWD):
                assert [session_id for session_id, _ in seen] == ["s", "s"]
                assert [report.kind for report in reports] == [ReportKind.IGNORED]


@pytest.mark.spec("SETUP-13", "SETUP-43")
@pytest.mark.field_note(67)
async def test_a_replay_is_complete_and_marked_when_the_load_returns() -> None:
    flags: list[bool] = []

    def note(session: ClientSession, update: SessionUpdate) -> None:
        flags.append(session.replaying)

    async with open_scripted_agent(client(on_update=note), agent_capabilities={"loadSession": True}) as (side, peer):

        async def answer() -> None:
            question = await peer.receive()
            response: JSONObject = {"jsonrpc": "2.0", "id": question["id"], "result": None}
            await peer.send(*(chunk(str(n)) for n in range(1000)), response, chunk("new"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            async with side.load_session(SessionId("s"), CWD) as session:
                assert len(session.replay) == 1000
                assert flags == [True] * 1000 + [False]
                assert not session.replaying


async def test_a_new_session_nobody_waits_for_any_more_is_closed_when_it_comes() -> None:
    capabilities: JSONObject = {"sessionCapabilities": {"close": {}}}
    async with open_scripted_agent(client(), agent_capabilities=capabilities) as (side, peer):
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:

                async def give_up() -> None:
                    async with side.new_session(CWD):
                        pass

                nursery.start_soon(give_up)
                question = await peer.receive()
                scope.cancel()
        assert (await peer.receive())["method"] == "$/cancel_request"
        await peer.answer(question, {"sessionId": "s"})
        close = await peer.receive()
        assert (close["method"], close["params"]) == ("session/close", {"sessionId": "s"})
        await peer.answer(close, {})


async def test_a_plan_and_a_thought_reach_the_clients_state() -> None:
    async def think(turn: PromptTurn) -> StopReason:
        await turn.send_thought("hm")
        await turn.send_plan(
            PlanEntry(content="do it", priority=PlanEntryPriority.HIGH, status=PlanEntryStatus.PENDING)
        )
        async with turn.tool_call("Doing") as call:
            await call.start()
        return StopReason.END_TURN

    async with open_agent_and_client(served(think), client()) as (_, side), side.new_session(CWD) as session:
        async with session.prompt("hi") as turn:
            kinds = [type(update) async for update in turn]
        assert kinds[0] is AgentThoughtChunk
        assert [kind.__name__ for kind in kinds[2:]] == ["ToolCall", "ToolCallUpdate", "ToolCallUpdate"]
        assert session.state.plan is not None
        assert [call.status for call in session.state.tool_calls.values()] == [ToolCallStatus.COMPLETED]
