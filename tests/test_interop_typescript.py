"""The official TypeScript SDK at the other end, as client and as agent, with real processes.

Its peers are programs of their own, in ``tests/peers``. Both hold every message that this library sends against the
SDK's zod schemas, and complain of what these would tolerate or drop, too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import trio

import acp_ref as acp
from acp_ref.elicitation import ElicitationAnswer, UrlFacts
from acp_ref.reports import Report
from acp_ref.schema import (
    AudioContent,
    AuthMethodId,
    AvailableCommandsUpdate,
    BlobResourceContents,
    CompactionSummaryChunk,
    CompactionUpdate,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    ElicitationAccept,
    ElicitationFormRequest,
    ElicitationUrlRequest,
    EmbeddedResource,
    ImageContent,
    Notice,
    SessionConfigId,
    SessionInfoUpdate,
    SessionModeId,
    TextResourceContents,
    ToolCallId,
    ToolCallStatus,
    UsageUpdate,
)
from tests.npm import example_agent, node, official_sdk

ROOT: Final = Path(__file__).parent.parent
PEERS: Final = ROOT / "tests" / "peers"
NASTY: Final = str(ROOT / "tests" / "mcp_fixtures" / "nasty.py")
MEBI: Final = 1024 * 1024

PATIENCE: Final = 60.0
"""Seconds for a conversation that takes a few: a machine may be busy."""


def environment() -> dict[str, str]:
    return {"NODE_MODULES": str(official_sdk())}


@pytest.fixture(autouse=True, scope="module")
def sdk() -> None:
    """Skip all of it where there is no such SDK, before anything is started."""
    node()
    official_sdk()


# ------------------------------------------------------------------------------------------------------- its schemas

FAULTY: Final[Sequence[acp.JSONObject]] = (
    {"method": "session/update", "params": {"sessionId": "s", "update": {"sessionUpdate": "plan"}}},
    {"method": "session/update", "params": {"sessionId": "s", "update": {"sessionUpdate": "usage_update", "used": 1}}},
    {"method": "session/cancel", "params": {"sessionId": "s", "reason": "none"}},
    {"method": "initialize", "params": {"protocolVersion": 1, "clientInfo": {"name": 1}}, "id": 1},
    {"method": "session/spork", "params": {}},
    {"id": 7, "result": {}},
)


def test_the_peers_see_what_breaks_the_schemas_and_what_the_sdk_drops() -> None:
    program = """
        const { checked } = await import(process.argv[1]);
        const faults = [];
        const readable = new ReadableStream({
            start(controller) {
                for (const message of JSON.parse(process.argv[2])) controller.enqueue(message);
                controller.close();
            },
        });
        for await (const message of checked({ readable, writable: new WritableStream() }, faults).readable);
        console.log(JSON.stringify(faults));
    """
    done = subprocess.run(
        [node(), "--input-type=module", "-e", program, str(PEERS / "ts_sdk.mjs"), json.dumps(FAULTY)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=os.environ | environment(),
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    plan, usage, cancel, initialize, spork, answer = json.loads(done.stdout)
    assert plan.startswith("session/update: $.update")
    assert usage.startswith("session/update: $.update")
    assert cancel == "session/cancel: $.reason is not read"
    assert initialize == "initialize: $.clientInfo is read as undefined"
    assert spork == "session/spork: there is no such method"
    assert answer == "there was no request 7"


# ------------------------------------------------------------------------------------------- the SDK as client of ours


def see(client: str, *arguments: str, agent: Sequence[str]) -> Mapping[str, Any]:
    """Run a client of the SDK with an agent of ours, and return what it saw."""
    done = subprocess.run(
        [node(), str(PEERS / client), *arguments, "--", *agent],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        cwd=ROOT,
        env=os.environ | environment(),
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")  # the SDK, and the agent, complain there
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def cwd(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def seen(cwd: str, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """What the SDK's client saw of the reference agent; one conversation for all tests."""
    server = {"name": "good", "command": sys.executable, "args": ["-I", "-S", NASTY, "good", "tag"], "env": []}
    sessions = str(tmp_path_factory.mktemp("sessions"))
    agent = [sys.executable, "-m", "acp_ref", "agent", "--sessions", sessions, "--mcp-timeout", f"{PATIENCE}"]
    return see("ts_client.mjs", cwd, json.dumps(server), agent=agent)


def kinds(updates: Iterable[Mapping[str, Any]]) -> list[str]:
    return [update["sessionUpdate"] for update in updates]


