"""What a program holds of the system: processes, tasks, open files. Nothing of it may be left when the demo is over.

https://agentclientprotocol.com/protocol/transports#stdio
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, final

import attrs
import trio

__all__ = ["Processes", "open_files", "tasks"]

PROC: Final = "/proc"


def tasks() -> int:
    """How many tasks there are, trio's own included."""
    return trio.lowlevel.current_statistics().tasks_living


def open_files() -> frozenset[str] | None:
    """Our open file descriptors and what each is; None where the system does not tell."""
    for directory in (f"{PROC}/self/fd", "/dev/fd"):
        try:
            names = os.listdir(directory)
        except OSError:
            continue
        return frozenset(filter(None, (_open_file(directory, name) for name in names)))
    return None


def _open_file(directory: str, name: str) -> str | None:
    """None for what is closed by now, such as the listing itself."""
    try:
        os.fstat(int(name))
    except OSError:
        return None
    try:
        return f"{name} ({os.readlink(f'{directory}/{name}')})"
    except OSError:  # not Linux
        return name


@attrs.frozen
class _Process:
    """A process as it stands in /proc. Its start time tells it from a later one with the same id."""

    pid: int
    parent: int
    state: str
    started: str


@final
class Processes:
    """The processes that were started below this one since this object was made, as they were seen.

    On Linux that is every descendant that was there at a :meth:`look`. Elsewhere it is those that were named to
    :meth:`add`, each with its process group.
    """

    sees_descendants: bool
    """Whether processes are seen that nobody named."""

    def __init__(self) -> None:
        self.sees_descendants = os.path.exists(f"{PROC}/self/stat")
        self._others: Mapping[int, str] = {}
        self._seen: dict[int, str] = {}
        self.look()
        self._others, self._seen = self._seen, {}

    def __len__(self) -> int:
        return len(self._seen)

    def add(self, pid: int) -> None:
        """A process was started that leads a group of its own."""
        self._seen.setdefault(pid, "")
        self.look()

    def look(self) -> None:
        """See who is there now."""
        if not self.sees_descendants:
            return
        now = _processes()
        below = [os.getpid()]
        for parent in below:
            for child in now.values():
                if child.parent == parent and self._others.get(child.pid) != child.started:
                    below.append(child.pid)
                    self._seen[child.pid] = child.started

    def left(self) -> Sequence[str] | None:
        """Those that are still there: their ids, and their commands where they can be had.

        None where the system does not tell.
        """
        if not self.sees_descendants:
            return _not_empty(self._seen)
        self.look()
        now = _processes()
        return [
            f"{pid} ({_command(pid)})"
            for pid, started in self._seen.items()
            if (process := now.get(pid)) is not None
            and process.started == started
            # A dead orphan waits for process 1, which is no business of ours; a dead child of ours is.
            and (process.state not in "ZX" or process.parent == os.getpid())
        ]


def _processes() -> Mapping[int, _Process]:
    found: dict[int, _Process] = {}
    for name in filter(str.isdigit, os.listdir(PROC)):
        try:
            with open(f"{PROC}/{name}/stat", encoding="ascii", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:  # it went while we looked
            continue
        found[int(name)] = _Process(pid=int(name), parent=int(fields[1]), state=fields[0], started=fields[19])
    return found


def _command(pid: int) -> str:
    try:
        with open(f"{PROC}/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
            return file.read().replace("\0", " ").strip() or "dead, but not waited for"
    except OSError:
        return "gone by now"


def _not_empty(groups: Iterable[int]) -> Sequence[str] | None:
    left: Sequence[str] | None = None
    if sys.platform != "win32":  # it has no groups, and no harmless signal to ask with
        left = [f"group {group}" for group in groups if _has_members(group)]
    return left


if sys.platform != "win32":

    def _has_members(group: int) -> bool:
        try:
            os.killpg(group, 0)
        except OSError as exc:
            return not isinstance(exc, ProcessLookupError)  # a member with another user is there as well
        return True
