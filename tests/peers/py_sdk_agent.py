"""An agent made with the official Python SDK: ``py_sdk_agent DIRECTORY``, which keeps its sessions in DIRECTORY.

The first word of a prompt says what it does with everything the SDK offers; the rest is said again.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, cast

from acp import (
    ElicitationFormSessionMode,
    ElicitationSchema,
    ElicitationStringPropertySchema,
    InitializeResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PromptResponse,
    RequestError,
    SetSessionConfigOptionResponse,
    SetSessionModeResponse,
    plan_entry,
    run_agent,
    start_tool_call,
    text_block,
    tool_content,
    tool_diff_content,
    tool_terminal_ref,
    update_agent_message_text,
    update_agent_thought_text,
    update_plan,
    update_tool_call,
    update_user_message_text,
)
from acp.agent.connection import AgentSideConnection
from acp.interfaces import Agent
from acp.schema import (
    AgentCapabilities,
    CloseSessionResponse,
    Implementation,
    ListSessionsResponse,
    McpCapabilities,
    PermissionOption,
    PromptCapabilities,
    ResumeSessionResponse,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionInfo,
    SessionListCapabilities,
    SessionMode,
    SessionModeState,
    SessionResumeCapabilities,
    ToolCallUpdate,
)
from pydantic import BaseModel

OPTIONS = [
    PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
    PermissionOption(option_id="no", name="No", kind="reject_once"),
]


class Parrot:
    """An agent with a session store of files, and a task that can be cancelled for each session."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._turns: dict[str, asyncio.Event] = {}
        self._mode = "ask"
        self._client: AgentSideConnection | None = None

    def on_connect(self, conn: AgentSideConnection) -> None:
        self._client = conn

    @property
    def client(self) -> AgentSideConnection:
        assert self._client is not None
        return self._client

    async def initialize(self, protocol_version: int, **kwargs: Any) -> InitializeResponse:
        return InitializeResponse(
            protocol_version=protocol_version,
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(image=True),
                mcp_capabilities=McpCapabilities(http=True, sse=False),
                session_capabilities=SessionCapabilities(
                    list=SessionListCapabilities(),
                    resume=SessionResumeCapabilities(),
                    close=SessionCloseCapabilities(),
                ),
            ),
            agent_info=Implementation(name="py-sdk-parrot", version="1"),
        )

    # ------------------------------------------------------------------------------------------------------- sessions

    def _path(self, session_id: str) -> Path:
        path = self._directory / f"{session_id}.jsonl"
        if session_id not in [known.stem for known in self._directory.glob("*.jsonl")]:
            raise RequestError(-32002, "Resource not found", {"sessionId": session_id})
        return path

    def _modes(self) -> SessionModeState:
        modes = [SessionMode(id="ask", name="Ask"), SessionMode(id="code", name="Code")]
        return SessionModeState(current_mode_id=self._mode, available_modes=modes)

    async def new_session(
        self, cwd: str, mcp_servers: list[BaseModel] | None = None, **kwargs: Any
    ) -> NewSessionResponse:
        session_id = f"parrot-{len(list(self._directory.glob('*.jsonl')))}"
        servers = [server.model_dump(mode="json", by_alias=True, exclude_none=True) for server in mcp_servers or []]
        (self._directory / f"{session_id}.jsonl").write_text(json.dumps({"cwd": cwd, "mcpServers": servers}) + "\n")
        return NewSessionResponse(session_id=session_id, modes=self._modes())

    async def load_session(self, cwd: str, session_id: str, **kwargs: Any) -> LoadSessionResponse:
        for line in self._path(session_id).read_text().splitlines()[1:]:
            role, text = json.loads(line)
            update = update_user_message_text(text) if role == "user" else update_agent_message_text(text)
            await self.client.session_update(session_id=session_id, update=update)
        return LoadSessionResponse(modes=self._modes())

    async def resume_session(self, cwd: str, session_id: str, **kwargs: Any) -> ResumeSessionResponse:
        self._path(session_id)
        return ResumeSessionResponse(modes=self._modes())

    async def close_session(self, session_id: str, **kwargs: Any) -> CloseSessionResponse:
        await self.cancel(session_id)
        return CloseSessionResponse()

    async def list_sessions(self, **kwargs: Any) -> ListSessionsResponse:
        sessions = [
            SessionInfo(session_id=path.stem, cwd=json.loads(path.read_text().splitlines()[0])["cwd"])
            for path in sorted(self._directory.glob("*.jsonl"))
        ]
        return ListSessionsResponse(sessions=sessions)

    async def set_session_mode(self, mode_id: str, session_id: str, **kwargs: Any) -> SetSessionModeResponse:
        self._mode = mode_id
        return SetSessionModeResponse()

    async def set_config_option(self, **kwargs: Any) -> SetSessionConfigOptionResponse:
        raise RequestError.method_not_found("session/set_config_option")

    async def authenticate(self, method_id: str, **kwargs: Any) -> None:
        return None

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "parrot/fly":
            return {"flown": params["to"], "heard": await self.client.ext_method("parrot/call", {"back": params["to"]})}
        raise RequestError.method_not_found(f"_{method}")

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        await self.client.ext_notification(method, params | {"echoed": True})

    # -------------------------------------------------------------------------------------------------------- the turn

    async def prompt(self, session_id: str, prompt: list[BaseModel], **kwargs: Any) -> PromptResponse:
        text = "".join(getattr(block, "text", f"[{getattr(block, 'type', '?')}]") for block in prompt)
        word, _, rest = text.partition(" ")
        self._turns[session_id] = asyncio.Event()
        action = getattr(self, f"_{word}", None)
        if action is None:
            await self._say(session_id, text)
        elif not await action(session_id, rest):
            return PromptResponse(stop_reason="cancelled")
        with self._path(session_id).open("a") as journal:
            journal.write(json.dumps(["user", text]) + "\n" + json.dumps(["agent", f"did {word}"]) + "\n")
        return PromptResponse(stop_reason="end_turn")

    async def cancel(self, session_id: str, **kwargs: Any) -> None:
        if session_id in self._turns:
            self._turns[session_id].set()

    async def _say(self, session_id: str, text: str) -> bool:
        await self.client.session_update(session_id=session_id, update=update_agent_thought_text("hm"))
        for part in text.split(" "):
            await self.client.session_update(session_id=session_id, update=update_agent_message_text(part))
        return True

    async def _tool(self, session_id: str, rest: str) -> bool:
        send = self.client.session_update
        call = start_tool_call("call", "Think", kind="think", status="pending", raw_input={"rest": rest})
        await send(session_id=session_id, update=call)
        answer = await self.client.request_permission(
            session_id=session_id, tool_call=ToolCallUpdate(tool_call_id="call"), options=OPTIONS
        )
        allowed = getattr(answer.outcome, "option_id", None) == "yes"
        await send(session_id=session_id, update=update_tool_call("call", status="in_progress"))
        result = update_tool_call(
            "call",
            status="completed" if allowed else "failed",
            content=[tool_content(text_block(rest)), tool_diff_content("/a", "new", "old")],
            raw_output=allowed,
        )
        await send(session_id=session_id, update=result)
        entries = [plan_entry("think", status="completed"), plan_entry("speak", priority="high")]
        await send(session_id=session_id, update=update_plan(entries))
        return True

    async def _files(self, session_id: str, path: str) -> bool:
        await self.client.write_text_file(session_id=session_id, path=path, content="one\ntwo\n")
        read = await self.client.read_text_file(session_id=session_id, path=path, line=2, limit=1)
        return await self._say(session_id, read.content.strip())

    async def _missing(self, session_id: str, path: str) -> bool:
        try:
            await self.client.read_text_file(session_id=session_id, path=path)
        except RequestError as exc:
            return await self._say(session_id, str(exc.code))
        return False

    async def _terminal(self, session_id: str, line: str) -> bool:
        made = await self.client.create_terminal(session_id=session_id, command="sh", args=["-c", line])
        call = start_tool_call("run", line, kind="execute", content=[tool_terminal_ref(made.terminal_id)])
        await self.client.session_update(session_id=session_id, update=call)
        status = await self.client.wait_for_terminal_exit(session_id=session_id, terminal_id=made.terminal_id)
        output = await self.client.terminal_output(session_id=session_id, terminal_id=made.terminal_id)
        await self.client.kill_terminal(session_id=session_id, terminal_id=made.terminal_id)
        await self.client.release_terminal(session_id=session_id, terminal_id=made.terminal_id)
        return await self._say(session_id, f"{status.exit_code}:{output.output.strip()}")

    async def _ask(self, session_id: str, question: str) -> bool:
        form = ElicitationSchema(
            type="object",
            properties={"name": ElicitationStringPropertySchema(type="string", title="Name")},
            required=["name"],
        )
        mode = ElicitationFormSessionMode(session_id=session_id, requested_schema=form)
        answer = await self.client.create_elicitation(message=question, mode=mode)
        return await self._say(session_id, json.dumps(answer.model_dump(mode="json", by_alias=True)["content"]))

    async def _wait(self, session_id: str, rest: str) -> bool:
        await self.client.session_update(session_id=session_id, update=update_agent_message_text("waiting"))
        await self._turns[session_id].wait()
        await self.client.session_update(session_id=session_id, update=update_agent_message_text("stopped"))
        return False

    async def _break(self, session_id: str, rest: str) -> bool:
        raise RuntimeError("broken")


if __name__ == "__main__":
    asyncio.run(run_agent(cast("Agent", Parrot(Path(sys.argv[1]))), use_unstable_protocol=True))