def statuses(updates: Iterable[Mapping[str, Any]]) -> list[str]:
    return [update["status"] for update in updates]


def text(updates: Iterable[Mapping[str, Any]]) -> str:
    """What the agent said."""
    said = [update["content"] for update in updates if update["sessionUpdate"] == "agent_message_chunk"]
    return "".join(content["text"] for content in said if content["type"] == "text")


def test_the_sdk_finds_no_fault_in_anything_it_was_sent(seen: Mapping[str, Any]) -> None:
    assert seen["faults"] == []
    assert {turn["stopReason"] for turn in seen["turns"].values()} == {"end_turn"}


@pytest.mark.spec("INIT-04", "INIT-05")
def test_the_sdk_initializes_and_opens_a_session(seen: Mapping[str, Any]) -> None:
    assert seen["initialize"]["protocolVersion"] == 1
    assert seen["initialize"]["agentInfo"]["name"] == "acp-ref"
    assert seen["new"]["modes"]["currentModeId"] == "ask"
    assert [option["id"] for option in seen["new"]["configOptions"]] == ["mode", "model", "think_aloud"]


def test_the_sdk_prompts(seen: Mapping[str, Any]) -> None:
    updates = seen["turns"]["hello \u2028 \U0001f99c"]["updates"]
    assert kinds(updates) == ["available_commands_update", "agent_message_chunk"]
    assert text(updates) == "hello \u2028 \U0001f99c"


def test_the_sdk_sends_and_gets_a_message_of_ten_mebibytes(seen: Mapping[str, Any]) -> None:
    assert seen["long"] == [1, True]


@pytest.mark.spec("SETUP-21")
def test_the_sdk_has_a_tool_of_an_mcp_server_called_with_permission(seen: Mapping[str, Any]) -> None:
    assert "- good: ready, tools: echo, where" in text(seen["turns"]["/mcp"]["updates"])
    turn = seen["turns"]['/call good echo {"text": "from MCP"}']
    assert turn["asked"] == ["permission"]
    assert statuses(turn["updates"]) == ["pending", "in_progress", "completed"]
    assert turn["updates"][-1]["content"] == [{"type": "content", "content": {"type": "text", "text": "from MCP"}}]
    rejected = seen["rejected"]
    assert (rejected["asked"], statuses(rejected["updates"])) == (["permission"], ["pending", "failed"])


def test_the_sdk_serves_files(seen: Mapping[str, Any], cwd: str) -> None:
    turns = seen["turns"]
    written = turns["/write a.txt one\ntwo\n"]
    assert written["asked"] == ["read", "permission", "write"]
    assert written["updates"][0]["content"] == [{"type": "diff", "path": f"{cwd}/a.txt", "newText": "one\ntwo\n"}]
    assert Path(cwd, "a.txt").read_text() == "one\ntwo\n"
    assert turns["/read a.txt 2"]["updates"][-1]["content"][0]["content"]["text"] == "two\n"
    assert statuses(turns["/read missing.txt"]["updates"])[-1] == "failed"


def test_the_sdk_serves_terminals(seen: Mapping[str, Any]) -> None:
    turn = seen["turns"]["/run echo from a terminal"]
    assert turn["asked"] == ["permission", "create", "wait", "output", "release"]
    assert turn["updates"][1]["content"] == [{"type": "terminal", "terminalId": "term-0"}]
    assert turn["updates"][-1]["rawOutput"] == {"output": "from a terminal\n", "exitCode": 0, "signal": None}


def test_the_sdk_answers_questions(seen: Mapping[str, Any]) -> None:
    turn = seen["turns"]["/ask"]
    assert turn["asked"] == ["elicit", "elicit", "complete"]
    assert text(turn["updates"]) == "You said:\n- name: Polly\n- talks: no\nYou agreed to open the page.\n"


def test_the_sdk_reads_every_kind_of_update_there_is(seen: Mapping[str, Any]) -> None:
    turn = seen["turns"]["/showcase"]
    assert {*kinds(turn["updates"])} == {
        "user_message_chunk",
        "agent_message_chunk",
        "agent_thought_chunk",
        "tool_call",
        "tool_call_update",
        "plan",
        "available_commands_update",
        "current_mode_update",
        "config_option_update",
        "session_info_update",
        "usage_update",
        "notice",
        "compaction_update",
        "compaction_summary_chunk",
    }
    services = {"permission", "read", "write", "create", "output", "wait", "kill", "release", "elicit", "complete"}
    assert {*turn["asked"]} == services
    assert "did not go well" not in text(turn["updates"])


