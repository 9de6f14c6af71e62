"""The story of the demo: an agent and a client, from their first message to their last, page by page.

https://agentclientprotocol.com/protocol/overview#message-flow

Each step has a title, the page it comes from, and a body: what the client does, and what should come of it.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from itertools import zip_longest
from typing import Final

import attrs
import trio

import acp_ref
from acp_ref.demo.mcp_server import TOKEN_HEADER, TOKEN_VARIABLE, greeting
from acp_ref.demo.servers import offered, open_web_servers
from acp_ref.demo.stage import Stage, shown_by, transcript

__all__ = ["STORY", "Step", "step"]

TRANSPORTS: Final = ("stdio", "http", "sse")
"""The names of the session's MCP servers, and the transports they have."""

PATIENCE: Final = 0.3
"""Seconds that the user lets the agent sleep."""

AT_ONCE: Final = 5.0
"""Seconds, on a machine that is busy, between a cancellation and its effect."""

POEM: Final = "A line,\nanother line,\nand the last.\n"
"""A file of the project."""


@attrs.frozen(kw_only=True)
class Step:
    """One step of the story."""

    title: str
    """What it is, in a few words."""
    page: str
    """The page of the specification that it comes from, and the heading on it."""
    body: Callable[[Stage], Awaitable[None]]
    """What happens."""


def step(title: str, page: str) -> Callable[[Callable[[Stage], Awaitable[None]]], Step]:
    """Make a function a step of the story."""
    return lambda body: Step(title=title, page=page, body=body)


@step("Start the agent and agree on a version", "initialization#version-negotiation")
async def initialize(stage: Stage) -> None:
    # The next step needs servers that take a while to start, so they begin now.
    stage.web_servers = await stage.enter(open_web_servers(stage.token, cwd=stage.directory))
    for server in stage.web_servers:
        stage.processes.add(server.process.pid)
    await stage.enter(stage.open_agent())
    introduce(stage)
    stage.tell.check("both speak version 1 of the protocol", stage.agent.agent.protocol_version == 1)
    announced = stage.agent.capabilities
    stage.tell.check("the agent can load sessions", announced.load_session)
    stage.tell.check("it can close sessions", announced.session_capabilities.close is not None)
    reach = announced.mcp_capabilities
    stage.tell.check("it reaches MCP servers over HTTP and SSE, not only stdio", reach.http and reach.sse, reach)


def introduce(stage: Stage) -> None:
    """Tell who the agent is."""
    info = stage.agent.info
    name = "an agent without a name" if info is None else f"{info.display_name} {info.version}"
    stage.tell.say("agent", f"I am {name}, process {stage.agent_process.pid}.")


@step("Open a session in a project, with three MCP servers", "session-setup#creating-a-session")
async def new_session(stage: Stage) -> None:
    await trio.Path(stage.project).mkdir()
    stage.tell.say("client", f"The project is {stage.project}. The servers are:")
    servers = await offered(stage.token, stage.web_servers)
    stage.tell.say("", f"stdio  for you to start, with {TOKEN_VARIABLE} in its environment")
    for server in stage.web_servers:
        stage.tell.say("", f"{server.transport:<7}{await server.url()}, with the header {TOKEN_HEADER}")
    stage.session = await stage.enter(stage.agent.new_session(stage.project, mcp_servers=servers))
    stage.tell.say("agent", f"The session is {stage.session.id}.")
    check_mcp_servers(stage)


def check_mcp_servers(stage: Stage) -> None:
    """The answer to a session's setup speaks of MCP servers only when one of them failed."""
    stage.tell.check("the agent is connected to all three", stage.session.setup_meta is None, stage.session.setup_meta)


@step("Say something, and hear the answer", "prompt-turn#1-user-message")
async def prompt(stage: Stage) -> None:
    said = "Good morning, agent."
    answer = await stage.prompt(said)
    stage.tell.check("the agent echoes the prompt, and the turn ends", answer == said)
    commands = {command.name for command in stage.session.state.available_commands}
    used = ["call", "write", "read", "sleep"]
    stage.tell.check(f"it has advertised /{', /'.join(used)} and more", commands > {*used}, sorted(commands))


