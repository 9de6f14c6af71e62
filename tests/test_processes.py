"""Child processes: real ones, and what must be gone when their owner is done with them."""

from __future__ import annotations

import ctypes
import errno
import logging
import ntpath
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
import trio

from acp_ref import _processes
from acp_ref._processes import ChildProcess, child_environment, open_child, open_child_in_job, windows_command

_waitpid = os.waitpid
PYTHON = (sys.executable, "-I", "-S", "-c")


@pytest.fixture(autouse=True)
def _no_descriptor_leaks() -> Iterator[None]:
    before = sorted(os.listdir("/proc/self/fd"))
    yield
    assert sorted(os.listdir("/proc/self/fd")) == before


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def is_known(pid: int) -> bool:
    """Alive, or dead and not waited for."""
    return Path(f"/proc/{pid}").exists()


async def first_line(child: ChildProcess) -> str:
    assert child.stdout is not None
    line = b""
    while not line.endswith(b"\n"):
        chunk = await child.stdout.receive_some()
        assert chunk, "the child said nothing"
        line += chunk
    return line.decode().strip()


# ------------------------------------------------------------------------------------------------------------- the end


@pytest.mark.spec("TRANS-12")
async def test_a_child_that_ends_with_its_stdin_is_not_signalled() -> None:
    child = await open_child([*PYTHON, "import sys; sys.stdin.read(); sys.exit(7)"])
    assert child.returncode is None
    assert child.exit_reason() == "still running"
    assert await child.shutdown() == 7
    assert child.exit_reason() == "exit status 7"


@pytest.mark.spec("TRANS-12")
async def test_a_child_that_ignores_the_end_of_its_stdin_gets_sigterm() -> None:
    child = await open_child(["sleep", "100"])
    assert await child.shutdown(stdin_grace=0.02) == -signal.SIGTERM
    assert child.exit_reason() == "signal SIGTERM"


@pytest.mark.spec("TRANS-12")
async def test_a_child_that_ignores_sigterm_gets_sigkill() -> None:
    child = await open_child(
        [*PYTHON, "import signal, time; signal.signal(15, signal.SIG_IGN); print('on', flush=True); time.sleep(100)"]
    )
    await first_line(child)
    assert await child.shutdown(stdin_grace=0.02, term_grace=0.02) == -signal.SIGKILL
    assert child.exit_reason() == "signal SIGKILL"


async def test_a_stopped_child_is_ended_too() -> None:
    child = await open_child(["sleep", "100"])
    child.signal_group(signal.SIGSTOP)
    assert await child.shutdown(stdin_grace=0.02, term_grace=0.02) == -signal.SIGKILL


@pytest.mark.field_note(18)
async def test_a_wrapper_whose_inner_process_ignores_sigterm_leaves_nothing() -> None:
    inner = "import os, signal, time; signal.signal(15, signal.SIG_IGN); print(os.getpid(), flush=True); time.sleep(99)"
    child = await open_child(["sh", "-c", f'"{sys.executable}" -I -S -c "{inner}"; :'])
    pid = int(await first_line(child))
    assert pid != child.pid
    assert is_alive(pid)
    await child.shutdown(stdin_grace=0.02, term_grace=0.1)
    assert not is_alive(pid)


@pytest.mark.field_note(18, 56)
@pytest.mark.parametrize("leader", ["exit 3", "cat >&2; exit 3"], ids=["crashes", "goes with its stdin"])
async def test_grandchildren_are_ended_although_the_leader_went_by_itself(leader: str) -> None:
    child = await open_child(["sh", "-c", f"sleep 100 & echo $!; {leader}"])
    pid = int(await first_line(child))
    assert await child.shutdown(term_grace=1.0) == 3
    assert not is_alive(pid)
    assert not child.signal_group(0)