@pytest.mark.spec("CANCEL-05", "CANCEL-09")
def test_the_sdk_cancels_a_turn(seen: Mapping[str, Any]) -> None:
    assert seen["slept"] == "cancelled"
    assert seen["cancelled"]["stopReason"] == "cancelled"
    assert statuses(seen["cancelled"]["updates"]) == ["pending", "in_progress", "failed"]


def test_the_sdk_cancels_the_request_that_is_a_turn(seen: Mapping[str, Any]) -> None:
    assert seen["abandoned"] == {"result": {"stopReason": "cancelled"}}


def test_the_sdk_sets_modes_and_options(seen: Mapping[str, Any]) -> None:
    assert kinds(seen["turns"]["/mode code"]["updates"])[:2] == ["current_mode_update", "config_option_update"]
    values = {option["id"]: option["currentValue"] for option in seen["set"]["configOptions"]}
    assert values == {"mode": "code", "model": "grey-parrot", "think_aloud": True}
    assert kinds(seen["after"]["updates"]) == ["agent_thought_chunk", "agent_message_chunk"]


def test_the_sdk_gets_the_errors_of_the_specification(seen: Mapping[str, Any]) -> None:
    assert seen["errors"] == {
        "relative cwd": -32602,
        "unknown session": -32002,
        "unknown extension": -32601,
        "unknown method": -32601,
        "unknown login": -32602,
        "no prompt": -32602,
    }


@pytest.mark.spec("SETUP-11", "SETUP-12", "SETUP-13")
def test_the_sdk_loads_the_session_from_another_process_of_the_agent(seen: Mapping[str, Any], cwd: str) -> None:
    (listed,) = seen["list"]["sessions"]
    assert (listed["sessionId"], listed["cwd"], listed["title"]) == (seen["new"]["sessionId"], cwd, "Showcase")
    replay = seen["replay"]
    said = [update["content"]["text"] for update in replay if update["sessionUpdate"] == "user_message_chunk"]
    assert (said[0], said[-1]) == ("hello \u2028 \U0001f99c", "after all")
    assert {*statuses(update for update in replay if update["sessionUpdate"] == "tool_call")} == {"completed", "failed"}
    assert "tool_call_update" not in kinds(replay)
    assert seen["load"]["modes"]["currentModeId"] == "code"
    assert text(seen["loaded"]["updates"]) == "still there?"


@pytest.mark.spec("SETUP-48")
def test_the_sdk_closes_and_resumes_the_session(seen: Mapping[str, Any]) -> None:
    assert seen["closed"] == -32002
    assert kinds(seen["resumed"]["updates"]) == ["available_commands_update", "agent_message_chunk"]
    assert text(seen["resumed"]["updates"]) == "and again"


@pytest.mark.spec("DEL-05")
def test_the_sdk_deletes_the_session(seen: Mapping[str, Any]) -> None:
    assert seen["deleted"] == -32002
    assert seen["listAfter"] == {"sessions": []}


@pytest.mark.spec("AUTH-21")
def test_the_sdk_logs_out_and_in(seen: Mapping[str, Any]) -> None:
    assert seen["loggedOut"] == -32000
    assert "sessionId" in seen["loggedIn"]["result"]


@pytest.mark.spec("EXT-05", "EXT-06", "EXT-07")
def test_the_sdk_and_an_agent_of_ours_call_extensions_of_each_other() -> None:
    seen = see("ts_extension_client.mjs", agent=[sys.executable, "-m", "tests.peers.extension_agent"])
    assert seen == {
        "faults": [],
        "announced": {"example.com": {"version": 1}},
        "flown": {"flown": "home", "heard": {"called": {"back": "home"}}},
        "refused": -32601,
        "cancelled": -32800,
        "news": [{"n": 1, "echoed": True}],
    }


# ------------------------------------------------------------------------------------------- the SDK as agent of ours

FLY: Final = acp.extension_method("_parrot/fly", acp.JSON, acp.JSON)
WAIT: Final = acp.extension_method("_parrot/wait", acp.JSON, acp.JSON)
CALL: Final = acp.extension_method("_parrot/call", acp.JSON, acp.JSON)
NEWS: Final = acp.extension_notification("_parrot/news", acp.JSON)


