"""Gates: what the other side did not announce is not sent to it, and what this side did not announce is not handled.

https://agentclientprotocol.com/protocol/initialization#capabilities

Everything here goes over the tables of :mod:`acp_ref.methods`: a gate that nobody tries fails the last tests.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeAlias

import pytest
import trio

from acp_ref import methods, schema
from acp_ref._converter import structure, unstructure
from acp_ref._jsonrpc import JSON, JSONObject
from acp_ref.agent import Agent
from acp_ref.authentication import Authentication
from acp_ref.client import Client
from acp_ref.client_services import RemoteTerminal
from acp_ref.client_session import ClientSession
from acp_ref.client_side import ClientSide
from acp_ref.elicitation import ElicitationAnswer
from acp_ref.errors import CapabilityError, ErrorCode
from acp_ref.file_system import FileSystem
from acp_ref.handlers import Handlers
from acp_ref.methods import (
    ADDITIONAL_DIRECTORIES_GATE,
    AGENT,
    BOOLEAN_CONFIG_OPTION_GATE,
    CLIENT,
    CLOSE_SESSION,
    COMPLETE_ELICITATION,
    CREATE_ELICITATION,
    ELICITATION_GATES,
    INITIALIZE,
    MCP_SERVER_GATES,
    PROMPT_CONTENT_GATES,
    SESSION_UPDATE_GATES,
    AnyNotification,
    Gate,
    Method,
    Role,
)
from acp_ref.prompt_turn import PromptTurn
from acp_ref.reports import Report, ReportKind
from acp_ref.requests import IncomingRequest
from acp_ref.schema import (
    AgentCapabilities,
    AuthMethodAgent,
    AuthMethodId,
    ClientCapabilities,
    ElicitationDecline,
    ElicitationFormRequest,
    ElicitationId,
    ElicitationSchema,
    ElicitationSessionScope,
    ElicitationUrlRequest,
    McpServer,
    SessionConfigBoolean,
    SessionConfigId,
    SessionConfigOption,
    SessionConfigSelect,
    SessionConfigSelectOption,
    SessionConfigValueId,
    SessionId,
    SessionUpdate,
    StopReason,
    TerminalId,
)
from acp_ref.session_store import MemoryStore
from acp_ref.testing import ScriptedPeer, open_scripted_agent, open_scripted_client, open_scripted_peer
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
    update_of,
)

AGENT_ANNOUNCES: Final[JSONObject] = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": True},
    "sessionCapabilities": {"list": {}, "delete": {}, "resume": {}, "close": {}, "additionalDirectories": {}},
    "auth": {"logout": {}},
}
CLIENT_ANNOUNCES: Final[JSONObject] = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "session": {"notices": {}, "compaction": {}, "configOptions": {"boolean": {}}},
    "elicitation": {"form": {}, "url": {}},
}
"""Everything that stands behind a gate."""

Closing: TypeAlias = Callable[[JSONObject, str], None]


def leave_out(capabilities: JSONObject, name: str) -> None:
    del capabilities[name]


def say_null(capabilities: JSONObject, name: str) -> None:
    capabilities[name] = None


def all_but(gate: Gate, closing: Closing = leave_out) -> JSONObject:
    """Everything of the side that the gate is about, but what opens it."""
    announced = copy.deepcopy(AGENT_ANNOUNCES if gate.path.startswith("agentCapabilities.") else CLIENT_ANNOUNCES)
    for way in gate.path.split(" or "):
        _, *outer, name = way.split(".")
        inner: JSON = announced
        for key in outer:
            assert isinstance(inner, dict)
            inner = inner[key]
        assert isinstance(inner, dict)
        closing(inner, name)
    return announced


def gate_of(call: AnyNotification) -> Gate:
    assert call.gate is not None
    return call.gate


def gated(role: Role) -> list[AnyNotification]:
    return [call for call in role.handles if call.gate is not None]


async def entered(block: AbstractAsyncContextManager[object]) -> None:
    async with block:
        pass


both_ways_shut = pytest.mark.parametrize("closing", [leave_out, say_null])


# ---------------------------------------------------------------------------------- methods, on the side that calls

SESSION: Final = SessionId("s")

CALLS_TO_AN_AGENT: Final[Mapping[str, Callable[[ClientSide], Awaitable[object]]]] = {
    "logout": lambda side: side.logout(),
    "session/load": lambda side: entered(side.load_session(SESSION, CWD)),
    "session/resume": lambda side: entered(side.resume_session(SESSION, CWD)),
    "session/close": lambda side: side.connection.request(
        CLOSE_SESSION, schema.CloseSessionRequest(session_id=SESSION)
    ),
    "session/list": lambda side: anext(side.list_sessions()),
    "session/delete": lambda side: side.delete_session(SESSION),
}


@pytest.mark.spec("AUTH-03", "AUTH-20", "SETUP-07", "SETUP-08", "SETUP-45", "SETUP-46", "SETUP-51", "SETUP-52")
@pytest.mark.spec("LIST-02", "LIST-03", "DEL-02", "DEL-03", "INIT-14", "INIT-25")
@pytest.mark.field_note(44)
@both_ways_shut
@pytest.mark.parametrize("call", gated(AGENT), ids=lambda call: call.name)
async def test_a_client_calls_no_method_that_the_agent_did_not_announce(
    call: AnyNotification, closing: Closing
) -> None:
    use, gate = CALLS_TO_AN_AGENT[call.name], gate_of(call)
    shut = all_but(gate, closing)
    async with open_scripted_agent(make_client(), on_report=ignore, agent_capabilities=shut) as (side, peer):
        with trio.fail_after(5), pytest.raises(CapabilityError) as refused:
            await use(side)
        assert (refused.value.method, refused.value.capability) == (call.name, gate.path)
        assert await peer.receive_all() == []
    async with (
        open_scripted_agent(make_client(), agent_capabilities=AGENT_ANNOUNCES) as (side, peer),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(use, side)
        assert (await peer.receive())["method"] == call.name
        nursery.cancel_scope.cancel()


def terminal(turn: PromptTurn) -> RemoteTerminal:
    return RemoteTerminal(turn.session.connection, turn.session.id, TerminalId("t"))


def form_of(turn: PromptTurn) -> ElicitationFormRequest:
    scope = ElicitationSessionScope(session_id=turn.session.id)
    return ElicitationFormRequest(message="Well?", scope=scope, requested_schema=ElicitationSchema())


DONE: Final = schema.CompleteElicitationNotification(elicitation_id=ElicitationId("e"))

CALLS_TO_A_CLIENT: Final[Mapping[str, Callable[[PromptTurn], Awaitable[object]]]] = {
    "fs/read_text_file": lambda turn: turn.client.read_text_file("/x"),
    "fs/write_text_file": lambda turn: turn.client.write_text_file("/x", ""),
    "terminal/create": lambda turn: entered(turn.client.create_terminal("make")),
    "terminal/output": lambda turn: terminal(turn).output(),
    "terminal/wait_for_exit": lambda turn: terminal(turn).wait_for_exit(),
    "terminal/kill": lambda turn: terminal(turn).kill(),
    "terminal/release": lambda turn: terminal(turn).aclose(),
    "elicitation/create": lambda turn: turn.session.connection.request(CREATE_ELICITATION, form_of(turn)),
    "elicitation/complete": lambda turn: turn.session.connection.notify(COMPLETE_ELICITATION, DONE),
}


async def attempt(use: Callable[[PromptTurn], Awaitable[object]], announced: JSON) -> tuple[JSONObject, str | None]:
    """What a client that announced this hears first when an agent does this in a turn, and what the agent lacked."""
    (first, *_), lacking = await attempt_all(use, announced)
    return first, lacking


async def attempt_all(
    use: Callable[[PromptTurn], Awaitable[object]], announced: JSON
) -> tuple[list[JSONObject], str | None]:
    lacking: list[str] = []

    async def handler(turn: PromptTurn) -> StopReason:
        try:
            await use(turn)
        except CapabilityError as exc:
            lacking.append(exc.capability)
        return StopReason.END_TURN

    served = Agent(name="a", version="1", prompt=handler)
    async with open_scripted_client(served, on_report=ignore) as peer:
        await peer.call(0, "initialize", {"protocolVersion": 1, "clientCapabilities": announced})
        await peer.request("turn", "session/prompt", prompt(await new_session(peer), "go"))
        heard = await peer.receive_all()
    return heard, lacking[0] if lacking else None


END_OF_TURN: Final[JSONObject] = {"jsonrpc": "2.0", "id": "turn", "result": {"stopReason": "end_turn"}}


@pytest.mark.spec("FS-01", "FS-02", "TERM-01", "TERM-02", "ELIC-06", "ELIC-27", "INIT-14")
@pytest.mark.field_note(45)
@both_ways_shut
@pytest.mark.parametrize("call", gated(CLIENT), ids=lambda call: call.name)
async def test_an_agent_calls_no_method_that_the_client_did_not_announce(
    call: AnyNotification, closing: Closing
) -> None:
    use, gate = CALLS_TO_A_CLIENT[call.name], gate_of(call)
    assert await attempt(use, all_but(gate, closing)) == (END_OF_TURN, gate.path)
    message, lacking = await attempt(use, CLIENT_ANNOUNCES)
    assert (message["method"], lacking) == (call.name, None)


# -------------------------------------------------------------------------------- methods, on the side that is called


async def initialize(request: IncomingRequest, params: schema.InitializeRequest) -> schema.InitializeResponse:
    return schema.InitializeResponse(protocol_version=params.protocol_version)


@pytest.mark.spec("GEN-07", "SETUP-08", "SETUP-46", "SETUP-52", "LIST-03", "DEL-03", "AUTH-03", "FS-02", "TERM-02")
@pytest.mark.parametrize("role", [AGENT, CLIENT], ids=["agent", "client"])
async def test_a_method_that_nobody_handles_does_not_exist(role: Role) -> None:
    handlers = Handlers()
    if role is AGENT:
        handlers.on_request(INITIALIZE, initialize)
    reports: list[Report] = []
    async with open_scripted_peer(role, handlers, on_report=reports.append) as (connection, peer):
        if role is AGENT:
            await peer.call(0, "initialize", {"protocolVersion": 1})
        else:
            version = schema.InitializeRequest(protocol_version=schema.ProtocolVersion(1))
            await connection.send_request(INITIALIZE, version)
            await peer.answer(await peer.receive(), {"protocolVersion": 1})
        for call in gated(role):
            if isinstance(call, Method):
                assert code_of(await peer.call(call.name, call.name)) == ErrorCode.METHOD_NOT_FOUND
            else:
                await peer.notify(call.name)
                assert await peer.receive_all() == []
                assert [(report.kind, report.method) for report in reports] == [(ReportKind.IGNORED, call.name)]


async def nothing(*args: object) -> None:
    await trio.lowlevel.checkpoint()


def ignore(*args: object) -> None:
    pass


async def decline(*args: object) -> ElicitationAnswer:
    await trio.lowlevel.checkpoint()
    return ElicitationDecline()


BARE_AGENT: Final = Agent(name="bare", version="1", prompt=parrot, additional_directories=False)
FULL_AGENT: Final = Agent(
    name="full",
    version="1",
    prompt=parrot,
    store=MemoryStore(),
    prompt_capabilities=schema.PromptCapabilities(image=True, audio=True, embedded_context=True),
    authentication=Authentication(
        methods=[AuthMethodAgent(id=AuthMethodId("key"), name="Key")], authenticate=nothing, logout=nothing
    ),
)
BARE_CLIENT: Final = make_client(notices=False, compaction=False, boolean_config_options=False)
FULL_CLIENT: Final = make_client(
    file_system=FileSystem(), terminals=True, elicit_form=decline, elicit_url=decline, terminal_login=True
)


@pytest.mark.spec("GEN-03", "GEN-04", "INIT-19", "INIT-24")
@pytest.mark.field_note(44)
@pytest.mark.parametrize("served", [BARE_AGENT, FULL_AGENT], ids=["bare", "full"])
async def test_an_agent_handles_what_it_announces_and_nothing_else(served: Agent) -> None:
    announced = served.capabilities()
    shut = [call.name for call in gated(AGENT) if not gate_of(call).is_open(announced)]
    assert shut == ([] if served is FULL_AGENT else [call.name for call in gated(AGENT) if call is not CLOSE_SESSION])
    async with client_of(served) as peer:
        methods_of_an_agent = [
            call.name for call in AGENT.handles if isinstance(call, Method) and call is not INITIALIZE
        ]
        codes = {name: code_of(await peer.call(name, name, [])) for name in methods_of_an_agent}  # fits none of them
        missing = [name for name, code in codes.items() if code == ErrorCode.METHOD_NOT_FOUND]
        # The modes and config options of a session are announced by the answer to its setup, and these have none.
        assert missing == [*shut, "session/set_mode", "session/set_config_option"]


@pytest.mark.spec("GEN-06", "GEN-07", "INIT-16", "INIT-18")
@pytest.mark.field_note(44)
@pytest.mark.parametrize("client", [BARE_CLIENT, FULL_CLIENT], ids=["bare", "full"])
async def test_a_client_handles_what_it_announces_and_nothing_else(client: Client) -> None:
    announced = client.capabilities()
    shut = [call.name for call in gated(CLIENT) if not gate_of(call).is_open(announced)]
    assert shut == ([] if client is FULL_CLIENT else [call.name for call in gated(CLIENT)])
    reports: list[Report] = []
    async with open_scripted_agent(client, on_report=reports.append) as (_, peer):
        missing = []
        for call in CLIENT.handles:
            if isinstance(call, Method):
                if code_of(await peer.call(call.name, call.name, [])) == ErrorCode.METHOD_NOT_FOUND:
                    missing.append(call.name)
            else:
                await peer.notify(call.name, [])
                assert await peer.receive_all() == []  # GEN-08: nothing is answered, whatever it was
                if reports[-1].kind is ReportKind.IGNORED:
                    missing.append(call.name)
        assert missing == shut


# ------------------------------------------------------------------------------------------- content of a prompt

BLOCKS: Final[Mapping[type[object], schema.ContentBlock]] = {
    schema.ImageContent: schema.ImageContent(data="", mime_type="image/png"),
    schema.AudioContent: schema.AudioContent(data="", mime_type="audio/wav"),
    schema.EmbeddedResource: schema.EmbeddedResource(resource=schema.TextResourceContents(uri="file:///x", text="x")),
}


@pytest.mark.spec("PROMPT-04", "PROMPT-05", "CONTENT-04", "CONTENT-05", "CONTENT-06", "INIT-22")
@pytest.mark.field_note(97)
@both_ways_shut
@pytest.mark.parametrize("kind", PROMPT_CONTENT_GATES, ids=lambda kind: kind.__name__)
async def test_a_client_prompts_with_nothing_that_the_agent_did_not_announce(
    kind: type[object], closing: Closing
) -> None:
    block, gate = BLOCKS[kind], PROMPT_CONTENT_GATES[kind]
    shut = {**all_but(gate, closing), "sessionCapabilities": {}}
    async with agent_of(make_client(), capabilities=shut) as (_, session, peer):
        assert not session.accepts(block)
        with trio.fail_after(5), pytest.raises(CapabilityError) as refused:
            await entered(session.prompt("look", block))
        assert refused.value.capability == gate.path
        assert await peer.receive_all() == []
    async with agent_of(make_client(), capabilities={**AGENT_ANNOUNCES, "sessionCapabilities": {}}) as (
        _,
        session,
        peer,
    ):
        assert session.accepts(block)
        async with session.prompt(block):
            question = await peer.receive()
            said = [unstructure(schema.ContentBlock, block)]
            assert question["params"] == {"sessionId": "s", "prompt": said}
            await peer.answer(question, {"stopReason": "end_turn"})


@pytest.mark.spec("PROMPT-04", "INIT-22")
@pytest.mark.field_note(97)
@pytest.mark.parametrize("kind", PROMPT_CONTENT_GATES, ids=lambda kind: kind.__name__)
async def test_an_agent_takes_no_content_that_it_did_not_announce(kind: type[object]) -> None:
    gate, block = PROMPT_CONTENT_GATES[kind], unstructure(schema.ContentBlock, BLOCKS[kind])
    shut = structure(AgentCapabilities, all_but(gate)).prompt_capabilities
    for capabilities, refused in ((shut, True), (FULL_AGENT.prompt_capabilities, False)):
        async with client_of(Agent(name="a", version="1", prompt=parrot, prompt_capabilities=capabilities)) as peer:
            await peer.request(1, "session/prompt", {"sessionId": await new_session(peer), "prompt": [block]})
            *updates, answer = await peer.receive_all()
            if refused:
                assert (updates, code_of(answer)) == ([], ErrorCode.INVALID_PARAMS)
                assert gate.path in str(answer["error"])
            else:
                assert [update_of(update)["content"] for update in updates] == [block]


# ----------------------------------------------------------------------------------- MCP servers and directories

SERVERS: Final[Mapping[type[object], McpServer]] = {
    schema.McpServerHttp: schema.McpServerHttp(name="files", url="http://127.0.0.1:1/", headers=[]),
    schema.McpServerSse: schema.McpServerSse(name="files", url="http://127.0.0.1:1/", headers=[]),
}
SETUPS: Final[Mapping[str, JSONObject]] = {
    "session/new": {"cwd": CWD, "mcpServers": []},
    "session/load": {"sessionId": "s", "cwd": CWD, "mcpServers": []},
    "session/resume": {"sessionId": "s", "cwd": CWD, "mcpServers": []},
}


def set_up(side: ClientSide, method: str, **more: object) -> AbstractAsyncContextManager[ClientSession]:
    match method:
        case "session/new":
            return side.new_session(CWD, **more)  # type: ignore[arg-type]  # what each test is about
        case "session/load":
            return side.load_session(SESSION, CWD, **more)  # type: ignore[arg-type]
        case _:
            return side.resume_session(SESSION, CWD, **more)  # type: ignore[arg-type]


async def assert_asked(
    side: ClientSide, peer: ScriptedPeer, method: str, key: str, value: JSON, **more: object
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(entered, set_up(side, method, **more))
        request = await peer.receive()
        assert request["method"] == method
        assert isinstance(request["params"], dict)
        assert request["params"][key] == value
        nursery.cancel_scope.cancel()


@pytest.mark.spec("SETUP-31", "SETUP-34", "SETUP-38", "SETUP-39", "SETUP-40")
@pytest.mark.field_note(51)
@both_ways_shut
@pytest.mark.parametrize("method", SETUPS)
@pytest.mark.parametrize("kind", MCP_SERVER_GATES, ids=lambda kind: kind.__name__)
async def test_a_client_names_no_server_of_a_transport_that_the_agent_did_not_announce(
    kind: type[object], method: str, closing: Closing
) -> None:
    server, gate = SERVERS[kind], MCP_SERVER_GATES[kind]
    shut = all_but(gate, closing)
    async with open_scripted_agent(make_client(), on_report=ignore, agent_capabilities=shut) as (side, peer):
        with trio.fail_after(5), pytest.raises(CapabilityError) as refused:
            await entered(set_up(side, method, mcp_servers=[server]))
        assert refused.value.capability == gate.path
        assert await peer.receive_all() == []
    async with open_scripted_agent(make_client(), agent_capabilities=AGENT_ANNOUNCES) as (side, peer):
        servers = [unstructure(McpServer, server)]
        await assert_asked(side, peer, method, "mcpServers", servers, mcp_servers=[server])


@pytest.mark.spec("SETUP-31", "SETUP-34", "SETUP-38", "SETUP-39", "SETUP-40")
@pytest.mark.field_note(51)
@pytest.mark.parametrize("method", SETUPS)
@pytest.mark.parametrize("kind", MCP_SERVER_GATES, ids=lambda kind: kind.__name__)
async def test_an_agent_connects_to_no_server_of_a_transport_that_it_did_not_announce(
    kind: type[object], method: str
) -> None:
    gate, server = MCP_SERVER_GATES[kind], unstructure(McpServer, SERVERS[kind])
    shut = structure(AgentCapabilities, all_but(gate)).mcp_capabilities
    served = Agent(name="a", version="1", prompt=parrot, store=MemoryStore(), mcp_capabilities=shut)
    async with client_of(served) as peer:
        answer = await peer.call(1, method, {**SETUPS[method], "mcpServers": [server]})
        assert code_of(answer) == ErrorCode.INVALID_PARAMS
        assert gate.path in str(answer["error"])


@pytest.mark.spec("SETUP-60")
@both_ways_shut
@pytest.mark.parametrize("method", SETUPS)
async def test_a_client_names_no_more_directories_when_the_agent_takes_none(method: str, closing: Closing) -> None:
    shut, more = all_but(ADDITIONAL_DIRECTORIES_GATE, closing), ["/more"]
    async with open_scripted_agent(make_client(), agent_capabilities=shut) as (side, peer):
        with trio.fail_after(5), pytest.raises(CapabilityError) as refused:
            await entered(set_up(side, method, additional_directories=more))
        assert refused.value.capability == ADDITIONAL_DIRECTORIES_GATE.path
        assert await peer.receive_all() == []
    async with open_scripted_agent(make_client(), agent_capabilities=AGENT_ANNOUNCES) as (side, peer):
        await assert_asked(side, peer, method, "additionalDirectories", ["/more"], additional_directories=more)


@pytest.mark.spec("SETUP-60")
@pytest.mark.parametrize("method", SETUPS)
async def test_an_agent_that_takes_no_more_directories_refuses_them_and_drops_none(method: str) -> None:
    served = Agent(name="a", version="1", prompt=parrot, store=MemoryStore(), additional_directories=False)
    async with client_of(served) as peer:
        params = {**SETUPS[method], "additionalDirectories": ["/more"]}
        answer = await peer.call(1, method, params)
        assert code_of(answer) == ErrorCode.INVALID_PARAMS
        assert ADDITIONAL_DIRECTORIES_GATE.path in str(answer["error"])
        answer = await peer.call(2, method, {**params, "additionalDirectories": []})
        assert "sessionId" in str(answer)  # the session is there, or is not, which is another matter


# ----------------------------------------------------------------------------------------------------- updates

UPDATES: Final[Mapping[type[object], SessionUpdate]] = {
    schema.Notice: schema.Notice(severity=schema.NoticeSeverity.INFO, title="Low"),
    schema.CompactionUpdate: schema.CompactionUpdate(
        compaction_id=schema.CompactionId("c"), status=schema.CompactionStatus.IN_PROGRESS
    ),
    schema.CompactionSummaryChunk: schema.CompactionSummaryChunk(
        compaction_id=schema.CompactionId("c"), content=schema.TextContent(text="In short")
    ),
}
WITHOUT: Final[Mapping[Gate, Mapping[str, bool]]] = {
    Gate("clientCapabilities.session.notices"): {"notices": False},
    Gate("clientCapabilities.session.compaction"): {"compaction": False},
}
"""How a client is told not to announce what opens the gate of an update."""


@pytest.mark.spec("NOTE-01", "COMP-01")
@both_ways_shut
@pytest.mark.parametrize("kind", SESSION_UPDATE_GATES, ids=lambda kind: kind.__name__)
async def test_an_agent_sends_no_update_that_the_client_did_not_announce(kind: type[object], closing: Closing) -> None:
    update, gate = UPDATES[kind], SESSION_UPDATE_GATES[kind]
    assert await attempt(lambda turn: turn.send(update), all_but(gate, closing)) == (END_OF_TURN, gate.path)

    async def send_all(turn: PromptTurn) -> None:  # for a summary has a compaction before it
        for known in UPDATES.values():
            await turn.send(known)

    (*messages, _), lacking = await attempt_all(send_all, CLIENT_ANNOUNCES)
    sent: list[JSON] = [*map(update_of, messages)]
    assert (unstructure(SessionUpdate, update) in sent, lacking) == (True, None)


@pytest.mark.spec("NOTE-01", "COMP-01", "GEN-08")
@pytest.mark.parametrize("kind", SESSION_UPDATE_GATES, ids=lambda kind: kind.__name__)
async def test_a_client_ignores_an_update_that_it_did_not_announce_and_answers_nothing(kind: type[object]) -> None:
    params: JSONObject = {"sessionId": "s", "update": unstructure(SessionUpdate, UPDATES[kind])}
    for less, kinds in ((WITHOUT[SESSION_UPDATE_GATES[kind]], [ReportKind.IGNORED]), ({}, [])):
        reports: list[Report] = []
        seen: list[SessionUpdate] = []
        client = make_client(on_update=lambda session, update, seen=seen: seen.append(update), **less)
        assert SESSION_UPDATE_GATES[kind].is_open(client.capabilities()) is not bool(less)
        async with agent_of(client, reports=reports) as (_, _session, peer):
            await peer.notify("session/update", params)
            assert await peer.receive_all() == []
            assert [report.kind for report in reports] == kinds
            assert seen == ([] if less else [UPDATES[kind]])


# ----------------------------------------------------------------------------------------------- config options

WEB, LEVEL = SessionConfigId("web"), SessionConfigId("level")
OPTIONS: Final[list[SessionConfigOption]] = [
    SessionConfigBoolean(id=WEB, name="Search the web", current_value=False),
    SessionConfigSelect(
        id=LEVEL,
        name="Level",
        current_value=SessionConfigValueId("low"),
        options=[
            SessionConfigSelectOption(value=SessionConfigValueId(value), name=value.title())
            for value in ("low", "high")
        ],
    ),
]


def told_of(message: JSONObject) -> list[JSON]:
    """The ids of the config options in an answer or an update."""
    payload = update_of(message) if "method" in message else result_of(message)
    options = payload["configOptions"]
    assert isinstance(options, list)
    return [option["id"] for option in options if isinstance(option, dict)]


@pytest.mark.spec("CONF-06", "CONF-07", "CONF-19", "CONF-20", "SETUP-50")
@pytest.mark.parametrize("closing", [leave_out, say_null, None])
async def test_no_payload_tells_of_a_switch_that_the_client_did_not_announce(closing: Closing | None) -> None:
    async def raise_level(turn: PromptTurn) -> StopReason:
        await turn.session.set_config_option(LEVEL, "high")
        return StopReason.END_TURN

    served = Agent(name="a", version="1", prompt=raise_level, store=MemoryStore(), config_options=OPTIONS)
    async with client_of(served, capabilities=CLIENT_ANNOUNCES) as peer:  # it sets the switch, and that is recorded
        session_id = await new_session(peer)
        on: JSONObject = {"sessionId": session_id, "configId": WEB, "type": "boolean", "value": True}
        assert told_of(await peer.call(1, "session/set_config_option", on)) == [WEB, LEVEL]

    announced = CLIENT_ANNOUNCES if closing is None else all_but(BOOLEAN_CONFIG_OPTION_GATE, closing)
    expected = [WEB, LEVEL] if closing is None else [LEVEL]
    async with client_of(served, capabilities=announced) as peer:
        here: JSONObject = {"sessionId": session_id, "cwd": CWD, "mcpServers": []}
        replayed, loaded = [await peer.call(1, "session/load", here), await peer.receive()]
        resumed = await peer.call(2, "session/resume", here)
        made = await peer.call(3, "session/new", {"cwd": CWD, "mcpServers": []})
        low: JSONObject = {"sessionId": session_id, "configId": LEVEL, "value": "low"}
        answered = await peer.call(4, "session/set_config_option", low)
        changed = await peer.call(5, "session/prompt", prompt(session_id, "go"))
        for message in (replayed, loaded, resumed, made, answered, changed):
            assert told_of(message) == expected, message


@pytest.mark.spec("CONF-07", "CONF-18")
async def test_a_switch_that_the_client_was_not_told_of_cannot_be_set() -> None:
    served = Agent(name="a", version="1", prompt=parrot, config_options=OPTIONS)
    for announced, refused in ((all_but(BOOLEAN_CONFIG_OPTION_GATE), True), (CLIENT_ANNOUNCES, False)):
        async with client_of(served, capabilities=announced) as peer:
            session_id = await new_session(peer)
            params: JSONObject = {"sessionId": session_id, "configId": WEB, "type": "boolean", "value": True}
            answer = await peer.call(1, "session/set_config_option", params)
            assert ("error" in answer) is refused
            if refused:
                assert code_of(answer) == ErrorCode.INVALID_PARAMS


# -------------------------------------------------------------------------------------------- modes of elicitation

QUESTIONS: Final[Mapping[type[object], Callable[[PromptTurn], Awaitable[object]]]] = {
    ElicitationFormRequest: lambda turn: turn.client.elicit_form("Well?", ElicitationSchema()),
    ElicitationUrlRequest: lambda turn: entered(turn.client.elicit_url("Well?", "https://example.com/")),
}
MODES: Final[Mapping[type[object], JSONObject]] = {
    ElicitationFormRequest: {"mode": "form", "requestedSchema": {"type": "object", "properties": {}}},
    ElicitationUrlRequest: {"mode": "url", "url": "https://example.com/", "elicitationId": "e"},
}
ASKS: Final[Mapping[type[object], str]] = {ElicitationFormRequest: "elicit_form", ElicitationUrlRequest: "elicit_url"}


@pytest.mark.spec("ELIC-05", "ELIC-06", "ELIC-07", "ELIC-08", "ELIC-17")
@both_ways_shut
@pytest.mark.parametrize("mode", ELICITATION_GATES, ids=lambda mode: mode.__name__)
async def test_an_agent_asks_in_no_mode_that_the_client_did_not_announce_nor_in_another(
    mode: type[object], closing: Closing
) -> None:
    gate = ELICITATION_GATES[mode]
    assert await attempt(QUESTIONS[mode], all_but(gate, closing)) == (END_OF_TURN, gate.path)
    empty: JSONObject = {"elicitation": {}}
    assert await attempt(QUESTIONS[mode], empty) == (END_OF_TURN, gate.path)
    message, lacking = await attempt(QUESTIONS[mode], CLIENT_ANNOUNCES)
    assert isinstance(message["params"], dict)
    assert (message["method"], message["params"]["mode"], lacking) == (
        "elicitation/create",
        MODES[mode]["mode"],
        None,
    )


@pytest.mark.spec("ELIC-05", "ELIC-30")
@pytest.mark.parametrize("mode", ELICITATION_GATES, ids=lambda mode: mode.__name__)
async def test_a_client_is_asked_in_no_mode_that_it_did_not_announce(mode: type[object]) -> None:
    async def never(*args: object) -> ElicitationAnswer:
        pytest.fail("the question was shown")

    params: JSONObject = {"sessionId": "s", "message": "Well?", **MODES[mode]}
    others = {ask: never for other, ask in ASKS.items() if other is not mode}
    async with agent_of(make_client(**others)) as (_, _session, peer):
        answer = await peer.call(1, "elicitation/create", params)
        assert code_of(answer) == ErrorCode.INVALID_PARAMS
        assert "mode" in str(answer["error"])
    async with agent_of(make_client(**{ASKS[mode]: decline})) as (_, _session, peer):
        assert result_of(await peer.call(1, "elicitation/create", params)) == {"action": "decline"}


# ---------------------------------------------------------------------------------------------- every gate is tried


def test_every_gated_method_is_tried() -> None:
    assert {*CALLS_TO_AN_AGENT} == {call.name for call in gated(AGENT)}
    assert {*CALLS_TO_A_CLIENT} == {call.name for call in gated(CLIENT)}


def test_every_gate_of_values_is_tried() -> None:
    tables = {
        name
        for name, value in vars(methods).items()
        if not name.startswith("_")
        and (isinstance(value, Gate) or (isinstance(value, Mapping) and Gate in {*map(type, value.values())}))
    }
    assert tables == {
        "ADDITIONAL_DIRECTORIES_GATE",
        "BOOLEAN_CONFIG_OPTION_GATE",
        "ELICITATION_GATES",
        "MCP_SERVER_GATES",
        "PROMPT_CONTENT_GATES",
        "SESSION_UPDATE_GATES",
    }
    assert BLOCKS.keys() == PROMPT_CONTENT_GATES.keys()
    assert SERVERS.keys() == MCP_SERVER_GATES.keys()
    assert UPDATES.keys() == SESSION_UPDATE_GATES.keys()
    assert WITHOUT.keys() == {*SESSION_UPDATE_GATES.values()}
    assert QUESTIONS.keys() == MODES.keys() == ASKS.keys() == ELICITATION_GATES.keys()


def test_everything_that_opens_a_gate_is_announced_here() -> None:
    announced = {
        "agentCapabilities": structure(AgentCapabilities, AGENT_ANNOUNCES),
        "clientCapabilities": structure(ClientCapabilities, CLIENT_ANNOUNCES),
    }
    gates = [gate_of(call) for role in (AGENT, CLIENT) for call in gated(role)]
    for table in (PROMPT_CONTENT_GATES, MCP_SERVER_GATES, SESSION_UPDATE_GATES, ELICITATION_GATES):
        gates += table.values()
    for gate in (*gates, ADDITIONAL_DIRECTORIES_GATE, BOOLEAN_CONFIG_OPTION_GATE):
        side = gate.path.partition(".")[0]
        assert gate.is_open(announced[side])  # type: ignore[arg-type]  # of one side or of the other
