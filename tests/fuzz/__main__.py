"""The long run: other examples in every run, until enough frames were fed or the time is over.

    python -m tests.fuzz --minutes 30 --frames 1000000
    python -m tests.fuzz --only agent --seed 4711      one example again, with the frames that matter

The exit status is 1 when a fault was found.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final

import attrs
import trio
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from acp_ref.methods import AGENT, CLIENT
from tests.fuzz.hostile import Outcome, hear_agent, hear_client, run_virtually
from tests.fuzz.lifecycle import live
from tests.fuzz.test_round_trip import PAYLOADS, check_round_trip
from tests.fuzz.together import live_together
from tests.fuzz.words import Words, starts_a_program

# So that a seed repeats a run: trio's scheduler shuffles its tasks with this generator. pytest-trio does the same.
SCHEDULER: Final = trio._core._run


@attrs.define
class Summary:
    """What one kind of example came to."""

    examples: int = 0
    frames: int = 0
    answers: int = 0
    faults: dict[str, int] = attrs.field(factory=dict[str, int])
    """The seed of the first example of each fault."""


Example = Callable[[Random, Sequence[int]], Outcome]
"""Runs what the seeds decide."""


def _agent(rng: Random, seeds: Sequence[int]) -> Outcome:
    frames = [frame for frame in (Words(seed, AGENT).frame() for seed in seeds) if not starts_a_program(frame)]
    initialized, limit = rng.random() < 0.95, rng.choice([2**27, 2**27, 2**27, 200])
    number = rng.getrandbits(32)
    return run_virtually(lambda: hear_client(frames, number, initialized=initialized, max_frame_bytes=limit))


def _client(rng: Random, seeds: Sequence[int]) -> Outcome:
    frames = [Words(seed, CLIENT).frame() for seed in seeds]
    initialized, limit = rng.random() < 0.95, rng.choice([2**27, 2**27, 2**27, 320])
    number = rng.getrandbits(32)
    return run_virtually(lambda: hear_agent(frames, number, initialized=initialized, max_frame_bytes=limit))


def _sessions(rng: Random, seeds: Sequence[int]) -> Outcome:
    return run_virtually(lambda: live(seeds))


def _together(rng: Random, seeds: Sequence[int]) -> Outcome:
    return run_virtually(lambda: live_together(seeds))


def _types(rng: Random, seeds: Sequence[int]) -> Outcome:
    _, t = rng.choice(PAYLOADS)

    @settings(max_examples=20, database=None, deadline=None, suppress_health_check=[*HealthCheck])
    @given(st.data())
    def there_and_back(data: st.DataObject) -> None:
        check_round_trip(t, data)

    seed(rng.getrandbits(32))(there_and_back)()
    return Outcome(0, 0)


KINDS: Final[dict[str, tuple[Example, int, int]]] = {
    "agent": (_agent, 50, 60),
    "client": (_client, 15, 60),
    "sessions": (_sessions, 18, 40),
    "together": (_together, 15, 20),
    "types": (_types, 2, 1),
}
"""Each kind of example, how often it is tried, and its greatest number of seeds."""


def run(kind: str, number: int) -> Outcome:
    """The example of that number."""
    example, _, most = KINDS[kind]
    rng = Random(number)
    seeds = [rng.getrandbits(32) for _ in range(rng.randrange(most) + 1)]
    return example(_repeatable(number), seeds)


def _repeatable(number: int) -> Random:
    vars(SCHEDULER)["_ALLOW_DETERMINISTIC_SCHEDULING"] = True
    SCHEDULER._r.seed(number)
    return Random(number)


def shrink(kind: str, number: int) -> Sequence[int]:
    """The seeds without which the fault of the example goes away."""
    example, _, most = KINDS[kind]
    rng = Random(number)
    seeds = [rng.getrandbits(32) for _ in range(rng.randrange(most) + 1)]
    at = len(seeds)
    while at > 0:
        at -= 1
        fewer = seeds[:at] + seeds[at + 1 :]
        try:
            example(_repeatable(number), fewer)
        except Exception:
            seeds = fewer
    return seeds


def _resident() -> int:
    """KiB of memory that this process holds, where the system tells."""
    status = Path("/proc/self/status")
    found = re.search(r"VmRSS:\s*(\d+)", status.read_text()) if status.exists() else None
    return int(found[1]) if found else 0


def _line(name: str, summary: Summary) -> str:
    return (
        f"{name:10} {summary.examples:9,} examples {summary.frames:11,} frames {summary.answers:11,} answers"
        f" {len(summary.faults):4} faults"
    )


def main() -> int:
    """Run examples until it is enough."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Feed anything to agents and clients.")
    parser.add_argument("--minutes", type=float, default=30, help="stop after so many minutes")
    parser.add_argument("--frames", type=int, default=1_000_000, help="stop after so many frames")
    parser.add_argument("--only", choices=KINDS, help="one kind of example")
    parser.add_argument("--seed", type=int, help="one example again")
    options = parser.parse_args()
    if options.seed is not None:
        return _again(options.only or "agent", options.seed)
    names = [options.only] if options.only else [*KINDS]
    weights = [KINDS[name][1] for name in names]
    summaries = {name: Summary() for name in names}
    start = time.monotonic()
    told = start
    first = resident = 0
    while time.monotonic() - start < options.minutes * 60:
        [name] = random.choices(names, weights)
        number = random.getrandbits(48)
        summary = summaries[name]
        summary.examples += 1
        try:
            outcome = run(name, number)
        except Exception as exc:
            fault = re.sub(r"\w*\d\w*", "#", f"{type(exc).__name__}: {exc}")[:200]
            if fault not in summary.faults:
                summary.faults[fault] = number
                print(f"FAULT {name} --seed {number}: {exc}"[:1000], flush=True)
        else:
            summary.frames += outcome.frames
            summary.answers += outcome.answers
        resident = _resident()
        if not first and time.monotonic() - start > 60:
            first = resident
        if time.monotonic() - told > 60:
            told = time.monotonic()
            total = sum(summary.frames for summary in summaries.values())
            print(f"{(told - start) / 60:5.1f} min {total:11,} frames {resident:9,} KiB", flush=True)
        if sum(summary.frames for summary in summaries.values()) >= options.frames:
            break
    for name, summary in summaries.items():
        print(_line(name, summary))
    whole = Summary(
        examples=sum(summary.examples for summary in summaries.values()),
        frames=sum(summary.frames for summary in summaries.values()),
        answers=sum(summary.answers for summary in summaries.values()),
    )
    for summary in summaries.values():
        whole.faults |= summary.faults
    print(_line("all", whole))
    print(f"{(time.monotonic() - start) / 60:.1f} minutes; memory {first or resident:,} KiB after the first one,")
    print(f"{resident:,} KiB in the end; Python {sys.version.split()[0]}, trio {trio.__version__}")
    return 1 if whole.faults else 0


def _again(kind: str, number: int) -> int:
    try:
        print(run(kind, number))
    except Exception as exc:
        print(f"{type(exc).__name__}: {exc}")
        seeds = shrink(kind, number)
        print(f"seeds that matter: {seeds}")
        for each in seeds if kind in ("agent", "client") else ():
            print(Words(each, AGENT if kind == "agent" else CLIENT).frame())
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
