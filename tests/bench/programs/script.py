"""What the programs have in common: the text they stream, and how they measure and report."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

__all__ = ["CWD", "MODE", "SPELLED", "TEXT", "arguments", "measured", "option", "prose", "record", "work_of"]

TEXT: Final = "The quick brown fox jumps over the lazy dog."
"""The text of each chunk, as long as a model's are."""

CWD: Final = "/"
MODE: Final = "a"
"""The one mode of every agent here: to set it is the smallest request there is."""

SPELLED: Final = len(json.dumps(TEXT + "\n")) - 2
"""Bytes of a line of text, as JSON."""


def prose(size: int) -> str:
    """Text with line ends that takes about ``size`` bytes as JSON."""
    return (TEXT + "\n") * (size // SPELLED)


def work_of(task: str, size: str) -> int:
    """How much a task is: its number, or for ``record`` the number of updates in the file."""
    return len(Path(size).read_bytes().splitlines()) if task == "record" else int(size)


def arguments() -> tuple[Sequence[str], Sequence[str]]:
    """What a client shall do, and the command of its agent."""
    split = sys.argv.index("--")
    return sys.argv[1:split], sys.argv[split + 1 :]


def option(name: str) -> str | None:
    """The value of ``--name`` on the command line of an agent."""
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else None


def record() -> list[object]:
    """The updates of the recorded turn that an agent was given, as JSON values; none when it was not."""
    path = option("--record")
    return [] if path is None else [json.loads(line) for line in Path(path).read_bytes().splitlines()]


def _memory(field: str, pid: int | None) -> float:
    """MiB: ``VmRSS``, what a process has in memory now, or ``VmHWM``, the most it ever had."""
    for line in Path(f"/proc/{pid or 'self'}/status").read_text("ascii").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise LookupError(field)


def _cpu(pid: int | None) -> float:
    """Seconds that the threads of a process have run."""
    tasks = Path(f"/proc/{pid or 'self'}/task").glob("*/schedstat")
    return sum(int(task.read_text("ascii").split()[0]) for task in tasks) / 1e9


@contextmanager
def measured(work: int, pid: int | None = None) -> Iterator[None]:
    """Run the block and print what it cost: seconds, and the CPU and memory of process ``pid``, or else of this one.

    Args:
      work: how much of it there is, in whatever the row counts.
    """
    before = _memory("VmRSS", pid)
    cpu = _cpu(pid)
    start = time.perf_counter()
    yield
    seconds = time.perf_counter() - start
    cpu = _cpu(pid) - cpu
    memory = {"before_mib": before, "peak_mib": _memory("VmHWM", pid)}
    print(json.dumps({"seconds": seconds, "cpu_seconds": cpu, "work": work, **memory}), flush=True)
