"""A client of this library's; see the package. Its own tasks are ``share COUNT SESSIONS PROMPTS``, many sessions on one
connection, and ``load COUNT``, which loads the one session that the agent has stored."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack

import trio

from acp_ref.client import Client, open_agent_process
from acp_ref.client_session import ClientSession
from acp_ref.client_side import ClientSide
from acp_ref.permissions import answer_with
from acp_ref.schema import PermissionOptionKind, SessionModeId
from tests.bench.programs.script import CWD, MODE, arguments, measured, prose, work_of

CLIENT = Client(name="bench", version="1", request_permission=answer_with(PermissionOptionKind.ALLOW_ONCE))


async def take(session: ClientSession, text: str) -> int:
    """Prompt, and count the updates until the turn is over."""
    seen = 0
    async with session.prompt(text) as turn:
        async for _update in turn:
            seen += 1
    return seen


async def share(agent: ClientSide, count: int, sessions: int, prompts: int) -> None:
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(agent.new_session(CWD)) for _ in range(sessions)]
        seen = 0

        async def prompt(session: ClientSession) -> None:
            nonlocal seen
            taken = await take(session, f"share {count} {prompts}")
            seen += taken

        with measured(count):
            async with trio.open_nursery() as nursery:
                for session in opened[:prompts]:
                    nursery.start_soon(prompt, session)
        assert seen == count, seen


async def load(agent: ClientSide, count: int) -> None:
    async for info in agent.list_sessions():
        async with AsyncExitStack() as stack:
            with measured(count):
                session = await stack.enter_async_context(agent.load_session(info.session_id, CWD))
            assert len(session.replay) == count + 1, len(session.replay)  # and what the user said


async def in_session(session: ClientSession, task: Sequence[str]) -> None:
    match task:
        case ["updates" | "record" as name, size]:
            work = work_of(name, size)
            with measured(work):
                seen = await take(session, f"{name} {size}")
            assert seen == work, seen
        case ["large", size]:
            with measured(int(size)):
                assert await take(session, f"large {size}") == 1
        case ["prompt", size]:
            with measured(int(size)):
                await take(session, "taste " + prose(int(size)))
        case ["requests", count]:
            with measured(int(count)):
                for _ in range(int(count)):
                    await session.set_mode(SessionModeId(MODE))


async def main() -> None:
    task, command = arguments()
    async with open_agent_process(command, CLIENT) as agent:
        match task:
            case ["share", count, sessions, prompts]:
                await share(agent, int(count), int(sessions), int(prompts))
            case ["load", count]:
                await load(agent, int(count))
            case _:
                async with agent.new_session(CWD) as session:
                    await in_session(session, task)


trio.run(main)
