"""Authentication, at the agent and at the client: the agent's own login, and whatever decides between logins.

https://agentclientprotocol.com/protocol/authentication
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import pytest
import trio

from acp_ref._jsonrpc import JSON, JSONObject
from acp_ref.agent import Agent
from acp_ref.authentication import Authentication, TerminalLoginRequired
from acp_ref.client import Client, open_agent
from acp_ref.client_side import ClientSide
from acp_ref.errors import AuthRequired, CapabilityError, ErrorCode, LocalProtocolError, RequestError
from acp_ref.schema import AuthMethod, AuthMethodAgent, AuthMethodId, AuthMethodTerminal, SessionId, Unknown
from acp_ref.session_store import MemoryStore
from acp_ref.terminal_login import LoginCommand
from acp_ref.testing import ScriptedPeer, open_agent_and_client, open_scripted_client
from acp_ref.transports import memory_transport_pair
from tests.conversations import CWD, client_of, code_of, make_client, new_session, parrot, result_of, say

KEY: Final = AuthMethodAgent(id=AuthMethodId("key"), name="With a key", description="Have it at hand")
TERMINAL: Final = AuthMethodTerminal(id=AuthMethodId("tui"), name="In a terminal", args=["--login"], env={"A": "1"})

RAW_KEY: Final[JSONObject] = {"id": "key", "name": "With a key", "description": "Have it at hand"}
RAW_TERMINAL: Final[JSONObject] = {
    "type": "terminal",
    "id": "tui",
    "name": "In a terminal",
    "args": ["--login"],
    "env": {"A": "1"},
}
RAW_UNKNOWN: Final[JSONObject] = {"type": "iris", "id": "eye", "name": "By your looks"}

REFUSED: Final[JSONObject] = {"code": -32000, "message": "Authentication required"}


class Door:
    """What an agent's authentication does, and how often."""

    def __init__(self) -> None:
        self.logins: list[AuthMethodId] = []
        self.logouts = 0
        self.fails = False

    async def authenticate(self, method_id: AuthMethodId) -> None:
        await trio.lowlevel.checkpoint()
        if self.fails:
            raise RequestError(ErrorCode.INTERNAL_ERROR, "The key does not fit")
        self.logins.append(method_id)

    async def logout(self) -> None:
        self.logouts += 1

    def agent(self, *methods: AuthMethod, logout: bool = True, store: MemoryStore | None = None) -> Agent:
        authentication = Authentication(
            methods=methods or [KEY, TERMINAL],
            authenticate=self.authenticate,
            logout=self.logout if logout else None,
        )
        return Agent(name="a", version="1", prompt=parrot, authentication=authentication, store=store)


class User:
    """Chooses between logins, one choice after the other and no more."""

    def __init__(self, *choices: AuthMethod | None) -> None:
        self.choices = [*choices]
        self.asked: list[Sequence[AuthMethod]] = []

    async def __call__(self, methods: Sequence[AuthMethod]) -> AuthMethod | None:
        await trio.lowlevel.checkpoint()
        self.asked.append(methods)
        return self.choices.pop(0)


async def nobody(login: LoginCommand) -> int:
    raise AssertionError("no login is run here")


async def open_and_close(side: ClientSide) -> None:
    async with side.new_session(CWD):
        pass


@asynccontextmanager
async def locked_agent(
    client: Client, *methods: JSON, capabilities: JSONObject | None = None
) -> AsyncGenerator[tuple[ClientSide, ScriptedPeer], None]:
    """``client``, initialized by a scripted agent with these ways to log in."""
    ours, theirs = memory_transport_pair()
    peer = ScriptedPeer(theirs)
    opened: list[ClientSide] = []
    done = trio.Event()

    async def connect(*, task_status: trio.TaskStatus[None]) -> None:
        async with open_agent(ours, client, on_report=lambda report: None) as side:
            opened.append(side)
            task_status.started()
            await done.wait()

    async def answer() -> None:
        hello = await peer.receive()
        result: JSONObject = {
            "protocolVersion": 1,
            "agentCapabilities": capabilities or {},
            "authMethods": [*methods],
        }
        await peer.answer(hello, result)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer)
        await nursery.start(connect)
        yield opened[0], peer
        done.set()


