"""The long form: ``python -m tests.faults [--rounds N] [--kills N] [--sessions N]``. Exit status 1 if a promise broke.

It takes some minutes, and its numbers are for a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

import trio

from tests.faults.killed_agents import Fates, kill_one
from tests.faults.many_sessions import MEBIBYTE, Held, agent_and_tag, held_by, open_use_and_close, settle
from tests.faults.system import nothing_left


async def kill_many(kills: int, seed: int) -> None:
    """Kill so many agents, one after the other."""
    fates = Fates()
    with tempfile.TemporaryDirectory() as directory:
        async with nothing_left():
            for number in range(kills):
                await kill_one(Path(directory) / "sessions", random.Random(f"{seed} {number}"), fates)
    print(fates)


async def open_many(sessions: int, rounds: int) -> None:
    """Open, use and close so many sessions with three servers each, so many times, in one agent."""
    held: list[Held] = []
    with tempfile.TemporaryDirectory() as directory:
        async with nothing_left(), agent_and_tag(Path(directory) / "sessions", timeout=3600) as (client, tag):
            print(f"at the beginning: {held_by(client)}")
            for number in range(rounds):
                began = time.monotonic()
                held.append(await open_use_and_close(client, tag, sessions))
                print(f"round {number + 1}, {time.monotonic() - began:.1f} s: {held[-1]}", flush=True)
            await settle(client)
            print(f"in the end: {held_by(client)}")
    assert {now.children for now in held} == {0}
    assert held[-1].files == held[1].files, "as many descriptors as after the second round"
    assert held[-1].resident - held[1].resident < 0.05 * held[1].resident + MEBIBYTE, "not more memory than then"


def main() -> int:
    """Do all of it.

    Returns:
      The exit status.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="how often sessions are opened (default: %(default)s)")
    parser.add_argument("--sessions", type=int, default=50, help="how many at once (default: %(default)s)")
    parser.add_argument("--kills", type=int, default=100, help="how many agents to kill (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000), help="of the moments when they are")
    args = parser.parse_args()
    print(f"seed {args.seed}")
    trio.run(kill_many, args.kills, args.seed)
    trio.run(open_many, args.sessions, args.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
