"""The reference agent's tools: MCP servers, and the files and terminals of the client.

https://agentclientprotocol.com/protocol/tool-calls
https://agentclientprotocol.com/protocol/file-system
https://agentclientprotocol.com/protocol/terminals

Each is a tool call with a life: reported as pending, permitted by the user where it does something, in progress, then
completed with what came of it, or failed with the reason.
"""

from __future__ import annotations

import json
import os
import shlex
from typing import NoReturn

import trio

import acp_ref as acp
from acp_ref.mcp_servers import McpConnection, McpRequestError, McpUnavailable
from acp_ref.reference_agent.commands import CommandError, UsageError, needs, take_word, whole_number, words
from acp_ref.reference_agent.settings import asks_first
from acp_ref.schema import TerminalOutputResponse, ToolCallLocation, ToolCallStatus

__all__ = ["call", "read", "run", "run_in_terminal", "said", "write"]


def said(text: str) -> list[acp.Content]:
    """``text`` as what a tool call shows."""
    return [acp.Content(content=acp.TextContent(text=text))]


async def permitted(turn: acp.PromptTurn, call: acp.RunningToolCall) -> bool:
    """Whether the tool may run: ask the user, unless the session's mode says not to. A no is how the call failed."""
    if not asks_first(turn.session):
        return True
    decision = await call.request_permission()
    if not decision:
        await call.fail(said(f"Not permitted: {decision.reason}."))
    return decision.allowed


# -------------------------------------------------------------------------------------------------------- MCP servers


async def call(turn: acp.PromptTurn, text: str) -> None:
    """Call a tool of an MCP server of the session."""
    name, rest = take_word(text)
    tool, rest = take_word(rest)
    arguments = parse_arguments(rest)
    server = named_server(turn, name)
    async with turn.tool_call(f"{name}: {tool}", name=tool, raw_input=arguments) as tool_call:
        if not await permitted(turn, tool_call):
            return
        await tool_call.start()
        try:
            result = await server.call_tool(tool, arguments)
        except (McpUnavailable, McpRequestError) as exc:
            await tool_call.fail(said(str(exc)))
            return
        content = [acp.Content(content=block) for block in result.content]  # CONTENT-01: they are ACP's blocks as well
        if result.is_error:
            await tool_call.fail(content)
        else:
            raw_output = acp.UNSET if result.structured_content is None else result.structured_content
            await tool_call.complete(content, raw_output=raw_output)


def parse_arguments(text: str) -> acp.JSONObject:
    """The arguments of a tool: a JSON object, an empty one if there is no text."""
    try:
        arguments: acp.JSON = json.loads(text or "{}", parse_constant=refuse)
    except (ValueError, RecursionError) as exc:
        raise CommandError(f"The arguments are not JSON: {exc}") from exc
    if not isinstance(arguments, dict):
        raise UsageError
    return arguments


def refuse(constant: str) -> NoReturn:
    """NaN and Infinity, which Python reads, are no JSON."""
    raise ValueError(f"{constant} is no JSON")


def named_server(turn: acp.PromptTurn, name: str) -> McpConnection:
    """The connection to the MCP server ``name``."""
    server = turn.session.mcp.get(name)
    if server is None:
        names = ", ".join(server.name for server in turn.session.mcp)
        raise CommandError(
            f"This session has no MCP server {name!r}, " + (f"only {names}." if names else "and no other.")
        )
    return server


# --------------------------------------------------------------------------------------------------------------- files


async def full_path(turn: acp.PromptTurn, path: str) -> str:
    """``path`` as an absolute path, a relative one from the session's directory (SETUP-57), inside its roots."""
    if not await trio.to_thread.run_sync(turn.session.roots.contains, path):  # SETUP-20
        raise CommandError(f"{path} is outside the session's directories.")
    return os.path.join(turn.session.cwd, path)


