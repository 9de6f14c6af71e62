"""What the pages about a client's services ask of both sides, agent and client joined: files, terminals, elicitation.

https://agentclientprotocol.com/protocol/file-system
https://agentclientprotocol.com/protocol/terminals
https://agentclientprotocol.com/protocol/elicitation
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import trio
import trio.testing

from acp_ref._jsonrpc import JSON, JSONObject
from acp_ref.agent import Agent
from acp_ref.agent_session import AgentSession
from acp_ref.client import Client
from acp_ref.client_session import ClientSession
from acp_ref.client_side import ClientSide
from acp_ref.elicitation import ElicitationAnswer, UrlFacts
from acp_ref.elicitation_forms import form
from acp_ref.errors import CapabilityError, ErrorCode, LocalProtocolError, RemoteProtocolError, RequestError
from acp_ref.file_system import FileSystem
from acp_ref.prompt_turn import PromptTurn
from acp_ref.reports import Report, ReportKind
from acp_ref.schema import (
    ElicitationAccept,
    ElicitationCancel,
    ElicitationDecline,
    ElicitationFormRequest,
    ElicitationId,
    ElicitationRequestScope,
    ElicitationSessionScope,
    ElicitationUrlRequest,
    IntegerPropertySchema,
    StopReason,
    StringPropertySchema,
    TerminalExitStatus,
    TerminalId,
)
from acp_ref.terminals import LocalTerminal
from acp_ref.testing import open_agent_and_client
from tests.conversations import CWD, agent_of, client_of, code_of, make_client, new_session, prompt, result_of, say


def agent_that(does: Callable[[PromptTurn], Awaitable[None]]) -> Agent:
    async def handler(turn: PromptTurn) -> StopReason:
        await does(turn)
        return StopReason.END_TURN

    return Agent(name="asker", version="1", prompt=handler)


@asynccontextmanager
async def session_of(
    served: Agent, client: Client, cwd: str = CWD, reports: list[Report] | None = None
) -> AsyncGenerator[tuple[ClientSide, ClientSession], None]:
    collected: list[Report] = [] if reports is None else reports
    async with (
        open_agent_and_client(served, client, on_report=collected.append) as (_, side),
        side.new_session(cwd) as session,
    ):
        yield side, session
    assert reports is not None or not collected


async def take_turn(session: ClientSession) -> None:
    async with session.prompt("go") as turn:
        assert await turn.wait() is StopReason.END_TURN


# ------------------------------------------------------------------------------------------------------------ files


@pytest.mark.spec("FS-01", "TERM-01", "ELIC-05", "ELIC-07")
@pytest.mark.parametrize("offered", [True, False])
async def test_an_agent_can_look_before_it_asks(offered: bool) -> None:
    seen: list[bool] = []

    async def look(turn: PromptTurn) -> None:
        client = turn.client
        seen.extend((client.can_read_text_files, client.can_write_text_files, client.can_run_terminals))
        seen.extend((client.can_elicit_forms, client.can_elicit_urls))

    async def nobody(*args: object) -> ElicitationAnswer:
        return ElicitationCancel()

    rich = make_client(file_system=FileSystem(), terminals=True, elicit_form=nobody, elicit_url=nobody)
    async with session_of(agent_that(look), rich if offered else make_client()) as (_, session):
        await take_turn(session)
    assert seen == [offered] * 5


@pytest.mark.spec("FS-07", "TERM-11", "TERM-13")
@pytest.mark.field_note(29, 100)
@pytest.mark.parametrize("nothing", [None, {}, {"_meta": None}, {"of_a_later_version": 1}])
async def test_an_agent_takes_null_for_an_empty_result(nothing: JSON) -> None:
    async def use(turn: PromptTurn) -> None:
        await turn.client.write_text_file("/x", "")
        async with turn.client.create_terminal("make") as terminal:
            await terminal.kill()

    announced: JSONObject = {"fs": {"writeTextFile": True}, "terminal": True}
    async with client_of(agent_that(use), capabilities=announced) as peer:
        await peer.request("turn", "session/prompt", prompt(await new_session(peer), "go"))
        for method in ("fs/write_text_file", "terminal/create", "terminal/kill", "terminal/release"):
            request = await peer.receive()
            assert request["method"] == method
            await peer.answer(request, {"terminalId": "t"} if method == "terminal/create" else nothing)
        assert result_of(await peer.receive()) == {"stopReason": "end_turn"}


@pytest.mark.spec("FS-06", "FS-07", "SETUP-66", "SETUP-67")
async def test_a_client_answers_an_object_for_what_is_inside_the_roots_and_refuses_what_is_not(tmp_path: Path) -> None:
    inside, more, outside = (tmp_path / name for name in ("inside", "more", "inside2"))
    for directory in (inside, more, outside):
        directory.mkdir()
    (outside / "secret").write_text("secret")
    (inside / "link").symlink_to(outside / "secret")
    reports: list[Report] = []
    announced: JSONObject = {"sessionCapabilities": {"additionalDirectories": {}}}
    async with agent_of(make_client(file_system=FileSystem()), capabilities=announced, reports=reports) as (
        side,
        _,
        peer,
    ):
        async with trio.open_nursery() as nursery:

            async def answer() -> None:
                await peer.answer(await peer.receive(), {"sessionId": "here"})

            nursery.start_soon(answer)
            async with side.new_session(str(inside), additional_directories=[str(more)]):
                for path in (inside / "new" / "file", more / "file"):
                    params: JSONObject = {"sessionId": "here", "path": str(path), "content": "x"}
                    assert result_of(await peer.call(1, "fs/write_text_file", params)) == {}
                    assert path.read_text() == "x"
                    assert result_of(await peer.call(2, "fs/read_text_file", params)) == {"content": "x"}
                for path in (outside / "secret", inside / "link", inside / ".." / "inside2" / "secret"):
                    for method in ("fs/write_text_file", "fs/read_text_file"):
                        params = {"sessionId": "here", "path": str(path), "content": "x"}
                        assert code_of(await peer.call(3, method, params)) == ErrorCode.INVALID_PARAMS
    assert (outside / "secret").read_text() == "secret"


# -------------------------------------------------------------------------------------------------------- terminals

LONG: Final = ("-I", "-S", "-c", "import time; print('begun', flush=True); time.sleep(1000)")


@pytest.mark.spec("TERM-07", "TERM-11", "TERM-12", "TERM-13", "TERM-14", "TERM-15", "TERM-16")
@pytest.mark.spec("TOOL-13", "TOOL-14", "TOOL-15")
async def test_a_timeout_is_made_of_wait_kill_output_and_release_and_all_of_it_is_shown(tmp_path: Path) -> None:
    shown: list[tuple[str, bool, bool]] = []
    ids: list[TerminalId] = []
    begun = trio.Event()

    def show(session: ClientSession, terminal: LocalTerminal) -> None:
        shown.append((terminal.output, terminal.ended, terminal.released))
        if "begun" in terminal.output:
            begun.set()

    async def run(turn: PromptTurn) -> None:
        async with turn.tool_call("Run") as call, turn.client.create_terminal(sys.executable, LONG) as terminal:
            ids.append(terminal.id)
            await call.update(content=[terminal.as_content()])
            await begun.wait()
            with trio.move_on_after(0.05) as deadline:
                await terminal.wait_for_exit()
            assert deadline.cancelled_caught
            await terminal.kill()
            output = await terminal.output()
            assert (output.output, output.truncated) == ("begun\n", False)
            assert output.exit_status == TerminalExitStatus(signal="SIGTERM") == await terminal.wait_for_exit()
        with pytest.raises(trio.ClosedResourceError):  # too late to show it for the first time
            terminal.as_content()
        with pytest.raises(RequestError) as gone:
            await terminal.output()
        assert gone.value.code == ErrorCode.RESOURCE_NOT_FOUND

    client = make_client(terminals=True, on_terminal=show)
    async with session_of(agent_that(run), client, str(tmp_path)) as (_, session):
        await take_turn(session)
        (call,) = session.state.tool_calls.values()
        assert [getattr(item, "terminal_id", None) for item in call.content] == ids
        assert session.open_terminals is not None
        kept = session.open_terminals.get(ids[0])
        assert kept is not None
        assert (kept.output, kept.released, kept.cwd) == ("begun\n", True, str(tmp_path))
        assert ("begun\n", False, False) in shown  # it was shown while it ran


@pytest.mark.spec("TERM-07", "TERM-12", "TERM-17", "CANCEL-04")
async def test_a_terminal_is_released_however_the_turn_that_made_it_ends(tmp_path: Path) -> None:
    made = trio.Event()
    ids: list[TerminalId] = []

    async def run(turn: PromptTurn) -> None:
        async with turn.client.create_terminal(sys.executable, LONG) as terminal:
            ids.append(terminal.id)
            if turn.text == "fail":
                raise RequestError(1, "No")
            made.set()
            await trio.sleep_forever()

    async with session_of(agent_that(run), make_client(terminals=True), str(tmp_path)) as (_, session):
        async with session.prompt("fail") as turn:
            with pytest.raises(RequestError):
                await turn.wait()
        async with session.prompt("cancel") as turn:
            await made.wait()
            turn.cancel()
            assert await turn.wait() is StopReason.CANCELLED
        assert session.open_terminals is not None
        terminals = [session.open_terminals.get(terminal_id) for terminal_id in ids]
        assert [terminal and (terminal.released, terminal.ended) for terminal in terminals] == [(True, True)] * 2


@pytest.mark.spec("TERM-17")
async def test_a_session_that_ends_at_the_client_leaves_no_command_of_a_careless_agent(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    code = f"import os, time; open({str(pid)!r} + '.new', 'w').write(str(os.getpid()))"
    code += f"; os.rename({str(pid)!r} + '.new', {str(pid)!r}); print('begun', flush=True); time.sleep(1000)"
    begun = trio.Event()

    def show(session: ClientSession, terminal: LocalTerminal) -> None:
        if terminal.output:
            begun.set()

    async with agent_of(make_client(terminals=True, on_terminal=show)) as (_, _session, peer):
        params: JSONObject = {"sessionId": "s", "command": sys.executable, "args": ["-I", "-S", "-c", code], "cwd": "/"}
        assert "terminalId" in result_of(await peer.call(1, "terminal/create", params))
        await begun.wait()
        number = int(pid.read_text())
        os.kill(number, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


# ------------------------------------------------------------------------------------------------------ elicitation

FORM: Final = form(
    {"name": StringPropertySchema(title="Name", min_length=2), "age": IntegerPropertySchema(default=7)},
    required=["name"],
)


@pytest.mark.spec("ELIC-01", "ELIC-04", "ELIC-09", "ELIC-12", "ELIC-13", "ELIC-20", "ELIC-23", "ELIC-24")
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (ElicitationAccept(content={"name": "Polly", "age": 7}), {"name": "Polly", "age": 7}),
        (ElicitationAccept(content={"name": "Polly"}), {"name": "Polly"}),
        (ElicitationDecline(), None),
        (ElicitationCancel(), None),
    ],
)
async def test_a_form_reaches_the_user_with_who_asks_and_why_and_comes_back_filled_in(
    answer: ElicitationAnswer, expected: object
) -> None:
    results: list[object] = []
    asked: list[tuple[str | None, ElicitationFormRequest]] = []

    async def ask(turn: PromptTurn) -> None:
        results.append(await turn.client.elicit_form("Who are you?", FORM))

    async def show(request: ElicitationFormRequest) -> ElicitationAnswer:
        asked.append((None if side.info is None else side.info.name, request))
        return answer

    async with session_of(agent_that(ask), make_client(elicit_form=show)) as (side, session):
        await take_turn(session)
    scope = ElicitationSessionScope(session_id=session.id)
    request = ElicitationFormRequest(message="Who are you?", scope=scope, requested_schema=FORM)
    assert asked == [("asker", request)]
    assert results == [expected]


@pytest.mark.spec("ELIC-12", "ELIC-22")
async def test_what_was_filled_in_wrongly_leaves_no_client() -> None:
    refusals: list[int] = []

    async def ask(turn: PromptTurn) -> None:
        with pytest.raises(RequestError) as refused:
            await turn.client.elicit_form("Who are you?", FORM)
        refusals.append(refused.value.code)

    async def wrong(request: ElicitationFormRequest) -> ElicitationAnswer:
        return ElicitationAccept(content={"name": "P"})

    reports: list[Report] = []
    async with session_of(agent_that(ask), make_client(elicit_form=wrong), reports=reports) as (_, session):
        await take_turn(session)
    assert refusals == [ErrorCode.INTERNAL_ERROR]
    assert [report.kind for report in reports] == [ReportKind.HANDLER_FAILED]


@pytest.mark.spec("ELIC-13", "ELIC-21", "ELIC-24", "ELIC-42")
@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ({"action": "accept", "content": {"name": "Polly"}}, {"name": "Polly"}),
        ({"action": "accept", "content": {"name": "P"}}, RemoteProtocolError),
        ({"action": "accept", "content": {"name": "Polly", "more": 1}}, RemoteProtocolError),
        ({"action": "accept", "content": {"name": "Polly", "age": True}}, RemoteProtocolError),
        ({"action": "accept", "content": None}, RemoteProtocolError),
        ({"action": "accept"}, RemoteProtocolError),
        ({"action": "decline", "content": {"name": "Polly"}}, None),
        ({"action": "cancel"}, None),
        ({"action": "of_a_later_version"}, None),
    ],
)
async def test_an_agent_takes_nothing_from_a_client_that_the_form_does_not_allow(answer: JSON, outcome: object) -> None:
    outcomes: list[object] = []

    async def ask(turn: PromptTurn) -> None:
        try:
            outcomes.append(await turn.client.elicit_form("Who are you?", FORM))
        except RemoteProtocolError as exc:
            outcomes.append(type(exc))

    async with client_of(agent_that(ask), capabilities={"elicitation": {"form": {}}}) as peer:
        await peer.request("turn", "session/prompt", prompt(await new_session(peer), "go"))
        await peer.answer(await peer.receive(), answer)
        assert result_of(await peer.receive()) == {"stopReason": "end_turn"}
    assert outcomes == [outcome]


@pytest.mark.spec("ELIC-03", "ELIC-18", "ELIC-25", "ELIC-27", "ELIC-28", "ELIC-35")
async def test_a_url_is_agreed_to_and_its_completion_told_when_the_agent_is_done_with_it() -> None:
    url = "https://login.example.com/start?flow=" + "x" * 1000
    asked: list[tuple[str, str]] = []
    open_meanwhile: list[bool] = []
    ids: list[ElicitationId] = []

    async def ask(turn: PromptTurn) -> None:
        async with turn.client.elicit_url("Log in there", url) as agreed:
            assert agreed
            open_meanwhile.append(ids[0] in side.elicitations)  # consent is not completion

    async def show(request: ElicitationUrlRequest, facts: UrlFacts) -> ElicitationAnswer:
        asked.append((facts.url, facts.host))  # before there is any consent
        ids.append(request.elicitation_id)
        return ElicitationAccept()

    async with session_of(agent_that(ask), make_client(elicit_url=show)) as (side, session):
        await take_turn(session)
        assert asked == [(url, "login.example.com")]
        assert open_meanwhile == [True]
        assert not len(side.elicitations)


@pytest.mark.spec("ELIC-23", "ELIC-24", "ELIC-27")
@pytest.mark.parametrize("answer", [ElicitationDecline(), ElicitationCancel()])
async def test_a_url_that_nobody_agreed_to_is_never_complete(answer: ElicitationAnswer) -> None:
    async def ask(turn: PromptTurn) -> None:
        async with turn.client.elicit_url("Log in there", "https://example.com/") as agreed:
            assert not agreed

    async def show(request: ElicitationUrlRequest, facts: UrlFacts) -> ElicitationAnswer:
        return answer

    async with session_of(agent_that(ask), make_client(elicit_url=show)) as (side, session):
        await take_turn(session)
        assert not len(side.elicitations)


@pytest.mark.spec("ELIC-17", "ELIC-07")
async def test_a_page_is_never_replaced_by_a_form() -> None:
    tried: list[str] = []

    async def ask(turn: PromptTurn) -> None:
        try:
            async with turn.client.elicit_url("Log in there", "https://example.com/"):
                tried.append("page")
        except CapabilityError as exc:
            tried.append(exc.capability)
            await turn.send_text("Please log in by `login` in a terminal.")  # another safe way, the agent's own

    async def never(request: ElicitationFormRequest) -> ElicitationAnswer:
        pytest.fail("a form was shown")

    async with (
        session_of(agent_that(ask), make_client(elicit_form=never)) as (_, session),
        session.prompt("go") as turn,
    ):
        assert "terminal" in await turn.text()
    assert tried == ["clientCapabilities.elicitation.url"]


@pytest.mark.spec("ELIC-31", "ELIC-06")
@pytest.mark.parametrize("url", ["https://user:password@example.com/", "https://", "no url"])
async def test_a_url_with_credentials_leaves_no_agent(url: str) -> None:
    async def ask(turn: PromptTurn) -> None:
        with pytest.raises(LocalProtocolError):
            async with turn.client.elicit_url("Log in there", url):
                pytest.fail("it was asked")

    async with client_of(agent_that(ask), capabilities={"elicitation": {"url": {}}}) as peer:
        (answer,) = await say(peer, await new_session(peer), "go")
        assert result_of(answer) == {"stopReason": "end_turn"}


@pytest.mark.spec("ELIC-09", "ELIC-10")
async def test_a_question_in_the_setup_of_a_session_belongs_to_the_request_that_makes_it() -> None:
    scopes: list[object] = []
    filled: list[object] = []

    @asynccontextmanager
    async def ask_first(session: AgentSession[None]) -> AsyncGenerator[None, None]:
        filled.append(await session.client.elicit_form("Who are you?", FORM))
        yield

    async def ask_again(turn: PromptTurn[None]) -> StopReason:
        filled.append(await turn.client.elicit_form("And now?", FORM))
        return StopReason.END_TURN

    async def show(request: ElicitationFormRequest) -> ElicitationAnswer:
        scopes.append(request.scope)
        return ElicitationAccept(content={"name": request.message})

    served = Agent(name="asker", version="1", prompt=ask_again, open_session=ask_first)
    async with session_of(served, make_client(elicit_form=show)) as (_, session):
        await take_turn(session)
    first, second = scopes
    assert isinstance(first, ElicitationRequestScope)
    assert second == ElicitationSessionScope(session_id=session.id)
    assert filled == [{"name": "Who are you?"}, {"name": "And now?"}]


@pytest.mark.spec("ELIC-09", "ELIC-10")
@pytest.mark.parametrize(
    "scope", [{"requestId": 99}, {"requestId": "0"}, {"requestId": None}, {}, {"sessionId": "s", "requestId": 0}]
)
async def test_a_question_that_belongs_to_nothing_here_is_refused(scope: JSONObject) -> None:
    async def never(request: ElicitationFormRequest) -> ElicitationAnswer:
        pytest.fail("it was shown")

    params: JSONObject = {"mode": "form", "message": "?", "requestedSchema": {"type": "object", "properties": {}}}
    async with agent_of(make_client(elicit_form=never)) as (_, _session, peer):
        answer = await peer.call(1, "elicitation/create", {**params, **scope})
        assert code_of(answer) == ErrorCode.INVALID_PARAMS


@pytest.mark.spec("ELIC-29", "ELIC-26")
@pytest.mark.parametrize("answer", [ElicitationAccept(), ElicitationDecline()])
async def test_completions_of_what_is_not_open_are_ignored_by_whoever_asked(answer: ElicitationAnswer) -> None:
    async def show(request: ElicitationUrlRequest, facts: UrlFacts) -> ElicitationAnswer:
        return answer

    params: JSONObject = {"sessionId": "s", "mode": "url", "message": "?", "url": "https://example.com/"}
    ids: Sequence[str] = ("e", "{}", "../e", "")
    async with agent_of(make_client(elicit_url=show)) as (side, _, peer):
        for elicitation_id in ids:
            await peer.notify("elicitation/complete", {"elicitationId": elicitation_id})
            await peer.call(1, "elicitation/create", {**params, "elicitationId": elicitation_id})
            assert (elicitation_id in side.elicitations) is isinstance(answer, ElicitationAccept)
            for _ in range(2):
                await peer.notify("elicitation/complete", {"elicitationId": elicitation_id})
        assert await peer.receive_all() == []
        assert not len(side.elicitations)
