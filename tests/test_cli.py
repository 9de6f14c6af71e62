"""The command line, and the reference agent as a process: what a client sees that starts it, and what is left of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import trio

import acp_ref as acp
from acp_ref.cli import main
from acp_ref.permissions import answer_with
from acp_ref.schema import SessionModeId
from acp_ref.session_state import Message, SessionState
from tests.conversations import code_of, result_of

ROOT: Final = Path(__file__).parent.parent
NASTY: Final = str(ROOT / "tests" / "mcp_fixtures" / "nasty.py")
AGENT: Final = [sys.executable, "-m", "acp_ref", "agent"]
INITIALIZE: Final[acp.JSONObject] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": 1},
}


def request(request_id: int, method: str, **params: acp.JSON) -> acp.JSONObject:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def piped(sessions: Path, *messages: acp.JSON, options: Sequence[str] = ()) -> subprocess.CompletedProcess[bytes]:
    """Everything the agent does about ``messages`` that come through a pipe which then closes."""
    lines = "".join(json.dumps(message) + "\n" for message in messages)
    return subprocess.run(
        [*AGENT, "--sessions", str(sessions), *options], input=lines.encode(), capture_output=True, timeout=30, cwd=ROOT
    )


def answers(done: subprocess.CompletedProcess[bytes]) -> list[acp.JSONObject]:
    return [json.loads(line) for line in done.stdout.splitlines()]


# --------------------------------------------------------------------------------------------------- the command line


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_help_names_all_commands(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(arguments)
    except SystemExit as exc:
        status = int(exc.code or 0)
    assert status == (0 if arguments else 2)
    printed = capsys.readouterr().out
    for command in ("agent", "client", "demo", "spec"):
        assert f"\n    {command} " in printed


def test_each_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for command, option in (
        ("agent", "--sessions"),
        ("client", "--permission"),
        ("demo", "--wire"),
        ("spec", "ID|PAGE"),
    ):
        with pytest.raises(SystemExit) as exited:
            main([command, "--help"])
        assert exited.value.code == 0
        assert option in capsys.readouterr().out


def test_the_version_is_the_package_s() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "acp_ref", "--version"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout == f"acp-ref {acp.__version__}\n"


def test_an_unknown_command_is_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["fly"])
    assert exited.value.code == 2
    assert "agent" in capsys.readouterr().err


def test_spec_shows_the_register(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spec", "SETUP-18"]) == 0
    assert "session-setup#working-directory" in capsys.readouterr().out
    assert main(["spec", "NOPE-99"]) == 2


def test_spec_ends_quietly_when_nobody_reads_on() -> None:
    command = f"{sys.executable} -m acp_ref spec SETUP | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=30, cwd=ROOT)
    assert done.stdout.splitlines()[-1] == "0"
    assert done.stderr == ""


def test_a_command_loads_no_other_and_nothing_heavy(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom acp_ref.cli import main\nmain(sys.argv[1:])\n"
        "heavy = {'mcp', 'anyio', 'asyncio', 'pydantic', 'httpx', 'acp_ref.demo', 'acp_ref.reference_client'}\n"
        "print(*(heavy & sys.modules.keys()), file=sys.stderr)"
    )
    new = request(2, "session/new", cwd="/", mcpServers=[])
    done = subprocess.run(
        [sys.executable, "-c", program, "agent", "--sessions", str(tmp_path)],
        input=f"{json.dumps(INITIALIZE)}\n{json.dumps(new)}\n".encode(),
        capture_output=True,
        timeout=30,
        cwd=ROOT,
    )
    assert len(answers(done)) == 3
    assert done.stderr.strip() == b""


# ------------------------------------------------------------------------------------------------- what is piped in


@pytest.mark.spec("TRANS-04", "TRANS-06", "TRANS-11", "INIT-04")
def test_initialize_and_a_session_piped_in_at_once_are_both_answered(tmp_path: Path) -> None:
    done = piped(tmp_path / "sessions", INITIALIZE, request(2, "session/new", cwd="/", mcpServers=[]))
    assert (done.returncode, done.stderr) == (0, b"")
    first, second, *rest = answers(done)
    assert (first["id"], second["id"]) == (1, 2)
    assert "agentCapabilities" in json.dumps(first["result"])
    assert "sessionId" in json.dumps(second["result"])
    assert [update.get("method") for update in rest] == ["session/update"]  # the slash commands


def test_what_is_piped_in_behind_is_answered_as_well(tmp_path: Path) -> None:
    done = piped(
        tmp_path,
        INITIALIZE,
        request(2, "session/new", cwd="/", mcpServers=[]),
        request(3, "session/prompt", sessionId="nobody", prompt=[{"type": "text", "text": "hello"}]),
        request(4, "session/list"),
    )
    assert (done.returncode, done.stderr) == (0, b"")
    by_id = {answer["id"]: answer for answer in answers(done) if "id" in answer}
    assert by_id.keys() == {1, 2, 3, 4}
    assert code_of(by_id[3]) == -32002


def test_nothing_piped_in_is_the_end(tmp_path: Path) -> None:
    done = piped(tmp_path / "sessions")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert not (tmp_path / "sessions").exists()


def test_wire_writes_every_message_without_secrets(tmp_path: Path) -> None:
    wire = tmp_path / "wire.jsonl"
    secret: acp.JSONObject = {"name": "k", "value": "s3cret"}
    server: acp.JSONObject = {"type": "http", "name": "x", "url": "http://127.0.0.1:1/", "headers": [secret]}
    done = piped(
        tmp_path,
        INITIALIZE,
        request(2, "session/new", cwd="relative", mcpServers=[server]),
        options=["--wire", str(wire)],
    )
    assert done.returncode == 0
    written = [json.loads(line) for line in wire.read_text().splitlines()]
    assert sorted((line["direction"], line["message"]["id"]) for line in written) == [
        ("received", 1),
        ("received", 2),
        ("sent", 1),
        ("sent", 2),
    ]
    assert "s3cret" not in wire.read_text()


def test_what_is_ignored_is_logged_when_asked_for(tmp_path: Path) -> None:
    cancel: acp.JSONObject = {"jsonrpc": "2.0", "method": "session/fly", "params": {}}
    assert piped(tmp_path, INITIALIZE, cancel).stderr == b""
    logged = piped(tmp_path, INITIALIZE, cancel, options=["--verbose"]).stderr
    assert logged.endswith(b"acp-ref agent: ignored session/fly: nobody handles it\n")


def test_a_wire_file_that_cannot_be_written_is_said_in_one_line(tmp_path: Path) -> None:
    done = piped(tmp_path, INITIALIZE, options=["--wire", str(tmp_path / "no" / "such" / "directory")])
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"acp-ref agent: [Errno 2]")
    assert len(done.stderr.splitlines()) == 1


def test_a_closed_stdin_is_said_in_one_line(tmp_path: Path) -> None:
    command = f"exec {sys.executable} -m acp_ref agent --sessions {tmp_path} <&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, timeout=30, cwd=ROOT)
    assert (done.returncode, done.stdout) == (1, b"")
    assert len(done.stderr.splitlines()) == 1


# ---------------------------------------------------------------------------------------------------------- its end


class Agent:
    """The agent as a process, spoken to in plain JSON."""

    def __init__(self, process: trio.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self.stdin = process.stdin
        self._stdout = process.stdout
        self._buffer = b""

    async def send(self, *messages: acp.JSON) -> None:
        await self.stdin.send_all(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    async def receive(self) -> acp.JSONObject:
        while b"\n" not in self._buffer:
            chunk = await self._stdout.receive_some()
            assert chunk, "the agent closed its stdout"
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        message = json.loads(line)
        assert isinstance(message, dict)
        return message

    async def receive_until(self, text: str) -> acp.JSONObject:
        """The next message that contains ``text``."""
        while text not in json.dumps(message := await self.receive()):
            pass
        return message

    async def call(self, request_id: int, method: str, **params: acp.JSON) -> acp.JSONObject:
        await self.send(request(request_id, method, **params))
        while (message := await self.receive()).get("id") != request_id:
            pass
        return message


@asynccontextmanager
async def open_agent(sessions: Path, command: Sequence[str] = AGENT) -> AsyncGenerator[Agent, None]:
    process = await trio.lowlevel.open_process(
        [*command, "--sessions", str(sessions)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with process.stdin, process.stdout, process.stderr:
            with trio.fail_after(20):
                agent = Agent(process)
                await agent.send(INITIALIZE)
                await agent.receive()
                yield agent
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


def processes_with(tag: str) -> list[int]:
    """The ids of all processes that have ``tag`` on their command line."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if tag.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(int(pid))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


