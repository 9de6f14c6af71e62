"""A real agent and a real client, each against a peer that says anything."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Final

import attrs
import trio
import trio.testing

from acp_ref._framing import DEFAULT_MAX_FRAME_BYTES
from acp_ref._jsonrpc import JSON, JSONObject
from acp_ref._state import ConnectionState
from acp_ref.agent import Agent, AgentSide
from acp_ref.agent_session import AgentSession
from acp_ref.client import Client
from acp_ref.client_session import ClientSession
from acp_ref.client_side import ClientSide
from acp_ref.connection import Connection
from acp_ref.elicitation import ElicitationAnswer, UrlFacts
from acp_ref.errors import LocalProtocolError, RemoteProtocolError, RequestError, UnsupportedProtocolVersion
from acp_ref.handlers import Handlers
from acp_ref.methods import extension_method, extension_notification
from acp_ref.permissions import default_options
from acp_ref.prompt_turn import PromptTurn
from acp_ref.reports import Report, ReportKind
from acp_ref.requests import IncomingRequest
from acp_ref.schema import (
    ElicitationAccept,
    ElicitationCancel,
    ElicitationDecline,
    ElicitationFormRequest,
    ElicitationUrlRequest,
    McpCapabilities,
    PermissionOption,
    PromptCapabilities,
    RequestPermissionRequest,
    SessionConfigBoolean,
    SessionConfigId,
    SessionId,
    SessionMode,
    SessionModeId,
    SessionModeState,
    SessionUpdate,
    StopReason,
    TextContent,
    ToolCallId,
    ToolCallUpdate,
)
from acp_ref.session_store import MemoryStore
from acp_ref.timeline import Message
from tests.fuzz.byte_transport import ByteTransport, chunked
from tests.fuzz.oracle import Fault, check_answers, expect, read_sent
from tests.fuzz.words import LIVE, STORED

__all__ = ["PATIENCE", "Intended", "Outcome", "failures", "hear_agent", "hear_client", "run_virtually"]

CWD: Final = "/nowhere"
PATIENCE: Final = 1e6
"""Virtual seconds: they pass only when nothing else can happen any more, which is a hang."""

WHATEVER: Final = (
    RequestError,
    RemoteProtocolError,
    LocalProtocolError,
    trio.BrokenResourceError,
    trio.ClosedResourceError,
)
"""What an application must reckon with."""


class Intended(Exception):
    """A bug of an application, which the connection must bear."""


@attrs.frozen
class Outcome:
    """What was seen."""

    frames: int
    """Frames that the role under test was fed."""
    answers: int
    """How many of them it answered."""


def run_virtually(test: Callable[[], Awaitable[Outcome]]) -> Outcome:
    """Run ``test`` in virtual time; a fault is raised as itself."""

    async def watched() -> Outcome:
        before = trio.lowlevel.current_statistics().tasks_living
        outcome = await test()
        if trio.lowlevel.current_statistics().tasks_living != before:
            raise Fault("a task is left")
        return outcome

    clock = trio.testing.MockClock(autojump_threshold=0)
    try:
        return trio.run(watched, clock=clock)
    except BaseExceptionGroup as group:
        raise Fault(f"{_leaves(group)}") from group


def _leaves(exc: BaseException) -> list[str]:
    if isinstance(exc, BaseExceptionGroup):
        return [leaf for member in exc.exceptions for leaf in _leaves(member)]
    return [f"{type(exc).__name__}: {str(exc)[:300]}"]


def _request(request_id: JSON, method: str, params: JSONObject) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}).encode()


def _answers(request_id: JSON) -> Callable[[bytes], bool]:
    def is_answer(frame: bytes) -> bool:
        message = json.loads(frame)
        return "method" not in message and message.get("id") == request_id

    return is_answer


PING: Final = extension_method("_ping", JSON, JSON)
ASK: Final = extension_method("_ask", JSON, JSON)
TELL: Final = extension_notification("_tell", JSON)


async def _pong(request: IncomingRequest, params: JSON) -> JSON:
    await trio.lowlevel.checkpoint()
    return params


async def _echo(request: IncomingRequest, params: JSON) -> JSON:
    with trio.move_on_after(1):
        await request.connection.notify(TELL, params)
    return params


def _tell(connection: Connection, params: JSON) -> None:
    if params == "fail":
        raise Intended


def _extensions() -> Handlers:
    handlers = Handlers()
    handlers.on_request(PING, _pong)
    handlers.on_request(extension_method("_ext", JSON, JSON), _echo)
    handlers.on_notification(TELL, _tell)
    return handlers


async def _feed(rng: Random, transport: ByteTransport, frames: Sequence[bytes]) -> None:
    ending = rng.choice([b"\n", b"\n", b"\r\n"])
    for chunk in chunked(rng, b"".join(frame + ending for frame in frames)):
        transport.feed(chunk)
        if rng.random() < 0.2:
            await trio.sleep(0.01)


async def _is_alive(transport: ByteTransport) -> None:
    transport.feed(_request("ping", "_ping", {"n": 1}) + b"\n")
    with trio.move_on_after(PATIENCE):
        if await transport.wait_sent(_answers("ping")) is not None:
            return
    raise Fault("the connection does not answer any more")


def _check(
    connection: Connection,
    transport: ByteTransport,
    reports: Sequence[Report],
    frames: Sequence[bytes],
    max_frame_bytes: int,
) -> Outcome:
    """What must be true when all is over."""
    for error in failures(reports):
        raise Fault(f"a failure inside: {error!r}") from error
    statistics = connection.statistics()
    left = statistics.requests_in_flight, statistics.requests_pending, statistics.outbox_bytes
    if left != (0, 0, 0) or not transport.closed:
        raise Fault(f"something is left: {statistics}")
    answers = check_answers(expect(frames, max_frame_bytes), transport.sent, answers_junk=connection.role.answers_junk)
    return Outcome(len(frames), answers)


def failures(reports: Sequence[Report]) -> list[BaseException]:
    """What was raised inside and not on purpose."""
    failed = [report.error for report in reports if report.kind is ReportKind.HANDLER_FAILED]
    return [error for error in failed if error is not None and not _is_intended(error)]


def _is_intended(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        # Beside a bug, the end of the connection may have been met as well.
        beside = trio.BrokenResourceError, trio.ClosedResourceError
        members = [member for member in error.exceptions if not isinstance(member, beside)]
        return bool(members) and all(_is_intended(member) for member in members)
    # What is as deep as can be read may be too deep to be written by a handler that returns it.
    return isinstance(error, Intended) or "nested too deeply" in str(error)


@asynccontextmanager
async def _served(connection: Connection, transport: ByteTransport) -> AsyncGenerator[None, None]:
    """Run ``connection``; after the block the input ends, and everything must end with it."""
    with trio.move_on_after(PATIENCE) as patience:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.run)
            yield
            transport.end()
    if patience.cancelled_caught:
        raise Fault("it hangs")


# ---------------------------------------------------------------------------------------------------------- the agent


@asynccontextmanager
async def _open_session(session: AgentSession[int]) -> AsyncGenerator[int, None]:
    await session.set_title("a title")
    yield 1


async def _prompt(turn: PromptTurn[int]) -> StopReason:
    try:
        match turn.text:
            case "wait":
                await trio.sleep_forever()
            case "fail":
                raise Intended
            case "refuse":
                meta = next((block.meta for block in turn.prompt if isinstance(block, TextContent)), None)
                raise RequestError(7, "refused", meta)
            case "ask":
                call = ToolCallUpdate(tool_call_id=ToolCallId("t"), title="may I?")
                await turn.request_permission(call, default_options())
            case _:
                async with turn.tool_call("a tool", raw_input=len(turn.prompt)) as call_:
                    await call_.start()
                await turn.send_thought("hm")
        for block in turn.prompt:
            await turn.send_content(block)
        turn.nursery.start_soon(turn.send_text, "and that is all")
    except WHATEVER:
        return StopReason.REFUSAL
    return StopReason.END_TURN


MODES: Final = SessionModeState(
    current_mode_id=SessionModeId("a"),
    available_modes=[SessionMode(id=SessionModeId(name), name=name) for name in ("a", "b")],
)


async def hear_client(
    frames: Sequence[bytes], seed: int, *, initialized: bool = True, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES
) -> Outcome:
    """Let a client say ``frames`` to a real agent that has sessions open.

    Raises:
      Fault: the agent broke a promise.
    """
    rng = Random(seed)
    store = MemoryStore(page_size=2)
    for session_id in (*LIVE, STORED):
        await (await store.create(SessionId(session_id), CWD)).aclose()
    reports: list[Report] = []
    transport = ByteTransport(max_frame_bytes)
    served: Agent[int] = Agent(
        name="fuzzed",
        version="1",
        prompt=_prompt,
        open_session=_open_session,
        store=store,
        prompt_capabilities=PromptCapabilities(image=True, embedded_context=True),
        mcp_capabilities=McpCapabilities(),
        modes=MODES,
        config_options=[SessionConfigBoolean(id=SessionConfigId("c"), name="c", current_value=False)],
        extensions=_extensions(),
    )
    side = AgentSide(served, transport, on_report=reports.append)
    said: list[bytes] = []
    async with _served(side.connection, transport):
        if initialized:
            said.append(_request("init", "initialize", {"protocolVersion": 1}))
            said += [_request(id_, "session/load", {"sessionId": id_, "cwd": CWD, "mcpServers": []}) for id_ in LIVE]
            transport.feed(b"".join(frame + b"\n" for frame in said))
            await transport.wait_sent(_answers(LIVE[1]))
        said += frames
        await _feed(rng, transport, frames)
        if rng.random() < 0.5:
            await trio.testing.wait_all_tasks_blocked()
        if rng.random() < 0.8:
            await _is_alive(transport)
            said.append(_request("ping", "_ping", {}))
        if rng.random() < 0.2:  # the last line may lack its end
            last = _request("last", "_ping", {})[: rng.randrange(60)]
            said.append(last)
            transport.feed(last)
    return _check(side.connection, transport, reports, said, max_frame_bytes)


# --------------------------------------------------------------------------------------------------------- the client


class _User:
    """What the application does at the client: everything, and gives up on some of it."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng

    async def request_permission(self, request: RequestPermissionRequest) -> PermissionOption | None:
        await trio.sleep(self.rng.choice([0, 1, 50]))
        if self.rng.random() < 0.1:
            raise Intended
        return self.rng.choice([None, *request.options])

    async def elicit_form(self, request: ElicitationFormRequest) -> ElicitationAnswer:
        await trio.sleep(self.rng.choice([0, 1]))
        answers: list[ElicitationAnswer] = [ElicitationDecline(), ElicitationCancel()]
        return self.rng.choice(answers)

    async def elicit_url(self, request: ElicitationUrlRequest, facts: UrlFacts) -> ElicitationAnswer:
        await trio.sleep(self.rng.choice([0, 1]))
        answers: list[ElicitationAnswer] = [ElicitationAccept(), ElicitationDecline()]
        return self.rng.choice(answers)

    def on_update(self, session: ClientSession, update: SessionUpdate) -> None:
        _ = session.state.title, len(session.state.timeline), session.state.mode_choice
        if self.rng.random() < 0.1:
            raise Intended

    def client(self) -> Client:
        return Client(
            name="fuzzed",
            version="1",
            request_permission=self.request_permission,
            elicit_form=self.elicit_form,
            elicit_url=self.elicit_url,
            on_update=self.on_update,
            extensions=_extensions(),
        )

    async def talk(self, session: ClientSession) -> None:
        """Prompt, and read what comes."""
        while not session._connection.ended:
            await trio.sleep(1)
            try:
                with trio.move_on_after(self.rng.choice([1, 20])):
                    async with session.prompt("hello") as turn:
                        async for _ in turn:
                            if self.rng.random() < 0.1:
                                turn.cancel()
            except WHATEVER:
                pass
            _ = [entry.text for entry in session.state.timeline if isinstance(entry, Message)]

    async def wander(self, side: ClientSide) -> None:
        """Call the agent's methods one after another, and give up on some."""
        rng = self.rng
        while not side.connection.ended:
            await trio.sleep(rng.choice([0, 1]))
            try:
                with trio.move_on_after(rng.choice([0, 1, 20])):
                    match rng.randrange(7):
                        case 0:
                            async with side.new_session(CWD):
                                await trio.sleep(1)
                        case 1:
                            async with side.load_session(SessionId(rng.choice([*LIVE, STORED])), CWD) as session:
                                _ = len(session.replay)
                        case 2:
                            async with side.resume_session(SessionId(STORED), CWD):
                                pass
                        case 3:
                            _ = [info async for info in side.list_sessions()]
                        case 4:
                            await side.delete_session(SessionId(STORED))
                        case 5:
                            await side.session(SessionId(LIVE[0])).set_mode(SessionModeId("b"))
                        case _:
                            await side.connection.request(ASK, "hello")
            except WHATEVER:
                pass


