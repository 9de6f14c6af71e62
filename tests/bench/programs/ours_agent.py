"""An agent of this library's: ``ours_agent [--store DIRECTORY] [--record FILE]``."""

from __future__ import annotations

import trio

from acp_ref._converter import structure_hook
from acp_ref._jsonrpc import JSON
from acp_ref.agent import Agent, serve_agent
from acp_ref.prompt_turn import PromptTurn
from acp_ref.schema import (
    AgentMessageChunk,
    SessionMode,
    SessionModeId,
    SessionModeState,
    SessionUpdate,
    StopReason,
    TextContent,
)
from acp_ref.session_store import DirectoryStore
from tests.bench.programs.script import MODE, TEXT, option, prose, record

to_update = structure_hook(SessionUpdate)


def typed(value: object) -> SessionUpdate:
    spelled: JSON = value  # type: ignore[assignment]  # it was read from JSON
    return to_update(spelled)


RECORD = [typed(value) for value in record()]


async def prompt(turn: PromptTurn) -> StopReason:
    match turn.text[:100].split():
        case ["updates", count]:
            for _ in range(int(count)):
                await turn.send(AgentMessageChunk(content=TextContent(text=TEXT)))
        case ["large", size]:
            await turn.send(AgentMessageChunk(content=TextContent(text=prose(int(size)))))
        case ["record", _]:
            for update in RECORD:
                await turn.send(update)
    return StopReason.END_TURN


mode = SessionMode(id=SessionModeId(MODE), name="The only one")
store = option("--store")
agent = Agent(
    name="bench",
    version="1",
    prompt=prompt,
    modes=SessionModeState(current_mode_id=mode.id, available_modes=[mode]),
    store=None if store is None else DirectoryStore(store),
)
trio.run(serve_agent, agent)