class User:
    """A client that offers everything, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.news: list[acp.JSON] = []
        self.heard = trio.Event()
        self.says_yes = True
        extensions = acp.Handlers()
        extensions.on_request(CALL, self._call)
        extensions.on_notification(NEWS, self._hear)
        self.client = acp.Client(
            name="test",
            version="1",
            request_permission=self._permit,
            file_system=acp.FileSystem(),
            terminals=True,
            elicit_form=self._fill_in,
            elicit_url=self._agree,
            extensions=extensions,
        )

    async def _permit(self, request: acp.RequestPermissionRequest) -> acp.PermissionOption | None:
        self.asked.append(str(request.tool_call.title))
        return request.options[0 if self.says_yes else 1]

    async def _fill_in(self, request: ElicitationFormRequest) -> ElicitationAnswer:
        self.asked.append(request.message)
        return ElicitationAccept(content={"name": "Polly", "seeds": 3, "days": ["Sunday"]})

    async def _agree(self, request: ElicitationUrlRequest, facts: UrlFacts) -> ElicitationAnswer:
        self.asked.append(facts.host)
        return ElicitationAccept()

    async def _call(self, request: acp.IncomingRequest, params: acp.JSON) -> acp.JSON:
        return {"called": params}

    def _hear(self, connection: acp.Connection, params: acp.JSON) -> None:
        self.news.append(params)
        self.heard.set()


@asynccontextmanager
async def open_sdk_agent(client: acp.Client, *arguments: str) -> AsyncGenerator[acp.ClientSide, None]:
    """The SDK's agent, started; that anything it sends is odd, or that it finds a fault, fails the test."""
    reports: list[Report] = []
    stderr: list[bytes] = []
    command = [node(), str(PEERS / "ts_agent.mjs"), *arguments]
    with trio.fail_after(PATIENCE):
        async with acp.open_agent_process(
            command, client, env=environment(), stderr=stderr.append, on_report=reports.append
        ) as agent:
            yield agent
    assert reports == []
    assert b"".join(stderr).decode() == ""


async def ask(session: acp.ClientSession, *prompt: str | acp.ContentBlock) -> str:
    async with session.prompt(*prompt) as turn:
        said = await turn.text()
    assert turn.stop_reason is acp.StopReason.END_TURN
    return said


async def test_our_client_talks_with_an_agent_of_the_sdk() -> None:
    async with open_sdk_agent(User().client) as agent, agent.new_session("/") as session:
        assert agent.info is not None
        assert agent.info.title == "Parrot"
        image = ImageContent(data="AAAA", mime_type="image/png")
        note = EmbeddedResource(resource=TextResourceContents(uri="note:///a", text="a"))
        async with session.prompt("hello \u2028 \U0001f99c", image, note) as turn:
            updates = [update async for update in turn]
        assert [update.content for update in updates if isinstance(update, acp.AgentMessageChunk)] == [
            acp.TextContent(text="hello \u2028 \U0001f99c"),
            image,
            note,
        ]
        long = "x" * (10 * MEBI)
        assert await ask(session, long) == long
        with pytest.raises(acp.RequestError, match="-32603"):
            await ask(session, "break")


async def test_our_client_reads_every_kind_of_update_of_the_sdk() -> None:
    async with open_sdk_agent(User().client) as agent, agent.new_session("/") as session:
        async with session.prompt("everything") as turn:
            updates = [update async for update in turn]
        assert [type(update) for update in updates] == [
            acp.UserMessageChunk,
            acp.AgentThoughtChunk,
            *[acp.AgentMessageChunk] * 6,
            acp.ToolCall,
            acp.ToolCallUpdate,
            acp.Plan,
            AvailableCommandsUpdate,
            CurrentModeUpdate,
            ConfigOptionUpdate,
            SessionInfoUpdate,
            UsageUpdate,
            Notice,
            CompactionUpdate,
            CompactionSummaryChunk,
            CompactionUpdate,
        ]
        contents = [update.content for update in updates if isinstance(update, acp.AgentMessageChunk)]
        assert [type(content) for content in contents] == [
            acp.TextContent,
            ImageContent,
            AudioContent,
            acp.ResourceLink,
            *[EmbeddedResource] * 2,
        ]
        assert contents[-1] == EmbeddedResource(resource=BlobResourceContents(uri="file:///b", blob="AAAA"))
        state = session.state
        call = state.tool_calls[ToolCallId("t")]
        assert (call.title, call.status, call.raw_output) == ("T!", ToolCallStatus.COMPLETED, {"n": [None]})
        assert (state.title, state.current_mode_id) == ("All there is", "code")


