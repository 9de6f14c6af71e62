"""Where pages, schema and RFDs are at odds: what is done here, as `acp-ref spec X` tells it.

https://agentclientprotocol.com/protocol/cancellation
https://agentclientprotocol.com/protocol/schema
"""

from __future__ import annotations

import pytest
import trio
import trio.testing

from acp_ref._converter import structure, unstructure
from acp_ref._jsonrpc import JSON, JSONObject
from acp_ref.agent import Agent
from acp_ref.errors import ErrorCode
from acp_ref.permissions import default_options
from acp_ref.prompt_turn import PromptTurn
from acp_ref.schema import (
    ClientCapabilities,
    ContentBlock,
    CurrentModeUpdate,
    LoadSessionResponse,
    NewSessionRequest,
    PermissionOption,
    RequestPermissionRequest,
    SessionModeId,
    SessionUpdate,
    StopReason,
    TextContent,
    ToolCallId,
    ToolCallStatus,
    ToolCallUpdate,
    WriteTextFileResponse,
)
from acp_ref.testing import open_scripted_agent
from tests.conversations import (
    CWD,
    agent_of,
    client_of,
    code_of,
    make_client,
    new_session,
    parrot,
    prompt,
    result_of,
    say,
    update_of,
)

pytestmark = pytest.mark.field_note(100)

# ------------------------------------------------------------------------------------------------------ cancellation


@pytest.mark.spec("CANCEL-03", "CANCEL-15", "PERM-05")
@pytest.mark.field_note(84)
async def test_an_open_permission_request_is_an_outcome_when_its_turn_ends_and_an_error_when_it_alone_does() -> None:
    """X-16."""

    async def never(request: RequestPermissionRequest) -> PermissionOption | None:
        await trio.sleep_forever()
        return None

    options: list[JSON] = [unstructure(PermissionOption, option) for option in default_options()]
    question: JSONObject = {"sessionId": "s", "toolCall": {"toolCallId": "t"}, "options": options}
    async with agent_of(make_client(request_permission=never)) as (_, session, peer):
        async with session.prompt("go") as turn:
            asked = await peer.receive()
            await peer.request("alone", "session/request_permission", question)
            await peer.notify("$/cancel_request", {"requestId": "alone"})
            assert code_of(await peer.receive()) == ErrorCode.REQUEST_CANCELLED
            await peer.request("turn", "session/request_permission", question)
            assert await peer.receive_all() == []
            turn.cancel()
            assert (await peer.receive())["method"] == "session/cancel"
            assert result_of(await peer.receive()) == {"outcome": {"outcome": "cancelled"}}
            await peer.answer(asked, {"stopReason": "cancelled"})


@pytest.mark.spec("PERM-05")
@pytest.mark.parametrize(
    "answer",
    [
        {"result": {"outcome": {"outcome": "cancelled"}}},
        {"error": {"code": -32800, "message": "Request cancelled"}},
    ],
)
async def test_an_agent_takes_either_for_a_cancelled_question(answer: JSONObject) -> None:
    """X-16."""
    decisions: list[tuple[bool, bool]] = []

    async def ask(turn: PromptTurn) -> StopReason:
        update = ToolCallUpdate(tool_call_id=ToolCallId("t"), title="Delete it")
        decision = await turn.request_permission(update, default_options())
        decisions.append((decision.allowed, decision.cancelled))
        return StopReason.END_TURN

    async with client_of(Agent(name="a", version="1", prompt=ask)) as peer:
        await peer.request("turn", "session/prompt", prompt(await new_session(peer), "go"))
        question = await peer.receive()
        await peer.send({"jsonrpc": "2.0", "id": question["id"], **answer})
        assert result_of(await peer.receive()) == {"stopReason": "end_turn"}
    assert decisions == [(False, True)]


@pytest.mark.spec("CANCEL-07", "CANCEL-18")
async def test_a_turn_is_cancelled_when_the_client_says_so_and_given_up_when_the_agent_does() -> None:
    async def work(turn: PromptTurn) -> StopReason:
        if turn.text == "give up":
            turn.nursery.cancel_scope.cancel()
        await trio.sleep_forever()
        return StopReason.END_TURN

    async with client_of(Agent(name="a", version="1", prompt=work)) as peer:
        session_id = await new_session(peer)
        (answer,) = await say(peer, session_id, "give up")
        assert code_of(answer) == ErrorCode.REQUEST_CANCELLED
        for cancellation in (("session/cancel", {"sessionId": session_id}), ("$/cancel_request", {"requestId": "t"})):
            await peer.request("t", "session/prompt", prompt(session_id, "work"))
            await peer.notify(*cancellation)
            assert result_of(await peer.receive()) == {"stopReason": "cancelled"}


