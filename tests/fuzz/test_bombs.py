"""Messages made to hurt: each costs bounded memory and an error for itself, and the connection lives."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from typing import Final

import pytest
import trio

import acp_ref as acp
from acp_ref._converter import InvalidPayload, salvages, structure
from acp_ref._jsonrpc import JSON
from acp_ref.connection import Connection
from acp_ref.errors import ErrorCode, RemoteProtocolError, RequestError
from acp_ref.methods import AGENT, CLIENT, Role, extension_method
from acp_ref.permissions import answer_with
from acp_ref.reports import Report, ReportKind
from acp_ref.roots import Roots
from acp_ref.schema import AvailableCommandsUpdate, PermissionOptionKind, PromptRequest
from tests.fuzz.byte_transport import ByteTransport
from tests.fuzz.oracle import read_sent
from tests.test_connection import Setting

SIZE: Final = 150_000

BOMBS: Final[dict[str, bytes]] = {
    "deep arrays": b"[" * SIZE + b"]" * SIZE,
    "deep objects": b'{"a":' * SIZE + b"1" + b"}" * SIZE,
    "deep and never closed": b'[{"a":' * SIZE,
    "many empty arrays": b"[" + b"[]," * (SIZE // 3) + b"[]]",
    "many zeros": b"[" + b"0," * (SIZE // 2) + b"0]",
    "many keys": b"{" + b",".join(b'"%d":0' % n for n in range(SIZE // 10)) + b"}",
    "one key again and again": b"{" + b",".join([b'"a":0'] * (SIZE // 6)) + b"}",
    "a long string": b'"' + b"x" * SIZE + b'"',
    "a string of escapes": b'"' + b"\\u0000" * (SIZE // 6) + b'"',
    "a string of lone surrogates": b'"' + b"\\ud800" * (SIZE // 6) + b'"',
    "a long integer": b"1" * SIZE,
    "a long fraction": b"0." + b"1" * SIZE,
    "a large exponent": b"1e" + b"9" * 300,
    "an exponent without end": b"1e" + b"9" * SIZE,
}


@pytest.fixture(params=[AGENT, CLIENT], ids=["agent", "client"])
def setting(request: pytest.FixtureRequest) -> Setting:
    role = request.param
    assert isinstance(role, Role)
    return Setting(role)


@pytest.mark.field_note(1)
@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
async def test_a_bomb_costs_memory_in_proportion_to_its_size_and_one_error(setting: Setting, bomb: bytes) -> None:
    transport = ByteTransport()
    connection = Connection(transport, setting.role, setting.handlers, on_report=setting.reports.append)
    frames = [
        b'{"jsonrpc":"2.0","id":1,"method":"_test/echo","params":%b}' % bomb,
        b'{"jsonrpc":"2.0","id":%b,"method":"_test/echo"}' % bomb,
        b'{"jsonrpc":"2.0","method":"_test/tell","params":%b}' % bomb,
        b'{"jsonrpc":"2.0","id":1,"result":%b}' % bomb,
        b'{"jsonrpc":"2.0","id":%b,"result":1}' % bomb,
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"","data":%b}}' % bomb,
        b'{"jsonrpc":"2.0","id":2,"method":%b}' % bomb,
        bomb,
    ]
    size = sum(map(len, frames))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.run)
        gc.collect()
        tracemalloc.start()
        try:
            for frame in frames:
                transport.feed(frame + b"\n")
                await trio.testing.wait_all_tasks_blocked()
            _, peak = tracemalloc.get_traced_memory()
            transport.sent.clear()
            del setting.reports[:]
            gc.collect()
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 30 * max(map(len, frames)) + size + 50_000
        assert kept < 150_000  # the JSON codec keeps some keys
        transport.feed(b'{"jsonrpc":"2.0","id":3,"method":"initialize","params":{"protocolVersion":1}}\n')
        await transport.wait_sent(lambda frame: b'"id":3,' in frame)
        await connection.aclose()


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
async def test_a_request_with_a_bomb_in_it_is_answered_once(setting: Setting, bomb: bytes) -> None:
    async with setting.open() as (_, peer):
        await peer.send_frame(b'{"jsonrpc":"2.0","id":1,"method":"_test/echo","params":%b}' % bomb)
        answers = await peer.receive_all()
        assert [answer["id"] for answer in answers] == [1]
        await peer.request(2, "_test/echo", "still here")
        assert (await peer.receive())["result"] == "still here"


def test_a_million_faults_in_one_list_are_told_by_the_first_ones() -> None:
    million: list[JSON] = [0] * 1_000_000
    roots = ["relative"] * 100_000
    tracemalloc.start()
    try:
        with pytest.raises(InvalidPayload) as caught:
            structure(PromptRequest, {"sessionId": "s", "prompt": million})
        mended = salvages(AvailableCommandsUpdate, {"availableCommands": million})
        with pytest.raises(RequestError) as refused:
            Roots("/", roots)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(refused.value.data, dict)
    told = refused.value.data["errors"]
    assert isinstance(told, list)
    assert (len(caught.value.errors), len(mended), len(told)) == (20, 20, 20)
    assert peak < 3_000_000


def test_of_a_list_with_too_many_faults_to_tell_the_good_items_are_kept() -> None:
    good: JSON = {"name": "a", "description": ""}
    bad: list[JSON] = [0] * 100
    update = structure(AvailableCommandsUpdate, {"availableCommands": [*bad, good, *bad, good]})
    assert [command.name for command in update.available_commands] == ["a", "a"]


async def test_an_idle_connection_keeps_nothing_of_what_it_read_and_wrote(setting: Setting) -> None:
    transport = ByteTransport()
    connection = Connection(transport, setting.role, setting.handlers, on_report=setting.reports.append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.run)
        await trio.testing.wait_all_tasks_blocked()
        tracemalloc.start()
        try:
            transport.feed(b'{"jsonrpc":"2.0","method":"_x","params":"%b"}\n' % (b"x" * SIZE))
            connection.put_frame(b"x" * SIZE)
            await trio.testing.wait_all_tasks_blocked()
            transport.sent.clear()
            gc.collect()
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert kept < 20_000
        await connection.aclose()


async def test_what_is_reported_of_a_peers_data_is_short(setting: Setting) -> None:
    async with setting.open() as (_, peer):
        huge = "x" * 100_000
        await peer.send({"id": huge, "result": 1}, {"id": 1, "error": {"code": 1, "message": huge, "data": huge}})
        await peer.send({"method": huge})
        await peer.receive_all()
    assert len(setting.reports) == 3
    assert max(len(str(report)) for report in setting.reports) < 5_000


# ------------------------------------------------------------------------------------------- the limit is an option

AGENT_PROGRAM: Final = """
import acp_ref as acp, trio

