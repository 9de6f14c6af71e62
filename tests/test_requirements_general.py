"""What the overview and the transports page ask of both sides, where no other test shows it.

https://agentclientprotocol.com/protocol/overview
https://agentclientprotocol.com/protocol/transports
"""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import pytest
import trio
import trio.testing

from acp_ref import schema
from acp_ref._converter import wire
from acp_ref._jsonrpc import JSON, JSONObject, loads
from acp_ref.agent import Agent, AgentSide
from acp_ref.client import Client
from acp_ref.client_side import ClientSide
from acp_ref.connection import Connection, open_connection
from acp_ref.errors import ErrorCode, LocalProtocolError, RequestError
from acp_ref.handlers import Handlers
from acp_ref.methods import AGENT, CLIENT, INITIALIZE, Role, extension_method, extension_notification
from acp_ref.permissions import default_options
from acp_ref.prompt_turn import PromptTurn
from acp_ref.requests import IncomingRequest
from acp_ref.schema import InitializeRequest, InitializeResponse, McpServerStdio, ProtocolVersion, SessionId, StopReason
from acp_ref.session_store import MemoryStore
from acp_ref.testing import ScriptedPeer, open_scripted_agent, open_scripted_client, open_scripted_peer
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
from tests.schema_samples import classes

# ------------------------------------------------------------------------------------------------ general model


@pytest.mark.spec("GEN-03", "GEN-06")
def test_there_is_no_agent_that_cannot_answer_a_prompt_and_no_client_that_cannot_be_asked_for_permission() -> None:
    with pytest.raises(TypeError, match="prompt"):
        Agent(name="a", version="1")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="request_permission"):
        Client(name="c", version="1")  # type: ignore[call-arg]


@pytest.mark.spec("GEN-03")
async def test_an_agent_with_nothing_but_a_prompt_offers_all_that_every_agent_has() -> None:
    async with client_of(Agent(name="a", version="1", prompt=parrot)) as peer:
        refused = await peer.call(1, "authenticate", {"methodId": "key"})
        assert code_of(refused) == ErrorCode.INVALID_PARAMS  # it exists, and knows no such method
        *updates, answer = await say(peer, await new_session(peer), "hello")
        assert [text_of(update) for update in updates] == ["hello"]
        assert result_of(answer) == {"stopReason": "end_turn"}


@pytest.mark.spec("GEN-06", "PERM-03")
async def test_the_least_client_there_is_answers_a_request_for_permission() -> None:
    options: list[JSON] = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
    question: JSONObject = {"sessionId": "s", "toolCall": {"toolCallId": "t"}, "options": options}
    async with agent_of(make_client()) as (_, _session, peer):
        answer = await peer.call(1, "session/request_permission", question)
        assert result_of(answer) == {"outcome": {"outcome": "selected", "optionId": "y"}}


@pytest.mark.spec("GEN-08")
async def test_a_client_answers_no_update_and_no_completion_whatever_is_in_them() -> None:
    async def agree(request: object, facts: object) -> schema.ElicitationAccept:
        await trio.lowlevel.checkpoint()
        return schema.ElicitationAccept()

    def fail(session: object, update: object) -> None:
        raise RuntimeError

    async with agent_of(make_client(on_update=fail, elicit_url=agree)) as (_, session, peer):
        for session_id, update in (
            ("s", {"sessionUpdate": "plan", "entries": []}),
            ("s", {"sessionUpdate": "plan"}),
            ("s", {"sessionUpdate": "of_a_later_version"}),
            ("nope", {"sessionUpdate": "plan", "entries": []}),
        ):
            params: JSONObject = {"sessionId": session_id, "update": update}  # type: ignore[dict-item]
            await peer.notify("session/update", params)
        completions: list[JSON] = [{"elicitationId": "e"}, {}, []]
        for elicitation in completions:
            await peer.notify("elicitation/complete", elicitation)
        assert await peer.receive_all() == []
        assert session.state.plan == schema.Plan(entries=[])


