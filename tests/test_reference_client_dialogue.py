"""The reference client at work: what it reads, asks and answers, and how it ends."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import attrs
import pytest
import trio
import trio.testing

import acp_ref as acp
from acp_ref._jsonrpc import JSON, JSONObject
from acp_ref._nursery import open_nursery_beside
from acp_ref.reference_client.console import Keyboard, Output
from acp_ref.reference_client.dialogue import Dialogue
from acp_ref.reference_client.program import Options, Program
from acp_ref.reference_client.screen import Screen
from acp_ref.schema import (
    AuthMethodAgent,
    AuthMethodId,
    AvailableCommand,
)
from acp_ref.testing import ScriptedPeer, open_agent_and_client, open_scripted_agent

CWD: Final = "/home/user/project"

# -------------------------------------------------------------------------------------------------------- the console


async def test_lines_of_a_file_are_prompts_one_by_one() -> None:
    with tempfile.TemporaryFile() as file:
        file.write("one\r\ntwo\n\nlöst".encode())
        file.seek(0)
        keyboard = Keyboard(file.fileno())
        assert [await keyboard.prompt() for _ in range(6)] == ["one", "two", "", "löst", None, None]


async def test_a_closed_stdin_is_an_ended_one() -> None:
    read, write = os.pipe()
    os.close(write)
    os.close(read)
    assert await Keyboard(read).prompt() is None


@pytest.fixture
def terminal_pair() -> Iterator[tuple[int, int]]:
    """The two ends of a terminal: the person's and the program's."""
    person, program = os.openpty()
    yield person, program
    os.close(person)
    os.close(program)


async def test_a_paste_is_one_prompt_and_a_command_in_it_is_its_own(terminal_pair: tuple[int, int]) -> None:
    person, program = terminal_pair
    keyboard = Keyboard(program, lambda line: line == ":quit")
    os.write(person, b"one\ntwo\n\nthree\n:quit\nfour\n")
    assert [await keyboard.prompt() for _ in range(3)] == ["one\ntwo\n\nthree", ":quit", "four"]


async def test_what_was_typed_ahead_is_a_prompt_and_never_an_answer(terminal_pair: tuple[int, int]) -> None:
    person, program = terminal_pair
    keyboard = Keyboard(program)
    os.write(person, b"1\n2\n")
    answers: list[str | None] = []

    async def ask() -> None:
        answers.append(await keyboard.answer())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert not answers
        os.write(person, b"3\n")
    assert answers == ["3"]
    assert await keyboard.prompt() == "1\n2"


async def test_ctrl_d_ends_a_question_and_not_the_keyboard(terminal_pair: tuple[int, int]) -> None:
    person, program = terminal_pair
    keyboard = Keyboard(program)

    async def type_later(text: bytes) -> None:
        await trio.testing.wait_all_tasks_blocked()
        os.write(person, text)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(type_later, b"\x04")
        assert await keyboard.answer() is None
        nursery.start_soon(type_later, b"more\n\x04")
        assert await keyboard.prompt() == "more"
        assert await keyboard.prompt() is None


async def test_output_that_nobody_reads_holds_up_nothing_but_itself() -> None:
    read, write = os.pipe()
    try:
        output = Output(write)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(output.run)
            output.write("x" * 1_000_000)
            with trio.move_on_after(0.05):
                await output.flush()
                pytest.fail("it cannot be written yet")
            size = 0
            while size < 1_000_000:
                await trio.lowlevel.wait_readable(read)
                size += len(os.read(read, 65536))
            await output.flush()
            assert output.broken is None
            os.close(read)
            output.write("more")
            await output.flush()
            assert output.broken is not None
    finally:
        os.close(write)


async def test_signs_that_an_encoding_lacks_are_replaced_by_some_that_it_has(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        output = Output(file.fileno(), "ascii")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(output.run)
            output.write("✔ plain │ ö\n")
            await output.flush()
            nursery.cancel_scope.cancel()
    assert (tmp_path / "out").read_bytes() == b"+ plain | ?\n"


# --------------------------------------------------------------------------------------------------- conversations


class Stage:
    """The reference client in memory, with a person at a terminal if there is one."""

    def __init__(self, options: Options, keyboard: int, output: Output, person: int | None) -> None:
        self.written: list[str] = []
        self._person = person
        self._output = output
        self._answered = 0
        self._screen = Screen(self._write)
        dialogue = Dialogue(self._screen, Keyboard(keyboard), output, interactive=person is not None)
        self.program = Program(options, self._screen, dialogue)

    def _write(self, text: str) -> None:
        self.written.append(text)
        self._output.write(text)

    @property
    def transcript(self) -> str:
        return "".join(self.written)

    async def wait_prompt(self, prompt: str = "> ") -> None:
        """Wait until a new ``prompt`` is on the screen."""
        with trio.fail_after(5):
            while len(self.written) == self._answered or not self._screen.at_prompt or self.written[-1] != prompt:
                await self._output.wait_written()

    async def type(self, text: str, prompt: str = "> ") -> None:
        """Type a line as soon as the ``prompt`` is on the screen."""
        assert self._person is not None
        await self.wait_prompt(prompt)
        self._answered = len(self.written)
        os.write(self._person, text.encode())


@asynccontextmanager
async def staged(options: Options, *, interactive: bool = False) -> AsyncGenerator[Stage, None]:
    """A :class:`Stage`; without a person, stdin is empty."""
    with ExitStack() as stack:
        person, keyboard = os.openpty() if interactive else (None, os.open(os.devnull, os.O_RDONLY))
        stack.callback(os.close, keyboard)
        if person is not None:
            stack.callback(os.close, person)
        sink = os.open(os.devnull, os.O_WRONLY)
        stack.callback(os.close, sink)
        output = Output(sink)
        async with open_nursery_beside() as nursery:
            nursery.start_soon(output.run)
            try:
                yield Stage(options, keyboard, output, person)
            finally:
                nursery.cancel_scope.cancel()


def options(*prompts: str) -> Options:
    return Options(command=["agent"], cwd=CWD, prompts=prompts)


async def play(agent: acp.Agent, *prompts: str, with_options: Options | None = None) -> tuple[int, str]:
    """Have the client say ``prompts`` to ``agent``; the exit status and the transcript."""
    async with staged(with_options or options(*prompts)) as stage:
        async with open_agent_and_client(agent, stage.program.client) as (_, side):
            await stage.program.converse(side)
        return stage.program.status, stage.transcript


async def refuse_second(turn: acp.PromptTurn) -> acp.StopReason:
    if turn.text == "second":
        raise acp.RequestError(-32603, "Out of order")
    await turn.send_text(turn.text.upper())
    return acp.StopReason.END_TURN


async def test_prompts_are_said_in_order() -> None:
    status, transcript = await play(acp.Agent(name="echo", version="1", prompt=refuse_second), "first", "third")
    assert status == 0
    assert "> first\nFIRST\n\n> third\nTHIRD" in transcript


async def test_a_script_stops_at_the_first_failure() -> None:
    status, transcript = await play(
        acp.Agent(name="echo", version="1", prompt=refuse_second), "first", "second", "third"
    )
    assert status == 1
    assert "The turn failed: [-32603] Out of order" in transcript
    assert "third" not in transcript


async def test_a_command_that_is_not_possible_is_a_failure_and_never_said_to_the_agent() -> None:
    heard: list[str] = []

    async def listen(turn: acp.PromptTurn) -> acp.StopReason:
        heard.append(turn.text)
        return acp.StopReason.END_TURN

    agent = acp.Agent(name="ears", version="1", prompt=listen)
    for command, reason in {
        ":mode x": "The agent has no modes.",
        ":nonsense": "There is no command :nonsense",
        ":logout": "logout needs agentCapabilities.auth.logout",
        ":sessions": "session/list needs agentCapabilities.sessionCapabilities.list",
    }.items():
        status, transcript = await play(agent, "hi", command, "no more")
        assert status == 1
        assert reason in transcript
    assert heard == ["hi"] * 4
    status, transcript = await play(agent, "::wq", ":quit", "no more")
    assert status == 0
    assert heard[4:] == [":wq"]


OPTIONS: Final[JSON] = [
    {"optionId": "a", "name": "Always", "kind": "allow_always"},
    {"optionId": "y", "name": "Yes", "kind": "allow_once"},
    {"optionId": "n", "name": "No", "kind": "reject_once"},
]


async def open_scripted(peer: ScriptedPeer, meta: JSON = None) -> None:
    """Answer session/new."""
    request = await peer.receive()
    assert request["method"] == "session/new"
    await peer.answer(request, {"sessionId": "s", "_meta": meta})


async def update(peer: ScriptedPeer, update: JSON) -> None:
    await peer.notify("session/update", {"sessionId": "s", "update": update})


async def ask_permission(peer: ScriptedPeer, permission_options: JSON = OPTIONS) -> None:
    tool_call: JSON = {"toolCallId": "call", "title": "Remove all", "kind": "delete", "rawInput": {"path": "/"}}
    await peer.request(
        "ask", "session/request_permission", {"sessionId": "s", "toolCall": tool_call, "options": permission_options}
    )


async def finish(peer: ScriptedPeer, prompt: JSONObject, stop_reason: str = "end_turn") -> None:
    await peer.answer(prompt, {"stopReason": stop_reason})


@pytest.mark.field_note(95)
@pytest.mark.spec("PERM-04", "PERM-07")
@pytest.mark.parametrize(
    ("policy", "offered", "outcome"),
    [
        ("allow", OPTIONS, {"outcome": "selected", "optionId": "y"}),
        ("reject", OPTIONS, {"outcome": "selected", "optionId": "n"}),
        ("ask", OPTIONS, {"outcome": "selected", "optionId": "n"}),
        ("allow", [{"optionId": "a", "name": "Always", "kind": "allow_always"}], {"outcome": "cancelled"}),
        ("ask", [{"optionId": "y", "name": "Yes", "kind": "allow_once"}], {"outcome": "cancelled"}),
    ],
)
async def test_without_a_person_permission_is_answered_by_kind_and_fails_closed(
    policy: str, offered: JSON, outcome: JSON
) -> None:
    async with (
        staged(attrs.evolve(options("x"), permission=policy)) as stage,
        open_scripted_agent(stage.program.client) as (side, peer),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(stage.program.converse, side)
        await open_scripted(peer)
        prompt = await peer.receive()
        await ask_permission(peer, offered)
        assert (await peer.receive())["result"] == {"outcome": outcome}
        await finish(peer, prompt)
        assert '○ Remove all  (delete, pending)\n  │ input: {"path":"/"}\n' in stage.transcript
        assert (f"--permission {policy}" if policy != "ask" else "nobody is here to ask") in stage.transcript


@pytest.mark.spec("PERM-07")
async def test_a_person_chooses_by_number_and_ctrl_d_is_a_no() -> None:
    async with (
        staged(options("x"), interactive=True) as stage,
        open_scripted_agent(stage.program.client) as (side, peer),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(stage.program.converse, side)
        await open_scripted(peer)
        prompt = await peer.receive()
        await ask_permission(peer)
        await stage.type("yes\n", "Choose 1-3: ")
        await stage.type("2\n", "Choose 1-3: ")
        assert (await peer.receive())["result"] == {"outcome": {"outcome": "selected", "optionId": "y"}}
        await ask_permission(peer)
        await stage.type("\x04", "Choose 1-3: ")
        assert (await peer.receive())["result"] == {"outcome": {"outcome": "selected", "optionId": "n"}}
        await finish(peer, prompt)
    assert "May the agent do this?\n  1  Always\n  2  Yes\n  3  No\n" in stage.transcript
    assert "Please type a number, 1-3" in stage.transcript


@pytest.mark.field_note(84)
@pytest.mark.spec("PERM-05", "CANCEL-03")
async def test_a_cancelled_turn_takes_its_question_along() -> None:
    async with (
        staged(options(), interactive=True) as stage,
        open_scripted_agent(stage.program.client) as (side, peer),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(stage.program.converse, side)
        await open_scripted(peer)
        await stage.type("go\n")
        prompt = await peer.receive()
        await ask_permission(peer)
        await stage.wait_prompt("Choose 1-3: ")
        stage.program.session.cancel()
        assert (await peer.receive())["method"] == "session/cancel"
        assert (await peer.receive())["result"] == {"outcome": {"outcome": "cancelled"}}
        await finish(peer, prompt, "cancelled")
        await stage.type(":quit\n")
    assert "(the question is not open any more)" in stage.transcript
    assert "(the turn was cancelled)" in stage.transcript


async def test_a_question_between_turns_takes_the_keyboard_from_the_prompt_and_gives_it_back() -> None:
    async with (
        staged(options(), interactive=True) as stage,
        open_scripted_agent(stage.program.client) as (side, peer),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(stage.program.converse, side)
        await open_scripted(peer)
        await stage.wait_prompt()
        await ask_permission(peer)
        await stage.type("2\n", "Choose 1-3: ")
        assert (await peer.receive())["result"] == {"outcome": {"outcome": "selected", "optionId": "y"}}
        await update(peer, {"sessionUpdate": "session_info_update", "title": "Idle news"})
        await stage.type("\x04")
    assert "title: Idle news\n\n> " in stage.transcript


FORM: Final[JSON] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name", "minLength": 3},
        "colour": {"type": "string", "oneOf": [{"const": "g", "title": "Grey"}, {"const": "w", "title": "White"}]},
        "age": {"type": "integer", "default": 7, "maximum": 100},
        "talks": {"type": "boolean", "default": True},
        "days": {"type": "array", "items": {"type": "string", "enum": ["Sat", "Sun"]}},
        "odd": {"type": "hologram"},
    },
    "required": ["name"],
}


@asynccontextmanager
async def elicited(params: JSONObject) -> AsyncGenerator[tuple[Stage, ScriptedPeer], None]:
    """A person who is asked something in a turn; afterwards the turn ends and the person leaves."""
    async with (
        staged(options(), interactive=True) as stage,
        open_scripted_agent(stage.program.client) as (side, peer),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(stage.program.converse, side)
        await open_scripted(peer)
        await stage.type("go\n")
        prompt = await peer.receive()
        await peer.request("ask", "elicitation/create", {"sessionId": "s", "message": "Tell me.", **params})
        yield stage, peer
        await finish(peer, prompt)
        await stage.type("\x04")


@pytest.mark.spec("ELIC-01", "ELIC-02", "ELIC-04", "ELIC-12", "ELIC-14", "ELIC-22", "ELIC-41")
async def test_a_form_is_filled_in_checked_looked_over_and_sent() -> None:
    async with elicited({"mode": "form", "requestedSchema": FORM}) as (stage, peer):
        await stage.type("Al\n", "Name: ")
        await stage.type("Polly\n", "Name: ")
        await stage.type("White\n", "colour (1-2) (optional): ")
        await stage.type("700\n", "age (whole number) (optional) [7]: ")
        await stage.type("\n", "age (whole number) (optional) [7]: ")
        await stage.type("n\n", "talks (y/n) (optional) [yes]: ")
        await stage.type("2, 1\n", "days (1-2, with commas) (optional): ")
        await stage.type("5\n", "Choose 1-8: ")
        await stage.type("-\n", "colour (1-2) (optional) [White]: ")
        await stage.type("1\n", "Choose 1-8: ")
        assert (await peer.receive())["result"] == {
            "action": "accept",
            "content": {"name": "Polly", "age": 7, "talks": False, "days": ["Sun", "Sat"]},
        }
    assert "the agent asks:\nTell me.\n" in stage.transcript
    assert "(the field 'odd' is of a kind that this client does not know)" in stage.transcript
    assert "at least 3 characters" in stage.transcript
    assert "at most 100" in stage.transcript
    assert "  7  change talks: no\n  8  change days: Sun, Sat\n" in stage.transcript


@pytest.mark.spec("ELIC-38")
async def test_nothing_that_an_agent_says_becomes_a_link() -> None:
    link = "\x1b]8;;https://evil.example/\x1b\\your bank\x1b]8;;\x1b\\"
    values: list[JSON] = [{"const": name, "title": f"{link} {name}"} for name in ("a", "b")]
    choice: JSON = {"type": "string", "title": "Bank", "description": link, "oneOf": values}
    form: JSON = {"type": "object", "title": link, "description": link, "properties": {"x": choice}}
    async with elicited({"mode": "form", "message": link, "requestedSchema": form}) as (stage, peer):
        await stage.type("\x04", "Bank (1-2) (optional): ")
        assert (await peer.receive())["result"] == {"action": "cancel"}
    async with elicited({"mode": "url", "message": link, "url": "https://good.example/", "elicitationId": "e"}) as (
        by_url,
        peer,
    ):
        await by_url.type("2\n", "Choose 1-3: ")
        assert (await peer.receive())["result"] == {"action": "decline"}
    for transcript in (stage.transcript, by_url.transcript):
        assert "your bank" in transcript
        assert "\x1b]" not in transcript


@pytest.mark.spec("ELIC-20")
@pytest.mark.parametrize(
    ("keys", "action"), [(["Polly\n", "\x04"], "cancel"), (["Polly\n", "2\n"], "decline"), (["\x04"], "cancel")]
)
async def test_a_form_can_be_declined_or_put_aside(keys: list[str], action: str) -> None:
    form: JSON = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    async with elicited({"mode": "form", "requestedSchema": form}) as (stage, peer):
        for key, prompt in zip(keys, ["name: ", "Choose 1-4: "], strict=False):
            await stage.type(key, prompt)
        assert (await peer.receive())["result"] == {"action": action}


@pytest.mark.spec("ELIC-03", "ELIC-18", "ELIC-34", "ELIC-35", "ELIC-37")
@pytest.mark.parametrize(
    ("key", "action"), [("1\n", "accept"), ("2\n", "decline"), ("3\n", "cancel"), ("\x04", "cancel")]
)
async def test_a_url_is_shown_in_full_with_its_host_and_its_oddities_and_never_opened(key: str, action: str) -> None:
    url = "http://xn--80ak6aa92e.example/" + "long/" * 50
    async with elicited({"mode": "url", "url": url, "elicitationId": "e"}) as (stage, peer):
        await stage.type(key, "Choose 1-3: ")
        assert (await peer.receive())["result"] == {"action": action}
        if action == "accept":
            await peer.notify("elicitation/complete", {"elicitationId": "e"})
    assert f"\n{url}\n" in stage.transcript
    assert "It leads to xn--80ak6aa92e.example\n" in stage.transcript
    assert "Careful: the connection is not encrypted" in stage.transcript
    assert ("(the agent says that the page is done with)" in stage.transcript) == (action == "accept")


@pytest.mark.spec("ELIC-23")
async def test_without_a_person_a_question_is_put_aside() -> None:
    async with (
        staged(options("x")) as stage,
        open_scripted_agent(stage.program.client) as (side, peer),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(stage.program.converse, side)
        await open_scripted(peer)
        prompt = await peer.receive()
        params: JSONObject = {"sessionId": "s", "message": "Tell me.", "mode": "form", "requestedSchema": FORM}
        await peer.request("ask", "elicitation/create", params)
        assert (await peer.receive())["result"] == {"action": "cancel"}
        await finish(peer, prompt)


class Guard:
    """A login that works at the second try."""

    def __init__(self) -> None:
        self.tries = 0

    @property
    def is_in(self) -> bool:
        return self.tries > 1

    async def authenticate(self, method_id: AuthMethodId) -> None:
        self.tries += 1
        if not self.is_in:
            raise acp.RequestError(-32603, "Wrong door")

    def agent(self) -> acp.Agent:
        return acp.Agent(
            name="guarded",
            version="1",
            prompt=refuse_second,
            authentication=acp.Authentication(
                methods=[AuthMethodAgent(id=AuthMethodId("key"), name="Key", description="Under the mat")],
                authenticate=self.authenticate,
                logged_in=lambda: self.is_in,
            ),
        )


@pytest.mark.spec("AUTH-08", "AUTH-11", "AUTH-23")
async def test_a_person_logs_in_when_the_agent_wants_it_and_the_session_opens() -> None:
    guard = Guard()
    async with (
        staged(options("hi"), interactive=True) as stage,
        open_agent_and_client(guard.agent(), stage.program.client) as (_, side),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(stage.program.converse, side)
        await stage.type("1\n", "Log in by 1: ")
        await stage.type("1\n", "Log in by 1: ")
    assert stage.program.status == 0
    assert "  1  Key: Under the mat\n" in stage.transcript
    assert "The login failed: [-32603] Wrong door\n" in stage.transcript
    assert "Logged in by Key.\n" in stage.transcript
    assert stage.transcript.endswith("> hi\nHI")


async def test_without_a_person_a_wanted_login_is_an_error_that_names_the_ways_in() -> None:
    with pytest.raises(acp.AuthRequired):
        await play(Guard().agent(), "hi")


@pytest.mark.field_note(51)
@pytest.mark.spec("SETUP-31", "SETUP-38")
async def test_a_server_whose_transport_the_agent_has_not_is_named_and_nothing_is_sent() -> None:
    web = acp.McpServerHttp(name="web", url="http://x", headers=[])
    async with (
        staged(attrs.evolve(options("hi"), mcp_servers=[web])) as stage,
        open_scripted_agent(stage.program.client) as (side, peer),
    ):
        with pytest.raises(acp.CapabilityError, match=r"'web'.*mcpCapabilities\.http"):
            await stage.program.converse(side)
        assert await peer.receive_all() == []


async def test_sessions_can_be_listed_loaded_and_resumed() -> None:
    agent = acp.Agent(name="echo", version="1", prompt=refuse_second, store=acp.MemoryStore())
    _, transcript = await play(agent, "first")
    _, transcript = await play(agent, with_options=attrs.evolve(options(), list_sessions=True))
    session_id, *columns = transcript.rstrip("\n").split("\t")
    assert columns[-1] == CWD
    _, transcript = await play(agent, with_options=attrs.evolve(options("again"), load=session_id))
    assert "--- what was said before ---\n\n> first\nFIRST\n\n--- end of" in transcript
    assert transcript.endswith("> again\nAGAIN")
    _, transcript = await play(agent, with_options=attrs.evolve(options("again"), resume=session_id))
    assert "first" not in transcript
    _, transcript = await play(agent, f":delete {session_id}x", ":sessions", ":sessions /elsewhere")
    assert session_id in transcript
    assert "(no sessions)" in transcript


async def test_a_person_at_the_prompt_hears_at_once_that_the_agent_has_gone() -> None:
    async with (
        staged(options(), interactive=True) as stage,
        open_scripted_agent(stage.program.client) as (side, peer),
        trio.open_nursery() as nursery,
    ):

        async def go() -> None:
            await open_scripted(peer)
            await stage.wait_prompt()
            peer.close_send()

        nursery.start_soon(go)
        with pytest.raises(trio.BrokenResourceError, match="the agent closed the connection"):
            await stage.program.converse(side)


async def test_help_names_the_commands_of_both() -> None:
    agent = acp.Agent(
        name="echo", version="1", prompt=refuse_second, commands=[AvailableCommand(name="x", description="Does x")]
    )
    _, transcript = await play(agent, "hi", ":help")
    assert "  :quit             leave, as Ctrl-D does\n" in transcript
    assert "  /x                Does x\n" in transcript


# ------------------------------------------------------------------------------------------------------- processes


def run_client(*arguments: str, agent: Sequence[str] = (), stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "acp_ref", "client", *arguments, "--", *agent]
    return subprocess.run(command, check=False, input=stdin, capture_output=True, text=True, timeout=30)


@pytest.fixture
def reference_agent(tmp_path: Path) -> list[str]:
    return [sys.executable, "-m", "acp_ref", "agent", "--sessions", str(tmp_path / "sessions")]


def test_a_script_talks_to_the_reference_agent(tmp_path: Path, reference_agent: list[str]) -> None:
    (tmp_path / "note.txt").write_text("one\ntwo\n")
    mcp = tmp_path / "mcp.json"
    mcp.write_text('{"mcpServers": {"dead": {"command": "/nowhere/server"}}}')
    wire = tmp_path / "wire.jsonl"
    ran = run_client(
        *("--cwd", str(tmp_path), "--mcp", str(mcp), "--wire", str(wire), "--permission", "allow"),
        *("--prompt", "hello", "--prompt", "/read note.txt 2", "--prompt", "/run echo hi", "--prompt", ":mode code"),
        agent=reference_agent,
    )
    assert ran.stderr == ""
    assert ran.returncode == 0
    header, _, rest = ran.stdout.partition("\n")
    assert header.startswith("ACP reference agent ")
    assert "MCP server 'dead' failed: " in rest
    assert "\n> hello\nhello\n" in rest
    assert "✔ Read note.txt" in rest
    assert "  │ $ echo hi\n" in rest
    assert "  │ hi\n  │ (exit status 0)\n" in rest
    assert "\n> :mode code\n" in rest
    assert b'"session/new"' in wire.read_bytes()


def test_prompts_can_come_from_a_pipe(tmp_path: Path, reference_agent: list[str]) -> None:
    ran = run_client(agent=reference_agent, stdin="one\ntwo")
    assert ran.returncode == 0
    assert ran.stdout.endswith("\n> one\none\n\n> two\ntwo\n")
    listed = run_client("--list", agent=reference_agent)
    assert listed.stdout.startswith("sess_")
    assert listed.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "agent", "status", "error"),
    [
        ([], [], 2, "acp-ref client: which agent? Give its program and arguments after --\n"),
        (["--cwd", "/nowhere/x"], ["x"], 2, "acp-ref client: --cwd: /nowhere/x is not a directory\n"),
        (["--mcp", "/nowhere/mcp.json"], ["x"], 2, "acp-ref client: /nowhere/mcp.json: No such file or directory\n"),
        (["--wire", "/nowhere/wire"], ["x"], 2, "No such file or directory: '/nowhere/wire'\n"),
        ([], ["/nowhere/agent"], 1, "acp-ref client: the agent '/nowhere/agent' could not be started: No such file"),
        (
            [],
            [sys.executable, "-c", "raise SystemExit('no luck')"],
            1,
            "ended with exit status 1; stderr: no luck\n",
        ),
        ([], [sys.executable, "-c", "1/0"], 1, "the end of its stderr:\n  Traceback (most recent call last):\n"),
    ],
)
def test_what_may_go_wrong_is_one_error_and_no_traceback_of_ours(
    arguments: list[str], agent: list[str], status: int, error: str
) -> None:
    ran = run_client(*arguments, "--prompt", "x", agent=agent)
    assert ran.returncode == status
    assert error in ran.stderr
    assert "reference_client" not in ran.stderr
    assert ran.stdout == ""


CRASH: Final = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if request["method"] == "session/prompt":
        sys.exit("out of seeds")
    result = {"initialize": {"protocolVersion": 1}, "session/new": {"sessionId": "s"}}[request["method"]]
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""


def test_an_agent_that_crashes_in_a_turn_is_told_with_its_status_and_last_words() -> None:
    ran = run_client("--prompt", "x", "--prompt", "y", agent=[sys.executable, "-c", CRASH])
    assert ran.returncode == 1
    assert ran.stderr.endswith("ended with exit status 1; stderr: out of seeds\n")
    assert ran.stdout.endswith("> x\n")


def test_a_reader_that_has_seen_enough_ends_the_client_quietly(reference_agent: list[str]) -> None:
    command = [sys.executable, "-m", "acp_ref", "client", "--prompt", "/stream 2000", "--prompt", "/sleep 60"]
    with subprocess.Popen(
        [*command, "--", *reference_agent], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as client:
        assert client.stdout is not None
        client.stdout.readline()
        client.stdout.close()
        assert client.stderr is not None
        assert client.stderr.read() == ""
        assert client.wait(20) == 141


def test_a_reader_that_reads_no_more_cannot_keep_the_client(reference_agent: list[str]) -> None:
    read, write = os.pipe()
    try:
        command = [sys.executable, "-m", "acp_ref", "client", "--prompt", "/stream 100000", "--", *reference_agent]
        client = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=write)
        poll = select.poll()
        poll.register(write, select.POLLOUT)
        deadline = time.monotonic() + 20
        while poll.poll(0) and time.monotonic() < deadline:  # until the pipe is full
            time.sleep(0.01)
        client.send_signal(signal.SIGTERM)
        assert client.wait(20) == 128 + signal.SIGTERM
    finally:
        os.close(read)
        os.close(write)


def read_bounded(fifo: Path) -> str:
    """What somebody writes into ``fifo``, within ten seconds."""
    fd = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert select.select([fd], [], [], 10)[0]
        return os.read(fd, 1000).decode()
    finally:
        os.close(fd)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_no_process_is_left_after_a_signal(signum: signal.Signals, tmp_path: Path, reference_agent: list[str]) -> None:
    os.mkfifo(pids := tmp_path / "pids")
    stubborn = "trap '' TERM; " if signum == signal.SIGTERM else ""
    (tmp_path / "run.sh").write_text(f"{stubborn}sleep 60 & echo $$ $PPID $! > {pids}; wait; wait")
    client = subprocess.Popen(
        [
            *(sys.executable, "-m", "acp_ref", "client", "--permission", "allow", "--cwd", str(tmp_path)),
            *("--prompt", "/run sh run.sh", "--", *reference_agent),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with client:
        assert client.stdout is not None
        for line in client.stdout:
            if "$ sh run.sh" in line:
                break
        leader, parent, child = map(int, read_bounded(pids).split())
        client.send_signal(signum)
        if signum == signal.SIGINT:  # the first one cancels the turn
            client.send_signal(signum)
        _, err = client.communicate(timeout=20)
    assert client.returncode == 128 + signum
    assert err == ""
    assert parent == client.pid
    assert not is_alive(leader)
    assert not is_alive(child)