async def prompt(turn):
    await turn.send_text("x" * int(turn.text.strip()))
    await turn.send_text("and out")
    return acp.StopReason.END_TURN

trio.run(lambda: acp.serve_agent(acp.Agent(name="a", version="1", prompt=prompt), max_frame_bytes=5_000))
"""


@pytest.mark.field_note(1)
async def test_a_message_beyond_the_limit_of_either_side_fails_alone() -> None:
    reports: list[Report] = []
    client = acp.Client(name="c", version="1", request_permission=answer_with(PermissionOptionKind.REJECT_ONCE))
    command = [sys.executable, "-c", AGENT_PROGRAM]
    with trio.fail_after(30):
        async with (
            acp.open_agent_process(command, client, on_report=reports.append, max_frame_bytes=3_000) as agent,
            agent.new_session("/") as session,
        ):
            async with session.prompt("1") as turn:
                assert await turn.text() == "xand out"
            async with session.prompt("4000") as turn:  # the client's limit: the update is lost, and told
                assert await turn.text() == "and out"
            assert [report.kind for report in reports] == [ReportKind.JUNK]
            with pytest.raises(RequestError, match="larger than this side accepts") as caught:  # the agent's
                async with session.prompt("1" + " " * 6000) as turn:
                    await turn.wait()
            assert caught.value.code == ErrorCode.INVALID_REQUEST
            async with session.prompt("2") as turn:
                assert await turn.text() == "xxand out"


async def test_a_request_of_ours_whose_response_is_beyond_the_limit_fails_alone() -> None:
    transport = ByteTransport(max_frame_bytes=1_000)
    ask = extension_method("_ask", JSON, JSON)
    setting = Setting(AGENT)
    connection = Connection(transport, AGENT, setting.handlers, on_report=setting.reports.append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.run)
        transport.feed(b'{"id":"i","method":"initialize","params":{"protocolVersion":1}}\n')
        await transport.wait_sent(lambda frame: b'"id":"i"' in frame)
        for body in (b'{"jsonrpc":"2.0","id":%d,"result":"%b"}', b'{"result":"%b","id":%d}'):
            request = await connection.send_request(ask, None)
            first, second = (request.id, b"x" * 1000) if body.startswith(b'{"j') else (b"x" * 1000, request.id)
            transport.feed(body % (first, second) + b"\n")
            with pytest.raises(RemoteProtocolError, match="larger than this side accepts"):
                await request.wait()
        request = await connection.send_request(ask, None)
        transport.feed(b'{"jsonrpc":"2.0","id":%d,"result":"small"}\n' % request.id)
        assert await request.wait() == "small"
        await connection.aclose()
    assert [message.get("method") for message in map(read_sent, transport.sent)] == [None, "_ask", "_ask", "_ask"]