CAPABILITIES: Final[JSONObject] = {
    "loadSession": True,
    "sessionCapabilities": {"list": {}, "delete": {}, "resume": {}, "close": {}},
}


async def hear_agent(
    frames: Sequence[bytes], seed: int, *, initialized: bool = True, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES
) -> Outcome:
    """Let an agent say ``frames`` to a real client that has sessions open and is busy with them.

    Raises:
      Fault: the client broke a promise.
    """
    rng = Random(seed)
    reports: list[Report] = []
    transport = ByteTransport(max_frame_bytes)
    user = _User(rng)
    side = ClientSide(user.client(), transport, on_report=reports.append)
    said: list[bytes] = []
    hung_up = trio.Event()

    def answer(request_id: int, result: JSONObject) -> None:
        said.append(json.dumps({"jsonrpc": "2.0", "id": request_id, "result": result}).encode())
        transport.feed(said[-1] + b"\n")

    async def live(session_id: str) -> None:
        try:
            async with side.new_session(CWD) as session:
                await user.talk(session)
        except WHATEVER:
            pass

    async def initialize() -> None:
        with suppress(*WHATEVER):
            try:
                await side.initialize()
            except UnsupportedProtocolVersion:  # whereupon it closes the connection, and answers nothing any more
                hung_up.set()

    async with trio.open_nursery() as application, _served(side.connection, transport):
        application.start_soon(initialize)
        if initialized:
            await transport.wait_sent(lambda frame: b'"initialize"' in frame)
            answer(0, {"protocolVersion": 1, "agentCapabilities": CAPABILITIES})
            await trio.testing.wait_all_tasks_blocked()
            for number, session_id in enumerate(LIVE, 1):
                application.start_soon(live, session_id)
                await transport.wait_sent(lambda frame, number=number: json.loads(frame).get("id") == number)  # type: ignore[misc]
                answer(number, {"sessionId": session_id, "modes": _modes()})
            for _ in range(2):
                application.start_soon(user.wander, side)
        said += frames
        await _feed(rng, transport, frames)
        await trio.testing.wait_all_tasks_blocked()
        if side.connection.state is ConnectionState.READY and rng.random() < 0.8:
            try:
                await _is_alive(transport)
                said.append(_request("ping", "_ping", {}))
            except Fault:
                if not side.connection.ended:  # a wrong version ends it
                    raise
        await trio.sleep(rng.choice([0, 1, 10]))
    if hung_up.is_set():
        return Outcome(len(said), len([read_sent(frame) for frame in transport.sent]))
    return _check(side.connection, transport, reports, said, max_frame_bytes)


def _modes() -> JSONObject:
    return {"currentModeId": "a", "availableModes": [{"id": "a", "name": "A"}, {"id": "b", "name": "B"}]}
