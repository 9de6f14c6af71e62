"""An agent process and its bad MCP servers: the session opens in time, and whatever ends it, no server is left."""

from __future__ import annotations

import json
import os
import signal
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import pytest
import trio

from acp_ref._jsonrpc import JSON, JSONObject
from acp_ref.cli import main
from acp_ref.mcp_servers import META_KEY
from tests.conversations import code_of
from tests.faults.raw_client import RawClient, behind_a_wrapper, open_raw_client, stdio_server
from tests.faults.system import alive, kill_all, nothing_left, soon, until

SOON: Final = 2.0
"""Seconds that a server has where one is to miss its deadline; in all other tests none does."""

GOES: Final = ("ok", "loud", "junk")
"""Habits of servers that go when their stdin ends."""

STAYS: Final = ("clinging", "parent", "stubborn parent")
"""Habits of servers that must be told to go, or made to, or whose children must."""

UNCONNECTED: Final = ("never", "stubborn")
"""Habits of servers that do not answer, and stay as well."""


def missing_server(tag: str) -> JSONObject:
    """One that is not there."""
    return {"name": "missing", "command": f"/nonexistent/{tag}", "args": [], "env": []}


def bad_servers(tag: str, *more: str) -> list[JSON]:
    """Everything that servers and their children may do to stay, or to be in the way; and what else they may do."""
    several = [stdio_server(habit, tag) for habit in ("exit", *GOES, *STAYS, *more)]
    wrapped = [behind_a_wrapper(stdio_server(habit, tag)) for habit in ("ok", "stubborn parent")]
    return [missing_server(tag), *several, *wrapped]


MANY: Final = 11
"""So many processes are there once the bad servers have been started: they, their children, and two wrappers."""


@asynccontextmanager
async def open_agent(sessions: Path, *, mcp_timeout: float = 30.0) -> AsyncGenerator[tuple[RawClient, str]]:
    """An agent that has had a server already, and so imported mcp; and a tag for more, none of which may be left."""
    tag = uuid.uuid4().hex
    try:
        async with open_raw_client(sessions, "--mcp-timeout", str(mcp_timeout)) as client:
            session_id = await client.new_session("/", stdio_server("ok", tag))
            await client.result("session/close", sessionId=session_id)
            yield client, tag
        assert alive(tag) == []
    finally:
        kill_all(tag)


Ending: TypeAlias = Callable[[RawClient, str], Awaitable[None]]
"""Ends a session, or the whole agent. Given the client, and the id of the session."""


async def each(
    endings: Mapping[str, Ending], use: Callable[[RawClient, str, Ending], Awaitable[None]], at: Path
) -> None:
    """Use an agent for each of ``endings``, all at once, as most of the time is spent waiting. Nothing may be left."""
    importing = trio.Semaphore(2)

    async def use_one(name: str, ending: Ending) -> None:
        async with AsyncExitStack() as stack:
            async with importing:
                client, tag = await stack.enter_async_context(open_agent(at / name))
            await use(client, tag, ending)
            assert alive(tag) == [], name

    async with nothing_left(), trio.open_nursery() as nursery:
        for name, ending in endings.items():
            nursery.start_soon(use_one, name, ending)


async def new_session(client: RawClient, tag: str, cwd: Path) -> str:
    """A session with all the bad servers that can be connected to, and two that cannot."""
    opened = await client.result("session/new", cwd=str(cwd), mcpServers=bad_servers(tag))
    assert json.dumps(opened["_meta"]).count('"failed"') == 2
    assert len(alive(tag)) >= MANY
    return str(opened["sessionId"])


