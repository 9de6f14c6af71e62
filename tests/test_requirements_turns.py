"""What the pages of a prompt turn ask of agents and clients, where no other test shows it.

https://agentclientprotocol.com/protocol/prompt-turn
https://agentclientprotocol.com/protocol/tool-calls
https://agentclientprotocol.com/protocol/session-modes
https://agentclientprotocol.com/protocol/session-config-options
https://agentclientprotocol.com/protocol/slash-commands
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
import trio
import trio.testing

from acp_ref._converter import InvalidPayload, structure, unstructure
from acp_ref._jsonrpc import JSON, JSONObject
from acp_ref.agent import Agent
from acp_ref.agent_session import SessionOrigin
from acp_ref.client_session import ClientSession
from acp_ref.content import file_context
from acp_ref.errors import ErrorCode, LocalProtocolError
from acp_ref.file_system import FileSystem
from acp_ref.permissions import answer_with, default_options
from acp_ref.prompt_turn import PromptTurn
from acp_ref.reports import Report, ReportKind
from acp_ref.schema import (
    AgentMessageChunk,
    AvailableCommand,
    Content,
    Cost,
    Diff,
    EmbeddedResource,
    NewSessionResponse,
    PermissionOption,
    PermissionOptionKind,
    PromptCapabilities,
    RequestPermissionRequest,
    ResourceLink,
    SessionConfigBoolean,
    SessionConfigId,
    SessionConfigOption,
    SessionConfigSelect,
    SessionConfigSelectGroup,
    SessionConfigSelectOption,
    SessionConfigValueId,
    SessionId,
    SessionMode,
    SessionModeId,
    SessionModeState,
    SessionUpdate,
    SetSessionConfigBooleanRequest,
    SetSessionConfigOptionRequest,
    SetSessionConfigSelectRequest,
    StopReason,
    Terminal,
    TerminalId,
    TextContent,
    ToolCall,
    ToolCallId,
    ToolCallStatus,
    ToolCallUpdate,
    ToolKind,
    Unknown,
    UsageUpdate,
)
from acp_ref.session_store import MemoryStore
from acp_ref.slash_commands import parse_command
from acp_ref.testing import open_agent_and_client
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

# ------------------------------------------------------------------------------------------------------ prompt turn


@pytest.mark.spec("PROMPT-05", "PROMPT-06")
async def test_context_goes_whole_where_the_agent_takes_it_and_by_its_address_elsewhere(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("remember")
    for takes, kind in ((True, EmbeddedResource), (False, ResourceLink)):
        served = Agent(
            name="a", version="1", prompt=parrot, prompt_capabilities=PromptCapabilities(embedded_context=takes)
        )
        async with (
            open_agent_and_client(served, make_client()) as (_, side),
            side.new_session(str(tmp_path)) as session,
            session.prompt("see", await file_context(str(file), session.accepts)) as turn,
        ):
            _, said = [update.content async for update in turn if isinstance(update, AgentMessageChunk)]
        assert type(said) is kind
        assert file.as_uri() in str(said)


@pytest.mark.spec("PROMPT-12", "PROMPT-13", "PROMPT-14")
@pytest.mark.parametrize("cost", [None, Cost(amount=0.25, currency="USD"), Cost(amount=3, currency="credits")])
async def test_usage_has_two_counts_and_may_have_a_cost_in_any_unit(cost: Cost | None) -> None:
    async def spend(turn: PromptTurn) -> StopReason:
        await turn.send_usage(10, 200_000, cost)
        return StopReason.END_TURN

    async with (
        open_agent_and_client(Agent(name="a", version="1", prompt=spend), make_client()) as (_, side),
        side.new_session(CWD) as session,
        session.prompt("go") as turn,
    ):
        assert [update async for update in turn] == [UsageUpdate(used=10, size=200_000, cost=cost)]
        assert session.state.usage == UsageUpdate(used=10, size=200_000, cost=cost)


@pytest.mark.spec("PROMPT-13")
@pytest.mark.parametrize("missing", ["used", "size"])
async def test_usage_without_a_count_is_no_update(missing: str) -> None:
    reports: list[Report] = []
    async with agent_of(make_client(), reports=reports) as (_, session, peer):
        update: JSONObject = {"sessionUpdate": "usage_update", "used": 1, "size": 2}
        for broken in ({**update, missing: None}, {key: value for key, value in update.items() if key != missing}):
            await peer.notify("session/update", {"sessionId": "s", "update": broken})
        assert await peer.receive_all() == []
        assert [report.kind for report in reports] == [ReportKind.INVALID] * 2
        assert session.state.usage is None


@pytest.mark.spec("PROMPT-19", "PROMPT-20", "PERM-01", "PERM-02", "PERM-03", "PERM-04", "PERM-07")
@pytest.mark.parametrize("kind", [PermissionOptionKind.ALLOW_ONCE, PermissionOptionKind.REJECT_ONCE])
async def test_a_tool_runs_when_the_user_allowed_it_and_not_otherwise(kind: PermissionOptionKind) -> None:
    ran: list[str] = []
    asked: list[RequestPermissionRequest] = []

    async def careful(turn: PromptTurn) -> StopReason:
        async with turn.tool_call("Delete it", kind=ToolKind.DELETE, raw_input={"path": "/x"}) as call:
            if await call.request_permission():
                await call.start()
                ran.append(call.id)
            else:
                await call.fail()
        return StopReason.END_TURN

    async def ask(request: RequestPermissionRequest) -> PermissionOption | None:
        asked.append(request)
        return await answer_with(kind)(request)

    client = make_client(request_permission=ask)
    async with (
        open_agent_and_client(Agent(name="a", version="1", prompt=careful), client) as (_, side),
        side.new_session(CWD) as session,
        session.prompt("go") as turn,
    ):
        assert await turn.wait() is StopReason.END_TURN
    (request,) = asked
    assert request.session_id == session.id
    assert (request.tool_call.title, request.tool_call.raw_input) == ("Delete it", {"path": "/x"})
    assert [option.kind for option in request.options] == ["allow_once", "allow_always", "reject_once"]
    (state,) = session.state.tool_calls.values()
    allowed = kind is PermissionOptionKind.ALLOW_ONCE
    assert ran == ([state.tool_call_id] if allowed else [])
    assert state.status is (ToolCallStatus.COMPLETED if allowed else ToolCallStatus.FAILED)


@pytest.mark.spec("PROMPT-21", "PROMPT-22", "FS-05", "SETUP-67")
async def test_a_tool_uses_the_client_and_the_turn_goes_on_meanwhile(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("remember")

    async def use(turn: PromptTurn) -> StopReason:
        async with turn.tool_call("Read") as call:
            await call.start()
            await turn.send_thought("I wonder what it says")
            text = await turn.client.read_text_file(str(file))
            await call.update(content=[Content(content=TextContent(text=text))])
            await turn.send_text("It says something")
            await turn.client.write_text_file(str(file), text + "!")
        return StopReason.END_TURN

    async with (
        open_agent_and_client(Agent(name="a", version="1", prompt=use), make_client(file_system=FileSystem())) as (
            _,
            side,
        ),
        side.new_session(str(tmp_path)) as session,
        session.prompt("go") as turn,
    ):
        kinds = [type(update).__name__ async for update in turn]
    assert kinds == [
        *("ToolCall", "ToolCallUpdate", "AgentThoughtChunk", "ToolCallUpdate", "AgentMessageChunk", "ToolCallUpdate"),
    ]
    (state,) = session.state.tool_calls.values()
    assert (state.status, state.content) == (
        ToolCallStatus.COMPLETED,
        [Content(content=TextContent(text="remember"))],
    )
    assert file.read_text() == "remember!"


@pytest.mark.spec("CANCEL-05", "CANCEL-13", "CANCEL-21")
async def test_a_cancelled_turn_gives_up_all_that_it_waits_for(tmp_path: Path) -> None:
    given_up = 0

    async def wait(turn: PromptTurn) -> StopReason:
        async def read() -> None:
            nonlocal given_up
            try:
                await turn.client.read_text_file("/x")
            finally:
                given_up += 1

        for _ in range(3):
            turn.nursery.start_soon(read)
        await read()
        return StopReason.END_TURN

    served = Agent(name="a", version="1", prompt=wait)
    async with client_of(served, capabilities={"fs": {"readTextFile": True}}) as peer:
        session_id = await new_session(peer)
        await peer.request("turn", "session/prompt", prompt(session_id, "go"))
        reads = await peer.receive_all()
        assert [message["method"] for message in reads] == ["fs/read_text_file"] * 4
        await peer.notify("session/cancel", {"sessionId": session_id})
        *cancels, answer = await peer.receive_all()
        asked = [cancel["params"] for cancel in cancels]
        assert sorted(map(str, asked)) == sorted(str({"requestId": message["id"]}) for message in reads)
        assert result_of(answer) == {"stopReason": "cancelled"}
        assert given_up == 4
        for message in reads:  # late answers are nobody's
            await peer.answer(message, {"content": ""})
        assert await peer.receive_all() == []


@pytest.mark.field_note(40)
async def test_a_turn_and_a_question_in_it_may_take_their_time(autojump_clock: trio.testing.MockClock) -> None:
    day = 24 * 60 * 60

    async def ask(request: RequestPermissionRequest) -> PermissionOption | None:
        await trio.sleep(day)
        return request.options[0]

    async def work(turn: PromptTurn) -> StopReason:
        await trio.sleep(day)
        async with turn.tool_call("Work") as call:
            assert await call.request_permission()
        return StopReason.END_TURN

    client = make_client(request_permission=ask)
    async with (
        open_agent_and_client(Agent(name="a", version="1", prompt=work), client) as (_, side),
        side.new_session(CWD) as session,
        session.prompt("go") as turn,
    ):
        start = trio.current_time()
        assert await turn.wait() is StopReason.END_TURN
        assert trio.current_time() - start == pytest.approx(2 * day)


# ----------------------------------------------------------------------------------------------------- tool calls


@pytest.mark.spec("TOOL-11", "TOOL-12", "TOOL-13")
@pytest.mark.field_note(100)
async def test_a_bare_block_is_taken_for_nothing_known_and_what_is_malformed_is_dropped_and_reported() -> None:
    reports: list[Report] = []
    wrapped: JSONObject = {"type": "content", "content": {"type": "text", "text": "in"}}
    new_file: JSONObject = {"type": "diff", "path": "/new", "newText": "x", "oldText": None}
    bare: JSONObject = {"type": "text", "text": "bare"}
    items: list[JSON] = [
        bare,
        {"type": "content"},
        wrapped,
        new_file,
        {"type": "terminal", "terminalId": "t"},
    ]
    async with agent_of(make_client(), reports=reports) as (_, session, peer):
        update: JSONObject = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Look", "content": items}
        await peer.notify("session/update", {"sessionId": "s", "update": update})
        await trio.testing.wait_all_tasks_blocked()
        (state,) = session.state.tool_calls.values()
        assert state.content == [
            Unknown(raw=bare),
            Content(content=TextContent(text="in")),
            Diff(path="/new", new_text="x"),
            Terminal(terminal_id=TerminalId("t")),
        ]
        assert [(report.kind, report.path) for report in reports] == [
            (ReportKind.SALVAGED, "$.params.update.content[1].content"),
        ]


@pytest.mark.spec("TOOL-02", "TOOL-11")
@pytest.mark.parametrize("missing", ["toolCallId", "title"])
async def test_a_report_of_a_tool_call_has_an_id_and_a_title(missing: str) -> None:
    report: JSONObject = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Look"}
    assert isinstance(structure(SessionUpdate, report), ToolCall)
    del report[missing]
    with pytest.raises(InvalidPayload, match=missing):
        structure(SessionUpdate, report)


@pytest.mark.spec("TOOL-02")
async def test_no_two_tool_calls_of_a_session_share_an_id() -> None:
    async def work(turn: PromptTurn) -> StopReason:
        async with turn.tool_call("One"), turn.tool_call("Two"):
            pass
        return StopReason.END_TURN

    async with client_of(Agent(name="a", version="1", prompt=work)) as peer:
        session_id = await new_session(peer)
        updates = [update_of(message) for _ in range(20) for message in (await say(peer, session_id, "go"))[:-1]]
        ids = [update["toolCallId"] for update in updates if update["sessionUpdate"] == "tool_call"]
        assert len(set(map(str, ids))) == len(ids) == 40


@pytest.mark.spec("TOOL-02", "TOOL-07", "PERM-09")
async def test_an_agent_reports_a_tool_call_once_and_updates_only_what_it_reported() -> None:
    call_id = ToolCallId("mine")

    async def work(turn: PromptTurn) -> StopReason:
        if turn.session.origin is SessionOrigin.NEW and turn.text == "first":
            with pytest.raises(LocalProtocolError, match="mine was not reported yet"):
                await turn.send(ToolCallUpdate(tool_call_id=call_id, title="Never heard of"))
            await turn.request_permission(ToolCallUpdate(tool_call_id=call_id, title="May I?"), default_options())
            await turn.send(ToolCallUpdate(tool_call_id=call_id, title="I may"))
            async with turn.tool_call("Doing it", tool_call_id=call_id):
                pass
        else:  # in another turn, and in a session that was loaded, it is still the same call
            await turn.send(ToolCallUpdate(tool_call_id=call_id, title="Did it"))
        if turn.session.origin is SessionOrigin.NEW:
            with pytest.raises(LocalProtocolError, match="mine was reported before"):
                async with turn.tool_call("Doing it again", tool_call_id=call_id):
                    pass
        return StopReason.END_TURN

    async def titles(session: ClientSession, *texts: str) -> list[str]:
        for text in texts:
            async with session.prompt(text) as turn:
                await turn.wait()
        return [call.title for call in session.state.tool_calls.values()]

    served = Agent(name="a", version="1", prompt=work, store=MemoryStore())
    async with open_agent_and_client(served, make_client()) as (_, side):
        async with side.new_session(CWD) as session:
            assert await titles(session, "first", "second") == ["Did it"]
        async with side.load_session(session.id, CWD) as loaded:
            assert await titles(loaded, "third") == ["Did it"]


@pytest.mark.spec("PERM-09")
async def test_a_tool_call_may_introduce_itself_by_asking_for_permission() -> None:
    seen: list[ToolCallUpdate] = []

    async def ask(request: RequestPermissionRequest) -> PermissionOption | None:
        seen.append(request.tool_call)
        return await answer_with(PermissionOptionKind.ALLOW_ONCE)(request)

    async with agent_of(make_client(request_permission=ask)) as (_, session, peer):
        params: JSONObject = {
            "sessionId": "s",
            "toolCall": {"toolCallId": "c", "title": "Ready to code?", "kind": "switch_mode"},
            "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}],
        }
        assert "selected" in str(result_of(await peer.call(1, "session/request_permission", params)))
        (state,) = session.state.tool_calls.values()
        assert (state.title, state.kind, seen[0].title) == ("Ready to code?", ToolKind.SWITCH_MODE, "Ready to code?")


# ------------------------------------------------------------------------------------------------- modes and options

ASK, CODE = SessionModeId("ask"), SessionModeId("code")
MODES: Final = SessionModeState(
    current_mode_id=ASK, available_modes=[SessionMode(id=name, name=name.title()) for name in (ASK, CODE)]
)
WEB, LEVEL = SessionConfigId("web"), SessionConfigId("level")
CHOICES: Final = [
    SessionConfigSelectOption(value=SessionConfigValueId(value), name=value.title()) for value in ("low", "high")
]
OPTIONS: Final[list[SessionConfigOption]] = [
    SessionConfigBoolean(id=WEB, name="Search the web", current_value=False),
    SessionConfigSelect(id=LEVEL, name="Level", current_value=SessionConfigValueId("low"), options=CHOICES),
]


@pytest.mark.spec("MODE-03", "MODE-04", "MODE-05", "CONF-17", "CONF-18", "CONF-19", "CONF-20")
async def test_modes_and_options_change_from_both_sides_also_while_the_agent_works() -> None:
    working, go_on = trio.Event(), trio.Event()

    async def work(turn: PromptTurn) -> StopReason:
        working.set()
        await go_on.wait()
        assert turn.session.modes is not None
        assert turn.session.config_options is not None
        assert (turn.session.modes.current, turn.session.config_options.current(LEVEL)) == (CODE, "high")
        await turn.session.set_mode(ASK)
        await turn.session.set_config_option(LEVEL, "low")
        return StopReason.END_TURN

    served = Agent(name="a", version="1", prompt=work, modes=MODES, config_options=OPTIONS)
    async with (
        open_agent_and_client(served, make_client()) as (_, side),
        side.new_session(CWD) as session,
        session.prompt("go") as turn,
    ):
        await working.wait()
        await session.set_mode(CODE)
        await session.set_config_option(LEVEL, "high")
        await session.set_config_option(WEB, value=True)
        assert session.state.current_mode_id == CODE
        assert [option.current_value for option in session.state.config_options] == [True, "high"]  # type: ignore[union-attr]
        go_on.set()
        await turn.wait()
        assert session.state.current_mode_id == ASK
        assert [option.current_value for option in session.state.config_options] == [True, "low"]  # type: ignore[union-attr]


@pytest.mark.spec("MODE-04", "CONF-18", "CONF-21")
async def test_a_client_sets_only_what_is_listed_and_says_the_type_of_a_switch_alone() -> None:
    setup: JSONObject = {
        "sessionId": "s",
        "modes": {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}]},
        "configOptions": [unstructure(SessionConfigOption, option) for option in OPTIONS],
    }
    async with agent_of(make_client()) as (side, _, peer), trio.open_nursery() as nursery:

        async def answer() -> None:
            await peer.answer(await peer.receive(), {**setup, "sessionId": "listed"})

        nursery.start_soon(answer)
        async with side.new_session(CWD) as session:
            with pytest.raises(LocalProtocolError, match="mode"):
                await session.set_mode(CODE)
            for name, value in ((LEVEL, "max"), (LEVEL, True), (WEB, "true"), (SessionConfigId("gone"), "low")):
                with pytest.raises(LocalProtocolError, match=name):
                    await session.set_config_option(name, value)
            assert await peer.receive_all() == []
            for name, value, said in (
                (LEVEL, "high", {"value": "high"}),
                (WEB, True, {"value": True, "type": "boolean"}),
            ):
                nursery.start_soon(session.set_config_option, name, value)
                request = await peer.receive()
                assert request["params"] == {"sessionId": "listed", "configId": name, **said}
                await peer.answer(request, {"configOptions": []})
                await trio.testing.wait_all_tasks_blocked()
                session.state.opened(structure_setup(setup))


def structure_setup(setup: JSONObject) -> NewSessionResponse:
    return structure(NewSessionResponse, setup)


@pytest.mark.spec("CONF-21", "CONF-18")
@pytest.mark.field_note(100)
@pytest.mark.parametrize("said", [{}, {"type": None}, {"type": "id"}, {"type": "of_a_later_version"}])
async def test_a_value_without_a_known_type_is_the_id_of_a_value(said: JSONObject) -> None:
    params: JSONObject = {"sessionId": "s", "configId": "level", "value": "high", **said}
    read = structure(SetSessionConfigOptionRequest, params)
    assert read == SetSessionConfigSelectRequest(
        session_id=SessionId("s"), config_id=LEVEL, value=SessionConfigValueId("high")
    )
    async with client_of(Agent(name="a", version="1", prompt=parrot, config_options=OPTIONS)) as peer:
        params["sessionId"] = await new_session(peer)
        answer = result_of(await peer.call(1, "session/set_config_option", params))
        assert "'currentValue': 'high'" in str(answer["configOptions"])
        for wrong in ({"value": True}, {"value": 5}, {"value": None}):
            refused = await peer.call(2, "session/set_config_option", {**params, **wrong})
            assert code_of(refused) == ErrorCode.INVALID_PARAMS


@pytest.mark.spec("CONF-18")
def test_a_switch_is_set_by_a_boolean_of_type_boolean() -> None:
    params: JSONObject = {"sessionId": "s", "configId": "web", "type": "boolean", "value": True}
    assert structure(SetSessionConfigOptionRequest, params) == SetSessionConfigBooleanRequest(
        session_id=SessionId("s"), config_id=WEB, value=True
    )
    for wrong in ("true", 1, None):
        with pytest.raises(InvalidPayload, match="value"):
            structure(SetSessionConfigOptionRequest, {**params, "value": wrong})


SELECT: Final[JSONObject] = {
    "id": "level",
    "name": "Level",
    "type": "select",
    "currentValue": "low",
    "options": [{"value": "low", "name": "Low"}],
}
SWITCH: Final[JSONObject] = {"id": "web", "name": "Search", "type": "boolean", "currentValue": True}


@pytest.mark.spec("CONF-04", "CONF-05", "CONF-08")
def test_an_option_has_an_id_a_name_a_type_and_a_value_and_a_choice_has_its_values() -> None:
    select = structure(SessionConfigOption, SELECT)
    assert isinstance(select, SessionConfigSelect)
    assert (select.id, select.name, select.current_value, select.category) == ("level", "Level", "low", None)
    groups: list[JSON] = [{"group": "g", "name": "G", "options": SELECT["options"]}]
    grouped = structure(SessionConfigOption, {**SELECT, "options": groups})
    assert isinstance(grouped, SessionConfigSelect)
    assert [type(item) for item in grouped.options] == [SessionConfigSelectGroup]
    switch = structure(SessionConfigOption, {**SWITCH, "options": "are nothing to a switch", "category": "_mine"})
    assert switch == SessionConfigBoolean(id=WEB, name="Search", current_value=True, category="_mine")
    for option in (SELECT, SWITCH):
        for missing in option.keys() - {"type"}:
            with pytest.raises(InvalidPayload, match=missing):
                structure(SessionConfigOption, {key: value for key, value in option.items() if key != missing})
    for wrong in ("true", 1, None):
        with pytest.raises(InvalidPayload, match="currentValue"):
            structure(SessionConfigOption, {**SWITCH, "currentValue": wrong})


@pytest.mark.spec("CONF-16")
async def test_an_option_of_a_type_that_is_not_known_disturbs_no_other() -> None:
    slider: JSONObject = {"id": "heat", "name": "Heat", "type": "slider", "currentValue": 0.5}
    async with agent_of(make_client()) as (_, session, peer):
        update: JSONObject = {"sessionUpdate": "config_option_update", "configOptions": [slider, SWITCH]}
        await peer.notify("session/update", {"sessionId": "s", "update": update})
        await trio.testing.wait_all_tasks_blocked()
        known = [option for option in session.state.config_options if not isinstance(option, Unknown)]
        assert [option.id for option in known] == ["web"]
        with pytest.raises(LocalProtocolError):
            await session.set_config_option(SessionConfigId("heat"), "1")
        assert await peer.receive_all() == []


# -------------------------------------------------------------------------------------------------- slash commands


@pytest.mark.spec("SLASH-01", "SLASH-02", "SLASH-03", "SLASH-04", "SLASH-05", "SLASH-06")
async def test_a_command_is_advertised_run_by_name_and_replaced_by_others() -> None:
    ran: list[tuple[str, str]] = []

    async def run(turn: PromptTurn) -> StopReason:
        command = parse_command(turn.prompt, turn.session.commands)
        assert command is not None
        ran.append((command.name, command.input))
        await turn.session.set_commands(AvailableCommand(name="undo", description="Takes it back"))
        return StopReason.END_TURN

    plan = AvailableCommand(name="plan", description="Makes a plan")
    served = Agent(name="a", version="1", prompt=run, commands=[plan], store=MemoryStore())
    async with open_agent_and_client(served, make_client()) as (_, side), side.new_session(CWD) as session:
        await trio.testing.wait_all_tasks_blocked()
        assert [command.name for command in session.state.available_commands] == ["plan"]
        async with session.run_command("plan", "  a party\nfor two ") as turn:
            await turn.wait()
        assert ran == [("plan", "  a party\nfor two ")]
        assert [command.name for command in session.state.available_commands] == ["undo"]