async def test_a_daemon_that_left_the_group_and_holds_the_pipes_does_not_delay_the_end() -> None:
    child = await open_child(["sh", "-c", "setsid sleep 100 & echo $!; exec cat"])
    pid = int(await first_line(child))
    try:
        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(child.drain_stderr)
                assert await child.shutdown() == 0
    finally:
        os.kill(pid, signal.SIGKILL)


async def test_shutdown_may_be_called_twice_and_by_two_tasks_at_once() -> None:
    child = await open_child(["sleep", "100"])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(child.shutdown, stdin_grace=0.02))
        nursery.start_soon(partial(child.shutdown, stdin_grace=0.02))
    assert await child.shutdown() == -signal.SIGTERM


async def test_shutdown_completes_in_a_cancelled_scope() -> None:
    child = await open_child(["sleep", "100"])
    with trio.CancelScope() as scope:
        scope.cancel()
        await child.shutdown(stdin_grace=0.02)
    assert child.returncode == -signal.SIGTERM


IMPATIENT = """
import trio
from acp_ref._processes import open_child
async def main():
    script = "trap '' TERM; echo $$ >&2; cat; echo going >&2; while :; do sleep 0.05; done"
    child = await open_child(["sh", "-c", script], stderr=None)
    try:
        await trio.sleep_forever()
    finally:
        await child.shutdown(stdin_grace=100)
trio.run(main)
"""


async def test_an_interrupt_in_the_midst_of_a_shutdown_leaves_nothing_of_the_child() -> None:
    program = await open_child([sys.executable, "-c", IMPATIENT])
    assert program.stderr is not None
    pid = int(await program.stderr.receive_some())
    os.kill(program.pid, signal.SIGINT)
    assert await program.stderr.receive_some() == b"going\n"
    os.kill(program.pid, signal.SIGINT)
    with trio.fail_after(5):
        assert await program.wait() == -signal.SIGINT
    assert not is_alive(pid)
    await program.shutdown()


async def test_a_start_that_is_cancelled_starts_nothing() -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await open_child(["sleep", "100"])
    assert scope.cancelled_caught


async def test_a_cancellation_while_the_process_starts_comes_after_it_is_returned() -> None:
    child = None
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_when_blocked, scope)
            child = await open_child(["sleep", "100"])
    assert scope.cancel_called
    assert child is not None
    await child.shutdown(stdin_grace=0)


async def _cancel_when_blocked(scope: trio.CancelScope) -> None:
    scope.cancel()


async def test_an_empty_group_is_never_signalled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    child = await open_child(["true"])
    assert await child.wait() == 0

    def killpg(_group: int, _sig: int) -> None:
        raise AssertionError("the id may belong to somebody else by now")

    monkeypatch.setattr(os, "killpg", killpg)
    assert not child.signal_group(signal.SIGKILL)
    assert await child.shutdown() == 0


@pytest.mark.parametrize("who", ["we", "nobody"])
async def test_orphans_that_are_dead_but_not_waited_for_do_not_delay_the_end(
    who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with orphans_are_ours():
        if who == "nobody":
            monkeypatch.setattr(os, "waitpid", _waitpid_finds_no_child)
        child = await open_child(["sh", "-c", "sleep 100 & echo $!; exec cat"])
        orphan = int(await first_line(child))
        with trio.fail_after(2):
            await child.shutdown(term_grace=10)
        assert not child.signal_group(0)
        monkeypatch.undo()
        if who == "we":
            assert not is_known(orphan)
        else:
            assert os.waitpid(orphan, 0) == (orphan, signal.SIGTERM)  # noqa: ASYNC222 - it is dead


@contextmanager
def orphans_are_ours() -> Iterator[None]:
    """Be to our grandchildren what process 1 is in a container."""
    prctl = ctypes.CDLL(None).prctl
    pr_set_child_subreaper = 36
    prctl(pr_set_child_subreaper, 1)
    try:
        yield
    finally:
        prctl(pr_set_child_subreaper, 0)


def _waitpid_finds_no_child(pid: int, _options: int) -> tuple[int, int]:
    if pid < 0:
        raise ChildProcessError
    return _waitpid(pid, _options)


async def test_many_children_leave_no_descriptor_and_no_process() -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        child = await open_child(["cat"])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child.drain_stderr)
            await child.shutdown()
        assert len(os.listdir("/proc/self/fd")) == before
        assert not is_known(child.pid)


