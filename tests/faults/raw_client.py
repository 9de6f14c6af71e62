"""A client in plain JSON over the pipes of an agent, to see what any client sees and to do what none should."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, final

import trio

from acp_ref._jsonrpc import JSON, JSONObject
from tests.conversations import prompt, result_of

ROOT: Final = Path(__file__).parent.parent.parent
NASTY: Final = str(ROOT / "tests" / "mcp_fixtures" / "nasty.py")
AGENT: Final = (sys.executable, "-m", "acp_ref", "agent")

CAPABILITIES: Final[JSONObject] = {"session": {"configOptions": {"boolean": {}}}}
"""So that no agent has a reason to complain."""


@final
class RawClient:
    """The client of one agent, a process."""

    def __init__(self, process: trio.Process, stderr: Path) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process: Final = process
        self.pid: Final = process.pid
        self.stdin: Final = process.stdin
        self.stdout: Final = process.stdout
        self.received: Final[list[JSONObject]] = []
        """Everything the agent said, in order."""
        self._stderr = stderr
        self._lines: deque[bytes] = deque()
        self._unfinished: list[bytes] = []
        self._next_id = 0
        self._answers: dict[JSON, JSONObject] = {}

    @property
    def stderr(self) -> str:
        """All that the agent wrote to its stderr by now."""
        return self._stderr.read_text()

    async def send(self, *messages: JSON) -> None:
        """Write messages, in one write."""
        await self.stdin.send_all(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    async def request(self, method: str, **params: JSON) -> int:
        """Send a request and return its id."""
        self._next_id += 1
        await self.send({"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params})
        return self._next_id

    async def notify(self, method: str, **params: JSON) -> None:
        """Send a notification."""
        await self.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def receive(self) -> JSONObject | None:
        """The agent's next message; None at the end."""
        while not self._lines:
            try:
                chunk = bytes(await self.stdout.receive_some())
            except trio.BrokenResourceError:
                return None
            if not chunk:
                return None
            beginning, *lines = chunk.split(b"\n")
            self._unfinished.append(beginning)
            if lines:
                self._lines += [b"".join(self._unfinished), *lines[:-1]]
                self._unfinished = lines[-1:]
        message = json.loads(self._lines.popleft())
        assert isinstance(message, dict)
        self.received.append(message)
        if "method" not in message:
            self._answers[message["id"]] = message
        return message

    async def receive_all(self) -> None:
        """Read to the end; what comes is in :attr:`received`."""
        while await self.receive() is not None:
            pass

    async def answer(self, request_id: int) -> JSONObject:
        """The answer to a request. Permission is given meanwhile, to whatever the agent asks for."""
        while request_id not in self._answers:
            message = await self.receive()
            assert message is not None, f"the agent ended instead of answering; stderr: {self.stderr}"
            if message.get("method") == "session/request_permission":
                outcome: JSONObject = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
                await self.send({"jsonrpc": "2.0", "id": message["id"], "result": outcome})
        return self._answers.pop(request_id)

    async def call(self, method: str, **params: JSON) -> JSONObject:
        """Send a request and wait for its answer."""
        return await self.answer(await self.request(method, **params))

    async def result(self, method: str, **params: JSON) -> JSONObject:
        """Send a request and wait for its result."""
        return result_of(await self.call(method, **params))

    async def new_session(self, cwd: str | Path, *servers: JSON) -> str:
        """Open a session and return its id."""
        session_id = (await self.result("session/new", cwd=str(cwd), mcpServers=list(servers)))["sessionId"]
        assert isinstance(session_id, str)
        return session_id

    async def say(self, session_id: str, text: str) -> str:
        """Prompt, and return all that the agent says to that."""
        already = len(self.received)
        assert await self.result("session/prompt", **prompt(session_id, text)) == {"stopReason": "end_turn"}
        return said(self.received[already:], session_id)

    async def ended(self) -> int:
        """Wait until the agent is gone and return its exit status."""
        return await self.process.wait()


def said(messages: Sequence[JSONObject], session_id: str, *, kind: str = "agent_message_chunk") -> str:
    """The text that came in chunks of ``kind`` in one session."""
    text: list[str] = []
    for message in messages:
        match message:
            case {
                "method": "session/update",
                "params": {
                    "sessionId": str(of),
                    "update": {"sessionUpdate": str(update), "content": {"text": str(chunk)}},
                },
            } if (of, update) == (session_id, kind):
                text.append(chunk)
    return "".join(text)


def stdio_server(habit: str, tag: str) -> JSONObject:
    """An MCP server with a bad habit, as a client names it."""
    return {"name": habit, "command": sys.executable, "args": ["-I", "-S", NASTY, habit, tag], "env": []}


def behind_a_wrapper(server: JSONObject) -> JSONObject:
    """``server`` as the child of a shell that waits for it, as npx and uvx do."""
    command, args = server["command"], server["args"]
    assert isinstance(args, list)
    return {
        **server,
        "name": f"{server['name']} behind a wrapper",
        "command": "sh",
        "args": ["-c", '"$@"; :', "sh", command, *args],
    }


@asynccontextmanager
async def open_raw_client(
    sessions: Path, *options: str, command: Sequence[str] = AGENT, timeout: float = 30.0, stderr: Path | None = None
) -> AsyncGenerator[RawClient]:
    """Start an agent and initialize it; it is killed in the end, unless the block ended it."""
    log = stderr or sessions.parent / f"{sessions.name}.stderr"
    with log.open("ab") as file:
        process = await trio.lowlevel.open_process(
            [*command, "--sessions", str(sessions), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            cwd=ROOT,
        )
    client = RawClient(process, log)
    try:
        async with client.stdin, client.stdout:
            with trio.fail_after(timeout):
                await client.result("initialize", protocolVersion=1, clientCapabilities=CAPABILITIES)
                yield client
    finally:
        if process.returncode is None:
            os.kill(process.pid, signal.SIGKILL)
        with trio.CancelScope(shield=True):
            await process.wait()