async def begin_a_long_call(agent: Agent, cwd: Path, tag: str) -> None:
    """A turn that waits for a tool of an MCP server, a child of the agent."""
    args: list[acp.JSON] = ["-I", "-S", NASTY, "parent", tag]
    server: acp.JSONObject = {"name": "slow", "command": sys.executable, "args": args, "env": []}
    session_id = result_of(await agent.call(2, "session/new", cwd=str(cwd), mcpServers=[server]))["sessionId"]
    await agent.call(3, "session/prompt", sessionId=session_id, prompt=[{"type": "text", "text": "/mode code"}])
    call: acp.JSONObject = {"type": "text", "text": "/call slow hang"}
    await agent.send(request(4, "session/prompt", sessionId=session_id, prompt=[call]))
    await agent.receive_until("in_progress")
    assert len(processes_with(tag)) == 2, "the server, and the child that it leaves behind"


@pytest.mark.field_note(11)
@pytest.mark.field_note(56)
@pytest.mark.spec("TRANS-12")
async def test_the_end_of_input_in_a_turn_ends_the_agent_and_all_its_children(tmp_path: Path) -> None:
    tag = f"tag-{tmp_path.name}-{os.getpid()}"
    async with open_agent(tmp_path) as agent:
        await begin_a_long_call(agent, tmp_path, tag)
        began = trio.current_time()
        await agent.stdin.aclose()
        answer = await agent.receive_until('"id": 4')
        assert answer["result"] == {"stopReason": "cancelled"}
        assert await agent.process.wait() == 0
        assert trio.current_time() - began < 2
    assert processes_with(tag) == []


