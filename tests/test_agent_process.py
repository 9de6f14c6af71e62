"""A spawned agent as a transport, with real processes: what it says, how it ends, and that nothing is left of it."""

from __future__ import annotations

import copy
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from acp_ref import agent_process
from acp_ref._framing import Frame, OversizedFrame
from acp_ref.agent_process import AgentProcess, AgentProcessError, AgentStartError, open_agent_transport
from acp_ref.connection import Connection, open_connection
from acp_ref.handlers import Handlers
from acp_ref.methods import CLIENT, INITIALIZE
from acp_ref.reports import Report, ReportKind
from acp_ref.schema import InitializeRequest, ProtocolVersion

both_ways = pytest.mark.parametrize("threads", [False, True], ids=["polled", "threaded"])

STUBBORN: Final = (
    "import os, signal, time; signal.signal(15, signal.SIG_IGN); print(os.getpid(), flush=True); time.sleep(99)"
)


def python(script: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", script]


def shell(script: str) -> list[str]:
    return ["sh", "-c", script]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture(autouse=True)
def _no_descriptor_leaks() -> Iterator[None]:
    before = sorted(os.listdir("/proc/self/fd"))
    yield
    deadline = time.monotonic() + 2  # an abandoned thread closes its descriptor when its system call returns
    while sorted(os.listdir("/proc/self/fd")) != before and time.monotonic() < deadline:
        time.sleep(0.001)
    assert sorted(os.listdir("/proc/self/fd")) == before


async def receive_into(received: list[Frame], agent: AgentProcess) -> None:
    while frames := await agent.receive():
        received += frames


# -------------------------------------------------------------------------------------------------------- conversations


@pytest.mark.spec("TRANS-03", "TRANS-06", "TRANS-11")
@both_ways
async def test_frames_go_to_its_stdin_and_come_from_its_stdout(threads: bool) -> None:
    async with open_agent_transport(["cat"], threads=threads) as agent:
        await agent.send([b'{"id":1}', b'{"id":2}'])
        received: list[Frame] = []
        while len(received) < 2:
            received += await agent.receive()
        assert received == [b'{"id":1}', b'{"id":2}']
        assert is_alive(agent.pid)
    assert agent.returncode == 0
    assert agent.command == ("cat",)


@pytest.mark.field_note(15)
@both_ways
async def test_megabytes_flow_both_ways_at_once(threads: bool) -> None:
    frames = [bytes([65 + i % 26]) * 65_000 for i in range(80)]
    async with open_agent_transport(["cat"], threads=threads) as agent, trio.open_nursery() as nursery:
        nursery.start_soon(agent.send, frames)
        received: list[Frame] = []
        while len(received) < len(frames):
            received += await agent.receive()
        assert received == frames


async def test_a_frame_beyond_the_limit_is_told_apart() -> None:
    async with open_agent_transport(shell("echo 12345678901; echo short; cat"), max_frame_bytes=10) as agent:
        received: list[Frame] = []
        while len(received) < 2:
            received += await agent.receive()
        assert received == [OversizedFrame(b"12345678901", b"12345678901", 11), b"short"]


async def test_its_environment_is_ours_with_additions_and_its_directory_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACP_REF_TEST_OURS", "ours")
    command = shell('echo "$ACP_REF_TEST_OURS $ACP_REF_TEST_ADDED $(pwd)"; cat')
    async with open_agent_transport(command, env={"ACP_REF_TEST_ADDED": "added"}, cwd=str(tmp_path)) as agent:
        assert await agent.receive() == [f"ours added {tmp_path}".encode()]


@pytest.mark.spec("TRANS-09")
@pytest.mark.field_note(16)
async def test_a_flood_on_stderr_before_the_first_answer_does_no_harm() -> None:
    script = (
        "import sys; sys.stderr.write('x' * (1 << 20)); sys.stderr.flush(); print('{}', flush=True); sys.stdin.read()"
    )
    seen: list[int] = []
    async with open_agent_transport(python(script), stderr=lambda chunk: seen.append(len(chunk))) as agent:
        assert await agent.receive() == [b"{}"]
    assert sum(seen) == 1 << 20
    assert agent.stderr_tail == "x" * 4096


# ---------------------------------------------------------------------------------------------------- it ends by itself


@pytest.mark.field_note(10, 17)
@both_ways
async def test_an_agent_that_exits_is_reported_with_its_status(threads: bool) -> None:
    command = python("import sys; sys.exit(3)")
    with trio.fail_after(3):
        async with open_agent_transport(command, threads=threads) as agent:
            for _ in range(2):
                with pytest.raises(AgentProcessError, match=r"ended with exit status 3$") as caught:
                    await agent.receive()
                assert caught.value.exit_status == 3
                assert caught.value.command == tuple(command)
                assert isinstance(caught.value, trio.BrokenResourceError)


@pytest.mark.field_note(17)
async def test_the_error_has_the_status_and_the_last_words_and_comes_after_the_last_frame() -> None:
    async with open_agent_transport(shell("echo '{}'; echo 'boom: missing key' >&2; exit 2")) as agent:
        assert await agent.receive() == [b"{}"]
        with pytest.raises(AgentProcessError) as caught:
            await agent.receive()
    error = caught.value
    assert (error.exit_status, error.stderr_tail) == (2, "boom: missing key\n")
    assert str(error).endswith("ended with exit status 2; stderr: boom: missing key")
    assert str(error).startswith("the agent ")
    again = copy.copy(error)
    assert (str(again), again.exit_status, again.stderr_tail) == (str(error), 2, "boom: missing key\n")


@pytest.mark.field_note(17)
@both_ways
async def test_a_request_whose_answer_is_cut_off_by_the_end_of_the_agent_fails_with_that_end(threads: bool) -> None:
    reports: list[Report] = []
    half = '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentIn'
    async with open_agent_transport(shell(f"read line; printf '%s' '{half}'; exit 7"), threads=threads) as agent:
        connection = Connection(agent, CLIENT, Handlers(), on_report=reports.append)
        async with open_connection(connection):
            with pytest.raises(AgentProcessError, match="ended with exit status 7"):
                await connection.request(INITIALIZE, InitializeRequest(protocol_version=ProtocolVersion(1)))
    assert [(report.kind, report.excerpt) for report in reports] == [(ReportKind.JUNK, half.encode())]


@pytest.mark.field_note(17)
async def test_an_agent_that_was_killed_is_reported_with_the_signal() -> None:
    async with open_agent_transport(["cat"]) as agent:
        os.kill(agent.pid, signal.SIGKILL)
        with pytest.raises(AgentProcessError, match="ended with signal SIGKILL") as caught:
            await agent.receive()
        assert caught.value.exit_status == -signal.SIGKILL


async def test_an_agent_that_only_closes_its_stdout_is_not_called_dead() -> None:
    async with open_agent_transport(shell("exec >&-; exec sleep 100"), stdin_grace=0) as agent:
        with pytest.raises(AgentProcessError, match="still runs, but closed its stdout") as caught:
            await agent.receive()
        assert caught.value.exit_status is None


@pytest.mark.field_note(13, 17)
@both_ways
async def test_a_failed_write_tells_the_same_story_and_waits_until_all_was_read(threads: bool) -> None:
    async with open_agent_transport(
        shell("exec <&-; echo ready; echo last; echo why >&2; exit 4"), threads=threads
    ) as agent:
        received: list[Frame] = []
        while b"ready" not in received:
            received += await agent.receive()
        stories: list[str] = []

        async def send() -> None:
            with pytest.raises(AgentProcessError) as caught:
                await agent.send([b"x"])
            stories.append(str(caught.value))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await wait_all_tasks_blocked(0.01)
            assert stories == []
            with pytest.raises(AgentProcessError) as caught:
                await receive_into(received, agent)
        assert b"last" in received
        assert stories == [str(caught.value)]
        assert stories[0].endswith("ended with exit status 4; stderr: why")


async def test_a_grandchild_that_holds_the_pipes_does_not_hide_the_end_for_long() -> None:
    async with open_agent_transport(shell("setsid sleep 100 >/dev/null & echo $! >&2; exit 5")) as agent:
        with trio.fail_after(3):
            with pytest.raises(AgentProcessError, match="ended with exit status 5") as caught:
                await agent.receive()
    os.kill(int(caught.value.stderr_tail), signal.SIGKILL)


@pytest.mark.field_note(10, 17)
@both_ways
async def test_an_agent_that_dies_while_a_child_of_it_holds_its_pipes_is_dead_all_the_same(
    threads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_process, "LAST_WORDS_TIMEOUT", 0.1)
    async with open_agent_transport(shell("sleep 100 & echo ready; read line; exit 5"), threads=threads) as agent:
        assert await agent.receive() == [b"ready"]
        await agent.send([b"go"])
        with trio.fail_after(5):
            for _ in range(2):
                with pytest.raises(AgentProcessError, match="ended with exit status 5"):
                    await agent.receive()


# ------------------------------------------------------------------------------------------------------------ we end it


@pytest.mark.spec("TRANS-12")
@pytest.mark.field_note(17)
@both_ways
async def test_an_end_that_we_asked_for_is_no_error(threads: bool) -> None:
    async with open_agent_transport(shell("cat; echo bye; exit 1"), threads=threads) as agent:
        received: list[Frame] = []
        ended = trio.Event()

        async def receive() -> None:
            await receive_into(received, agent)
            ended.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive)
            await wait_all_tasks_blocked(0.01)
            await agent.aclose()
            await ended.wait()
        assert received == [b"bye"]
        assert agent.returncode == 1
        await agent.aclose()
        with pytest.raises(trio.ClosedResourceError):
            await agent.receive()
        with pytest.raises(trio.ClosedResourceError):
            await agent.send([b"x"])


