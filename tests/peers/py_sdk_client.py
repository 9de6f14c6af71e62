"""A client made with the official Python SDK: ``py_sdk_client CWD MCP_SERVER -- AGENT...``.

It goes through everything the SDK can do, ends the agent, starts it again and loads the session, and prints what it saw
as one JSON object. MCP_SERVER is an MCP stdio server in wire form.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from acp import (
    PROTOCOL_VERSION,
    AcceptElicitationResponse,
    CreateTerminalResponse,
    ElicitationCapabilities,
    ElicitationFormCapabilities,
    ElicitationUrlCapabilities,
    PromptResponse,
    ReadTextFileResponse,
    RequestError,
    RequestPermissionResponse,
    TerminalOutputResponse,
    WaitForTerminalExitResponse,
    spawn_agent_process,
    text_block,
)
from acp.client.connection import ClientSideConnection
from acp.interfaces import Client
from acp.schema import (
    AllowedOutcome,
    BooleanConfigOptionCapabilities,
    ClientCapabilities,
    ClientSessionCapabilities,
    FileSystemCapabilities,
    Implementation,
    McpServerStdio,
    PermissionOption,
    SessionConfigOptionsCapabilities,
    TerminalExitStatus,
)
from pydantic import BaseModel

CAPABILITIES = ClientCapabilities(
    fs=FileSystemCapabilities(read_text_file=True, write_text_file=True),
    terminal=True,
    session=ClientSessionCapabilities(
        config_options=SessionConfigOptionsCapabilities(boolean=BooleanConfigOptionCapabilities())
    ),
    elicitation=ElicitationCapabilities(form=ElicitationFormCapabilities(), url=ElicitationUrlCapabilities()),
)


class Terminal:
    """A command that runs, and what it has printed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.output = b""
        self.reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while chunk := await self.process.stdout.read(65536):
            self.output += chunk

    async def wait(self) -> dict[str, Any]:
        await self.process.wait()
        await self.reading
        return self.status()

    def status(self) -> dict[str, Any]:
        code = self.process.returncode
        if code is None or code >= 0:
            return {"exit_code": code}
        return {"signal": signal.Signals(-code).name}


class Recorder:
    """What the agent asks of the client, answered for real, and what it says, kept."""

    def __init__(self, cwd: str) -> None:
        self.cwd = cwd
        self.updates: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.news = asyncio.Event()
        self._terminals: dict[str, Terminal] = {}

    def on_connect(self, conn: object) -> None:
        pass

    async def session_update(self, session_id: str, update: BaseModel, **kwargs: Any) -> None:
        self.updates.append(update.model_dump(mode="json", by_alias=True, exclude_none=True))
        self.news.set()

    async def request_permission(
        self, session_id: str, tool_call: BaseModel, options: list[PermissionOption], **kwargs: Any
    ) -> RequestPermissionResponse:
        self.asked.append("permission")
        chosen = next(option for option in options if option.kind == "allow_once")
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen.option_id))

    async def read_text_file(
        self, session_id: str, path: str, line: int | None = None, limit: int | None = None, **kwargs: Any
    ) -> ReadTextFileResponse:
        self.asked.append("read")
        try:
            lines = await asyncio.to_thread(lines_of, path)
        except FileNotFoundError:
            raise RequestError.resource_not_found(path) from None
        start = (line or 1) - 1
        return ReadTextFileResponse(content="".join(lines[start:] if limit is None else lines[start : start + limit]))

    async def write_text_file(self, session_id: str, path: str, content: str, **kwargs: Any) -> None:
        self.asked.append("write")
        await asyncio.to_thread(Path(path).write_text, content)

    async def create_terminal(
        self, session_id: str, command: str, args: list[str] | None = None, **kwargs: Any
    ) -> CreateTerminalResponse:
        self.asked.append("terminal")
        process = await asyncio.create_subprocess_exec(
            command, *(args or []), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, cwd=self.cwd
        )
        terminal_id = f"t{len(self._terminals)}"
        self._terminals[terminal_id] = Terminal(process)
        return CreateTerminalResponse(terminal_id=terminal_id)

    async def terminal_output(self, session_id: str, terminal_id: str, **kwargs: Any) -> TerminalOutputResponse:
        terminal = self._terminals[terminal_id]
        ended = terminal.process.returncode is not None
        return TerminalOutputResponse(
            output=terminal.output.decode(),
            truncated=False,
            exit_status=TerminalExitStatus(**terminal.status()) if ended else None,
        )

    async def wait_for_terminal_exit(
        self, session_id: str, terminal_id: str, **kwargs: Any
    ) -> WaitForTerminalExitResponse:
        return WaitForTerminalExitResponse(**await self._terminals[terminal_id].wait())

    async def kill_terminal(self, session_id: str, terminal_id: str, **kwargs: Any) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._terminals[terminal_id].process.kill()

    async def release_terminal(self, session_id: str, terminal_id: str, **kwargs: Any) -> None:
        self.asked.append("release")
        await self.kill_terminal(session_id, terminal_id)
        await self._terminals[terminal_id].wait()

    async def create_elicitation(self, message: str, mode: BaseModel, **kwargs: Any) -> AcceptElicitationResponse:
        form = getattr(mode, "requested_schema", None)
        self.asked.append("url" if form is None else "form")
        return AcceptElicitationResponse(action="accept", content=None if form is None else {"name": "Polly"})

    async def complete_elicitation(self, elicitation_id: str, **kwargs: Any) -> None:
        self.asked.append("complete")

    async def wait_for(self, status: str) -> None:
        """Wait for a tool call with that status."""
        while not any(update.get("status") == status for update in self.updates):
            self.news.clear()
            await self.news.wait()


