"""An agent whose start-up is heavy: what it needs for a session takes half a minute to get ready."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio

import acp_ref as acp


@asynccontextmanager
async def open_session(session: acp.AgentSession) -> AsyncGenerator[None, None]:
    await trio.sleep(30)
    yield


async def prompt(turn: acp.PromptTurn) -> acp.StopReason:
    return acp.StopReason.END_TURN


trio.run(acp.serve_agent, acp.Agent(name="slow", version="1", prompt=prompt, open_session=open_session))