@pytest.mark.spec("CANCEL-02", "TOOL-10")
async def test_no_tool_call_is_cancelled_on_the_wire_and_it_is_for_whoever_looks() -> None:
    """X-18."""
    cancelled: JSONObject = {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "cancelled"}
    assert "cancelled" not in [*ToolCallStatus]
    with pytest.raises(ValueError, match="status"):
        unstructure(SessionUpdate, ToolCallUpdate(tool_call_id=ToolCallId("t"), status="cancelled"))  # type: ignore[arg-type]

    async def work(turn: PromptTurn) -> StopReason:
        async with turn.tool_call("Work") as call:
            await call.start()
            await trio.sleep_forever()
        return StopReason.END_TURN

    async with client_of(Agent(name="a", version="1", prompt=work)) as peer:
        session_id = await new_session(peer)
        await peer.request("turn", "session/prompt", prompt(session_id, "go"))
        assert len(await peer.receive_all()) == 2
        await peer.notify("session/cancel", {"sessionId": session_id})
        update, answer = await peer.receive_all()
        assert update_of(update)["status"] == "failed"
        assert result_of(answer) == {"stopReason": "cancelled"}

    async with agent_of(make_client(), reports=[]) as (_, session, peer):
        async with session.prompt("go") as turn:
            question = await peer.receive()
            report: JSONObject = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Work"}
            await peer.notify("session/update", {"sessionId": "s", "update": report})
            await peer.notify("session/update", {"sessionId": "s", "update": cancelled})  # it is no such status
            await trio.testing.wait_all_tasks_blocked()
            (call,) = session.state.tool_calls.values()
            assert (call.status, call.cancelled) == (ToolCallStatus.PENDING, False)
            turn.cancel()
            assert (call.status, call.cancelled) == (ToolCallStatus.PENDING, True)
            await peer.answer(question, {"stopReason": "cancelled"})


# --------------------------------------------------------------------------------------------------------- the wire


@pytest.mark.spec("SETUP-14", "FS-07")
def test_an_empty_result_is_an_object_on_write_and_may_be_null_on_read() -> None:
    """X-01, X-02."""
    assert structure(LoadSessionResponse, None) == structure(LoadSessionResponse, {}) == LoadSessionResponse()
    assert unstructure(LoadSessionResponse, LoadSessionResponse()) == {}
    assert structure(WriteTextFileResponse, None) == WriteTextFileResponse()
    assert unstructure(WriteTextFileResponse, WriteTextFileResponse()) == {}


@pytest.mark.spec("MODE-05")
async def test_a_mode_is_written_by_its_name_in_the_schema_and_read_by_that_of_the_page_too() -> None:
    """X-03."""
    update = CurrentModeUpdate(current_mode_id=SessionModeId("code"))
    assert unstructure(SessionUpdate, update) == {"sessionUpdate": "current_mode_update", "currentModeId": "code"}
    async with agent_of(make_client()) as (_, session, peer):
        page: JSONObject = {"sessionUpdate": "current_mode_update", "modeId": "code"}
        await peer.notify("session/update", {"sessionId": "s", "update": page})
        await trio.testing.wait_all_tasks_blocked()
        assert session.state.current_mode_id == "code"


@pytest.mark.spec("FS-01", "TERM-01")
async def test_the_capabilities_of_a_client_stand_in_its_request_whatever_a_page_shows_in_the_answer() -> None:
    """X-05."""
    async with open_scripted_agent(make_client(), agent_capabilities={"clientCapabilities": {"terminal": True}}) as (
        side,
        peer,
    ):
        assert not side.connection.ended
        assert await peer.receive_all() == []
    announced: JSONObject = {"fs": {"readTextFile": True}}
    seen: list[ClientCapabilities] = []

    async def look(turn: PromptTurn) -> StopReason:
        seen.append(turn.client.capabilities)
        return StopReason.END_TURN

    async with client_of(Agent(name="a", version="1", prompt=look), capabilities=announced) as peer:
        await say(peer, await new_session(peer), "go")
    assert seen == [structure(ClientCapabilities, announced)]


@pytest.mark.spec("ERR-03", "ERR-05")
async def test_a_request_with_a_null_id_is_a_request() -> None:
    async with client_of(Agent(name="a", version="1", prompt=parrot)) as peer:
        answer = await peer.call(None, "session/new", {"cwd": CWD, "mcpServers": []})
        assert answer["id"] is None
        assert "sessionId" in result_of(answer)


@pytest.mark.spec("SETUP-62")
def test_no_additional_directories_may_be_null_on_read_and_are_nothing_on_write() -> None:
    """X-15."""
    params: JSONObject = {"cwd": CWD, "mcpServers": [], "additionalDirectories": None}
    request = structure(NewSessionRequest, params)
    assert request == NewSessionRequest(cwd=CWD, mcp_servers=[])
    assert unstructure(NewSessionRequest, request) == {"cwd": CWD, "mcpServers": []}


@pytest.mark.spec("TOOL-11")
def test_a_bare_block_is_no_content_that_is_written_either() -> None:
    """X-04."""
    block = TextContent(text="bare")
    assert unstructure(ContentBlock, block) == {"type": "text", "text": "bare"}
    with pytest.raises(ValueError, match="content"):
        unstructure(SessionUpdate, ToolCallUpdate(tool_call_id=ToolCallId("t"), content=[block]))  # type: ignore[list-item]
