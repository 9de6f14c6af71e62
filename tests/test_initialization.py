"""Initialization: who is who, one version for both, and capabilities in any combination.

https://agentclientprotocol.com/protocol/initialization
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import attrs
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from acp_ref._jsonrpc import JSON, JSONObject
from acp_ref.agent import Agent, negotiate
from acp_ref.agent_session import AgentSession
from acp_ref.client import open_agent, open_agent_process
from acp_ref.client_side import ClientSide
from acp_ref.content import audio, image, text_resource
from acp_ref.errors import (
    CapabilityError,
    ErrorCode,
    LocalProtocolError,
    RemoteProtocolError,
    RequestError,
    UnsupportedProtocolVersion,
)
from acp_ref.file_system import FileSystem
from acp_ref.methods import LOGOUT
from acp_ref.prompt_turn import PromptTurn
from acp_ref.reports import Report, ReportKind
from acp_ref.schema import (
    CompactionId,
    CompactionStatus,
    CompactionUpdate,
    ContentBlock,
    ElicitationSchema,
    Implementation,
    LogoutRequest,
    McpServerHttp,
    McpServerSse,
    Notice,
    NoticeSeverity,
    ProtocolVersion,
    SessionConfigBoolean,
    SessionConfigId,
    SessionConfigOption,
    SessionId,
    SessionMode,
    SessionModeId,
    SessionModeState,
    StopReason,
)
from acp_ref.testing import ScriptedPeer, open_scripted_agent, open_scripted_client
from acp_ref.transports import memory_transport_pair
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

PATIENCE: Final = 25.0
"""Seconds that a step with real processes may take on a loaded machine."""

MINIMAL: Final = Agent(name="parrot", version="1.2", title="Polly", prompt=parrot)


@asynccontextmanager
async def uninitialized_client(**more: object) -> AsyncGenerator[tuple[ClientSide, ScriptedPeer], None]:
    ours, theirs = memory_transport_pair()
    side = ClientSide(make_client(**more), ours, on_report=lambda report: None)
    async with trio.open_nursery() as nursery:
        await nursery.start(side.connection.run)
        yield side, ScriptedPeer(theirs)
        await side.connection.aclose()


async def answer_initialize(peer: ScriptedPeer, result: JSON) -> JSONObject:
    """Answer a client's initialize; what it said of itself."""
    request = await peer.receive()
    assert request["method"] == "initialize"
    await peer.answer(request, result)
    params = request["params"]
    assert isinstance(params, dict)
    return params


# ------------------------------------------------------------------------------------------------------ who is who


@pytest.mark.spec("INIT-02", "INIT-03", "INIT-08", "INIT-16", "INIT-27")
async def test_a_client_tells_its_newest_version_its_name_and_every_capability() -> None:
    async with uninitialized_client(title="Sketch") as (side, peer), trio.open_nursery() as nursery:
        nursery.start_soon(side.initialize)
        assert await answer_initialize(peer, {"protocolVersion": 1}) == {
            "protocolVersion": 1,
            "clientCapabilities": {
                "fs": {"readTextFile": False, "writeTextFile": False},
                "terminal": False,
                "session": {"compaction": {}, "configOptions": {"boolean": {}}, "notices": {}},
                "auth": {"terminal": False},
                "elicitation": {},
            },
            "clientInfo": {"name": "c", "title": "Sketch", "version": "1"},
        }


@pytest.mark.spec("INIT-04", "INIT-05", "INIT-19", "INIT-27")
async def test_an_agent_tells_the_version_its_name_and_every_capability() -> None:
    async with open_scripted_client(MINIMAL) as peer:
        assert result_of(await peer.call(0, "initialize", {"protocolVersion": 1})) == {
            "protocolVersion": 1,
            "agentCapabilities": {
                "loadSession": False,
                "promptCapabilities": {"image": False, "audio": False, "embeddedContext": False},
                "mcpCapabilities": {"http": True, "sse": True},
                "sessionCapabilities": {"close": {}, "additionalDirectories": {}},
                "auth": {},
            },
            "authMethods": [],
            "agentInfo": {"name": "parrot", "title": "Polly", "version": "1.2"},
        }