@pytest.mark.spec("GEN-11")
def test_keys_are_camel_case_and_values_snake_case_but_for_what_the_schema_spells_otherwise() -> None:
    keys, values = set[str](), set[str]()
    for cl in classes():
        keys |= {field.wire for field in wire.fields(cl)} - {wire.WHOLE}
        if tag := getattr(cl, "TAG", None):
            keys.add(tag[0])
            values.add(tag[1])
    for name in schema.__all__:
        kind = getattr(schema, name)
        if inspect.isclass(kind) and issubclass(kind, enum.StrEnum):
            values |= {member.value for member in kind}
    assert {key for key in keys if not re.fullmatch(r"[a-z]+([A-Z][a-z]*)*", key)} == {"_meta"}
    assert {value for value in values if not re.fullmatch(r"[a-z]+(_[a-z]+)*", value)} == {"date-time"}
    names = {method.name.removeprefix("$/") for role in (AGENT, CLIENT) for method in role.handles}
    assert {name for name in names if not re.fullmatch(r"[a-z]+(/[a-z]+(_[a-z]+)*|_[a-z]+)?", name)} == set()


# ------------------------------------------------------------------------------------------------- order of phases

BEFORE_INITIALIZE: Final[Mapping[str, JSONObject]] = {
    "authenticate": {"methodId": "key"},
    "session/new": {"cwd": CWD, "mcpServers": []},
    "session/load": {"sessionId": "s", "cwd": CWD, "mcpServers": []},
    "session/resume": {"sessionId": "s", "cwd": CWD, "mcpServers": []},
    "session/list": {},
    "session/delete": {"sessionId": "s"},
    "session/prompt": prompt("s", "hello"),
    "session/close": {"sessionId": "s"},
}


@pytest.mark.spec("GEN-02", "SETUP-02", "LIST-01", "DEL-01", "PROMPT-01")
async def test_before_initialize_an_agent_refuses_everything() -> None:
    served = Agent(name="a", version="1", prompt=parrot, store=MemoryStore())
    async with open_scripted_client(served) as peer:
        for method, params in BEFORE_INITIALIZE.items():
            assert code_of(await peer.call(method, method, params)) == ErrorCode.INVALID_REQUEST
        assert result_of(await peer.call(0, "initialize", {"protocolVersion": 1}))["protocolVersion"] == 1
        unknown = await peer.call(1, "session/prompt", prompt("s", "hello"))  # nor is there a turn without a session
        assert code_of(unknown) == ErrorCode.RESOURCE_NOT_FOUND


async def opened(block: object) -> None:
    async with block:  # type: ignore[attr-defined]  # a context manager, whatever it gives
        pytest.fail("it cannot be opened")


CALLS: Final[Mapping[str, Callable[[ClientSide], Awaitable[object]]]] = {
    "session/new": lambda side: opened(side.new_session(CWD)),
    "session/load": lambda side: opened(side.load_session(SessionId("s"), CWD)),
    "session/resume": lambda side: opened(side.resume_session(SessionId("s"), CWD)),
    "session/list": lambda side: anext(side.list_sessions()),
    "session/delete": lambda side: side.delete_session(SessionId("s")),
}


@pytest.mark.spec("GEN-02", "SETUP-02", "LIST-01", "DEL-01", "PROMPT-01")
@pytest.mark.parametrize("method", CALLS)
async def test_before_initialize_a_client_sends_nothing_else(method: str) -> None:
    ours, theirs = memory_transport_pair()
    side, peer = ClientSide(make_client(), ours), ScriptedPeer(theirs)
    async with open_connection(side.connection):
        with trio.fail_after(5), pytest.raises(LocalProtocolError):
            await CALLS[method](side)
        assert await peer.receive_all() == []


# ------------------------------------------------------------------------------------------------ paths and lines

