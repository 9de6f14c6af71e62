"""A client made with the official Python SDK that has extensions, and calls those of the agent.

``py_sdk_extension_client AGENT...`` prints what it saw as one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any, cast

from acp import PROTOCOL_VERSION, RequestError, spawn_agent_process
from acp.interfaces import Client


class Parrot:
    """It only has extensions; their names have no underscore here."""

    def __init__(self) -> None:
        self.news: list[dict[str, Any]] = []
        self.heard = asyncio.Event()

    def on_connect(self, conn: object) -> None:
        pass

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert method == "parrot/call"
        return {"called": params}

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        assert method == "parrot/news"
        self.news.append(params)
        self.heard.set()


async def main(command: list[str]) -> dict[str, Any]:
    parrot = Parrot()
    async with spawn_agent_process(cast("Client", parrot), *command, transport_kwargs={"stderr": None}) as (agent, _):
        initialized = await agent.initialize(protocol_version=PROTOCOL_VERSION)
        assert initialized.agent_capabilities is not None
        flown = await agent.ext_method("parrot/fly", {"to": "home"})
        refused = None
        try:
            await agent.ext_method("parrot/swim", {})
        except RequestError as exc:
            refused = exc.code
        await agent.ext_notification("parrot/news", {"n": 1})
        await parrot.heard.wait()
    return {
        "announced": initialized.agent_capabilities.field_meta,
        "flown": flown,
        "refused": refused,
        "news": parrot.news,
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1:]))))
