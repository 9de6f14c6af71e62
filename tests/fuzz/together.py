"""A real client and a real agent, and an application at the client that gives up on anything at any moment.

Whatever it gives up on, in the end neither side holds anything for the other: no request, no session, no task.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final, final

import trio

from acp_ref.agent import Agent, AgentSide
from acp_ref.client import Client
from acp_ref.client_session import ClientSession
from acp_ref.client_side import ClientSide
from acp_ref.errors import LocalProtocolError, RequestError
from acp_ref.reports import Report
from acp_ref.schema import PermissionOption, RequestPermissionRequest, SessionId
from acp_ref.session_store import MemoryStore
from tests.fuzz.byte_transport import byte_transport_pair
from tests.fuzz.hostile import PATIENCE, Outcome, failures
from tests.fuzz.lifecycle import Application
from tests.fuzz.oracle import Fault, check_answers, expect

__all__ = ["live_together"]

CWD: Final = "/one"
FORGIVEN: Final = (RequestError, LocalProtocolError, trio.BrokenResourceError, trio.ClosedResourceError)
"""What an application meets that does anything at any moment. Between these two nothing is malformed."""


@final
class _Errands:
    """What the application at the client does, each errand in a task of its own."""

    def __init__(self, side: ClientSide) -> None:
        self.side = side
        self.known: list[SessionId] = [SessionId("nobody")]

    async def run(self, seed: int) -> None:
        rng = Random(seed)
        await trio.sleep(rng.choice([0, 0, 1, 2, 5]))
        try:
            with trio.move_on_after(rng.choice([0, 0.5, 1, 3, 1000])):
                await self._do(rng)
        except FORGIVEN:
            pass

    async def _do(self, rng: Random) -> None:
        side = self.side
        extra = rng.choice([[], [], [], ["/slow"], ["/broken"]])
        match rng.randrange(8):
            case 0 | 1 | 2:
                async with side.new_session(CWD, additional_directories=extra) as session:
                    self.known.append(session.id)
                    await self._talk(rng, session)
            case 3 | 4:
                session_id = rng.choice(self.known)
                async with side.load_session(session_id, CWD, additional_directories=extra) as session:
                    await self._talk(rng, session)
            case 5:
                async with side.resume_session(rng.choice(self.known), CWD) as session:
                    await self._talk(rng, session)
            case 6:
                _ = [info async for info in side.list_sessions()]
            case _:
                await side.delete_session(rng.choice(self.known))

    async def _talk(self, rng: Random, session: ClientSession) -> None:
        for _ in range(rng.randrange(3)):
            with trio.move_on_after(rng.choice([0, 1, 1000])):
                async with session.prompt(rng.choice(["now", "talk", "wait", "ask", "stubborn", "fail"])) as turn:
                    if rng.random() < 0.3:
                        turn.cancel()
                    async for _ in turn:
                        if rng.random() < 0.2:
                            break
        if rng.random() < 0.2:
            raise LocalProtocolError("the application fails")


async def live_together(seeds: Sequence[int]) -> Outcome:
    """Run the errands that ``seeds`` decide, and look at what is left.

    Raises:
      Fault: something is, or it hangs.
    """
    rng = Random(len(seeds))
    application = Application()
    reports: list[Report] = []
    store = MemoryStore()
    agent: Agent[int] = Agent(
        name="agent", version="1", prompt=application.prompt, open_session=application.open_session, store=store
    )

    async def decide(request: RequestPermissionRequest) -> PermissionOption | None:
        await trio.sleep(rng.choice([0, 1, 100]))
        return rng.choice([None, *request.options])

    client = Client(name="client", version="1", request_permission=decide)
    with trio.move_on_after(PATIENCE) as patience:
        async with trio.open_nursery() as wires:
            ours, theirs = byte_transport_pair(rng, wires)
            agent_side = AgentSide(agent, ours, on_report=reports.append)
            client_side = ClientSide(client, theirs, on_report=reports.append)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(agent_side.connection.run)
                nursery.start_soon(client_side.connection.run)
                await client_side.initialize()
                errands = _Errands(client_side)
                async with trio.open_nursery() as busy:
                    for seed in seeds:
                        busy.start_soon(errands.run, seed)
                await trio.sleep(1000)
                _check_nothing_open(agent_side, client_side, application, store)
                await client_side.connection.aclose()
                ours.end()
            wires.cancel_scope.cancel()
    if patience.cancelled_caught:
        raise Fault("it hangs")
    if failed := failures(reports):
        raise Fault(f"a failure inside: {failed[0]!r}") from failed[0]
    answers = check_answers(expect(theirs.sent), ours.sent, answers_junk=True)
    answers += check_answers(expect(ours.sent), theirs.sent, answers_junk=False)
    return Outcome(len(theirs.sent) + len(ours.sent), answers)


def _check_nothing_open(
    agent: AgentSide[int], client: ClientSide, application: Application, store: MemoryStore
) -> None:
    for connection in (agent.connection, client.connection):
        statistics = connection.statistics()
        if (statistics.requests_in_flight, statistics.requests_pending) != (0, 0):
            raise Fault(f"something is left: {connection} {statistics}")
    if len(agent.sessions) or client._sessions:
        raise Fault(f"sessions are left: {agent.sessions._sessions} {client._sessions}")
    if application.opened != application.left:
        raise Fault(f"{application.opened} sessions were opened and {application.left} left")
    if any(record.writer is not None for record in store._records.values()):
        raise Fault("a journal was left open")
