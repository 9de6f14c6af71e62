"""Extensibility: methods of one's own in both directions, and ``_meta``, which is nobody's business.

https://agentclientprotocol.com/protocol/extensibility
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import attrs
import pytest
import trio

from acp_ref._jsonrpc import JSON, JSONObject
from acp_ref.agent import Agent, AgentSide
from acp_ref.agent_session import AgentSession, SessionOrigin
from acp_ref.client_side import ClientSide
from acp_ref.connection import Connection
from acp_ref.errors import ErrorCode, RequestError
from acp_ref.handlers import Handlers
from acp_ref.methods import (
    AGENT,
    CLIENT,
    NEW_SESSION,
    SESSION_UPDATE,
    Role,
    extension_method,
    extension_notification,
)
from acp_ref.prompt_turn import PromptTurn
from acp_ref.reports import Report, ReportKind
from acp_ref.requests import IncomingRequest
from acp_ref.schema import (
    AgentMessageChunk,
    ElicitationSchema,
    McpServerStdio,
    NewSessionRequest,
    NewSessionResponse,
    StopReason,
    TextContent,
    ToolCall,
    ToolCallId,
)
from acp_ref.session_store import MemoryStore
from acp_ref.testing import ScriptedPeer, open_agent_and_client, open_scripted_agent, open_scripted_client
from acp_ref.trace import TraceContext, with_trace_context
from tests.conversations import (
    CWD,
    agent_of,
    client_of,
    code_of,
    make_client,
    new_session,
    parrot,
    result_of,
    update_of,
)

NASTY: Final = str(Path(__file__).parent / "mcp_fixtures" / "nasty.py")


@attrs.frozen(kw_only=True)
class Sum:
    terms: list[int]


@attrs.frozen(kw_only=True)
class Total:
    total: int


ADD: Final = extension_method("_example.org/add", Sum, Total)
ECHO: Final = extension_method("_example.org/echo", JSON, JSON)
TOLD: Final = extension_notification("_example.org/told", Sum)

OPAQUE: Final[JSONObject] = {
    "example.org/x": {"int": 2**53 + 1, "float": 1.5, "null": None, "list": [[], {}, True, ""], "text": "é\u2028"},
    "": 0,
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
}
"""A ``_meta`` that nobody here understands."""


class Extension:
    """What a side adds to its role, and what it was told."""

    def __init__(self) -> None:
        self.told: list[Sum] = []
        self.seen: list[tuple[str, JSON]] = []
        self.handlers = Handlers()
        self.handlers.on_request(ADD, self.add)
        self.handlers.on_request(ECHO, self.echo)
        self.handlers.on_notification(TOLD, self.tell)

    async def add(self, request: IncomingRequest, params: Sum) -> Total:
        return Total(total=sum(params.terms))

    async def echo(self, request: IncomingRequest, params: JSON) -> JSON:
        self.seen.append((request.method, params))
        return params

    def tell(self, connection: Connection, params: Sum) -> None:
        self.told.append(params)


def agent(extensions: Handlers | None = None) -> Agent:
    return Agent(name="a", version="1", prompt=parrot, extensions=extensions)


@asynccontextmanager
async def in_role(
    role: Role, extensions: Handlers, *, reports: list[Report] | None = None
) -> AsyncGenerator[ScriptedPeer, None]:
    """A side in that role, with these extensions, and initialized; what is at its other end says what a test says."""
    collected: list[Report] = [] if reports is None else reports
    if role is AGENT:
        async with open_scripted_client(agent(extensions), on_report=collected.append) as peer:
            result_of(await peer.call(0, "initialize", {"protocolVersion": 1}))
            yield peer
    else:
        async with open_scripted_agent(make_client(extensions=extensions), on_report=collected.append) as (_, peer):
            yield peer


ROLES: Final = pytest.mark.parametrize("role", [AGENT, CLIENT], ids=["agent", "client"])


# ---------------------------------------------------------------------------------------------- methods of one's own


@pytest.mark.spec("EXT-05", "EXT-06", "EXT-07", "EXT-12")
@pytest.mark.field_note(90)
async def test_both_sides_call_and_tell_each_other_what_the_protocol_does_not_know() -> None:
    ours, theirs = Extension(), Extension()
    client = make_client(extensions=theirs.handlers)
    async with open_agent_and_client(agent(ours.handlers), client) as (agent_side, client_side):
        for side, other in ((client_side, ours), (agent_side, theirs)):
            connection = side.connection
            assert await connection.request(ADD, Sum(terms=[1, 2, 3])) == Total(total=6)
            await connection.notify(TOLD, Sum(terms=[4]))
            values: list[JSON] = [None, [], [1, "x"], {}, {"_meta": OPAQUE}, 42, "text", False]
            for value in values:
                assert await connection.request(ECHO, value) == value
            assert other.told == [Sum(terms=[4])]
            assert other.seen == [("_example.org/echo", value) for value in values]


@pytest.mark.spec("EXT-05", "EXT-07")
@pytest.mark.field_note(90)
@ROLES
async def test_params_may_be_absent_and_a_result_may_be_anything(role: Role) -> None:
    extension = Extension()

    async def answer(request: IncomingRequest, params: JSON) -> JSON:
        return 42 if params is None else params

    extension.handlers.on_request(extension_method("_x.dev/ping", JSON, JSON), answer)
    async with in_role(role, extension.handlers) as peer:
        await peer.send({"jsonrpc": "2.0", "id": "a", "method": "_x.dev/ping"})
        assert await peer.receive() == {"jsonrpc": "2.0", "id": "a", "result": 42}
        for params in ([1], {"a": None}):
            assert (await peer.call(1, "_x.dev/ping", params))["result"] == params
        assert code_of(await peer.call(2, "_example.org/add", {"terms": "many"})) == ErrorCode.INVALID_PARAMS


@pytest.mark.spec("EXT-05")
async def test_params_that_are_none_are_left_out() -> None:
    async with open_scripted_agent(make_client()) as (side, peer):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(side.connection.request, ECHO, None)
            question = await peer.receive()
            assert "params" not in question
            await peer.answer(question, None)
        await side.connection.notify(extension_notification("_x", JSON), None)
        assert await peer.receive() == {"jsonrpc": "2.0", "method": "_x"}


@pytest.mark.spec("EXT-07", "EXT-08", "EXT-10", "EXT-12")
@pytest.mark.field_note(28, 90)
@ROLES
async def test_what_is_not_known_is_refused_when_it_asks_and_ignored_when_it_tells(role: Role) -> None:
    reports: list[Report] = []
    async with in_role(role, Extension().handlers, reports=reports) as peer:
        answer = await peer.call("x", "_example.org/nothing", {"a": 1})
        assert (answer["id"], code_of(answer)) == ("x", ErrorCode.METHOD_NOT_FOUND)
        await peer.notify("_example.org/nothing", {"a": 1})
        await peer.send({"jsonrpc": "2.0", "method": "_example.org/nothing"})
        assert await peer.receive_all() == []
    assert [(report.kind, report.method) for report in reports] == [(ReportKind.IGNORED, "_example.org/nothing")] * 2


@pytest.mark.spec("EXT-05", "EXT-06")
def test_an_application_adds_only_names_with_an_underscore() -> None:
    for method in (NEW_SESSION, SESSION_UPDATE):
        handlers = Handlers()
        if method is NEW_SESSION:
            handlers.on_request(NEW_SESSION, never)
        else:
            handlers.on_notification(SESSION_UPDATE, lambda connection, params: None)
        with pytest.raises(ValueError, match=f"unlike '{method.name}'"):
            agent(handlers)
        with pytest.raises(ValueError, match=f"unlike '{method.name}'"):
            make_client(extensions=handlers)


async def never(request: IncomingRequest, params: NewSessionRequest) -> NewSessionResponse:
    raise AssertionError


# ------------------------------------------------------------------------------------------- all the others: proxies


@pytest.mark.spec("EXT-05", "EXT-07", "EXT-08")
@pytest.mark.field_note(90)
@ROLES
async def test_one_handler_takes_all_extensions_that_have_none_of_their_own(role: Role) -> None:
    extension = Extension()
    told: list[tuple[str, JSON]] = []

    async def other(request: IncomingRequest, params: JSON) -> JSON:
        if request.method == "_x/secret":
            raise RequestError.method_not_found(request.method)
        return [request.method, params]

    def tell(connection: Connection, method: str, params: JSON) -> None:
        told.append((method, params))

    extension.handlers.on_other_requests(other)
    extension.handlers.on_other_notifications(tell)
    async with in_role(role, extension.handlers, reports=[]) as peer:
        assert (await peer.call(1, "_x/any", [1]))["result"] == ["_x/any", [1]]
        await peer.send({"jsonrpc": "2.0", "id": 2, "method": "_x/any"})
        assert (await peer.receive())["result"] == ["_x/any", None]
        assert code_of(await peer.call(3, "_x/secret")) == ErrorCode.METHOD_NOT_FOUND
        assert (await peer.call(4, "_example.org/echo", 5))["result"] == 5  # which has one of its own
        for name in ("any", "session/any", "$/any"):
            assert code_of(await peer.call(5, name)) == ErrorCode.METHOD_NOT_FOUND
            await peer.notify(name)
        await peer.notify("_x/told", {"a": 1})
        await peer.send({"jsonrpc": "2.0", "method": "_x/told"})
        assert await peer.receive_all() == []
    assert extension.seen == [("_example.org/echo", 5)]
    assert told == [("_x/told", {"a": 1}), ("_x/told", None)]


@pytest.mark.spec("EXT-05", "EXT-12", "CANCEL-18")
@pytest.mark.field_note(90)
async def test_a_proxy_passes_on_what_it_does_not_know_both_ways() -> None:
    far, near = Extension(), Extension()
    started = trio.Event()

    async def wait(request: IncomingRequest, params: JSON) -> JSON:
        started.set()
        await trio.sleep_forever()
        return None

    far.handlers.on_request(extension_method("_x/wait", JSON, JSON), wait)
    sides: list[AgentSide[None] | ClientSide] = []

    def passing(to: int) -> Handlers:
        """Handlers that pass everything on to the other connection of the proxy."""

        async def request(incoming: IncomingRequest, params: JSON) -> JSON:
            method = extension_method(incoming.method, JSON, JSON)
            return await sides[to].connection.request(method, params)

        def notify(connection: Connection, method: str, params: JSON) -> None:
            sides[to].connection.put_notification(extension_notification(method, JSON), params)

        handlers = Handlers()
        handlers.on_other_requests(request)
        handlers.on_other_notifications(notify)
        return handlers

    async with (
        open_agent_and_client(agent(far.handlers), make_client(extensions=passing(1))) as (last, to_agent),
        open_agent_and_client(agent(passing(0)), make_client(extensions=near.handlers)) as (to_client, first),
    ):
        sides += [to_agent, to_client]
        for end, other in ((first, far), (last, near)):
            assert await end.connection.request(ADD, Sum(terms=[1, 2])) == Total(total=3)
            await end.connection.notify(TOLD, Sum(terms=[3]))
            opaque: JSON = {"_meta": OPAQUE, "later": 1}
            assert await end.connection.request(ECHO, opaque) == opaque
            assert other.told == [Sum(terms=[3])]
        with pytest.raises(RequestError, match=r"\[-32601\]"):
            await first.connection.request(extension_method("_x/nothing", JSON, JSON), None)
        async with trio.open_nursery() as nursery:  # a cancellation passes through, too
            nursery.start_soon(first.connection.request, extension_method("_x/wait", JSON, JSON), None)
            await started.wait()
            nursery.cancel_scope.cancel()
        while last.connection.statistics().requests_in_flight:
            await trio.testing.wait_all_tasks_blocked()


# ------------------------------------------------------------------------------------------------------------ _meta


@pytest.mark.spec("EXT-01", "EXT-02", "EXT-04")
@pytest.mark.field_note(89, 90)
async def test_meta_comes_out_as_it_went_in_whatever_is_in_it() -> None:
    metas: list[JSONObject | None] = []

    async def answer(turn: PromptTurn) -> StopReason:
        metas.append(turn.meta)
        (block,) = turn.prompt
        assert isinstance(block, TextContent)
        metas.append(block.meta)
        await turn.send(AgentMessageChunk(content=TextContent(text="x", meta=block.meta), meta=turn.meta))
        await turn.send(ToolCall(tool_call_id=ToolCallId("t"), title="T", raw_input={"k": None}, meta=turn.meta))
        return StopReason.END_TURN

    served = Agent(name="a", version="1", prompt=answer)
    async with open_agent_and_client(served, make_client()) as (_, side), side.new_session(CWD) as session:
        async with session.prompt(TextContent(text="hi", meta={"k": None}), meta=OPAQUE) as turn:
            chunk, call = [update async for update in turn]
    assert metas == [OPAQUE, {"k": None}]
    assert chunk == AgentMessageChunk(content=TextContent(text="x", meta={"k": None}), meta=OPAQUE)
    assert isinstance(call, ToolCall)
    assert (call.meta, call.raw_input) == (OPAQUE, {"k": None})


@pytest.mark.spec("EXT-01", "EXT-02")
@pytest.mark.field_note(90)
async def test_the_meta_of_a_setup_reaches_the_session_whichever_way_it_is_set_up() -> None:
    metas: list[tuple[SessionOrigin, JSONObject | None]] = []

    @asynccontextmanager
    async def open_session(session: AgentSession) -> AsyncGenerator[None, None]:
        metas.append((session.origin, session.setup_meta))
        yield

    served = Agent(name="a", version="1", prompt=parrot, open_session=open_session, store=MemoryStore())
    async with open_agent_and_client(served, make_client()) as (_, side):
        async with side.new_session(CWD, meta=OPAQUE) as session:
            pass
        async with side.load_session(session.id, CWD, meta=OPAQUE):
            pass
        async with side.resume_session(session.id, CWD, meta=OPAQUE):
            pass
        async with side.new_session(CWD):
            pass
    new, loaded, resumed = SessionOrigin.NEW, SessionOrigin.LOADED, SessionOrigin.RESUMED
    assert metas == [(new, OPAQUE), (loaded, OPAQUE), (resumed, OPAQUE), (new, None)]


@pytest.mark.spec("EXT-02")
@pytest.mark.field_note(90)
@pytest.mark.parametrize("meta", [5, "x", [], True])
async def test_a_malformed_meta_is_dropped_and_reported_and_never_an_error(meta: JSON) -> None:
    metas: list[JSONObject | None] = []

    async def answer(turn: PromptTurn) -> StopReason:
        metas.append(turn.meta)
        return StopReason.END_TURN

    reports: list[Report] = []
    async with client_of(Agent(name="a", version="1", prompt=answer), reports=reports) as peer:
        session_id = await new_session(peer)
        block: JSONObject = {"type": "text", "text": "hi", "_meta": meta}
        params: JSONObject = {"sessionId": session_id, "prompt": [block], "_meta": meta}
        assert result_of(await peer.call(1, "session/prompt", params)) == {"stopReason": "end_turn"}
    assert metas == [None]
    assert sorted(str(report.path) for report in reports) == ["$.params._meta", "$.params.prompt[0]._meta"]
    assert {report.kind for report in reports} == {ReportKind.SALVAGED}
    reports.clear()
    async with agent_of(make_client(), reports=reports) as (_, session, peer):
        async with session.prompt("hi") as turn:
            question = await peer.receive()
            await peer.notify(
                "session/update",
                {
                    "sessionId": "s",
                    "_meta": meta,
                    "update": {
                        "sessionUpdate": "agent_message_chunk",
                        "content": {"type": "text", "text": "hi"},
                        "_meta": meta,
                    },
                },
            )
            await peer.answer(question, {"stopReason": "end_turn", "_meta": meta})
            assert await turn.text() == "hi"
    assert sorted(str(report.path) for report in reports) == [
        "$.params._meta",
        "$.params.update._meta",
        "$.result._meta",
    ]


@pytest.mark.spec("EXT-04")
@pytest.mark.field_note(90)
async def test_an_unknown_key_at_the_root_of_a_type_is_ignored_and_kept_only_as_it_came() -> None:
    async def answer(turn: PromptTurn) -> StopReason:
        request = turn.session.turn_request
        assert request is not None
        assert isinstance(request.params, dict)
        assert request.params["later"] == {"x": 1}  # for whoever passes it on, such as a proxy
        return await parrot(turn)

    async with client_of(Agent(name="a", version="1", prompt=answer)) as peer:
        session_id = await new_session(peer)
        block: JSONObject = {"type": "text", "text": "hi", "later": 2}
        params: JSONObject = {"sessionId": session_id, "prompt": [block], "later": {"x": 1}}
        await peer.request(1, "session/prompt", params)
        assert update_of(await peer.receive())["content"] == {"type": "text", "text": "hi"}
        assert result_of(await peer.receive()) == {"stopReason": "end_turn"}


# ---------------------------------------------------------------------------------------------------- trace context

TRACE: Final = TraceContext(traceparent="00-1-2-01", tracestate="a=1", baggage="user=polly")
TRACE_META: Final[JSONObject] = {"traceparent": "00-1-2-01", "tracestate": "a=1", "baggage": "user=polly"}


@pytest.mark.spec("EXT-03")
async def test_the_trace_of_a_prompt_goes_on_in_everything_the_turn_asks_the_client() -> None:
    async def ask_everything(turn: PromptTurn) -> StopReason:
        assert turn.trace_meta == TRACE_META
        await turn.client.read_text_file("/a")
        await turn.client.write_text_file("/a", "x")
        async with turn.client.create_terminal("/bin/true") as terminal:
            await terminal.output()
            await terminal.wait_for_exit()
            await terminal.kill()
        await turn.client.elicit_form("Who?", ElicitationSchema(properties={}))
        async with turn.client.elicit_url("Look", "https://example.org/"):
            pass
        async with turn.tool_call("Look") as call:
            await call.request_permission()
        params: JSON = {"_meta": turn.trace_meta}
        await turn.session.connection.request(ECHO, params)
        return StopReason.END_TURN

    answers: dict[str, JSONObject] = {
        "fs/read_text_file": {"content": ""},
        "terminal/create": {"terminalId": "t"},
        "terminal/output": {"output": "", "truncated": False},
        "terminal/wait_for_exit": {"exitCode": 0},
        "elicitation/create": {"action": "decline"},
        "session/request_permission": {"outcome": {"outcome": "cancelled"}},
    }
    able: JSONObject = {
        "fs": {"readTextFile": True, "writeTextFile": True},
        "terminal": True,
        "elicitation": {"form": {}, "url": {}},
    }
    asked: list[str] = []
    async with client_of(Agent(name="a", version="1", prompt=ask_everything), capabilities=able) as peer:
        meta: JSONObject = {**TRACE_META, "example.org/secret": 1}
        params: JSONObject = {
            "sessionId": await new_session(peer),
            "prompt": [{"type": "text", "text": "hi"}],
            "_meta": meta,
        }
        await peer.request("say", "session/prompt", params)
        while (message := await peer.receive()).get("id") != "say":
            if "id" in message:
                asked.append(str(message["method"]))
                sent = message["params"]
                assert isinstance(sent, dict)
                assert sent["_meta"] == TRACE_META, message
                await peer.answer(message, answers.get(asked[-1], {}))
        assert result_of(message) == {"stopReason": "end_turn"}
    assert asked == [
        "fs/read_text_file",
        "fs/write_text_file",
        *("terminal/create", "terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release"),
        *("elicitation/create", "elicitation/create"),
        "session/request_permission",
        "_example.org/echo",
    ]


@pytest.mark.spec("EXT-03")
async def test_without_a_trace_nothing_bears_one() -> None:
    async def ask(turn: PromptTurn) -> StopReason:
        assert turn.trace_meta is None
        await turn.client.read_text_file("/a")
        return StopReason.END_TURN

    async with client_of(Agent(name="a", version="1", prompt=ask), capabilities={"fs": {"readTextFile": True}}) as peer:
        session_id = await new_session(peer)
        metas: list[JSON] = [None, {}, {"x": 1}, {"traceparent": 5, "tracestate": None, "baggage": ["a"]}]
        for meta in metas:
            params: JSONObject = {"sessionId": session_id, "prompt": [{"type": "text", "text": "hi"}], "_meta": meta}
            await peer.request("say", "session/prompt", params)
            question = await peer.receive()
            assert question["params"] == {"sessionId": session_id, "path": "/a"}
            await peer.answer(question, {"content": ""})
            assert result_of(await peer.receive()) == {"stopReason": "end_turn"}


@pytest.mark.spec("EXT-03", "CONTENT-01")
async def test_a_trace_goes_from_the_client_through_the_agent_to_an_mcp_server() -> None:
    async def call_tool(turn: PromptTurn) -> StopReason:
        server = turn.session.mcp.connections[0]
        for meta in (turn.trace_meta, None):
            result = await server.call_tool("meta", meta=meta)
            await turn.send_content(result.content[0])
        return StopReason.END_TURN

    served = Agent(name="a", version="1", prompt=call_tool)
    server = McpServerStdio(name="s", command=sys.executable, args=["-I", "-S", NASTY, "ok", "-"], env=[])
    async with open_agent_and_client(served, make_client()) as (_, side):
        async with side.new_session("/", mcp_servers=[server]) as session:
            meta = with_trace_context({"example.org/secret": 1}, TRACE)
            async with session.prompt("go", meta=meta) as turn:
                said = [update async for update in turn]
    texts = [
        json.loads(update.content.text)
        for update in said
        if isinstance(update, AgentMessageChunk) and isinstance(update.content, TextContent)
    ]
    assert texts[0] == TRACE_META
    assert not {*TRACE_META} & {*(texts[1] or {})}


# ------------------------------------------------------------------------------------- announcing what one has added


@pytest.mark.spec("EXT-09", "EXT-11", "INIT-30")
async def test_an_extension_is_announced_in_the_meta_of_the_capabilities_and_asked_for_there() -> None:
    calls: list[JSON] = []

    async def prompt(turn: PromptTurn) -> StopReason:
        announced = turn.client.capabilities.meta
        if announced is not None and "example.org/echo" in announced:
            calls.append(await turn.session.connection.request(ECHO, 1))
        return StopReason.END_TURN

    served = Agent(name="a", version="1", prompt=prompt)
    for client in (
        make_client(),
        make_client(extensions=Extension().handlers, meta={"example.org/echo": {}}),
    ):
        async with open_agent_and_client(served, client) as (_, side), side.new_session(CWD) as session:
            async with session.prompt("hi") as turn:
                await turn.wait()
    assert calls == [1]
