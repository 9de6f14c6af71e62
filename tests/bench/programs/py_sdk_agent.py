"""An agent made with the official Python SDK: ``py_sdk_agent [--record FILE]``."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from acp import (
    InitializeResponse,
    NewSessionResponse,
    PromptResponse,
    SetSessionModeResponse,
    run_agent,
    text_block,
    update_agent_message,
)
from acp.agent.connection import AgentSideConnection
from acp.interfaces import Agent
from acp.schema import SessionMode, SessionModeState, SessionNotification

from tests.bench.programs.script import MODE, TEXT, prose, record

RECORD = [SessionNotification.model_validate({"sessionId": "s1", "update": update}).update for update in record()]


class Bench:
    def on_connect(self, conn: AgentSideConnection) -> None:
        self._client = conn

    async def initialize(self, protocol_version: int, **_more: object) -> InitializeResponse:
        return InitializeResponse(protocol_version=protocol_version)

    async def new_session(self, cwd: str, **_more: object) -> NewSessionResponse:
        mode = SessionMode(id=MODE, name="The only one")
        return NewSessionResponse(session_id="s1", modes=SessionModeState(current_mode_id=MODE, available_modes=[mode]))

    async def set_session_mode(self, session_id: str, mode_id: str, **_more: object) -> SetSessionModeResponse:
        return SetSessionModeResponse()

    async def prompt(self, prompt: list[Any], session_id: str, **_more: object) -> PromptResponse:
        send = self._client.session_update
        match prompt[0].text[:100].split():
            case ["updates", count]:
                for _ in range(int(count)):
                    await send(session_id=session_id, update=update_agent_message(text_block(TEXT)))
            case ["large", size]:
                await send(session_id=session_id, update=update_agent_message(text_block(prose(int(size)))))
            case ["record", _]:
                for update in RECORD:
                    await send(session_id=session_id, update=update)
        return PromptResponse(stop_reason="end_turn")


asyncio.run(run_agent(cast(Agent, Bench())))
