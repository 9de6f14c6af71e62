"""What the fuzzers found, case by case, so that it stays found."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from acp_ref import _jsonrpc as jsonrpc
from acp_ref._framing import FrameBuffer, OversizedFrame
from acp_ref._jsonrpc import JSON, JSONObject
from acp_ref.connection import Connection
from acp_ref.errors import ErrorCode, RemoteProtocolError, RequestError
from acp_ref.methods import AGENT, CLIENT, INITIALIZE, Role
from acp_ref.reports import ReportKind
from acp_ref.requests import IncomingRequest
from acp_ref.schema import InitializeRequest, ProtocolVersion
from tests.fuzz.byte_transport import ByteTransport
from tests.test_connection import ECHO, WAIT, Setting, code_of, result_of

DEEP = b"[" * 1000 + b"]" * 1000
DEEPER = b"[" * 3000 + b"]" * 3000


@pytest.fixture(params=[AGENT, CLIENT], ids=["agent", "client"])
def setting(request: pytest.FixtureRequest) -> Setting:
    role = request.param
    assert isinstance(role, Role)
    return Setting(role)


# ---------------------------------------------------------------------------------------- responses that cannot be read


@pytest.mark.field_note(24)
@pytest.mark.parametrize(
    "frame",
    [
        b'{"jsonrpc":"2.0","id":%b,"result":1}' % DEEP,
        b'{"jsonrpc":"2.0","id":4,"error":{"code":1,"message":"","data":%b}}' % DEEP,
        b'{"jsonrpc":"2.0","id":4,"result":%b}' % DEEPER,
        b'{"jsonrpc":"2.0","id":4,"result":1e999}',
        b'{"jsonrpc":"2.0","id":4,"result":NaN}',
        b'{"jsonrpc":"2.0","id":4,"result":"\xff"}',
    ],
)
async def test_a_response_to_nothing_is_harmless_however_odd_it_is(setting: Setting, frame: bytes) -> None:
    async with setting.open() as (_, peer):
        await peer.send_frame(frame)
        assert result_of(await peer.call(1, "_test/echo", "still here")) == "still here"


@pytest.mark.field_note(9, 10)
@pytest.mark.parametrize(
    "rest",
    [
        b'"result":%b}' % DEEPER,
        b'"result":NaN}',
        b'"result":[1e999]}',
        b'"result":%b}' % (b"1" * 5000),
        b'"result":"\xff"}',
        b'"error":{"code":1,',
        b'"result":1,"error":{"code":1,"message":""}}',
        b'"error":null}',
        b'"jsonrpc":"2.0"}',
    ],
)
async def test_a_request_whose_response_cannot_be_read_fails_instead_of_waiting_for_ever(
    setting: Setting, rest: bytes, autojump_clock: trio.testing.MockClock
) -> None:
    async with setting.open() as (connection, peer):
        request = await connection.send_request(ECHO, None)
        await peer.receive()
        await peer.send_frame(b'{"jsonrpc":"2.0","id":%d,' % request.id + rest)
        with trio.fail_after(5), pytest.raises(RemoteProtocolError, match="_test/echo cannot be read"):
            await request.wait()
        assert await peer.receive_all() == []


async def test_an_initialize_whose_response_cannot_be_read_may_be_tried_again() -> None:
    setting = Setting(CLIENT)
    async with setting.open(initialized=False) as (connection, peer):
        request = await connection.send_request(INITIALIZE, InitializeRequest(protocol_version=ProtocolVersion(1)))
        await peer.receive()
        await peer.request(7, "_test/echo", {})  # it waits behind the initialize
        await peer.send_frame(b'{"jsonrpc":"2.0","id":%d,"result":NaN}' % request.id)
        with pytest.raises(RemoteProtocolError):
            await request.wait()
        assert code_of(await peer.receive()) == ErrorCode.INVALID_REQUEST
        await setting.initialize(connection, peer)
        assert result_of(await peer.call(2, "_test/echo", 2)) == 2


async def test_a_response_with_a_null_method_is_a_response(setting: Setting) -> None:
    async with setting.open() as (connection, peer):
        request = await connection.send_request(ECHO, None)
        question = await peer.receive()
        await peer.send({**question, "method": None, "params": None, "result": "yes", "error": None})
        assert await request.wait() == "yes"
        await peer.send({"id": 99, "method": None, "result": 1}, {"id": 99, "method": None, "error": {"code": 1}})
        assert await peer.receive_all() == []


@pytest.mark.parametrize("far", [b"1e999", b"1" * 5000])
def test_what_holds_a_number_that_is_out_of_range_is_known_by_all_of_its_members(far: bytes) -> None:
    def known(frame: bytes) -> tuple[JSON, bool, bool]:
        message = jsonrpc.decode(frame.replace(b"FAR", far))
        assert isinstance(message, jsonrpc.InvalidMessage)
        return message.id, message.answer is not None, message.is_response

    assert known(b'{"params":[{}],"method":"x","id":5,"x":{"a":FAR}}') == (5, True, False)
    assert known(b'{"params":{},"x":[],"method":["x"],"id":FAR,"y":{}}') == (None, True, False)
    assert known(b'{"params":{"id":5},"x":[FAR],"method":"x","y":{}}') == (None, False, False)
    assert known(b'{"x":[{}],"result":FAR,"y":[],"id":"5","method":null,"z":{}}') == ("5", False, True)
    assert known(b'{"x":[{}],"error":{"code":FAR},"id":FAR}') == (None, False, True)
    assert known(b"[FAR]") == (None, True, False)
    assert known(b"FAR") == (None, True, False)


# ----------------------------------------------------------------------------------------- messages beyond the limit


def outline(head: bytes, tail: bytes = b"") -> tuple[JSON, bool, bool]:
    """The id, whether it is answered, whether it is a response."""
    message = jsonrpc.unreadable("too large", head, tail)
    return message.id, message.answer is not None, message.is_response


def test_a_message_too_large_to_be_read_is_known_by_its_beginning_or_its_end() -> None:
    assert outline(b'{"jsonrpc":"2.0","id":5,"method":"x","params":{"id":1') == (5, True, False)
    assert outline(b'\xef\xbb\xbf { "id" : "a\\"b" , "params" : [') == ('a"b', True, False)
    assert outline(b'{"jsonrpc":"2.0","method":"x","params":{"id":1,"a":"') == (None, False, False)
    assert outline(b'{"jsonrpc":"2.0","id":5,"result":{') == (5, False, True)
    assert outline(b'{"result":{"id":7,"a":"xxxx', b'xxxx"},"id":5,"jsonrpc":"2.0"}') == (5, False, True)
    assert outline(b'{"params":{"id":7,"a":"xxxx', b'xxxx"},"method":"x","id":"s"} \r') == ("s", True, False)
    assert outline(b'{"params":{"a":"xxxx', b'xxxx"},"method":"x"}') == (None, False, False)
    assert outline(b'{"params":{"a":"xxxx', b'xxxx,"id":5}}') == (None, True, False)  # the id of something inside
    assert outline(b'{"params":"xxxx', b'xxxx\\",\\"id\\":5}') == (None, True, False)  # it cannot be told
    assert outline(b'{"jsonrpc":"xxxx', b'xxxx","result":[1],"id":4}') == (None, True, False)
    assert outline(b"Welcome") == (None, True, False)
    assert outline(b'{"id":2,"error":"no","params":{', b'"a":[1]},"method":null}') == (2, False, True)
    assert outline(b'{"id":2,"method":null,"result":{', b'"a":[1]},"error":null}') == (2, False, True)
    long = "x" * 2000
    assert outline(b'{"id":"%b","method":"x","params":{' % long.encode()) == (long, True, False)
    assert outline(b'{"jsonrpc":"2.0","id":"%b","result":{' % long.encode()) == (long, False, True)
    assert outline(b'{"jsonrpc":"2.0","id":1%b,"result":{' % (b"0" * 2000)) == (None, False, True)


@pytest.mark.parametrize(
    "raw_id", [b"01", b'"\xff"', b'"\\q"', b'"\x01"', b"9999999999999999999", b"1.5", b"[1]", b"true"]
)
async def test_a_message_that_is_too_large_and_has_a_malformed_id_fails_alone(setting: Setting, raw_id: bytes) -> None:
    transport = ByteTransport(max_frame_bytes=1000)
    connection = Connection(transport, setting.role, setting.handlers, on_report=setting.reports.append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.run)
        transport.feed(b'{"jsonrpc":"2.0","id":%b,"method":"x","params":"%b"}\n' % (raw_id, b"x" * 1000))
        transport.feed(b'{"jsonrpc":"2.0","id":1,"method":"x"}\n')
        await transport.wait_sent(lambda frame: b'"id":1,' in frame)
        await connection.aclose()
    answers = [jsonrpc.loads(frame) for frame in transport.sent]
    assert [answer["id"] for answer in answers if isinstance(answer, dict)] == (
        [None, 1] if setting.role is AGENT else [1]
    )


async def test_a_message_nested_too_deeply_is_refused_under_its_own_id(setting: Setting) -> None:
    async with setting.open() as (_, peer):
        await peer.send_frame(
            b'{"jsonrpc":"2.0","id":5,"method":"_test/echo","params":%b}' % DEEPER,
            b'{"jsonrpc":"2.0","method":"_test/tell","params":%b}' % DEEPER,
        )
        messages = await peer.receive_all()
        assert [(message["id"], code_of(message)) for message in messages] == [(5, ErrorCode.INVALID_REQUEST)]


def test_single_bytes_without_a_newline_cost_no_more_memory_than_many_at_once() -> None:
    import tracemalloc

    buffer = FrameBuffer(max_frame_bytes=100_000)
    tracemalloc.start()
    try:
        for _ in range(99_999):
            buffer.feed(b"x")
        now, _ = tracemalloc.get_traced_memory()
        assert now < 200_000
        for _ in range(10_000):
            buffer.feed(b"x")
        [frame] = buffer.feed(b"tail\n")
        now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert frame == OversizedFrame(b"x" * 4096, b"x" * 4092 + b"tail", 110_003)
    assert now < 50_000
    assert peak < 400_000


@pytest.mark.parametrize("limit", [1, 100, 5000])
def test_what_is_kept_of_an_oversized_message_does_not_depend_on_its_chunks(limit: int) -> None:
    message = b"".join(b"%d " % number for number in range(3000))
    [at_once] = FrameBuffer(max_frame_bytes=limit).feed(message + b"\n")
    buffer = FrameBuffer(max_frame_bytes=limit)
    [by_bytes] = [frame for at in range(len(message) + 1) for frame in buffer.feed((message + b"\n")[at : at + 1])]
    assert by_bytes == at_once == OversizedFrame(message[:4096], message[-4096:], len(message))


# ------------------------------------------------------------------------------------------------- answers, exactly one


async def test_a_client_answers_an_invalid_request_with_a_null_id() -> None:
    async with Setting(CLIENT).open() as (_, peer):
        await peer.send({"jsonrpc": "1.0", "id": None, "method": "_test/echo"})
        assert [message["id"] for message in await peer.receive_all()] == [None]


async def test_what_waits_behind_an_initialize_that_is_never_answered_is_answered_in_the_end() -> None:
    setting = Setting(CLIENT)
    async with setting.open(initialized=False) as (connection, peer):
        await connection.send_request(INITIALIZE, InitializeRequest(protocol_version=ProtocolVersion(1)))
        await peer.receive()
        await peer.request(7, "_test/echo", {})
        assert await peer.receive_all() == []
        peer.close_send()
        assert code_of(await peer.receive()) == ErrorCode.REQUEST_CANCELLED


async def test_an_id_that_is_free_again_while_the_first_request_waits_behind_an_initialize_is_a_new_request() -> None:
    setting = Setting(CLIENT)
    async with setting.open(initialized=False) as (connection, peer):
        await connection.send_request(INITIALIZE, InitializeRequest(protocol_version=ProtocolVersion(1)))
        question = await peer.receive()
        await peer.request(3, "_test/echo", "first")
        await peer.notify("$/cancel_request", {"requestId": 3})
        assert code_of(await peer.receive()) == ErrorCode.REQUEST_CANCELLED
        await peer.request(3, "_test/echo", "second")
        await peer.answer(question, {"protocolVersion": 1})
        assert result_of(await peer.receive()) == "second"
        assert await peer.receive_all() == []


async def test_many_requests_behind_an_initialize_cost_linear_time() -> None:
    transport = ByteTransport()
    connection = Connection(transport, AGENT, Setting(AGENT).handlers)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.run)
        transport.feed(b'{"id":"i","method":"initialize","params":{"protocolVersion":1}}\n')
        transport.feed(b"".join(b'{"id":%d,"method":"_test/echo"}\n' % n for n in range(4_000)))
        await transport.wait_sent(lambda frame: b'"id":3999,' in frame)
        await connection.aclose()


async def test_a_handler_cut_short_by_the_end_of_the_connection_is_no_failure(setting: Setting) -> None:
    async def stream(request: IncomingRequest, params: JSON) -> JSON:
        while True:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(request.connection.request, WAIT, None)

    setting.handlers.on_request(WAIT, stream)
    async with setting.open(drain_timeout=1) as (_, peer):
        await peer.request(1, "_test/wait")
        await peer.receive()
        peer.close_send()
        assert code_of(await peer.receive()) == ErrorCode.REQUEST_CANCELLED
    assert setting.reports == []


@pytest.mark.parametrize("when", ["on_answered", "on_settled"])
async def test_what_follows_an_answer_may_fail_and_disturbs_nobody(setting: Setting, when: str) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    async def answer(request: IncomingRequest, params: JSON) -> JSON:
        request.on_answered(fail)
        return "answer"

    setting.handlers.on_request(WAIT, answer)
    async with setting.open() as (connection, peer):
        if when == "on_answered":
            assert result_of(await peer.call(1, "_test/wait")) == "answer"
        else:
            first = await connection.send_request(ECHO, None, on_settled=fail)
            second = await connection.send_request(ECHO, None, on_settled=fail)
            await peer.answer(await peer.receive(), "yes")
            assert await first.wait() == "yes"
            peer.close_send()
            with pytest.raises(trio.BrokenResourceError):
                await second.wait()
    assert {report.kind for report in setting.reports} == {ReportKind.HANDLER_FAILED}


# --------------------------------------------------------------------------------------------------- NaN and Infinity


@pytest.mark.field_note(9)
async def test_nan_in_the_data_of_an_error_is_left_out_and_reported(setting: Setting) -> None:
    async def refuse(request: IncomingRequest, params: JSON) -> JSON:
        raise RequestError(7, "refused", {"ratio": [float("nan")]})

    setting.handlers.on_request(WAIT, refuse)
    async with setting.open() as (_, peer):
        message: JSONObject = await peer.call(1, "_test/wait")
        assert message["error"] == {"code": 7, "message": "refused"}
        assert setting.kinds() == [ReportKind.HANDLER_FAILED]


@pytest.mark.field_note(9)
@pytest.mark.parametrize("text", [b"1e999", b"-1e999", b"[1e400]", b'{"a":123456789e999999}'])
def test_a_number_beyond_a_double_never_becomes_infinity(text: bytes) -> None:
    with pytest.raises(jsonrpc.Unreadable):
        jsonrpc.loads(text)
    assert jsonrpc.loads(b"[1.7976931348623157e308, 1e-999]") == [1.7976931348623157e308, 0.0]