@pytest.mark.field_note(52, 53, 54, 56)
@pytest.mark.spec("SETUP-41")
async def test_a_session_opens_with_the_one_good_server_of_four_and_says_why_the_others_failed(tmp_path: Path) -> None:
    async with nothing_left(), open_agent(tmp_path / "sessions", mcp_timeout=SOON) as (client, tag):
        servers: list[JSON] = [missing_server(tag), *(stdio_server(habit, tag) for habit in ("exit", "never", "ok"))]
        began = time.monotonic()
        opened = await client.result("session/new", cwd=str(tmp_path), mcpServers=servers)
        assert time.monotonic() - began < SOON + 1
        assert opened["_meta"] == {
            META_KEY: [
                {
                    "name": "missing",
                    "state": "failed",
                    "reason": f"it cannot be started: No such file or directory: '/nonexistent/{tag}'",
                },
                {"name": "exit", "state": "failed", "reason": "it ended with exit status 3; stderr: fatal: bad config"},
                {"name": "never", "state": "failed", "reason": f"no answer within {SOON:g} s"},
                {"name": "ok", "state": "ready"},
            ]
        }
        session_id = str(opened["sessionId"])
        await client.say(session_id, '/call ok echo {"text": "good news"}')
        assert '"status": "completed"' in json.dumps(client.received)
        assert "good news" in json.dumps(client.received[-3:])
        await client.result("session/close", sessionId=session_id)
        assert alive(tag) == [], "after the close, while the agent lives"
        assert client.process.poll() is None


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "soon"])
def test_a_deadline_that_is_none_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["agent", "--mcp-timeout", text])
    assert exited.value.code == 2
    assert f"invalid seconds value: '{text}'" in capsys.readouterr().err


# ----------------------------------------------------------------------------------------------- whatever ends them


async def close_the_session(client: RawClient, session_id: str) -> None:
    await client.result("session/close", sessionId=session_id)


async def end_the_input(client: RawClient, session_id: str) -> None:
    await client.stdin.aclose()
    await client.receive_all()
    assert await client.ended() == 0


async def break_the_pipes(client: RawClient, session_id: str) -> None:
    await client.stdout.aclose()
    await client.stdin.aclose()
    assert await client.ended() == 0


async def send(signum: signal.Signals, client: RawClient, session_id: str) -> None:
    os.kill(client.pid, signum)
    await client.receive_all()
    assert await client.ended() == 128 + signum


async def insist(client: RawClient, session_id: str) -> None:
    """As a person in a hurry: more signals come while the agent is at its tidying up, and its input ends as well."""
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGINT):
        os.kill(client.pid, signum)
        await trio.sleep(0.2)
    await client.stdin.aclose()
    await client.receive_all()
    assert await client.ended() == 128 + signal.SIGINT


@pytest.mark.field_note(11, 18, 56)
@pytest.mark.spec("TRANS-12")
async def test_whatever_ends_the_session_or_the_agent_none_of_its_servers_is_left(tmp_path: Path) -> None:
    async def use(client: RawClient, tag: str, ending: Ending) -> None:
        session_id = await new_session(client, tag, tmp_path)
        with trio.fail_after(10):
            await ending(client, session_id)

    endings: dict[str, Ending] = {
        "the session is closed": close_the_session,
        "both pipes break": break_the_pipes,
        "SIGTERM": partial(send, signal.SIGTERM),
        "SIGINT, and more": insist,
    }
    await each(endings, use, tmp_path)


@pytest.mark.field_note(53, 56)
@pytest.mark.spec("CANCEL-12")
async def test_a_session_that_is_given_up_half_way_leaves_none_of_its_servers(tmp_path: Path) -> None:
    """What is told as the id of the session is that of the request for it."""

    async def cancel(client: RawClient, request_id: str) -> None:
        await client.notify("$/cancel_request", requestId=int(request_id))
        assert code_of(await client.answer(int(request_id))) == -32800

    async def use(client: RawClient, tag: str, ending: Ending) -> None:
        request_id = await client.request("session/new", cwd=str(tmp_path), mcpServers=bad_servers(tag, *UNCONNECTED))
        await until(lambda: len(alive(tag)) >= MANY + len(UNCONNECTED))
        with trio.fail_after(10):
            await ending(client, str(request_id))
        if client.process.poll() is None:
            assert alive(tag) == [], "once the answer is there"
            await client.say(await client.new_session(tmp_path), "the agent lives on")

    endings: dict[str, Ending] = {
        "cancelled": cancel,
        "the input ends": end_the_input,
        "SIGTERM": partial(send, signal.SIGTERM),
    }
    await each(endings, use, tmp_path)


async def test_servers_that_listen_end_with_an_agent_that_is_killed(tmp_path: Path) -> None:
    """Nobody is left to make the others go: what ignores the end of its input stays. See acp_ref._processes."""
    async with nothing_left(), open_agent(tmp_path / "sessions") as (client, tag):
        await new_session(client, tag, tmp_path)
        os.kill(client.pid, signal.SIGKILL)

        def listening() -> list[str]:
            return [command for command in alive(tag) if any(f"nasty.py {habit} {tag}" in command for habit in GOES)]

        assert soon(listening, within=10) == []
        kill_all(tag)