@pytest.mark.spec("INIT-28")
async def test_people_see_the_title_and_where_there_is_none_the_name() -> None:
    assert Implementation(name="parrot", title="Polly", version="1").display_name == "Polly"
    assert Implementation(name="parrot", title="", version="1").display_name == "parrot"
    async with uninitialized_client() as (side, peer), trio.open_nursery() as nursery:
        nursery.start_soon(side.initialize)
        await answer_initialize(peer, {"protocolVersion": 1, "agentInfo": {"name": "parrot", "version": "1"}})
        await trio.testing.wait_all_tasks_blocked()
        assert side.info is not None
        assert side.info.display_name == "parrot"


# ------------------------------------------------------------------------------------------------------ the version


@pytest.mark.spec("INIT-09", "INIT-10")
@given(
    requested=st.integers(0, 2**16 - 1),
    supported=st.sets(st.integers(0, 2**16 - 1), min_size=1).map(sorted),
    known=st.booleans(),
)
def test_the_answer_is_the_version_asked_for_or_else_the_latest_one(
    requested: int, supported: Sequence[int], known: bool
) -> None:
    if known:
        requested = supported[0]
    answer = negotiate(ProtocolVersion(requested), [ProtocolVersion(version) for version in supported])
    assert answer == (requested if requested in supported else max(supported))


@pytest.mark.spec("INIT-04", "INIT-07", "INIT-09", "INIT-10")
@pytest.mark.field_note(42)
@pytest.mark.parametrize("requested", [0, 1, 2, 2**16 - 1])
async def test_an_agent_answers_any_version_with_the_one_it_speaks_and_goes_on_in_that(requested: int) -> None:
    async with open_scripted_client(MINIMAL) as peer:
        future: JSONObject = {"protocolVersion": requested, "capabilities": {"session": {}}, "info": {"name": "x"}}
        assert result_of(await peer.call(0, "initialize", future))["protocolVersion"] == 1
        assert text_of((await say(peer, await new_session(peer), "hello"))[0]) == "hello"


@pytest.mark.spec("INIT-06")
@pytest.mark.parametrize("version", ["1", "1.0", 1.5, -1, 2**16, None, True, {}])
async def test_what_is_no_version_is_refused_and_may_be_tried_again(version: JSON) -> None:
    async with open_scripted_client(MINIMAL) as peer:
        refused = await peer.call(0, "initialize", {"protocolVersion": version})
        assert code_of(refused) == ErrorCode.INVALID_PARAMS
        assert "$.protocolVersion" in str(refused["error"])
        assert result_of(await peer.call(1, "initialize", {"protocolVersion": 1}))["protocolVersion"] == 1


@pytest.mark.spec("INIT-07", "INIT-11")
@pytest.mark.field_note(42)
@pytest.mark.parametrize("version", [0, 2, 2**16 - 1])
async def test_a_client_that_cannot_speak_the_answered_version_says_so_and_closes(version: int) -> None:
    ours, theirs = memory_transport_pair()
    peer = ScriptedPeer(theirs)

    async def connect() -> None:
        with pytest.raises(UnsupportedProtocolVersion, match=f"speaks protocol version {version},") as raised:
            async with open_agent(ours, make_client()):
                raise AssertionError("nothing may be done with such an agent")
        assert raised.value.version == version

    async with trio.open_nursery() as nursery:
        nursery.start_soon(connect)
        await answer_initialize(peer, {"protocolVersion": version, "agentCapabilities": 5, "authMethods": {}})
        with pytest.raises(trio.EndOfChannel):  # and not a session/new
            await peer.receive()


@pytest.mark.spec("INIT-11")
@pytest.mark.field_note(42)
async def test_an_agent_process_of_another_version_is_ended() -> None:
    program = (
        "import sys; sys.stdin.readline();"
        """print('{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":2}}', flush=True); sys.stdin.read()"""
    )
    with trio.fail_after(PATIENCE), pytest.raises(UnsupportedProtocolVersion):
        async with open_agent_process([sys.executable, "-c", program], make_client()):
            pass


