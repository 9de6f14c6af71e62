"""Traces without secrets, and the trace context in ``_meta``."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_ref._jsonrpc import JSON, JSONObject, dumps, loads
from acp_ref.connection import Connection, open_connection
from acp_ref.handlers import Handlers
from acp_ref.methods import AGENT, CLIENT, INITIALIZE
from acp_ref.reports import Report, ReportKind
from acp_ref.requests import IncomingRequest
from acp_ref.schema import AuthMethodId, AuthMethodTerminal, InitializeRequest, InitializeResponse, ProtocolVersion
from acp_ref.trace import JsonLinesTrace, TraceContext, redacted, trace_context, with_trace_context
from acp_ref.transports import memory_transport_pair

SECRET = "s3cr3t"


def call(method: str, params: JSON) -> bytes:
    return dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


CARRIERS: dict[str, JSON] = {
    "stdio server": {
        "mcpServers": [{"name": "a", "command": "/b", "args": [], "env": [{"name": "T", "value": SECRET}]}]
    },
    "http server": {"mcpServers": [{"type": "http", "headers": [{"name": "Authorization", "value": SECRET}]}]},
    "terminal": {"command": "ls", "env": [{"name": "T", "value": SECRET, "_meta": {"was": SECRET}}]},
    "terminal login": {"authMethods": [{"type": "terminal", "id": "x", "env": {"T": SECRET}}]},
    "env as objects of odd shape": {"env": [SECRET, [SECRET], {"name": {"x": SECRET}, "value": 1}]},
    "env as text": {"env": SECRET},
    "raw input of a tool": {"rawInput": {"request": {"Headers": {"Authorization": SECRET}}}},
}


@pytest.mark.parametrize("params", CARRIERS.values(), ids=CARRIERS.keys())
def test_values_of_env_and_headers_never_show(params: JSON) -> None:
    frame = call("session/new", params)
    assert SECRET.encode() in frame
    assert SECRET.encode() not in redacted(frame)


def test_names_and_everything_else_stay() -> None:
    frame = call("terminal/create", {"command": "ls", "env": [{"name": "TOKEN", "value": SECRET}], "cwd": "/x"})
    shown = loads(redacted(frame))
    assert shown == {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "terminal/create",
        "params": {"command": "ls", "env": [{"name": "TOKEN", "value": "***"}], "cwd": "/x"},
    }


def test_an_object_of_variables_keeps_its_names() -> None:
    assert loads(redacted(b'{"env":{"A":"1","B":"2"},"headers":null}')) == {
        "env": {"A": "***", "B": "***"},
        "headers": None,
    }


def test_a_member_whose_name_is_escaped_is_found() -> None:
    assert SECRET.encode() not in redacted(b'{"\\u0065nv":{"A":"%b"}}' % SECRET.encode())


def test_a_member_that_stands_twice_shows_neither_value() -> None:
    assert SECRET.encode() not in redacted(b'{"env":{"A":"%b"},"env":{}}' % SECRET.encode())


def test_a_frame_without_secrets_is_shown_byte_for_byte() -> None:
    frame = b'{ "jsonrpc":"2.0", "id":1.0, "result":{"n":1e2} }'
    assert redacted(frame) == frame


def test_a_message_is_always_one_line() -> None:
    assert redacted(b'{"a":\n1,\r"b":2}') == b'{"a":1,"b":2}'
    assert redacted(b'\xef\xbb\xbf{"a":1}') == b'{"a":1}'


@pytest.mark.parametrize(
    "frame",
    [
        b'{"method":"session/new","params":{"mcpServers":[{"env":[{"name":"T","value":"s3cr3t"}]}]}',  # cut short
        b"warning: HEADERS Authorization: s3cr3t",
        b"x" * 5000 + b"s3cr3t",
    ],
)
def test_what_is_no_json_is_cut_before_a_secret_could_come(frame: bytes) -> None:
    shown = redacted(frame)
    assert SECRET.encode() not in shown
    assert len(shown) < 250
    assert shown[:1] == frame[:1]
    assert shown.endswith(b"***")


def test_a_short_line_of_junk_shows_whole() -> None:
    assert redacted(b"Welcome") == b"Welcome"


def test_deep_nesting_does_no_harm() -> None:
    for deep in (900, 100_000):
        frame = b'{"env":' + b"[" * deep + b'"s3cr3t"' + b"]" * deep + b"}"
        assert SECRET.encode() not in redacted(frame)


@given(st.binary())
def test_no_bytes_make_it_fail(frame: bytes) -> None:
    redacted(frame)


# The trace


def test_a_trace_has_a_line_of_json_for_each_frame() -> None:
    file = io.BytesIO()
    ticks = iter([1.5, 2.25, 3.0])
    trace = JsonLinesTrace(file, clock=lambda: next(ticks))
    trace("sent", call("terminal/create", {"command": "ls", "env": [{"name": "T", "value": SECRET}]}))
    trace("received", b'{"jsonrpc":"2.0","id":1,"result":{}}')
    trace("received", b"\xffWelcome\x1b[0m " + b"x" * 1000)
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    assert [(line["time"], line["direction"]) for line in lines] == [
        (1.5, "sent"),
        (2.25, "received"),
        (3.0, "received"),
    ]
    assert lines[0]["message"]["params"]["env"] == [{"name": "T", "value": "***"}]
    assert lines[1]["message"] == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert lines[2]["unreadable"].startswith("\ufffdWelcome\x1b[0m xxx")
    assert len(lines[2]["unreadable"]) < 250
    assert SECRET.encode() not in file.getvalue()


@given(st.lists(st.binary() | st.text().map(lambda words: dumps({"t": words}))))
def test_every_line_of_a_trace_is_json_whatever_the_frames(frames: list[bytes]) -> None:
    file = io.BytesIO()
    trace = JsonLinesTrace(file)
    for frame in frames:
        trace("received", frame)
    lines = [json.loads(line) for line in file.getvalue().split(b"\n")[:-1]]
    assert len(lines) == len(frames)
    times = [line["time"] for line in lines]
    assert times == sorted(times)


def test_a_trace_is_written_to_a_real_file(tmp_path: Path) -> None:
    with open(tmp_path / "trace.jsonl", "wb") as file:
        JsonLinesTrace(file)("sent", b'{"a":1}')
    assert json.loads((tmp_path / "trace.jsonl").read_bytes())["message"] == {"a": 1}


def test_a_trace_that_cannot_be_written_ends_and_says_so_once(tmp_path: Path) -> None:
    reports: list[Report] = []
    with open(tmp_path / "trace.jsonl", "wb") as file:
        trace = JsonLinesTrace(file, on_report=reports.append)
        trace("sent", b'{"a":1}')
    for _ in range(3):
        trace("sent", b'{"a":2}')
    assert [report.kind for report in reports] == [ReportKind.DEGRADED]
    assert isinstance(reports[0].error, ValueError)


async def test_a_connection_is_traced_in_both_directions() -> None:
    async def initialize(request: IncomingRequest, params: InitializeRequest) -> InitializeResponse:
        login = AuthMethodTerminal(id=AuthMethodId("login"), name="Log in", env={"TOKEN": SECRET})
        return InitializeResponse(protocol_version=params.protocol_version, auth_methods=[login])

    file = io.BytesIO()
    handlers = Handlers()
    handlers.on_request(INITIALIZE, initialize)
    left, right = memory_transport_pair()
    async with (
        open_connection(Connection(left, AGENT, handlers)),
        open_connection(Connection(right, CLIENT, Handlers(), on_frame=JsonLinesTrace(file))) as client,
    ):
        answer = await client.request(INITIALIZE, InitializeRequest(protocol_version=ProtocolVersion(1)))
    assert [method.env for method in answer.auth_methods if isinstance(method, AuthMethodTerminal)] == [
        {"TOKEN": SECRET}
    ]
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    assert [line["direction"] for line in lines] == ["sent", "received"]
    assert lines[0]["message"]["method"] == "initialize"
    assert lines[1]["message"]["result"]["authMethods"][0]["env"] == {"TOKEN": "***"}


# Trace context

CONTEXT = TraceContext(
    traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", tracestate="a=b", baggage="k=v"
)


@pytest.mark.spec("EXT-01", "EXT-03")
def test_a_trace_context_goes_into_meta_and_comes_out_again() -> None:
    meta: JSONObject = {"mine.example/key": {"deep": [1]}}
    sent = with_trace_context(meta, CONTEXT)
    assert sent == {
        "mine.example/key": {"deep": [1]},
        "traceparent": CONTEXT.traceparent,
        "tracestate": "a=b",
        "baggage": "k=v",
    }
    assert trace_context(sent) == CONTEXT
    assert meta == {"mine.example/key": {"deep": [1]}}


@pytest.mark.spec("EXT-03")
def test_a_new_context_replaces_the_old_one_whole() -> None:
    sent = with_trace_context(with_trace_context(None, CONTEXT), TraceContext(traceparent="00-1-2-00"))
    assert sent == {"traceparent": "00-1-2-00"}
    assert with_trace_context(sent, TraceContext()) is None
    assert with_trace_context(None, TraceContext()) is None


@pytest.mark.spec("EXT-02", "EXT-03")
@pytest.mark.parametrize(
    "meta",
    [None, {}, {"other": 1}, {"traceparent": 7, "tracestate": None, "baggage": {"k": "v"}}, {"Traceparent": "x"}],
)
def test_odd_meta_has_no_trace_context(meta: JSONObject | None) -> None:
    assert trace_context(meta) == TraceContext()
