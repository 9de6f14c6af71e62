"""MCP servers of a session: real ones of the mcp package, and nasty ones, over stdio, streamable HTTP and SSE."""

from __future__ import annotations

import importlib
import json
import logging
import os
import subprocess
import sys
import uuid
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import pytest
import trio
import trio.testing
from hypercorn.config import Config
from hypercorn.trio import serve
from hypercorn.typing import (
    ASGIFramework,
    ASGIReceiveCallable,
    ASGISendCallable,
    HTTPResponseBodyEvent,
    HTTPResponseStartEvent,
    Scope,
)

from acp_ref import _mcp_stdio
from acp_ref._jsonrpc import JSONObject
from acp_ref.mcp_servers import (
    META_KEY,
    McpConnection,
    McpRequestError,
    McpServers,
    McpState,
    McpTool,
    McpUnavailable,
    mcp_meta,
    safe_environment,
)
from acp_ref.reports import Report, ReportKind
from acp_ref.schema import (
    Annotations,
    AudioContent,
    EmbeddedResource,
    EnvVariable,
    HttpHeader,
    ImageContent,
    Implementation,
    McpServer,
    McpServerHttp,
    McpServerSse,
    McpServerStdio,
    ResourceLink,
    Role,
    TextContent,
    TextResourceContents,
)
from tests.mcp_fixtures.real import make_server

NASTY = str(Path(__file__).parent / "mcp_fixtures" / "nasty.py")
ROOT = str(Path(__file__).parent.parent)
CONNECT, CLOSE = 1.0, 0.3
"""Seconds. Servers of the standard library start in some 30 ms."""

Nasty: TypeAlias = Callable[..., McpServerStdio]


