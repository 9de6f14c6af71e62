"""Child processes: each in a process group of its own, and none outlives its owner.

https://agentclientprotocol.com/protocol/transports#stdio

The command a user names is often a wrapper (``npx``, ``uvx``, ``sh -c``) and the real agent its grandchild. So every
child leads its own process group, and :meth:`ChildProcess.shutdown` ends the *group*: close stdin, wait, SIGTERM, wait,
SIGKILL. The steps go on while the group has members, whether or not the leader went by itself. All waits are bounded.

Two facts of POSIX shape the code. A dead leader that nobody has waited for still counts as a member, so looking at the
group reaps the leader first. And a process id is free for reuse once the leader is reaped and its group is empty, so an
empty group is remembered and never signalled again.

Who is killed himself takes no steps. His children are left with pipes that end: those that read their stdin go, as an
agent should and as ours does, with its own children. What ignores the end of its stdin stays, on POSIX: nothing
portable can tell it of our death, and Linux's own means (PR_SET_PDEATHSIG) goes by the thread that started it, here one
of a pool.

On Windows a :class:`Job` takes the place of the group, and ends with us (see :mod:`acp_ref._windows_jobs`). There is no
SIGTERM: the end of its stdin is all that asks a child to go, and the next step ends the job. CTRL_BREAK_EVENT cannot
take its place: it reaches processes at our own console only, and a child has another (CREATE_NO_WINDOW). Else it could
read what is typed for us, and a window would open for each child of a program that has no console. Sent all the same,
the event ends nobody and muddles the console (https://github.com/microsoft/terminal/issues/335). So a child is no root
of a console process group either (CREATE_NEW_PROCESS_GROUP): it would only make all below it deaf to Ctrl-C, also at
the consoles that an agent makes for its commands.
"""

from __future__ import annotations

import errno
import ntpath
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

import trio

from acp_ref.reports import Report, ReportKind, log_report

if sys.platform == "win32":
    from acp_ref import _windows_jobs

__all__ = ["ChildProcess", "Job", "Jobs", "child_environment", "open_child", "open_child_in_job", "windows_command"]

KILL_GRACE: Final = 2.0
"""Seconds until a group that got SIGKILL must be gone; a member in an uninterruptible sleep may take longer."""

STDERR_GRACE: Final = 0.5
"""Seconds for the last words on stderr after the group is gone: a process outside the group may hold the pipe."""

if sys.platform == "win32":
    KILL: Final = signal.SIGTERM  # each signal is
    TASKKILL: Final = ntpath.join(os.environ.get("SYSTEMROOT", "C:\\Windows"), "System32", "taskkill.exe")
else:
    KILL: Final = signal.SIGKILL

STDERR_TAIL_BYTES: Final = 4096
STDERR_CHUNK_BYTES: Final = 65536


class HasFileno(Protocol):
    """An open file, socket or pipe end."""

    def fileno(self) -> int: ...


class Job(Protocol):
    """The group of a child on Windows: the child and all that it starts."""

    def has_members(self) -> bool:
        """Whether one of them lives. Once none does, none ever will."""
        ...

    def terminate(self) -> None:
        """End them all, which takes them a moment."""
        ...

    def close(self) -> None:
        """Let go of the job, which ends those that live. The last call."""
        ...


class Jobs(Protocol):
    """Puts processes into jobs."""

    def new_job(self, pid: int) -> Job:
        """A new job with the process ``pid``. Raises OSError; the process is as before then."""
        ...

    def resume(self, pid: int) -> None:
        """Let the process ``pid`` run, which was started suspended. Raises OSError."""
        ...


