"""Sessions that are loaded while they are open, while they end, or after somebody else had them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from acp_ref import Agent
from acp_ref._jsonrpc import JSON, JSONObject, dumps
from acp_ref.agent import AgentSide
from acp_ref.agent_session import AgentSession
from acp_ref.connection import open_connection
from acp_ref.prompt_turn import PromptTurn
from acp_ref.reports import Report, ReportKind
from acp_ref.schema import (
    AgentMessageChunk,
    SessionConfigBoolean,
    SessionConfigId,
    SessionConfigOption,
    SessionConfigSelect,
    SessionConfigSelectOption,
    SessionConfigValueId,
    SessionId,
    SessionMode,
    SessionModeId,
    SessionModeState,
    StopReason,
    TextContent,
)
from acp_ref.session_store import DirectoryStore, MemoryStore, SessionStore
from acp_ref.testing import ScriptedPeer
from acp_ref.transports import memory_transport_pair

MODES: Final = SessionModeState(
    current_mode_id=SessionModeId("ask"),
    available_modes=[SessionMode(id=SessionModeId(name), name=name) for name in ("ask", "code")],
)
COLOUR: Final = SessionConfigId("colour")
LOUD: Final = SessionConfigId("loud")
OPTIONS: Final[Sequence[SessionConfigOption]] = [
    SessionConfigSelect(
        id=COLOUR,
        name="Colour",
        current_value=SessionConfigValueId("red"),
        options=[SessionConfigSelectOption(value=SessionConfigValueId(name), name=name) for name in ("red", "blue")],
    ),
    SessionConfigBoolean(id=LOUD, name="Loud", current_value=False),
]
BOOLEANS: Final[JSONObject] = {"session": {"configOptions": {"boolean": {}}}}


async def tell(turn: PromptTurn[None]) -> StopReason:
    await turn.send_text("hi")
    return StopReason.END_TURN


def says(text: str) -> AgentMessageChunk:
    return AgentMessageChunk(content=TextContent(text=text))


@attrs.define
class Talk:
    """A client that has a session, and what goes on in the agent."""

    peer: ScriptedPeer
    opened: list[AgentSession[None]]
    reports: list[Report]
    session_id: JSON = None
    heard: list[str] = attrs.field(factory=list[str])
    """The texts that were told while the last answer was waited for, and what else: the kind."""
    last_id: int = 0

    async def send(self, method: str, **params: JSON) -> None:
        """Send a request about the session."""
        self.last_id += 1
        await self.peer.request(self.last_id, method, {"sessionId": self.session_id, **params})

    async def answer(self) -> JSONObject:
        """The next answer. What is told before it is in ``heard``."""
        self.heard.clear()
        while "id" not in (message := await self.peer.receive()):
            self.heard.append(told(message))
        return message

    async def new(self) -> None:
        await self.send("session/new", cwd="/tmp", mcpServers=[])
        result = (await self.answer())["result"]
        assert isinstance(result, dict)
        self.session_id = result["sessionId"]

    async def start_load(self, method: str = "session/load") -> None:
        await self.send(method, cwd="/tmp", mcpServers=[])

    async def load(self, method: str = "session/load") -> JSONObject:
        await self.start_load(method)
        return await self.answer()

    async def prompt(self) -> JSONObject:
        await self.send("session/prompt", prompt=[{"type": "text", "text": "hello"}])
        return await self.answer()

    async def rest(self) -> list[str]:
        """What is told when nothing is waited for."""
        return [told(message) for message in await self.peer.receive_all()]


def update_of(message: JSONObject) -> JSONObject:
    params = message["params"]
    assert isinstance(params, dict)
    update = params["update"]
    assert isinstance(update, dict)
    return update


def told(message: JSONObject) -> str:
    update = update_of(message)
    content = update.get("content")
    return str(content["text"]) if isinstance(content, dict) else str(update["sessionUpdate"])


class Context:
    """What a test does when a session opens and when it leaves, by how many were opened before."""

    def __init__(self) -> None:
        self.opened: list[AgentSession[None]] = []
        self.enter: dict[int, Callable[[AgentSession[None]], None]] = {}
        self.gates: dict[int, trio.Event] = {}
        """For which the opening waits."""
        self.exits: dict[int, trio.Event] = {}
        """For which the end waits."""
        self.last_words: dict[int, str] = {}
        self.fails: set[int] = set()
        """Those that fail to open."""

    @asynccontextmanager
    async def open_session(self, session: AgentSession[None]) -> AsyncGenerator[None, None]:
        number = len(self.opened)
        self.opened.append(session)
        if number in self.enter:
            self.enter[number](session)
        if number in self.gates:
            await self.gates[number].wait()
        if number in self.fails:
            raise ValueError("no context today")
        try:
            yield
        finally:
            if number in self.exits:
                with trio.CancelScope(shield=True):
                    await self.exits[number].wait()
            if number in self.last_words:
                session.put(says(self.last_words[number]))


@pytest.fixture
def context() -> Context:
    return Context()


@pytest.fixture(params=["memory", "directory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SessionStore:
    return MemoryStore() if request.param == "memory" else DirectoryStore(tmp_path / "sessions")


@asynccontextmanager
async def talk(
    store: SessionStore,
    context: Context,
    *,
    capabilities: JSONObject | None = None,
    buffer: int | None = None,
    set_mode: Callable[[AgentSession[None], SessionModeId], Awaitable[None]] | None = None,
) -> AsyncGenerator[Talk, None]:
    """A client of an agent on ``store``; what an unread pipe holds is ``buffer`` frames."""
    agent = Agent(
        name="a",
        version="1",
        prompt=tell,
        store=store,
        modes=MODES,
        set_mode=set_mode,
        config_options=OPTIONS,
        open_session=context.open_session,
    )
    ours, theirs = memory_transport_pair() if buffer is None else memory_transport_pair(buffer)
    reports: list[Report] = []
    async with open_connection(AgentSide(agent, ours, on_report=reports.append).connection):
        talk = Talk(ScriptedPeer(theirs), context.opened, reports)
        await talk.peer.call(0, "initialize", {"protocolVersion": 1, "clientCapabilities": capabilities or {}})
        reports.clear()  # of what this client may not see
        yield talk


async def fail() -> None:
    raise ValueError("the session has failed")


# ------------------------------------------------------------------------------------------ beside the one that is open


async def test_what_an_open_session_says_while_it_is_loaded_follows_the_answer_and_is_told_again_once(
    store: SessionStore, context: Context
) -> None:
    gate = context.gates[1] = trio.Event()
    async with talk(store, context) as client:
        await client.new()
        await client.prompt()
        await client.start_load()
        await wait_all_tasks_blocked(0.01)
        await client.opened[0].send(says("meanwhile"))
        await client.opened[1].send(says("already"))
        await client.opened[0].send(says("meanwhile too"))
        assert await client.rest() == []
        gate.set()
        assert "result" in await client.answer()
        assert client.heard == ["hello", "hi"]
        after_it = ["meanwhile", "meanwhile too", "already"]
        assert await client.rest() == after_it
        assert "result" in await client.load()
        assert client.heard == ["hello", "hi", *after_it]


async def test_what_an_open_session_says_while_it_fails_to_load_is_told_and_what_the_new_one_says_is_not(
    store: SessionStore, context: Context
) -> None:
    gate = context.gates[1] = trio.Event()
    context.fails.add(1)
    async with talk(store, context) as client:
        await client.new()
        await client.start_load()
        await wait_all_tasks_blocked(0.01)
        await client.opened[0].send(says("meanwhile"))
        await client.opened[1].send(says("already"))
        gate.set()
        assert "error" in await client.answer()
        assert [*client.heard, *await client.rest()] == ["meanwhile"]
        await client.opened[0].send(says("and on"))
        assert await client.rest() == ["and on"]
        assert "result" in await client.load()
        assert client.heard == ["meanwhile", "and on"]


async def test_what_an_open_session_sets_while_it_is_loaded_is_set(store: SessionStore, context: Context) -> None:
    gate = context.gates[1] = trio.Event()
    async with talk(store, context) as client:
        await client.new()
        await client.start_load()
        await wait_all_tasks_blocked(0.01)
        old, new = client.opened
        await old.set_mode(SessionModeId("code"))
        await old.set_config_option(COLOUR, "blue")
        await old.set_config_option(LOUD, True)
        gate.set()
        result = (await client.answer())["result"]
        assert isinstance(result, dict)
        assert isinstance(result["modes"], dict)
        assert result["modes"]["currentModeId"] == "code"
        assert new.modes is not None
        assert new.config_options is not None
        assert new.modes.current == "code"
        assert [new.config_options.current(option) for option in (COLOUR, LOUD)] == ["blue", True]
        assert await client.rest() == ["current_mode_update", "config_option_update", "config_option_update"]


async def test_what_the_new_one_sets_stays_when_the_open_one_sets_nothing(
    store: SessionStore, context: Context
) -> None:
    def enter(session: AgentSession[None]) -> None:
        assert session.modes is not None
        session.modes.change(SessionModeId("code"))

    context.enter[1] = enter
    async with talk(store, context) as client:
        await client.new()
        result = (await client.load())["result"]
        assert isinstance(result, dict)
        assert isinstance(result["modes"], dict)
        assert result["modes"]["currentModeId"] == "code"


async def test_a_load_whose_context_fails_during_the_replay_leaves_the_open_session_as_it_was(
    store: SessionStore, context: Context
) -> None:
    async with talk(store, context, buffer=0) as client:
        await client.new()
        for _ in range(3):
            client.opened[0].record(says("x" * 70_000))
        await client.prompt()
        await client.start_load()
        await wait_all_tasks_blocked(0.01)  # the replay waits for room
        client.opened[1].nursery.start_soon(fail)
        await wait_all_tasks_blocked(0.01)
        assert "error" in await client.answer()
        assert [session.closed for session in client.opened] == [False, True]
        assert "result" in await client.prompt()
        assert "result" in await client.load()
        assert client.heard[3:] == ["hello", "hi", "hello", "hi"]
        assert [report.kind for report in client.reports] == [ReportKind.HANDLER_FAILED]


async def test_a_load_of_a_closed_session_whose_context_fails_during_the_replay_is_refused_and_reported_once(
    store: SessionStore, context: Context
) -> None:
    async with talk(store, context, buffer=0) as client:
        await client.new()
        for _ in range(6):
            client.opened[0].record(says("x" * 70_000))
        await client.send("session/close")
        await client.answer()
        await client.start_load()
        await wait_all_tasks_blocked(0.01)  # the replay waits for room
        client.opened[1].nursery.start_soon(fail)
        await wait_all_tasks_blocked(0.01)
        assert "error" in await client.answer()
        assert [report.kind for report in client.reports] == [ReportKind.HANDLER_FAILED]
        assert "result" in await client.load()
        assert len(client.heard) == 6


@pytest.mark.parametrize("loads", [True, False], ids=["the load succeeds", "the load fails"])
async def test_an_open_session_that_fails_while_it_is_loaded_takes_no_journal_with_it(
    store: SessionStore, context: Context, loads: bool
) -> None:
    gate = context.gates[1] = trio.Event()
    if not loads:
        context.fails.add(1)
    async with talk(store, context) as client:
        await client.new()
        await client.prompt()
        await client.start_load()
        await wait_all_tasks_blocked(0.01)
        client.opened[0].nursery.start_soon(fail)
        await wait_all_tasks_blocked(0.01)
        gate.set()
        assert ("result" in await client.answer()) is loads
        assert ("result" in await client.prompt()) is loads
        assert "result" in await client.load()
        assert client.heard == ["hello", "hi"] * (2 if loads else 1)
        assert "result" in await client.prompt()


# ----------------------------------------------------------------------------------------- behind one that is ending


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_a_session_that_ends_by_an_error_takes_no_prompts_and_is_loaded_when_it_is_gone(
    store: SessionStore, context: Context, method: str
) -> None:
    gone = context.exits[0] = trio.Event()
    async with talk(store, context) as client:
        await client.new()
        await client.prompt()
        client.opened[0].nursery.start_soon(fail)
        await wait_all_tasks_blocked()
        error = (await client.prompt())["error"]
        assert isinstance(error, dict)
        assert error["code"] == -32002
        await client.start_load(method)
        await wait_all_tasks_blocked(0.01)
        assert await client.rest() == []
        gone.set()
        assert "result" in await client.answer()
        assert "result" in await client.prompt()


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_a_session_can_be_loaded_in_the_line_behind_its_close(
    store: SessionStore, context: Context, method: str
) -> None:
    gone = context.exits[0] = trio.Event()
    async with talk(store, context) as client:
        await client.new()
        await client.send("session/close")
        await client.start_load(method)
        await wait_all_tasks_blocked(0.01)
        assert await client.rest() == []
        gone.set()
        answers = [await client.answer(), await client.answer()]
        assert [(answer["id"], "result" in answer) for answer in answers] == [(2, True), (3, True)]
        assert "result" in await client.prompt()


async def test_a_session_can_be_deleted_in_the_line_behind_its_close_and_stays_deleted(
    store: SessionStore, context: Context
) -> None:
    gone = context.exits[0] = trio.Event()
    async with talk(store, context) as client:
        await client.new()
        await client.send("session/close")
        await client.send("session/delete")
        await wait_all_tasks_blocked(0.01)
        gone.set()
        answers = [await client.answer(), await client.answer()]
        assert [(answer["id"], "result" in answer) for answer in answers] == [(2, True), (3, True)]
        error = (await client.load())["error"]
        assert isinstance(error, dict)
        assert error["code"] == -32002


# -------------------------------------------------------------------------------------------------- what was stored


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_a_stored_setting_that_cannot_be_read_is_reported_and_the_session_is_there(
    store: SessionStore, context: Context, method: str
) -> None:
    journal = await store.create(SessionId("s1"), "/tmp")
    journal.append(dumps({"sessionUpdate": "current_mode_update", "currentModeId": 7}))
    journal.append(dumps({"sessionUpdate": "config_option_update", "configOptions": "none"}))  # which is mended
    await journal.aclose()
    async with talk(store, context) as client:
        client.session_id = "s1"
        assert "result" in await client.load(method)
        (damage,) = [report for report in client.reports if report.kind is ReportKind.DEGRADED]
        assert "a setting in the history of session s1 was left out: $.currentModeId" in damage.reason
        assert "result" in await client.prompt()


@pytest.mark.parametrize("word", ["config_option_update", "available_commands_update"])
async def test_what_is_replayed_is_told_by_its_kind_and_not_by_the_words_in_it(
    store: SessionStore, context: Context, word: str
) -> None:
    updates: list[JSONObject] = [
        {"toolCallId": word, "sessionUpdate": "tool_call", "title": word},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": word}},
        {"content": {"type": "text", "text": word}, "sessionUpdate": "agent_thought_chunk"},
        {"sessionUpdate": f"_my_{word}", "odd": 1},
    ]
    journal = await store.create(SessionId("s1"), "/tmp")
    for update in updates:
        journal.append(dumps(update))
    await journal.aclose()
    async with talk(store, context) as client:
        client.session_id = "s1"
        assert "result" in await client.load()
        assert client.heard == ["tool_call", word, word, f"_my_{word}"]


@pytest.mark.spec("CONF-06", "CONF-07")
async def test_an_option_that_one_client_may_not_see_keeps_its_value_for_another(
    store: SessionStore, context: Context
) -> None:
    async with talk(store, context) as client:
        await client.new()
        session_id = client.session_id
        await client.opened[0].set_config_option(LOUD, True)
        await client.opened[0].set_config_option(COLOUR, "blue")
        assert await client.rest() == ["config_option_update"] * 2
        assert "result" in await client.load()
        assert client.heard == ["config_option_update"]
        await client.send("session/close")
        await client.answer()
    async with talk(store, context, capabilities=BOOLEANS) as client:
        client.session_id = session_id
        result = (await client.load())["result"]
        assert isinstance(result, dict)
        assert isinstance(result["configOptions"], list)
        values = [option["currentValue"] for option in result["configOptions"] if isinstance(option, dict)]
        assert values == ["blue", True]
        assert client.heard == ["config_option_update"]


# ----------------------------------------------------------------------------------------------------- in wire order


LOAD: Final = "session/load"
PROMPT: Final = "session/prompt"
CLOSE: Final = "session/close"
DELETE: Final = "session/delete"
OK: Final = 0
UNSETTLED: Final = -32600
NOT_FOUND: Final = -32002


@pytest.mark.parametrize(
    ("methods", "outcomes"),
    [
        ([LOAD, LOAD], [OK, UNSETTLED]),
        ([LOAD, PROMPT], [OK, UNSETTLED]),
        ([LOAD, CLOSE], [OK, UNSETTLED]),
        ([LOAD, DELETE], [OK, UNSETTLED]),
        ([LOAD, "session/set_mode"], [OK, UNSETTLED]),
        ([DELETE, LOAD], [OK, UNSETTLED]),
        ([DELETE, DELETE], [OK, UNSETTLED]),
        ([DELETE, PROMPT], [OK, NOT_FOUND]),
        ([CLOSE, DELETE], [OK, OK]),
        ([CLOSE, DELETE, LOAD], [OK, OK, UNSETTLED]),
        ([CLOSE, PROMPT], [OK, NOT_FOUND]),
        ([CLOSE, LOAD, PROMPT], [OK, OK, NOT_FOUND]),
    ],
)
async def test_requests_in_adjacent_lines_count_in_their_order(
    store: SessionStore, methods: Sequence[str], outcomes: Sequence[int]
) -> None:
    params: Mapping[str, JSONObject] = {
        LOAD: {"cwd": "/tmp", "mcpServers": []},
        PROMPT: {"prompt": [{"type": "text", "text": "hello"}]},
        "session/set_mode": {"modeId": "code"},
    }
    for _ in range(5):  # the scheduler shuffles what is up to it
        async with talk(store, Context()) as client:
            await client.new()
            session: JSONObject = {"sessionId": client.session_id}
            requests = [
                {"jsonrpc": "2.0", "id": number, "method": method, "params": {**session, **params.get(method, {})}}
                for number, method in enumerate(methods)
            ]
            await client.peer.send(*requests)
            answers = [await client.answer() for _ in methods]
            assert {answer["id"]: code_of(answer) for answer in answers} == dict(enumerate(outcomes))


def code_of(answer: JSONObject) -> JSON:
    error = answer.get("error", {"code": OK})
    assert isinstance(error, dict)
    return error["code"]


# ------------------------------------------------------------------------------------ what went wrong beside a reload


async def test_a_session_that_speaks_without_end_while_it_is_loaded_lets_others_run(
    store: SessionStore, context: Context
) -> None:
    async def speak(session: AgentSession[None]) -> None:
        while True:
            await session.send(says("on and on"))

    gate = context.gates[1] = trio.Event()
    async with talk(store, context) as client:
        await client.new()
        await client.start_load()
        await wait_all_tasks_blocked(0.01)
        client.opened[0].nursery.start_soon(speak, client.opened[0])
        for _ in range(20):
            await trio.lowlevel.checkpoint()
        gate.set()
        assert "result" in await client.answer()
        assert client.heard == []


async def test_what_is_said_while_the_history_is_read_is_told_once(store: SessionStore, context: Context) -> None:
    async def count(session: AgentSession[None]) -> None:
        for number in range(20):
            await session.send(says(str(number)))
            await trio.lowlevel.checkpoint()

    async with talk(store, context) as client:
        await client.new()
        client.opened[0].nursery.start_soon(count, client.opened[0])
        await client.start_load()
        assert "result" in await client.answer()
        told = [*client.heard, *await client.rest()]
        replay = len(told) - 1 - told[::-1].index("0")  # where it begins, after what was told before
        assert told[:replay] == [str(number) for number in range(replay)]
        assert told[replay:] == [str(number) for number in range(len(told) - replay)]
        assert "result" in await client.load()
        assert client.heard == told[replay:]


async def test_a_load_whose_session_fails_while_the_old_one_ends_is_refused_and_its_last_words_are_kept(
    store: SessionStore, context: Context
) -> None:
    context.last_words[0] = "good night"
    gone = context.exits[0] = trio.Event()
    async with talk(store, context) as client:
        await client.new()
        await client.start_load()
        await wait_all_tasks_blocked(0.01)
        client.opened[1].nursery.start_soon(fail)
        await wait_all_tasks_blocked(0.01)
        gone.set()
        assert code_of(await client.answer()) == -32603
        assert [report.kind for report in client.reports] == [ReportKind.HANDLER_FAILED]
        assert code_of(await client.prompt()) == NOT_FOUND
        assert "result" in await client.load()
        assert client.heard == ["good night"]


async def test_a_title_that_is_set_while_the_history_is_read_stays_in_listings(
    store: SessionStore, context: Context
) -> None:
    async with talk(store, context) as client:
        await client.new()
        await client.opened[0].set_title("first")
        await client.start_load()
        for _ in range(5):
            await trio.lowlevel.checkpoint()
        with suppress(trio.ClosedResourceError):
            await client.opened[0].set_title("second")
        assert "result" in await client.answer()
        (info,) = (await store.list()).sessions
        journal = await client.opened[-1].journal.history() if client.opened[-1].journal else None
        assert journal is not None
        assert (info.title == "second") is any(b'"second"' in update for update in journal.updates)


async def test_a_mode_that_waits_to_be_told_is_not_set_before_that(store: SessionStore, context: Context) -> None:
    async with talk(store, context, buffer=0) as client:
        await client.new()
        session = client.opened[0]
        await session.send(says("x" * 70_000))  # is being written
        await wait_all_tasks_blocked()
        await session.send(says("x" * 70_000))  # fills the outbox
        assert session.modes is not None
        assert session.config_options is not None
        with trio.move_on_after(0.01):
            await session.set_mode(SessionModeId("code"))
        with trio.move_on_after(0.01):
            await session.set_config_option(COLOUR, "blue")
        assert session.modes.current == "ask"
        assert session.config_options.current(COLOUR) == "red"


async def test_what_both_set_while_a_session_is_loaded_is_what_the_client_heard_last(
    store: SessionStore, context: Context
) -> None:
    gate = context.gates[1] = trio.Event()
    async with talk(store, context, capabilities=BOOLEANS) as client:
        await client.new()
        await client.start_load()
        await wait_all_tasks_blocked(0.01)
        old, new = client.opened
        await new.set_config_option(LOUD, True)
        await old.set_config_option(COLOUR, "blue")
        await old.set_mode(SessionModeId("code"))
        gate.set()
        await client.answer()
        assert new.modes is not None
        assert new.config_options is not None
        updates = [update_of(message) for message in await client.peer.receive_all()]
        told = [update["configOptions"] for update in updates if update["sessionUpdate"] == "config_option_update"]
        values = [[option["currentValue"] for option in options] for options in told if isinstance(options, list)]  # type: ignore[index, call-overload]
        assert values[-1] == [new.config_options.current(option) for option in (COLOUR, LOUD)]
        assert new.modes.current == "code"


async def test_what_is_nested_too_deeply_to_be_told_again_is_left_out_and_the_rest_is_replayed(
    store: SessionStore, context: Context
) -> None:
    journal = await store.create(SessionId("s1"), "/tmp")
    nested = b"[" * 1010 + b"]" * 1010
    journal.append(b'{"sessionUpdate":"tool_call","toolCallId":"t","title":"deep","rawInput":%b}' % nested)
    journal.append(b'{"sessionUpdate":"session_info_update","_meta":{"a":%b}}' % nested)
    journal.append(b'{"sessionUpdate":"current_mode_update","currentModeId":"code","_meta":{"a":%b}}' % nested)
    journal.append(dumps({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hi"}}))
    await journal.aclose()
    async with talk(store, context) as client:
        client.session_id = "s1"
        assert "result" in await client.load()
        assert client.heard[-1] == "hi"
        assert "result" in await client.load("session/list")


async def test_a_setting_that_was_agreed_to_for_a_session_that_was_loaded_meanwhile_is_refused_and_the_session_lives(
    store: SessionStore,
) -> None:
    agreed = trio.Event()

    async def ask(session: AgentSession[None], mode_id: SessionModeId) -> None:
        await agreed.wait()

    async with talk(store, Context(), set_mode=ask) as client:
        await client.new()
        await client.send("session/set_mode", modeId="code")
        asked = client.last_id
        assert "result" in await client.load()
        agreed.set()
        refused = await client.answer()
        assert (refused["id"], code_of(refused)) == (asked, UNSETTLED)
        assert "result" in await client.prompt()


async def test_nothing_is_recorded_by_a_session_whose_place_was_taken(store: SessionStore, context: Context) -> None:
    async with talk(store, context) as client:
        await client.new()
        assert "result" in await client.load()
        with pytest.raises(trio.ClosedResourceError):
            client.opened[0].record(says("from the grave"))
        with pytest.raises(trio.ClosedResourceError):
            await client.opened[0].send(says("from the grave"))
        assert "result" in await client.load()
        assert client.heard == []


@pytest.mark.parametrize("method", ["session/new", "session/load"])
async def test_a_session_whose_setup_cannot_be_answered_is_closed(
    store: SessionStore, context: Context, method: str
) -> None:
    def enter(session: AgentSession[None]) -> None:
        session.mcp.meta = lambda: {"odd": float("nan")}  # type: ignore[method-assign]

    context.enter[1] = enter
    async with talk(store, context) as client:
        await client.new()
        assert code_of(await client.load(method)) == -32603
        await wait_all_tasks_blocked(0.01)
        assert [session.closed for session in client.opened] == [method == "session/load", True]
        assert "result" in await client.load()
        assert "result" in await client.prompt()


# --------------------------------------------------------------------------------------- whatever step it is cut off at


async def cut_off(client: Talk, how: str) -> None:
    match how:
        case "it is cancelled":
            await client.peer.notify("$/cancel_request", {"requestId": client.last_id})
        case "the input ends":
            client.peer.close_send()
        case "the connection breaks":
            await client.peer.aclose()
        case _:
            for session in client.opened if how == "both fail" else client.opened[:1]:
                if not session.closed:
                    session.nursery.start_soon(fail)


@pytest.mark.parametrize("live", [True, False], ids=["open", "closed"])
@pytest.mark.parametrize(
    "how", ["it is cancelled", "the input ends", "the connection breaks", "the open one fails", "both fail"]
)
async def test_at_whatever_step_a_load_is_cut_off_the_session_stays_loadable_and_its_history_as_it_was(
    store: SessionStore, how: str, live: bool
) -> None:
    for step in range(30):
        context = Context()
        with trio.fail_after(20):
            async with talk(store, context) as client:
                await client.new()
                session_id = client.session_id
                await client.prompt()
                if not live:
                    await client.send("session/close")
                    await client.answer()
                await client.start_load()
                load_id = client.last_id
                for _ in range(step):
                    await trio.lowlevel.checkpoint()
                await cut_off(client, how)
                if how not in ("the input ends", "the connection breaks"):
                    assert (await client.answer())["id"] == load_id
                    if "error" in await client.prompt():
                        assert "result" in await client.load()
                        assert "result" in await client.prompt()
                    assert "result" in await client.load()
                    assert client.heard[:2] == ["hello", "hi"]
            async with talk(store, context) as client:
                client.session_id = session_id
                assert "result" in await client.load()
                assert client.heard in (["hello", "hi"], ["hello", "hi"] * 2)
