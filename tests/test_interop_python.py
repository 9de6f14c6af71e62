"""The official Python SDK at the other end, as client and as agent, with real processes.

The SDK is asyncio's, so each peer of it is a program of its own, in ``tests/peers``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import trio

import acp_ref as acp
from acp_ref.elicitation import ElicitationAnswer
from acp_ref.reports import Report
from acp_ref.schema import ElicitationAccept, ElicitationFormRequest, ImageContent, SessionModeId, ToolCallStatus

ROOT: Final = Path(__file__).parent.parent
NASTY: Final = str(ROOT / "tests" / "mcp_fixtures" / "nasty.py")
SDK_CLIENT: Final = [sys.executable, "-m", "tests.peers.py_sdk_client"]
SDK_AGENT: Final = [sys.executable, "-m", "tests.peers.py_sdk_agent"]

# ------------------------------------------------------------------------------------------- the SDK as client of ours


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """What the SDK's client saw of the reference agent; one conversation for all tests."""
    cwd = tmp_path_factory.mktemp("project")
    server = {"name": "good", "command": sys.executable, "args": ["-I", "-S", NASTY, "good", "tag"], "env": []}
    agent = [sys.executable, "-m", "acp_ref", "agent", "--sessions", str(tmp_path_factory.mktemp("sessions"))]
    done = subprocess.run(
        [*SDK_CLIENT, str(cwd), json.dumps(server), "--", *agent], capture_output=True, text=True, timeout=60, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return {"cwd": str(cwd), "stderr": done.stderr, **found}


def kinds(updates: Sequence[Mapping[str, Any]]) -> list[str]:
    return [update["sessionUpdate"] for update in updates]


def text(updates: Sequence[Mapping[str, Any]]) -> str:
    """What the agent said."""
    return "".join(update["content"]["text"] for update in updates if update["sessionUpdate"] == "agent_message_chunk")


def test_the_sdk_finds_no_fault_in_anything_it_was_sent(seen: Mapping[str, Any]) -> None:
    assert (seen["faults"], seen["stderr"]) == ([], "")
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
    assert seen["long"] == [10 * 1024 * 1024]


def test_the_sdk_follows_a_tool_call_with_permission(seen: Mapping[str, Any]) -> None:
    turn = seen["turns"]['/call good echo {"text": "from MCP"}']
    assert turn["asked"] == ["permission"]
    assert [update["status"] for update in turn["updates"]] == ["pending", "in_progress", "completed"]
    assert turn["updates"][-1]["content"] == [{"type": "content", "content": {"type": "text", "text": "from MCP"}}]


def test_the_sdk_serves_files_terminals_and_questions(seen: Mapping[str, Any]) -> None:
    turns = seen["turns"]
    assert turns["/write a.txt one\ntwo\n"]["asked"] == ["read", "permission", "write"]
    assert turns["/write a.txt one\ntwo\n"]["updates"][0]["content"] == [
        {"type": "diff", "path": f"{seen['cwd']}/a.txt", "newText": "one\ntwo\n"}
    ]
    assert turns["/read a.txt 2"]["updates"][-1]["content"][0]["content"]["text"] == "two\n"
    assert turns["/read missing.txt"]["updates"][-1]["status"] == "failed"
    assert turns["/run echo from a terminal"]["asked"] == ["permission", "terminal", "release"]
    assert turns["/run echo from a terminal"]["updates"][-1]["rawOutput"]["output"] == "from a terminal\n"
    assert turns["/ask"]["asked"] == ["form", "url", "complete"]
    assert "name: Polly" in text(turns["/ask"]["updates"])


def test_the_sdk_reads_every_kind_of_update_it_knows(seen: Mapping[str, Any]) -> None:
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
    }
    assert {"read", "write", "terminal", "release", "form", "url", "complete"} <= {*turn["asked"]}


@pytest.mark.spec("CANCEL-05", "CANCEL-09")
def test_the_sdk_cancels_a_turn(seen: Mapping[str, Any]) -> None:
    assert seen["cancelled"]["stopReason"] == "cancelled"
    assert [update["status"] for update in seen["cancelled"]["updates"]] == ["pending", "in_progress", "failed"]
    assert kinds(seen["turns"]["after all"]["updates"])[-1] == "agent_message_chunk"


def test_the_sdk_sets_modes_and_options(seen: Mapping[str, Any]) -> None:
    values = {option["id"]: option["currentValue"] for option in seen["set"]["configOptions"]}
    assert values == {"mode": "ask", "model": "grey-parrot", "think_aloud": True}
    assert "agent_thought_chunk" in kinds(seen["turns"]["after all"]["updates"])


def test_the_sdk_gets_the_errors_of_the_specification(seen: Mapping[str, Any]) -> None:
    assert seen["errors"] == {
        "relative cwd": -32602,
        "unknown session": -32002,
        "unknown extension": -32601,
        "unknown login": -32602,
    }