# --------------------------------------------------------------------------------------------------- first, and once


@pytest.mark.spec("INIT-01", "INIT-29")
@pytest.mark.field_note(41)
async def test_an_agent_takes_nothing_before_initialize_and_only_one_of_it() -> None:
    seen: list[bool] = []

    async def look(turn: PromptTurn) -> StopReason:
        seen.append(turn.client.can_read_text_files)
        return StopReason.END_TURN

    async with open_scripted_client(attrs.evolve(MINIMAL, prompt=look), on_report=lambda report: None) as peer:
        setup: JSONObject = {"cwd": CWD, "mcpServers": []}
        await peer.notify("session/cancel", {"sessionId": "s"})  # is ignored without a word
        assert code_of(await peer.call(1, "session/new", setup)) == ErrorCode.INVALID_REQUEST
        assert code_of(await peer.call(2, "initialize", {"protocolVersion": "x"})) == ErrorCode.INVALID_PARAMS
        reading: JSONObject = {"fs": {"readTextFile": True}}
        first = await peer.call(3, "initialize", {"protocolVersion": 1, "clientCapabilities": reading})
        assert result_of(first)["protocolVersion"] == 1
        assert code_of(await peer.call(4, "initialize", {"protocolVersion": 1})) == ErrorCode.INVALID_REQUEST
        await say(peer, await new_session(peer), "what can it do?")
        assert seen == [True]


@pytest.mark.spec("INIT-01", "INIT-29")
@pytest.mark.field_note(41)
async def test_a_client_sends_nothing_before_initialize_and_only_one_of_it() -> None:
    async with uninitialized_client() as (side, peer):
        with pytest.raises(LocalProtocolError):
            await open_and_close(side)
        with pytest.raises(LocalProtocolError):
            await side.logout()
        with pytest.raises(LocalProtocolError):
            await side.delete_session(SessionId("s"))
        assert await peer.receive_all() == []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(side.initialize)
            await answer_initialize(peer, {"protocolVersion": 1})
        with pytest.raises(LocalProtocolError):
            await side.initialize()
        assert await peer.receive_all() == []


async def open_and_close(side: ClientSide) -> None:
    async with side.new_session(CWD):
        pass


@pytest.mark.field_note(39)
async def test_initialize_is_answered_while_what_sessions_need_is_not_there_yet() -> None:
    ready = trio.Event()

    @asynccontextmanager
    async def open_session(session: AgentSession) -> AsyncGenerator[None, None]:
        await ready.wait()
        yield

    async with open_scripted_client(attrs.evolve(MINIMAL, open_session=open_session)) as peer:
        assert "agentInfo" in result_of(await peer.call(0, "initialize", {"protocolVersion": 1}))
        await peer.request(1, "session/new", {"cwd": CWD, "mcpServers": []})
        assert await peer.receive_all() == []
        ready.set()
        assert "sessionId" in result_of(await peer.receive())


@pytest.mark.field_note(39)
async def test_a_process_with_a_heavy_start_answers_initialize_at_once() -> None:
    program = str(Path(__file__).parent / "peers" / "slow_agent.py")
    with trio.fail_after(PATIENCE):  # its own start takes 30 s; this is some 0.4 s on an idle machine
        async with open_agent_process([sys.executable, program], make_client()) as agent:
            assert agent.info is not None
            assert agent.info.name == "slow"


# ----------------------------------------------------------------------------------------------------- capabilities


@pytest.mark.spec("INIT-17")
def test_reading_and_writing_files_are_two_switches() -> None:
    for client, switches in (
        (make_client(), (False, False)),
        (make_client(read_only=True), (False, False)),
        (make_client(file_system=FileSystem()), (True, True)),
        (make_client(file_system=FileSystem(), read_only=True), (True, False)),
    ):
        fs = client.capabilities().fs
        assert (fs.read_text_file, fs.write_text_file) == switches


