"""Sessions in any order: two real agents on one store, and a model that says what each of their answers must be.

A step is one request or notification, after which everything comes to rest and the answers are those of the model; or
several at once, after which the answers are of an allowed kind and the model is taken from what the agents now hold.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Final, TypeAlias, final

import attrs
import trio
import trio.testing

from acp_ref._jsonrpc import JSON, JSONObject
from acp_ref.agent import Agent, AgentSide
from acp_ref.agent_session import AgentSession
from acp_ref.errors import RequestError
from acp_ref.permissions import default_options
from acp_ref.prompt_turn import PromptTurn
from acp_ref.reports import Report
from acp_ref.schema import (
    AgentMessageChunk,
    SessionConfigBoolean,
    SessionConfigId,
    SessionId,
    SessionMode,
    SessionModeId,
    SessionModeState,
    StopReason,
    TextContent,
    ToolCallId,
    ToolCallUpdate,
)
from acp_ref.session_store import MemoryStore, _MemoryJournal
from tests.fuzz.byte_transport import ByteTransport, chunked
from tests.fuzz.hostile import PATIENCE, Intended, Outcome, failures
from tests.fuzz.oracle import Fault, read_sent

__all__ = ["Application", "live"]

REFUSED: Final = 7
NOT_FOUND: Final = -32002
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
CANCELLED: Final = -32800

CWDS: Final = ("/one", "/two")
SETUPS: Final = ("", "", "", "", "/slow", "/broken", "/refused")
"""Additional directories, by which the application knows what to do in ``open_session``."""
PROMPTS: Final = ("now", "now", "talk", "wait", "wait", "stubborn", "ask", "fail", "refuse")
MURMUR: Final = "said by itself"
PENDING: Final = {
    "session/prompt": ("wait", "stubborn", "ask"),
    "session/new": ("/slow",),
    "session/load": ("/slow",),
    "session/resume": ("/slow",),
}
"""What may be left unanswered when all is at rest."""

Expected: TypeAlias = Callable[[JSONObject], bool] | int
"""What an answer must be: a result of which something is true, or an error code."""


@attrs.define
class Known:
    """A session, as the model has it."""

    id: str
    cwd: str
    mode: str = "a"
    stored: bool = True
    """Whether the store has it; a session that was deleted while another agent had it open lives on there."""
    at: int | None = None
    """Which agent has it open."""
    turn: int | None = None
    """The prompt that is being answered."""
    question: int = -1
    """The latest permission request about it."""
    taking_up: dict[int, int] = attrs.field(factory=dict[int, int])
    """Loads and resumes that are under way: the request of each agent."""
    said: int | None = 0
    """How many user messages are in its history, if the model knows that and the mode."""
    murmured: int | None = 0
    """How often it spoke by itself, if the model knows that."""


@attrs.frozen
class Asked:
    """A request that was sent."""

    method: str
    kind: str
    """What the application will do about it."""
    params: JSONObject


@final
class Application:
    """The application behind both agents."""

    def __init__(self) -> None:
        self.opened = 0
        self.left = 0
        self.gate = trio.Event()

    @asynccontextmanager
    async def open_session(self, session: AgentSession[int]) -> AsyncGenerator[int, None]:
        extra = session.roots.roots[1:]
        await session.set_title("a title")
        if "/slow" in extra:
            await self.gate.wait()
        elif "/broken" in extra:
            raise Intended
        elif "/refused" in extra:
            raise RequestError(REFUSED, "refused")
        self.opened += 1
        session.nursery.start_soon(trio.sleep_forever)
        try:
            yield self.opened
        finally:
            self.left += 1

    async def prompt(self, turn: PromptTurn[int]) -> StopReason:
        turn.nursery.start_soon(turn.send_text, "from a task")
        match turn.text:
            case "wait":
                await trio.sleep_forever()
            case "stubborn":
                try:
                    await trio.sleep_forever()
                except trio.Cancelled:
                    raise Intended from None
            case "ask":
                call = ToolCallUpdate(tool_call_id=ToolCallId("t"), title="may I?")
                await turn.request_permission(call, default_options())
            case "fail":
                raise Intended
            case "refuse":
                raise RequestError(REFUSED, "refused")
            case "talk":
                async with turn.tool_call("a tool"):
                    await turn.send_thought("hm")
            case _:
                pass
        return StopReason.END_TURN


@final
class _Line:
    """One agent on one connection, and what its client has said and heard."""

    def __init__(self, agent: Agent[int], reports: list[Report]) -> None:
        self.transport = ByteTransport()
        self.side = AgentSide(agent, self.transport, on_report=reports.append)
        self.over = trio.Event()
        self.asked: dict[int, Asked] = {}
        self.answers: dict[int, JSONObject] = {}
        self.questions: dict[int, str] = {}
        """The agent's open permission requests: of which session."""
        self.heard: list[JSONObject] = []
        """All since the last look."""
        self._looked = 0

    async def run(self) -> None:
        await self.side.connection.run()
        self.over.set()

    def look(self) -> None:
        """Read what was sent since the last look."""
        self.heard = [read_sent(frame) for frame in self.transport.sent[self._looked :]]
        self._looked = len(self.transport.sent)
        for message in self.heard:
            request_id = message.get("id")
            if message.get("method") == "session/request_permission":
                self.questions[_number(request_id)] = str(_object(message["params"])["sessionId"])
            elif "method" not in message:
                if not isinstance(request_id, int) or request_id not in self.asked:
                    raise Fault(f"an answer to nothing: {message}")
                if request_id in self.answers:
                    raise Fault(f"a second answer to {self.asked[request_id]}: {message}")
                self.answers[request_id] = message