RELATIVE: Final = ["src", "./src", "~/src", "", "C:src"]


@pytest.mark.spec("GEN-09", "SETUP-18", "SETUP-61", "SETUP-27", "LIST-05")
@pytest.mark.field_note(61)
@pytest.mark.parametrize("path", RELATIVE)
async def test_no_relative_path_leaves_a_client(path: str) -> None:
    everything: JSONObject = {
        "loadSession": True,
        "sessionCapabilities": {"resume": {}, "list": {}, "additionalDirectories": {}},
    }
    server = McpServerStdio(name="files", command=path, args=[], env=[])
    async with open_scripted_agent(make_client(), agent_capabilities=everything) as (side, peer):
        for block in (
            side.new_session(path),
            side.new_session(CWD, additional_directories=["/a", path]),
            side.new_session(CWD, mcp_servers=[server]),
            side.load_session(SessionId("s"), path),
            side.load_session(SessionId("s"), CWD, additional_directories=[path]),
            side.resume_session(SessionId("s"), path),
            side.resume_session(SessionId("s"), CWD, mcp_servers=[server]),
        ):
            with trio.fail_after(5), pytest.raises(LocalProtocolError, match="absolute"):
                await opened(block)
        with pytest.raises(LocalProtocolError, match="absolute"):
            side.list_sessions(path)
        assert await peer.receive_all() == []


@pytest.mark.spec("GEN-09", "GEN-10", "FS-04", "TERM-03")
@pytest.mark.field_note(61)
@pytest.mark.parametrize("path", RELATIVE)
async def test_no_relative_path_and_no_line_0_leaves_an_agent(path: str) -> None:
    async def handler(turn: PromptTurn) -> StopReason:
        for use in (
            turn.client.read_text_file(path),
            turn.client.read_text_file("/x", line=0),
            turn.client.write_text_file(path, ""),
            opened(turn.client.create_terminal("make", cwd=path)),
        ):
            with trio.fail_after(5), pytest.raises(LocalProtocolError):
                await use
        return StopReason.END_TURN

    announced: JSONObject = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
    async with client_of(Agent(name="a", version="1", prompt=handler), capabilities=announced) as peer:
        (answer,) = await say(peer, await new_session(peer), "go")
        assert result_of(answer) == {"stopReason": "end_turn"}


@pytest.mark.spec("ERR-04", "ERR-05")
@pytest.mark.parametrize("role", [AGENT, CLIENT], ids=["agent", "client"])
async def test_our_ids_are_integers_that_count_and_never_come_again(role: Role) -> None:
    async def work(request: IncomingRequest, params: JSON) -> JSON:
        return params

    async with working(role, work) as (connection, peer):
        ids: list[JSON] = []
        for _ in range(5):
            request = await connection.send_request(WORK, None)
            question = await peer.receive()
            ids.append(question["id"])
            await peer.answer(question, None)
            await request.wait()
        assert all(type(request_id) is int for request_id in ids)
        assert ids == sorted(set(map(int, map(str, ids))))


# ----------------------------------------------------------------------------------------------- other transports


class TextMessages:
    """A transport over something that carries texts, each one message, as a WebSocket does."""

    def __init__(self, outgoing: trio.MemorySendChannel[str], incoming: trio.MemoryReceiveChannel[str]) -> None:
        self.outgoing = outgoing
        self.incoming = incoming
        self.texts: list[str] = []

    async def receive(self) -> Sequence[bytes]:
        try:
            return [(await self.incoming.receive()).encode()]
        except trio.EndOfChannel:
            return []

    async def send(self, frames: Sequence[bytes]) -> None:
        for frame in frames:
            self.texts.append(frame.decode())
            await self.outgoing.send(self.texts[-1])

    async def aclose(self) -> None:
        self.outgoing.close()
        self.incoming.close()
        await trio.lowlevel.checkpoint()


