"""A client made with the official Python SDK; see the package."""

from __future__ import annotations

import asyncio
import os
from typing import cast

from acp import PROTOCOL_VERSION, spawn_agent_process, text_block
from acp.interfaces import Client

from tests.bench.programs.script import CWD, MODE, arguments, measured, prose, work_of


class Bench:
    """Counts updates. The SDK handles each in a task of its own, so the last one may come after the answer."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._all = asyncio.Event()

    async def session_update(self, session_id: str, update: object, **_more: object) -> None:
        self._wanted -= 1
        if not self._wanted:
            self._all.set()

    async def wait(self) -> None:
        await self._all.wait()

    def on_connect(self, conn: object) -> None:
        pass


async def main() -> None:
    (name, size), (command, *rest) = arguments()
    work = work_of(name, size)
    client = Bench(1 if name == "large" else work)
    text = "taste" if name == "prompt" else f"{name} {size}"
    async with spawn_agent_process(cast(Client, client), command, *rest, env=os.environ) as (agent, _process):
        await agent.initialize(protocol_version=PROTOCOL_VERSION)
        session = (await agent.new_session(cwd=CWD, mcp_servers=[])).session_id
        with measured(work):
            if name == "requests":
                for _ in range(work):
                    await agent.set_session_mode(session_id=session, mode_id=MODE)
            else:
                more = prose(work) if name == "prompt" else ""
                await agent.prompt(session_id=session, prompt=[text_block(text + more)])
                if name != "prompt":
                    await client.wait()


asyncio.run(main())
