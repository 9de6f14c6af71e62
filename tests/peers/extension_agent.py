"""An agent of ours that has extensions, and calls those of the client. It does nothing else."""

from __future__ import annotations

import trio

import acp_ref as acp
from acp_ref.stdio import open_stdio

FLY = acp.extension_method("_parrot/fly", acp.JSON, acp.JSON)
WAIT = acp.extension_method("_parrot/wait", acp.JSON, acp.JSON)
WAITING = acp.extension_notification("_parrot/waiting", acp.JSON)
CALL = acp.extension_method("_parrot/call", acp.JSON, acp.JSON)
NEWS = acp.extension_notification("_parrot/news", acp.JSON)


async def fly(request: acp.IncomingRequest, params: acp.JSON) -> acp.JSON:
    assert isinstance(params, dict)
    back: acp.JSON = {"back": params["to"]}
    return {"flown": params["to"], "heard": await request.connection.request(CALL, back)}


async def wait(request: acp.IncomingRequest, params: acp.JSON) -> acp.JSON:
    await request.connection.notify(WAITING, {})
    await trio.sleep_forever()


def echo(connection: acp.Connection, params: acp.JSON) -> None:
    assert isinstance(params, dict)
    connection.put_notification(NEWS, params | {"echoed": True})


async def prompt(turn: acp.PromptTurn) -> acp.StopReason:
    return acp.StopReason.REFUSAL


def make_agent() -> acp.Agent:
    extensions = acp.Handlers()
    extensions.on_request(FLY, fly)
    extensions.on_request(WAIT, wait)
    extensions.on_notification(NEWS, echo)
    return acp.Agent(
        name="parrot", version="1", prompt=prompt, extensions=extensions, meta={"example.com": {"version": 1}}
    )


async def main() -> None:
    async with open_stdio() as stdio:
        await acp.serve_agent(make_agent(), stdio)


if __name__ == "__main__":
    trio.run(main)
