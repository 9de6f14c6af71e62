"""What is compared: every row, with the target it has."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from tests.bench.place import FLOOR, OURS, PYTHON, TYPESCRIPT, Place
from tests.bench.rows import Row, Target
from tests.bench.work import Contender, Figures, Work

__all__ = ["FULL", "QUICK", "Size", "rows"]

MIB: Final = 1 << 20

LINEAR: Final = 1.5
"""How much dearer a MiB of the largest message may be than one of a smaller message, and its time still be linear."""


@attrs.frozen(kw_only=True)
class Size:
    """How much work there is."""

    updates: int
    requests: int
    starts: int
    """Starts and imports, of which each round takes the median."""
    large: Sequence[int]
    """MiB of one message, the most first."""
    sessions: int
    prompts: int
    journal: int
    turns: int


FULL: Final = Size(
    updates=20_000,
    requests=3_000,
    starts=3,
    large=(64, 16, 4, 1),
    sessions=1_000,
    prompts=50,
    journal=100_000,
    turns=200,
)
QUICK: Final = Size(
    updates=4_000, requests=500, starts=1, large=(16, 4, 1), sessions=100, prompts=50, journal=10_000, turns=20
)
"""To see that everything runs. Its figures say little."""


def micros(figures: Figures) -> float:
    return figures["seconds"] / figures["work"] * 1e6


def millis(figures: Figures) -> float:
    return figures["seconds"] * 1e3


def millis_per_mib(figures: Figures) -> float:
    return millis(figures) / (figures["work"] / MIB)


def peak(figures: Figures) -> float:
    return figures["peak_mib"]


def messages_of_memory(figures: Figures) -> float:
    return (figures["peak_mib"] - figures["before_mib"]) / (figures["work"] / MIB)


def unwanted(figures: Figures) -> float:
    return figures["unwanted"]


def against(python: float | None, typescript: float | None = None) -> Sequence[Target]:
    """What we take at most, as a part of what the official SDKs take."""
    targets = [(python, PYTHON), (typescript, TYPESCRIPT)]
    return [Target(most, than) for most, than in targets if most is not None]


def rows(place: Place, size: Size) -> Sequence[Row]:
    """All rows, in the order of the table."""
    return [
        *_streaming(place, size),
        *_requests(place, size),
        *_starting(place, size),
        *_large(place, size),
        *_many_sessions(place, size),
        _load(place, size),
        *_mixed(place, size),
    ]


def _driven(place: Place, name: str, task: Sequence[object], agents: Mapping[str, Sequence[str]]) -> Work:
    """Agents, each driven by a client that costs next to nothing."""
    driver = [*place.python("raw_client", *task), "--"]
    return Work(name, [Contender(who, [*driver, *agent]) for who, agent in agents.items()], place.absent)


def _driving(place: Place, name: str, clients: Mapping[str, Sequence[str]], *options: object) -> Work:
    """Clients, each with an agent that costs next to nothing."""
    agent = ["--", *place.python("raw_agent", *options)]
    return Work(name, [Contender(who, [*client, *agent]) for who, client in clients.items()], place.absent)


def _streaming(place: Place, size: Size) -> Sequence[Row]:
    agents = _driven(place, "agent-updates", ["updates", size.updates], place.agents())
    clients = _driving(place, "client-updates", place.clients("updates", size.updates))
    what = f"{size.updates:,} text chunks in one turn"
    return [
        Row(
            name="agent-updates",
            title=f"Agent: {what}",
            unit="µs per update",
            work=agents,
            figure=micros,
            targets=against(0.17, 0.5),
        ),
        Row(
            name="client-updates",
            title=f"Client: {what}",
            unit="µs per update",
            work=clients,
            figure=micros,
            targets=against(0.20, 0.5),
        ),
        Row(
            name="agent-memory",
            title=f"Agent: peak memory, {what}",
            unit="MiB",
            work=agents,
            figure=peak,
            targets=against(0.8),
        ),
        Row(
            name="client-memory",
            title=f"Client: peak memory, {what}",
            unit="MiB",
            work=clients,
            figure=peak,
            targets=against(0.8),
            contenders=(OURS, PYTHON, TYPESCRIPT, FLOOR),  # of the raw client, the agent's memory is measured
        ),
    ]


def _requests(place: Place, size: Size) -> Sequence[Row]:
    what = f"{size.requests:,} requests, one after the other"
    return [
        Row(
            name="agent-requests",
            title=f"Agent: {what}",
            unit="µs per request",
            work=_driven(place, "agent-requests", ["requests", size.requests], place.agents()),
            figure=micros,
            targets=against(0.75, 1.0),
        ),
        Row(
            name="client-requests",
            title=f"Client: {what}",
            unit="µs per request",
            work=_driving(place, "client-requests", place.clients("requests", size.requests)),
            figure=micros,
            targets=against(0.75),
        ),
    ]


def _starting(place: Place, size: Size) -> Sequence[Row]:
    reference = [sys.executable, "-m", "acp_ref", "agent", "--sessions", str(place.scratch / "started")]
    agents = {OURS: reference, **{who: agent for who, agent in place.agents().items() if who != OURS}}
    imported = {
        OURS: "acp_ref",
        PYTHON: "acp",
        "acp_ref.agent": "acp_ref.agent",
        "acp_ref.client": "acp_ref.client",
        "both": "acp_ref.agent,acp_ref.client",
    }
    imports = Work(
        "import",
        [Contender(who, place.python("imports", module, size.starts)) for who, module in imported.items()],
        place.absent,
    )
    return [
        Row(
            name="start",
            title="Start of `acp_ref agent`, or of an SDK's agent, to its answered initialize",
            unit="ms",
            work=_driven(place, "start", ["start", size.starts], agents),
            figure=millis,
            targets=against(0.4),
        ),
        Row(
            name="import",
            title="`import acp_ref` and `import acp`",
            unit="ms",
            work=imports,
            figure=millis,
            targets=against(0.3),
            contenders=(OURS, PYTHON),
        ),
        Row(
            name="import-agent",
            title="`import acp_ref.agent` and `import acp`",
            unit="ms",
            work=imports,
            figure=millis,
            contenders=("acp_ref.agent", PYTHON),
        ),
        Row(
            name="import-client",
            title="`import acp_ref.client` and `import acp`",
            unit="ms",
            work=imports,
            figure=millis,
            contenders=("acp_ref.client", PYTHON),
        ),
        Row(
            name="import-unwanted",
            title="Of mcp, pydantic and asyncio, loaded by `import acp_ref.agent, acp_ref.client`",
            unit="packages",
            work=imports,
            figure=unwanted,
            targets=[Target(0)],
            contenders=("both", PYTHON),
        ),
    ]


def _ours(place: Place, side: str, *task: object) -> Sequence[str]:
    """Our agent or our client at a task, at the other end somebody who costs next to nothing."""
    if side == "agent":
        return [*place.python("raw_client", *task), "--", *place.python("ours_agent")]
    return [*place.python("ours_client", *task), "--", *place.python("raw_agent")]


def _large(place: Place, size: Size) -> Iterator[Row]:
    names = {mib: f"{mib} MiB" for mib in size.large}
    largest, *smaller = names.values()
    for name, side, task, what in (
        ("agent-large-prompt", "agent", "prompt", "Agent takes one prompt"),
        ("client-large-prompt", "client", "prompt", "Client sends one prompt"),
        ("agent-large-update", "agent", "large", "Agent sends one update"),
        ("client-large-update", "client", "large", "Client takes one update"),
    ):
        contenders = [Contender(named, _ours(place, side, task, mib * MIB)) for mib, named in names.items()]
        work = Work(name, contenders)
        yield Row(
            name=name,
            title=f"{what} of {largest}, and smaller ones",
            unit="ms per MiB",
            work=work,
            figure=millis_per_mib,
            targets=[Target(LINEAR, than) for than in smaller[:-1]],  # the smallest hides what any message costs
        )
        yield Row(
            name=f"{name}-memory",
            title=f"{what} of {largest}: peak memory above what it had",
            unit="times the message",
            work=work,
            figure=messages_of_memory,
            targets=[Target(6.0)],
        )


def _many_sessions(place: Place, size: Size) -> Iterator[Row]:
    many, one = f"{size.prompts} of {size.sessions:,} sessions", "one session"
    for side in ("agent", "client"):
        contenders = [
            Contender(many, _ours(place, side, "share", size.updates, size.sessions, size.prompts)),
            Contender(one, _ours(place, side, "share", size.updates, 1, 1)),
        ]
        yield Row(
            name=f"{side}-sessions",
            title=f"{side.title()}: {size.updates:,} text chunks in turns that run at once",
            unit="µs per update",
            work=Work(f"{side}-sessions", contenders),
            figure=micros,
            targets=[Target(1.3, one)],
        )


def _load(place: Place, size: Size) -> Row:
    stored = str(place.scratch / "stored")
    agent = ["--", *place.python("ours_agent")]
    streaming = [*place.clients("updates", size.journal)[OURS], *agent]
    contenders = [
        Contender("load", [*place.clients("load", size.journal)[OURS], *agent, "--store", stored]),
        Contender("streaming", streaming),
        Contender("streaming and storing", [*streaming, "--store", str(place.scratch / "streamed")]),
    ]
    return Row(
        name="load",
        title=f"Load of a journal of {size.journal:,} updates",
        unit="µs per update",
        work=Work("load", contenders, before=[[*streaming, "--store", stored]]),
        figure=micros,
        targets=[Target(1.5, "streaming")],
    )


def _mixed(place: Place, size: Size) -> Sequence[Row]:
    record = str(place.scratch / "showcase")
    reference = [sys.executable, "-m", "acp_ref", "agent", "--sessions", str(place.scratch / "recorded")]
    recorder = [*place.python("record_showcase", record, size.turns), "--", *reference]
    agents = _driven(place, "agent-mixed", ["record", record], place.agents("--record", record))
    clients = _driving(place, "client-mixed", place.clients("record", record), "--record", record)
    what = f"{size.turns} showcases: text, thoughts, tool calls, diffs, plans and the rest"
    return [
        Row(
            name=f"{side}-mixed",
            title=f"{side.title()}: {what}",
            unit="µs per update",
            work=attrs.evolve(work, before=[recorder]),
            figure=micros,
        )
        for side, work in (("agent", agents), ("client", clients))
    ]