async def test_an_unusual_signal_has_a_reason_too() -> None:
    child = await open_child(["sh", "-c", "kill -40 $$"])
    await child.wait()
    assert child.exit_reason() == "signal 40"
    await child.shutdown()


# -------------------------------------------------------------------------------------------------------------- stderr


@pytest.mark.spec("TRANS-09")
@pytest.mark.field_note(16)
async def test_a_flood_on_stderr_never_blocks_the_child() -> None:
    script = (
        "import sys; sys.stderr.write('x' * (1 << 20) + 'the end\\n'); sys.stderr.flush(); print('ready', flush=True)"
    )
    child = await open_child([*PYTHON, script])
    seen: list[int] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(child.drain_stderr, lambda chunk: seen.append(len(chunk)))
        assert await first_line(child) == "ready"
        await child.shutdown()
    assert sum(seen) == (1 << 20) + len("the end\n")
    assert child.stderr_tail.endswith("xxx\u0074he end\n")
    assert len(child.stderr_tail) == 4096


async def test_the_stderr_tail_is_text_even_when_the_bytes_are_not_and_when_it_is_cut_inside_a_character() -> None:
    child = await open_child(
        [*PYTHON, "import sys; sys.stderr.buffer.write('é'.encode() * 3000 + b'!' + b'a\\xffb'); sys.exit(1)"]
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(child.drain_stderr)
        await child.shutdown()
    assert child.stderr_tail == "é" * 2046 + "!a\ufffdb"


async def test_a_sink_that_fails_is_logged_and_stderr_is_still_read(caplog: pytest.LogCaptureFixture) -> None:
    child = await open_child(["sh", "-c", "echo one >&2; cat; echo two >&2"])

    def sink(chunk: bytes) -> None:
        raise ValueError(chunk)

    with caplog.at_level(logging.ERROR, logger="acp_ref"):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child.drain_stderr, sink)
            await child.shutdown()
    assert child.stderr_tail == "one\ntwo\n"
    assert "the stderr sink failed" in caplog.text


async def test_a_child_whose_stderr_nobody_reads_is_ended_without_delay() -> None:
    child = await open_child(["sh", "-c", "echo one >&2"])
    await child.drain_stderr()
    assert child.stderr_tail == "one\n"
    other = await open_child(["true"], stderr=subprocess.DEVNULL)
    await other.drain_stderr()
    with trio.fail_after(0.4):
        await child.shutdown()
        await other.shutdown()


# ----------------------------------------------------------------------------------------------------------- the start


async def test_the_child_leads_a_session_without_our_terminal() -> None:
    child = await open_child([*PYTHON, "import os; print(os.getsid(0), os.getpgrp(), flush=True)"])
    assert await first_line(child) == f"{child.pid} {child.pid}"
    await child.shutdown()


async def test_the_program_is_looked_up_on_the_path_of_the_child(tmp_path: Path) -> None:
    program = tmp_path / "parrot"
    program.write_text('#!/bin/sh\necho "$GREETING from $(pwd)"\n')
    program.chmod(0o755)
    child = await open_child(
        ["parrot"], env=child_environment({"PATH": f"{tmp_path}:/usr/bin:/bin", "GREETING": "hello"}), cwd=str(tmp_path)
    )
    assert await first_line(child) == f"hello from {tmp_path}"
    await child.shutdown()


