"""What the pages of a session's life ask of agents and clients, where no other test shows it.

https://agentclientprotocol.com/protocol/session-setup
https://agentclientprotocol.com/protocol/session-list
https://agentclientprotocol.com/protocol/session-delete
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import trio
import trio.testing

from acp_ref._jsonrpc import JSON, JSONObject
from acp_ref.agent import Agent
from acp_ref.agent_session import CLOSE_TIMEOUT, AgentSession
from acp_ref.authentication import Authentication
from acp_ref.client_session import ClientSession
from acp_ref.client_side import ClientSide
from acp_ref.errors import ErrorCode, RemoteProtocolError, RequestError
from acp_ref.file_system import FileSystem
from acp_ref.mcp_servers import McpState
from acp_ref.prompt_turn import PromptTurn
from acp_ref.roots import Roots
from acp_ref.schema import (
    AuthMethodAgent,
    AuthMethodId,
    ElicitationCancel,
    ListSessionsResponse,
    McpServerStdio,
    SessionConfigId,
    SessionConfigSelect,
    SessionConfigSelectOption,
    SessionConfigValueId,
    SessionId,
    SessionInfo,
    SessionMode,
    SessionModeId,
    SessionModeState,
    StopReason,
)
from acp_ref.session_state import Message
from acp_ref.session_store import Journal, MemoryStore, SessionNotFound, SessionStore
from acp_ref.testing import ScriptedPeer, open_agent_and_client, open_scripted_agent, open_scripted_client
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
    text_of,
)

SESSION: Final = SessionId("s")
EVERYTHING: Final[JSONObject] = {
    "loadSession": True,
    "sessionCapabilities": {"list": {}, "delete": {}, "resume": {}, "close": {}, "additionalDirectories": {}},
    "auth": {"logout": {}},
}


@asynccontextmanager
async def answering(
    answers: Callable[[JSONObject], object], capabilities: JSONObject = EVERYTHING
) -> AsyncGenerator[tuple[ClientSide, list[JSONObject]], None]:
    """A client, and an agent that answers each of its requests with what ``answers`` gives for it; the requests."""
    requests: list[JSONObject] = []

    async def answer(peer: ScriptedPeer) -> None:
        while True:
            requests.append(await peer.receive())
            await peer.answer(requests[-1], answers(requests[-1]))

    async with open_scripted_agent(make_client(), agent_capabilities=capabilities) as (side, peer):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer, peer)
            yield side, requests
            nursery.cancel_scope.cancel()


def methods_of(requests: list[JSONObject]) -> list[tuple[JSON, JSON]]:
    return [(request["method"], request["params"]) for request in requests]


# ------------------------------------------------------------------------------------------ what a client sends


@pytest.mark.spec("SETUP-04", "SETUP-09", "SETUP-16", "SETUP-44", "SETUP-47", "SETUP-53")
async def test_one_id_serves_for_the_whole_life_of_a_session() -> None:
    async with answering(lambda request: {"sessionId": "s", "stopReason": "end_turn"}) as (side, requests):
        async with side.new_session(CWD) as session:
            assert session.id == "s"
        async with side.load_session(session.id, CWD) as session, session.prompt("hi") as turn:
            await turn.wait()
        async with side.resume_session(session.id, CWD):
            pass
        await side.delete_session(session.id)
    setup: JSONObject = {"cwd": CWD, "mcpServers": []}
    of_session: JSONObject = {"sessionId": "s"}
    assert methods_of(requests) == [
        ("session/new", setup),
        ("session/close", of_session),
        ("session/load", {**setup, **of_session}),
        ("session/prompt", prompt("s", "hi")),
        ("session/close", of_session),
        ("session/resume", {**setup, **of_session}),
        ("session/close", of_session),
        ("session/delete", of_session),
    ]


@pytest.mark.spec("SETUP-51", "SETUP-52")
async def test_leaving_a_session_asks_no_agent_to_close_it_that_cannot() -> None:
    async with answering(lambda request: {"sessionId": "s"}, {}) as (side, requests):
        async with side.new_session(CWD):
            pass
        await trio.testing.wait_all_tasks_blocked()
        assert [method for method, _ in methods_of(requests)] == ["session/new"]


@pytest.mark.spec("SETUP-62", "SETUP-63", "SETUP-68")
async def test_each_setup_names_all_roots_again_and_each_of_them_once() -> None:
    def take_up(side: ClientSide) -> list[AbstractAsyncContextManager[ClientSession]]:
        more = ["/b", CWD, "/a", "/b"]
        return [
            side.new_session(CWD, additional_directories=more),
            side.load_session(SESSION, CWD, additional_directories=more),
            side.resume_session(SESSION, CWD, additional_directories=more),
            side.resume_session(SESSION, CWD),
        ]

    async with answering(lambda request: {"sessionId": "s"}) as (side, requests):
        for block in take_up(side):
            async with block:
                pass
    named = [params.get("additionalDirectories") for _, params in methods_of(requests) if "cwd" in str(params)]  # type: ignore[union-attr]
    assert named == [["/b", "/a"]] * 3 + [None]


@pytest.mark.spec("SETUP-14", "SETUP-55", "DEL-04", "AUTH-10", "AUTH-21")
@pytest.mark.field_note(29, 100)
@pytest.mark.parametrize("nothing", [None, {}, {"_meta": None}, {"of_a_later_version": 1}])
async def test_a_client_takes_null_for_an_empty_result_and_looks_at_nothing_it_does_not_know(nothing: JSON) -> None:
    method = {"id": "key", "name": "Key"}
    async with open_scripted_agent(make_client(), agent_capabilities=EVERYTHING) as (side, peer):
        side.agent.auth_methods.append(AuthMethodAgent(id=AuthMethodId("key"), name=method["name"]))

        async def answer() -> None:
            while True:
                request = await peer.receive()
                await peer.answer(request, {"sessionId": "s"} if request["method"] == "session/new" else nothing)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            await side.authenticate(AuthMethodId("key"))
            for block in (
                side.new_session(CWD),
                side.load_session(SESSION, CWD),
                side.resume_session(SESSION, CWD),
            ):
                async with block as session:
                    assert session.state.config_options == ()
            await side.delete_session(SESSION)
            await side.logout()
            nursery.cancel_scope.cancel()


# -------------------------------------------------------------------------------------------------------- session/new


@pytest.mark.spec("SETUP-03", "SETUP-21", "SETUP-22", "SETUP-24", "SETUP-42")
@pytest.mark.field_note(82)
async def test_a_client_brings_a_server_of_its_own_and_the_agent_calls_its_tools_also_after_a_cancelled_turn() -> None:
    server = str(Path(__file__).parent / "mcp_fixtures" / "nasty.py")
    own = McpServerStdio(name="own", command=sys.executable, args=["-I", "-S", server, "ok", "own"], env=[])
    ready: list[bool] = []
    hanging = trio.Event()

    @asynccontextmanager
    async def look(session: AgentSession[None]) -> AsyncGenerator[None, None]:
        ready.append(all(connection.state is McpState.READY for connection in session.mcp))
        yield

    async def call(turn: PromptTurn[None]) -> StopReason:
        connection = turn.session.mcp.get("own")
        assert connection is not None
        if turn.text == "hang":
            hanging.set()
            await connection.call_tool("hang")
        result = await connection.call_tool("echo", {"text": turn.text})
        for block in result.content:
            await turn.send_content(block)
        return StopReason.END_TURN

    served = Agent(name="a", version="1", prompt=call, open_session=look)
    async with open_agent_and_client(served, make_client()) as (_, side):
        async with side.new_session(str(Path(__file__).parent), mcp_servers=[own]) as session:
            assert ready == [True]  # and only then was the session there
            async with session.prompt("hello") as turn:
                assert "hello" in await turn.text()
            async with session.prompt("hang") as turn:
                await hanging.wait()
                turn.cancel()
                assert await turn.wait() is StopReason.CANCELLED
            async with session.prompt("still there") as turn:
                assert "still there" in await turn.text()


@pytest.mark.spec("SETUP-65")
async def test_a_root_that_policy_forbids_fails_the_setup_and_shrinks_no_list() -> None:
    asked: list[tuple[str, ...]] = []

    async def check(roots: Roots) -> None:
        await trio.lowlevel.checkpoint()
        asked.append(roots.roots)
        for index, root in enumerate(roots.additional_directories):
            if root.startswith("/etc"):
                raise RequestError.invalid_params(f"$.additionalDirectories[{index}]: not here")

    served = Agent(name="a", version="1", prompt=parrot, store=MemoryStore(), check_roots=check)
    async with client_of(served) as peer:
        session_id = await new_session(peer)
        for method in ("session/new", "session/load", "session/resume"):
            params: JSONObject = {"cwd": CWD, "mcpServers": [], "additionalDirectories": ["/a", "/etc"]}
            refused = await peer.call(method, method, {"sessionId": session_id, **params})
            assert code_of(refused) == ErrorCode.INVALID_PARAMS
            assert "$.additionalDirectories[1]" in str(refused["error"])
        assert asked == [(CWD,)] + [(CWD, "/a", "/etc")] * 3
        sessions = result_of(await peer.call(1, "session/list"))["sessions"]
        assert [info["sessionId"] for info in sessions] == [session_id]  # type: ignore[union-attr,index,call-overload]
        assert result_of((await say(peer, session_id, "still there"))[-1]) == {"stopReason": "end_turn"}


# ------------------------------------------------------------------------------------------------ load and resume

MODES: Final = SessionModeState(
    current_mode_id=SessionModeId("ask"),
    available_modes=[SessionMode(id=SessionModeId(name), name=name.title()) for name in ("ask", "code")],
)
LEVEL: Final = SessionConfigSelect(
    id=SessionConfigId("level"),
    name="Level",
    current_value=SessionConfigValueId("low"),
    options=[
        SessionConfigSelectOption(value=SessionConfigValueId(value), name=value.title()) for value in ("low", "high")
    ],
)


@pytest.mark.spec("SETUP-50", "MODE-01", "CONF-02")
async def test_every_setup_is_answered_with_the_modes_and_options_as_they_stand() -> None:
    served = Agent(name="a", version="1", prompt=parrot, store=MemoryStore(), modes=MODES, config_options=[LEVEL])
    async with open_agent_and_client(served, make_client()) as (_, side):
        async with side.new_session(CWD) as session:
            assert (session.state.current_mode_id, session.state.config_options) == ("ask", [LEVEL])
            await session.set_mode(SessionModeId("code"))
            await session.set_config_option(LEVEL.id, "high")
        for block in (side.resume_session(session.id, CWD), side.load_session(session.id, CWD)):
            async with block as again:
                assert again.state.current_mode_id == "code"
                assert again.state.available_modes == MODES.available_modes
                (option,) = again.state.config_options
                assert isinstance(option, SessionConfigSelect)
                assert option.current_value == "high"


@pytest.mark.spec("SETUP-43", "PROMPT-10")
async def test_message_ids_in_a_replay_are_as_they_come_and_name_one_message_each() -> None:
    async def talk(turn: PromptTurn) -> StopReason:
        await turn.send_text("one ")
        await turn.send_text("message")
        await turn.send_thought("hm")
        await turn.send_text("another")
        return StopReason.END_TURN

    async with open_agent_and_client(Agent(name="a", version="1", prompt=talk, store=MemoryStore()), make_client()) as (
        _,
        side,
    ):
        async with side.new_session(CWD) as session, session.prompt("talk") as turn:
            await turn.wait()
        async with side.load_session(session.id, CWD) as loaded:
            messages = [entry for entry in loaded.state.timeline if isinstance(entry, Message)]
    assert [message.text for message in messages] == ["talk", "one message", "hm", "another"]
    assert len({message.message_id for message in messages}) == 4

    odd = ["", "0", "{}", "/\u2028"]
    async with agent_of(make_client()) as (_, live, peer):
        for message_id in (*odd, *odd):
            chunk: JSONObject = {"content": {"type": "text", "text": "x"}, "messageId": message_id}
            await peer.notify(
                "session/update", {"sessionId": "s", "update": {"sessionUpdate": "agent_message_chunk", **chunk}}
            )
        await trio.testing.wait_all_tasks_blocked()
        messages = [entry for entry in live.state.timeline if isinstance(entry, Message)]
        assert [(message.message_id, message.text) for message in messages] == [(name, "xx") for name in odd]


# -------------------------------------------------------------------------------------------------- session/list


@pytest.mark.spec("LIST-04", "LIST-11", "LIST-12", "LIST-13")
async def test_a_cursor_goes_back_as_it_came_and_its_absence_ends_the_listing() -> None:
    odd = "=?/ü\n{}"
    pages: dict[JSON, JSONObject] = {
        None: {"sessions": [{"sessionId": "1", "cwd": "/"}], "nextCursor": odd},
        odd: {"sessions": [], "nextCursor": ""},
        "": {"sessions": [{"sessionId": "2", "cwd": "/"}], "nextCursor": None},
    }
    async with answering(lambda request: pages[request["params"].get("cursor")]) as (side, requests):  # type: ignore[union-attr]
        assert [info.session_id async for info in side.list_sessions()] == ["1", "2"]
        assert [info.session_id async for info in side.list_sessions("/x")] == ["1", "2"]
    asked: list[JSON] = [{}, {"cursor": odd}, {"cursor": ""}]
    assert methods_of(requests) == [
        *(("session/list", params) for params in asked),
        *(("session/list", {"cwd": "/x", **params}) for params in asked),  # type: ignore[dict-item]
    ]


@pytest.mark.spec("LIST-12")
async def test_a_listing_that_would_never_end_is_an_error() -> None:
    async with answering(lambda request: {"sessions": [], "nextCursor": "again"}) as (side, requests):
        with trio.fail_after(5), pytest.raises(RemoteProtocolError, match="circles"):
            await anext(side.list_sessions())
        assert len(requests) == 2


@pytest.mark.spec("LIST-08", "LIST-09")
async def test_each_listing_tells_what_the_agent_says_now_and_nothing_of_before() -> None:
    told: list[JSONObject] = [
        {"additionalDirectories": ["/a", "/b"], "title": "One", "updatedAt": "2026-01-01T00:00:00Z"},
        {"additionalDirectories": []},
        {},
    ]
    answers = iter(told)
    async with answering(lambda request: {"sessions": [{"sessionId": "s", "cwd": "/", **next(answers)}]}) as (side, _):
        listed = [[info async for info in side.list_sessions()] for _ in told]
    plain = SessionInfo(session_id=SESSION, cwd="/", additional_directories=[])
    full = SessionInfo(
        session_id=SESSION,
        cwd="/",
        additional_directories=["/a", "/b"],
        title="One",
        updated_at="2026-01-01T00:00:00Z",
    )
    assert listed == [[full], [plain], [plain]]


@pytest.mark.spec("LIST-06", "LIST-10")
async def test_an_agent_answers_with_a_list_also_when_nothing_is_in_it() -> None:
    async with client_of(Agent(name="a", version="1", prompt=parrot, store=MemoryStore())) as peer:
        assert await peer.call(1, "session/list") == {"jsonrpc": "2.0", "id": 1, "result": {"sessions": []}}
        await new_session(peer)
        assert result_of(await peer.call(2, "session/list", {"cwd": "/elsewhere"})) == {"sessions": []}


class StoreOfTheUser:
    """A store for an agent of several users: it is the store of whoever is logged in."""

    def __init__(self) -> None:
        self.user = ""
        self._stores: dict[str, MemoryStore] = {}

    @property
    def _store(self) -> SessionStore:
        return self._stores.setdefault(self.user, MemoryStore())

    async def create(self, session_id: SessionId, cwd: str) -> Journal:
        return await self._store.create(session_id, cwd)

    async def open(self, session_id: SessionId) -> Journal:
        return await self._store.open(session_id)

    async def list(self, *, cwd: str | None = None, cursor: str | None = None) -> ListSessionsResponse:
        return await self._store.list(cwd=cwd, cursor=cursor)

    async def delete(self, session_id: SessionId) -> None:
        await self._store.delete(session_id)


@pytest.mark.spec("LIST-20")
async def test_only_the_sessions_of_whoever_is_logged_in_are_listed_and_loaded() -> None:
    store = StoreOfTheUser()

    async def log_in(method_id: AuthMethodId) -> None:
        await trio.lowlevel.checkpoint()
        store.user = method_id

    async def log_out() -> None:
        await trio.lowlevel.checkpoint()

    users = [AuthMethodAgent(id=AuthMethodId(name), name=name.title()) for name in ("ada", "bob")]
    served = Agent(
        name="a",
        version="1",
        prompt=parrot,
        store=store,
        authentication=Authentication(methods=users, authenticate=log_in, logout=log_out),
    )
    own: dict[str, str] = {}
    for user in ("ada", "bob", "ada"):
        async with client_of(served) as peer:
            assert code_of(await peer.call(1, "session/list")) == ErrorCode.AUTH_REQUIRED
            await peer.call(2, "authenticate", {"methodId": user})
            own.setdefault(user, await new_session(peer))
            listing = result_of(await peer.call(3, "session/list"))["sessions"]
            assert isinstance(listing, list)
            listed = {info["sessionId"] for info in listing if isinstance(info, dict)}
            assert own[user] in listed
            for other in own.keys() - {user}:
                assert own[other] not in listed
                load: JSONObject = {"sessionId": own[other], "cwd": CWD, "mcpServers": []}
                assert code_of(await peer.call(4, "session/load", load)) == ErrorCode.RESOURCE_NOT_FOUND
            await peer.call(5, "logout")
            assert code_of(await peer.call(6, "session/list")) == ErrorCode.AUTH_REQUIRED


# ------------------------------------------------------------------------------------------------ session/delete


class Bin(MemoryStore):
    """A store that deletes softly: what was deleted is out of sight, and can be had again."""

    def __init__(self) -> None:
        super().__init__()
        self.thrown_away: set[SessionId] = set()

    async def open(self, session_id: SessionId) -> Journal:
        if session_id in self.thrown_away:
            raise SessionNotFound(session_id)
        return await super().open(session_id)

    async def list(self, *, cwd: str | None = None, cursor: str | None = None) -> ListSessionsResponse:
        listed = await super().list(cwd=cwd, cursor=cursor)
        return ListSessionsResponse(sessions=[i for i in listed.sessions if i.session_id not in self.thrown_away])

    async def delete(self, session_id: SessionId) -> None:
        await trio.lowlevel.checkpoint()
        self.thrown_away.add(session_id)


@pytest.mark.spec("DEL-05", "DEL-06", "DEL-07", "DEL-08")
@pytest.mark.parametrize("store", [MemoryStore(), Bin()], ids=["hard", "soft"])
async def test_deletion_is_what_the_store_makes_of_it_and_looks_the_same_from_outside(store: MemoryStore) -> None:
    async with client_of(Agent(name="a", version="1", prompt=parrot, store=store)) as peer:
        session_id = await new_session(peer)
        here: JSONObject = {"sessionId": session_id, "cwd": CWD, "mcpServers": []}
        for _ in range(2):
            assert result_of(await peer.call(1, "session/delete", {"sessionId": session_id})) == {}
        assert result_of(await peer.call(2, "session/list")) == {"sessions": []}
        assert code_of(await peer.call(3, "session/load", here)) == ErrorCode.RESOURCE_NOT_FOUND
        if isinstance(store, Bin):
            store.thrown_away.clear()
            assert result_of(await peer.call(4, "session/load", here)) == {}


# -------------------------------------------------------------------------------------------------- field notes


@pytest.mark.field_note(39)
async def test_initialize_waits_for_nothing_that_a_session_waits_for(autojump_clock: trio.testing.MockClock) -> None:
    class Slow(MemoryStore):
        async def create(self, session_id: SessionId, cwd: str) -> Journal:
            await trio.sleep(30)
            return await super().create(session_id, cwd)

    @asynccontextmanager
    async def slow(session: AgentSession[None]) -> AsyncGenerator[None, None]:
        await trio.sleep(30)
        yield

    served = Agent(name="a", version="1", prompt=parrot, store=Slow(), open_session=slow)
    async with open_scripted_client(served) as peer:
        start = trio.current_time()
        result_of(await peer.call(0, "initialize", {"protocolVersion": 1}))
        assert trio.current_time() == start
        await new_session(peer)
        assert trio.current_time() - start == pytest.approx(60)


@pytest.mark.field_note(69)
@pytest.mark.spec("SETUP-16", "ERR-11")
async def test_what_an_agent_asks_for_an_unknown_session_is_refused_and_shown_to_nobody() -> None:
    async def never(*args: object) -> None:
        pytest.fail("somebody was asked")

    client = make_client(
        request_permission=never, file_system=FileSystem(overlay=never), terminals=True, elicit_form=never
    )
    form: JSONObject = {"mode": "form", "message": "?", "requestedSchema": {"type": "object", "properties": {}}}
    option: JSONObject = {"optionId": "y", "name": "Yes", "kind": "allow_once"}
    questions: dict[str, JSONObject] = {
        "session/request_permission": {"toolCall": {"toolCallId": "t"}, "options": [option]},
        "fs/read_text_file": {"path": f"{CWD}/x"},
        "fs/write_text_file": {"path": f"{CWD}/x", "content": ""},
        "terminal/create": {"command": "true"},
        "terminal/output": {"terminalId": "t"},
        "terminal/wait_for_exit": {"terminalId": "t"},
        "terminal/kill": {"terminalId": "t"},
        "terminal/release": {"terminalId": "t"},
        "elicitation/create": form,
    }
    async with agent_of(client) as (_, _session, peer):
        for method, params in questions.items():
            error = (await peer.call(1, method, {"sessionId": "nope", **params}))["error"]
            assert isinstance(error, dict)
            assert (error["code"], error["data"]) == (ErrorCode.RESOURCE_NOT_FOUND, {"sessionId": "nope"}), method


@pytest.mark.field_note(73)
@pytest.mark.spec("SETUP-54")
async def test_a_session_closes_in_bounded_time_though_its_turn_heeds_no_cancellation(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def deaf(turn: PromptTurn) -> StopReason:
        with trio.CancelScope(shield=True):
            await trio.sleep(1000)
        return StopReason.END_TURN

    async with client_of(Agent(name="a", version="1", prompt=deaf)) as peer:
        session_id = await new_session(peer)
        await peer.request("turn", "session/prompt", prompt(session_id, "hi"))
        start = trio.current_time()
        assert result_of(await peer.call("close", "session/close", {"sessionId": session_id})) == {}
        assert trio.current_time() - start < CLOSE_TIMEOUT
        assert result_of(await peer.receive()) == {"stopReason": "cancelled"}


@pytest.mark.field_note(66, 77)
@pytest.mark.spec("SETUP-11", "SETUP-13")
async def test_a_long_conversation_is_replayed_whole_before_the_answer() -> None:
    store = MemoryStore()

    async def work(turn: PromptTurn) -> StopReason:
        async with turn.tool_call(turn.text) as call:
            await call.start()
        await turn.send_text(f"done {turn.text}")
        return StopReason.END_TURN

    served = Agent(name="a", version="1", prompt=work, store=store)
    async with client_of(served) as peer:
        session_id = await new_session(peer)
        for n in range(250):
            await say(peer, session_id, str(n))
    async with client_of(served) as peer:
        await peer.request("load", "session/load", {"sessionId": session_id, "cwd": CWD, "mcpServers": []})
        *updates, answer = await peer.receive_all()
        assert result_of(answer) == {}
        assert [text_of(update) for update in updates[::3]] == [str(n) for n in range(250)]
        assert [text_of(update) for update in updates[2::3]] == [f"done {n}" for n in range(250)]
        tools = [update["params"]["update"] for update in updates[1::3]]  # type: ignore[index,call-overload]
        assert [(tool["title"], tool["status"]) for tool in tools] == [(str(n), "completed") for n in range(250)]  # type: ignore[index,call-overload]


@pytest.mark.field_note(84, 69)
async def test_a_question_that_is_open_when_its_session_ends_is_put_aside() -> None:
    asked = trio.Event()

    async def never(request: object) -> ElicitationCancel:
        asked.set()
        await trio.sleep_forever()
        return ElicitationCancel()

    form: JSONObject = {"mode": "form", "message": "?", "requestedSchema": {"type": "object", "properties": {}}}
    async with agent_of(make_client(elicit_form=never)) as (_, session, peer):
        async with session.prompt("hi") as turn:
            question = await peer.receive()
            await peer.request("ask", "elicitation/create", {"sessionId": "s", **form})
            await asked.wait()
            turn.cancel()
            assert (await peer.receive())["method"] == "session/cancel"
            assert result_of(await peer.receive()) == {"action": "cancel"}
            await peer.answer(question, {"stopReason": "cancelled"})
            assert await turn.wait() is StopReason.CANCELLED