@pytest.mark.spec("TOOL-07")
async def test_our_client_follows_tool_calls_of_the_sdk() -> None:
    user = User()
    async with open_sdk_agent(user.client) as agent, agent.new_session("/") as session:
        for user.says_yes, status in ((True, ToolCallStatus.COMPLETED), (False, ToolCallStatus.FAILED)):
            await ask(session, "tool something")
            call = session.state.tool_calls[ToolCallId("call")]
            assert (call.status, call.title, call.raw_output) == (status, "Think", user.says_yes)
            assert call.content == [
                acp.Content(content=acp.TextContent(text="something")),
                acp.Diff(path="/a", old_text="old", new_text="new"),
            ]
        assert user.asked == ["Think", "Think"]


async def test_our_client_serves_an_agent_of_the_sdk(tmp_path: Path) -> None:
    user = User()
    async with open_sdk_agent(user.client) as agent, agent.new_session(str(tmp_path)) as session:
        assert await ask(session, f"files {tmp_path}/a.txt") == "two\r\n"
        assert (tmp_path / "a.txt").read_bytes() == b"one\r\ntwo\r\nthree"
        assert await ask(session, f"missing {tmp_path}/b.txt") == "-32002"
        assert await ask(session, "missing /etc/hosts") == "-32602"
        exited = json.loads(await ask(session, "terminal pwd; echo $PARROT; exit 3"))
        assert exited == [3, f"{tmp_path}\nPolly\n", False, {"exitCode": 3}]
        assert json.loads(await ask(session, "kill it"))["signal"] in ("SIGTERM", "SIGKILL")
        assert json.loads(await ask(session, "ask your name")) == {
            "action": "accept",
            "content": {"name": "Polly", "seeds": 3, "days": ["Sunday"]},
        }
        assert await ask(session, "open https://example.com/page") == "accept"
        assert user.asked == ["your name", "example.com"]


@pytest.mark.spec("CANCEL-01")
async def test_our_client_cancels_a_turn_of_the_sdk() -> None:
    async with open_sdk_agent(User().client) as agent, agent.new_session("/") as session:
        async with session.prompt("wait") as turn:
            said = []
            async for update in turn:
                assert isinstance(update, acp.AgentMessageChunk)
                said.append(update.content)
                turn.cancel()
        assert said == [acp.TextContent(text="waiting"), acp.TextContent(text="stopped")]
        assert turn.stop_reason is acp.StopReason.CANCELLED


@pytest.mark.spec("CANCEL-03", "PERM-05")
async def test_our_client_answers_the_open_question_of_a_turn_that_it_cancels() -> None:
    asked = trio.Event()

    async def think_for_ever(request: acp.RequestPermissionRequest) -> acp.PermissionOption | None:
        asked.set()
        await trio.sleep_forever()

    client = acp.Client(name="test", version="1", request_permission=think_for_ever)
    async with (
        open_sdk_agent(client) as agent,
        agent.new_session("/") as session,
        session.prompt("tool something") as turn,
    ):
        await asked.wait()
        turn.cancel()
        assert await turn.wait() is acp.StopReason.CANCELLED


@pytest.mark.spec("CANCEL-11")
async def test_a_request_that_our_caller_gives_up_is_cancelled_in_the_sdk() -> None:
    user = User()
    async with open_sdk_agent(user.client) as agent:
        async with trio.open_nursery() as nursery:

            async def give_up() -> None:
                await user.heard.wait()
                user.heard = trio.Event()
                nursery.cancel_scope.cancel()

            nursery.start_soon(give_up)
            await agent.connection.request(WAIT, {})
        await user.heard.wait()
        assert user.news == [{"waiting": True}, {"waiting": False}]
        assert [info async for info in agent.list_sessions()] == []  # the connection is as good as before


@pytest.mark.spec("EXT-05", "EXT-06", "EXT-07")
async def test_extensions_go_both_ways() -> None:
    user = User()
    async with open_sdk_agent(user.client) as agent:
        destination: acp.JSON = {"to": "home"}
        news: acp.JSON = {"n": 1}
        flown = await agent.connection.request(FLY, destination)
        assert flown == {"flown": "home", "heard": {"called": {"back": "home"}}}
        await agent.connection.notify(NEWS, news)
        await user.heard.wait()
        assert user.news == [{"n": 1, "echoed": True}]