class ChildProcess:
    """A process, the group it leads, and our ends of its pipes. Made by :func:`open_child`; its owner must call
    :meth:`shutdown` on every path.

    The group is the ``job``; without one, the process group on POSIX, and on Windows no more than the leader.
    """

    def __init__(self, process: trio.Process, command: Sequence[str], job: Job | None = None) -> None:
        self._process = process
        self._job = job
        self.command: Final = tuple(command)
        self.pid: Final = process.pid
        """The process id, and on POSIX the id of the group."""
        self.stdin: Final = process.stdin
        self.stdout: Final = process.stdout
        self.stderr: Final = process.stderr
        self._group_is_gone = False
        self._shutting_down = trio.Lock()
        self._tail = b""
        self._stderr_ended = trio.Event()
        self._stderr_ended.set()  # nobody reads it yet

    def __repr__(self) -> str:
        return f"<ChildProcess {self.pid} {self.command!r}: {self.exit_reason()}>"

    @property
    def returncode(self) -> int | None:
        """The leader's exit status, minus the signal's number when a signal ended it, None while it runs."""
        status = self._process.returncode
        if status is not None:
            self._look_at_group(0)  # before its id can be reused
        return status

    async def wait(self) -> int:
        """Wait for the leader to exit and return its :attr:`returncode`; grandchildren may live on."""
        status = await self._process.wait()
        self._look_at_group(0)
        return status

    def exit_reason(self) -> str:
        """How the leader ended, for a person to read: ``exit status 3``, ``signal SIGKILL`` or ``still running``."""
        status = self.returncode
        if status is None:
            return "still running"
        if status >= 0:
            return f"exit status {status}"
        try:
            return f"signal {signal.Signals(-status).name}"
        except ValueError:  # a real-time signal
            return f"signal {-status}"

    def signal_group(self, sig: int) -> bool:
        """Send ``sig`` to all members of the group, or look only when it is 0; True while a member lives.

        On Windows any signal terminates them.
        """
        leader_runs = self._process.returncode is None
        alive = self._look_at_group(sig)
        return alive and (leader_runs or self._job is not None or not _only_zombies(self.pid))

    def _look_at_group(self, sig: int) -> bool:
        if self._group_is_gone:
            return False
        if self._job is not None:
            if sig:
                self._job.terminate()
            if not self._job.has_members():
                self._group_is_gone = True
                self._close_job()
        elif sys.platform == "win32":
            if sig and self._process.returncode is None:
                self._process.terminate()
            self._group_is_gone = self._process.returncode is not None
        else:
            try:
                os.killpg(self.pid, sig)
            except ProcessLookupError:
                self._group_is_gone = True
            except PermissionError:  # a member runs as another user
                pass
        return not self._group_is_gone

    def _close_job(self) -> None:
        if self._job is not None:
            self._job.close()
            self._job = None

    async def shutdown(self, *, stdin_grace: float = 2.0, term_grace: float = 2.0) -> int | None:
        """End the group and close the pipes (TRANS-12); may be called again, also by two tasks at once.

        Close stdin and give the leader ``stdin_grace`` seconds to go; send SIGTERM to what is left of the group and
        give it ``term_grace`` seconds; then SIGKILL. On Windows, where there is no SIGTERM, what is left is ended at
        once. Shielded from cancellation, which is safe as it takes no longer than the two and some three seconds more.
        No shield keeps out KeyboardInterrupt: it goes to SIGKILL at once.
        Returns the leader's exit status; None if even SIGKILL did not end it.
        """
        with trio.CancelScope(shield=True):
            async with self._shutting_down:
                try:
                    await self._shut_down(stdin_grace, term_grace)
                except BaseException:
                    self._look_at_group(KILL)
                    raise
                finally:
                    self._close_job()
        return self.returncode

    async def _shut_down(self, stdin_grace: float, term_grace: float) -> None:
        if self.stdin is not None:
            await self.stdin.aclose()
        with trio.move_on_after(stdin_grace):
            await self.wait()
        if self.signal_group(0):
            await self._end_group(term_grace)
        with trio.move_on_after(STDERR_GRACE):
            await self._stderr_ended.wait()
        for stream in (self.stdout, self.stderr):
            if stream is not None:
                await stream.aclose()

    async def _end_group(self, term_grace: float) -> None:
        if self._job is not None:
            self.signal_group(KILL)
        elif sys.platform == "win32":
            with trio.move_on_after(term_grace), suppress(OSError):
                await trio.run_process(
                    [TASKKILL, "/T", "/F", "/PID", str(self.pid)],
                    capture_stdout=True,
                    capture_stderr=True,
                    check=False,
                    creationflags=subprocess.CREATE_NO_WINDOW,
                )
            self.signal_group(KILL)
        else:
            self.signal_group(signal.SIGTERM)
            if await self._group_ends_within(term_grace):
                return
            self.signal_group(KILL)
        await self._group_ends_within(KILL_GRACE)

    async def _group_ends_within(self, seconds: float) -> bool:
        pause = 0.005
        with trio.move_on_after(seconds):
            await self.wait()
            while self.signal_group(0):  # nothing tells when a grandchild goes
                await trio.sleep(pause)
                pause = min(2 * pause, 0.1)
        return not self.signal_group(0)

    async def drain_stderr(self, sink: Callable[[bytes], None] | None = None) -> None:
        """Read stderr until it ends or :meth:`shutdown` closes it, so that the child never blocks on it (TRANS-09).

        Each chunk goes to ``sink`` as it comes, and a sink that fails is logged; the end of it all stays in
        :attr:`stderr_tail`.
        """
        if self.stderr is None:
            return
        self._stderr_ended = trio.Event()
        try:
            while chunk := bytes(await self.stderr.receive_some(STDERR_CHUNK_BYTES)):
                self._tail = (self._tail + chunk)[-STDERR_TAIL_BYTES:]
                if sink is not None:
                    try:
                        sink(chunk)
                    except Exception as exc:
                        log_report(Report(kind=ReportKind.HANDLER_FAILED, reason="the stderr sink failed", error=exc))
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            pass
        finally:
            self._stderr_ended.set()

    @property
    def stderr_tail(self) -> str:
        """The last 4 KiB that :meth:`drain_stderr` read."""
        return self._tail.decode("utf-8", "replace").strip("\ufffd")  # the cut may be inside a character

    async def wait_stderr_ended(self) -> None:
        """Wait until :meth:`drain_stderr` has read everything. Bound this: a grandchild may hold the pipe."""
        await self._stderr_ended.wait()