async def read(turn: acp.PromptTurn, text: str) -> None:
    """Show a file, or some of its lines, as the client has it: with unsaved changes."""
    name, *numbers = words(text) or [""]
    if not name or len(numbers) > 2:
        raise UsageError
    line, limit = [*map(whole_number, numbers), None, None][:2]
    needs(announced=turn.client.can_read_text_files, capability="fs.readTextFile")
    path = await full_path(turn, name)
    location = ToolCallLocation(path=path, line=line or None)
    async with turn.tool_call(f"Read {name}", kind=acp.ToolKind.READ, locations=[location]) as tool_call:
        await tool_call.start()
        try:
            content = await turn.client.read_text_file(path, line=line, limit=limit)
        except (acp.RequestError, acp.LocalProtocolError) as exc:
            await tool_call.fail(said(str(exc)))
        else:
            await tool_call.complete(said(content))


async def write(turn: acp.PromptTurn, text: str) -> None:
    """Write a file through the client, and show what that changes before asking."""
    name, new_text = take_word(text)
    if not new_text:
        raise UsageError
    needs(announced=turn.client.can_write_text_files, capability="fs.writeTextFile")
    path = await full_path(turn, name)
    async with turn.tool_call(
        f"Write {name}",
        kind=acp.ToolKind.EDIT,
        content=await preview(turn, path, new_text),
        locations=[ToolCallLocation(path=path)],
    ) as tool_call:
        if not await permitted(turn, tool_call):
            return
        await tool_call.start()
        try:
            await turn.client.write_text_file(path, new_text)
        except acp.RequestError as exc:
            await tool_call.fail(said(str(exc)))


async def preview(turn: acp.PromptTurn, path: str, new_text: str) -> list[acp.Diff] | list[acp.Content]:
    """What writing ``new_text`` to ``path`` changes; a diff only where the client tells what is there now."""
    if not turn.client.can_read_text_files:
        return said(new_text)
    try:
        old_text = await turn.client.read_text_file(path)
    except acp.RequestError:
        old_text = None  # no file there yet; clients differ in the code for that
    return [acp.Diff(path=path, old_text=old_text, new_text=new_text)]


# ----------------------------------------------------------------------------------------------------------- terminals


async def run(turn: acp.PromptTurn, text: str) -> None:
    """Run a command in a terminal of the client."""
    command = words(text)
    if not command:
        raise UsageError
    await run_in_terminal(turn, *command)


async def run_in_terminal(turn: acp.PromptTurn, command: str, *args: str, kill: bool = False) -> None:
    """Run a command in a terminal of the client that the user sees in the tool call (TOOL-15).

    The terminal is released as soon as the command has ended, also when the turn is cancelled (TERM-12).

    Args:
      kill: end the command instead of waiting for its end.
    """
    needs(announced=turn.client.can_run_terminals, capability="terminal")
    async with turn.tool_call(shlex.join([command, *args]), kind=acp.ToolKind.EXECUTE) as tool_call:
        if not await permitted(turn, tool_call):
            return
        try:
            async with turn.client.create_terminal(command, args) as terminal:
                await tool_call.update(status=ToolCallStatus.IN_PROGRESS, content=[terminal.as_content()])
                if kill:
                    await terminal.kill()
                await terminal.wait_for_exit()
                output = await terminal.output()
        except acp.RequestError as exc:
            await tool_call.fail(said(str(exc)))
            return
        settle = tool_call.complete if kill or succeeded(output) else tool_call.fail
        await settle(raw_output=as_json(output))


def succeeded(output: TerminalOutputResponse) -> bool:
    """Whether the command ended, and by itself, and well."""
    return output.exit_status is not None and output.exit_status.exit_code == 0


def as_json(output: TerminalOutputResponse) -> acp.JSONObject:
    """What became of a command, for the tool call's raw output: it outlives the terminal."""
    status = output.exit_status
    return {
        "output": output.output,
        "exitCode": None if status is None else status.exit_code,
        "signal": None if status is None else status.signal,
    }
