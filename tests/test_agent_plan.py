"""Plans: whole each time, so that the last one is all there is to know.

https://agentclientprotocol.com/protocol/agent-plan
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest

from acp_ref._converter import InvalidPayload, structure, unstructure
from acp_ref._jsonrpc import JSON, JSONObject
from acp_ref.agent import Agent
from acp_ref.client_session import ClientSession
from acp_ref.prompt_turn import PromptTurn
from acp_ref.schema import Plan, PlanEntry, PlanEntryPriority, PlanEntryStatus, SessionUpdate, StopReason
from acp_ref.testing import open_agent_and_client
from tests.conversations import CWD, client_of, make_client, new_session, say, update_of


def entry(content: str, status: PlanEntryStatus) -> PlanEntry:
    return PlanEntry(content=content, priority=PlanEntryPriority.HIGH, status=status)


PLANS: Final[Sequence[Sequence[PlanEntry]]] = (
    [entry("look", PlanEntryStatus.PENDING), entry("leap", PlanEntryStatus.PENDING)],
    [entry("look", PlanEntryStatus.COMPLETED), entry("leap", PlanEntryStatus.IN_PROGRESS)],
    [entry("leap", PlanEntryStatus.COMPLETED), entry("land", PlanEntryStatus.PENDING)],
    [],
)
"""As a plan goes: progress, then an entry removed and another added, at last nothing."""


async def carry_out(turn: PromptTurn) -> StopReason:
    for plan in PLANS:
        await turn.send_plan(*plan)
    return StopReason.END_TURN


@pytest.mark.spec("PLAN-01", "PLAN-03", "PLAN-04", "PLAN-06")
async def test_each_report_of_progress_holds_every_entry_as_it_stands_now() -> None:
    async with client_of(Agent(name="a", version="1", prompt=carry_out)) as peer:
        *updates, _ = await say(peer, await new_session(peer), "hi")
        expected: list[JSON] = [
            [{"content": item.content, "priority": "high", "status": str(item.status)} for item in plan]
            for plan in PLANS
        ]
        assert [update_of(update) for update in updates] == [
            {"sessionUpdate": "plan", "entries": entries} for entries in expected
        ]


@pytest.mark.spec("PLAN-05", "PLAN-06")
async def test_each_plan_replaces_the_one_before_it_whole() -> None:
    seen: list[Sequence[PlanEntry]] = []

    def look(session: ClientSession, update: SessionUpdate) -> None:
        assert session.state.plan is update
        assert isinstance(update, Plan)
        seen.append(update.entries)

    served = Agent(name="a", version="1", prompt=carry_out)
    client = make_client(on_update=look)
    async with open_agent_and_client(served, client) as (_, side), side.new_session(CWD) as session:
        async with session.prompt("hi") as turn:
            await turn.wait()
        assert session.state.plan == Plan(entries=[])
    assert seen == [*PLANS]


@pytest.mark.spec("PLAN-02")
def test_an_entry_has_a_content_a_priority_and_a_status() -> None:
    for priority in ("high", "medium", "low"):
        for status in ("pending", "in_progress", "completed"):
            raw: JSONObject = {"content": "look", "priority": priority, "status": status}
            read = structure(PlanEntry, raw)
            assert (read.priority, read.status) == (PlanEntryPriority(priority), PlanEntryStatus(status))
            assert unstructure(PlanEntry, read) == raw
            for missing in raw:
                with pytest.raises(InvalidPayload, match=missing):
                    structure(PlanEntry, {key: value for key, value in raw.items() if key != missing})