@pytest.mark.spec("TRANS-12")
@both_ways
async def test_what_the_agent_says_as_we_close_goes_to_the_one_who_waits_for_it(threads: bool, tmp_path: Path) -> None:
    for attempt in range(8):  # the scheduler decides at random who is next: he, or the one who discards what is left
        said = tmp_path / str(attempt)
        async with open_agent_transport(shell(f"read line; echo $line; : > {said}; cat"), threads=threads) as agent:
            received: list[Frame] = []
            async with trio.open_nursery() as nursery:
                nursery.start_soon(receive_into, received, agent)
                await wait_all_tasks_blocked(0.01)
                with pytest.raises(trio.BusyResourceError):
                    await agent.receive()
                await agent.send([b"bye"])
                while not said.exists():  # nobody else may run until it is said
                    time.sleep(0.001)  # noqa: ASYNC251
                await agent.aclose()
            assert received == [b"bye"]


@pytest.mark.spec("TRANS-12")
@both_ways
async def test_an_agent_that_blocks_on_its_output_still_sees_its_stdin_end(threads: bool) -> None:
    script = "import sys; sys.stdout.write('x' * 5_000_000); sys.stdout.flush(); sys.stdin.read(); sys.exit(6)"
    async with open_agent_transport(python(script), threads=threads) as agent:
        pass
    assert agent.returncode == 6


