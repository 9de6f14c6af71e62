"""Faults that nobody met: they were found by reading the code, and each has its sequence here."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Literal

import pytest
import trio
import trio.testing

from acp_ref import Agent, Client
from acp_ref._jsonrpc import JSONObject
from acp_ref.agent import AgentSide
from acp_ref.agent_session import AgentSession
from acp_ref.client_side import ClientSide
from acp_ref.connection import open_connection
from acp_ref.errors import RemoteProtocolError
from acp_ref.prompt_turn import PromptTurn
from acp_ref.reports import Report, ReportKind
from acp_ref.schema import RequestPermissionRequest, SessionId, StopReason
from acp_ref.session_store import MemoryStore
from acp_ref.terminals import LocalTerminal
from acp_ref.testing import ScriptedPeer, open_scripted_agent, open_scripted_client
from acp_ref.transports import memory_transport_pair

BIG = b'{"jsonrpc":"2.0","method":"_big","params":{"a":"%s"}}' % (b"x" * 70_000)


async def never(request: RequestPermissionRequest) -> None:
    raise AssertionError("nobody is asked here")


async def tell(turn: PromptTurn[None]) -> StopReason:
    await turn.send_text("hi")
    return StopReason.END_TURN


async def introduce(side: ClientSide, peer: ScriptedPeer, capabilities: JSONObject) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(side.initialize)
        await peer.answer(await peer.receive(), {"protocolVersion": 1, "agentCapabilities": capabilities})


async def ask(peer: ScriptedPeer, request_id: int, method: str, params: JSONObject) -> JSONObject:
    await peer.request(request_id, method, params)
    while (message := await peer.receive()).get("id") != request_id:
        pass
    return message


async def test_a_session_whose_answer_comes_in_the_moment_of_a_cancellation_is_closed(nursery: trio.Nursery) -> None:
    scope = trio.CancelScope()

    def watch(direction: Literal["sent", "received"], frame: bytes) -> None:
        if direction == "received" and b'"s1"' in frame:
            scope.cancel()  # after it nobody runs before the answer is handled

    ours, theirs = memory_transport_pair()
    peer = ScriptedPeer(theirs)
    side = ClientSide(Client(name="c", version="1", request_permission=never), ours, on_frame=watch)

    async def converse() -> None:
        with scope:
            async with side.new_session("/tmp"):
                await trio.sleep_forever()

    async with open_connection(side.connection):
        await introduce(side, peer, {"sessionCapabilities": {"close": {}}})
        nursery.start_soon(converse)
        await peer.answer(await peer.receive(), {"sessionId": "s1"})
        with trio.fail_after(5):
            closing = await peer.receive()
        assert closing["method"] == "session/close"
        await peer.answer(closing, {})
        await trio.testing.wait_all_tasks_blocked()
        assert scope.cancelled_caught


async def test_a_cancellation_never_overtakes_a_prompt_that_waits_for_room(nursery: trio.Nursery) -> None:
    ours, theirs = memory_transport_pair(0)
    peer = ScriptedPeer(theirs)
    side = ClientSide(Client(name="c", version="1", request_permission=never), ours)
    stop_reasons: list[StopReason | str] = []

    async def converse() -> None:
        async with side.new_session("/tmp") as session:
            await side.connection.send_frame(BIG)  # is being written
            await trio.testing.wait_all_tasks_blocked()
            await side.connection.send_frame(BIG)  # fills the outbox

            async def prompt() -> None:
                async with session.prompt("hello") as turn:
                    stop_reasons.append(await turn.wait())

            async with trio.open_nursery() as inner:
                inner.start_soon(prompt)
                await trio.testing.wait_all_tasks_blocked(1e-9)
                assert session.turn is not None
                session.cancel()

    async with open_connection(side.connection):
        await introduce(side, peer, {})
        nursery.start_soon(converse)
        await peer.answer(await peer.receive(), {"sessionId": "s1"})
        await trio.testing.wait_all_tasks_blocked(0.01)
        messages = [await peer.receive() for _ in range(4)]
        assert [m["method"] for m in messages] == ["_big", "_big", "session/prompt", "session/cancel"]
        await peer.answer(messages[2], {"stopReason": "cancelled"})
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert stop_reasons == [StopReason.CANCELLED]


async def test_a_context_that_fails_while_its_connection_ends_is_reported_and_fails_nothing_else() -> None:
    reports: list[Report] = []

    @asynccontextmanager
    async def open_session(session: AgentSession[None]) -> AsyncGenerator[None, None]:
        session.nursery.start_soon(trio.sleep_forever)
        try:
            yield
        finally:
            raise ValueError("cannot tidy up")

    agent = Agent(name="a", version="1", prompt=tell, open_session=open_session)
    async with open_scripted_client(agent, on_report=reports.append) as peer:
        await ask(peer, 0, "initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        await ask(peer, 1, "session/new", {"cwd": "/tmp", "mcpServers": []})
    (report,) = reports
    assert isinstance(report.error, ExceptionGroup)
    assert report.error.subgroup(ValueError) is not None


@pytest.mark.parametrize("which", ["sent", "received"])
async def test_an_on_frame_hook_that_fails_is_reported_and_the_conversation_goes_on(which: str) -> None:
    def broken(direction: Literal["sent", "received"], frame: bytes) -> None:
        if direction == which:
            raise OSError("no space left")

    reports: list[Report] = []
    ours, theirs = memory_transport_pair()
    agent = Agent(name="a", version="1", prompt=tell)
    async with open_connection(AgentSide(agent, ours, on_report=reports.append, on_frame=broken).connection):
        answer = await ask(ScriptedPeer(theirs), 0, "initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        assert "result" in answer
    assert [report.kind for report in reports] == [ReportKind.HANDLER_FAILED]


async def test_what_is_cancelled_while_it_waits_for_room_is_not_in_the_history_either() -> None:
    async def prompt(turn: PromptTurn[None]) -> StopReason:
        await turn.send_text("x" * 70_000)  # is being written
        await trio.testing.wait_all_tasks_blocked()
        await turn.send_text("y" * 70_000)  # fills the outbox
        async with turn.tool_call("waits for room"):
            raise AssertionError("there is none")

    ours, theirs = memory_transport_pair(0)
    peer = ScriptedPeer(theirs)
    agent = Agent(name="a", version="1", prompt=prompt, store=MemoryStore())
    async with open_connection(AgentSide(agent, ours).connection):
        await ask(peer, 0, "initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        answer = await ask(peer, 1, "session/new", {"cwd": "/tmp", "mcpServers": []})
        assert isinstance(answer["result"], dict)
        session_id = answer["result"]["sessionId"]
        await peer.request(2, "session/prompt", {"sessionId": session_id, "prompt": [{"type": "text", "text": "go"}]})
        await trio.testing.wait_all_tasks_blocked(0.01)
        await peer.notify("session/cancel", {"sessionId": session_id})

        async def kinds(request_id: int) -> list[object]:
            kinds: list[object] = []
            while (message := await peer.receive()).get("id") != request_id:
                assert isinstance(message["params"], dict)
                update = message["params"]["update"]
                assert isinstance(update, dict)
                kinds.append(update["sessionUpdate"])
            return kinds

        live = await kinds(2)
        await peer.request(3, "session/load", {"sessionId": session_id, "cwd": "/tmp", "mcpServers": []})
        assert await kinds(3) == ["user_message_chunk", *live]


async def test_a_question_outside_of_a_turn_is_withdrawn_when_its_session_is_closed(nursery: trio.Nursery) -> None:
    async def wait_for_ever(request: RequestPermissionRequest) -> None:
        await trio.sleep_forever()

    client = Client(name="c", version="1", request_permission=wait_for_ever)
    async with open_scripted_agent(client) as (side, peer):
        leaving = trio.Event()

        async def converse() -> None:
            async with side.new_session("/tmp"):
                await leaving.wait()

        nursery.start_soon(converse)
        await peer.answer(await peer.receive(), {"sessionId": "s1"})
        option = {"optionId": "yes", "name": "Yes", "kind": "allow_once"}
        question = {"sessionId": "s1", "toolCall": {"toolCallId": "t"}, "options": [option]}
        await peer.request(1, "session/request_permission", question)
        assert await peer.receive_all() == []
        leaving.set()
        (answer,) = await peer.receive_all()
        assert answer["result"] == {"outcome": {"outcome": "cancelled"}}


@pytest.mark.parametrize("ticks", range(5))
async def test_a_terminal_that_is_made_while_its_session_ends_ends_with_it(nursery: trio.Nursery, ticks: int) -> None:
    reports: list[Report] = []
    shown: list[LocalTerminal] = []
    client = Client(
        name="c",
        version="1",
        request_permission=never,
        terminals=True,
        on_terminal=lambda session, terminal: shown.append(terminal),
    )
    async with open_scripted_agent(client, on_report=reports.append) as (side, peer):
        leaving = trio.Event()
        left = trio.Event()

        async def converse() -> None:
            async with side.new_session("/tmp"):
                await leaving.wait()
            left.set()

        nursery.start_soon(converse)
        await peer.answer(await peer.receive(), {"sessionId": "s1"})
        await trio.testing.wait_all_tasks_blocked()
        await peer.request(1, "terminal/create", {"sessionId": "s1", "command": "sleep", "args": ["60"]})
        for _ in range(ticks):
            await trio.lowlevel.checkpoint()
        leaving.set()
        with trio.fail_after(5):
            answer = await peer.receive()
            await left.wait()
        if "result" in answer:
            assert shown[-1].exit_status is not None
        else:
            assert isinstance(answer["error"], dict)
            assert answer["error"]["code"] in {-32002, -32600}
    assert reports == []


@pytest.mark.spec("SETUP-05")
@pytest.mark.parametrize("given_up", [True, False], ids=["its load was given up", "its load is waited for"])
async def test_a_new_session_with_the_id_of_one_that_is_being_loaded_is_refused(given_up: bool) -> None:
    reports: list[Report] = []
    client = Client(name="c", version="1", request_permission=never)
    capabilities: JSONObject = {"loadSession": True}
    async with (
        trio.open_nursery() as nursery,
        open_scripted_agent(client, on_report=reports.append, agent_capabilities=capabilities) as (side, peer),
    ):
        loading = trio.CancelScope()

        async def load() -> None:
            with loading:
                async with side.load_session(SessionId("s1"), "/tmp"):
                    pass

        async def new() -> None:
            with pytest.raises(RemoteProtocolError, match="id of a session that is open already"):
                async with side.new_session("/tmp"):
                    raise AssertionError("there is none")

        nursery.start_soon(load)
        asked = await peer.receive()
        if given_up:
            loading.cancel()
            assert (await peer.receive())["method"] == "$/cancel_request"
        nursery.start_soon(new)
        await peer.answer(await peer.receive(), {"sessionId": "s1"})
        assert await peer.receive_all() == []
        await peer.answer(asked, {})
        assert await peer.receive_all() == []
    assert reports == []
