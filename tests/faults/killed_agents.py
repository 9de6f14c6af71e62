"""An agent that is killed in the midst of its turns, and what is in its journals then."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import signal
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final, final

import attrs
import trio

from acp_ref._jsonrpc import JSON, JSONObject
from tests.conversations import prompt
from tests.faults.raw_client import RawClient, open_raw_client, said

SESSIONS: Final = 3
"""Open at a time, and all in a turn."""

LATEST: Final = 0.3
"""Seconds after its start that an agent lives at most."""

PROMPTS: Final = ("/stream 300", "long " * 100_000, "/title The title is {}", "/plan", "/stream 50", "/mode code")
"""What is said in each session, over and over: many updates, one that takes the disk a while, and all sorts."""


@final
@attrs.define
class Fates:
    """What became of so many killed agents."""

    kills: int = 0
    sessions: int = 0
    updates: int = 0
    """Those that the client was shown."""
    whole_turns: int = 0
    torn: int = 0
    """Journals whose last line was cut off in the midst."""
    headless: int = 0
    """Files that were not even told of, as their agent died while it made them."""

    def __str__(self) -> str:
        return (
            f"{self.kills} agents killed, {self.sessions} sessions loaded, {self.updates} updates shown and all kept, "
            f"{self.whole_turns} turns completed, {self.torn} torn last lines, {self.headless} headless files"
        )


@final
class Doomed:
    """A client of an agent that will be killed."""

    def __init__(self, client: RawClient, cwd: Path) -> None:
        self.client = client
        self.cwd = str(cwd)
        self.whole_turns = 0
        self._sessions: dict[int, str] = {}
        self._prompts: dict[str, Iterator[str]] = {}
        self._opening: set[int] = set()

    @property
    def session_ids(self) -> list[str]:
        """The sessions that the client knows of."""
        return list(self._prompts)

    async def talk(self) -> None:
        """Open sessions and prompt in all of them until the agent is gone."""
        try:
            for _ in range(SESSIONS):
                self._opening.add(await self.client.request("session/new", cwd=self.cwd, mcpServers=[]))
            while (message := await self.client.receive()) is not None:
                await self._go_on(message)
        except trio.BrokenResourceError:
            await self.client.receive_all()  # what was in the pipe was shown, too

    async def _go_on(self, message: JSONObject) -> None:
        match message:
            case {"id": int(request_id), "result": {"sessionId": str(session_id)}} if request_id in self._opening:
                self._prompts[session_id] = map(str.format, itertools.cycle(PROMPTS), map(str, itertools.count()))
            case {"id": int(request_id), "result": {"stopReason": "end_turn"}}:
                session_id = self._sessions[request_id]
                self.whole_turns += 1
            case _:
                assert "error" not in message, message
                return
        params = prompt(session_id, next(self._prompts[session_id]))
        self._sessions[await self.client.request("session/prompt", **params)] = session_id


async def kill_one(sessions: Path, chance: random.Random, fates: Fates) -> None:
    """Let an agent talk, kill it, and look at what it leaves, as it lies there and as another agent loads it.

    Nothing that the client was shown may be missing, though only what came before the last completed message must not.
    """
    async with open_raw_client(sessions) as client:
        doomed = Doomed(client, sessions.parent)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(doomed.talk)
            await trio.sleep(chance.random() * LATEST)
            os.kill(client.pid, signal.SIGKILL)
    fates.kills += 1
    fates.whole_turns += doomed.whole_turns
    shown = shown_updates(client)
    journals = read_journals(sessions, fates)
    for session_id in doomed.session_ids:
        kept = [update for update in journals[session_id] if update["sessionUpdate"] != "user_message_chunk"]
        assert kept[: len(shown[session_id])] == shown[session_id], "what was shown was kept, all of it and in order"
        fates.updates += len(shown[session_id])
    await load_again(sessions, client, doomed.session_ids)
    fates.sessions += len(doomed.session_ids)
    shutil.rmtree(sessions, ignore_errors=True)  # there is none if it was killed before the first session


async def load_again(sessions: Path, killed: RawClient, session_ids: list[str]) -> None:
    """Another agent lists and loads all sessions, says what was said, and goes on."""
    async with open_raw_client(sessions) as client:
        listed = await client.result("session/list")
        found = listed["sessions"]
        assert isinstance(found, list)
        assert {session["sessionId"] for session in found if isinstance(session, dict)} >= set(session_ids)
        for session_id in session_ids:
            await client.result("session/load", sessionId=session_id, cwd=str(sessions.parent), mcpServers=[])
            replayed = said(client.received, session_id)
            assert replayed.startswith(said(killed.received, session_id))
            assert await client.say(session_id, "still there?") == "still there?"
            assert read_journals(sessions, Fates())[session_id][-1]["content"] == {
                "type": "text",
                "text": "still there?",
            }


def read_journals(sessions: Path, fates: Fates) -> dict[str, list[JSONObject]]:
    """The updates of all journals, by session."""
    journals = {}
    for path in sessions.glob("*.jsonl"):
        header, updates, torn = read_journal(path)
        fates.torn += torn
        if header is None:
            fates.headless += 1
        else:
            journals[str(header["sessionId"])] = updates
    return journals


def shown_updates(client: RawClient) -> dict[str, list[JSONObject]]:
    """All that a client was shown, for each session."""
    shown: dict[str, list[JSONObject]] = defaultdict(list)
    for message in client.received:
        match message:
            case {"method": "session/update", "params": {"sessionId": str(session_id), "update": dict(update)}}:
                shown[session_id].append(update)
    return shown


def read_journal(path: Path) -> tuple[JSONObject | None, list[JSONObject], bool]:
    """The header of a journal, its updates, and whether its last line is torn. No other line may be damaged."""
    *lines, rest = path.read_bytes().split(b"\n")
    values: list[JSON] = [json.loads(line) for line in lines]
    objects = [value for value in values if isinstance(value, dict)]
    assert len(objects) == len(lines)
    return (objects[0] if objects else None), objects[1:], rest != b""