def _only_zombies(group: int) -> bool:
    """Whether all members of ``group``, whose leader is gone, are dead and only not waited for.

    Orphans are waited for by process 1. In a container that is often a program that does not, and may be ourselves.
    """
    if sys.platform != "win32":
        with suppress(ChildProcessError):  # none of them is ours
            while os.waitpid(-group, os.WNOHANG)[0]:
                pass
    try:
        pids = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:  # not Linux
        return False
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                state, _parent, member_of = file.read().rpartition(b")")[2].split(maxsplit=3)[:3]
        except (OSError, ValueError):  # it went while we looked
            continue
        if int(member_of) == group and state not in b"ZX":
            return False
    return True


async def open_child(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    stdin: int | HasFileno | None = subprocess.PIPE,
    stdout: int | HasFileno | None = subprocess.PIPE,
    stderr: int | HasFileno | None = subprocess.PIPE,
    own_session: bool = True,
) -> ChildProcess:
    """Start ``command``, a program and its arguments, never through a shell (TRANS-03).

    ``env`` is its whole environment (see :func:`child_environment`), ours when None; the program is looked up on the
    ``PATH`` in it. ``own_session`` keeps it off our terminal. There is no checkpoint between the start and the return:
    who enters a ``try`` at once cannot lose the process to a cancellation.

    On Windows only a child with a session of its own is in a job. What shares our terminal is a login, which may be the
    first to open the user's browser, and the end of the login must not end that.

    Raises:
        OSError: the program or ``cwd`` does not exist or may not be used.
        ValueError: ``command`` is empty or holds a NUL; on Windows, an argument that a batch file would misread.
    """
    if not command:
        raise ValueError("the command is empty")
    if sys.platform == "win32":

        def resolve() -> Sequence[str]:
            if cwd is not None and not os.path.isdir(cwd):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), cwd)  # CreateProcess would not name it
            return windows_command(command, os.environ if env is None else env, cwd=cwd or os.getcwd())

        resolved = await trio.to_thread.run_sync(resolve)  # a folder on the path may be at the end of a slow network

        async def start(flags: int) -> trio.Process:
            return await trio.lowlevel.open_process(
                resolved, stdin=stdin, stdout=stdout, stderr=stderr, env=env, cwd=cwd, creationflags=flags
            )

        if own_session:
            flags = subprocess.CREATE_NO_WINDOW | _windows_jobs.CREATE_SUSPENDED
            return await open_child_in_job(partial(start, flags), command, _windows_jobs.kernel())
        process = await start(0)
    else:
        process = await trio.lowlevel.open_process(
            list(command),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=env,
            cwd=cwd,
            start_new_session=own_session,
            process_group=None if own_session else 0,
        )
    return ChildProcess(process, command)