@pytest.mark.field_note(56)
async def test_a_request_to_terminate_in_a_turn_ends_the_agent_and_all_its_children(tmp_path: Path) -> None:
    tag = f"tag-{tmp_path.name}-{os.getpid()}"
    async with open_agent(tmp_path) as agent:
        await begin_a_long_call(agent, tmp_path, tag)
        began = trio.current_time()
        agent.process.terminate()
        assert await agent.process.wait() == 128 + signal.SIGTERM
        assert trio.current_time() - began < 2
    assert processes_with(tag) == []


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda signum: signum.name)
async def test_a_signal_ends_the_agent_without_a_traceback(signum: signal.Signals, tmp_path: Path) -> None:
    async with open_agent(tmp_path) as agent:
        agent.process.send_signal(signum)
        assert await agent.process.wait() == 128 + signum
        assert agent.process.stderr is not None
        assert await agent.process.stderr.receive_some() == b""


async def test_a_signal_that_was_ignored_before_stays_ignored(tmp_path: Path) -> None:
    command = ["sh", "-c", 'trap "" HUP INT; exec "$@"', "sh", *AGENT]
    async with open_agent(tmp_path, command) as agent:
        agent.process.send_signal(signal.SIGHUP)
        agent.process.send_signal(signal.SIGINT)
        assert "result" in await agent.call(2, "session/new", cwd="/", mcpServers=[])


# ---------------------------------------------------------------------------------------------------------- restart


def summary(state: SessionState) -> list[object]:
    """All that a user sees of a session; a message of the user has no id before it is replayed."""
    entries = [(entry.role, entry.content) if isinstance(entry, Message) else repr(entry) for entry in state.timeline]
    return [*entries, state.plan, state.title, state.current_mode_id, state.config_options, state.usage]


@pytest.mark.field_note(66)
@pytest.mark.spec("SETUP-11", "SETUP-12", "SETUP-13", "SETUP-16")
async def test_a_session_survives_the_agent_and_loads_as_it_was_in_another_client(tmp_path: Path) -> None:
    command = [*AGENT, "--sessions", str(tmp_path / "sessions")]
    cwd = tmp_path / "project"
    cwd.mkdir()

    def client() -> acp.Client:
        return acp.Client(
            name="test",
            version="1",
            request_permission=answer_with(acp.PermissionOptionKind.ALLOW_ONCE),
            file_system=acp.FileSystem(),
            terminals=True,
        )

    async with acp.open_agent_process(command, client()) as agent, agent.new_session(str(cwd)) as session:
        for prompt in ("hello", "/showcase", "/plan", "/write a.txt text", "/mode code", "/title Two parrots", "bye"):
            async with session.prompt(prompt) as turn:
                assert await turn.wait() is acp.StopReason.END_TURN
        lived = summary(session.state)

    async with acp.open_agent_process(command, client()) as agent:
        (listed,) = [info async for info in agent.list_sessions()]
        assert (listed.session_id, listed.title, listed.cwd) == (session.id, "Two parrots", str(cwd))
        async with agent.load_session(session.id, str(cwd)) as loaded:
            assert summary(loaded.state) == lived
            assert loaded.state.current_mode_id == SessionModeId("code")
            async with loaded.prompt("still there?") as turn:
                assert await turn.text() == "still there?"
        lived = summary(loaded.state)

    async with acp.open_agent_process(command, client()) as agent:
        async with agent.load_session(session.id, str(cwd)) as loaded:
            assert summary(loaded.state) == lived
        await agent.delete_session(session.id)
        assert [info async for info in agent.list_sessions()] == []


@pytest.mark.spec("SETUP-47", "SETUP-48")
async def test_a_session_is_resumed_in_silence_and_keeps_its_mode(tmp_path: Path) -> None:
    command = [*AGENT, "--sessions", str(tmp_path)]
    client = acp.Client(name="test", version="1", request_permission=answer_with(acp.PermissionOptionKind.REJECT_ONCE))
    async with (
        acp.open_agent_process(command, client) as agent,
        agent.new_session("/") as session,
        session.prompt("/mode code") as turn,
    ):
        await turn.wait()
    async with acp.open_agent_process(command, client) as agent, agent.resume_session(session.id, "/") as resumed:
        assert (resumed.replay, list(resumed.state.timeline)) == ([], [])
        assert resumed.state.current_mode_id == SessionModeId("code")