@asynccontextmanager
async def over_text_messages(
    served: Agent, client: Client
) -> AsyncGenerator[tuple[ClientSide, TextMessages, TextMessages], None]:
    to_agent, from_client = trio.open_memory_channel[str](0)
    to_client, from_agent = trio.open_memory_channel[str](0)
    agents, clients = TextMessages(to_client, from_client), TextMessages(to_agent, from_agent)
    side = ClientSide(client, clients)
    async with open_connection(AgentSide(served, agents).connection), open_connection(side.connection):
        yield side, agents, clients


@pytest.mark.spec("TRANS-07", "TRANS-14", "TRANS-15")
async def test_any_channel_of_messages_carries_the_same_conversation() -> None:
    text = "one\ntwo\r\nthree\u2028four\x0bfive\\n"
    async with over_text_messages(Agent(name="a", version="1", prompt=parrot), make_client()) as (side, *ends):
        with pytest.raises(LocalProtocolError):  # the order of phases is the connection's, not the transport's
            await opened(side.new_session(CWD))
        await side.initialize()
        async with side.new_session(CWD) as session, session.prompt(text) as turn:
            assert await turn.text() == text
        agents, clients = ends
        for texts in (agents.texts, clients.texts):
            messages = [loads(message.encode()) for message in texts]
            assert all(isinstance(message, dict) and message["jsonrpc"] == "2.0" for message in messages)
            assert "\n" not in "".join(texts)
        assert [loads(message.encode())["method"] for message in clients.texts] == [  # type: ignore[index,call-overload]
            *("initialize", "session/new", "session/prompt", "session/close"),
        ]


@pytest.mark.spec("TRANS-15")
async def test_what_comes_over_any_channel_is_held_to_the_same_rules() -> None:
    to_agent, from_client = trio.open_memory_channel[str](10)
    to_client, from_agent = trio.open_memory_channel[str](10)
    served = Agent(name="a", version="1", prompt=parrot)
    async with open_connection(AgentSide(served, TextMessages(to_client, from_client), on_report=print).connection):
        for text, code in (
            ("nonsense", ErrorCode.PARSE_ERROR),
            ('[{"jsonrpc":"2.0","id":1,"method":"initialize"}]', ErrorCode.INVALID_REQUEST),
            ('{"jsonrpc":"2.0","id":1,"method":"session/new"}', ErrorCode.INVALID_REQUEST),
        ):
            await to_agent.send(text)
            answer = loads((await from_agent.receive()).encode())
            assert isinstance(answer, dict)
            assert code_of(answer) == code
        to_agent.close()
        with pytest.raises(trio.EndOfChannel):  # the end of the channel is the end of the conversation
            await from_agent.receive()


# ---------------------------------------------------------------------------------- cancellation of any request

WORK: Final = extension_method("_test/work", JSON, JSON)
TELL: Final = extension_notification("_test/tell", JSON)


@asynccontextmanager
async def working(
    role: Role, work: Callable[[IncomingRequest, JSON], Awaitable[JSON]]
) -> AsyncGenerator[tuple[Connection, ScriptedPeer], None]:
    """A connection in ``role``, initialized, that works on request."""

    async def initialize(request: IncomingRequest, params: InitializeRequest) -> InitializeResponse:
        return InitializeResponse(protocol_version=params.protocol_version)

    handlers = Handlers()
    handlers.on_request(WORK, work)
    if role is AGENT:
        handlers.on_request(INITIALIZE, initialize)
    async with open_scripted_peer(role, handlers) as (connection, peer):
        if role is AGENT:
            await peer.call(0, "initialize", {"protocolVersion": 1})
        else:
            await connection.send_request(INITIALIZE, InitializeRequest(protocol_version=ProtocolVersion(1)))
            await peer.answer(await peer.receive(), {"protocolVersion": 1})
            await trio.testing.wait_all_tasks_blocked()
        yield connection, peer


