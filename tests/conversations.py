"""Words that many conversations share: how a scripted client opens a session and says something."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import trio

from acp_ref._jsonrpc import JSON, JSONObject
from acp_ref.agent import Agent
from acp_ref.client import Client
from acp_ref.client_session import ClientSession
from acp_ref.client_side import ClientSide
from acp_ref.permissions import answer_with
from acp_ref.prompt_turn import PromptTurn
from acp_ref.reports import Report
from acp_ref.schema import PermissionOptionKind, SessionId, StopReason
from acp_ref.testing import ScriptedPeer, open_scripted_agent, open_scripted_client

S = TypeVar("S")

CWD = "/home/user/project"


async def parrot(turn: PromptTurn) -> StopReason:
    """An agent that says what it hears."""
    for block in turn.prompt:
        await turn.send_content(block)
    return StopReason.END_TURN


def code_of(message: JSONObject) -> JSON:
    """The error code of an answer that must be an error."""
    error = message.get("error")
    assert isinstance(error, dict), message
    return error["code"]


def result_of(message: JSONObject) -> JSONObject:
    """The result of an answer that must be a success."""
    result = message.get("result")
    assert isinstance(result, dict), message
    return result


def update_of(message: JSONObject) -> JSONObject:
    """The update in a session/update."""
    params = message.get("params")
    update = params.get("update") if isinstance(params, dict) else None
    assert message.get("method") == "session/update"
    assert isinstance(update, dict), message
    return update


def text_of(message: JSONObject) -> JSON:
    """The text of a message chunk."""
    match update_of(message):
        case {"content": {"text": text}}:
            return text
    raise AssertionError(message)


def prompt(session_id: str, text: str) -> JSONObject:
    """The params of a session/prompt."""
    return {"sessionId": session_id, "prompt": [{"type": "text", "text": text}]}


@asynccontextmanager
async def client_of(
    served: Agent[S], *, capabilities: JSON = None, reports: list[Report] | None = None
) -> AsyncGenerator[ScriptedPeer, None]:
    """A scripted client of ``served``, initialized. That a handler failed fails the test, unless it takes reports."""
    collected: list[Report] = []
    async with open_scripted_client(served, on_report=collected.append if reports is None else reports.append) as peer:
        params: JSONObject = {"protocolVersion": 1, "clientCapabilities": capabilities or {}}
        result_of(await peer.call(0, "initialize", params))
        yield peer
    assert [report for report in collected if report.error is not None] == []


def make_client(**more: object) -> Client:
    """A client that allows everything, and what a test is about."""
    allow = answer_with(PermissionOptionKind.ALLOW_ONCE)
    settings: dict[str, object] = {"name": "c", "version": "1", "request_permission": allow} | more
    return Client(**settings)  # type: ignore[arg-type]  # the tests give what each of them is about


@asynccontextmanager
async def agent_of(
    client: Client, *, capabilities: JSON = None, reports: list[Report] | None = None
) -> AsyncGenerator[tuple[ClientSide, ClientSession, ScriptedPeer], None]:
    """A session of ``client`` with a scripted agent. The agent must not announce ``close``, or answer it."""
    collected: list[Report] = [] if reports is None else reports
    async with open_scripted_agent(client, on_report=collected.append, agent_capabilities=capabilities) as (side, peer):

        async def answer() -> None:
            await peer.answer(await peer.receive(), {"sessionId": "s"})

        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            async with side.new_session(CWD) as session:
                yield side, session, peer


async def new_session(peer: ScriptedPeer, cwd: str = CWD) -> SessionId:
    """Open a session and return its id."""
    session_id = result_of(await peer.call("new", "session/new", {"cwd": cwd, "mcpServers": []}))["sessionId"]
    assert isinstance(session_id, str)
    return SessionId(session_id)


async def say(peer: ScriptedPeer, session_id: str, text: str) -> Sequence[JSONObject]:
    """Prompt, and return everything up to the answer."""
    await peer.request("say", "session/prompt", prompt(session_id, text))
    messages = [await peer.receive()]
    while messages[-1].get("id") != "say":
        messages.append(await peer.receive())
    return messages