# ---------------------------------------------------------------------------------------------------- at the agent


@pytest.mark.spec("AUTH-01", "AUTH-04", "AUTH-06", "AUTH-07")
@pytest.mark.parametrize("auth", [None, {}, {"terminal": False}, {"terminal": "yes"}, {"terminal": True}])
async def test_terminal_methods_are_shown_only_to_clients_that_run_them(auth: JSON) -> None:
    async with open_scripted_client(Door().agent(), on_report=lambda report: None) as peer:
        hello: JSONObject = {"protocolVersion": 1, "clientCapabilities": {"auth": auth}}
        shown = result_of(await peer.call(0, "initialize", hello))["authMethods"]
        assert shown == ([RAW_KEY, RAW_TERMINAL] if auth == {"terminal": True} else [RAW_KEY])


@pytest.mark.spec("AUTH-01")
def test_no_two_methods_have_the_same_id() -> None:
    with pytest.raises(ValueError, match="same id: key, key"):
        Door().agent(KEY, AuthMethodTerminal(id=KEY.id, name="Another"))


@pytest.mark.spec("AUTH-10", "AUTH-11", "AUTH-21", "AUTH-22", "ERR-10")
async def test_sessions_need_a_login_which_lasts_until_the_logout() -> None:
    door = Door()
    async with client_of(door.agent()) as peer:
        setup: JSONObject = {"cwd": CWD, "mcpServers": []}
        assert (await peer.call(1, "session/new", setup))["error"] == REFUSED
        assert result_of(await peer.call(2, "authenticate", {"methodId": "key"})) == {}
        session_id = await new_session(peer)
        assert result_of(await peer.call(3, "logout")) == {}
        assert (await peer.call(4, "session/new", setup))["error"] == REFUSED
        assert result_of((await say(peer, session_id, "still here"))[-1]) == {"stopReason": "end_turn"}
    assert (door.logins, door.logouts) == ([KEY.id], 1)


@pytest.mark.spec("AUTH-09")
@pytest.mark.parametrize("method_id", ["tui", "other", ""])
async def test_authenticate_takes_no_id_of_a_terminal_method_and_none_that_was_not_offered(method_id: str) -> None:
    door = Door()
    async with client_of(door.agent(), capabilities={"auth": {"terminal": True}}) as peer:
        assert code_of(await peer.call(1, "authenticate", {"methodId": method_id})) == ErrorCode.INVALID_PARAMS
    async with client_of(Agent(name="a", version="1", prompt=parrot)) as peer:
        assert code_of(await peer.call(1, "authenticate", {"methodId": method_id})) == ErrorCode.INVALID_PARAMS
    assert door.logins == []


@pytest.mark.spec("AUTH-11", "AUTH-15")
async def test_an_agent_that_keeps_its_own_login_is_asked_whenever_one_is_needed() -> None:
    logged_in = False
    authentication = Authentication(methods=[KEY], authenticate=Door().authenticate, logged_in=lambda: logged_in)
    served = Agent(name="a", version="1", prompt=parrot, authentication=authentication)
    async with client_of(served) as peer:
        setup: JSONObject = {"cwd": CWD, "mcpServers": []}
        assert code_of(await peer.call(1, "session/new", setup)) == ErrorCode.AUTH_REQUIRED
        logged_in = True
        await new_session(peer)
        logged_in = False
        assert code_of(await peer.call(2, "session/new", setup)) == ErrorCode.AUTH_REQUIRED


@pytest.mark.spec("AUTH-03", "AUTH-20")
async def test_logout_is_announced_and_handled_only_where_there_is_one() -> None:
    async with open_scripted_client(Door().agent()) as peer:
        answer = result_of(await peer.call(0, "initialize", {"protocolVersion": 1}))
        assert answer["agentCapabilities"]["auth"] == {"logout": {}}  # type: ignore[index,call-overload]
    async with client_of(Door().agent(logout=False)) as peer:
        assert code_of(await peer.call(1, "logout")) == ErrorCode.METHOD_NOT_FOUND


