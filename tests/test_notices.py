"""Notices: said once, live, and of no consequence.

https://agentclientprotocol.com/rfds/session-notices
"""

from __future__ import annotations

import pytest

from acp_ref._converter import InvalidPayload, structure, unstructure
from acp_ref._jsonrpc import JSONObject
from acp_ref.agent import Agent
from acp_ref.prompt_turn import PromptTurn
from acp_ref.schema import Notice, NoticeSeverity, SessionUpdate, StopReason
from acp_ref.session_store import MemoryStore
from acp_ref.testing import open_agent_and_client
from tests.conversations import CWD, client_of, make_client, new_session, result_of, say, text_of, update_of

NOTICES: JSONObject = {"session": {"notices": {}}}


def agent(*, or_say_it: bool = True, store: MemoryStore | None = None) -> Agent:
    async def warn(turn: PromptTurn) -> StopReason:
        await turn.send_text("before")
        await turn.send_notice(NoticeSeverity.ERROR, "Low", "Fuel", or_say_it=or_say_it)
        await turn.send_text("after")
        return StopReason.END_TURN

    return Agent(name="a", version="1", prompt=warn, store=store)


@pytest.mark.spec("NOTE-01", "NOTE-02")
async def test_a_client_that_announced_notices_gets_them_and_another_one_a_message() -> None:
    async with client_of(agent(), capabilities=NOTICES) as peer:
        _, notice, _, _ = await say(peer, await new_session(peer), "hi")
        assert update_of(notice) == {
            "sessionUpdate": "notice",
            "severity": "error",
            "title": "Low",
            "description": "Fuel",
        }
    async with client_of(agent()) as peer:
        *messages, _ = await say(peer, await new_session(peer), "hi")
        assert [text_of(message) for message in messages] == ["before", "Low: Fuel", "after"]


@pytest.mark.spec("NOTE-02")
def test_a_notice_has_a_title_and_a_severity_that_may_be_new() -> None:
    raw: JSONObject = {"sessionUpdate": "notice", "severity": "_urgent", "title": "Now"}
    read = structure(SessionUpdate, raw)
    assert read == Notice(severity="_urgent", title="Now")
    assert unstructure(SessionUpdate, read) == raw
    assert structure(SessionUpdate, raw | {"severity": "info"}) == Notice(severity=NoticeSeverity.INFO, title="Now")
    wrongs: list[JSONObject] = [{"title": ""}, {"title": None}, {"severity": None}, {"severity": 1}]
    for wrong in wrongs:
        with pytest.raises(InvalidPayload):
            structure(SessionUpdate, raw | wrong)
    with pytest.raises(InvalidPayload, match="title"):
        unstructure(SessionUpdate, Notice(severity=NoticeSeverity.INFO, title=""))


@pytest.mark.spec("NOTE-03")
async def test_a_turn_goes_the_same_way_whether_or_not_its_notice_is_seen() -> None:
    for capabilities, heard in ((NOTICES, 3), ({}, 2)):
        async with client_of(agent(or_say_it=False), capabilities=capabilities) as peer:
            *messages, answer = await say(peer, await new_session(peer), "hi")
            assert len(messages) == heard
            assert [text_of(messages[index]) for index in (0, -1)] == ["before", "after"]
            assert result_of(answer) == {"stopReason": "end_turn"}


@pytest.mark.spec("NOTE-04")
async def test_a_notice_is_neither_kept_nor_replayed() -> None:
    store = MemoryStore()
    async with client_of(agent(store=store), capabilities=NOTICES) as peer:
        session_id = await new_session(peer)
        assert "notice" in [update_of(message)["sessionUpdate"] for message in (await say(peer, session_id, "hi"))[:-1]]
    journal = await store.open(session_id)
    try:
        assert b"notice" not in b"".join((await journal.history()).updates)
    finally:
        await journal.aclose()
    async with client_of(agent(store=store), capabilities=NOTICES) as peer:
        await peer.request(1, "session/load", {"sessionId": session_id, "cwd": CWD, "mcpServers": []})
        *replay, answer = await peer.receive_all()
        result_of(answer)
        kinds = [update_of(message)["sessionUpdate"] for message in replay]
        assert kinds == ["user_message_chunk", "agent_message_chunk", "agent_message_chunk"]


@pytest.mark.spec("NOTE-05")
async def test_a_client_keeps_notices_apart_and_an_error_among_them_ends_nothing() -> None:
    async with open_agent_and_client(agent(), make_client()) as (_, side), side.new_session(CWD) as session:
        async with session.prompt("hi") as turn:
            assert await turn.wait() is StopReason.END_TURN
        assert [notice.title for notice in session.state.notices] == ["Low"]
        assert [type(entry).__name__ for entry in session.state.timeline] == ["Message", "Message", "Message"]
        async with session.prompt("again") as turn:
            assert await turn.text() == "beforeafter"
