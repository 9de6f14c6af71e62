"""Session Setup: the page, conversation by conversation.

https://agentclientprotocol.com/protocol/session-setup
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from acp_ref._jsonrpc import JSON, JSONObject
from acp_ref.agent import Agent
from acp_ref.agent_session import AgentSession, SessionOrigin
from acp_ref.errors import ErrorCode, RequestError
from acp_ref.prompt_turn import PromptTurn
from acp_ref.reports import Report
from acp_ref.schema import (
    AgentMessageChunk,
    AvailableCommand,
    McpCapabilities,
    PromptCapabilities,
    SessionMode,
    SessionModeId,
    SessionModeState,
    StopReason,
    TextContent,
)
from acp_ref.session_store import DirectoryStore, MemoryStore
from acp_ref.testing import open_agent_and_client, open_scripted_client
from tests.conversations import (
    CWD,
    client_of,
    code_of,
    make_client,
    new_session,
    parrot,
    prompt,
    result_of,
    say,
    text_of,
)


def agent(**more: object) -> Agent:
    settings: dict[str, object] = {"name": "parrot", "version": "1", "prompt": parrot, "store": MemoryStore()} | more
    return Agent(**settings)  # type: ignore[arg-type]  # the tests give what each of them is about


# --------------------------------------------------------------------------------------------------- session/new


@pytest.mark.spec("SETUP-02", "INIT-01")
async def test_no_session_before_initialize() -> None:
    async with open_scripted_client(agent()) as peer:
        assert code_of(await peer.call(1, "session/new", {"cwd": "/", "mcpServers": []})) == ErrorCode.INVALID_REQUEST


@pytest.mark.spec("SETUP-01", "SETUP-05", "SETUP-16")
async def test_each_session_has_an_id_of_its_own_and_does_not_mix_with_others() -> None:
    async with client_of(agent()) as peer:
        first, second = await new_session(peer), await new_session(peer)
        assert first != second
        for session_id in (first, second, first):
            *updates, answer = await say(peer, session_id, f"hello from {session_id}")
            assert [text_of(update) for update in updates] == [f"hello from {session_id}"]
            assert all(u["params"]["sessionId"] == session_id for u in updates)  # type: ignore[index,call-overload]
            assert result_of(answer) == {"stopReason": "end_turn"}


@pytest.mark.spec("SETUP-04")
@pytest.mark.field_note(46)
async def test_a_missing_list_of_servers_is_refused_and_null_is_an_empty_one() -> None:
    async with client_of(agent()) as peer:
        refused = await peer.call(1, "session/new", {"cwd": CWD})
        assert code_of(refused) == ErrorCode.INVALID_PARAMS
        assert "mcpServers" in str(refused["error"])
        assert "sessionId" in result_of(await peer.call(2, "session/new", {"cwd": CWD, "mcpServers": None}))


@pytest.mark.spec("SETUP-18", "GEN-09")
@pytest.mark.field_note(61)
@pytest.mark.parametrize("cwd", ["", ".", "~", "src", "~/x", None, 5])
async def test_a_working_directory_that_is_not_absolute_is_refused(cwd: JSON) -> None:
    served = agent()
    async with client_of(served) as peer:
        refused = await peer.call(1, "session/new", {"cwd": cwd, "mcpServers": []})
        assert code_of(refused) == ErrorCode.INVALID_PARAMS
        assert "$.cwd" in str(refused["error"])
        assert result_of(await peer.call(2, "session/list"))["sessions"] == []


@pytest.mark.spec("SETUP-61", "SETUP-64")
@pytest.mark.field_note(99)
@pytest.mark.parametrize("directories", [["/a", 5], "x", ["rel"], [""]])
async def test_a_bad_additional_directory_is_refused_and_never_dropped(directories: JSON) -> None:
    async with client_of(agent()) as peer:
        params: JSONObject = {"cwd": CWD, "mcpServers": [], "additionalDirectories": directories}
        refused = await peer.call(1, "session/new", params)
        assert code_of(refused) == ErrorCode.INVALID_PARAMS
        assert "$.additionalDirectories" in str(refused["error"])


@pytest.mark.spec("SETUP-17", "SETUP-19", "SETUP-57", "SETUP-58", "SETUP-59")
@pytest.mark.field_note(62)
async def test_the_working_directory_is_the_sessions_and_never_the_processs() -> None:
    import os

    before = os.getcwd()
    seen: list[tuple[str, tuple[str, ...]]] = []

    async def look(turn: PromptTurn) -> StopReason:
        seen.append((turn.session.cwd, turn.session.roots.roots))
        assert os.getcwd() == before
        return StopReason.END_TURN

    async with client_of(agent(prompt=look)) as peer:
        params: JSONObject = {"cwd": "/a", "mcpServers": [], "additionalDirectories": ["/x", "/y"]}
        first = result_of(await peer.call(1, "session/new", params))["sessionId"]
        second = await new_session(peer, "/b")
        for session_id in (first, second):
            await say(peer, str(session_id), "look")
        assert seen == [("/a", ("/a", "/x", "/y")), ("/b", ("/b",))]


@pytest.mark.spec("SETUP-31", "SETUP-34", "SETUP-38", "SETUP-39", "SETUP-40")
@pytest.mark.field_note(51)
@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_a_transport_that_was_not_announced_is_refused_by_name(kind: str) -> None:
    async with client_of(agent(mcp_capabilities=McpCapabilities())) as peer:
        server: JSONObject = {"type": kind, "name": "files", "url": "http://127.0.0.1:1/", "headers": []}
        refused = await peer.call(1, "session/new", {"cwd": CWD, "mcpServers": [server]})
        assert code_of(refused) == ErrorCode.INVALID_PARAMS
        assert "files" in str(refused["error"])
        assert f"mcpCapabilities.{kind}" in str(refused["error"])
        await new_session(peer)


@pytest.mark.spec("SETUP-23", "INIT-19", "INIT-20")
async def test_the_agent_announces_what_there_is_something_behind() -> None:
    for served, expected in (
        (agent(), (True, {"http": True, "sse": True}, ["additionalDirectories", "close", "delete", "list", "resume"])),
        (
            agent(store=None, mcp_capabilities=McpCapabilities()),
            (False, {"http": False, "sse": False}, ["additionalDirectories", "close"]),
        ),
    ):
        async with open_scripted_client(served) as peer:
            result = result_of(await peer.call(0, "initialize", {"protocolVersion": 1}))
            announced = result["agentCapabilities"]
            assert isinstance(announced, dict)
            sessions = announced["sessionCapabilities"]
            assert isinstance(sessions, dict)
            assert (announced["loadSession"], announced["mcpCapabilities"], sorted(sessions)) == expected


@pytest.mark.spec("SLASH-01", "SETUP-03")
@pytest.mark.field_note(36)
async def test_what_a_session_says_while_it_is_set_up_comes_after_the_answer() -> None:
    @asynccontextmanager
    async def hasty(session: AgentSession[str]) -> AsyncGenerator[str, None]:
        await session.send(AgentMessageChunk(content=TextContent(text="hello")))
        yield "state"

    async def tell(turn: PromptTurn[str]) -> StopReason:
        await turn.send_text(turn.state)
        return StopReason.END_TURN

    command = AvailableCommand(name="echo", description="Echoes")
    async with client_of(agent(open_session=hasty, prompt=tell, commands=[command])) as peer:
        session_id = await new_session(peer)
        first, second = await peer.receive_all()
        assert text_of(first) == "hello"
        assert second["params"]["update"]["sessionUpdate"] == "available_commands_update"  # type: ignore[index,call-overload]
        assert text_of((await say(peer, session_id, "x"))[0]) == "state"


async def test_a_session_whose_context_fails_is_an_error_and_leaves_nothing() -> None:
    @asynccontextmanager
    async def failing(session: AgentSession) -> AsyncGenerator[None, None]:
        raise RuntimeError("no")
        yield

    reports: list[Report] = []
    async with open_scripted_client(agent(open_session=failing), on_report=reports.append) as peer:
        await peer.call(0, "initialize", {"protocolVersion": 1})
        assert code_of(await peer.call(1, "session/new", {"cwd": CWD, "mcpServers": []})) == ErrorCode.INTERNAL_ERROR
        assert result_of(await peer.call(2, "session/list"))["sessions"] == []
        assert len(reports) == 1


async def test_a_setup_cancelled_half_way_leaves_nothing() -> None:
    entered = trio.Event()
    left = trio.Event()

    @asynccontextmanager
    async def slow(session: AgentSession) -> AsyncGenerator[None, None]:
        entered.set()
        try:
            await trio.sleep_forever()
            yield
        finally:
            left.set()

    async with client_of(agent(open_session=slow)) as peer:
        await peer.request(1, "session/new", {"cwd": CWD, "mcpServers": []})
        await entered.wait()
        await peer.notify("$/cancel_request", {"requestId": 1})
        assert code_of(await peer.receive()) == ErrorCode.REQUEST_CANCELLED
        assert left.is_set()
        assert result_of(await peer.call(2, "session/list"))["sessions"] == []


# --------------------------------------------------------------------------------------------- session/load, resume


@pytest.mark.spec("SETUP-08", "SETUP-46", "SETUP-52", "LIST-03", "DEL-03")
@pytest.mark.field_note(44)
async def test_without_a_store_the_methods_that_need_one_do_not_exist() -> None:
    async with client_of(agent(store=None)) as peer:
        for method in ("session/load", "session/resume", "session/list", "session/delete"):
            params: JSONObject = {"sessionId": "x", "cwd": CWD, "mcpServers": []}
            assert code_of(await peer.call(method, method, params)) == ErrorCode.METHOD_NOT_FOUND


@pytest.mark.spec("SETUP-06", "SETUP-10", "SETUP-11", "SETUP-12", "SETUP-13", "SETUP-14", "SETUP-15")
@pytest.mark.field_note(66)
async def test_a_load_replays_the_whole_conversation_in_order_and_answers_then() -> None:
    store = MemoryStore()
    async with client_of(agent(store=store)) as peer:
        session_id = await new_session(peer)
        live = [await say(peer, session_id, f"question {n}") for n in range(50)]
    # Another connection, as after a restart of the agent and from another client.
    async with client_of(agent(store=store)) as peer:
        await peer.request("load", "session/load", {"sessionId": session_id, "cwd": CWD, "mcpServers": []})
        replayed = [await peer.receive()]
        while "id" not in replayed[-1]:
            replayed.append(await peer.receive())
        *updates, answer = replayed
        kinds = [u["params"]["update"]["sessionUpdate"] for u in updates]  # type: ignore[index,call-overload]
        assert kinds == ["user_message_chunk", "agent_message_chunk"] * 50
        assert [text_of(u) for u in updates[::2]] == [f"question {n}" for n in range(50)]
        assert updates[1::2] == [messages[0] for messages in live]
        assert all(u["params"]["sessionId"] == session_id for u in updates)  # type: ignore[index,call-overload]
        assert answer == {"jsonrpc": "2.0", "id": "load", "result": {}}
        assert await peer.receive_all() == []
        assert text_of((await say(peer, session_id, "and on"))[0]) == "and on"


@pytest.mark.spec("SETUP-11", "SETUP-14")
@pytest.mark.parametrize("kind", ["memory", "directory"])
async def test_what_a_session_says_while_it_is_loaded_comes_once_and_after_the_answer(
    kind: str, tmp_path: Path
) -> None:
    @asynccontextmanager
    async def greeting(session: AgentSession[None]) -> AsyncGenerator[None, None]:
        await session.send(AgentMessageChunk(content=TextContent(text=f"hello from {session.origin.value}")))
        yield None

    store = MemoryStore() if kind == "memory" else DirectoryStore(tmp_path)
    async with client_of(agent(store=store, open_session=greeting)) as peer:
        session_id = await new_session(peer)
        await peer.receive_all()
    for kept in (["hello from session/new"], ["hello from session/new", "hello from session/load"]):
        async with client_of(agent(store=store, open_session=greeting)) as peer:
            await peer.request("load", "session/load", {"sessionId": session_id, "cwd": CWD, "mcpServers": []})
            received: list[JSONObject] = []
            while len(received) < len(kept) + 2:
                received.append(await peer.receive())
            assert await peer.receive_all() == []
            assert [text_of(update) for update in received[: len(kept)]] == kept
            assert received[len(kept)]["id"] == "load"
            assert text_of(received[-1]) == "hello from session/load"


@pytest.mark.spec("SETUP-48", "SETUP-49")
@pytest.mark.field_note(68)
async def test_a_resume_replays_nothing() -> None:
    store = MemoryStore()
    seen: list[SessionOrigin] = []

    async def look(turn: PromptTurn) -> StopReason:
        seen.append(turn.session.origin)
        return await parrot(turn)

    async with client_of(agent(store=store, prompt=look)) as peer:
        session_id = await new_session(peer)
        await say(peer, session_id, "question")
    async with client_of(agent(store=store, prompt=look)) as peer:
        answer = await peer.call(1, "session/resume", {"sessionId": session_id, "cwd": CWD})  # SETUP-47: and no servers
        assert answer == {"jsonrpc": "2.0", "id": 1, "result": {}}
        await say(peer, session_id, "and on")
        await peer.request(2, "session/load", {"sessionId": session_id, "cwd": CWD, "mcpServers": []})
        assert len(await peer.receive_all()) == 5
        assert seen == [SessionOrigin.NEW, SessionOrigin.RESUMED]


@pytest.mark.spec("SETUP-63")
@pytest.mark.field_note(64)
async def test_a_session_keeps_its_working_directory() -> None:
    async with client_of(agent()) as peer:
        session_id = await new_session(peer, "/a")
        for method in ("session/load", "session/resume"):
            refused = await peer.call(1, method, {"sessionId": session_id, "cwd": "/b", "mcpServers": []})
            assert code_of(refused) == ErrorCode.INVALID_PARAMS
            assert "'/a'" in str(refused["error"])
            answer = await peer.call(2, method, {"sessionId": session_id, "cwd": "/a/", "mcpServers": []})
            assert result_of(answer) == {}
        sessions = result_of(await peer.call(3, "session/list"))["sessions"]
        assert [info["cwd"] for info in sessions] == ["/a"]  # type: ignore[union-attr,index,call-overload]


@pytest.mark.spec("SETUP-62")
async def test_stored_roots_do_not_come_back_by_themselves() -> None:
    seen: list[tuple[str, ...]] = []

    async def look(turn: PromptTurn) -> StopReason:
        seen.append(turn.session.roots.roots)
        return StopReason.END_TURN

    async with client_of(agent(prompt=look)) as peer:
        params: JSONObject = {"cwd": CWD, "mcpServers": [], "additionalDirectories": ["/x"]}
        session_id = str(result_of(await peer.call(1, "session/new", params))["sessionId"])
        await say(peer, session_id, "look")
        await peer.request(2, "session/load", {"sessionId": session_id, "cwd": CWD, "mcpServers": []})
        await peer.receive_all()
        await say(peer, session_id, "look")
        assert seen == [(CWD, "/x"), (CWD,)]


@pytest.mark.spec("SETUP-16", "ERR-11", "DEL-08")
@pytest.mark.field_note(69)
async def test_an_unknown_session_is_not_found_by_name_and_cancelling_it_means_nothing() -> None:
    modes = SessionModeState(
        current_mode_id=SessionModeId("ask"), available_modes=[SessionMode(id=SessionModeId("ask"), name="Ask")]
    )
    async with client_of(agent(modes=modes)) as peer:
        for method, params in (
            ("session/prompt", {"prompt": []}),
            ("session/load", {"cwd": CWD, "mcpServers": []}),
            ("session/resume", {"cwd": CWD, "mcpServers": []}),
            ("session/close", {}),
            ("session/set_mode", {"modeId": "ask"}),
        ):
            answer = await peer.call(1, method, {"sessionId": "nope", **params})
            error = answer["error"]
            assert isinstance(error, dict)
            assert (error["code"], error["data"]) == (ErrorCode.RESOURCE_NOT_FOUND, {"sessionId": "nope"})
        await peer.notify("session/cancel", {"sessionId": "nope"})
        assert await peer.receive_all() == []
        assert result_of(await peer.call(2, "session/delete", {"sessionId": "nope"})) == {}


@pytest.mark.spec("MODE-03", "MODE-04")
async def test_a_mode_counts_for_the_prompt_in_the_next_line() -> None:
    seen: list[str] = []

    async def look(turn: PromptTurn) -> StopReason:
        assert turn.session.modes is not None
        seen.append(turn.session.modes.current)
        return StopReason.END_TURN

    ids = [SessionModeId("ask"), SessionModeId("code")]
    modes = SessionModeState(current_mode_id=ids[0], available_modes=[SessionMode(id=i, name=i) for i in ids])
    async with client_of(agent(modes=modes, prompt=look)) as peer:
        session_id = await new_session(peer)
        for mode_id in ids * 20:
            await peer.send(
                {
                    "jsonrpc": "2.0",
                    "id": 1,
                    "method": "session/set_mode",
                    "params": {"sessionId": session_id, "modeId": mode_id},
                },
                {"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": prompt(session_id, "look")},
            )
            assert [message["id"] for message in await peer.receive_all()] == [1, 2]
        assert seen == ids * 20


async def test_loading_a_session_that_is_open_sets_it_up_anew_and_not_while_a_turn_runs() -> None:
    release = trio.Event()
    states: list[str] = []

    @asynccontextmanager
    async def stateful(session: AgentSession[str]) -> AsyncGenerator[str, None]:
        states.append(f"open {session.origin.value}")
        yield "state"
        states.append(f"left {session.origin.value}")

    async def wait(turn: PromptTurn[str]) -> StopReason:
        await release.wait()
        return StopReason.END_TURN

    async with client_of(agent(open_session=stateful, prompt=wait)) as peer:
        session_id = await new_session(peer)
        load: JSONObject = {"sessionId": session_id, "cwd": CWD, "mcpServers": []}
        await peer.request("turn", "session/prompt", prompt(session_id, "hi"))
        assert code_of(await peer.call(1, "session/load", load)) == ErrorCode.INVALID_REQUEST
        release.set()
        assert (await peer.receive())["id"] == "turn"
        assert [m.get("id") for m in [await peer.call(2, "session/load", load), *await peer.receive_all()]] == [None, 2]
        assert states == ["open session/new", "open session/load", "left session/new"]
        assert code_of(await peer.call(3, "session/load", {**load, "cwd": "/other"})) == ErrorCode.INVALID_PARAMS
        assert result_of((await say(peer, session_id, "still there"))[-1]) == {"stopReason": "end_turn"}


async def test_a_session_that_ends_by_its_own_error_is_forgotten_and_may_be_loaded_again() -> None:
    @asynccontextmanager
    async def fragile(session: AgentSession[None]) -> AsyncGenerator[None, None]:
        async def fail() -> None:
            await fault.wait()
            raise RuntimeError("a bug")

        if session.origin is SessionOrigin.NEW:
            session.nursery.start_soon(fail)
        yield None

    fault = trio.Event()
    served = agent(store=MemoryStore(), open_session=fragile)
    async with open_agent_and_client(served, make_client()) as (side, client):
        async with client.new_session(CWD) as session:
            assert len(side.sessions) == 1
            fault.set()
            await trio.testing.wait_all_tasks_blocked()
            assert len(side.sessions) == 0
            with pytest.raises(RequestError) as refusal:
                async with session.prompt("hi") as turn:
                    await turn.wait()
            assert refusal.value.code == ErrorCode.RESOURCE_NOT_FOUND
        async with client.load_session(session.id, CWD) as loaded, loaded.prompt("hi") as turn:
            assert len(side.sessions) == 1
            assert await turn.text() == "hi"


# --------------------------------------------------------------------------------------------- close, delete, list


@pytest.mark.spec("SETUP-54", "SETUP-55", "SETUP-56")
@pytest.mark.field_note(73)
async def test_closing_cancels_the_turn_lets_its_answer_out_and_frees_the_session() -> None:
    order: list[str] = []

    @asynccontextmanager
    async def owned(session: AgentSession) -> AsyncGenerator[None, None]:
        yield
        order.append("left")

    async def wait(turn: PromptTurn) -> StopReason:
        try:
            await trio.sleep_forever()
        finally:
            order.append("turn over")
        return StopReason.END_TURN

    async with client_of(agent(open_session=owned, prompt=wait)) as peer:
        session_id = await new_session(peer)
        await peer.request(1, "session/prompt", prompt(session_id, "hi"))
        await peer.send(
            {"jsonrpc": "2.0", "id": 2, "method": "session/close", "params": {"sessionId": session_id}},
            {"jsonrpc": "2.0", "id": 3, "method": "session/close", "params": {"sessionId": session_id}},
        )
        second_close = await peer.receive()
        assert (second_close["id"], code_of(second_close)) == (3, ErrorCode.RESOURCE_NOT_FOUND)
        assert await peer.receive() == {"jsonrpc": "2.0", "id": 1, "result": {"stopReason": "cancelled"}}
        assert await peer.receive() == {"jsonrpc": "2.0", "id": 2, "result": {}}
        assert order == ["turn over", "left"]
        sessions = result_of(await peer.call(4, "session/list"))["sessions"]
        assert [info["sessionId"] for info in sessions] == [session_id]  # type: ignore[union-attr,index,call-overload]


@pytest.mark.spec("DEL-04", "DEL-05", "DEL-06", "DEL-08")
@pytest.mark.field_note(74)
async def test_a_deleted_session_is_gone_for_good_and_deleting_it_again_succeeds() -> None:
    async with client_of(agent()) as peer:
        session_id = await new_session(peer)
        for _ in range(2):
            assert result_of(await peer.call(1, "session/delete", {"sessionId": session_id})) == {}
        assert result_of(await peer.call(2, "session/list"))["sessions"] == []
        load: JSONObject = {"sessionId": session_id, "cwd": CWD, "mcpServers": []}
        assert code_of(await peer.call(3, "session/load", load)) == ErrorCode.RESOURCE_NOT_FOUND
        assert await new_session(peer) != session_id


@pytest.mark.spec("LIST-05", "LIST-06", "LIST-07", "LIST-10", "LIST-14")
async def test_a_listing_filters_by_directory_and_refuses_what_it_cannot_read() -> None:
    async with client_of(agent()) as peer:
        await new_session(peer, "/a")
        await new_session(peer, "/b")
        sessions = result_of(await peer.call(1, "session/list", {"cwd": "/a"}))["sessions"]
        assert [info["cwd"] for info in sessions] == ["/a"]  # type: ignore[union-attr,index,call-overload]
        assert result_of(await peer.call(2, "session/list", {"cwd": "/c"}))["sessions"] == []
        assert code_of(await peer.call(3, "session/list", {"cwd": "c"})) == ErrorCode.INVALID_PARAMS
        assert code_of(await peer.call(4, "session/list", {"cursor": "?"})) == ErrorCode.INVALID_PARAMS


# --------------------------------------------------------------------------------------------------------- the end


async def test_at_the_end_of_input_every_session_is_closed(autojump_clock: trio.testing.MockClock) -> None:
    left: list[str] = []

    @asynccontextmanager
    async def owned(session: AgentSession) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            left.append(session.id)

    async def wait(turn: PromptTurn) -> StopReason:
        await trio.sleep_forever()
        return StopReason.END_TURN

    async with open_scripted_client(agent(open_session=owned, prompt=wait)) as peer:
        await peer.call(0, "initialize", {"protocolVersion": 1})
        ids = [await new_session(peer) for _ in range(3)]
        await peer.request(1, "session/prompt", prompt(ids[0], "hi"))
        peer.close_send()
        assert await peer.receive() == {"jsonrpc": "2.0", "id": 1, "result": {"stopReason": "cancelled"}}
        with pytest.raises(trio.EndOfChannel):
            await peer.receive()
        assert sorted(left) == sorted(ids)


@pytest.mark.spec("PROMPT-04", "INIT-21", "INIT-22", "CONTENT-02", "CONTENT-08")
@pytest.mark.field_note(97)
async def test_content_that_was_not_announced_is_refused_and_text_and_links_never_are() -> None:
    async with client_of(agent()) as peer:
        session_id = await new_session(peer)
        link: JSONObject = {"type": "resource_link", "uri": "file:///x", "name": "x"}
        await peer.request(1, "session/prompt", {"sessionId": session_id, "prompt": [link]})
        assert [message.get("id") for message in await peer.receive_all()] == [None, 1]
        image: JSONObject = {"type": "image", "data": "", "mimeType": "image/png"}
        refused = await peer.call(2, "session/prompt", {"sessionId": session_id, "prompt": [link, image]})
        assert code_of(refused) == ErrorCode.INVALID_PARAMS
        assert "$.prompt[1]" in str(refused["error"])
    async with client_of(agent(prompt_capabilities=PromptCapabilities(image=True))) as peer:
        session_id = await new_session(peer)
        await peer.request(3, "session/prompt", {"sessionId": session_id, "prompt": [image]})
        assert [message.get("id") for message in await peer.receive_all()] == [None, 3]