@step("Let it call a tool of each server, once you allow it", "tool-calls#requesting-permission")
async def call_tools(stage: Stage) -> None:
    for transport in TRANSPORTS:
        command = f"/call {transport} greet {json.dumps({'name': 'Ada'})}"
        call = await stage.call(command, went=["pending", "permission", "in_progress", "completed"])
        # Only a server that was given the token, and over stdio the session's directory, can say this.
        cwd = stage.project if transport == "stdio" else stage.directory
        expected = greeting("Ada", transport, cwd, stage.token)
        stage.tell.check("the server has its token, and is where it should be", shown_by(call) == expected, expected)


@step("Let it write a file of the project", "file-system#writing-files")
async def write_file(stage: Stage) -> None:
    await stage.call("/write notes.txt Ada says hello.", went=["pending", "permission", "in_progress", "completed"])
    written = await trio.Path(stage.project, "notes.txt").read_text("utf-8")
    stage.tell.check("the file holds just that", written == "Ada says hello.", repr(written))


@step("Let it read a file of the project", "file-system#reading-files")
async def read_file(stage: Stage) -> None:
    await trio.Path(stage.project, "poem.txt").write_text(POEM, "utf-8")
    call = await stage.call("/read poem.txt 2 1", went=["pending", "in_progress", "completed"])
    line = POEM.splitlines(keepends=True)[1]
    stage.tell.check("it got one line, the second of the file", shown_by(call) == line, repr(line))


@step("Change your mind while it works", "prompt-turn#cancellation")
async def cancel(stage: Stage) -> None:
    stage.tell.say("user", "/sleep 60")
    async with stage.session.prompt("/sleep 60") as turn:
        await trio.sleep(PATIENCE)
        stage.tell.say("user", "Never mind!")
        cancelled_at = trio.current_time()
        turn.cancel()
        stop_reason = await turn.wait()
    took = trio.current_time() - cancelled_at
    stage.tell.check("the turn ends as cancelled", stop_reason == acp_ref.StopReason.CANCELLED, stop_reason)
    stage.tell.check("it ends at once", took < AT_ONCE, f"after {took:.1f} seconds")


@step("Close the session", "session-setup#closing-a-session")
async def close_session(stage: Stage) -> None:
    stage.transcript = transcript(stage.session.state)
    await stage.leave()
    if stage.processes.sees_descendants:
        left = stage.processes.left() or ()  # the agent, and the two servers that it has not started
        stage.tell.check("the MCP server that the agent had started is gone", len(left) == 3, "\n".join(left))


@step("End the agent, and start another", "transports#stdio")
async def restart(stage: Stage) -> None:
    await end_agent(stage)
    await stage.enter(stage.open_agent())
    introduce(stage)


async def end_agent(stage: Stage) -> None:
    """Close the agent's stdin. That is all it takes."""
    await stage.leave()
    status = stage.agent_process.returncode
    stage.tell.check("its stdin closed, and the agent went by itself, with exit status 0", status == 0, status)


@step("Load the session, and hear it all again", "session-setup#loading-a-session")
async def load_session(stage: Stage) -> None:
    session_id = stage.session.id
    stage.tell.say("client", f"The session is {session_id}, the project and the servers are as before.")
    servers = await offered(stage.token, stage.web_servers)
    stage.session = await stage.enter(stage.agent.load_session(session_id, stage.project, mcp_servers=servers))
    replayed = transcript(stage.session.state)
    stage.tell.say("agent", f"{len(stage.session.replay)} updates, which make {len(replayed)} entries.")
    differences = [f"{old} / {new}" for old, new in zip_longest(stage.transcript, replayed) if old != new]
    stage.tell.check("they tell what the first client saw, word for word", not differences, "\n".join(differences))
    check_mcp_servers(stage)


@step("Go on with the conversation", "prompt-turn#6-continue-conversation")
async def go_on(stage: Stage) -> None:
    said = "Where were we?"
    answer = await stage.prompt(said)
    stage.tell.check("the agent echoes this prompt too", answer == said)


@step("Say goodbye", "transports#stdio")
async def shut_down(stage: Stage) -> None:
    await stage.leave()  # the session
    await end_agent(stage)
    await stage.leave()  # the two servers
    odd = [str(report) for report in stage.reports]
    stage.tell.check("in all that was said, nothing had to be ignored or mended", not odd, "\n".join(odd))


STORY: Final = (
    initialize,
    new_session,
    prompt,
    call_tools,
    write_file,
    read_file,
    cancel,
    close_session,
    restart,
    load_session,
    go_on,
    shut_down,
)
"""The steps, in the order in which they are told; each builds on those before it."""
