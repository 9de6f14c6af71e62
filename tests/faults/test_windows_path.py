"""Stdio through threads, the only way on Windows, chosen here: the same conversations with the same outcome and end."""

from __future__ import annotations

import os
import re
import signal
import time
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import trio

import acp_ref as acp
from acp_ref.agent_process import AgentProcess, open_agent_transport
from acp_ref.permissions import answer_with
from acp_ref.schema import McpServerStdio
from acp_ref.session_state import Message
from tests.conversations import prompt
from tests.faults.raw_client import AGENT, NASTY, ROOT, open_raw_client, said, stdio_server
from tests.faults.system import alive, kill_all, nothing_left

THREADED: Final = (*AGENT, "--threads")
LARGE: Final = "x\u2028\u00e9\n" * 300_000
"""2 MiB: more than any pipe holds."""


@asynccontextmanager
async def open_agent(sessions: Path, *, threads: bool) -> AsyncGenerator[tuple[AgentProcess, acp.ClientSide]]:
    """The reference agent and a client that offers all there is, both on threads or both not."""
    client = acp.Client(
        name="test",
        version="1",
        request_permission=answer_with(acp.PermissionOptionKind.ALLOW_ONCE),
        file_system=acp.FileSystem(),
        terminals=True,
    )
    command = [*(THREADED if threads else AGENT), "--sessions", str(sessions)]
    async with (
        open_agent_transport(command, cwd=str(ROOT), threads=threads) as transport,
        acp.open_agent(transport, client) as agent,
    ):
        yield transport, agent


def seen(session: acp.ClientSession) -> list[str]:
    """All that a user sees of a session."""
    state = session.state
    timeline = [
        f"{entry.role}: {entry.content}" if isinstance(entry, Message) else repr(entry) for entry in state.timeline
    ]
    return [*timeline, repr(state.plan), repr(state.title), repr(state.current_mode_id), repr(state.usage)]


async def converse(directory: Path, *, threads: bool) -> list[list[str]]:
    """A long conversation, and the same one loaded by another pair."""
    tag = uuid.uuid4().hex
    server = stdio_server("ok", tag)
    command = str(server["command"])
    mcp_servers = [McpServerStdio(name="ok", command=command, args=["-I", "-S", NASTY, "ok", tag], env=[])]
    cwd = directory / "project"
    cwd.mkdir(parents=True)
    async with open_agent(directory / "sessions", threads=threads) as (transport, agent):
        async with agent.new_session(str(cwd), mcp_servers=mcp_servers) as session:
            for text in (
                "hello",
                '/call ok echo {"text": "over there"}',
                "/write a.txt some text",
                "/read a.txt",
                "/run echo from a terminal",
                "/stream 2000",
                "/plan",
                "/title Threads",
                LARGE,
            ):
                async with session.prompt(text) as turn:
                    assert await turn.wait() is acp.StopReason.END_TURN
            async with session.prompt("/sleep 60") as turn:
                turn.cancel()
                assert await turn.wait() is acp.StopReason.CANCELLED
            lived = seen(session)
    assert transport.returncode == 0
    assert alive(tag) == []
    async with open_agent(directory / "sessions", threads=threads) as (_, agent):
        async with agent.load_session(session.id, str(cwd)) as loaded:
            return [lived, seen(loaded)]


def neutral(entries: Sequence[str], directory: Path) -> list[str]:
    """What was seen, without the ids and paths that differ from one conversation to the next."""
    return [re.sub(r"[0-9a-f]{12,}|\bcall_\w+", "ID", entry.replace(str(directory), "")) for entry in entries]


@pytest.mark.spec("TRANS-03", "TRANS-04", "TRANS-06")
@pytest.mark.field_note(1, 6)
async def test_a_conversation_through_threads_is_the_same_as_any_other(tmp_path: Path) -> None:
    async with nothing_left():
        polled, threaded = tmp_path / "polled", tmp_path / "threaded"
        expected = await converse(polled, threads=False)
        found = await converse(threaded, threads=True)
        assert [neutral(part, threaded) for part in found] == [neutral(part, polled) for part in expected]


@pytest.mark.field_note(11, 13)
@pytest.mark.spec("TRANS-12")
@pytest.mark.parametrize("end", ["input", "SIGTERM"])
async def test_an_agent_on_threads_ends_in_a_turn_as_any_other(end: str, tmp_path: Path) -> None:
    """Its own thread still waits for input when a signal ends it; and nothing it started may be left."""
    tag = uuid.uuid4().hex
    try:
        async with nothing_left(), open_raw_client(tmp_path / "s", command=THREADED) as client:
            session_id = await client.new_session(tmp_path, stdio_server("parent", tag))
            await client.say(session_id, "/mode code")
            await client.request("session/prompt", **prompt(session_id, "/call parent hang"))
            while "in_progress" not in str(await client.receive()):
                pass
            began = time.monotonic()
            if end == "input":
                await client.stdin.aclose()
            else:
                os.kill(client.pid, signal.Signals[end])
            status = 128 + signal.Signals[end] if end.startswith("SIG") else 0
            assert await client.ended() == status
            assert time.monotonic() - began < 4
            assert alive(tag) == []
            assert client.stderr == ""
    finally:
        kill_all(tag)


@pytest.mark.field_note(14, 15)
async def test_an_agent_on_threads_waits_for_a_slow_reader_and_loses_nothing(tmp_path: Path) -> None:
    async with nothing_left(), open_raw_client(tmp_path / "s", command=THREADED) as client:
        session_id = await client.new_session("/")
        request_id = await client.request("session/prompt", **prompt(session_id, "/stream 20000"))
        await trio.sleep(0.5)  # its pipe is full by now
        await client.answer(request_id)
        assert said(client.received, session_id) == "".join(f"chunk {number}" for number in range(1, 20_001))
