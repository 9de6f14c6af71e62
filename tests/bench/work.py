"""Work that several programs do, one after the other, round after round: A B C A B C.

Whatever else the machine does meets all of them alike, so a ratio of medians holds better than any figure.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

__all__ = ["Contender", "Figures", "Measured", "Work"]

Figures: TypeAlias = Mapping[str, float]
"""What a program measured: ``seconds``, ``cpu_seconds`` and ``work``; ``before_mib`` and ``peak_mib`` of memory."""

TIMEOUT: Final = 120.0
"""Seconds after which a program is taken to hang."""


@attrs.frozen
class Contender:
    """Somebody who does the work."""

    name: str
    command: Sequence[str]
    """A program that prints its figures as one JSON object."""


@attrs.frozen
class Measured:
    """What came of a work: the figures of each contender, one for each round; and why some have none."""

    figures: Mapping[str, Sequence[Figures]]
    failures: Mapping[str, str]

    def by_cpu(self) -> Measured:
        """The same, with the seconds that the processor was busy instead of those that passed, where they were told."""
        return Measured(
            {
                name: [{**each, "seconds": each.get("cpu_seconds", each["seconds"])} for each in figures]
                for name, figures in self.figures.items()
            },
            self.failures,
        )


@attrs.frozen(eq=False)
class Work:
    """The same work for every contender."""

    name: str
    contenders: Sequence[Contender]
    absent: Mapping[str, str] = attrs.field(factory=dict[str, str])
    """Who is not on this machine, and why."""
    before: Sequence[Sequence[str]] = ()
    """Commands that prepare it, once."""

    @property
    def names(self) -> Sequence[str]:
        """The contenders' names."""
        return [contender.name for contender in self.contenders]

    def measure(
        self, rounds: int, environment: Mapping[str, str], cwd: str, progress: Callable[[str], None]
    ) -> Measured:
        """Let all contenders do it, once to warm up and then ``rounds`` times."""
        for command in self.before:
            progress(f"{self.name}: preparing")
            run(command, environment, cwd)
        figures: dict[str, list[Figures]] = {name: [] for name in self.names}
        failures = {name: self.absent[name] for name in self.names if name in self.absent}
        for number in range(rounds + 1):
            progress(f"{self.name}: " + (f"round {number} of {rounds}" if number else "warming up"))
            for contender in self.contenders:
                if contender.name in failures:
                    continue
                try:
                    measured = run(contender.command, environment, cwd)
                except (RuntimeError, ValueError) as exc:
                    failures[contender.name] = str(exc)
                else:
                    if number:
                        figures[contender.name].append(measured)
        return Measured({name: found for name, found in figures.items() if name not in failures}, failures)


def run(command: Sequence[str], environment: Mapping[str, str], cwd: str) -> Figures:
    """The figures that ``command`` prints. Nothing of it is left when it failed.

    Raises:
      RuntimeError: it did not end well, or not in time.
      ValueError: it printed no figures.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        cwd=cwd,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"not done after {TIMEOUT:.0f} s") from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode:
        lines = err.decode(errors="replace").strip().splitlines()
        raise RuntimeError(lines[-1] if lines else f"exit status {process.returncode}")
    figures: Figures = json.loads(out.strip().splitlines()[-1] if out.strip() else b"{}")
    return figures