@pytest.mark.spec("INIT-17", "INIT-18", "FS-02", "TERM-02")
@pytest.mark.field_note(45)
async def test_a_client_handles_what_it_announced_and_refuses_the_rest_at_once() -> None:
    terminal = ("terminal/create", "terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release")
    everything = {"fs/read_text_file", "fs/write_text_file", *terminal, "elicitation/create"}
    for client, handled in (
        (make_client(), set[str]()),
        (make_client(file_system=FileSystem(), read_only=True), {"fs/read_text_file"}),
        (make_client(file_system=FileSystem()), {"fs/read_text_file", "fs/write_text_file"}),
        (make_client(terminals=True), {*terminal}),
    ):
        async with open_scripted_agent(client) as (_, peer):
            for method in everything:
                refused = await peer.call(1, method, {})  # what is handled misses its params
                expected = ErrorCode.INVALID_PARAMS if method in handled else ErrorCode.METHOD_NOT_FOUND
                assert code_of(refused) == expected, method


@pytest.mark.spec("INIT-23", "GEN-03")
async def test_the_least_of_agents_opens_sessions_answers_prompts_and_can_be_cancelled() -> None:
    async def answer(turn: PromptTurn) -> StopReason:
        await turn.send_text("wait")
        await trio.sleep_forever()
        return StopReason.END_TURN

    async with client_of(Agent(name="a", version="1", prompt=answer)) as peer:
        session_id = await new_session(peer)
        await peer.request(1, "session/prompt", prompt(session_id, "hi"))
        assert text_of(await peer.receive()) == "wait"
        await peer.notify("session/cancel", {"sessionId": session_id})
        assert result_of(await peer.receive()) == {"stopReason": "cancelled"}


Try = Callable[[PromptTurn], Awaitable[object]]


async def create_terminal(turn: PromptTurn) -> None:
    async with turn.client.create_terminal("/bin/true"):
        pass


async def elicit_url(turn: PromptTurn) -> None:
    async with turn.client.elicit_url("Look", "https://example.org/"):
        pass


def notice(turn: PromptTurn) -> Awaitable[object]:
    return turn.send(Notice(severity=NoticeSeverity.INFO, title="x"))


def compaction(turn: PromptTurn) -> Awaitable[object]:
    return turn.send(CompactionUpdate(compaction_id=CompactionId("c"), status=CompactionStatus.COMPLETED))


CLIENT_FLAGS: Final[Mapping[str, Try]] = {
    "fs.readTextFile": lambda turn: turn.client.read_text_file("/a"),
    "fs.writeTextFile": lambda turn: turn.client.write_text_file("/a", "x"),
    "terminal": create_terminal,
    "elicitation.form": lambda turn: turn.client.elicit_form("Who?", ElicitationSchema(properties={})),
    "elicitation.url": elicit_url,
    "session.notices": notice,
    "session.compaction": compaction,
}
"""What a client may announce, and what an agent may do only then."""

OBJECTS: Final = ("elicitation.", "session.", "sessionCapabilities.", "auth.logout")
"""The capabilities that are objects where there is something, and nothing where there is not (INIT-25)."""


def announcing(flags: Mapping[str, bool]) -> JSONObject:
    """Capabilities in wire form."""
    capabilities: JSONObject = {}
    for path, on in flags.items():
        *way, name = path.split(".")
        target = capabilities
        for key in way:
            inner = target.setdefault(key, {})
            assert isinstance(inner, dict)
            target = inner
        if path.startswith(OBJECTS):
            if on:
                target[name] = {}
        else:
            target[name] = on
    return capabilities


def pairwise(names: Sequence[str]) -> Sequence[Mapping[str, bool]]:
    """Sixteen rows in which any two of at most fifteen flags take all four pairs of values: an orthogonal array."""
    assert len(names) <= 15
    return [{name: (row & column).bit_count() % 2 == 1 for column, name in enumerate(names, 1)} for row in range(16)]


def test_any_two_flags_meet_in_all_four_ways() -> None:
    rows = pairwise([str(number) for number in range(15)])
    for one in rows[0]:
        for other in rows[0]:
            assert one == other or len({(row[one], row[other]) for row in rows}) == 4