@pytest.mark.spec("SETUP-09", "SETUP-47", "SETUP-53", "LIST-11")
async def test_our_client_lives_through_sessions_of_the_sdk() -> None:
    server = acp.McpServerStdio(name="x", command="/bin/true", args=[], env=[])
    remote = acp.McpServerHttp(name="y", url="http://127.0.0.1:1/", headers=[])
    async with open_sdk_agent(User().client) as agent:
        async with agent.new_session("/", mcp_servers=[server, remote], additional_directories=["/tmp"]) as session:
            assert session.setup_meta == {"servers": ["x", "y"]}
            await ask(session, "first words")
            await session.set_mode(SessionModeId("code"))
            await session.set_config_option(SessionConfigId("loud"), True)
            with pytest.raises(acp.LocalProtocolError):
                await session.set_config_option(SessionConfigId("model"), "huge")
        for _ in range(4):
            async with agent.new_session("/tmp"):
                pass
        assert [info.session_id async for info in agent.list_sessions()] == [f"parrot-{n}" for n in range(5)]
        assert [info.session_id async for info in agent.list_sessions("/")] == [session.id]
        async with agent.load_session(session.id, "/") as loaded:
            assert loaded.replay == [
                acp.UserMessageChunk(content=acp.TextContent(text="first words")),
                acp.AgentMessageChunk(content=acp.TextContent(text="did first")),
            ]
            assert loaded.state.current_mode_id == "code"
            assert await ask(loaded, "more words") == "more words"
        async with agent.resume_session(session.id, "/") as resumed:
            assert resumed.replay == []
            assert await ask(resumed, "last words") == "last words"
        await agent.delete_session(session.id)
        with pytest.raises(acp.RequestError, match="-32002"):
            async with agent.load_session(session.id, "/"):
                pass
        with pytest.raises(acp.CapabilityError):
            async with agent.new_session("/", mcp_servers=[acp.McpServerSse(name="z", url="http://x/", headers=[])]):
                pass


@pytest.mark.spec("AUTH-23")
async def test_our_client_logs_in_to_an_agent_of_the_sdk() -> None:
    async with open_sdk_agent(User().client, "--locked") as agent:
        for _ in range(2):
            with pytest.raises(acp.AuthRequired):
                async with agent.new_session("/"):
                    pass
            await agent.authenticate(AuthMethodId("key"))
            async with agent.new_session("/") as session:
                assert await ask(session, "let in") == "let in"
            await agent.logout()


# ------------------------------------------------------------------------------------------------ the SDK's own example

HURRY: Final = "data:text/javascript,const wait=setTimeout;globalThis.setTimeout=(then,ms)=>wait(then,ms/50)"
"""A module that makes the example's seconds short: it thinks for one between any two steps."""


@pytest.fixture(scope="module")
def example() -> Sequence[str]:
    return example_agent()


@asynccontextmanager
async def open_example(example: Sequence[str], user: User, *options: str) -> AsyncGenerator[acp.ClientSession, None]:
    """A session of the example, started with ``options`` of Node.js; that either side complains fails the test."""
    reports: list[Report] = []
    stderr: list[bytes] = []
    program, *arguments = example
    with trio.fail_after(PATIENCE):
        async with (
            acp.open_agent_process(
                [program, *options, *arguments], user.client, stderr=stderr.append, on_report=reports.append
            ) as agent,
            agent.new_session("/") as session,
        ):
            yield session
    assert reports == []
    assert b"".join(stderr).decode() == ""


async def test_our_client_goes_through_a_turn_of_the_example_agent_of_the_sdk(example: Sequence[str]) -> None:
    user = User()
    async with open_example(example, user, "--import", HURRY) as session:
        assert (await ask(session, "Improve it.")).endswith("The changes have been applied.")
        calls = session.state.tool_calls.values()
        assert [call.status for call in calls] == [ToolCallStatus.COMPLETED] * 2
        user.says_yes = False
        assert (await ask(session, "Improve it.")).endswith("I'll skip the configuration update.")
    assert user.asked == ["Modifying critical configuration file"] * 2


async def test_our_client_cancels_a_turn_of_the_example_agent_of_the_sdk(example: Sequence[str]) -> None:
    async with open_example(example, User()) as session, session.prompt("Improve it.") as turn:
        await turn.__anext__()
        turn.cancel()
        assert await turn.wait() is acp.StopReason.CANCELLED