def lines_of(path: str) -> list[str]:
    return Path(path).read_text().splitlines(keepends=True)


def dumped(response: BaseModel | None) -> Any:
    return None if response is None else response.model_dump(mode="json", by_alias=True, exclude_none=True)


class Faults(logging.Handler):
    """Everything the SDK complains about, such as an update that breaks its schema."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(f"{record.getMessage()}: {record.exc_info and record.exc_info[1]}")


@asynccontextmanager
async def open_agent(
    recorder: Recorder, command: list[str]
) -> AsyncIterator[tuple[ClientSideConnection, dict[str, Any]]]:
    async with spawn_agent_process(
        cast("Client", recorder),
        *command,
        transport_kwargs={"limit": 64 * 1024 * 1024, "stderr": None},
        use_unstable_protocol=True,
    ) as (agent, process):
        initialized = await agent.initialize(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=CAPABILITIES,
            client_info=Implementation(name="py-sdk", version="1"),
        )
        yield agent, dumped(initialized)
    assert process.returncode == 0, process.returncode


async def main(cwd: str, server: dict[str, Any], command: list[str]) -> dict[str, Any]:
    seen: dict[str, Any] = {"turns": {}}
    recorder = Recorder(cwd)
    async with open_agent(recorder, command) as (agent, seen["initialize"]):
        new = await agent.new_session(cwd=cwd, mcp_servers=[McpServerStdio.model_validate(server)])
        seen["new"] = dumped(new)
        session_id = new.session_id

        async def say(text: str) -> PromptResponse:
            recorder.updates.clear()
            recorder.asked.clear()
            response = await agent.prompt(session_id=session_id, prompt=[text_block(text)])
            seen["turns"][text[:40]] = {
                "stopReason": response.stop_reason,
                "updates": list(recorder.updates),
                "asked": list(recorder.asked),
            }
            return response

        for text in (
            "hello \u2028 \U0001f99c",
            '/call good echo {"text": "from MCP"}',
            "/write a.txt one\ntwo\n",
            "/read a.txt 2",
            "/read missing.txt",
            "/run echo from a terminal",
            "/ask",
            "/plan",
            "/mode code",
            "/title Two parrots",
            "/showcase",
        ):
            await say(text)

        recorder.updates.clear()
        turn = asyncio.create_task(agent.prompt(session_id=session_id, prompt=[text_block("/call good hang")]))
        await recorder.wait_for("in_progress")
        await agent.cancel(session_id=session_id)
        seen["cancelled"] = {"stopReason": (await turn).stop_reason, "updates": list(recorder.updates)}

        await agent.set_session_mode(mode_id="ask", session_id=session_id)
        seen["set"] = dumped(await agent.set_config_option(config_id="think_aloud", session_id=session_id, value=True))
        await say("after all")

        long = "x" * (10 * 1024 * 1024)
        await agent.set_config_option(config_id="think_aloud", session_id=session_id, value=False)
        recorder.updates.clear()
        await agent.prompt(session_id=session_id, prompt=[text_block(long)])
        seen["long"] = [len(update["content"]["text"]) for update in recorder.updates if "content" in update]

        errors: dict[str, int] = {}
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "relative cwd": lambda: agent.new_session(cwd="here", mcp_servers=[]),
            "unknown session": lambda: agent.prompt(session_id="nobody", prompt=[text_block("?")]),
            "unknown extension": lambda: agent.ext_method("nothing/here", {}),
            "unknown login": lambda: agent.authenticate(method_id="key"),
        }
        for name, call in calls.items():
            try:
                await call()
            except RequestError as exc:
                errors[name] = exc.code
        seen["errors"] = errors

    recorder = Recorder(cwd)
    async with open_agent(recorder, command) as (agent, _):
        seen["list"] = dumped(await agent.list_sessions())
        await agent.authenticate(method_id="demo")
        seen["load"] = dumped(await agent.load_session(cwd=cwd, session_id=session_id, mcp_servers=[]))
        seen["replay"] = [update for update in recorder.updates if len(json.dumps(update)) < 1_000_000]
        recorder.updates.clear()
        await agent.prompt(session_id=session_id, prompt=[text_block("still there?")])
        seen["after load"] = list(recorder.updates)
        await agent.close_session(session_id=session_id)
        recorder.updates.clear()
        seen["resume"] = dumped(await agent.resume_session(cwd=cwd, session_id=session_id, mcp_servers=[]))
        await agent.prompt(session_id=session_id, prompt=[text_block("and again")])
        seen["after resume"] = list(recorder.updates)
    return seen


if __name__ == "__main__":
    faults = Faults()
    logging.getLogger().addHandler(faults)
    separator = sys.argv.index("--")
    report = asyncio.run(main(sys.argv[1], json.loads(sys.argv[2]), sys.argv[separator + 1 :]))
    print(json.dumps(report | {"faults": faults.texts}))
