"""The reference agent, command by command: in memory, with a real file system, real terminals and real MCP servers."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import attrs
import pytest
import trio

import acp_ref as acp
from acp_ref.elicitation import ElicitationAnswer, UrlFacts
from acp_ref.elicitation_forms import defaults
from acp_ref.permissions import AskPermission, answer_with
from acp_ref.reference_agent import make_agent
from acp_ref.reports import Report
from acp_ref.schema import (
    AudioContent,
    AuthMethodId,
    AvailableCommandsUpdate,
    CompactionSummaryChunk,
    CompactionUpdate,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    ElicitationAccept,
    ElicitationDecline,
    ElicitationFormRequest,
    ElicitationUrlRequest,
    ImageContent,
    Notice,
    SessionConfigId,
    SessionInfoUpdate,
    SessionModeId,
    Terminal,
    TextResourceContents,
    ToolCallStatus,
    UsageUpdate,
)
from acp_ref.testing import open_agent_and_client
from acp_ref.timeline import ToolCallState
from tests.conversations import client_of, new_session, result_of, say
from tests.conversations import prompt as prompt_of

ALLOW: Final = answer_with(acp.PermissionOptionKind.ALLOW_ONCE)
REJECT: Final = answer_with(acp.PermissionOptionKind.REJECT_ONCE)

NASTY: Final = str(Path(__file__).parent / "mcp_fixtures" / "nasty.py")


def mcp_server(habit: str) -> acp.McpServerStdio:
    """One of the MCP servers of the tests, by the name of its habit."""
    return acp.McpServerStdio(name=habit, command=sys.executable, args=["-I", "-S", NASTY, habit, "tag"], env=[])


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def client(request_permission: AskPermission = ALLOW) -> acp.Client:
    """A client that offers nothing but permissions."""
    return acp.Client(
        name="test",
        version="1",
        request_permission=request_permission,
        notices=False,
        compaction=False,
        boolean_config_options=False,
    )


async def fill_in(request: ElicitationFormRequest) -> ElicitationAnswer:
    return ElicitationAccept(content=defaults(request.requested_schema) | {"name": "Polly", "weight": 0.4})


async def agree(request: ElicitationUrlRequest, facts: UrlFacts) -> ElicitationAnswer:
    return ElicitationAccept()


def rich_client(request_permission: AskPermission = ALLOW) -> acp.Client:
    """A client that offers everything."""
    return acp.Client(
        name="test",
        version="1",
        request_permission=request_permission,
        file_system=acp.FileSystem(),
        terminals=True,
        elicit_form=fill_in,
        elicit_url=agree,
    )


@asynccontextmanager
async def open_session(
    served_to: acp.Client, cwd: Path | str = "/", mcp_servers: Sequence[acp.McpServer] = ()
) -> AsyncGenerator[acp.ClientSession, None]:
    """A session of the reference agent, in memory; a failed handler at either side fails the test."""
    reports: list[Report] = []
    agent = make_agent(acp.MemoryStore())
    async with (
        open_agent_and_client(agent, served_to, on_report=reports.append) as (_, side),
        side.new_session(str(cwd), mcp_servers=mcp_servers) as session,
    ):
        yield session
    assert [report for report in reports if report.error is not None] == []


async def updates_of(session: acp.ClientSession, *prompt: str | acp.ContentBlock) -> list[acp.SessionUpdate]:
    """Say ``prompt``, and collect what the agent sends until it ends its turn."""
    async with session.prompt(*prompt) as turn:
        updates = [update async for update in turn]
    assert turn.stop_reason is acp.StopReason.END_TURN
    return updates


async def ask(session: acp.ClientSession, prompt: str) -> str:
    """Say ``prompt``, and return the text of the answer."""
    async with session.prompt(prompt) as turn:
        text = await turn.text()
    assert turn.stop_reason is acp.StopReason.END_TURN
    return text


async def tool_call_of(session: acp.ClientSession, prompt: str) -> tuple[ToolCallState, list[str]]:
    """Say ``prompt``, and return the one tool call it leads to, with the statuses it went through."""
    updates = await updates_of(session, prompt)
    statuses = [
        str(update.status)
        for update in updates
        if isinstance(update, acp.ToolCall | acp.ToolCallUpdate) and update.status is not None
    ]
    (started,) = (update for update in updates if isinstance(update, acp.ToolCall))
    return session.state.tool_calls[started.tool_call_id], statuses


def text_of(call: ToolCallState) -> str:
    """All text that a tool call shows."""
    return "".join(
        item.content.text
        for item in call.content
        if isinstance(item, acp.Content) and isinstance(item.content, acp.TextContent)
    )


# --------------------------------------------------------------------------------------------------------- talking


async def test_what_is_no_command_is_said_again_block_by_block() -> None:
    blocks: list[acp.ContentBlock] = [
        acp.TextContent(text="hello \u2028 there"),
        ImageContent(data="AAAA", mime_type="image/png"),
        AudioContent(data="AAAA", mime_type="audio/wav"),
        acp.ResourceLink(name="x", uri="file:///x"),
    ]
    async with open_session(client()) as session:
        updates = await updates_of(session, *blocks)
    chunks = [update for update in updates if isinstance(update, acp.AgentMessageChunk)]
    assert chunks == updates
    assert [chunk.content for chunk in chunks] == blocks
    assert len({chunk.message_id for chunk in chunks}) == 1


@pytest.mark.spec("SLASH-01", "SLASH-02")
async def test_the_commands_are_told_after_the_session_is_there() -> None:
    async with open_session(client()) as session:
        assert await ask(session, "hi") == "hi"
        names = [command.name for command in session.state.available_commands]
    wanted = "echo stream sleep where mcp call read write run plan ask mode set title login logout showcase"
    assert names == wanted.split()


async def test_an_unknown_command_is_answered_with_all_there_are() -> None:
    async with open_session(client()) as session:
        text = await ask(session, "/fly south")
        assert text.startswith("There is no such command.")
        for command in session.state.available_commands:
            assert f"- /{command.name}" in text


async def test_echo_says_its_text() -> None:
    async with open_session(client()) as session:
        assert await ask(session, "/echo /where  is it?") == "/where  is it?"


async def test_stream_says_numbered_pieces_of_one_message() -> None:
    async with open_session(client()) as session:
        updates = await updates_of(session, "/stream 300")
    chunks = [update for update in updates if isinstance(update, acp.AgentMessageChunk)]
    assert [chunk.content for chunk in chunks] == [acp.TextContent(text=f"chunk {n}") for n in range(1, 301)]
    assert len({chunk.message_id for chunk in chunks}) == 1


async def test_sleep_waits(autojump_clock: trio.testing.MockClock) -> None:
    async with open_session(client()) as session:
        before = trio.current_time()
        assert await ask(session, "/sleep 2.5") == "Slept for 2.5 seconds."
        assert trio.current_time() - before == pytest.approx(2.5)


@pytest.mark.spec("CANCEL-04", "CANCEL-05")
async def test_sleep_is_cancelled_at_once_and_the_session_goes_on() -> None:
    async with open_session(client()) as session:
        async with session.prompt("/sleep 1000") as turn:
            turn.cancel()
            assert await turn.wait() is acp.StopReason.CANCELLED
        assert await ask(session, "still there?") == "still there?"


@pytest.mark.spec("SETUP-19", "SETUP-59")
async def test_where_tells_the_directories_of_the_session(tmp_path: Path) -> None:
    agent = make_agent(acp.MemoryStore())
    async with (
        open_agent_and_client(agent, client()) as (_, side),
        side.new_session(str(tmp_path), additional_directories=["/srv", "/opt"]) as session,
    ):
        assert await ask(session, "/where") == (
            f"Working directory: {tmp_path}\nAdditional root: /srv\nAdditional root: /opt"
        )


@pytest.mark.spec("PLAN-01", "PLAN-04")
async def test_plan_sends_the_whole_plan_each_time_until_it_is_done() -> None:
    async with open_session(client()) as session:
        updates = await updates_of(session, "/plan")
        plans = [update for update in updates if isinstance(update, acp.Plan)]
        assert [[str(entry.status) for entry in plan.entries] for plan in plans] == [
            ["in_progress", "pending", "pending"],
            ["completed", "in_progress", "pending"],
            ["completed", "completed", "in_progress"],
            ["completed", "completed", "completed"],
        ]
        assert session.state.plan == plans[-1]


@pytest.mark.parametrize(
    ("prompt", "usage"),
    [
        ("/echo", "/echo TEXT"),
        ("/stream", "/stream N"),
        ("/stream many", "/stream N"),
        ("/stream -1", "/stream N"),
        (f"/stream {'9' * 5000}", "/stream N"),
        ("/sleep", "/sleep SECONDS"),
        ("/sleep a while", "/sleep SECONDS"),
        ("/sleep nan", "/sleep SECONDS"),
        ("/sleep inf", "/sleep SECONDS"),
        ("/sleep -1", "/sleep SECONDS"),
        ("/call", "/call SERVER TOOL [JSON]"),
        ("/call real", "/call SERVER TOOL [JSON]"),
        ("/call real add []", "/call SERVER TOOL [JSON]"),
        ("/read", "/read PATH [LINE [LIMIT]]"),
        ("/read a one", "/read PATH [LINE [LIMIT]]"),
        ("/read a 1 2 3", "/read PATH [LINE [LIMIT]]"),
        ("/write", "/write PATH TEXT"),
        ("/write a", "/write PATH TEXT"),
        ("/run", "/run COMMAND [ARGUMENT...]"),
        ("/mode", "/mode ID"),
        ("/set", "/set ID VALUE"),
        ("/set model", "/set ID VALUE"),
        ("/title  ", "/title TEXT"),
    ],
)
async def test_input_that_makes_no_sense_is_answered_with_the_usage(prompt: str, usage: str) -> None:
    async with open_session(rich_client()) as session:
        assert await ask(session, prompt) == f"Usage: {usage}"
        assert session.state.tool_calls == {}


@pytest.mark.spec("FS-02", "TERM-02", "ELIC-06", "INIT-13")
@pytest.mark.parametrize(
    ("prompt", "missing"),
    [
        ("/read a", "fs.readTextFile"),
        ("/write a b", "fs.writeTextFile"),
        ("/run ls", "terminal"),
        ("/ask", "no mode of elicitation"),
    ],
)
async def test_what_the_client_does_not_offer_is_said_in_a_friendly_way(prompt: str, missing: str) -> None:
    async with open_session(client()) as session:
        text = await ask(session, prompt)
        assert text.startswith("This client cannot do that: it")
        assert missing in text
        assert session.state.tool_calls == {}


# ------------------------------------------------------------------------------------------------------ MCP servers


@pytest.mark.spec("SETUP-24", "PROMPT-20", "PROMPT-22", "CONTENT-01")
async def test_call_asks_then_runs_the_tool_and_shows_its_result(tmp_path: Path) -> None:
    asked: list[acp.RequestPermissionRequest] = []

    async def allow(request: acp.RequestPermissionRequest) -> acp.PermissionOption | None:
        asked.append(request)
        return await ALLOW(request)

    async with open_session(client(allow), tmp_path, [mcp_server("good"), mcp_server("exit")]) as session:
        good, dead = (await ask(session, "/mcp")).split("\n- ", 1)
        assert good.startswith("- good: ready, tools: echo, where, say, ")
        assert dead.startswith("exit: failed: ")
        assert "status 3" in dead
        assert "fatal: bad config" in dead

        call, statuses = await tool_call_of(session, '/call good echo {"text": "hello  you"}')
        assert (call.title, call.name, call.raw_input) == ("good: echo", "echo", {"text": "hello  you"})
        assert statuses == ["pending", "in_progress", "completed"]
        assert text_of(call) == "hello  you"
        assert [request.tool_call.tool_call_id for request in asked] == [call.tool_call_id]

        call, statuses = await tool_call_of(session, "/call good content")
        assert len(call.content) == 5
        assert call.raw_output == {"n": 1}

        call, statuses = await tool_call_of(session, "/call good fail")
        assert (statuses, text_of(call)) == (["pending", "in_progress", "failed"], "hello")

        call, statuses = await tool_call_of(session, '/call good refuse {"text": "never"}')
        assert statuses == ["pending", "in_progress", "failed"]
        assert "no, never" in text_of(call)

        call, statuses = await tool_call_of(session, "/call exit echo")
        assert statuses == ["pending", "in_progress", "failed"]
        assert "fatal: bad config" in text_of(call)

        async with session.prompt("/call good hang") as turn:
            async for update in turn:
                if isinstance(update, acp.ToolCallUpdate) and update.status is ToolCallStatus.IN_PROGRESS:
                    turn.cancel()
        assert turn.stop_reason is acp.StopReason.CANCELLED
        call, statuses = await tool_call_of(session, '/call good echo {"text": "again"}')
        assert text_of(call) == "again"


async def test_a_rejected_permission_fails_the_call_with_the_reason(tmp_path: Path) -> None:
    async with open_session(rich_client(REJECT), tmp_path, [mcp_server("exit")]) as session:
        for prompt in ("/call exit tool", "/write a.txt text", "/run true"):
            call, statuses = await tool_call_of(session, prompt)
            assert statuses == ["pending", "failed"]
            assert text_of(call) == "Not permitted: the user chose 'Reject'."
    assert os.listdir(tmp_path) == []


async def test_a_session_without_the_named_server_says_which_there_are() -> None:
    async with open_session(client()) as session:
        assert await ask(session, "/mcp") == "This session has no MCP servers."
        assert await ask(session, "/call nobody tool") == "This session has no MCP server 'nobody', and no other."
        assert (await ask(session, '/call "no body" tool {')).startswith("The arguments are not JSON: ")
        assert (await ask(session, f"/call nobody tool {'[' * 100_000}")).startswith("The arguments are not JSON: ")
        assert (await ask(session, '/call nobody tool {"a": NaN}')) == "The arguments are not JSON: NaN is no JSON"


# ------------------------------------------------------------------------------------------------ files and terminals


@pytest.mark.spec("SETUP-57", "FS-03", "FS-04", "TOOL-16")
async def test_read_shows_a_file_or_some_of_its_lines(tmp_path: Path) -> None:
    (tmp_path / "a file.txt").write_text("one\ntwo\nthree\n")
    async with open_session(rich_client(), tmp_path) as session:
        call, statuses = await tool_call_of(session, '/read "a file.txt"')
        assert statuses == ["pending", "in_progress", "completed"]
        assert (call.kind, call.title) == (acp.ToolKind.READ, "Read a file.txt")
        assert [(location.path, location.line) for location in call.locations] == [(str(tmp_path / "a file.txt"), None)]
        assert text_of(call) == "one\ntwo\nthree\n"
        call, _ = await tool_call_of(session, f'/read "{tmp_path}/a file.txt" 2 1')
        assert text_of(call).strip() == "two"
        assert call.locations[0].line == 2


async def test_read_of_what_is_not_there_fails_with_the_reason(tmp_path: Path) -> None:
    async with open_session(rich_client(), tmp_path) as session:
        call, statuses = await tool_call_of(session, "/read missing.txt")
        assert statuses == ["pending", "in_progress", "failed"]
        assert "missing.txt" in text_of(call)
        call, statuses = await tool_call_of(session, "/read missing.txt 0")
        assert statuses == ["pending", "in_progress", "failed"]
        assert "lines count from 1" in text_of(call)


@pytest.mark.spec("SETUP-20")
async def test_files_outside_the_roots_are_left_alone(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret").write_text("secret")
    (inside / "link").symlink_to(tmp_path / "secret")
    async with open_session(rich_client(), inside) as session:
        for path in ("../secret", str(tmp_path / "secret"), "link", "/etc/hosts"):
            assert await ask(session, f"/read {path}") == f"{path} is outside the session's directories."
            assert await ask(session, f"/write {path} x") == f"{path} is outside the session's directories."
    assert (tmp_path / "secret").read_text() == "secret"


@pytest.mark.spec("TOOL-12", "FS-06")
async def test_write_shows_a_diff_and_writes(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    async with open_session(rich_client(), tmp_path) as session:
        call, statuses = await tool_call_of(session, "/write a.txt one\ntwo  ")
        assert statuses == ["pending", "in_progress", "completed"]
        assert call.kind is acp.ToolKind.EDIT
        assert call.content == [acp.Diff(path=str(path), old_text=None, new_text="one\ntwo  ")]
        assert path.read_text() == "one\ntwo  "
        call, _ = await tool_call_of(session, "/write a.txt three")
        assert call.content == [acp.Diff(path=str(path), old_text="one\ntwo  ", new_text="three")]
        assert [location.path for location in call.locations] == [str(path)]
        assert path.read_text() == "three"


async def test_a_failed_write_says_why(tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    async with open_session(rich_client(), tmp_path) as session:
        call, statuses = await tool_call_of(session, "/write directory text")
        assert statuses == ["pending", "in_progress", "failed"]
        assert text_of(call)


@pytest.mark.spec("TERM-07", "TOOL-13", "TOOL-14")
async def test_run_shows_the_terminal_and_keeps_what_came_of_it(tmp_path: Path) -> None:
    async with open_session(rich_client(), tmp_path) as session:
        call, statuses = await tool_call_of(session, '/run sh -c "pwd; exit 3"')
        assert statuses == ["pending", "in_progress", "failed"]
        assert [type(item) for item in call.content] == [Terminal]
        assert (call.kind, call.title) == (acp.ToolKind.EXECUTE, "sh -c 'pwd; exit 3'")
        assert call.raw_output == {"output": f"{tmp_path}\n", "exitCode": 3, "signal": None}
        call, statuses = await tool_call_of(session, "/run true")
        assert statuses == ["pending", "in_progress", "completed"]
        call, statuses = await tool_call_of(session, "/run /nonexistent/program")
        assert statuses == ["pending", "failed"]
        assert text_of(call)


@pytest.mark.spec("TERM-12", "CANCEL-04")
async def test_a_cancelled_run_ends_its_command(tmp_path: Path) -> None:
    pipe = tmp_path / "pid"
    os.mkfifo(pipe)
    async with open_session(rich_client(), tmp_path) as session:
        async with session.prompt('/run sh -c "echo $$ >pid; exec sleep 1000"') as turn:
            pid = int(await trio.to_thread.run_sync(pipe.read_text))
            assert is_alive(pid)
            async for update in turn:
                if isinstance(update, acp.ToolCallUpdate) and update.status is ToolCallStatus.IN_PROGRESS:
                    turn.cancel()
        assert turn.stop_reason is acp.StopReason.CANCELLED
        assert not is_alive(pid)
        (call,) = session.state.tool_calls.values()
        assert call.status is ToolCallStatus.FAILED


@pytest.mark.spec("TERM-07", "TERM-12")
async def test_a_terminal_that_was_made_for_a_turn_cancelled_meanwhile_is_released() -> None:
    async with client_of(make_agent(acp.MemoryStore()), capabilities={"terminal": True}) as peer:
        session_id = await new_session(peer)
        await say(peer, session_id, "/mode code")
        await peer.request(1, "session/prompt", prompt_of(session_id, "/run sleep 1000"))
        while (create := await peer.receive()).get("method") != "terminal/create":
            pass
        await peer.notify("session/cancel", {"sessionId": session_id})
        while (answer := await peer.receive()).get("id") != 1:
            pass
        assert result_of(answer) == {"stopReason": "cancelled"}
        await peer.answer(create, {"terminalId": "late"})
        release = await peer.receive()
        assert (release["method"], release["params"]) == (
            "terminal/release",
            {"sessionId": session_id, "terminalId": "late"},
        )
        await peer.answer(release, {})


# ----------------------------------------------------------------------------------------- modes, options, questions


@pytest.mark.spec("MODE-05", "CONF-20", "CONF-22")
async def test_modes_change_from_both_sides_and_stay_in_step_with_the_option() -> None:
    async with open_session(client()) as session:
        assert await ask(session, "/mode code") == "The mode is code now."
        assert session.state.current_mode_id == "code"
        choice = session.state.mode_choice
        assert choice is not None
        assert (choice.current, choice.config_id) == ("code", "mode")
        await session.set_mode(SessionModeId("ask"))
        assert await ask(session, "hi") == "hi"
        choice = session.state.mode_choice
        assert choice is not None
        assert choice.current == "ask"
        assert await ask(session, "/mode fly") == "That is not possible: no session mode 'fly', only ask, code."


async def test_in_code_mode_nobody_is_asked(tmp_path: Path) -> None:
    async with open_session(rich_client(REJECT), tmp_path) as session:
        await ask(session, "/mode code")
        _, statuses = await tool_call_of(session, "/write a.txt text")
        assert statuses == ["pending", "in_progress", "completed"]
    assert (tmp_path / "a.txt").read_text() == "text"


@pytest.mark.spec("CONF-17", "CONF-18", "CONF-19", "CONF-20")
async def test_config_options_change_what_is_said() -> None:
    async with open_session(rich_client()) as session:
        assert await ask(session, "/set model cockatoo") == "model is cockatoo now."
        assert await ask(session, "hello") == "HELLO"
        await session.set_config_option(SessionConfigId("think_aloud"), True)
        thought, chunk = await updates_of(session, "hello")
        assert isinstance(thought, acp.AgentThoughtChunk)
        assert isinstance(chunk, acp.AgentMessageChunk)
        assert await ask(session, "/set think_aloud OFF") == "think_aloud is OFF now."
        assert len(await updates_of(session, "hello")) == 1
        assert (await ask(session, "/set think_aloud maybe")).startswith("That is not possible: ")
        assert (await ask(session, "/set nothing on")).startswith("That is not possible: ")
        assert (await ask(session, "/set model eagle")).startswith("That is not possible: ")


@pytest.mark.spec("CONF-07")
async def test_switches_are_kept_from_clients_that_do_not_know_them() -> None:
    async with open_session(client()) as session:
        assert [option.id for option in session.state.config_options if not isinstance(option, acp.Unknown)] == [
            "mode",
            "model",
        ]


async def test_title_names_the_session() -> None:
    async with open_session(client()) as session:
        assert await ask(session, "/title  Two parrots ") == "This session is called 'Two parrots' now."
        assert session.state.title == "Two parrots"


@pytest.mark.spec("ELIC-05", "ELIC-24", "ELIC-27")
async def test_ask_tells_what_the_user_filled_in() -> None:
    async with open_session(rich_client()) as session:
        assert await ask(session, "/ask") == (
            "You said:\n- colour: grey\n- seeds: 20\n- talks: yes\n- days: Sunday\n- name: Polly\n- weight: 0.4\n"
            "You agreed to open the page.\n"
        )


async def test_ask_takes_no_for_an_answer() -> None:
    async def decline_form(request: ElicitationFormRequest) -> ElicitationAnswer:
        return ElicitationDecline()

    async def decline_url(request: ElicitationUrlRequest, facts: UrlFacts) -> ElicitationAnswer:
        return ElicitationDecline()

    declining = attrs.evolve(client(), elicit_form=decline_form, elicit_url=decline_url)
    async with open_session(declining) as session:
        assert await ask(session, "/ask") == "You did not want to say.\nYou did not want to open the page.\n"


# ------------------------------------------------------------------------------------------------- piped, not typed


class Pipe:
    """What was piped in: all of it is there at once, and so is its end."""

    def __init__(self, *messages: acp.JSON) -> None:
        self._chunks: list[list[bytes]] = [[], [json.dumps(message).encode() for message in messages]]
        self.sent: list[acp.JSONObject] = []

    async def receive(self) -> Sequence[bytes]:
        return self._chunks.pop()

    async def send(self, frames: Sequence[bytes]) -> None:
        self.sent += map(json.loads, frames)

    async def aclose(self) -> None:
        pass


async def test_what_is_piped_in_is_answered_though_its_end_is_there_before_the_first_answer() -> None:
    pipe = Pipe(
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}},
        {"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}},
        {"jsonrpc": "2.0", "id": 3, "method": "session/list", "params": {}},
    )
    await acp.serve_agent(make_agent(acp.MemoryStore()), pipe)
    assert {message["id"] for message in pipe.sent if "result" in message} == {1, 2, 3}


# ----------------------------------------------------------------------------------------------------------- login


@pytest.mark.spec("AUTH-11", "AUTH-21", "AUTH-22", "AUTH-23", "ERR-10")
async def test_sessions_need_no_login_until_somebody_logs_out() -> None:
    async with open_agent_and_client(make_agent(acp.MemoryStore()), client()) as (_, side):
        assert [method.id for method in side.auth_methods if not isinstance(method, acp.Unknown)] == ["demo"]
        async with side.new_session("/") as session:
            for log_out, log_in in (
                (lambda: ask(session, "/logout"), lambda: ask(session, "/login")),
                (side.logout, lambda: side.authenticate(AuthMethodId("demo"))),
            ):
                await log_out()
                assert await ask(session, "hi") == "hi"
                with pytest.raises(acp.AuthRequired):
                    async with side.new_session("/"):
                        pass
                await log_in()
                async with side.new_session("/"):
                    pass


@pytest.mark.spec("AUTH-08", "AUTH-10", "AUTH-11")
async def test_an_agent_that_requires_a_login_opens_no_session_before() -> None:
    async with open_agent_and_client(make_agent(acp.MemoryStore(), require_login=True), client()) as (_, side):
        with pytest.raises(acp.AuthRequired):
            async with side.new_session("/"):
                pass
        await side.authenticate(AuthMethodId("demo"))
        async with side.new_session("/") as session:
            assert await ask(session, "hi") == "hi"


# -------------------------------------------------------------------------------------------------------- showcase


def story(updates: Sequence[acp.SessionUpdate]) -> list[str]:
    """The kinds of ``updates``, runs of one kind once."""
    names = [type(update).__name__ for update in updates]
    return [name for index, name in enumerate(names) if index == 0 or names[index - 1] != name]


VARIANTS: Final = {
    acp.UserMessageChunk,
    acp.AgentMessageChunk,
    acp.AgentThoughtChunk,
    acp.ToolCall,
    acp.ToolCallUpdate,
    acp.Plan,
    AvailableCommandsUpdate,
    CurrentModeUpdate,
    ConfigOptionUpdate,
    SessionInfoUpdate,
    UsageUpdate,
    Notice,
    CompactionUpdate,
    CompactionSummaryChunk,
}


async def test_showcase_sends_every_kind_of_update_always_in_the_same_order(tmp_path: Path) -> None:
    stories = []
    for _ in range(2):
        async with open_session(rich_client(), tmp_path) as session:
            updates = await updates_of(session, "/showcase")
            assert {type(update) for update in updates} == VARIANTS
            stories.append(story(updates))
            calls = {call.title: call.status.value for call in session.state.tool_calls.values()}
            assert [*calls.values()].count("failed") == 1, calls  # the fetch, as it is meant to
            assert {*calls.values()} == {"completed", "failed"}
            assert len(session.state.notices) == 3
            assert [compaction.status for compaction in session.state.compactions.values()] == ["completed", "failed"]
            assert session.state.title == "Showcase"
            assert session.state.current_mode_id == "ask"
    assert stories[0] == stories[1]
    assert (tmp_path / "acp-showcase.txt").exists()


async def test_showcase_shows_every_kind_of_content() -> None:
    async with open_session(rich_client()) as session:
        chunks = [
            update.content
            for update in await updates_of(session, "/showcase")
            if isinstance(update, acp.AgentMessageChunk)
        ]
    kinds = [type(content) for content in chunks]
    for kind in (acp.TextContent, ImageContent, AudioContent, acp.ResourceLink, acp.schema.EmbeddedResource):
        assert kind in kinds
    resources = [content.resource for content in chunks if isinstance(content, acp.schema.EmbeddedResource)]
    assert {isinstance(resource, TextResourceContents) for resource in resources} == {True, False}


async def test_showcase_uses_only_what_the_client_announced() -> None:
    async with open_session(client(REJECT)) as session:
        updates = await updates_of(session, "/showcase")
        assert {type(update) for update in updates} == VARIANTS - {Notice, CompactionUpdate, CompactionSummaryChunk}
        (thinking,) = (call for call in session.state.tool_calls.values() if call.title == "Think about it")
        assert text_of(thinking) == "Not permitted: the user chose 'Reject'."


async def test_showcase_goes_on_when_the_client_refuses(tmp_path: Path) -> None:
    async def fail(request: ElicitationFormRequest) -> ElicitationAnswer:
        raise acp.RequestError(-1, "no window to show it in")

    async with open_session(attrs.evolve(rich_client(), elicit_form=fail), tmp_path) as session:
        text = await ask(session, "/showcase")
    assert "That did not go well: [-1] no window to show it in" in text
    assert text.endswith("That was all.")


async def test_the_showcase_in_code_mode_leaves_the_mode_as_it_was() -> None:
    async with open_session(client()) as session:
        await ask(session, "/mode code")
        await ask(session, "/showcase")
        assert session.state.current_mode_id == "code"
