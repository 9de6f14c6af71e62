"""The floor: a client of trio and orjson alone, which checks nothing and knows one kind of update.

It hands typed objects to a loop; of other updates than chunks, the JSON values.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from subprocess import PIPE
from typing import Any

import attrs
import orjson
import trio

from tests.bench.programs.script import CWD, MODE, arguments, measured, work_of


@attrs.define
class Text:
    text: str


@attrs.define
class Chunk:
    content: Text


class Floor:
    def __init__(self, process: trio.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._rest = b""

    async def aclose(self) -> None:
        await self._stdin.aclose()
        await self._stdout.aclose()

    async def receive(self) -> list[bytes]:
        """The lines that the next read completes."""
        data = await self._stdout.receive_some()
        assert data, "the agent is gone"
        *lines, self._rest = (self._rest + data).split(b"\n")
        return lines

    async def write(self, method: str, params: object) -> None:
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        await self._stdin.send_all(orjson.dumps(request) + b"\n")

    async def call(self, method: str, params: object) -> Any:
        await self.write(method, params)
        while not (lines := await self.receive()):
            pass
        return orjson.loads(lines[0])["result"]

    async def prompt(self, session: str, text: str) -> AsyncGenerator[object, None]:
        await self.write("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": text}]})
        while True:
            for line in await self.receive():
                message = orjson.loads(line)
                if "id" in message:
                    return
                update = message["params"]["update"]
                if update["sessionUpdate"] == "agent_message_chunk" and update["content"]["type"] == "text":
                    yield Chunk(Text(update["content"]["text"]))
                else:
                    yield update


async def main() -> None:
    (name, size), command = arguments()
    work = work_of(name, size)
    process = await trio.lowlevel.open_process(command, stdin=PIPE, stdout=PIPE)
    agent = Floor(process)
    await agent.call("initialize", {"protocolVersion": 1})
    session = (await agent.call("session/new", {"cwd": CWD, "mcpServers": []}))["sessionId"]
    with measured(work):
        if name == "requests":
            for _ in range(work):
                await agent.call("session/set_mode", {"sessionId": session, "modeId": MODE})
        else:
            seen = 0
            async for _update in agent.prompt(session, f"{name} {size}"):
                seen += 1
            assert seen == work, seen
    await agent.aclose()
    await process.wait()


trio.run(main)