def alive(tag: str) -> list[int]:
    """The processes with ``tag`` among their arguments. Zombies have none."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                arguments = (entry / "cmdline").read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if tag.encode() in arguments:
                found.append(int(entry.name))
    return found


@pytest.fixture(scope="module", autouse=True)
def _mcp_is_imported() -> None:
    importlib.import_module("acp_ref._mcp_client")


@pytest.fixture
def tag() -> Iterator[str]:
    """Marks the processes of one test, none of which may be left at its end. Nor may a descriptor."""
    tag = uuid.uuid4().hex
    before = sorted(os.listdir("/proc/self/fd"))
    yield tag
    assert alive(tag) == []
    assert sorted(os.listdir("/proc/self/fd")) == before


@pytest.fixture
def few_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """For servers that live on, or whose children hold their pipes: the whole grace is spent on them."""
    monkeypatch.setattr(_mcp_stdio, "LAST_WORDS", 0.1)


@pytest.fixture
def nasty(tag: str) -> Nasty:
    def make(habit: str, *, name: str | None = None, env: Sequence[tuple[str, str]] = ()) -> McpServerStdio:
        return McpServerStdio(
            name=name or habit,
            command=sys.executable,
            args=["-I", "-S", NASTY, habit, tag],
            env=[EnvVariable(name=name, value=value) for name, value in env],
        )

    return make


@asynccontextmanager
async def session(
    *servers: McpServer,
    cwd: str = "/",
    connect_timeout: float = CONNECT,
    client_info: Implementation | None = None,
    reports: list[Report] | None = None,
) -> AsyncGenerator[McpServers, None]:
    """What a session does with its servers."""
    async with trio.open_nursery() as nursery:
        mcp = McpServers(
            servers,
            cwd=cwd,
            connect_timeout=connect_timeout,
            close_timeout=CLOSE,
            client_info=client_info,
            on_report=(reports if reports is not None else []).append,
        )
        with trio.fail_after(connect_timeout + 1):
            await nursery.start(mcp.run)
        yield mcp
        with trio.fail_after(5):
            await mcp.aclose()
        assert all(connection.state in (McpState.CLOSED, McpState.FAILED) for connection in mcp)


async def text_of(connection: McpConnection, tool: str, arguments: JSONObject | None = None) -> str:
    result = await connection.call_tool(tool, arguments, timeout=5)
    [block] = result.content
    assert isinstance(block, TextContent)
    return block.text


async def where(connection: McpConnection) -> tuple[str, dict[str, str]]:
    """The directory and the environment of a nasty server."""
    answer = json.loads(await text_of(connection, "where"))
    return answer["cwd"], answer["env"]


def state(connection: McpConnection) -> McpState:
    """Its state; a call, so that type checkers do not take it for what it was some lines ago."""
    return connection.state


def failure(connection: McpConnection) -> str:
    assert state(connection) is McpState.FAILED
    assert connection.failure is not None
    return connection.failure


# ------------------------------------------------------------------------------------------------------------- import


def test_nothing_of_mcp_is_loaded_before_a_session_has_a_server() -> None:
    program = (
        "import sys, trio, acp_ref.mcp_servers as m\n"
        "trio.run(m.McpServers([], cwd='/').run)\n"
        "print(*{'mcp', 'mcp_types', 'httpx2', 'pydantic', 'anyio', 'asyncio'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == []


# ------------------------------------------------------------------------------------------------------------- stdio


@pytest.mark.spec("SETUP-21", "SETUP-22", "SETUP-24", "SETUP-27", "SETUP-28")
async def test_a_real_stdio_server_is_started_listed_and_called(tag: str) -> None:
    server = McpServerStdio(
        name="real",
        command=sys.executable,
        args=["-m", "tests.mcp_fixtures.real", tag],
        env=[EnvVariable(name="X", value="1")],
    )
    async with session(server, cwd=ROOT, connect_timeout=10) as mcp:
        [connection] = mcp
        assert state(connection) is McpState.READY
        assert connection.failure is None
        assert connection.server is server
        assert [tool.name for tool in connection.tools] == ["add", "boom", "hang"]
        add = connection.tools[0]
        assert (add.title, add.description) == ("Add", "Add two numbers.")
        assert add.input_schema["required"] == ["a", "b"]
        result = await connection.call_tool("add", {"a": 2, "b": 3})
        assert result.content == [TextContent(text="5")]
        assert result.structured_content == {"result": 5}
        assert not result.is_error
        assert (await connection.call_tool("boom", {})).is_error
        assert mcp.meta() is None
    assert state(connection) is McpState.CLOSED


@pytest.mark.spec("CONTENT-01")
async def test_what_a_tool_returns_comes_in_acps_own_blocks(nasty: Nasty) -> None:
    async with session(nasty("ok")) as mcp:
        result = await mcp.connections[0].call_tool("content")
    assert result.content == [
        TextContent(text="hello", annotations=Annotations(audience=[Role.USER], priority=0.5), meta={"k": None}),
        ImageContent(data="AAAA", mime_type="image/png"),
        AudioContent(data="AAAA", mime_type="audio/wav"),
        ResourceLink(uri="file:///x", name="x", size=3),
        EmbeddedResource(resource=TextResourceContents(uri="file:///y", text="why", mime_type="text/plain")),
    ]
    assert result.structured_content == {"n": 1}


async def test_a_tool_that_failed_a_call_that_is_refused_and_one_that_takes_too_long_are_three_things(
    nasty: Nasty,
) -> None:
    async with session(nasty("ok")) as mcp:
        [connection] = mcp
        result = await connection.call_tool("fail")
        assert result.is_error
        assert result.content == [TextContent(text="hello")]
        with pytest.raises(McpRequestError, match=r"^ok: it answered with \[-32000\] no, thanks$") as refused:
            await connection.call_tool("refuse", {"text": "thanks"})
        assert refused.value.code == -32000
        with pytest.raises(trio.TooSlowError):
            await connection.call_tool("hang", timeout=0.05)
        with pytest.raises(ValueError, match="not JSON"):
            await connection.call_tool("echo", {"text": {"not", "JSON"}})  # type: ignore[dict-item]
        with pytest.raises(McpRequestError, match=r"^ok: it answered with what MCP does not allow in CallToolResult$"):
            await connection.call_tool("odd")
        assert len(json.loads(await text_of(connection, "ask"))) == 1  # the one that took too long was cancelled
        assert state(connection) is McpState.READY


@pytest.mark.field_note(8)
async def test_text_that_cannot_be_utf_8_does_not_break_the_connection(nasty: Nasty) -> None:
    async with session(nasty("ok")) as mcp:
        assert await text_of(mcp.connections[0], "echo", {"text": "a\ud800b\u2028"}) == "a\ufffdb\u2028"


async def test_all_pages_of_the_tools_are_listed_and_listed_again_when_they_change(nasty: Nasty) -> None:
    async with session(nasty("ok")) as mcp:
        [connection] = mcp
        assert len(connection.tools) == 14
        assert connection.tools[0] == McpTool(
            name="echo", title="Echo", description="to echo", input_schema={"type": "object"}
        )
        await connection.call_tool("more")
        with trio.fail_after(5):
            while len(connection.tools) != 15:  # noqa: ASYNC110 -- nothing tells when they are there
                await trio.sleep(0.005)
        assert connection.tools[-1].name == "new"


async def test_a_server_without_tools_is_ready_all_the_same(nasty: Nasty) -> None:
    async with session(nasty("toolless")) as mcp:
        assert state(mcp.connections[0]) is McpState.READY
        assert mcp.connections[0].tools == ()


async def test_a_server_that_refuses_initialize_is_asked_in_the_new_way(nasty: Nasty) -> None:
    async with session(nasty("modern")) as mcp:
        [connection] = mcp
        assert connection.client.protocol_version == "2026-07-28"
        assert len(connection.tools) == 14


@pytest.mark.spec("SETUP-29", "SETUP-30")
@pytest.mark.field_note(58)
async def test_a_stdio_server_gets_the_sessions_directory_and_env_over_a_safe_environment(
    nasty: Nasty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "ours")
    monkeypatch.setenv("LANG", "C.UTF-8")
    reports: list[Report] = []
    twice = [("A", "1"), ("B", "=x y"), ("A", "2")]
    async with session(nasty("ok"), nasty("ok", env=twice), cwd=str(tmp_path), reports=reports) as mcp:
        cwd, env = await where(mcp.connections[0])
        assert cwd == str(tmp_path)
        assert env["PATH"] == os.environ["PATH"]
        assert env["LANG"] == "C.UTF-8"
        assert "SECRET_TOKEN" not in env
        _, env = await where(mcp.connections[1])
        assert (env["A"], env["B"], env["PATH"]) == ("2", "=x y", os.environ["PATH"])
    [report] = reports
    assert report.kind is ReportKind.SALVAGED
    assert report.reason == "MCP server 'ok' has 2 values for A in its env; the last one counts"
    assert "SECRET_TOKEN" not in safe_environment()


@pytest.mark.field_note(58)
async def test_the_command_is_looked_up_on_the_path_of_the_entry(tag: str, tmp_path: Path) -> None:
    command = tmp_path / "my-server"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    command.chmod(0o755)
    path = EnvVariable(name="PATH", value=str(tmp_path))
    found = McpServerStdio(name="found", command="my-server", args=[NASTY, "ok", tag], env=[path])
    lost = McpServerStdio(name="lost", command="my-server", args=[NASTY, "ok", tag], env=[])
    async with session(found, lost) as mcp:
        _, env = await where(mcp.connections[0])
        assert env["PATH"] == str(tmp_path)
        assert failure(mcp.connections[1]) == "it cannot be started: No such file or directory: 'my-server'"


async def test_a_program_may_choose_what_is_inherited(nasty: Nasty) -> None:
    async with trio.open_nursery() as nursery:
        mcp = McpServers([nasty("ok", env=[("A", "1")])], cwd="/", inherit={"ONLY": "this"})
        await nursery.start(mcp.run)
        _, env = await where(mcp.connections[0])
        assert {name: env[name] for name in env if name != "LC_CTYPE"} == {"ONLY": "this", "A": "1"}
        await mcp.aclose()


@pytest.mark.field_note(16)
async def test_a_megabyte_on_stderr_stops_no_server(nasty: Nasty) -> None:
    async with session(nasty("loud")) as mcp:
        assert await text_of(mcp.connections[0], "echo", {"text": "hi"}) == "hi"


@pytest.mark.spec("TRANS-06")
@pytest.mark.field_note(55, 6)
async def test_junk_on_a_servers_stdout_is_reported_and_nothing_more(
    nasty: Nasty, capfd: pytest.CaptureFixture[str]
) -> None:
    reports: list[Report] = []
    async with session(nasty("junk"), reports=reports) as mcp:
        [connection] = mcp
        assert await text_of(connection, "echo", {"text": "a"}) == "a"
        assert await text_of(connection, "echo", {"text": "b"}) == "b"
    assert {report.kind for report in reports} == {ReportKind.JUNK}
    assert {report.reason for report in reports} == {"MCP server 'junk' sent what is no message"}
    excerpts = [report.excerpt for report in reports]
    assert excerpts[:5] == [b"Starting server...", b"{not json", b"[]", b'{"jsonrpc":"2.0"}', b"\xff\xfe"]
    assert excerpts[5:8] == ["handled \u2028 it".encode()] * 3  # initialize, and two pages of tools
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("few_last_words")
async def test_a_line_that_never_ends_costs_the_connection_and_not_the_memory(
    nasty: Nasty, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_mcp_stdio, "MAX_LINE_BYTES", 100_000)
    async with session(nasty("ok")) as mcp:
        [connection] = mcp
        with pytest.raises(McpUnavailable, match=r"^ok: it wrote a line of more than 64 MiB$"):
            await connection.call_tool("long")
        assert failure(connection) == "it wrote a line of more than 64 MiB"


@pytest.mark.usefixtures("few_last_words")
async def test_a_finished_line_may_be_too_long_too(nasty: Nasty, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_mcp_stdio, "MAX_LINE_BYTES", 5_000)
    async with session(nasty("ok")) as mcp:
        with pytest.raises(McpUnavailable, match="more than 64 MiB"):
            await mcp.connections[0].call_tool("echo", {"text": "x" * 10_000})


# ------------------------------------------------------------------------------------------------------------- failures


class SessionFault(Exception):
    pass


Ending: TypeAlias = Literal["closed", "cancelled", "failed"]
each_ending = pytest.mark.parametrize("ending", get_args(Ending))
"""The ways in which a session ends, all of which must leave nothing."""


@asynccontextmanager
async def ended_by(ending: Ending) -> AsyncGenerator[Callable[[], Awaitable[None]], None]:
    """Stands around a session; what it yields, called in the session, ends it in that way."""

    async def end() -> None:
        if ending == "cancelled":
            scope.cancel()
            await trio.lowlevel.checkpoint()
        if ending == "failed":
            raise SessionFault

    seen = False
    with trio.CancelScope() as scope:
        try:
            yield end
        except* SessionFault:
            seen = True
    assert (scope.cancelled_caught, seen) == (ending == "cancelled", ending == "failed")


@pytest.mark.spec("SETUP-41")
@pytest.mark.field_note(52, 53, 54, 56)
@each_ending
async def test_of_four_servers_three_fail_for_their_own_reasons_and_the_good_one_works(
    nasty: Nasty, tag: str, ending: Ending
) -> None:
    missing = McpServerStdio(name="missing", command="/nonexistent/server", args=[tag], env=[])
    servers = [missing, nasty("exit"), nasty("never"), nasty("good")]
    reports: list[Report] = []
    connections: list[McpConnection] = []
    started = trio.current_time()
    async with ended_by(ending) as end, session(*servers, reports=reports) as mcp:
        assert CONNECT <= trio.current_time() - started < CONNECT + 1
        connections.extend(mcp)
        first, second, third, good = mcp
        assert failure(first) == "it cannot be started: No such file or directory: '/nonexistent/server'"
        assert failure(second) == "it ended with exit status 3; stderr: fatal: bad config"
        assert failure(third) == "no answer within 1 s"
        assert await text_of(good, "echo", {"text": "hi"}) == "hi"
        for connection in (first, second, third):
            with pytest.raises(McpUnavailable, match=f"^{connection.name}: {connection.failure}$"):
                await connection.call_tool("echo", {"text": "hi"})
        assert mcp.meta() == {
            META_KEY: [
                {"name": "missing", "state": "failed", "reason": first.failure},
                {"name": "exit", "state": "failed", "reason": second.failure},
                {"name": "never", "state": "failed", "reason": third.failure},
                {"name": "good", "state": "ready"},
            ]
        }
        assert {report.reason for report in reports} == {
            f"MCP server {connection.name!r} failed: {connection.failure}" for connection in (first, second, third)
        }
        await end()
    assert [connection.state.value for connection in connections] == ["failed", "failed", "failed", "closed"]
    assert alive(tag) == []


@pytest.mark.field_note(53)
async def test_two_hanging_servers_cost_one_deadline_and_no_more_for_being_stubborn(nasty: Nasty) -> None:
    started = trio.current_time()
    async with session(nasty("stubborn"), nasty("stubborn"), connect_timeout=0.3):
        assert trio.current_time() - started < 0.3 + CLOSE  # the killing goes on behind the session's back


async def test_a_server_whose_list_of_tools_never_ends_misses_its_deadline(nasty: Nasty) -> None:
    async with session(nasty("endless"), connect_timeout=0.3) as mcp:
        assert failure(mcp.connections[0]) == "no answer within 0.3 s"


async def test_a_server_that_answers_the_handshake_with_an_error_is_started_once(nasty: Nasty) -> None:
    async with session(nasty("refuse")) as mcp:
        assert failure(mcp.connections[0]) == "it answered with [-32603] no licence for you"


@pytest.mark.field_note(17)
async def test_a_server_that_dies_amid_a_call_fails_that_call_with_the_reason(nasty: Nasty) -> None:
    reports: list[Report] = []
    async with session(nasty("mortal"), nasty("other"), reports=reports) as mcp:
        mortal, other = mcp
        with pytest.raises(McpUnavailable, match=r"^mortal: it ended with exit status 3; stderr: fatal: oh no$"):
            await mortal.call_tool("die", {"text": "oh no"})
        assert failure(mortal) == "it ended with exit status 3; stderr: fatal: oh no"
        with pytest.raises(McpUnavailable, match="exit status 3"):
            await mortal.call_tool("echo", {"text": "hi"})
        with pytest.raises(McpUnavailable, match="exit status 3"):
            _ = mortal.client
        assert await text_of(other, "echo", {"text": "hi"}) == "hi"
        assert state(other) is McpState.READY
    assert state(mortal) is McpState.FAILED  # closing it does not make it any better
    assert [report.reason for report in reports] == [f"MCP server 'mortal' failed: {mortal.failure}"]


async def test_a_server_that_is_killed_amid_many_calls_fails_them_all(nasty: Nasty, tag: str) -> None:
    async with session(nasty("mortal")) as mcp:
        [connection] = mcp
        refused = []

        async def call() -> None:
            with pytest.raises(McpUnavailable, match="signal SIGKILL") as info:
                await connection.call_tool("hang")
            refused.append(info.value)

        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                for _ in range(20):
                    nursery.start_soon(call)
                await trio.testing.wait_all_tasks_blocked(0.05)
                [pid] = alive(tag)
                os.kill(pid, 9)
        assert len(refused) == 20


@pytest.mark.parametrize(("tool", "reason"), [("mute", "it closed its stdout"), ("deaf", "it closed its stdin")])
@pytest.mark.usefixtures("few_last_words")
async def test_a_server_that_closes_a_pipe_and_lives_on_fails_the_call(nasty: Nasty, tool: str, reason: str) -> None:
    async with session(nasty("half")) as mcp:
        [connection] = mcp
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def _() -> None:
                with pytest.raises(McpUnavailable, match=reason):
                    await connection.call_tool(tool)

            await trio.testing.wait_all_tasks_blocked(0.1)
            with trio.fail_after(5), pytest.raises(McpUnavailable, match=reason):
                await connection.call_tool("echo", {"text": "x" * 1_000_000})
        assert failure(connection) == reason


@pytest.mark.spec("SETUP-33")
async def test_values_of_env_and_headers_are_in_no_text_of_ours(nasty: Nasty, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    reports: list[Report] = []
    key = "sk-1234567890"
    url = f"http://user:{key}@127.0.0.1:1/mcp?key=q-{key}"
    headers = [HttpHeader(name="Authorization", value=f"Bearer h-{key}"), HttpHeader(name="X-Bad", value=f"{key}\nx")]
    servers: list[McpServer] = [
        nasty("refuse", env=[("LICENCE", key)]),
        nasty("ok", env=[("API_KEY", key)]),
        McpServerHttp(name="http", url=url, headers=headers[:1]),
        McpServerHttp(name="bad", url=url, headers=headers),
        McpServerSse(name="sse", url=url, headers=headers),
    ]
    async with session(*servers, reports=reports) as mcp:
        refused, ok, http, bad, sse = mcp
        with pytest.raises(McpUnavailable) as lost:
            await ok.call_tool("die", {"text": f"bad key {key}"})
        assert failure(refused) == "it answered with [-32603] no licence for [hidden]"
        assert failure(ok) == "it ended with exit status 3; stderr: fatal: bad key [hidden]"
        assert failure(http).startswith("it cannot be reached: ")
        assert failure(bad) == failure(sse) == "the header 'X-Bad' is not legal in HTTP"
        for text in [repr(mcp.connections), repr(reports), repr(lost.value), str(mcp.meta()), caplog.text]:
            assert key not in text


# ------------------------------------------------------------------------------------------------------------- the end


@pytest.mark.field_note(18, 56)
@pytest.mark.parametrize("habit", ["parent", "stubborn parent"])
async def test_what_a_server_started_goes_with_it(nasty: Nasty, tag: str, habit: str) -> None:
    async with session(nasty(habit)) as mcp:
        assert state(mcp.connections[0]) is McpState.READY
        assert len(alive(tag)) == 2
    assert alive(tag) == []


@pytest.mark.field_note(18, 56)
@pytest.mark.usefixtures("few_last_words")
async def test_a_crashed_server_takes_its_children_along(nasty: Nasty, tag: str) -> None:
    async with session(nasty("stubborn parent")) as mcp:
        [connection] = mcp
        with pytest.raises(McpUnavailable, match="exit status 3"):
            await connection.call_tool("die", {"text": "now"})
        await connection.aclose()
        assert alive(tag) == []


@pytest.mark.field_note(57)
async def test_connections_may_be_closed_in_any_order_by_any_task(nasty: Nasty, tag: str) -> None:
    with trio.CancelScope() as scope:
        async with session(nasty("a"), nasty("b"), nasty("c")) as mcp:
            a, b, c = mcp
            for connection in (a, c):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(connection.aclose)
                    nursery.start_soon(connection.aclose)
                assert state(connection) is McpState.CLOSED
                with pytest.raises(McpUnavailable, match=f"^{connection.name}: the connection is closed$"):
                    await connection.call_tool("echo", {"text": "hi"})
            assert len(alive(tag)) == 1
            async with trio.open_nursery() as nursery:
                nursery.start_soon(b.call_tool, "hang")
                await trio.testing.wait_all_tasks_blocked(0.05)
                scope.cancel()
    assert scope.cancelled_caught
    assert state(b) is McpState.CLOSED
    assert alive(tag) == []


async def test_a_call_in_progress_is_told_that_the_connection_was_closed(nasty: Nasty) -> None:
    async with session(nasty("ok")) as mcp:
        [connection] = mcp
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def _() -> None:
                with pytest.raises(McpUnavailable, match=r"^ok: the connection is closed$"):
                    await connection.call_tool("hang")

            await trio.testing.wait_all_tasks_blocked(0.05)
            await connection.aclose()


@pytest.mark.field_note(56)
async def test_half_made_connections_leave_nothing_behind_when_the_session_is_given_up(nasty: Nasty, tag: str) -> None:
    for pause in (0.0, 0.02, 0.2):
        mcp = McpServers(
            [nasty("never"), nasty("stubborn"), nasty("good"), nasty("parent")], cwd="/", close_timeout=CLOSE
        )
        with trio.move_on_after(pause) as scope:
            async with trio.open_nursery() as nursery:
                await nursery.start(mcp.run)
        assert scope.cancelled_caught
        assert {connection.state for connection in mcp} == {McpState.CLOSED}
        assert alive(tag) == []


async def test_closing_is_idempotent_and_may_come_before_the_beginning(nasty: Nasty, tag: str) -> None:
    mcp = McpServers([nasty("ok")], cwd="/")
    await mcp.aclose()
    await mcp.aclose()
    async with trio.open_nursery() as nursery:
        await nursery.start(mcp.run)
    assert state(mcp.connections[0]) is McpState.CLOSED
    assert alive(tag) == []
    with pytest.raises(McpUnavailable, match="closed"):
        await mcp.connections[0].call_tool("echo", {"text": "hi"})


@pytest.mark.spec("SETUP-26")
def test_of_two_servers_of_one_name_the_first_is_found_by_it(nasty: Nasty) -> None:
    mcp = McpServers([nasty("a"), nasty("b", name="a")], cwd="/")
    assert len(mcp) == 2
    assert mcp.get("a") is mcp.connections[0]
    assert mcp.get("b") is None
    assert mcp_meta(mcp) is None
    assert repr(mcp.connections[1]) == "<McpConnection 'a': connecting>"


# ------------------------------------------------------------------------------------------------------------- HTTP


class Recorder:
    """An ASGI application in front of another one, which keeps what is asked, and can answer in its place."""

    def __init__(self, app: ASGIFramework | None = None) -> None:
        self.app = app
        self.requests: list[tuple[str, list[tuple[str, str]]]] = []
        self.hangs_at: str | None = None
        """The method of the requests that are never answered."""
        self.status: int | None = None
        """The status to answer POST requests with from now on; all requests, where there is no application."""

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] == "http":
            headers = [(name.decode(), value.decode()) for name, value in scope["headers"]]
            self.requests.append((scope["method"], headers))
            if scope["method"] == self.hangs_at:
                await trio.sleep_forever()
            if self.app is None or (self.status is not None and scope["method"] == "POST"):
                if self.status is None:
                    await trio.sleep_forever()
                assert self.status is not None
                await send(
                    HTTPResponseStartEvent(type="http.response.start", status=self.status, headers=[], trailers=False)
                )
                return await send(HTTPResponseBodyEvent(type="http.response.body", body=b"sorry", more_body=False))
        if self.app is not None:
            return await self.app(scope, receive, send)
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        return await send({"type": "lifespan.shutdown.complete"})

    def methods(self) -> list[str]:
        return [method for method, _ in self.requests]


@asynccontextmanager
async def serving(app: Recorder) -> AsyncGenerator[tuple[str, trio.CancelScope], None]:
    """The address at which ``app`` is served, and a way to end that."""
    config = Config()
    config.bind = ["127.0.0.1:0"]
    config.errorlog = None
    config.graceful_timeout = 0.1
    server = trio.CancelScope()

    async def run(*, task_status: trio.TaskStatus[list[str]]) -> None:
        with server:
            await serve(app, config, task_status=task_status)

    async with trio.open_nursery() as nursery:
        [url] = await nursery.start(run)
        yield url, server
        server.cancel()


def http_app() -> Recorder:
    return Recorder(make_server().streamable_http_app(host="127.0.0.1"))  # type: ignore[arg-type]  # Starlette's types


def sse_app() -> Recorder:
    return Recorder(make_server().sse_app(host="127.0.0.1"))  # type: ignore[arg-type]  # Starlette's types


HEADERS = [
    HttpHeader(name="X-Key", value="one"),
    HttpHeader(name="X-Key", value="zw\u00f6lf"),
    HttpHeader(name="B", value=""),
]
SENT = [("x-key", "one"), ("x-key", "zw\u00f6lf"), ("b", "")]


def ours(headers: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in headers if name in ("x-key", "b")]


@pytest.mark.spec("SETUP-31", "SETUP-32", "SETUP-33")
@each_ending
async def test_a_streamable_http_server_is_called_with_its_headers_and_told_of_the_end(
    tag: str, ending: Ending
) -> None:
    app = http_app()
    client_info = Implementation(name="tester", version="1")
    async with serving(app) as (url, _):
        server = McpServerHttp(name="web", url=f"{url}/mcp", headers=HEADERS)
        async with ended_by(ending) as end, session(server, client_info=client_info) as mcp:
            [connection] = mcp
            assert state(connection) is McpState.READY
            assert [tool.name for tool in connection.tools] == ["add", "boom", "hang"]
            assert (await connection.call_tool("add", {"a": 2, "b": 3})).content == [TextContent(text="5")]
            await end()
        assert state(connection) is McpState.CLOSED
        assert set(app.methods()) == {"POST", "GET", "DELETE"}
        assert app.methods().count("DELETE") == 1
        assert all(ours(headers) == SENT for _, headers in app.requests)


async def test_a_web_server_that_does_not_let_go_delays_the_end_no_longer_than_it_may(tag: str) -> None:
    app = http_app()
    app.hangs_at = "DELETE"
    async with serving(app) as (url, _):
        async with session(McpServerHttp(name="web", url=f"{url}/mcp", headers=[])) as mcp:
            started = trio.current_time()
            await mcp.aclose()
            assert CLOSE <= trio.current_time() - started < CLOSE + 1
        assert "DELETE" in app.methods()


@pytest.mark.spec("SETUP-34", "SETUP-35", "SETUP-36", "SETUP-37")
async def test_an_sse_server_is_called_with_its_headers_and_its_age_is_reported(tag: str) -> None:
    app = sse_app()
    reports: list[Report] = []
    async with serving(app) as (url, _):
        with warnings.catch_warnings(record=True) as warned:
            async with session(McpServerSse(name="old", url=f"{url}/sse", headers=HEADERS), reports=reports) as mcp:
                [connection] = mcp
                assert state(connection) is McpState.READY
                assert (await connection.call_tool("add", {"a": 2, "b": 3})).structured_content == {"result": 5}
        assert state(connection) is McpState.CLOSED
        assert set(app.methods()) == {"POST", "GET"}
        assert all(ours(headers) == SENT for _, headers in app.requests)
    assert [report.reason for report in reports] == ["MCP server 'old' uses SSE, a transport that MCP has deprecated"]
    assert not [warning for warning in warned if issubclass(warning.category, DeprecationWarning)]


@pytest.mark.field_note(52)
async def test_a_web_server_that_fails_is_named_with_its_http_status(tag: str) -> None:
    app = Recorder()
    async with serving(app) as (url, _):
        for status, phrase in [(500, "Internal Server Error"), (401, "Unauthorized"), (404, "Not Found")]:
            app.status = status
            servers = McpServerHttp(name="http", url=url, headers=[]), McpServerSse(name="sse", url=url, headers=[])
            async with session(*servers) as mcp:
                http, sse = mcp
                assert failure(http).startswith(f"HTTP {status} {phrase}")
                assert failure(sse) == f"HTTP {status} {phrase}"


async def test_web_servers_that_hang_refuse_or_are_none_fail_by_their_deadline(tag: str) -> None:
    async with serving(Recorder()) as (url, _):
        servers: list[McpServer] = [
            McpServerHttp(name="hangs", url=url, headers=[]),
            McpServerSse(name="hangs", url=url, headers=[]),
            McpServerHttp(name="refuses", url="http://127.0.0.1:1/", headers=[]),
            McpServerSse(name="refuses", url="http://127.0.0.1:1/", headers=[]),
            McpServerHttp(name="none", url="ftp://127.0.0.1/", headers=[]),
            McpServerHttp(name="none", url="http://127.0.0.1:port/", headers=[]),
        ]
        async with session(*servers) as mcp:
            reasons = [failure(connection) for connection in mcp]
    assert reasons[:2] == ["no answer within 1 s"] * 2
    assert all(reason.startswith("it cannot be reached: ") for reason in reasons[2:5])
    assert reasons[5].startswith("InvalidURL: ")


@pytest.fixture(params=["http", "sse"])
def web(request: pytest.FixtureRequest) -> tuple[Recorder, Callable[[str], McpServer]]:
    """An application, and what makes the entry for it from the address."""
    if request.param == "http":
        return http_app(), lambda url: McpServerHttp(name="web", url=f"{url}/mcp", headers=[])
    return sse_app(), lambda url: McpServerSse(name="web", url=f"{url}/sse", headers=[])


@pytest.mark.field_note(52)
@pytest.mark.filterwarnings(
    "ignore:.*MemoryObject:pytest.PytestUnraisableExceptionWarning"
)  # mcp's server, when cut off
async def test_a_web_server_that_is_lost_amid_a_call_fails_that_call(
    tag: str, web: tuple[Recorder, Callable[[str], McpServer]]
) -> None:
    app, entry = web
    async with serving(app) as (url, server), session(entry(url)) as mcp:
        [connection] = mcp
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def _() -> None:
                with trio.fail_after(5), pytest.raises(McpUnavailable, match=r"^web: "):
                    await connection.call_tool("hang")

            await trio.testing.wait_all_tasks_blocked(0.1)
            server.cancel()
        with trio.fail_after(5), pytest.raises(McpUnavailable, match=r"^web: "):
            await connection.call_tool("add", {"a": 1, "b": 2})
        assert state(connection) is McpState.FAILED


async def test_a_message_that_can_no_longer_be_posted_ends_the_connection(
    tag: str, web: tuple[Recorder, Callable[[str], McpServer]]
) -> None:
    app, entry = web
    async with serving(app) as (url, _), session(entry(url)) as mcp:
        [connection] = mcp
        app.status = 404
        with trio.fail_after(5), pytest.raises(McpUnavailable, match=r"^web: HTTP 404 Not Found"):
            await connection.call_tool("add", {"a": 1, "b": 2})
        assert failure(connection).startswith("HTTP 404 Not Found")
