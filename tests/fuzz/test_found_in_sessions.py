"""What the fuzzers found about the life of sessions, case by case, so that it stays found."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from acp_ref._jsonrpc import JSON, JSONObject
from acp_ref.agent import Agent
from acp_ref.agent_session import AgentSession, SessionOrigin
from acp_ref.client import Client
from acp_ref.client_session import ClientSession
from acp_ref.errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from acp_ref.permissions import answer_with, default_options
from acp_ref.prompt_turn import PromptTurn
from acp_ref.reports import Report, ReportKind
from acp_ref.schema import (
    PermissionOptionKind,
    SessionId,
    SessionMode,
    SessionModeId,
    SessionModeState,
    SessionUpdate,
    StopReason,
    ToolCallId,
    ToolCallUpdate,
)
from acp_ref.session_store import MemoryStore
from acp_ref.testing import open_scripted_agent
from tests.conversations import CWD, client_of, code_of, new_session, prompt, result_of

SETUP: JSONObject = {"cwd": CWD, "mcpServers": []}
CAPABILITIES: JSONObject = {"loadSession": True, "sessionCapabilities": {"close": {}}}


async def answer(turn: PromptTurn[None]) -> StopReason:
    await trio.lowlevel.checkpoint()
    return StopReason.END_TURN


Around = Callable[[AgentSession[None]], Awaitable[None]]


async def nothing(session: AgentSession[None]) -> None:
    await trio.lowlevel.checkpoint()


def agent(
    enter: Around = nothing,
    leave: Around = nothing,
    *,
    set_mode: Callable[[AgentSession[None], SessionModeId], Awaitable[None]] | None = None,
) -> Agent[None]:
    """An agent that keeps its sessions, and opens and leaves them by ``enter`` and ``leave``."""

    @asynccontextmanager
    async def open_session(session: AgentSession[None]) -> AsyncGenerator[None, None]:
        await enter(session)
        yield
        await leave(session)

    modes = SessionModeState(
        current_mode_id=SessionModeId("a"),
        available_modes=[SessionMode(id=SessionModeId(name), name=name) for name in ("a", "b")],
    )
    return Agent(
        name="agent",
        version="1",
        prompt=answer,
        open_session=open_session,
        store=MemoryStore(),
        modes=modes,
        set_mode=set_mode,
    )


async def test_a_session_that_is_being_loaded_cannot_be_deleted_under_it() -> None:
    gate = trio.Event()

    async def enter(session: AgentSession[None]) -> None:
        if session.origin is SessionOrigin.LOADED:
            await gate.wait()

    async with client_of(agent(enter)) as peer:
        session_id = await new_session(peer)
        for open_before in (True, False):
            if not open_before:
                result_of(await peer.call("c", "session/close", {"sessionId": session_id}))
            await peer.request("load", "session/load", {"sessionId": session_id, **SETUP})
            await trio.testing.wait_all_tasks_blocked()
            refused = await peer.call("d", "session/delete", {"sessionId": session_id})
            assert code_of(refused) == ErrorCode.INVALID_REQUEST
            gate.set()
            assert "result" in await peer.receive()
            gate = trio.Event()


async def test_a_load_that_is_cancelled_too_late_has_taken_place_and_the_session_works() -> None:
    gate = trio.Event()
    leaving = trio.Event()

    async def leave(session: AgentSession[None]) -> None:
        if session.origin is SessionOrigin.NEW:
            leaving.set()
            await gate.wait()  # the old one takes its time to go

    async with client_of(agent(leave=leave)) as peer:
        session_id = await new_session(peer)
        await peer.request("load", "session/load", {"sessionId": session_id, **SETUP})
        await leaving.wait()
        await peer.notify("$/cancel_request", {"requestId": "load"})
        await trio.testing.wait_all_tasks_blocked()
        gate.set()
        messages = await peer.receive_all()
        assert [message["id"] for message in messages if "id" in message] == ["load"]
        result_of(messages[-1])
        answered = await peer.call("p", "session/prompt", prompt(session_id, "hello"))
        assert result_of(answered) == {"stopReason": "end_turn"}


async def test_a_session_that_ends_by_itself_while_it_is_set_up_takes_nothing_with_it() -> None:
    loaded: list[AgentSession[None]] = []

    async def enter(session: AgentSession[None]) -> None:
        if session.origin is SessionOrigin.LOADED:
            loaded.append(session)

    async def leave(session: AgentSession[None]) -> None:
        if session.origin is SessionOrigin.NEW:  # it makes room for the one that is loaded
            loaded[0].nursery.cancel_scope.cancel()
            await trio.testing.wait_all_tasks_blocked()

    async with client_of(agent(enter, leave)) as peer:
        session_id = await new_session(peer)
        failed = await peer.call("load", "session/load", {"sessionId": session_id, **SETUP})
        assert code_of(failed) == ErrorCode.INTERNAL_ERROR
        gone = await peer.call("p", "session/prompt", prompt(session_id, "hello"))
        assert code_of(gone) == ErrorCode.RESOURCE_NOT_FOUND
        assert "result" in await peer.call("again", "session/load", {"sessionId": session_id, **SETUP})


async def test_a_failed_load_leaves_the_additional_roots_in_listings_as_they_were() -> None:
    async def enter(session: AgentSession[None]) -> None:
        if session.origin is SessionOrigin.LOADED:
            await trio.sleep_forever()

    async with client_of(agent(enter)) as peer:
        session_id = await new_session(peer)
        await peer.request(
            "load", "session/load", {"sessionId": session_id, "additionalDirectories": ["/elsewhere"], **SETUP}
        )
        await trio.testing.wait_all_tasks_blocked()
        await peer.notify("$/cancel_request", {"requestId": "load"})
        assert code_of(await peer.receive()) == ErrorCode.REQUEST_CANCELLED
        listed = result_of(await peer.call("l", "session/list"))["sessions"]
        assert isinstance(listed, list)
        assert [isinstance(info, dict) and info.get("additionalDirectories") for info in listed] in ([None], [[]])


async def test_a_mode_that_is_set_while_the_session_is_closed_finds_no_session() -> None:
    gate = trio.Event()

    async def set_mode(session: AgentSession[None], mode_id: SessionModeId) -> None:
        await gate.wait()

    async with client_of(agent(set_mode=set_mode)) as peer:
        session_id = await new_session(peer)
        await peer.request("m", "session/set_mode", {"sessionId": session_id, "modeId": "b"})
        result_of(await peer.call("c", "session/close", {"sessionId": session_id}))
        gate.set()
        assert code_of(await peer.receive()) == ErrorCode.RESOURCE_NOT_FOUND


# --------------------------------------------------------------------------------------------------------- the client


def client(on_update: Callable[[ClientSession, SessionUpdate], None] | None = None) -> Client:
    return Client(
        name="client",
        version="1",
        request_permission=answer_with(PermissionOptionKind.REJECT_ONCE),
        on_update=on_update,
    )


@pytest.mark.spec("SETUP-05")
async def test_an_agent_that_gives_one_session_id_twice_fails_that_call_alone() -> None:
    async with open_scripted_agent(client(), agent_capabilities=CAPABILITIES) as (side, peer):
        failed: list[RemoteProtocolError] = []
        done = trio.Event()

        async def open_session() -> None:
            try:
                async with side.new_session(CWD):
                    await done.wait()
            except RemoteProtocolError as exc:
                failed.append(exc)

        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(open_session)
                await peer.answer(await peer.receive(), {"sessionId": "the same"})
                await trio.testing.wait_all_tasks_blocked()
            assert len(failed) == 1
            assert side.session(SessionId("the same")).turn is None
            done.set()
            await peer.answer(await peer.receive(), {})  # session/close of the one that was open


@pytest.mark.field_note(36)
async def test_an_application_that_fails_on_an_early_update_misses_none_of_the_others() -> None:
    seen: list[SessionUpdate] = []
    reports: list[Report] = []

    def on_update(session: ClientSession, update: SessionUpdate) -> None:
        seen.append(update)
        if len(seen) == 1:
            raise RuntimeError("a bug")

    async with (
        open_scripted_agent(client(on_update), on_report=reports.append) as (side, peer),
        trio.open_nursery() as nursery,
    ):

        async def open_session() -> None:
            async with side.new_session(CWD) as session:
                assert session.state.title == "third"

        nursery.start_soon(open_session)
        question = await peer.receive()
        for title in ("first", "second", "third"):
            update = {"sessionUpdate": "session_info_update", "title": title}
            await peer.notify("session/update", {"sessionId": "s", "update": update})
        await peer.answer(question, {"sessionId": "s"})
    assert len(seen) == 3
    assert [report.kind for report in reports] == [ReportKind.HANDLER_FAILED]


async def test_a_session_loaded_for_a_caller_that_gave_up_is_closed_at_the_agent() -> None:
    async with open_scripted_agent(client(), agent_capabilities=CAPABILITIES) as (side, peer):
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:

                async def load() -> None:
                    async with side.load_session(SessionId("s"), CWD):
                        pass

                nursery.start_soon(load)
                question = await peer.receive()
                scope.cancel()
        assert (await peer.receive())["method"] == "$/cancel_request"
        await peer.answer(question, {})
        closing = await peer.receive()
        assert (closing["method"], closing["params"]) == ("session/close", {"sessionId": "s"})
        await peer.answer(closing, {})


async def test_until_then_it_cannot_be_loaded_again() -> None:
    async with open_scripted_agent(client(), agent_capabilities=CAPABILITIES) as (side, peer):

        async def load() -> None:
            async with side.load_session(SessionId("s"), CWD):
                pass

        async with trio.open_nursery() as gives_up:
            gives_up.start_soon(load)
            first = await peer.receive()
            gives_up.cancel_scope.cancel()
        await peer.receive()  # $/cancel_request
        with pytest.raises(LocalProtocolError, match="about to be"):
            await load()
        error: JSON = {"code": -32800, "message": "Request cancelled"}
        await peer.send({"id": first["id"], "error": error})
        await trio.testing.wait_all_tasks_blocked()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(load)
            await peer.answer(await peer.receive(), {})
            await peer.answer(await peer.receive(), {})


async def test_a_permission_that_makes_no_sense_goes_to_the_hook_for_reports() -> None:
    async def ask(turn: PromptTurn[None]) -> StopReason:
        call = ToolCallUpdate(tool_call_id=ToolCallId("t"), title="may I?")
        return StopReason.END_TURN if await turn.request_permission(call, default_options()) else StopReason.REFUSAL

    reports: list[Report] = []
    async with client_of(Agent(name="agent", version="1", prompt=ask), reports=reports) as peer:
        await peer.request("p", "session/prompt", prompt(await new_session(peer), "hello"))
        await peer.answer(await peer.receive(), {"outcome": {"outcome": "selected", "optionId": "never offered"}})
        assert result_of(await peer.receive()) == {"stopReason": "refusal"}
    assert [report.kind for report in reports] == [ReportKind.INVALID]


async def test_terminals_end_with_their_session_also_when_the_agent_does_not_answer_its_close() -> None:
    terminals = Client(
        name="client",
        version="1",
        request_permission=answer_with(PermissionOptionKind.REJECT_ONCE),
        terminals=True,
    )
    async with open_scripted_agent(terminals, agent_capabilities=CAPABILITIES) as (side, peer):
        done, gives_up = trio.Event(), trio.CancelScope()

        async def open_session() -> None:
            async with side.new_session("/") as session:
                await done.wait()
                with gives_up:
                    await session.aclose()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(open_session)
            await peer.answer(await peer.receive(), {"sessionId": "s"})
            command = {"sessionId": "s", "command": "sleep", "args": ["1000"]}
            terminal_id = result_of(await peer.call("t", "terminal/create", command))["terminalId"]
            await peer.request("w", "terminal/wait_for_exit", {"sessionId": "s", "terminalId": terminal_id})
            done.set()
            assert (await peer.receive())["method"] == "session/close"  # which is never answered
            gives_up.cancel()
            assert (await peer.receive())["method"] == "$/cancel_request"
            assert (await peer.receive())["id"] == "w"


async def test_permission_is_asked_for_a_tool_call_that_is_nested_as_deeply_as_can_be_read() -> None:
    async with (
        open_scripted_agent(client(), agent_capabilities=CAPABILITIES) as (side, peer),
        trio.open_nursery() as nursery,
    ):

        async def open_session() -> None:
            async with side.new_session(CWD):
                await done.wait()

        done = trio.Event()
        nursery.start_soon(open_session)
        await peer.answer(await peer.receive(), {"sessionId": "s"})
        await peer.send_frame(
            b'{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{'
            b'"toolCallId":"t","title":"deep","rawInput":%b},"options":[{"optionId":"n","name":"","kind":"reject_once"}]}}'
            % (b"[" * 1000 + b"]" * 1000)
        )
        assert result_of(await peer.receive()) == {"outcome": {"outcome": "selected", "optionId": "n"}}
        done.set()
        await peer.answer(await peer.receive(), {})