async def test_a_start_that_fails_leaves_nothing_open(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        await open_child(["no-such-program"])
    with pytest.raises(FileNotFoundError, match="no-such-folder"):
        await open_child(["true"], cwd=str(tmp_path / "no-such-folder"))
    with pytest.raises(PermissionError):
        await open_child([str(tmp_path)])
    with pytest.raises(ValueError, match="empty"):
        await open_child([])
    with pytest.raises(ValueError, match="null byte"):
        await open_child(["echo", "\0"])


def test_the_environment_of_a_child_is_merged_over_the_inherited_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERE", "ours")
    assert child_environment({"X": "1"}) == {**os.environ, "X": "1"}
    assert child_environment({"HERE": "theirs"})["HERE"] == "theirs"
    assert child_environment({"X": "1"}, inherit={}) == {"X": "1"}


# -------------------------------------------------------------------------------------------------------------- Windows

WINDOWS = {"PATH": r"C:\Windows;D:\node", "PATHEXT": ".COM;.EXE;.BAT;.CMD"}


@pytest.mark.field_note(98)
@pytest.mark.parametrize(
    ("program", "file", "found"),
    [
        ("npx", r"D:\node\npx.CMD", r"D:\node\npx.CMD"),
        ("node", r"D:\node\node.EXE", r"D:\node\node.EXE"),
        ("node.exe", r"D:\node\node.exe", r"D:\node\node.exe"),
        ("my.tool", r"D:\node\my.tool.EXE", r"D:\node\my.tool.EXE"),
        (r"bin\agent", r"C:\project\bin\agent.BAT", r"C:\project\bin\agent.BAT"),
        (r"E:\agent.exe", r"E:\agent.exe", r"E:\agent.exe"),
    ],
)
def test_a_windows_program_is_found_along_the_path_with_each_extension(program: str, file: str, found: str) -> None:
    command = windows_command([program, "--acp"], WINDOWS, cwd=r"C:\project", is_file=lambda path: path == file)
    assert command == [found, "--acp"]


@pytest.mark.field_note(98)
def test_a_windows_program_that_is_nowhere_is_named_as_on_other_systems() -> None:
    with pytest.raises(FileNotFoundError) as caught:
        windows_command(["npx"], WINDOWS, cwd="C:\\", is_file=lambda _path: False)
    assert caught.value.errno == errno.ENOENT
    assert caught.value.filename == "npx"
    assert caught.value.strerror == os.strerror(errno.ENOENT)


def test_the_folders_of_a_windows_path_may_be_quoted_and_empty_ones_do_not_mean_the_working_directory() -> None:
    seen: list[str] = []

    def is_file(path: str) -> bool:
        seen.append(path)
        return False

    env = {"PATH": '"C:\\Program Files\\x";;D:\\node;', "PATHEXT": ".EXE;"}
    with pytest.raises(FileNotFoundError):
        windows_command(["npx"], env, cwd="C:\\project", is_file=is_file)
    assert seen == [r"C:\Program Files\x\npx.EXE", r"D:\node\npx.EXE"]


def test_a_windows_path_that_is_empty_has_no_programs() -> None:
    with pytest.raises(FileNotFoundError):
        windows_command(["npx"], {}, cwd="C:\\project", is_file=lambda _path: True)


@pytest.mark.parametrize("argument", ["x&calc", "%PATH%", 'x" & calc', "a^b", "!x!", "a\nb", "<in", ">out", "a|b"])
def test_an_argument_that_cmd_exe_would_act_upon_is_refused_for_a_batch_file(argument: str) -> None:
    with pytest.raises(ValueError, match="cannot be passed to cmd"):
        windows_command(["npx", argument], WINDOWS, cwd="C:\\", is_file=lambda path: path.endswith(".CMD"))
    assert windows_command(["node", argument], WINDOWS, cwd="C:\\", is_file=lambda path: path.endswith(".EXE"))


@pytest.mark.parametrize("program", ["C:\\R&D\\npx.cmd", "C:\\100%\\npx.bat"])
def test_a_batch_file_is_refused_whose_own_path_cmd_exe_would_act_upon(program: str) -> None:
    with pytest.raises(ValueError, match="cannot be passed to cmd"):
        windows_command([program], WINDOWS, cwd="C:\\", is_file=lambda _path: True)


@pytest.mark.parametrize("program", ["npx.cmd. .", "npx.bat ", "npx.CMD."])
def test_a_batch_file_is_known_by_its_name_also_where_the_system_passes_over_the_end_of_that(program: str) -> None:
    env = {"PATH": "D:\\node", "PATHEXT": f".EXE;{ntpath.splitext(program)[1]}"}
    with pytest.raises(ValueError, match="cannot be passed to cmd"):
        windows_command([program, "x&calc"], env, cwd="C:\\", is_file=lambda path: path.endswith(program))


def test_names_of_variables_have_no_case_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    merged = child_environment({"path": "theirs", "Temp": "t"}, inherit={"Path": "ours", "SystemRoot": "C:\\Windows"})
    assert merged == {"PATH": "theirs", "TEMP": "t", "SYSTEMROOT": "C:\\Windows"}


# ------------------------------------------------------------------------------------------------------- Windows' jobs
#
# Real processes, and a job that is a process group where nobody may leave. They start suspended by their own hand.


class GroupAsJob:
    """A job; see :class:`acp_ref._processes.Job`."""

    def __init__(self, pid: int) -> None:
        self.group = pid
        self.closed = False
        self.terminated = False
        self.interrupts = 0
        """How many looks at it are interrupted."""
        self.immortal = False

    def has_members(self) -> bool:
        assert not self.closed
        if self.interrupts:
            self.interrupts -= 1
            raise KeyboardInterrupt
        return self.immortal or any(is_alive(pid) for pid in members_of(self.group))

    def terminate(self) -> None:
        assert not self.closed
        self.terminated = True
        self._end()

    def close(self) -> None:
        assert not self.closed
        self.closed = True
        self._end()

    def _end(self) -> None:
        if members_of(self.group):
            os.killpg(self.group, signal.SIGKILL)


def members_of(group: int) -> list[int]:
    found: list[int] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if int(stat.read_text().rpartition(")")[2].split()[2]) == group:
                found.append(int(stat.parent.name))
    return found


class FakeJobs:
    """A kernel that has jobs; see :class:`acp_ref._processes.Jobs`."""

    def __init__(self, *, refuses: str = "") -> None:
        self.steps: list[str] = []
        self.job: GroupAsJob | None = None
        self._refuses = refuses

    async def start(self, *command: str) -> trio.Process:
        self._step("start")
        program = ["sh", "-c", 'kill -STOP $$; exec "$@"', "sh", *command]
        process = await trio.lowlevel.open_process(
            program,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)  # noqa: ASYNC222 - it takes no time
        return process

    def new_job(self, pid: int) -> GroupAsJob:
        self._step("new_job")
        self.job = GroupAsJob(pid)
        return self.job

    def resume(self, pid: int) -> None:
        self._step("resume")
        os.kill(pid, signal.SIGCONT)

    def _step(self, name: str) -> None:
        assert trio.lowlevel.currently_ki_protected()
        self.steps.append(name)
        if name == self._refuses:
            raise PermissionError(errno.EACCES, f"no {name} today")

    async def open(self, *command: str) -> tuple[ChildProcess, GroupAsJob]:
        child = await open_child_in_job(partial(self.start, *command), command, self)
        assert self.job is not None
        return child, self.job


async def test_a_child_is_put_into_its_job_before_it_runs() -> None:
    jobs = FakeJobs()
    child, job = await jobs.open("cat")
    assert jobs.steps == ["start", "new_job", "resume"]
    assert child.stdin is not None
    await child.stdin.send_all(b"it runs\n")
    assert await first_line(child) == "it runs"
    assert child.signal_group(0)
    assert await child.shutdown() == 0
    assert not job.terminated
    assert job.closed


async def test_what_a_child_leaves_in_its_job_is_ended_although_the_leader_went_by_itself() -> None:
    child, job = await FakeJobs().open("sh", "-c", "sleep 100 & echo $!; exit 3")
    pid = int(await first_line(child))
    assert await child.wait() == 3
    assert child.signal_group(0)
    assert await child.shutdown() == 3
    assert not is_alive(pid)
    assert job.terminated
    assert job.closed
    assert not child.signal_group(0)


async def test_a_job_whose_leader_ignores_the_end_of_its_stdin_is_ended_without_another_grace() -> None:
    child, job = await FakeJobs().open("sleep", "100")
    with trio.fail_after(5):
        assert await child.shutdown(stdin_grace=0.02, term_grace=100) == -signal.SIGKILL
    assert job.terminated
    assert job.closed


async def test_any_signal_to_a_job_ends_it() -> None:
    child, job = await FakeJobs().open("sh", "-c", "sleep 100 & echo $!; exec sleep 100")
    pid = int(await first_line(child))
    child.signal_group(signal.SIGTERM)
    assert await child.wait() == -signal.SIGKILL
    assert not is_alive(pid)
    assert job.closed
    assert await child.shutdown() == -signal.SIGKILL


async def test_an_empty_job_is_closed_at_once_and_not_looked_at_again() -> None:
    child, job = await FakeJobs().open("true")
    assert await child.wait() == 0
    assert job.closed
    assert not child.signal_group(signal.SIGKILL)
    assert await child.shutdown() == 0
    assert await child.shutdown() == 0


async def test_a_job_that_will_not_end_is_let_go_when_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_processes, "KILL_GRACE", 0.02)
    child, job = await FakeJobs().open("true")
    job.immortal = True
    with trio.fail_after(5):
        assert await child.shutdown() == 0
    assert job.terminated
    assert job.closed