@pytest.mark.spec("INIT-13", "INIT-14", "INIT-25")
@pytest.mark.field_note(45)
@pytest.mark.parametrize("flags", pairwise([*CLIENT_FLAGS]))
async def test_an_agent_copes_with_any_combination_of_what_a_client_can_do(flags: Mapping[str, bool]) -> None:
    refused: dict[str, str] = {}

    async def try_all(turn: PromptTurn) -> StopReason:
        for flag, attempt in CLIENT_FLAGS.items():
            try:
                await attempt(turn)
            except CapabilityError as exc:
                refused[flag] = exc.capability
            except RequestError:
                pass  # the client of this test does nothing it is asked
        return StopReason.END_TURN

    async with client_of(attrs.evolve(MINIMAL, prompt=try_all), capabilities=announcing(flags)) as peer:
        session_id = await new_session(peer)
        await peer.request("say", "session/prompt", prompt(session_id, "try"))
        asked: list[str] = []
        while "method" in (message := await peer.receive()):
            asked.append(str(message["method"]))
            if "id" in message:
                error: JSONObject = {"code": -32603, "message": "No"}
                await peer.send({"jsonrpc": "2.0", "id": message["id"], "error": error})
        assert result_of(message) == {"stopReason": "end_turn"}
        for flag, on in flags.items():
            assert (flag in refused) != on
            assert on or refused[flag] == f"clientCapabilities.{flag}"
        assert ("fs/read_text_file" in asked) == flags["fs.readTextFile"]
        assert ("fs/write_text_file" in asked) == flags["fs.writeTextFile"]
        assert ("terminal/create" in asked) == flags["terminal"]
        assert asked.count("elicitation/create") == flags["elicitation.form"] + flags["elicitation.url"]
        assert asked.count("session/update") == flags["session.notices"] + flags["session.compaction"]


Use = Callable[[ClientSide], Awaitable[object]]


async def new_with(side: ClientSide, server: McpServerHttp | McpServerSse) -> None:
    async with side.new_session(CWD, mcp_servers=[server]):
        pass


async def load(side: ClientSide) -> None:
    async with side.load_session(SessionId("old"), CWD):
        pass


async def resume(side: ClientSide) -> None:
    async with side.resume_session(SessionId("older"), CWD):
        pass


async def with_directories(side: ClientSide) -> None:
    async with side.new_session(CWD, additional_directories=["/other"]):
        pass


async def list_all(side: ClientSide) -> None:
    async for _ in side.list_sessions():
        pass


async def record_refusal(attempt: Use, side: ClientSide, refused: list[str]) -> None:
    try:
        await attempt(side)
    except CapabilityError as exc:
        refused.append(exc.capability)


AGENT_FLAGS: Final[Mapping[str, Use]] = {
    "loadSession": load,
    "sessionCapabilities.resume": resume,
    "sessionCapabilities.list": list_all,
    "sessionCapabilities.delete": lambda side: side.delete_session(SessionId("old")),
    "sessionCapabilities.additionalDirectories": with_directories,
    "mcpCapabilities.http": lambda side: new_with(side, McpServerHttp(name="h", url="http://x/", headers=[])),
    "mcpCapabilities.sse": lambda side: new_with(side, McpServerSse(name="s", url="http://x/", headers=[])),
    "auth.logout": lambda side: side.connection.request(LOGOUT, LogoutRequest()),
}
"""What an agent may announce, and what a client may do only then."""

BLOCKS: Final[Mapping[str, ContentBlock]] = {
    "promptCapabilities.image": image(b"x", "image/png"),
    "promptCapabilities.audio": audio(b"x", "audio/wav"),
    "promptCapabilities.embeddedContext": text_resource("file:///a", "x"),
}