@pytest.mark.field_note(11, 18)
@both_ways
async def test_a_wrapper_and_its_stubborn_inner_process_are_gone_in_time(threads: bool) -> None:
    command = shell(f'"{sys.executable}" -I -S -c "{STUBBORN}"; :')
    async with open_agent_transport(command, stdin_grace=0.05, term_grace=0.05, threads=threads) as agent:
        (line,) = await agent.receive()
        assert isinstance(line, bytes)
        assert is_alive(int(line))
        started = trio.current_time()
    assert trio.current_time() - started < 1.5
    assert not is_alive(int(line))
    assert not is_alive(agent.pid)


@both_ways
async def test_a_cancellation_in_use_leaves_nothing(threads: bool) -> None:
    pids: list[int] = []
    with trio.CancelScope() as scope:
        async with open_agent_transport(["sleep", "100"], stdin_grace=0.02, threads=threads) as agent:
            pids.append(agent.pid)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(agent.receive)
                nursery.start_soon(agent.send, [b"x" * 5_000_000])
                await wait_all_tasks_blocked(0.02)
                scope.cancel()
    assert scope.cancelled_caught
    assert not is_alive(pids[0])


async def test_a_cancellation_while_it_starts_leaves_nothing() -> None:
    marker = f"acp-ref-{os.getpid()}"
    for turns in range(4):
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_cancel_after, turns, scope)
                async with open_agent_transport(["sleep", "100"], env={"MARKER": marker}, stdin_grace=0.0):
                    await trio.sleep_forever()
        assert scope.cancelled_caught
        assert not _processes_with(marker)


async def _cancel_after(turns: int, scope: trio.CancelScope) -> None:
    for _ in range(turns):
        await trio.lowlevel.checkpoint()
    scope.cancel()


def _processes_with(marker: str) -> list[str]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if f"MARKER={marker}".encode() in Path(f"/proc/{name}/environ").read_bytes():
                found.append(name)
        except OSError:
            continue
    return found


async def test_an_error_of_the_user_ends_the_agent_and_comes_out() -> None:
    with pytest.raises(KeyError, match="mine"):
        async with open_agent_transport(["cat"]) as agent:
            raise KeyError("mine")
    assert agent.returncode == 0


@both_ways
async def test_fifty_agents_leave_no_descriptor(threads: bool) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        async with open_agent_transport(["cat"], threads=threads) as agent:
            await agent.send([b"{}"])
            assert await agent.receive() == [b"{}"]
    with trio.fail_after(1):
        while len(os.listdir("/proc/self/fd")) != before:  # noqa: ASYNC110 - threads that have just been let go
            await trio.sleep(0.001)


# ------------------------------------------------------------------------------------------------------- it won't start


@pytest.mark.field_note(98)
async def test_a_program_that_is_not_on_the_path_is_named_with_the_path() -> None:
    with pytest.raises(
        AgentStartError, match=r"'no-such-agent --acp' could not be started: No such file.*/no-such-bin"
    ) as caught:
        async with open_agent_transport(["no-such-agent", "--acp"], env={"PATH": "/no-such-bin"}):
            pass
    assert caught.value.command == ("no-such-agent", "--acp")
    assert isinstance(caught.value.__cause__, FileNotFoundError)


async def test_a_program_or_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "agent").write_text("not a program")
    for command, cwd, reason in (
        ([str(tmp_path / "agent")], None, "Permission denied"),
        (["cat"], str(tmp_path / "gone"), "No such file or directory: its working directory '.*gone'"),
    ):
        with pytest.raises(AgentStartError, match=reason) as caught:
            async with open_agent_transport(command, cwd=cwd):
                pass
        assert isinstance(caught.value, OSError)
        assert caught.value.command == tuple(command)
    with pytest.raises(ValueError, match="empty"):
        async with open_agent_transport([]):
            pass
