"""The Connection, in both roles: whatever it plays, it keeps the same promises."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

import pytest
import trio
import trio.testing

from acp_ref._jsonrpc import JSON, JSONObject
from acp_ref.connection import Connection
from acp_ref.errors import (
    AuthRequired,
    ErrorCode,
    LocalProtocolError,
    RemoteProtocolError,
    RequestError,
)
from acp_ref.handlers import Handlers
from acp_ref.methods import AGENT, CLIENT, INITIALIZE, Role, extension_method, extension_notification
from acp_ref.reports import Report, ReportKind
from acp_ref.requests import Answered, IncomingRequest
from acp_ref.schema import InitializeRequest, InitializeResponse, ProtocolVersion
from acp_ref.testing import ScriptedPeer, open_scripted_peer
from acp_ref.transports import memory_transport_pair

ECHO = extension_method("_test/echo", JSON, JSON)
WAIT = extension_method("_test/wait", JSON, JSON)
TELL = extension_notification("_test/tell", JSON)

Reports: TypeAlias = list[Report]


async def echo(request: IncomingRequest, params: JSON) -> JSON:
    return params


async def initialize(request: IncomingRequest, params: InitializeRequest) -> InitializeResponse:
    request.connection.counterpart = params.client_capabilities
    return InitializeResponse(protocol_version=params.protocol_version)


class Setting:
    """A connection in one role, opened and initialized on demand."""

    def __init__(self, role: Role) -> None:
        self.role = role
        self.reports: Reports = []
        self.handlers = Handlers()
        self.handlers.on_request(ECHO, echo)
        if role is AGENT:
            self.handlers.on_request(INITIALIZE, initialize)

    @asynccontextmanager
    async def open(
        self, *, initialized: bool = True, drain_timeout: float = 0.0
    ) -> AsyncGenerator[tuple[Connection, ScriptedPeer], None]:
        async with open_scripted_peer(
            self.role, self.handlers, on_report=self.reports.append, drain_timeout=drain_timeout
        ) as (connection, peer):
            if initialized:
                await self.initialize(connection, peer)
            yield connection, peer

    async def initialize(self, connection: Connection, peer: ScriptedPeer) -> None:
        if self.role is AGENT:
            answer = await peer.call("init", "initialize", {"protocolVersion": 1})
            assert answer["id"] == "init"
        else:
            request = await connection.send_request(INITIALIZE, InitializeRequest(protocol_version=ProtocolVersion(1)))
            await peer.answer(await peer.receive(), {"protocolVersion": 1})
            connection.counterpart = (await request.wait()).agent_capabilities

    def kinds(self) -> list[ReportKind]:
        return [report.kind for report in self.reports]


@pytest.fixture(params=[AGENT, CLIENT], ids=["agent", "client"])
def setting(request: pytest.FixtureRequest) -> Setting:
    role = request.param
    assert isinstance(role, Role)
    return Setting(role)


def result_of(message: JSONObject) -> JSON:
    assert "error" not in message, message
    return message["result"]


def code_of(message: JSONObject) -> JSON:
    error = message["error"]
    assert isinstance(error, dict)
    assert "result" not in message
    return error["code"]


# ------------------------------------------------------------------------------------------------------- envelopes


@pytest.mark.spec("GEN-01", "ERR-01", "ERR-03", "ERR-05")
@pytest.mark.field_note(21)
@pytest.mark.parametrize("request_id", ["1", 1, -7, 9007199254740993, "", None, 2**63 - 1])
async def test_an_answer_bears_the_id_of_its_request_type_and_value(setting: Setting, request_id: JSON) -> None:
    async with setting.open() as (_, peer):
        message = await peer.call(request_id, "_test/echo", {"a": 1})
        assert message == {"jsonrpc": "2.0", "id": request_id, "result": {"a": 1}}
        assert type(message["id"]) is type(request_id)


@pytest.mark.spec("ERR-03")
@pytest.mark.field_note(21)
async def test_the_ids_1_and_the_string_1_are_two_requests(setting: Setting) -> None:
    async with setting.open() as (_, peer):
        await peer.send(
            {"jsonrpc": "2.0", "id": "1", "method": "_test/echo", "params": ["string"]},
            {"jsonrpc": "2.0", "id": 1, "method": "_test/echo", "params": ["number"]},
        )
        answers = await peer.receive_all()
        assert {repr(answer["id"]): answer["result"] for answer in answers} == {"'1'": ["string"], "1": ["number"]}


@pytest.mark.spec("ERR-04", "ERR-05")
@pytest.mark.field_note(21)
@pytest.mark.parametrize("request_id", [1.5, 1.0, True, [1], {"a": 1}, 2**63])
async def test_an_id_of_another_kind_is_refused_and_the_connection_lives(setting: Setting, request_id: JSON) -> None:
    async with setting.open() as (_, peer):
        await peer.request(request_id, "_test/echo", {})
        refused = await peer.receive_all()
        assert [(message["id"], code_of(message)) for message in refused] == (
            [(None, -32600)] if setting.role is AGENT else []
        )
        assert result_of(await peer.call(2, "_test/echo", "still here")) == "still here"


@pytest.mark.spec("TRANS-01", "TRANS-05")
@pytest.mark.field_note(23, 27)
@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"{", ErrorCode.PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', ErrorCode.PARSE_ERROR),
        (b'{"jsonrpc":"2.0","id":1,"method":"_test/echo","params":{"x":NaN}}', ErrorCode.PARSE_ERROR),
        (b'[{"jsonrpc":"2.0","id":1,"method":"_test/echo"}]', ErrorCode.INVALID_REQUEST),
        (b"[]", ErrorCode.INVALID_REQUEST),
        (b"42", ErrorCode.INVALID_REQUEST),
        (b"{}", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_what_is_no_message_is_answered_by_an_agent_and_only_reported_by_a_client(
    setting: Setting, frame: bytes, code: int
) -> None:
    async with setting.open() as (_, peer):
        await peer.send_frame(frame)
        answers = await peer.receive_all()
        assert [(message["id"], code_of(message)) for message in answers] == (
            [(None, code)] if setting.role is AGENT else []
        )
        assert setting.kinds() == [ReportKind.JUNK]
        assert result_of(await peer.call(1, "_test/echo", 1)) == 1


@pytest.mark.field_note(24)
@pytest.mark.parametrize(
    "frame",
    [
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}',
        b'{"jsonrpc":"2.0","id":7,"result":{}}',
        b'{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":1,"message":""}}',
        b'{"jsonrpc":"2.0","id":7}',
        b'{"jsonrpc":"2.0","id":true,"result":1}',
        b'{"jsonrpc":"2.0","id":"0","result":1}',
        b'{"jsonrpc":"2.0","id":0.0,"result":1}',
    ],
)
@pytest.mark.spec("ERR-01", "ERR-02")
async def test_a_response_is_never_answered(setting: Setting, frame: bytes) -> None:
    async with setting.open() as (_, peer):
        await peer.send_frame(frame)
        assert await peer.receive_all() == []
        assert len(setting.reports) == 1


@pytest.mark.field_note(24)
async def test_two_connections_that_are_sent_garbage_fall_silent(autojump_clock: trio.testing.MockClock) -> None:
    from acp_ref.transports import memory_transport_pair

    ours, theirs = memory_transport_pair()
    reports: Reports = []
    async with trio.open_nursery() as nursery:
        agent = Connection(ours, AGENT, Handlers(), on_report=reports.append)
        client = Connection(theirs, CLIENT, Handlers(), on_report=reports.append)
        nursery.start_soon(agent.run)
        nursery.start_soon(client.run)
        await trio.testing.wait_all_tasks_blocked()
        agent.put_frame(b"garbage")
        client.put_frame(b"garbage")
        await trio.testing.wait_all_tasks_blocked()
        assert agent.statistics().frames_sent + client.statistics().frames_sent == 3  # and one -32700 of the agent's
        await client.aclose()
        await agent.aclose()


@pytest.mark.field_note(26)
async def test_a_missing_version_is_accepted_and_another_one_is_not(setting: Setting) -> None:
    async with setting.open() as (_, peer):
        await peer.send({"id": 1, "method": "_test/echo", "params": 5})
        assert result_of(await peer.receive()) == 5
        await peer.send({"jsonrpc": "1.0", "id": 2, "method": "_test/echo", "params": 5})
        assert code_of(await peer.receive()) == ErrorCode.INVALID_REQUEST


@pytest.mark.spec("ERR-02", "EXT-10", "CANCEL-19")
@pytest.mark.field_note(28)
async def test_a_notification_is_never_answered_known_or_not(setting: Setting) -> None:
    def fail(connection: Connection, params: JSON) -> None:
        raise RuntimeError("a bug")

    setting.handlers.on_notification(TELL, fail)
    async with setting.open() as (_, peer):
        await peer.notify("_x.ai/mcp/servers_updated")
        await peer.notify("$/whatever")
        await peer.notify("session/update", {"bad": 1})
        await peer.notify("session/cancel", {"bad": 1})
        await peer.notify("_test/tell", {})
        assert await peer.receive_all() == []


@pytest.mark.spec("EXT-05", "EXT-07", "EXT-08")
@pytest.mark.field_note(28)
async def test_an_unknown_request_is_answered_method_not_found(setting: Setting) -> None:
    async with setting.open() as (_, peer):
        for method in ("_unknown", "nonsense", "$/nonsense"):
            message = await peer.call(5, method)
            assert (message["id"], code_of(message)) == (5, ErrorCode.METHOD_NOT_FOUND)


async def test_a_duplicate_id_in_flight_is_refused_without_touching_the_first(setting: Setting) -> None:
    release = trio.Event()

    async def wait(request: IncomingRequest, params: JSON) -> JSON:
        await release.wait()
        return "first"

    setting.handlers.on_request(WAIT, wait)
    async with setting.open() as (_, peer):
        await peer.request(1, "_test/wait")
        await peer.request(1, "_test/echo")
        refused = await peer.receive()
        assert (refused["id"], code_of(refused)) == (None, ErrorCode.INVALID_REQUEST)
        release.set()
        assert await peer.receive() == {"jsonrpc": "2.0", "id": 1, "result": "first"}


# ------------------------------------------------------------------------------------------------------- ordering


@pytest.mark.field_note(32, 34)
async def test_everything_before_an_answer_was_handled_in_order_when_the_request_returns(setting: Setting) -> None:
    told: list[JSON] = []
    setting.handlers.on_notification(TELL, lambda connection, params: told.append(params))
    async with setting.open() as (connection, peer):
        request = await connection.send_request(ECHO, None)
        question = await peer.receive()
        await peer.send(
            *({"jsonrpc": "2.0", "method": "_test/tell", "params": n} for n in range(500)),
            {"jsonrpc": "2.0", "id": question["id"], "result": "done"},
            {"jsonrpc": "2.0", "method": "_test/tell", "params": "after"},
        )
        assert await request.wait() == "done"
        assert told[:500] == [*range(500)]


@pytest.mark.field_note(35)
async def test_a_handler_may_call_the_peer_back_and_the_reader_goes_on(setting: Setting) -> None:
    async def ask(request: IncomingRequest, params: JSON) -> JSON:
        return await request.connection.request(ECHO, "and you?")

    setting.handlers.on_request(WAIT, ask)
    async with setting.open() as (_, peer):
        await peer.request(1, "_test/wait")
        question = await peer.receive()
        assert result_of(await peer.call(2, "_test/echo", "meanwhile")) == "meanwhile"
        await peer.answer(question, "me too")
        assert await peer.receive() == {"jsonrpc": "2.0", "id": 1, "result": "me too"}


async def test_a_plain_def_handler_does_its_first_part_in_wire_order(setting: Setting) -> None:
    order: list[JSON] = []

    def accept(request: IncomingRequest, params: JSON) -> Awaitable[JSON]:
        order.append("accepted")

        async def later() -> JSON:
            order.append("awaited")
            return None

        return later()

    setting.handlers.on_request(WAIT, accept)
    setting.handlers.on_notification(TELL, lambda connection, params: order.append("told"))
    async with setting.open() as (_, peer):
        await peer.send({"jsonrpc": "2.0", "id": 1, "method": "_test/wait"}, {"jsonrpc": "2.0", "method": "_test/tell"})
        await peer.receive()
        assert order == ["accepted", "told", "awaited"]


async def test_a_handler_that_need_not_wait_answers_in_wire_order_and_without_a_task(setting: Setting) -> None:
    order: list[JSON] = []

    def at_once(request: IncomingRequest, params: JSON) -> Awaitable[JSON]:
        order.append("answered")
        return Answered("now")

    setting.handlers.on_request(WAIT, at_once)
    setting.handlers.on_notification(TELL, lambda connection, params: order.append("told"))
    async with setting.open() as (_, peer):
        await peer.send({"jsonrpc": "2.0", "id": 1, "method": "_test/wait"}, {"jsonrpc": "2.0", "method": "_test/tell"})
        assert result_of(await peer.receive()) == "now"
        assert order == ["answered", "told"]
        assert await Answered("later") == "later"


async def test_what_must_follow_an_answer_follows_it_at_once(setting: Setting) -> None:
    async def answer(request: IncomingRequest, params: JSON) -> JSON:
        request.on_answered(lambda: request.connection.put_notification(TELL, "after"))
        return "answer"

    setting.handlers.on_request(WAIT, answer)
    async with setting.open() as (_, peer):
        await peer.request(1, "_test/wait")
        assert result_of(await peer.receive()) == "answer"
        assert (await peer.receive())["params"] == "after"


async def test_what_must_follow_an_answer_follows_also_when_something_before_it_fails(setting: Setting) -> None:
    def fail() -> None:
        raise RuntimeError("a bug")

    async def answer(request: IncomingRequest, params: JSON) -> JSON:
        request.on_answered(fail)
        request.on_answered(lambda: request.connection.put_notification(TELL, "after"))
        return "answer"

    setting.handlers.on_request(WAIT, answer)
    async with setting.open() as (_, peer):
        await peer.request(1, "_test/wait")
        assert result_of(await peer.receive()) == "answer"
        assert (await peer.receive())["params"] == "after"
    assert setting.kinds() == [ReportKind.HANDLER_FAILED]


@pytest.mark.field_note(30)
async def test_a_failing_notification_handler_is_reported_and_the_next_one_runs(setting: Setting) -> None:
    told: list[JSON] = []

    def tell(connection: Connection, params: JSON) -> None:
        if params == 0:
            raise RuntimeError("a bug")
        told.append(params)

    setting.handlers.on_notification(TELL, tell)
    async with setting.open() as (_, peer):
        await peer.send(*({"jsonrpc": "2.0", "method": "_test/tell", "params": n} for n in range(3)))
        assert result_of(await peer.call(1, "_test/echo", 1)) == 1
        assert told == [1, 2]
        assert setting.kinds() == [ReportKind.HANDLER_FAILED]
        assert isinstance(setting.reports[0].error, RuntimeError)


# ----------------------------------------------------------------------------------------------------------- errors


@pytest.mark.spec("ERR-08", "ERR-09")
@pytest.mark.field_note(30, 88)
async def test_a_bug_in_a_handler_tells_the_peer_nothing_of_the_inside(setting: Setting) -> None:
    async def fail(request: IncomingRequest, params: JSON) -> JSON:
        raise RuntimeError("the password is hunter2")

    setting.handlers.on_request(WAIT, fail)
    async with setting.open() as (_, peer):
        message = await peer.call(1, "_test/wait")
        assert message["error"] == {"code": -32603, "message": "Internal error"}
        assert setting.kinds() == [ReportKind.HANDLER_FAILED]
        assert result_of(await peer.call(2, "_test/echo", 1)) == 1


@pytest.mark.spec("ERR-06", "ERR-07", "ERR-09")
async def test_an_error_of_a_handler_travels_whole_also_out_of_a_nursery(setting: Setting) -> None:
    async def fail(request: IncomingRequest, params: JSON) -> JSON:
        async with trio.open_nursery():
            raise RequestError(12345, "Out of cheese", {"cheddar": None})

    setting.handlers.on_request(WAIT, fail)
    async with setting.open() as (_, peer):
        message = await peer.call(1, "_test/wait")
        assert message["error"] == {"code": 12345, "message": "Out of cheese", "data": {"cheddar": None}}


@pytest.mark.spec("ERR-06", "ERR-10")
async def test_a_peers_error_is_raised_as_it_is(setting: Setting) -> None:
    async with setting.open() as (connection, peer):
        errors: list[tuple[JSONObject, type[RequestError]]] = [
            ({"code": -32000, "message": "log in"}, AuthRequired),
            ({"code": 77, "message": "odd", "data": None}, RequestError),
        ]
        for error, kind in errors:
            request = await connection.send_request(ECHO, None)
            question = await peer.receive()
            await peer.send({"jsonrpc": "2.0", "id": question["id"], "error": error})
            with pytest.raises(kind) as caught:
                await request.wait()
            assert (caught.value.code, caught.value.message, caught.value.has_data) == (
                error["code"],
                error["message"],
                "data" in error,
            )


async def test_a_result_that_is_not_json_is_an_internal_error_and_is_not_lost(setting: Setting) -> None:
    async def odd(request: IncomingRequest, params: JSON) -> JSON:
        return float("nan")

    setting.handlers.on_request(WAIT, odd)
    async with setting.open() as (_, peer):
        assert code_of(await peer.call(1, "_test/wait")) == ErrorCode.INTERNAL_ERROR


# ----------------------------------------------------------------------------------------------------- cancellation


@pytest.mark.spec("CANCEL-11", "CANCEL-13", "CANCEL-15")
@pytest.mark.field_note(85)
async def test_a_cancelled_request_is_answered_once_with_request_cancelled(setting: Setting) -> None:
    async def wait(request: IncomingRequest, params: JSON) -> JSON:
        await trio.sleep_forever()
        return None

    setting.handlers.on_request(WAIT, wait)
    async with setting.open() as (_, peer):
        await peer.request(5, "_test/wait")
        await peer.notify("$/cancel_request", {"requestId": "5"})  # another id
        await peer.notify("$/cancel_request", {"requestId": 5.0})  # no id
        await peer.notify("$/cancel_request", {})
        assert await peer.receive_all() == []
        await peer.notify("$/cancel_request", {"requestId": 5})
        message = await peer.receive()
        assert (message["id"], code_of(message)) == (5, ErrorCode.REQUEST_CANCELLED)
        await peer.notify("$/cancel_request", {"requestId": 5})
        assert await peer.receive_all() == []


@pytest.mark.spec("CANCEL-13", "CANCEL-15")
@pytest.mark.field_note(80)
async def test_a_cancellation_in_the_same_chunk_is_never_lost(setting: Setting) -> None:
    reached: list[int] = []

    async def wait(request: IncomingRequest, params: JSON) -> JSON:
        await trio.lowlevel.checkpoint()
        reached.append(1)
        return None

    setting.handlers.on_request(WAIT, wait)
    async with setting.open() as (_, peer):
        for n in range(200):
            await peer.send(
                {"jsonrpc": "2.0", "id": n, "method": "_test/wait"},
                {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": n}},
            )
        answers = await peer.receive_all()
        assert [code_of(answer) for answer in answers] == [ErrorCode.REQUEST_CANCELLED] * 200
        assert reached == []


@pytest.mark.spec("CANCEL-15", "CANCEL-20")
async def test_a_handler_that_finishes_all_the_same_is_answered_with_its_result(setting: Setting) -> None:
    async def stubborn(request: IncomingRequest, params: JSON) -> JSON:
        with suppress(trio.Cancelled):
            await trio.sleep_forever()
        return "partial"

    setting.handlers.on_request(WAIT, stubborn)
    async with setting.open() as (_, peer):
        await peer.request(1, "_test/wait")
        await peer.notify("$/cancel_request", {"requestId": 1})
        assert result_of(await peer.receive()) == "partial"


@pytest.mark.spec("CANCEL-11", "CANCEL-12", "CANCEL-16", "CANCEL-21")
@pytest.mark.field_note(85)
async def test_a_cancelled_caller_tells_the_peer_and_drops_the_late_answer(setting: Setting) -> None:
    async with setting.open() as (connection, peer):
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connection.request, ECHO, None)
                question = await peer.receive()
                scope.cancel()
        cancellation = await peer.receive()
        assert (cancellation["method"], cancellation["params"]) == ("$/cancel_request", {"requestId": question["id"]})
        assert connection.statistics().requests_pending == 1  # the id stays taken
        await peer.answer(question, "late")
        assert await peer.receive_all() == []
        assert connection.statistics().requests_pending == 0
        assert setting.reports == []
        request = await connection.send_request(ECHO, None)
        assert (await peer.receive())["id"] != question["id"]
        request.cancel()


# ---------------------------------------------------------------------------------------------------- end of input


@pytest.mark.field_note(10)
async def test_at_the_end_of_input_what_was_read_counts_and_waiters_fail(setting: Setting) -> None:
    async with setting.open() as (connection, peer):
        first = await connection.send_request(ECHO, 1)
        second = await connection.send_request(ECHO, 2)
        question = await peer.receive()
        await peer.answer(question, "yes")
        peer.close_send()
        assert await first.wait() == "yes"
        with pytest.raises(trio.BrokenResourceError, match="closed the connection"):
            await second.wait()
        with pytest.raises(trio.BrokenResourceError):
            await connection.request(ECHO, 3)
        with pytest.raises(trio.BrokenResourceError):
            await connection.notify(TELL, 3)


async def test_at_the_end_of_input_requests_may_finish_for_a_while_and_are_cancelled_then(
    setting: Setting, autojump_clock: trio.testing.MockClock
) -> None:
    async def wait(request: IncomingRequest, params: JSON) -> JSON:
        assert isinstance(params, float)
        await trio.sleep(params)
        return params

    setting.handlers.on_request(WAIT, wait)
    async with setting.open(drain_timeout=1.0) as (_, peer):
        await peer.request(1, "_test/wait", 0.5)
        await peer.request(2, "_test/wait", 100.0)
        peer.close_send()
        start = trio.current_time()
        assert result_of(await peer.receive()) == 0.5
        assert code_of(await peer.receive()) == ErrorCode.REQUEST_CANCELLED
        assert trio.current_time() - start == pytest.approx(1.0)


async def test_closing_it_yourself_is_told_apart_from_the_peers_end(setting: Setting) -> None:
    async with setting.open() as (connection, peer):
        request = await connection.send_request(ECHO, 1)
        await peer.receive()
        await connection.notify(TELL, "last words")
        await connection.aclose()
        await connection.aclose()
        with pytest.raises(trio.ClosedResourceError):
            await request.wait()
        assert (await peer.receive())["params"] == "last words"
        with pytest.raises(trio.EndOfChannel):
            await peer.receive()


async def test_who_waits_for_room_learns_that_the_connection_was_cancelled(setting: Setting) -> None:
    ours, _theirs = memory_transport_pair(0)
    connection = Connection(ours, setting.role, setting.handlers)
    big = b'{"jsonrpc":"2.0","method":"_big","params":"%s"}' % (b"x" * 70_000)

    async def send() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await connection.send_frame(big)

    async with trio.open_nursery() as nursery:
        running = trio.CancelScope()

        async def run(*, task_status: trio.TaskStatus[None]) -> None:
            with running:
                await connection.run(task_status=task_status)

        await nursery.start(run)
        await connection.send_frame(big)  # is being written
        await trio.testing.wait_all_tasks_blocked()
        await connection.send_frame(big)  # fills the outbox
        nursery.start_soon(send)
        await trio.testing.wait_all_tasks_blocked()
        kept = connection.statistics().outbox_bytes
        running.cancel()
    connection.put_frame(big)
    assert connection.statistics().outbox_bytes == kept


async def test_a_handler_that_fails_while_the_connection_is_cancelled_brings_nothing_else_down(
    setting: Setting,
) -> None:
    async def fail(request: IncomingRequest, params: JSON) -> JSON:
        async def child() -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise KeyError("torn down")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(child)
            await trio.sleep_forever()
        return None

    setting.handlers.on_request(WAIT, fail)
    with trio.CancelScope() as scope:
        async with setting.open() as (_, peer):
            await peer.request(1, "_test/wait")
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert setting.kinds() == [ReportKind.HANDLER_FAILED]


@pytest.mark.field_note(13)
async def test_a_peer_that_stops_reading_ends_the_connection_once(setting: Setting) -> None:
    async with setting.open() as (connection, peer):
        await peer.aclose()
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(100):
            with pytest.raises((trio.BrokenResourceError, trio.ClosedResourceError)):
                await connection.notify(TELL, "anybody?")
        assert setting.reports == []


# -------------------------------------------------------------------------------------------------------- lifecycle


@pytest.mark.spec("GEN-02", "INIT-01")
@pytest.mark.field_note(41)
async def test_nothing_comes_before_initialize(setting: Setting) -> None:
    async with setting.open(initialized=False) as (connection, peer):
        message = await peer.call(1, "_test/echo")
        assert (message["id"], code_of(message)) == (1, ErrorCode.INVALID_REQUEST)
        await peer.notify("_test/tell")
        assert await peer.receive_all() == []
        with pytest.raises(LocalProtocolError, match="not initialized"):
            await connection.request(ECHO, 1)
        with pytest.raises(LocalProtocolError):
            await connection.notify(TELL, 1)
        assert await peer.receive_all() == []
        await setting.initialize(connection, peer)
        assert result_of(await peer.call(2, "_test/echo", 2)) == 2


@pytest.mark.spec("INIT-29")
@pytest.mark.field_note(41)
async def test_a_second_initialize_is_refused(setting: Setting) -> None:
    async with setting.open() as (connection, peer):
        if setting.role is AGENT:
            message = await peer.call(9, "initialize", {"protocolVersion": 1, "clientCapabilities": {"terminal": True}})
            assert code_of(message) == ErrorCode.INVALID_REQUEST
        else:
            with pytest.raises(LocalProtocolError):
                await connection.request(INITIALIZE, InitializeRequest(protocol_version=ProtocolVersion(1)))
            assert await peer.receive_all() == []


async def test_requests_behind_an_initialize_in_flight_wait_for_it() -> None:
    setting = Setting(AGENT)
    release = trio.Event()

    async def slow(request: IncomingRequest, params: InitializeRequest) -> InitializeResponse:
        await release.wait()
        return await initialize(request, params)

    setting.handlers.on_request(INITIALIZE, slow)
    async with setting.open(initialized=False) as (_, peer):
        await peer.send(
            {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}},
            {"jsonrpc": "2.0", "id": 2, "method": "_test/echo", "params": 2},
            {"jsonrpc": "2.0", "id": 3, "method": "_test/echo", "params": 3},
            {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 3}},
        )
        cancelled = await peer.receive()
        assert (cancelled["id"], code_of(cancelled)) == (3, ErrorCode.REQUEST_CANCELLED)
        assert await peer.receive_all() == []
        release.set()
        assert [message["id"] for message in await peer.receive_all()] == [1, 2]


async def test_a_failed_initialize_may_be_tried_again() -> None:
    setting = Setting(AGENT)
    async with setting.open(initialized=False) as (connection, peer):
        assert code_of(await peer.call(1, "initialize", {})) == ErrorCode.INVALID_PARAMS
        await setting.initialize(connection, peer)


async def test_a_result_of_the_wrong_shape_names_the_place() -> None:
    setting = Setting(CLIENT)
    async with setting.open(initialized=False) as (connection, peer):
        request = await connection.send_request(INITIALIZE, InitializeRequest(protocol_version=ProtocolVersion(1)))
        await peer.answer(await peer.receive(), {"protocolVersion": "1.0"})
        with pytest.raises(RemoteProtocolError, match=r"\$\.protocolVersion"):
            await request.wait()


# ------------------------------------------------------------------------------------------------ cost and pressure


async def test_a_burst_of_updates_takes_few_writes_and_no_tasks(setting: Setting) -> None:
    async with setting.open() as (connection, peer):
        before = connection.statistics()
        for n in range(400):
            await connection.notify(TELL, n)
        assert [message["params"] for message in await peer.receive_all()] == [*range(400)]
        after = connection.statistics()
        assert after.writes - before.writes <= 2
        assert after.frames_sent - before.frames_sent == 400
        await peer.send(*({"jsonrpc": "2.0", "method": "_test/tell"} for _ in range(400)))
        await trio.testing.wait_all_tasks_blocked()
        assert connection.statistics().requests_served == after.requests_served


async def test_a_single_update_leaves_at_the_next_turn_of_the_scheduler(setting: Setting) -> None:
    async with setting.open() as (connection, _):
        before = connection.statistics().writes
        await trio.testing.wait_all_tasks_blocked()
        await connection.notify(TELL, 1)
        for _ in range(2):  # trio runs the tasks of one turn in any order
            await trio.lowlevel.checkpoint()
        assert connection.statistics().writes == before + 1


@pytest.mark.field_note(15)
async def test_a_full_outbox_holds_the_sender_and_never_the_reader(setting: Setting) -> None:
    from acp_ref.transports import memory_transport_pair

    ours, theirs = memory_transport_pair(buffer=0)
    connection = Connection(ours, setting.role, setting.handlers, on_report=setting.reports.append, high_water=1000)
    sent: list[int] = []

    async def flood() -> None:
        for n in range(100):
            await connection.notify(TELL, "x" * 100)
            sent.append(n)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.run)
        peer = ScriptedPeer(theirs)
        await setting.initialize(connection, peer)
        nursery.start_soon(flood)
        await trio.testing.wait_all_tasks_blocked()
        assert len(sent) < 30
        with trio.fail_after(5):
            for n in range(50):  # the reader goes on all the same
                await peer.request(n, "_test/echo", n)
        await trio.testing.wait_all_tasks_blocked()
        assert len(sent) < 30
        messages: list[JSONObject] = []
        while len(messages) < 150:
            messages.append(await peer.receive())
        assert len(sent) == 100
        assert sorted(m["result"] for m in messages if "result" in m) == [*range(50)]  # type: ignore[type-var]
        await connection.aclose()


async def test_a_sender_cancelled_while_it_waits_has_sent_nothing_or_all(setting: Setting) -> None:
    from acp_ref.transports import memory_transport_pair

    ours, theirs = memory_transport_pair(buffer=0)
    connection = Connection(ours, setting.role, setting.handlers, on_report=setting.reports.append, high_water=100)
    sent: list[int] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.run)
        peer = ScriptedPeer(theirs)
        await setting.initialize(connection, peer)
        with trio.CancelScope() as scope:

            async def flood() -> None:
                for n in range(100):
                    await connection.notify(TELL, f"{n}" + "x" * 200)
                    sent.append(n)

            nursery.start_soon(flood)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.deadline = float("inf")
            scope.cancel()
        received = await peer.receive()
        assert isinstance(received["params"], str)
        assert received["params"].startswith("0x")
        nursery.cancel_scope.cancel()