@pytest.mark.spec("INIT-13", "INIT-14", "INIT-24", "INIT-25", "INIT-26")
@pytest.mark.parametrize("flags", pairwise([*AGENT_FLAGS, *BLOCKS]))
async def test_a_client_copes_with_any_combination_of_what_an_agent_can_do(flags: Mapping[str, bool]) -> None:
    async with agent_of(make_client(), capabilities=announcing(flags)) as (side, session, peer):
        for flag, block in BLOCKS.items():
            assert session.accepts(block) == flags[flag]
        for flag, attempt in AGENT_FLAGS.items():
            refused: list[str] = []
            async with trio.open_nursery() as nursery:
                nursery.start_soon(record_refusal, attempt, side, refused)
                asked = await peer.receive_all()
                assert len(asked) == flags[flag]
                assert refused == ([] if flags[flag] else [f"agentCapabilities.{flag}"])
                nursery.cancel_scope.cancel()  # the agent of this test answers nothing
            await peer.receive_all()  # that it was cancelled
        async with session.prompt("hi") as turn:
            await peer.answer(await peer.receive(), {"stopReason": "end_turn"})
            assert await turn.wait() is StopReason.END_TURN


@pytest.mark.spec("INIT-12", "INIT-14", "INIT-25")
@pytest.mark.field_note(44)
@pytest.mark.parametrize(
    ("capabilities", "path"),
    [
        (None, None),
        ({}, None),
        ({"fs": None, "terminal": None, "session": None}, None),
        ({"fs": {"readTextFile": "yes"}}, "$.params.clientCapabilities.fs.readTextFile"),
        ({"fs": True}, "$.params.clientCapabilities.fs"),
        ({"terminal": 1}, "$.params.clientCapabilities.terminal"),
        ({"session": {"notices": True}}, "$.params.clientCapabilities.session.notices"),
        ({"session": []}, "$.params.clientCapabilities.session"),
        ([], "$.params.clientCapabilities"),
    ],
)
async def test_a_capability_that_is_missing_or_malformed_is_not_there(capabilities: JSON, path: str | None) -> None:
    async def ask(turn: PromptTurn) -> StopReason:
        offered = turn.client.capabilities
        assert not turn.client.can_read_text_files
        assert not turn.client.can_run_terminals
        assert offered.session is None or offered.session.notices is None
        return StopReason.END_TURN

    reports: list[Report] = []
    hello: JSONObject = {"protocolVersion": 1, "clientCapabilities": capabilities}
    async with open_scripted_client(attrs.evolve(MINIMAL, prompt=ask), on_report=reports.append) as peer:
        result_of(await peer.call(0, "initialize", hello))
        assert result_of((await say(peer, await new_session(peer), "hi"))[-1]) == {"stopReason": "end_turn"}
    expected = [] if path is None else [(ReportKind.SALVAGED, "initialize", path)]
    assert [(report.kind, report.method, report.path) for report in reports] == expected


@pytest.mark.spec("INIT-14")
@pytest.mark.field_note(44)
async def test_what_an_agent_announces_badly_is_not_there_and_reported() -> None:
    reports: list[Report] = []
    capabilities: JSONObject = {"loadSession": "true", "sessionCapabilities": {"list": True, "close": 0}}
    async with agent_of(make_client(), capabilities=capabilities, reports=reports) as (side, _, peer):
        with pytest.raises(CapabilityError):
            await load(side)
        with pytest.raises(CapabilityError):
            await list_all(side)
        assert await peer.receive_all() == []
    assert sorted(str(report.path) for report in reports) == [
        "$.result.agentCapabilities.loadSession",
        "$.result.agentCapabilities.sessionCapabilities.close",
        "$.result.agentCapabilities.sessionCapabilities.list",
    ]


@pytest.mark.spec("INIT-15", "INIT-30", "EXT-09", "EXT-11")
@pytest.mark.field_note(44)
async def test_capabilities_that_are_not_known_here_are_kept_as_they_came() -> None:
    seen: list[JSON] = []

    async def look(turn: PromptTurn) -> StopReason:
        seen.extend([turn.client.raw_capabilities, turn.client.capabilities.meta])
        return StopReason.END_TURN

    theirs: JSONObject = {
        "fs": {"readTextFile": True, "watch": {"x": 1}},
        "future": {"x": [1, None]},
        "_meta": {"example.org/ping": {"version": 2}},
    }
    async with client_of(attrs.evolve(MINIMAL, prompt=look), capabilities=theirs) as peer:
        await say(peer, await new_session(peer), "hi")
    assert seen == [theirs, theirs["_meta"]]
    async with agent_of(make_client(), capabilities=theirs) as (side, _, _):
        assert side.raw_capabilities == theirs
        assert side.capabilities.meta == theirs["_meta"]
        assert not side.capabilities.load_session