async def test_an_interrupt_in_the_midst_of_a_shutdown_ends_the_job() -> None:
    child, job = await FakeJobs().open("sh", "-c", "sleep 100 & echo $!; exec cat")
    pid = int(await first_line(child))
    job.interrupts = 1
    with pytest.raises(KeyboardInterrupt):
        await child.shutdown()
    assert job.terminated
    assert job.closed
    await child.shutdown()
    assert not is_alive(pid)


@pytest.mark.parametrize("refused", ["", "new_job"], ids=["in its job", "in none"])
async def test_a_child_that_cannot_be_resumed_is_ended(refused: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_processes, "KILL_GRACE", 0.2)

    class Jobs(FakeJobs):
        def resume(self, pid: int) -> None:
            self.pid = pid
            raise PermissionError(errno.EACCES, "no thread of it may be touched")

    jobs = Jobs(refuses=refused)
    with pytest.raises(PermissionError, match="no thread"), trio.fail_after(5):
        await open_child_in_job(partial(jobs.start, "true"), ["true"], jobs)
    assert not is_known(jobs.pid)
    assert jobs.job is None or jobs.job.closed


async def test_a_child_that_cannot_be_in_a_job_runs_all_the_same_and_that_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    jobs = FakeJobs(refuses="new_job")
    with caplog.at_level(logging.WARNING, logger="acp_ref"):
        child = await open_child_in_job(partial(jobs.start, "cat"), ["cat"], jobs)
    assert jobs.steps == ["start", "new_job", "resume"]
    assert f"process {child.pid} is in no job" in caplog.text
    assert "no new_job today" in caplog.text
    assert await child.shutdown() == 0


async def test_a_child_that_cannot_be_started_has_no_job() -> None:
    jobs = FakeJobs(refuses="start")
    with pytest.raises(PermissionError, match="no start today"):
        await open_child_in_job(partial(jobs.start, "cat"), ["cat"], jobs)
    assert jobs.steps == ["start"]
