"""The page this project was founded on, in the edition of that time: every JSON example of it, through both roles.

https://agentclientprotocol.com/protocol/session-setup
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest
import trio

from acp_ref._converter import structure, unstructure
from acp_ref._jsonrpc import JSON, JSONObject, dumps
from acp_ref.agent import Agent
from acp_ref.client import Client
from acp_ref.client_side import ClientSide
from acp_ref.errors import CapabilityError
from acp_ref.permissions import answer_with
from acp_ref.schema import (
    EnvVariable,
    HttpHeader,
    McpServer,
    McpServerHttp,
    McpServerSse,
    McpServerStdio,
    PermissionOptionKind,
    SessionId,
)
from acp_ref.session_store import MemoryStore
from acp_ref.testing import ScriptedPeer, open_scripted_agent
from tests.conversations import client_of, parrot, result_of, say, text_of

CWD = "/home/user/project"

NEW: JSONObject = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "session/new",
    "params": {
        "cwd": CWD,
        "mcpServers": [{"name": "filesystem", "command": "/path/to/mcp-server", "args": ["--stdio"], "env": []}],
    },
}
NEW_ANSWER: JSONObject = {"jsonrpc": "2.0", "id": 1, "result": {"sessionId": "sess_abc123def456"}}
LOAD_SESSION: JSONObject = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}
LOAD: JSONObject = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "session/load",
    "params": {
        "sessionId": "sess_789xyz",
        "cwd": CWD,
        "mcpServers": [
            {"name": "filesystem", "command": "/path/to/mcp-server", "args": ["--mode", "filesystem"], "env": []}
        ],
    },
}
USER: JSONObject = {
    "jsonrpc": "2.0",
    "method": "session/update",
    "params": {
        "sessionId": "sess_789xyz",
        "update": {
            "sessionUpdate": "user_message_chunk",
            "content": {"type": "text", "text": "What's the capital of France?"},
        },
    },
}
ANSWER: JSONObject = {
    "jsonrpc": "2.0",
    "method": "session/update",
    "params": {
        "sessionId": "sess_789xyz",
        "update": {
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": "The capital of France is Paris."},
        },
    },
}
LOAD_ANSWER: JSONObject = {"jsonrpc": "2.0", "id": 1, "result": None}
STDIO: JSONObject = {
    "name": "filesystem",
    "command": "/path/to/mcp-server",
    "args": ["--stdio"],
    "env": [{"name": "API_KEY", "value": "secret123"}],
}
HTTP: JSONObject = {
    "type": "http",
    "name": "api-server",
    "url": "https://api.example.com/mcp",
    "headers": [
        {"name": "Authorization", "value": "Bearer token123"},
        {"name": "Content-Type", "value": "application/json"},
    ],
}
SSE: JSONObject = {
    "type": "sse",
    "name": "event-stream",
    "url": "https://events.example.com/mcp",
    "headers": [{"name": "X-API-Key", "value": "apikey456"}],
}
MCP_CAPABILITIES: JSONObject = {
    "protocolVersion": 1,
    "agentCapabilities": {"mcpCapabilities": {"http": True, "sse": True}},
}


def client() -> Client:
    return Client(name="c", version="1", request_permission=answer_with(PermissionOptionKind.REJECT_ONCE))


@asynccontextmanager
async def agent_that_said(
    result: JSONObject, answers: Sequence[JSON] = ()
) -> AsyncGenerator[tuple[ClientSide, ScriptedPeer, list[JSONObject]], None]:
    """A client whose agent answered ``initialize`` with ``result``, and answers what comes with ``answers``."""
    asked: list[JSONObject] = []
    async with open_scripted_agent(client(), agent_capabilities=result["agentCapabilities"]) as (side, peer):
        async with trio.open_nursery() as nursery:

            async def answer() -> None:
                for message in answers:
                    if isinstance(message, dict) and "id" in message:
                        asked.append(await peer.receive())
                        await peer.send({**message, "id": asked[-1]["id"]})
                    else:
                        await peer.send(message)

            nursery.start_soon(answer)
            yield side, peer, asked


@pytest.mark.spec("SETUP-21", "SETUP-25", "SETUP-28", "SETUP-29", "SETUP-32", "SETUP-33", "SETUP-36")
@pytest.mark.parametrize(
    ("example", "server"),
    [
        (
            STDIO,
            McpServerStdio(
                name="filesystem",
                command="/path/to/mcp-server",
                args=["--stdio"],
                env=[EnvVariable(name="API_KEY", value="secret123")],
            ),
        ),
        (
            HTTP,
            McpServerHttp(
                name="api-server",
                url="https://api.example.com/mcp",
                headers=[
                    HttpHeader(name="Authorization", value="Bearer token123"),
                    HttpHeader(name="Content-Type", value="application/json"),
                ],
            ),
        ),
        (
            SSE,
            McpServerSse(
                name="event-stream",
                url="https://events.example.com/mcp",
                headers=[HttpHeader(name="X-API-Key", value="apikey456")],
            ),
        ),
    ],
    ids=["stdio", "http", "sse"],
)
def test_each_servers_example_is_read_and_written_as_it_stands(example: JSONObject, server: McpServer) -> None:
    assert structure(McpServer, example) == server
    assert unstructure(McpServer, server) == example


@pytest.mark.spec("SETUP-03", "SETUP-04", "SETUP-05", "SETUP-41")
async def test_an_agent_answers_the_example_of_session_new_though_the_server_is_not_there() -> None:
    async with client_of(Agent(name="a", version="1", prompt=parrot), reports=[]) as peer:
        await peer.send(NEW)
        answer = await peer.receive()
        result = result_of(answer)
        assert answer.keys() == NEW_ANSWER.keys()
        assert isinstance(result["sessionId"], str)
        assert "filesystem" in str(result["_meta"])
        assert "cannot be started" in str(result["_meta"])


@pytest.mark.spec("SETUP-04", "SETUP-05", "SETUP-18", "SETUP-21")
async def test_a_client_says_the_example_of_session_new_and_reads_its_answer() -> None:
    servers = structure(list[McpServer], NEW["params"]["mcpServers"])  # type: ignore[index,call-overload]
    async with agent_that_said({"protocolVersion": 1, "agentCapabilities": {}}, [NEW_ANSWER]) as (side, _, asked):
        async with side.new_session(CWD, mcp_servers=servers) as session:
            assert session.id == "sess_abc123def456"
        assert asked == [{**NEW, "id": asked[0]["id"]}]


@pytest.mark.spec("SETUP-07", "SETUP-08", "SETUP-39", "SETUP-40")
async def test_a_client_loads_nothing_from_an_agent_that_announces_only_mcp_transports() -> None:
    async with agent_that_said(MCP_CAPABILITIES) as (side, peer, _):
        assert side.capabilities.mcp_capabilities.http
        assert side.capabilities.mcp_capabilities.sse
        with pytest.raises(CapabilityError):
            async with side.load_session(SessionId("sess_789xyz"), CWD):
                pass
        assert await peer.receive_all() == []


@pytest.mark.spec("SETUP-31", "SETUP-34", "SETUP-38", "SETUP-39", "SETUP-40")
@pytest.mark.parametrize("example", [HTTP, SSE], ids=["http", "sse"])
async def test_a_client_hands_over_a_web_server_only_to_an_agent_that_announced_it(example: JSONObject) -> None:
    server = structure(McpServer, example)
    async with agent_that_said(LOAD_SESSION) as (side, peer, _):
        with pytest.raises(CapabilityError):
            async with side.new_session(CWD, mcp_servers=[server]):
                pass
        assert await peer.receive_all() == []
    async with agent_that_said(MCP_CAPABILITIES, [NEW_ANSWER]) as (side, _, asked):
        async with side.new_session(CWD, mcp_servers=[server]):
            assert asked[0]["params"] == {"cwd": CWD, "mcpServers": [example]}


@pytest.mark.spec("SETUP-09", "SETUP-12", "SETUP-13", "SETUP-14", "SETUP-15")
@pytest.mark.field_note(29)
@pytest.mark.parametrize("answer", [LOAD_ANSWER, {**LOAD_ANSWER, "result": {}}], ids=["null", "object"])
async def test_a_client_says_the_example_of_session_load_and_hears_the_conversation(answer: JSONObject) -> None:
    servers = structure(list[McpServer], LOAD["params"]["mcpServers"])  # type: ignore[index,call-overload]
    prompt_answer: JSONObject = {"jsonrpc": "2.0", "id": 1, "result": {"stopReason": "end_turn"}}
    async with open_scripted_agent(client(), agent_capabilities=LOAD_SESSION["agentCapabilities"]) as (side, peer):
        async with trio.open_nursery() as nursery:

            async def replay() -> None:
                question = await peer.receive()
                assert question == {**LOAD, "id": question["id"]}
                await peer.send(USER, ANSWER, {**answer, "id": question["id"]})
                question = await peer.receive()
                await peer.send({**prompt_answer, "id": question["id"]})

            nursery.start_soon(replay)
            async with side.load_session(SessionId("sess_789xyz"), CWD, mcp_servers=servers) as session:
                assert [entry.text for entry in session.state.timeline] == [  # type: ignore[union-attr]
                    "What's the capital of France?",
                    "The capital of France is Paris.",
                ]
                async with session.prompt("And of Spain?") as turn:
                    await turn.wait()


@pytest.mark.spec("SETUP-10", "SETUP-11", "SETUP-12", "SETUP-13", "SETUP-14", "SETUP-15")
async def test_an_agent_answers_the_example_of_session_load_with_the_examples_of_the_conversation() -> None:
    store = MemoryStore()
    journal = await store.create(SessionId("sess_789xyz"), CWD)
    for message in (USER, ANSWER):
        journal.append(dumps(message["params"]["update"]))  # type: ignore[index,call-overload]
    await journal.aclose()
    async with client_of(Agent(name="a", version="1", prompt=parrot, store=store), reports=[]) as peer:
        await peer.send(LOAD)
        assert await peer.receive() == USER
        assert await peer.receive() == ANSWER
        answer = await peer.receive()
        assert answer["id"] == 1
        assert set(result_of(answer)) == {"_meta"}  # of the server that is not there
        assert text_of((await say(peer, "sess_789xyz", "And of Spain?"))[0]) == "And of Spain?"
