"""What the system knows of processes: who is below us, whoever its parent is by now, and what it holds."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final

import attrs
import trio

PR_SET_CHILD_SUBREAPER: Final = 36
PAGE: Final = os.sysconf("SC_PAGE_SIZE") if sys.platform != "win32" else 4096


@attrs.frozen
class Process:
    """A process as it stands in /proc."""

    pid: int
    parent: int
    state: str
    command: str

    @property
    def lives(self) -> bool:
        """Whether it still runs; a zombie only waits to be waited for."""
        return self.state not in "ZX"


def processes() -> Mapping[int, Process]:
    """All there are, by id."""
    found: dict[int, Process] = {}
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with suppress(OSError):  # it went while we looked
            state, parent = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[:2]
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            found[pid] = Process(pid, int(parent), state.decode(), command)
    return found


def below(ancestor: int) -> dict[int, Process]:
    """The descendants of ``ancestor`` that live. An orphan is one only of who adopted it: see :func:`adopting`."""
    everybody = processes()
    family = [ancestor]
    for parent in family:
        family += [process.pid for process in everybody.values() if process.parent == parent]
    return {pid: everybody[pid] for pid in family[1:] if everybody[pid].lives}


def alive(tag: str) -> list[str]:
    """The commands of all that live and have ``tag`` on their command line."""
    return sorted(process.command for process in processes().values() if process.lives and tag in process.command)


def kill_all(tag: str) -> None:
    """End what has ``tag`` on its command line, and wait until it is gone."""
    for process in processes().values():
        if tag in process.command and process.pid != os.getpid():
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
    soon(lambda: alive(tag))


@contextmanager
def adopting() -> Generator[None]:
    """Become the parent of orphans below us, so that none can hide behind the death of its own parent."""
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        prctl(PR_SET_CHILD_SUBREAPER, 0)


def _bury(before: Mapping[int, Process]) -> None:
    """Wait for the adopted that are dead."""
    for process in processes().values():
        if process.parent == os.getpid() and process.pid not in before and not process.lives:
            with suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)


def open_files(pid: int | None = None) -> list[str]:
    """The descriptors of ``pid``, or of ourselves, and what each is."""
    directory = f"/proc/{pid or 'self'}/fd"
    found = []
    for fd in os.listdir(directory):
        with suppress(OSError):  # the listing itself
            found.append(f"{fd} -> {os.readlink(f'{directory}/{fd}')}")
    return sorted(found)


def resident_bytes(pid: int) -> int:
    """The memory that ``pid`` has."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


def soon(observe: Callable[[], object], *, within: float = 5.0) -> object:
    """What ``observe`` returns once that is empty, or after ``within`` seconds."""
    deadline = time.monotonic() + within
    while (seen := observe()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return seen


async def until(observe: Callable[[], object], *, within: float = 10.0) -> None:
    """Wait until ``observe`` returns something: for what other processes do."""
    with trio.fail_after(within):
        while not observe():  # noqa: ASYNC110 - nothing tells when
            await trio.sleep(0.03)


@asynccontextmanager
async def nothing_left() -> AsyncGenerator[None]:
    """Fail when the block leaves a process, a descriptor or a task."""
    with adopting():
        processes_before = processes()
        files, tasks = open_files(), trio.lowlevel.current_statistics().tasks_living
        yield

        def new_processes() -> list[str]:
            return [process.command for pid, process in below(os.getpid()).items() if pid not in processes_before]

        def new_files() -> list[str]:
            return [file for file in open_files() if file not in files]

        # A thread that was let go closes its descriptor when its system call returns; the kernel takes its time too.
        assert soon(new_processes) == []
        assert soon(new_files) == []
        assert trio.lowlevel.current_statistics().tasks_living == tasks
        _bury(processes_before)