@final
class Life:
    """Two agents, their store, and the model of both."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.application = Application()
        self.store = MemoryStore(page_size=3)
        self.reports: list[Report] = []
        self.sessions: dict[str, Known] = {}
        self.setting_up: dict[int, tuple[int, str]] = {}
        """New sessions under way: the agent and the working directory, by request."""
        self.murmured_then: dict[int, int | None] = {}
        """How often a session had spoken by itself when a load or resume of it began, by request."""
        self.expected: dict[int, Expected] = {}
        self.murmurs: list[tuple[int, str, int]] = []
        """What is told of sessions that speak by themselves in this step: the agent, the session, how often."""
        self.frames = 0
        self._next_id = 0
        self._outbox: dict[int, list[bytes]] = {0: [], 1: []}
        self.lines = [self._connect(), self._connect()]

    def _connect(self) -> _Line:
        modes = SessionModeState(
            current_mode_id=SessionModeId("a"),
            available_modes=[SessionMode(id=SessionModeId(name), name=name) for name in ("a", "b")],
        )
        agent: Agent[int] = Agent(
            name="agent",
            version="1",
            prompt=self.application.prompt,
            open_session=self.application.open_session,
            store=self.store,
            modes=modes,
            config_options=[SessionConfigBoolean(id=SessionConfigId("c"), name="c", current_value=False)],
        )
        line = _Line(agent, self.reports)
        self.nursery.start_soon(line.run)
        line.transport.feed(b'{"jsonrpc":"2.0","id":-1,"method":"initialize","params":{"protocolVersion":1}}\n')
        line.asked[-1] = Asked("initialize", "", {})
        return line

    # ------------------------------------------------------------------------------------------------- saying things

    def _say(self, at: int, message: JSONObject) -> None:
        self._outbox[at].append(json.dumps({"jsonrpc": "2.0", **message}).encode())
        self.frames += 1

    def _request(self, at: int, method: str, params: JSONObject, kind: str = "") -> int:
        self._next_id += 1
        self.lines[at].asked[self._next_id] = Asked(method, kind, params)
        self._say(at, {"id": self._next_id, "method": method, "params": params})
        return self._next_id

    def _expect(self, request_id: int, answer: Expected) -> None:
        self.expected[request_id] = answer

    def _flush(self, rng: Random) -> None:
        for at, frames in self._outbox.items():
            if frames:
                self.lines[at].transport.feed(*chunked(rng, b"".join(frame + b"\n" for frame in frames)))
                self._outbox[at] = []

    async def settle(self, rng: Random) -> None:
        """Let everything that was said arrive, and everything come to rest."""
        self._flush(rng)
        await trio.testing.wait_all_tasks_blocked()
        for line in self.lines:
            line.look()
            for question, session_id in line.questions.items():
                if (known := self.sessions.get(session_id)) is not None:
                    known.question = max(known.question, question)
        if failed := failures(self.reports):
            raise Fault(f"a failure inside: {failed[0]!r}") from failed[0]

    def check(self) -> None:
        """The answers since the last look are those of the model, and no others."""
        for line in self.lines:
            for message in line.heard:
                if "method" in message or message["id"] == -1:
                    continue
                request_id = message["id"]
                assert isinstance(request_id, int)
                if request_id not in self.expected:
                    raise Fault(f"{line.asked[request_id]} should not be answered yet: {message}")
                _compare(line.asked[request_id], message, self.expected.pop(request_id))
        for at, session_id, times in self.murmurs:
            if (told := _murmurs(self.lines[at].heard, session_id)) != times:
                raise Fault(f"{session_id} spoke by itself, which was told {told} times and not {times}")
        self.murmurs.clear()
        if self.expected:
            missing = [line.asked[i] for i in self.expected for line in self.lines if i in line.asked]
            raise Fault(f"not answered: {missing}")

    # ------------------------------------------------------------------------------------------------------- steps

    def step(self, rng: Random) -> None:
        """Say one thing, and tell the model."""
        at = rng.randrange(2)
        steps: list[tuple[int, Callable[[Random, int], None]]] = [
            (4, self.new),
            (4, self.take_up),
            (6, self.prompt),
            (3, self.cancel),
            (3, self.cancel_request),
            (3, self.close),
            (2, self.delete),
            (2, self.set_mode),
            (1, self.set_option),
            (2, self.list),
            (2, self.permit),
            (2, self.murmur),
            (1, self.break_down),
            (1, self.nonsense),
        ]
        [chosen] = rng.choices([step for _, step in steps], [weight for weight, _ in steps])
        chosen(rng, at)

    def _some(self, rng: Random, at: int) -> Known:
        """A session: mostly one that is open at that agent, sometimes one that does not exist."""
        here = [known for known in self.sessions.values() if known.at == at]
        if here and rng.random() < 0.7:
            return rng.choice(here)
        return rng.choice([*self.sessions.values(), Known("nobody", "/one", stored=False)])

    def new(self, rng: Random, at: int) -> None:
        cwd, kind = rng.choice([*CWDS, *CWDS, "relative"]), rng.choice(SETUPS)
        params: JSONObject = {"cwd": cwd, "mcpServers": [], "additionalDirectories": [kind] if kind else []}
        request = self._request(at, "session/new", params, kind)
        if cwd == "relative":
            self._expect(request, INVALID_PARAMS)
        elif kind == "/slow":
            self.setting_up[request] = (at, cwd)
        else:
            self._opens(request, at, cwd, kind)

    def _opens(self, request: int, at: int, cwd: str, kind: str) -> None:
        def opened(result: JSONObject) -> bool:
            session_id = result["sessionId"]
            assert isinstance(session_id, str)
            self.sessions[session_id] = Known(session_id, cwd, at=at)
            first = next(message for message in self.lines[at].heard if session_id in json.dumps(message))
            return first.get("id") == request and _mode_in(result) == "a"

        self._expect(request, {"/broken": INTERNAL_ERROR, "/refused": REFUSED}.get(kind, opened))

    def take_up(self, rng: Random, at: int) -> None:
        known = self._some(rng, at)
        method, kind = rng.choice(["session/load", "session/load", "session/resume"]), rng.choice(SETUPS)
        cwd = known.cwd if rng.random() < 0.85 else rng.choice(["/elsewhere", "relative"])
        params: JSONObject = {
            "sessionId": known.id,
            "cwd": cwd,
            "mcpServers": [],
            "additionalDirectories": [kind] if kind else [],
        }
        request = self._request(at, method, params, kind)
        if cwd == "relative":
            self._expect(request, INVALID_PARAMS)
        elif at in known.taking_up or (known.at == at and known.turn is not None):
            self._expect(request, INVALID_REQUEST)
        elif known.at != at and not known.stored:
            self._expect(request, NOT_FOUND)
        elif known.at != at and (known.at is not None or known.taking_up):
            self._expect(request, INVALID_REQUEST)
        elif cwd != known.cwd:
            self._expect(request, INVALID_PARAMS)
        elif kind == "/slow":
            known.taking_up[at] = request
            self.murmured_then[request] = known.murmured
        else:
            self._takes_up(request, at, known, kind, method, known.murmured)

    def _takes_up(self, request: int, at: int, known: Known, kind: str, method: str, murmured: int | None) -> None:
        def taken_up(result: JSONObject) -> bool:
            known.at = at
            if known.said is None:
                return True
            heard = self.lines[at].heard
            before = heard[: next(i for i, message in enumerate(heard) if message.get("id") == request)]
            about = [text for text in map(json.dumps, before) if known.id in text]
            murmurs = _murmurs(before, known.id)
            if murmured is not None and murmurs != (murmured if method == "session/load" else 0):
                raise Fault(f"{known.id} spoke by itself {murmured} times, which was told {murmurs} times")
            replayed = sum('"user_message_chunk"' in text for text in about)
            return replayed == (known.said if method == "session/load" else 0) and _mode_in(result) == known.mode

        self._expect(request, {"/broken": INTERNAL_ERROR, "/refused": REFUSED}.get(kind, taken_up))

    def prompt(self, rng: Random, at: int) -> None:
        known, kind = self._some(rng, at), rng.choice(PROMPTS)
        text: JSONObject = {"type": "text", "text": kind}
        request = self._request(at, "session/prompt", {"sessionId": known.id, "prompt": [text]}, kind)
        if not self._takes_calls(request, known, at):
            return
        if known.turn is not None:
            self._expect(request, INVALID_REQUEST)
            return
        if known.said is not None:
            known.said += 1
        if kind in ("wait", "stubborn", "ask"):
            known.turn = request
        else:
            ends = {"fail": INTERNAL_ERROR, "refuse": REFUSED}.get(kind, _stops("end_turn"))
            self._expect(request, ends)

    def _takes_calls(self, request: int, known: Known, at: int) -> bool:
        if known.at != at:
            self._expect(request, NOT_FOUND)
        elif at in known.taking_up:
            self._expect(request, INVALID_REQUEST)
        else:
            return True
        return False

    def _cancel_turn(self, known: Known) -> None:
        if known.turn is not None:
            self._expect(known.turn, _stops("cancelled"))
            known.turn = None

    def cancel(self, rng: Random, at: int) -> None:
        known = self._some(rng, at)
        self._say(at, {"method": "session/cancel", "params": {"sessionId": known.id}})
        if known.at == at:
            self._cancel_turn(known)

    def cancel_request(self, rng: Random, at: int) -> None:
        line = self.lines[at]
        waiting = [request for request in line.asked if request not in line.answers]
        request = rng.choice(waiting) if waiting and rng.random() < 0.8 else rng.choice([*line.asked, 10**6])
        self._say(at, {"method": "$/cancel_request", "params": {"requestId": request}})
        if self.setting_up.get(request, (None, ""))[0] == at:
            del self.setting_up[request]
            self._expect(request, CANCELLED)
        for known in self.sessions.values():
            if known.at == at and known.turn == request:
                self._cancel_turn(known)
            if known.taking_up.get(at) == request:
                del known.taking_up[at]
                self._expect(request, CANCELLED)

    def close(self, rng: Random, at: int) -> None:
        known = self._some(rng, at)
        request = self._request(at, "session/close", {"sessionId": known.id})
        if not self._takes_calls(request, known, at):
            return
        turn = known.turn
        self._cancel_turn(known)
        known.at = None

        def closed(result: JSONObject) -> bool:
            order = [message["id"] for message in self.lines[at].heard if "method" not in message]
            return turn is None or order.index(turn) < order.index(request)

        self._expect(request, closed)

    def delete(self, rng: Random, at: int) -> None:
        known = self._some(rng, at)
        request = self._request(at, "session/delete", {"sessionId": known.id})
        if at in known.taking_up:
            self._expect(request, INVALID_REQUEST)
            return
        known.stored = False
        if known.at == at:
            self._cancel_turn(known)
            known.at = None
        self._expect(request, _anything)

    def set_mode(self, rng: Random, at: int) -> None:
        known, mode = self._some(rng, at), rng.choice("abx")
        request = self._request(at, "session/set_mode", {"sessionId": known.id, "modeId": mode})
        if not self._takes_calls(request, known, at):
            return
        if mode == "x":
            self._expect(request, INVALID_PARAMS)
        else:
            known.mode = mode
            self._expect(request, _anything)

    def set_option(self, rng: Random, at: int) -> None:
        # The client did not announce options that are on or off, so there is none for it to set.
        known = self._some(rng, at)
        params: JSONObject = {"sessionId": known.id, "configId": "c", "type": "boolean", "value": True}
        request = self._request(at, "session/set_config_option", params)
        if self._takes_calls(request, known, at):
            self._expect(request, INVALID_PARAMS)

    def list(self, rng: Random, at: int) -> None:
        cwd = rng.choice([None, *CWDS])
        request = self._request(at, "session/list", {} if cwd is None else {"cwd": cwd})
        there = {known.id for known in self.sessions.values() if known.stored and (cwd is None or known.cwd == cwd)}
        unnamed = sum(cwd is None or its == cwd for _, its in self.setting_up.values())

        def listed(result: JSONObject) -> bool:
            sessions = result["sessions"]
            assert isinstance(sessions, list)
            ids = {info["sessionId"] for info in sessions if isinstance(info, dict)}
            whole = len(there) + unnamed
            return len(ids) == min(3, whole) and len(ids - there) <= unnamed and ("nextCursor" in result) is (whole > 3)

        self._expect(request, listed)

    def permit(self, rng: Random, at: int) -> None:
        questions = self.lines[at].questions
        if not questions:
            return
        question = rng.choice([*questions])
        known = self.sessions.get(questions.pop(question))
        answers: list[JSONObject] = [
            {"result": {"outcome": {"outcome": "selected", "optionId": "allow_once"}}},
            {"result": {"outcome": {"outcome": "cancelled"}}},
            {"result": {"outcome": "nonsense"}},
            {"error": {"code": -32603, "message": "Internal error"}},
            {},
        ]
        self._say(at, {"id": question, **rng.choice(answers)})
        if known is None or known.at != at or known.turn is None or known.question != question:
            return
        if self.lines[at].asked[known.turn].kind == "ask":
            self._expect(known.turn, _stops("end_turn"))
            known.turn = None

    def _open_session(self, rng: Random, at: int) -> tuple[Known, AgentSession[int]] | None:
        known = self._some(rng, at)
        session = self.lines[at].side.sessions._sessions.get(SessionId(known.id))
        return None if session is None or session.closed or known.at != at else (known, session)

    def murmur(self, rng: Random, at: int) -> None:
        """A session that is open speaks by itself: at once, or after it was set up anew or was not after all."""
        if (chosen := self._open_session(rng, at)) is None:
            return
        known, session = chosen
        session.nursery.start_soon(_murmur, session)
        self.murmurs.append((at, known.id, 0 if at in known.taking_up else 1))
        if known.murmured is not None:
            known.murmured += 1

    def break_down(self, rng: Random, at: int) -> None:
        """A session that is open ends by an error of its own."""
        if (chosen := self._open_session(rng, at)) is None:
            return
        known, session = chosen
        session.nursery.start_soon(_raise_intended)
        self._cancel_turn(known)
        known.at = None

    def nonsense(self, rng: Random, at: int) -> None:
        nonsense: list[tuple[str, JSONObject, int]] = [
            ("initialize", {"protocolVersion": 1}, INVALID_REQUEST),
            ("session/new", {"cwd": 1}, INVALID_PARAMS),
            ("session/prompt", {"sessionId": "nobody"}, INVALID_PARAMS),
            ("logout", {}, METHOD_NOT_FOUND),
            ("_vendor/x", {}, METHOD_NOT_FOUND),
            ("authenticate", {"methodId": "x"}, INVALID_PARAMS),
            ("session/list", {"cursor": "x"}, INVALID_PARAMS),
        ]
        method, params, code = rng.choice(nonsense)
        self._expect(self._request(at, method, params), code)

    def release(self) -> None:
        """Let all slow setups finish; those that begin later are not held up by this one."""
        self.application.gate.set()
        self.application.gate = trio.Event()
        for request, (at, cwd) in self.setting_up.items():
            self._opens(request, at, cwd, "")
        self.setting_up.clear()
        for known in self.sessions.values():
            for at, request in known.taking_up.items():
                method = self.lines[at].asked[request].method
                self._takes_up(request, at, known, "", method, self.murmured_then.get(request))
            known.taking_up.clear()

    # ---------------------------------------------------------------------------------------------------- the end

    async def end_of_input(self, rng: Random, at: int, *, rudely: bool = False) -> None:
        """The client goes; everything it waits for is answered, its sessions are closed, and another client comes."""
        self._flush(rng)
        if rng.random() < 0.5:
            await self.settle(rng)
        line = self.lines[at]
        if rudely:
            line.transport.feed(b'{"jsonrpc":"2.0","id":10000')
            await line.transport.aclose()
        else:
            line.transport.end()
        with trio.move_on_after(PATIENCE):
            await line.over.wait()
        if not line.over.is_set():
            raise Fault("it hangs at the end of input")
        line.look()
        statistics = line.side.connection.statistics()
        if (statistics.requests_in_flight, statistics.requests_pending) != (0, 0):
            raise Fault(f"something is left: {statistics}")
        if not rudely:
            for request, asked in line.asked.items():
                if request not in line.answers:
                    raise Fault(f"never answered: {asked}")
        self.lines[at] = self._connect()
        await self.settle(rng)
        self._forget_expectations()
        self._check_journals()

    def _check_journals(self) -> None:
        open_here = {known.id for known in self.sessions.values() if known.at is not None or known.taking_up}
        for session_id, record in self.store._records.items():
            if record.writer is not None and session_id not in open_here and session_id in self.sessions:
                raise Fault(f"the journal of {session_id} was left open")

    # ------------------------------------------------------------------------------------------------ several at once

    async def burst(self, rng: Random) -> None:
        """Say several things at once; their answers are of an allowed kind, and what is true now is looked up."""
        for _ in range(rng.randrange(2, 6)):
            self.step(rng)
        await self.settle(rng)
        for line in self.lines:
            waiting = {request for request in line.asked if request not in line.answers}
            if waiting != set(line.side.connection._incoming._in_flight):
                raise Fault(f"lost: {[line.asked[request] for request in waiting]}")
            for request in waiting:
                asked = line.asked[request]
                if asked.kind not in PENDING.get(asked.method, ()):
                    raise Fault(f"it hangs: {asked}")
            for message in line.heard:
                if "method" not in message:
                    _check_kind(line.asked[_number(message["id"])], message)
        self._forget_expectations()

    def _forget_expectations(self) -> None:
        """Take the model from what the agents and the store hold."""
        self.expected.clear()
        self.murmurs.clear()
        self.murmured_then.clear()
        self.setting_up.clear()
        for line in self.lines:
            for message in line.answers.values():
                result = message.get("result")
                if isinstance(result, dict) and isinstance(session_id := result.get("sessionId"), str):
                    self.sessions.setdefault(session_id, Known(session_id, ""))
        taken_up = {
            line.asked[_number(number)].params.get("sessionId")
            for line in self.lines
            for number in line.side.connection._incoming._in_flight
        }
        for known in [*self.sessions.values()]:
            known.at, known.turn, known.taking_up = None, None, {}
            record = self.store._records.get(known.id)
            known.stored = record is not None
            for at, line in enumerate(self.lines):
                session = line.side.sessions._sessions.get(SessionId(known.id))
                if session is None or session.closed:
                    continue
                if known.at is not None:
                    raise Fault(f"{known.id} is open twice")
                known.at = at
                known.turn = None if session.turn_request is None else _number(session.turn_request.id)
                assert isinstance(session.journal, _MemoryJournal)
                record = session.journal._record
            if record is None and known.id in taken_up:  # deleted under the agent that takes it up
                known.said = known.murmured = None
                continue
            if record is None:
                del self.sessions[known.id]
                continue
            known.cwd = record.cwd
            known.said = sum(b'"user_message_chunk"' in update for update in record.updates)
            known.murmured = sum(MURMUR.encode() in update for update in record.updates)
            modes = [update for update in record.updates if b'"current_mode_update"' in update]
            known.mode = json.loads(modes[-1])["currentModeId"] if modes else "a"
        for at, line in enumerate(self.lines):
            for number in line.side.connection._incoming._in_flight:
                asked = line.asked[_number(number)]
                if asked.method == "session/new":
                    self.setting_up[_number(number)] = (at, str(asked.params["cwd"]))
                elif asked.method != "session/prompt":
                    self.sessions[str(asked.params["sessionId"])].taking_up[at] = _number(number)

    # ---------------------------------------------------------------------------------------------------- all of it

    async def run(self, seeds: Sequence[int]) -> None:
        """A step for each seed, and the end."""
        await self.settle(Random(0))
        for seed in seeds:
            rng = Random(seed)
            chance = rng.random()
            if chance < 0.04:
                await self.end_of_input(rng, rng.randrange(2), rudely=rng.random() < 0.3)
            elif chance < 0.35:
                await self.burst(rng)
            else:
                self.release() if chance < 0.4 else self.step(rng)
                await self.settle(rng)
                self.check()
        for at in range(2):
            if seeds:
                self.step(Random(seeds[0] + at))  # said with the last breath
            await self.end_of_input(Random(at), at)
        for line in self.lines:
            line.transport.end()
            await line.over.wait()
        if self.application.opened != self.application.left:
            raise Fault(f"{self.application.opened} sessions were opened and {self.application.left} left")
        if any(record.writer is not None for record in self.store._records.values()):
            raise Fault("a journal was left open")


async def live(seeds: Sequence[int]) -> Outcome:
    """Go through the steps that ``seeds`` decide.

    Raises:
      Fault: an answer was not what it must be, was lost or came twice; something hangs or was left.
    """
    with trio.move_on_after(100 * PATIENCE):
        async with trio.open_nursery() as nursery:
            life = Life(nursery)
            await life.run(seeds)
        return Outcome(life.frames, life.frames)
    raise Fault("it hangs")


def _number(value: JSON) -> int:
    assert isinstance(value, int)
    return value


def _object(value: JSON) -> JSONObject:
    assert isinstance(value, dict)
    return value


async def _raise_intended() -> None:
    raise Intended


async def _murmur(session: AgentSession[int]) -> None:
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        await session.send(AgentMessageChunk(content=TextContent(text=MURMUR)))


def _murmurs(messages: Sequence[JSONObject], session_id: str) -> int:
    return sum(MURMUR in text and session_id in text for text in map(json.dumps, messages))


def _anything(result: JSONObject) -> bool:
    return True


def _stops(reason: str) -> Expected:
    return lambda result: result == {"stopReason": reason}


def _mode_in(result: JSONObject) -> JSON:
    return _object(result["modes"])["currentModeId"]


def _compare(asked: Asked, message: JSONObject, expected: Expected) -> None:
    if isinstance(expected, int):
        met = "error" in message and _object(message["error"])["code"] == expected
        due = f"error {expected}"
    else:
        met = "result" in message and expected(_object(message["result"]))
        due = "another result"
    if not met:
        raise Fault(f"{asked} was answered {message}; due was {due}")


def _check_kind(asked: Asked, message: JSONObject) -> None:
    """What may be answered whatever came before or at once."""
    if "result" in message:
        return
    allowed: set[JSON] = {INVALID_PARAMS, CANCELLED, METHOD_NOT_FOUND, INVALID_REQUEST}
    if asked.method in ("session/load", "session/resume", "session/prompt", "session/close") or "/set_" in asked.method:
        allowed |= {NOT_FOUND}
    if asked.kind in ("/broken", "fail", "stubborn"):
        allowed |= {INTERNAL_ERROR}
    if asked.kind in ("/refused", "refuse"):
        allowed |= {REFUSED}
    if _object(message["error"])["code"] not in allowed:
        raise Fault(f"{asked} was answered {message}")
