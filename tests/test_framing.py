"""Frames and envelopes: bytes in, messages out, tested without a loop.

https://agentclientprotocol.com/protocol/transports#stdio
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_ref import _jsonrpc as jsonrpc
from acp_ref._framing import Frame, FrameBuffer, OversizedFrame
from acp_ref._jsonrpc import JSON, JSONObject
from acp_ref.errors import ErrorCode
from tests.conversations import CWD, client_of, code_of, new_session, parrot, prompt
from tests.test_prompt_turn import served


def frames_of(chunks: Iterable[bytes], max_frame_bytes: int = 1 << 20) -> list[Frame]:
    buffer = FrameBuffer(max_frame_bytes)
    frames = [frame for chunk in chunks for frame in buffer.feed(chunk)]
    return [*frames, *buffer.end()]


@pytest.mark.spec("TRANS-06")
@given(st.lists(st.binary(max_size=40).filter(lambda line: b"\n" not in line), max_size=8), st.data())
def test_frames_are_the_same_however_the_stream_is_cut(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"\n".join(lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    chunks = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    expected = [line for line in (line.removesuffix(b"\r") for line in lines) if line and not line.isspace()]
    assert frames_of(chunks) == expected


@pytest.mark.spec("TRANS-06", "TRANS-07")
@pytest.mark.field_note(6)
def test_only_the_newline_byte_ends_a_message() -> None:
    text = "a\u2028b\u2029c\x85d\x0be\x0cf\rg"
    line = jsonrpc.dumps({"text": text})
    assert b"\n" not in jsonrpc.dumps({"text": "two\nlines"})
    (frame,) = frames_of([line + b"\n"])
    assert isinstance(frame, bytes)
    assert jsonrpc.loads(frame) == {"text": text}


@pytest.mark.spec("TRANS-01", "TRANS-06")
@pytest.mark.field_note(7)
def test_utf_8_with_windows_line_ends_survives_any_locale(tmp_path: Path) -> None:
    request: JSONObject = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
    new: JSONObject = {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "session/new",
        "params": {"cwd": "/Messgerät 😀", "mcpServers": []},
    }
    listing: JSONObject = {"jsonrpc": "2.0", "id": 3, "method": "session/list", "params": {"cwd": "/Messgerät 😀"}}
    lines = b"\xef\xbb\xbf" + b"\r\n".join(map(jsonrpc.dumps, (request, new))) + b"\r\n"
    environment = {**os.environ, "PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}
    agent = [sys.executable, "-m", "acp_ref", "agent", "--sessions", str(tmp_path)]
    first = subprocess.run(agent, input=lines, capture_output=True, env=environment, timeout=60, check=True)
    assert b'"sessionId"' in first.stdout.splitlines()[1]
    lines = b"\r\n".join(map(jsonrpc.dumps, (request, listing))) + b"\r\n"
    second = subprocess.run(agent, input=lines, capture_output=True, env=environment, timeout=60, check=True)
    assert '"cwd":"/Messgerät 😀"'.encode() in second.stdout.splitlines()[1]


@pytest.mark.field_note(1)
async def test_a_prompt_of_8_mib_is_answered_and_so_is_what_follows() -> None:
    async with client_of(served(parrot)) as peer:
        session_id = await new_session(peer)
        text = "x" * (8 << 20)
        await peer.request(2, "session/prompt", prompt(session_id, text))
        await peer.request(3, "session/list")
        messages = await peer.receive_all()
        assert {message["id"] for message in messages if "id" in message} == {2, 3}
        assert any(text in str(message) for message in messages)


@pytest.mark.field_note(1)
def test_a_long_line_costs_each_byte_once_whatever_the_chunks() -> None:
    """Counted, not timed: what is kept of an unfinished line is a list of its chunks, joined once."""
    buffer = FrameBuffer()
    chunk = b"x" * 65536
    for _ in range(64):
        assert buffer.feed(chunk) == []
    (frame,) = buffer.feed(b"\n")
    assert frame == chunk * 64


@pytest.mark.parametrize("chunk_bytes", [1, 7, 1000, 100_000])
def test_a_line_beyond_the_limit_is_one_fault_and_costs_no_more_than_the_limit(chunk_bytes: int) -> None:
    stream = b'{"a":1}\n' + b"y" * 50_000 + b'\n{"b":2}\n'
    chunks = [stream[i : i + chunk_bytes] for i in range(0, len(stream), chunk_bytes)]
    first, oversized, last = frames_of(chunks, max_frame_bytes=1000)
    assert (first, last) == (b'{"a":1}', b'{"b":2}')
    assert isinstance(oversized, OversizedFrame)
    assert oversized.size == 50_000
    assert len(oversized.head) <= 8192


@pytest.mark.field_note(8)
def test_text_that_is_not_utf_8_is_replaced_and_never_loses_a_message() -> None:
    assert jsonrpc.dumps({"text": "a\ud800b"}) == '{"text":"a\ufffdb"}'.encode()
    assert jsonrpc.loads(b'"\\ud800"') == "\ud800"
    assert isinstance(jsonrpc.decode(b'{"jsonrpc":"2.0","id":1,"method":"\xff"}'), jsonrpc.InvalidMessage)


@pytest.mark.field_note(9)
@pytest.mark.parametrize("text", [b"NaN", b"Infinity", b"-Infinity", b"1e999", b'{"a":[NaN]}'])
def test_what_is_no_number_is_no_json(text: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        jsonrpc.loads(text)


def test_integers_beyond_64_bits_are_written_as_they_are() -> None:
    assert jsonrpc.dumps({"n": 2**70}) == b'{"n":1180591620717411303424}'


def test_a_depth_bomb_is_an_error_and_no_more() -> None:
    message = jsonrpc.decode(b"[" * 1_000_000)
    assert isinstance(message, jsonrpc.InvalidMessage)
    assert message.answer is not None
    assert message.answer.code == ErrorCode.INVALID_REQUEST  # it may be JSON, but no message that is read here


@pytest.mark.spec("ERR-06")
@pytest.mark.field_note(31)
async def test_each_kind_of_refusal_has_its_own_code() -> None:
    wanted: list[tuple[str, JSON, int]] = [
        ("session/new", {"cwd": 5, "mcpServers": []}, ErrorCode.INVALID_PARAMS),
        ("session/new", {"cwd": "rel", "mcpServers": []}, ErrorCode.INVALID_PARAMS),
        ("session/prompt", {"sessionId": "nope", "prompt": []}, ErrorCode.RESOURCE_NOT_FOUND),
        ("session/load", {"sessionId": "nope", "cwd": CWD, "mcpServers": []}, ErrorCode.RESOURCE_NOT_FOUND),
        ("session/set_mode", {"sessionId": "nope", "modeId": "x"}, ErrorCode.METHOD_NOT_FOUND),
        ("logout", {}, ErrorCode.METHOD_NOT_FOUND),
        ("initialize", {"protocolVersion": 1}, ErrorCode.INVALID_REQUEST),
        ("authenticate", {"methodId": "x"}, ErrorCode.INVALID_PARAMS),
    ]
    async with client_of(served(parrot)) as peer:
        for method, params, code in wanted:
            assert code_of(await peer.call(1, method, params)) == code, method