@trio.lowlevel.enable_ki_protection
async def open_child_in_job(
    start: Callable[[], Awaitable[trio.Process]], command: Sequence[str], jobs: Jobs
) -> ChildProcess:
    """A child that ``start`` starts suspended, in a job, and resumed.

    Where it cannot be in a job, as in one of ours that has limits for windows and the clipboard, that is logged, and
    the child is ended as far as ``taskkill`` finds its children. An interrupt waits meanwhile: nobody else would ever
    resume the child.

    Raises:
        OSError: it cannot be started or resumed; nothing is left of it.
    """
    process = await start()
    job = None
    try:
        job = jobs.new_job(process.pid)
    except OSError as exc:
        reason = f"process {process.pid} is in no job, so that its children may outlive it: {exc}"
        log_report(Report(kind=ReportKind.DEGRADED, reason=reason))
    child = ChildProcess(process, command, job)
    try:
        jobs.resume(process.pid)
    except OSError:
        await child.shutdown(stdin_grace=0, term_grace=KILL_GRACE)
        raise
    return child


def child_environment(extra: Mapping[str, str], *, inherit: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a child: ``extra`` merged over ``inherit``, which is our own environment when None."""
    variables = [*(os.environ if inherit is None else inherit).items(), *extra.items()]
    if sys.platform == "win32":  # names have no case there, and os.environ has them in capitals
        merged = {name.upper(): value for name, value in variables}
    else:
        merged = dict(variables)
    return merged


def windows_command(
    command: Sequence[str],
    env: Mapping[str, str],
    *,
    cwd: str,
    is_file: Callable[[str], bool] = os.path.isfile,
) -> list[str]:
    """``command`` with its program resolved as a shell would: along the child's ``PATH``, with each of ``PATHEXT``.

    CreateProcess alone finds only ``.exe`` files, and on *our* path, so it misses ``npx.cmd`` and the like. Unlike a
    shell's, the search never begins in ``cwd``, nor ends there for a semicolon at the end of ``PATH``.

    Raises:
        FileNotFoundError: nothing of that name is on the path.
        ValueError: the program is a batch file, and its path or an argument has characters that ``cmd.exe`` would act
            upon.
    """
    name, *arguments = command
    extensions = list(filter(None, env.get("PATHEXT", ".COM;.EXE;.BAT;.CMD").split(";")))
    suffixes = ["", *extensions] if ntpath.splitext(name)[1].upper() in map(str.upper, extensions) else extensions
    on_path = (folder.strip('"') for folder in env.get("PATH", "").split(";"))
    folders = [""] if ntpath.dirname(name) else filter(None, on_path)
    candidates = (ntpath.join(cwd, folder, name + suffix) for folder in folders for suffix in suffixes)
    program = next(filter(is_file, candidates), None)
    if program is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    if program.upper().rstrip(". ").endswith((".BAT", ".CMD")):  # the system passes over dots and blanks at the end
        for text in (program, *arguments):
            if any(character in text for character in '"%&|<>^!\r\n'):
                raise ValueError(f"{text!r} cannot be passed to cmd.exe safely, which runs {program!r}")
    return [program, *arguments]