both_roles = pytest.mark.parametrize("role", [AGENT, CLIENT], ids=["agent", "client"])


@pytest.mark.spec("CANCEL-14", "CANCEL-15")
@both_roles
async def test_what_a_cancelled_request_still_has_to_tell_comes_before_its_answer(role: Role) -> None:
    last_words: JSON = {"last": "words"}

    async def work(request: IncomingRequest, params: JSON) -> JSON:
        try:
            await trio.sleep_forever()
        finally:
            request.connection.put_notification(TELL, last_words)
        return None

    async with working(role, work) as (_, peer):
        await peer.request(1, WORK.name)
        await trio.testing.wait_all_tasks_blocked()
        await peer.notify("$/cancel_request", {"requestId": 1})
        told, answer = await peer.receive_all()
        assert (told["method"], told["params"]) == (TELL.name, last_words)
        assert (answer["id"], code_of(answer)) == (1, ErrorCode.REQUEST_CANCELLED)


@pytest.mark.spec("CANCEL-18")
@both_roles
async def test_a_request_that_its_handler_gives_up_ends_as_one_that_was_cancelled(role: Role) -> None:
    async def by_itself(request: IncomingRequest, params: JSON) -> JSON:
        request.scope.cancel()
        await trio.sleep_forever()
        return None

    async def in_words(request: IncomingRequest, params: JSON) -> JSON:
        await trio.lowlevel.checkpoint()
        raise RequestError.request_cancelled()

    for work in (by_itself, in_words):
        async with working(role, work) as (_, peer):
            assert code_of(await peer.call(1, WORK.name)) == ErrorCode.REQUEST_CANCELLED


@pytest.mark.spec("CANCEL-18")
async def test_a_turn_that_the_agent_gives_up_by_itself_is_no_turn_that_the_client_cancelled() -> None:
    async def give_up(turn: PromptTurn) -> StopReason:
        turn.nursery.cancel_scope.cancel()
        await trio.sleep_forever()
        return StopReason.END_TURN

    async with client_of(Agent(name="a", version="1", prompt=give_up)) as peer:
        session_id = await new_session(peer)
        for _ in range(2):  # and the session goes on
            (answer,) = await say(peer, session_id, "go")
            assert code_of(answer) == ErrorCode.REQUEST_CANCELLED


@pytest.mark.spec("CANCEL-18")
async def test_a_permission_that_the_client_gives_up_is_none_and_cancelled() -> None:
    decisions: list[tuple[bool, bool]] = []

    async def ask(turn: PromptTurn) -> StopReason:
        decision = await turn.request_permission(
            schema.ToolCallUpdate(tool_call_id=schema.ToolCallId("t")), default_options()
        )
        decisions.append((decision.allowed, decision.cancelled))
        return StopReason.END_TURN

    async with client_of(Agent(name="a", version="1", prompt=ask)) as peer:
        await peer.request(1, "session/prompt", prompt(await new_session(peer), "go"))
        question = await peer.receive()
        error: JSONObject = {"code": -32800, "message": "Request cancelled"}
        await peer.send({"jsonrpc": "2.0", "id": question["id"], "error": error})
        assert result_of(await peer.receive()) == {"stopReason": "end_turn"}
        assert decisions == [(False, True)]


@pytest.mark.spec("CANCEL-12", "CANCEL-16")
@both_roles
async def test_a_caller_that_cancels_may_wait_for_the_answer_all_the_same(role: Role) -> None:
    async def work(request: IncomingRequest, params: JSON) -> JSON:
        return None

    async with working(role, work) as (connection, peer):
        request = await connection.send_request(WORK, None)
        question = await peer.receive()
        request.cancel()
        assert (await peer.receive())["params"] == {"requestId": question["id"]}
        await peer.answer(question, "partial")
        assert await request.wait() == "partial"
        request.cancel()  # it is answered: there is nothing left to cancel
        assert await peer.receive_all() == []