@pytest.mark.spec("SETUP-11", "SETUP-12", "SETUP-13")
def test_the_sdk_loads_the_session_from_another_process_of_the_agent(seen: Mapping[str, Any]) -> None:
    (listed,) = seen["list"]["sessions"]
    assert (listed["sessionId"], listed["cwd"], listed["title"]) == (seen["new"]["sessionId"], seen["cwd"], "Showcase")
    replay = seen["replay"]
    said = [update["content"]["text"] for update in replay if update["sessionUpdate"] == "user_message_chunk"]
    assert said[0] == "hello \u2028 \U0001f99c"
    assert said[-1] == "after all"
    calls = [update for update in replay if update["sessionUpdate"] == "tool_call"]
    assert {call["status"] for call in calls} == {"completed", "failed"}
    assert "tool_call_update" not in kinds(replay)
    assert kinds(replay).count("plan") == 1
    assert {entry["status"] for update in replay if "entries" in update for entry in update["entries"]} == {"completed"}
    assert seen["load"]["modes"]["currentModeId"] == "ask"
    assert text(seen["after load"]) == "still there?"


@pytest.mark.spec("SETUP-48")
def test_the_sdk_closes_and_resumes_the_session(seen: Mapping[str, Any]) -> None:
    assert kinds(seen["after resume"]) == ["available_commands_update", "agent_message_chunk"]
    assert text(seen["after resume"]) == "and again"


# ------------------------------------------------------------------------------------------- the SDK as agent of ours

FLY: Final = acp.extension_method("_parrot/fly", acp.JSON, acp.JSON)
CALL_BACK: Final = acp.extension_method("_parrot/call", acp.JSON, acp.JSON)
NEWS: Final = acp.extension_notification("_parrot/news", acp.JSON)


class User:
    """A client that offers everything, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.news: list[acp.JSON] = []
        self.heard = trio.Event()
        self.says_yes = True
        extensions = acp.Handlers()
        extensions.on_request(CALL_BACK, self._call_back)
        extensions.on_notification(NEWS, self._hear)
        self.client = acp.Client(
            name="test",
            version="1",
            request_permission=self._permit,
            file_system=acp.FileSystem(),
            terminals=True,
            elicit_form=self._fill_in,
            extensions=extensions,
        )

    async def _permit(self, request: acp.RequestPermissionRequest) -> acp.PermissionOption | None:
        self.asked.append(str(request.tool_call.title))
        return request.options[0 if self.says_yes else 1]

    async def _fill_in(self, request: ElicitationFormRequest) -> ElicitationAnswer:
        self.asked.append(request.message)
        return ElicitationAccept(content={"name": "Polly"})

    async def _call_back(self, request: acp.IncomingRequest, params: acp.JSON) -> acp.JSON:
        return {"called": params}

    def _hear(self, connection: acp.Connection, params: acp.JSON) -> None:
        self.news.append(params)
        self.heard.set()


@asynccontextmanager
async def open_sdk_agent(user: User, sessions: Path) -> AsyncGenerator[acp.ClientSide, None]:
    """The SDK's agent, started; that anything it sends is odd, or that it complains, fails the test."""
    reports: list[Report] = []
    stderr: list[bytes] = []
    async with acp.open_agent_process(
        [*SDK_AGENT, str(sessions)], user.client, cwd=str(ROOT), stderr=stderr.append, on_report=reports.append
    ) as agent:
        yield agent
    assert reports == []
    assert b"".join(stderr).decode() == ""


async def ask(session: acp.ClientSession, prompt: str) -> str:
    async with session.prompt(prompt) as turn:
        said = await turn.text()
    assert turn.stop_reason is acp.StopReason.END_TURN
    return said


async def test_our_client_talks_with_an_agent_of_the_sdk(tmp_path: Path) -> None:
    user = User()
    async with open_sdk_agent(user, tmp_path) as agent, agent.new_session("/", mcp_servers=[]) as session:
        assert agent.info is not None
        assert agent.info.name == "py-sdk-parrot"
        async with session.prompt("hello you", ImageContent(data="AAAA", mime_type="image/png")) as turn:
            updates = [update async for update in turn]
        assert [type(update) for update in updates] == [acp.AgentThoughtChunk, *[acp.AgentMessageChunk] * 2]
        assert [update.content for update in updates[1:] if isinstance(update, acp.AgentMessageChunk)] == [
            acp.TextContent(text="hello"),
            acp.TextContent(text="you[image]"),
        ]
        await session.set_mode(SessionModeId("code"))
        assert session.state.current_mode_id == "code"
        long = "x" * (10 * 1024 * 1024)
        assert await ask(session, long) == long