# ---------------------------------------------------------------------------------------------------- at the client


@pytest.mark.spec("AUTH-03", "AUTH-20")
@pytest.mark.parametrize("auth", [None, {}, {"logout": None}, {"logout": True}])
async def test_a_client_calls_logout_only_when_it_was_announced(auth: JSON) -> None:
    async with locked_agent(make_client(), capabilities={"auth": auth}) as (side, peer):
        with pytest.raises(CapabilityError, match=r"agentCapabilities\.auth\.logout"):
            await side.logout()
        assert await peer.receive_all() == []
    async with open_agent_and_client(Door().agent(), make_client()) as (_, side):
        await side.logout()


@pytest.mark.spec("AUTH-02", "AUTH-08", "AUTH-09", "AUTH-19")
@pytest.mark.parametrize("method_id", ["tui", "eye", "other"])
async def test_a_client_authenticates_only_by_an_advertised_method_of_type_agent(method_id: str) -> None:
    async with locked_agent(make_client(), RAW_KEY, RAW_TERMINAL, RAW_UNKNOWN) as (side, peer):
        with pytest.raises(LocalProtocolError, match=method_id):
            await side.authenticate(AuthMethodId(method_id))
        assert await peer.receive_all() == []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(side.authenticate, KEY.id)
            question = await peer.receive()
            assert (question["method"], question["params"]) == ("authenticate", {"methodId": "key"})
            await peer.answer(question, None)  # which stands for an empty object (AUTH-10)


@pytest.mark.spec("AUTH-05", "INIT-16")
async def test_terminal_login_is_announced_by_clients_that_can_run_it_and_know_the_agents_command() -> None:
    able = make_client(terminal_login=nobody)
    assert able.capabilities().auth.terminal
    assert not make_client().capabilities().auth.terminal
    ours, theirs = memory_transport_pair()
    peer = ScriptedPeer(theirs)

    async def connect() -> None:
        async with open_agent(ours, able):  # over a transport, so the command is not known
            pass

    async with trio.open_nursery() as nursery:
        nursery.start_soon(connect)
        hello = await peer.receive()
        assert hello["params"]["clientCapabilities"]["auth"] == {"terminal": False}  # type: ignore[index,call-overload]
        await peer.answer(hello, {"protocolVersion": 1})


@pytest.mark.spec("ERR-10", "AUTH-02", "AUTH-08", "AUTH-11", "AUTH-23")
async def test_a_call_that_needs_a_login_is_made_again_after_it_whichever_call_it_is() -> None:
    store = MemoryStore()
    door = Door()
    client = make_client(choose_login=User(KEY))
    async with open_agent_and_client(door.agent(store=store), client) as (_, side), side.new_session(CWD) as session:
        session_id = session.id
        async with session.prompt("hi") as turn:
            assert await turn.text() == "hi"
    calls: list[Callable[[ClientSide], Awaitable[object]]] = [
        open_and_close,
        lambda side: load(side, session_id),
        lambda side: resume(side, session_id),
        lambda side: list_all(side, session_id),
        lambda side: side.delete_session(session_id),
    ]
    for call in calls:
        user = User(KEY)
        async with open_agent_and_client(door.agent(store=store), make_client(choose_login=user)) as (_, side):
            await call(side)
            await open_and_close(side)  # now without a login
        assert user.asked == [[KEY]]
    assert door.logins == [KEY.id] * (1 + len(calls))


async def load(side: ClientSide, session_id: SessionId) -> None:
    async with side.load_session(session_id, CWD) as session:
        assert len(session.replay) == 2
        assert not session.replaying


async def resume(side: ClientSide, session_id: SessionId) -> None:
    async with side.resume_session(session_id, CWD) as session:
        assert session.replay == []


async def list_all(side: ClientSide, session_id: SessionId) -> None:
    assert session_id in [info.session_id async for info in side.list_sessions()]


