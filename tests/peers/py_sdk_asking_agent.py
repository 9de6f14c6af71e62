"""An agent made with the official Python SDK that answers each prompt by what a question to the user came to.

``open URL`` asks to open a page, ``permit`` asks for permission, of which it says how it was answered.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from acp import (
    InitializeResponse,
    NewSessionResponse,
    PromptResponse,
    run_agent,
    start_tool_call,
    update_agent_message_text,
    update_tool_call,
)
from acp.agent.connection import AgentSideConnection
from acp.interfaces import Agent
from acp.schema import ElicitationUrlSessionMode, PermissionOption, ToolCallUpdate
from pydantic import AnyUrl, BaseModel


class Asker:
    """The agent."""

    def __init__(self) -> None:
        self._client: AgentSideConnection | None = None

    def on_connect(self, conn: AgentSideConnection) -> None:
        self._client = conn

    async def initialize(self, protocol_version: int, **kwargs: Any) -> InitializeResponse:
        return InitializeResponse(protocol_version=protocol_version)

    async def new_session(self, **kwargs: Any) -> NewSessionResponse:
        return NewSessionResponse(session_id="only")

    async def cancel(self, session_id: str, **kwargs: Any) -> None:
        pass  # the question is answered as cancelled

    async def prompt(self, session_id: str, prompt: list[BaseModel], **kwargs: Any) -> PromptResponse:
        assert self._client is not None
        word, _, rest = getattr(prompt[0], "text", "").partition(" ")
        if word == "open":
            mode = ElicitationUrlSessionMode(session_id=session_id, url=AnyUrl(rest), elicitation_id="page")
            answer = await self._client.create_elicitation(message="Read this", mode=mode)
            await self._client.complete_elicitation(elicitation_id="page")
            outcome = str(getattr(answer, "action", answer))
        else:
            await self._client.session_update(session_id=session_id, update=start_tool_call("call", "Think"))
            permission = await self._client.request_permission(
                session_id=session_id,
                tool_call=ToolCallUpdate(tool_call_id="call"),
                options=[PermissionOption(option_id="yes", name="Yes", kind="allow_once")],
            )
            outcome = permission.outcome.outcome
            failed = update_tool_call("call", status="failed")
            await self._client.session_update(session_id=session_id, update=failed)
        await self._client.session_update(session_id=session_id, update=update_agent_message_text(outcome))
        return PromptResponse(stop_reason="cancelled" if outcome == "cancelled" else "end_turn")


if __name__ == "__main__":
    asyncio.run(run_agent(cast("Agent", Asker()), use_unstable_protocol=True))
