"""Many sessions with MCP servers, opened, used and closed again and again: what the agent holds of the system then."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import attrs
import trio

from acp_ref._jsonrpc import JSONObject
from tests.conversations import result_of
from tests.faults.raw_client import RawClient, open_raw_client, stdio_server
from tests.faults.system import alive, below, kill_all, open_files, resident_bytes

SERVERS: Final = 3
MEBIBYTE: Final = 1 << 20


@attrs.frozen
class Held:
    """What an agent holds between two rounds."""

    resident: int
    """Bytes of memory."""
    files: int
    children: int

    def __str__(self) -> str:
        return f"{self.resident / MEBIBYTE:6.1f} MiB, {self.files} descriptors, {self.children} children"


@asynccontextmanager
async def agent_and_tag(sessions: Path, *, timeout: float) -> AsyncGenerator[tuple[RawClient, str]]:
    """An agent, and a tag for its servers."""
    tag = uuid.uuid4().hex
    try:
        async with open_raw_client(sessions, "--mcp-timeout", "120", timeout=timeout) as client:
            yield client, tag
        assert alive(tag) == []
    finally:
        kill_all(tag)


async def open_use_and_close(client: RawClient, tag: str, sessions: int) -> Held:
    """One round: so many sessions with three servers each, all at once."""

    def server(number: int) -> JSONObject:
        return {**stdio_server("ok", tag), "name": f"server {number}"}

    servers = [*map(server, range(SERVERS))]
    opening = [await client.request("session/new", cwd="/", mcpServers=[*servers]) for _ in range(sessions)]
    opened = [result_of(await client.answer(request_id)) for request_id in opening]
    assert not any("_meta" in session for session in opened), "all servers are ready"
    assert len(below(client.pid)) == SERVERS * sessions
    for session in opened:
        text = await client.say(str(session["sessionId"]), "hello")
        assert text == "hello"
        await client.say(str(session["sessionId"]), '/call "server 1" echo {"text": "well"}')
    closing = [await client.request("session/close", sessionId=session["sessionId"]) for session in opened]
    for request_id in closing:
        result_of(await client.answer(request_id))
    client.received.clear()
    return held_by(client)


def held_by(client: RawClient) -> Held:
    """What the agent holds now."""
    return Held(resident_bytes(client.pid), len(open_files(client.pid)), len(below(client.pid)))


async def settle(client: RawClient) -> None:
    """Let the agent's threads go, which wait some seconds for more work."""
    await trio.sleep(11)
    await client.result("session/list")
