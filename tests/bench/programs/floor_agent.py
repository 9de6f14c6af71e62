"""The floor: an agent of trio and orjson alone, which checks nothing. ``floor_agent [--record FILE]``"""

from __future__ import annotations

import os
from collections.abc import Awaitable
from typing import Any, Final

import attrs
import orjson
import trio

from tests.bench.programs.script import MODE, TEXT, prose, record

GATHER: Final = 64 * 1024
"""Bytes that are written in one go."""

RECORD: Final = record()


@attrs.define
class Text:
    text: str


@attrs.define
class Chunk:
    content: Text


class Floor:
    def __init__(self) -> None:
        self._stdin = trio.lowlevel.FdStream(os.dup(0))
        self._stdout = trio.lowlevel.FdStream(os.dup(1))
        self._gathered: list[bytes] = []
        self._size = 0

    async def put(self, frame: bytes) -> None:
        self._gathered.append(frame)
        self._size += len(frame)
        if self._size >= GATHER:
            await self.flush()

    async def flush(self) -> None:
        gathered, self._gathered, self._size = self._gathered, [], 0
        await self._stdout.send_all(b"\n".join([*gathered, b""]))

    def send(self, session: str, chunk: Chunk) -> Awaitable[None]:
        content = {"type": "text", "text": chunk.content.text}
        return self.send_json(session, {"sessionUpdate": "agent_message_chunk", "content": content})

    def send_json(self, session: str, update: object) -> Awaitable[None]:
        params = {"sessionId": session, "update": update}
        return self.put(orjson.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}))

    async def handle(self, method: str, params: dict[str, Any]) -> object:
        match method:
            case "initialize":
                return {"protocolVersion": 1}
            case "session/new":
                modes = {"currentModeId": MODE, "availableModes": [{"id": MODE, "name": "The only one"}]}
                return {"sessionId": "s1", "modes": modes}
            case "session/prompt":
                await self.prompt(params["sessionId"], params["prompt"][0]["text"])
                return {"stopReason": "end_turn"}
        return {}

    async def prompt(self, session: str, text: str) -> None:
        match text[:100].split():
            case ["updates", count]:
                for _ in range(int(count)):
                    await self.send(session, Chunk(Text(TEXT)))
            case ["large", size]:
                await self.send(session, Chunk(Text(prose(int(size)))))
            case ["record", _]:
                for update in RECORD:
                    await self.send_json(session, update)

    async def run(self) -> None:
        rest = b""
        while data := await self._stdin.receive_some():
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                request = orjson.loads(line)
                result = await self.handle(request["method"], request["params"])
                await self.put(orjson.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}))
                await self.flush()


async def main() -> None:
    await Floor().run()


trio.run(main)