@pytest.mark.spec("PERM-09", "TOOL-07")
async def test_our_client_follows_tool_calls_and_plans_of_the_sdk(tmp_path: Path) -> None:
    user = User()
    async with open_sdk_agent(user, tmp_path) as agent, agent.new_session("/") as session:
        for user.says_yes, status in ((True, ToolCallStatus.COMPLETED), (False, ToolCallStatus.FAILED)):
            await ask(session, "tool something")
            call = session.state.tool_calls[acp.schema.ToolCallId("call")]
            assert (call.status, call.title, call.raw_output) == (status, "Think", user.says_yes)
            assert call.content == [
                acp.Content(content=acp.TextContent(text="something")),
                acp.Diff(path="/a", old_text="old", new_text="new"),
            ]
        assert user.asked == ["Think", "Think"]
        assert session.state.plan is not None
        assert [entry.content for entry in session.state.plan.entries] == ["think", "speak"]


async def test_our_client_serves_an_agent_of_the_sdk(tmp_path: Path) -> None:
    user = User()
    cwd = tmp_path / "project"
    cwd.mkdir()
    async with open_sdk_agent(user, tmp_path) as agent, agent.new_session(str(cwd)) as session:
        assert await ask(session, f"files {cwd}/a.txt") == "two"
        assert (cwd / "a.txt").read_text() == "one\ntwo\n"
        assert await ask(session, f"missing {cwd}/b.txt") == "-32002"
        assert await ask(session, "missing /etc/hosts") == "-32602"
        assert await ask(session, "terminal pwd; exit 3") == f"3:{cwd}"
        assert await ask(session, "ask your name") == '{"name":"Polly"}'
        assert user.asked == ["your name"]


@pytest.mark.spec("CANCEL-01", "CANCEL-10")
async def test_our_client_cancels_a_turn_of_the_sdk_and_survives_its_bugs(tmp_path: Path) -> None:
    async with (
        acp.open_agent_process(
            [*SDK_AGENT, str(tmp_path)], User().client, cwd=str(ROOT), stderr=lambda chunk: None
        ) as agent,
        agent.new_session("/") as session,
    ):
        async with session.prompt("wait") as turn:
            said = []
            async for update in turn:
                assert isinstance(update, acp.AgentMessageChunk)
                said.append(update.content)
                turn.cancel()
        assert said == [acp.TextContent(text="waiting"), acp.TextContent(text="stopped")]
        assert turn.stop_reason is acp.StopReason.CANCELLED
        with pytest.raises(acp.RequestError, match="-32603"):
            await ask(session, "break")
        assert await ask(session, "whole again") == "wholeagain"


@pytest.mark.spec("EXT-05", "EXT-06", "EXT-07")
async def test_extensions_go_both_ways(tmp_path: Path) -> None:
    user = User()
    async with open_sdk_agent(user, tmp_path) as agent:
        destination: acp.JSON = {"to": "home"}
        news: acp.JSON = {"n": 1}
        flown = await agent.connection.request(FLY, destination)
        assert flown == {"flown": "home", "heard": {"called": {"back": "home"}}}
        await agent.connection.notify(NEWS, news)
        await user.heard.wait()
        assert user.news == [{"n": 1, "echoed": True}]


@pytest.mark.spec("SETUP-09", "SETUP-47", "SETUP-53", "LIST-11")
async def test_our_client_loads_and_resumes_a_session_of_an_agent_of_the_sdk(tmp_path: Path) -> None:
    server = acp.McpServerStdio(name="x", command="/bin/true", args=[], env=[])
    remote = acp.McpServerHttp(name="y", url="http://127.0.0.1:1/", headers=[])
    async with open_sdk_agent(User(), tmp_path) as agent:
        async with agent.new_session("/", mcp_servers=[server, remote]) as session:
            await ask(session, "first words")
        header = json.loads((tmp_path / f"{session.id}.jsonl").read_text().splitlines()[0])
        assert [given["name"] for given in header["mcpServers"]] == ["x", "y"]
        with pytest.raises(acp.CapabilityError):
            async with agent.new_session("/", mcp_servers=[acp.McpServerSse(name="z", url="http://x/", headers=[])]):
                pass

    async with open_sdk_agent(User(), tmp_path) as agent:
        assert [info.session_id async for info in agent.list_sessions()] == [session.id]
        async with agent.load_session(session.id, "/") as loaded:
            assert loaded.replay == [
                acp.UserMessageChunk(content=acp.TextContent(text="first words")),
                acp.AgentMessageChunk(content=acp.TextContent(text="did first")),
            ]
            assert await ask(loaded, "more words") == "morewords"
        async with agent.resume_session(session.id, "/") as resumed:
            assert resumed.replay == []
            assert await ask(resumed, "last words") == "lastwords"
        with pytest.raises(acp.RequestError, match="-32002"):
            async with agent.load_session(acp.SessionId("nobody"), "/"):
                pass
