"""Journals under fault: agents killed in their turns, full and read-only disks, two agents on one directory."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import trio

from acp_ref._jsonrpc import JSONObject
from tests.conversations import code_of, prompt
from tests.faults.killed_agents import Fates, kill_one, read_journal
from tests.faults.raw_client import AGENT, RawClient, open_raw_client, said, stdio_server
from tests.faults.system import alive, kill_all, nothing_left

KILLS = 10
LARGE = "much " * 12_000


@pytest.mark.field_note(66)
async def test_agents_killed_in_their_turns_lose_nothing_that_was_shown(tmp_path: Path) -> None:
    fates = Fates()
    seed = random.randrange(1_000_000)
    print("seed", seed)  # shown when the test fails

    async def kill_some(name: str) -> None:
        directory = tmp_path / name
        directory.mkdir()
        for number in range(KILLS // 2):
            await kill_one(directory / "sessions", random.Random(f"{seed} {name} {number}"), fates)

    async with nothing_left(), trio.open_nursery() as nursery:
        nursery.start_soon(kill_some, "one")
        nursery.start_soon(kill_some, "two")
    assert fates.kills == KILLS
    assert fates.updates > 100


def kill_when_larger(pid: int, file: Path, size: int) -> None:
    while file.stat().st_size < size:
        pass
    os.kill(pid, signal.SIGKILL)


async def test_the_torn_last_line_of_an_agent_killed_in_a_write_costs_that_line_and_no_more(tmp_path: Path) -> None:
    sessions = tmp_path / "sessions"
    huge = "huge " * 10_000_000
    async with nothing_left():
        for _ in range(5):
            async with open_raw_client(sessions) as client:
                session_id = await client.new_session("/")
                assert await client.say(session_id, "hello") == "hello"
                journal = sessions / f"{session_id}.jsonl"
                async with trio.open_nursery() as nursery:
                    watch = trio.to_thread.run_sync
                    nursery.start_soon(watch, kill_when_larger, client.pid, journal, 2_000_000)
                    await client.request("session/prompt", **prompt(session_id, huge))
                await client.ended()
            header, updates, torn = read_journal(journal)
            assert header is not None
            async with open_raw_client(sessions) as client:
                assert (await load(client, session_id)).startswith("hello")
                assert await client.say(session_id, "again") == "again"
            _, mended, still_torn = read_journal(journal)
            assert not still_torn
            assert mended[: len(updates)] == updates
            assert mended[-1]["content"] == {"type": "text", "text": "again"}
            if torn:
                break
        else:
            pytest.skip("this disk writes too fast")


# -------------------------------------------------------------------------------------------------------- the disk


@contextmanager
def small_disk(at: Path, kibibytes: int) -> Iterator[tuple[Path, list[str]]]:
    """A directory that is soon full, and what to put before a command for that. Without the right to mount, a limit on
    the size of files does it, one eighth of that."""
    at.mkdir()
    mounted = mount(["-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs", str(at)])
    limit = [] if mounted else ["sh", "-c", f'ulimit -f {kibibytes // 4}; exec "$@"', "sh"]
    try:
        yield at, limit
    finally:
        if mounted:
            subprocess.run(["umount", str(at)], check=True)


def mount(arguments: list[str]) -> bool:
    try:
        return subprocess.run(["mount", *arguments], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


async def load(client: RawClient, session_id: str) -> str:
    """Load a session and return what its agent has said."""
    already = len(client.received)
    await client.result("session/load", sessionId=session_id, cwd="/", mcpServers=[])
    return said(client.received[already:], session_id)


async def test_a_full_disk_is_told_of_once_and_the_session_goes_on_in_memory(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 256) as (disk, limit):
        filler = disk / "filler"
        command = [*limit, *AGENT]
        async with open_raw_client(disk / "sessions", command=command, stderr=tmp_path / "log") as client:
            session_id = await client.new_session("/")
            assert await client.say(session_id, "hello") == "hello"
            if not limit:
                with suppress(OSError):
                    filler.write_bytes(b"x" * 300_000)
            assert await client.say(session_id, LARGE) == LARGE
            assert await client.say(session_id, "bye") == "bye"
            assert await load(client, session_id) == f"hello{LARGE}bye"
            (line,) = (line for line in client.stderr.splitlines() if "journal" in line)
            assert f"the journal of session '{session_id}' is not written any more, but kept in memory" in line
            assert line.endswith(("No space left on device", "File too large"))
            other = await client.new_session("/")  # there is no room for its journal at all
            assert await client.say(other, "hello") == "hello"
            assert await load(client, other) == "hello"
            if not limit:
                filler.unlink()
                await client.result("session/close", sessionId=session_id)
        if not limit:  # there was room again when it was closed
            async with open_raw_client(disk / "sessions", stderr=tmp_path / "log") as client:
                assert await load(client, session_id) == f"hello{LARGE}bye"


@contextmanager
def read_only(directory: Path) -> Iterator[list[str]]:
    """Let nobody write in ``directory``; what to put before a command for that."""
    if os.geteuid() != 0:
        directory.chmod(0o500)
        try:
            yield []
        finally:
            directory.chmod(0o700)
    elif mount(["--bind", str(directory), str(directory)]):
        try:
            assert mount(["-o", "remount,bind,ro", str(directory)])
            yield []
        finally:
            subprocess.run(["umount", str(directory)], check=True)
    else:
        pytest.skip("root may write everywhere, and may not mount here")


async def test_in_a_read_only_directory_sessions_are_read_and_go_on_in_memory(tmp_path: Path) -> None:
    sessions = tmp_path / "sessions"
    async with open_raw_client(sessions) as client:
        session_id = await client.new_session("/")
        await client.say(session_id, "before")
        await client.result("session/close", sessionId=session_id)
    with read_only(sessions):
        async with open_raw_client(sessions, stderr=tmp_path / "log") as client:
            assert await load(client, session_id) == "before"
            assert await client.say(session_id, "after") == "after"
            assert await load(client, session_id) == "beforeafter"
            new = await client.new_session("/")
            assert await client.say(new, "hello") == "hello"
            assert await load(client, new) == "hello"
            refused = await client.call("session/delete", sessionId=session_id)
            error = refused["error"]
            assert isinstance(error, dict)
            assert error["message"] == "The session store cannot be used"
            assert error["data"] in ({"reason": "Read-only file system"}, {"reason": "Permission denied"})
            told = [line for line in client.stderr.splitlines() if "is not written any more" in line]
            assert len(told) == 2, "once for each session"
    async with open_raw_client(sessions) as client:
        assert await load(client, session_id) == "before"


# ------------------------------------------------------------------------------------------------------- two agents


async def test_a_second_agent_is_refused_the_session_that_is_open_and_no_other(tmp_path: Path) -> None:
    async with open_raw_client(tmp_path / "s") as one, open_raw_client(tmp_path / "s") as two:
        busy, free = await one.new_session("/"), await one.new_session("/")
        await one.say(free, "hello")
        await one.result("session/close", sessionId=free)
        for method in ("session/load", "session/resume"):
            refused = await two.call(method, sessionId=busy, cwd="/", mcpServers=[])
            assert code_of(refused) == -32600
            assert refused["error"] == {
                "code": -32600,
                "message": "Session busy",
                "data": {"sessionId": busy, "reason": "the session is in use elsewhere"},
            }
        assert code_of(await two.call("session/delete", sessionId=busy)) == -32600
        assert await load(two, free) == "hello"
        assert code_of(await one.call("session/load", sessionId=free, cwd="/", mcpServers=[])) == -32600
        assert await one.say(busy, "undisturbed") == "undisturbed"
        await one.result("session/close", sessionId=busy)
        assert await load(two, busy) == "undisturbed"


async def test_the_lock_of_an_agent_that_was_killed_is_not_held_by_the_children_it_leaves(tmp_path: Path) -> None:
    tag = f"tag-{os.getpid()}-{tmp_path.name}"
    try:
        async with open_raw_client(tmp_path / "s") as one:
            server: JSONObject = stdio_server("parent", tag)
            session_id = await one.new_session("/", server)
            await one.say(session_id, "hello")
            os.kill(one.pid, signal.SIGKILL)
            await one.ended()
            assert alive(tag), "a child is left"
            async with open_raw_client(tmp_path / "s") as two:
                assert await load(two, session_id) == "hello"
    finally:
        kill_all(tag)