@pytest.mark.spec("AUTH-23")
async def test_after_a_logout_the_user_is_asked_again() -> None:
    door, user = Door(), User(KEY, KEY)
    async with open_agent_and_client(door.agent(), make_client(choose_login=user)) as (_, side):
        await open_and_close(side)
        await side.logout()
        await open_and_close(side)
    assert (len(user.asked), door.logins, door.logouts) == (2, [KEY.id, KEY.id], 1)


@pytest.mark.spec("ERR-10")
async def test_calls_refused_side_by_side_share_one_login() -> None:
    door, user = Door(), User(KEY)
    client = make_client(choose_login=user)
    async with open_agent_and_client(door.agent(), client) as (_, side), trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(open_and_close, side)
    assert door.logins == [KEY.id]


@pytest.mark.spec("ERR-10", "AUTH-23")
async def test_without_anybody_to_choose_the_refusal_is_raised_as_it_came() -> None:
    for choose in (None, User(None)):
        async with open_agent_and_client(Door().agent(), make_client(choose_login=choose)) as (_, side):
            with pytest.raises(AuthRequired, match=r"^\[-32000\] Authentication required$"):
                await open_and_close(side)


@pytest.mark.spec("ERR-10")
async def test_an_agent_that_needs_a_login_and_offers_none_is_told_apart() -> None:
    for choose in (None, User()):
        async with locked_agent(make_client(choose_login=choose)) as (side, peer):
            async with trio.open_nursery() as nursery:

                async def refused(side: ClientSide = side) -> None:
                    with pytest.raises(AuthRequired, match="Pay first, but the agent offers no way to log in"):
                        await open_and_close(side)

                nursery.start_soon(refused)
                question = await peer.receive()
                error: JSONObject = {"code": -32000, "message": "Pay first"}
                await peer.send({"jsonrpc": "2.0", "id": question["id"], "error": error})
            assert await peer.receive_all() == []


@pytest.mark.spec("ERR-10")
async def test_a_login_that_fails_and_a_login_that_does_not_help_end_the_call() -> None:
    door = Door()
    door.fails = True
    async with open_agent_and_client(door.agent(), make_client(choose_login=User(KEY))) as (_, side):
        with pytest.raises(RequestError, match="The key does not fit"):
            await open_and_close(side)
    user = User(KEY)
    useless = Authentication(methods=[KEY], authenticate=Door().authenticate, logged_in=lambda: False)
    served = Agent(name="a", version="1", prompt=parrot, authentication=useless)
    async with open_agent_and_client(served, make_client(choose_login=user)) as (_, side):
        with pytest.raises(AuthRequired):
            await open_and_close(side)
    assert user.choices == []


@pytest.mark.spec("AUTH-02", "AUTH-09", "AUTH-19")
async def test_a_terminal_method_that_is_chosen_goes_to_the_application_and_never_to_the_agent() -> None:
    client = make_client(choose_login=User(TERMINAL), terminal_login=nobody)
    async with open_agent_and_client(Door().agent(), client) as (agent, side):
        with pytest.raises(TerminalLoginRequired, match="In a terminal") as raised:
            await open_and_close(side)
        assert raised.value.method == TERMINAL
        assert raised.value.code == ErrorCode.AUTH_REQUIRED
        assert agent.connection.statistics().requests_served == 2  # initialize, session/new


@pytest.mark.spec("AUTH-02")
async def test_a_method_of_an_unknown_type_is_shown_and_cannot_be_used() -> None:
    user = User()
    async with locked_agent(make_client(choose_login=user), RAW_UNKNOWN) as (side, peer):
        [unknown] = side.auth_methods
        assert isinstance(unknown, Unknown)
        assert unknown.raw == RAW_UNKNOWN
        user.choices.append(unknown)
        async with trio.open_nursery() as nursery:

            async def refused() -> None:
                with pytest.raises(LocalProtocolError, match="not known here"):
                    await open_and_close(side)

            nursery.start_soon(refused)
            question = await peer.receive()
            await peer.send({"jsonrpc": "2.0", "id": question["id"], "error": REFUSED})
        assert await peer.receive_all() == []