@pytest.mark.spec("INIT-30", "EXT-09", "EXT-11")
async def test_both_sides_announce_capabilities_of_their_own_in_meta() -> None:
    own: JSONObject = {"example.org/ping": {"version": 2}}
    async with open_scripted_client(attrs.evolve(MINIMAL, meta=own)) as peer:
        result = result_of(await peer.call(0, "initialize", {"protocolVersion": 1}))
        assert isinstance(capabilities := result["agentCapabilities"], dict)
        assert capabilities["_meta"] == own
    async with uninitialized_client(meta=own) as (side, peer), trio.open_nursery() as nursery:
        nursery.start_soon(side.initialize)
        sent = await answer_initialize(peer, {"protocolVersion": 1})
        assert isinstance(capabilities := sent["clientCapabilities"], dict)
        assert capabilities["_meta"] == own


@pytest.mark.spec("CONF-07")
async def test_the_author_is_told_once_when_a_client_is_not_told_of_options_that_are_on_or_off() -> None:
    option = SessionConfigBoolean(id=SessionConfigId("web"), name="Web", current_value=True)
    served = attrs.evolve(MINIMAL, config_options=[option])
    taking: JSONObject = {"session": {"configOptions": {"boolean": {}}}}
    for capabilities, told in ((taking, 0), ({}, 1)):
        reports: list[Report] = []
        async with client_of(served, capabilities=capabilities, reports=reports) as peer:
            for number in range(2):
                answer = result_of(await peer.call(number, "session/new", {"cwd": CWD, "mcpServers": []}))
                assert isinstance(options := answer["configOptions"], list)
                assert len(options) == 1 - told
        assert [report.kind for report in reports] == [ReportKind.WITHHELD] * told


# ---------------------------------------------------------------------------------------------------------- strict


async def test_in_strict_mode_what_the_schema_would_mend_is_refused_on_both_sides() -> None:
    async with open_scripted_client(MINIMAL, strict=True) as peer:
        bad: JSONObject = {"protocolVersion": 1, "clientCapabilities": {"terminal": 1}}
        refused = await peer.call(0, "initialize", bad)
        assert code_of(refused) == ErrorCode.INVALID_PARAMS
        assert "$.clientCapabilities.terminal: expected boolean" in str(refused["error"])
        result_of(await peer.call(1, "initialize", {"protocolVersion": 1}))
    ours, theirs = memory_transport_pair()
    peer = ScriptedPeer(theirs)

    async def connect() -> None:
        with pytest.raises(RemoteProtocolError, match=r"agentCapabilities\.loadSession"):
            async with open_agent(ours, make_client(), on_report=lambda report: None, strict=True):
                pass

    async with trio.open_nursery() as nursery:
        nursery.start_soon(connect)
        await answer_initialize(peer, {"protocolVersion": 1, "agentCapabilities": {"loadSession": 1}})


# ----------------------------------------------------------------------------------- what an agent cannot be made of


def test_an_agent_whose_modes_or_options_cannot_be_told_is_not_made() -> None:
    ask = SessionMode(id=SessionModeId("ask"), name="Ask")
    modes = SessionModeState(available_modes=[ask, ask], current_mode_id=ask.id)
    with pytest.raises(LocalProtocolError, match="same id"):
        attrs.evolve(MINIMAL, modes=modes)
    option = SessionConfigBoolean(id=SessionConfigId("web"), name="Web", current_value=True)
    options: list[SessionConfigOption] = [option, option]
    with pytest.raises(LocalProtocolError, match="'web' names another option already"):
        attrs.evolve(MINIMAL, config_options=options)
