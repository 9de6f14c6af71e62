"""Compaction: one end for each, a summary only with success, and nothing for clients that did not ask for it.

https://agentclientprotocol.com/rfds/session-compaction
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import pytest
import trio

from acp_ref._jsonrpc import JSON, JSONObject
from acp_ref.agent import Agent
from acp_ref.agent_session import AgentSession
from acp_ref.compaction import Compactions
from acp_ref.errors import CapabilityError, LocalProtocolError
from acp_ref.prompt_turn import PromptTurn
from acp_ref.schema import (
    UNSET,
    CompactionId,
    CompactionStatus,
    CompactionSummaryChunk,
    CompactionUpdate,
    StopReason,
    TextContent,
)
from acp_ref.session_store import MemoryStore
from acp_ref.testing import open_agent_and_client
from tests.conversations import CWD, client_of, make_client, new_session, result_of, say, update_of

COMPACTION: JSONObject = {"session": {"compaction": {}}}

Work = Callable[[PromptTurn], Awaitable[None]]


def agent(work: Work, store: MemoryStore | None = None) -> Agent:
    async def prompt(turn: PromptTurn) -> StopReason:
        await work(turn)
        return StopReason.END_TURN

    return Agent(name="a", version="1", prompt=prompt, store=store)


async def updates_of(work: Work, capabilities: JSON = COMPACTION) -> Sequence[JSONObject]:
    """What a client with ``capabilities`` hears of a turn in which the agent does ``work``."""
    async with client_of(agent(work), capabilities=capabilities) as peer:
        return [update_of(message) for message in (await say(peer, await new_session(peer), "hi"))[:-1]]


def without_id(updates: Sequence[JSONObject]) -> Sequence[JSONObject]:
    """``updates`` without the id of the one compaction they are about."""
    assert len({str(update["compactionId"]) for update in updates}) == 1
    return [{key: value for key, value in update.items() if key != "compactionId"} for update in updates]


def status(value: str, **more: JSON) -> JSONObject:
    return {"sessionUpdate": "compaction_update", "status": value, **more}


def chunk(text: str) -> JSONObject:
    return {"sessionUpdate": "compaction_summary_chunk", "content": {"type": "text", "text": text}}


@pytest.mark.spec("COMP-02", "COMP-04", "COMP-05", "COMP-06")
async def test_a_compaction_is_in_progress_has_a_summary_in_pieces_and_is_completed_with_its_block() -> None:
    async def work(turn: PromptTurn) -> None:
        async with turn.compaction() as compaction:
            await compaction.send_summary("We talked ")
            await compaction.send_summary(TextContent(text="about parrots."))

    assert without_id(await updates_of(work)) == [
        status("in_progress"),
        chunk("We talked "),
        chunk("about parrots."),
        status("completed"),
    ]


@pytest.mark.spec("COMP-05", "COMP-06")
async def test_a_whole_summary_replaces_the_pieces_and_the_end_of_the_block_adds_no_second_end() -> None:
    async def work(turn: PromptTurn) -> None:
        async with turn.compaction() as compaction:
            await compaction.send_summary("...")
            await compaction.complete([TextContent(text="All of it.")])

    assert without_id(await updates_of(work)) == [
        status("in_progress"),
        chunk("..."),
        status("completed", summary=[{"type": "text", "text": "All of it."}]),
    ]


@pytest.mark.spec("COMP-05", "COMP-06")
async def test_a_block_that_raises_fails_the_compaction_and_tells_nobody_why() -> None:
    async def work(turn: PromptTurn) -> None:
        with pytest.raises(RuntimeError):
            async with turn.compaction():
                raise RuntimeError("secret")

    assert without_id(await updates_of(work)) == [status("in_progress"), status("failed")]


@pytest.mark.spec("COMP-05", "COMP-06")
async def test_a_failed_compaction_says_why_and_keeps_no_half_summary() -> None:
    async def work(turn: PromptTurn) -> None:
        async with turn.compaction() as compaction:
            await compaction.send_summary("We ta")
            await compaction.fail("The model is away.")

    assert without_id(await updates_of(work)) == [
        status("in_progress"),
        chunk("We ta"),
        status("failed", summary=None, error="The model is away."),
    ]


@pytest.mark.spec("COMP-05", "CANCEL-09")
async def test_a_cancelled_turn_cancels_its_compaction_before_its_answer() -> None:
    async def work(turn: PromptTurn) -> None:
        async with turn.compaction() as compaction, trio.open_nursery() as nursery:
            nursery.start_soon(compaction.send_summary, "We ")
            await trio.sleep_forever()

    async with client_of(agent(work), capabilities=COMPACTION) as peer:
        session_id = await new_session(peer)
        await peer.request(1, "session/prompt", {"sessionId": session_id, "prompt": [{"type": "text", "text": "hi"}]})
        begun = [update_of(await peer.receive()), update_of(await peer.receive())]
        await peer.notify("session/cancel", {"sessionId": session_id})
        ended = update_of(await peer.receive())
        assert without_id([*begun, ended]) == [status("in_progress"), chunk("We "), status("cancelled", summary=None)]
        assert result_of(await peer.receive()) == {"stopReason": "cancelled"}


@pytest.mark.spec("COMP-05", "COMP-06")
async def test_nothing_more_is_said_of_a_compaction_that_ended() -> None:
    async def work(turn: PromptTurn) -> None:
        async with turn.compaction() as compaction:
            await compaction.complete()
            with pytest.raises(LocalProtocolError, match="completed"):
                await compaction.send_summary("x")
            with pytest.raises(LocalProtocolError, match="completed"):
                await compaction.complete()
            with pytest.raises(LocalProtocolError, match="completed"):
                await compaction.fail()
            for more in (
                CompactionUpdate(compaction_id=compaction.id, status=CompactionStatus.FAILED),
                CompactionUpdate(compaction_id=compaction.id, status=CompactionStatus.IN_PROGRESS),
                CompactionSummaryChunk(compaction_id=compaction.id, content=TextContent(text="x")),
            ):
                with pytest.raises(LocalProtocolError, match="completed"):
                    await turn.send(more)

    assert without_id(await updates_of(work)) == [status("in_progress"), status("completed")]


@pytest.mark.spec("COMP-05")
async def test_no_two_compactions_have_the_same_id() -> None:
    async def work(turn: PromptTurn) -> None:
        for _ in range(50):
            async with turn.compaction():
                pass

    updates = await updates_of(work)
    ids = [update["compactionId"] for update in updates]
    assert ids[::2] == ids[1::2]
    assert len({str(compaction_id) for compaction_id in ids}) == 50


@pytest.mark.spec("COMP-01")
async def test_a_client_without_compactions_hears_of_none_and_the_history_keeps_them_for_another() -> None:
    store = MemoryStore()

    async def work(turn: PromptTurn) -> None:
        async with turn.compaction() as compaction:
            await compaction.send_summary("Parrots.")
        with pytest.raises(CapabilityError, match=r"clientCapabilities\.session\.compaction"):
            await turn.send(CompactionUpdate(compaction_id=CompactionId("c"), status=CompactionStatus.COMPLETED))

    async with client_of(agent(work, store), capabilities={}) as peer:
        session_id = await new_session(peer)
        [answer] = await say(peer, session_id, "hi")
        assert result_of(answer) == {"stopReason": "end_turn"}
    async with client_of(agent(work, store), capabilities=COMPACTION) as peer:
        await peer.request(1, "session/load", {"sessionId": session_id, "cwd": CWD, "mcpServers": []})
        *replay, _ = await peer.receive_all()
        assert without_id([update_of(replay[-1])]) == [
            status("completed", summary=[{"type": "text", "text": "Parrots."}])
        ]


@pytest.mark.spec("COMP-02", "PROMPT-10")
async def test_what_is_said_after_a_compaction_comes_after_it() -> None:
    async def work(turn: PromptTurn) -> None:
        await turn.send_text("before")
        async with turn.compaction():
            pass
        await turn.send_text("after")

    async with open_agent_and_client(agent(work), make_client()) as (_, side), side.new_session(CWD) as session:
        async with session.prompt("hi") as turn:
            await turn.wait()
        kinds = [type(entry).__name__ for entry in session.state.timeline]
        assert kinds == ["Message", "Message", "CompactionState", "Message"]


@pytest.mark.spec("COMP-05")
async def test_a_session_may_be_compacted_between_turns() -> None:
    sessions: list[AgentSession] = []

    async def work(turn: PromptTurn) -> None:
        sessions.append(turn.session)

    async with client_of(agent(work), capabilities=COMPACTION) as peer:
        await say(peer, await new_session(peer), "hi")
        async with sessions[0].compaction():
            pass
        updates = [update_of(message) for message in await peer.receive_all()]
        assert without_id(updates) == [status("in_progress"), status("completed")]


def test_a_single_report_of_what_is_over_is_enough_and_may_be_added_to() -> None:
    compactions, done = Compactions(), CompactionId("done")
    compactions.report(CompactionUpdate(compaction_id=done, status=CompactionStatus.COMPLETED))
    summary = [TextContent(text="Parrots.")]
    compactions.report(CompactionUpdate(compaction_id=done, status=CompactionStatus.COMPLETED, summary=[*summary]))


@pytest.mark.spec("COMP-06")
@pytest.mark.parametrize(
    "update",
    [
        CompactionSummaryChunk(compaction_id=CompactionId("new"), content=TextContent(text="x")),
        CompactionUpdate(
            compaction_id=CompactionId("runs"), status=CompactionStatus.IN_PROGRESS, summary=[TextContent(text="x")]
        ),
        CompactionUpdate(
            compaction_id=CompactionId("runs"), status=CompactionStatus.FAILED, summary=[TextContent(text="x")]
        ),
        CompactionUpdate(compaction_id=CompactionId("runs"), status=CompactionStatus.IN_PROGRESS, error="x"),
        CompactionUpdate(compaction_id=CompactionId("runs"), status=CompactionStatus.COMPLETED, error="x"),
    ],
    ids=["chunk of none", "summary in progress", "summary failed", "error in progress", "error completed"],
)
def test_a_summary_belongs_to_success_and_an_error_to_failure(
    update: CompactionUpdate | CompactionSummaryChunk,
) -> None:
    compactions = Compactions()
    compactions.report(CompactionUpdate(compaction_id=CompactionId("runs"), status=CompactionStatus.IN_PROGRESS))
    with pytest.raises(LocalProtocolError):
        compactions.report(update)
    cleared = CompactionUpdate(
        compaction_id=CompactionId("runs"), status=CompactionStatus.CANCELLED, summary=[], error=None
    )
    compactions.report(cleared)
    assert (cleared.summary, cleared.meta) == ([], UNSET)
