"""Terminal authentication with real processes, and in a real terminal.

https://agentclientprotocol.com/protocol/authentication#terminal-authentication
"""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, final

import pytest
import trio

from acp_ref._converter import structure
from acp_ref._jsonrpc import loads
from acp_ref.authentication import TerminalLoginRequired
from acp_ref.client import open_agent_process, use_agent_process
from acp_ref.client_side import ClientSide
from acp_ref.schema import AuthMethod, AuthMethodId, AuthMethodTerminal
from acp_ref.terminal_login import LoginCommand, LoginFailed, login_command, run_in_terminal
from tests.conversations import CWD, make_client

PROGRAMS: Final = str(Path(__file__).parent / "peers" / "login_programs.py")

PATIENCE: Final = 60.0
"""Seconds that a step with real processes may take on a loaded machine."""

METHOD: Final = AuthMethodTerminal(
    id=AuthMethodId("tui"), name="In a terminal", args=["--login", "now"], env={"BASE": "theirs", "NEW": "1"}
)


def shell(script: str) -> LoginCommand:
    return LoginCommand(command=["/bin/sh", "-c", script], env={})


async def choose_first(methods: Sequence[AuthMethod]) -> AuthMethod:
    return methods[0]


# -------------------------------------------------------------------------------------------------- what is started


@pytest.mark.spec("AUTH-12", "AUTH-13")
def test_a_login_is_the_configured_program_with_the_methods_arguments_and_variables_on_top() -> None:
    login = login_command(METHOD, ["agent", "--acp"], env={"BASE": "ours", "KEPT": "1"}, cwd="/opt")
    assert login == LoginCommand(
        command=["agent", "--acp", "--login", "now"], env={"BASE": "theirs", "KEPT": "1", "NEW": "1"}, cwd="/opt"
    )
    assert "theirs" not in repr(login)  # it may be a secret
    plain = AuthMethodTerminal(id=AuthMethodId("tui"), name="In a terminal")
    assert login_command(plain, ["agent"]) == LoginCommand(command=["agent"], env={})


@pytest.mark.spec("AUTH-16")
def test_a_command_in_the_descriptor_is_not_even_read() -> None:
    raw = loads(
        b'{"type":"terminal","id":"x","name":"X","command":"evil","cwd":"/evil","_meta":{"terminal-auth":{"command":"evil"}}}'
    )
    method = structure(AuthMethod, raw)
    assert isinstance(method, AuthMethodTerminal)
    assert login_command(method, ["agent"]) == LoginCommand(command=["agent"], env={})


# ----------------------------------------------------------------------------------------------------- how it ended


@pytest.mark.spec("AUTH-14")
@pytest.mark.parametrize(("script", "status"), [("exit 0", 0), ("exit 3", 3), ("kill -TERM $$", -signal.SIGTERM)])
async def test_the_exit_status_is_what_counts(script: str, status: int) -> None:
    with trio.fail_after(PATIENCE):
        assert await run_in_terminal(shell(script)) == status


async def test_a_login_gets_its_variables_and_its_directory(tmp_path: Path) -> None:
    login = LoginCommand(command=["/bin/sh", "-c", 'echo "$BASE" > out'], env={"BASE": "x"}, cwd=str(tmp_path))
    with trio.fail_after(PATIENCE):
        assert await run_in_terminal(login) == 0
    assert (tmp_path / "out").read_text() == "x\n"


async def test_a_login_that_cannot_be_started_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        await run_in_terminal(LoginCommand(command=["/no/such/program"], env={}))


async def test_a_cancelled_login_is_ended_with_all_it_started(tmp_path: Path) -> None:
    started = tmp_path / "started"
    os.mkfifo(started)
    script = f"sleep 60 & echo $! $$ > {started}; wait"
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_in_terminal, shell(script))
            pids = await trio.Path(started).read_text()  # waits for the other end
            assert [runs(int(pid)) for pid in pids.split()] == [True, True]
            nursery.cancel_scope.cancel()
    assert [runs(int(pid)) for pid in pids.split()] == [False, False]


def runs(pid: int) -> bool:
    """Whether there is such a process. A zombie, which waits for its parent to look at it, is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in b"ZX"
    except FileNotFoundError:
        return False


async def test_without_a_terminal_a_login_that_stops_stops_nobody_else() -> None:
    with trio.fail_after(PATIENCE):
        assert await run_in_terminal(shell("(sleep 0.5; kill -CONT $$) & kill -STOP $$; exit 4")) == 4


# ---------------------------------------------------------------------------------------------- with a whole agent


@pytest.mark.spec("AUTH-12", "AUTH-13", "AUTH-15", "AUTH-18", "AUTH-19", "ERR-10")
async def test_after_a_terminal_login_the_agent_is_started_again_and_used_once_more(tmp_path: Path) -> None:
    token = tmp_path / "token"
    wire: list[str] = []
    used: list[ClientSide] = []

    def watch(direction: Literal["sent", "received"], frame: bytes) -> None:
        message = loads(frame)
        if direction == "sent" and isinstance(message, dict):
            wire.append(str(message.get("method")))

    async def converse(agent: ClientSide) -> str:
        used.append(agent)
        async with agent.new_session(CWD) as session, session.prompt("hello") as turn:
            return await turn.text()

    client = make_client(choose_login=choose_first, terminal_login=run_in_terminal)
    command, env = [sys.executable, PROGRAMS, "agent", str(token)], {"BASE": "ours", "ACCOUNT": "nobody"}
    with trio.fail_after(PATIENCE):
        assert await use_agent_process(command, client, converse, env=env, on_frame=watch) == "hello"
    assert token.read_text() == "ours polly"
    assert len(used) == 2
    assert wire == [
        *("initialize", "session/new"),  # and not authenticate: the login, then once more from the beginning
        *("initialize", "session/new", "session/prompt", "session/close"),
    ]
    with trio.fail_after(PATIENCE):  # the login is kept
        assert await use_agent_process(command, make_client(terminal_login=run_in_terminal), converse) == "hello"


@pytest.mark.spec("AUTH-14", "AUTH-18")
async def test_a_login_that_failed_is_told_and_the_agent_is_not_started_again(tmp_path: Path) -> None:
    logins: list[LoginCommand] = []
    starts = 0

    async def give_up(login: LoginCommand) -> int:
        logins.append(login)
        return await run_in_terminal(shell("echo Login successful; exit 1"))  # words do not count

    async def converse(agent: ClientSide) -> None:
        nonlocal starts
        starts += 1
        async with trio.open_nursery() as nursery:  # which puts what is raised into a group
            nursery.start_soon(open_and_close, agent)

    client = make_client(choose_login=choose_first, terminal_login=give_up)
    command = [sys.executable, PROGRAMS, "agent", str(tmp_path / "token")]
    with trio.fail_after(PATIENCE), pytest.raises(LoginFailed, match=r"'In a terminal' failed: .* exit status 1"):
        await use_agent_process(command, client, converse)
    assert [login.command for login in logins] == [[*command, "--login"]]
    assert starts == 1


async def open_and_close(agent: ClientSide) -> None:
    async with agent.new_session(CWD):
        pass


@pytest.mark.spec("AUTH-05", "AUTH-07")
async def test_a_client_that_runs_no_logins_is_offered_none_in_a_terminal(tmp_path: Path) -> None:
    command = [sys.executable, PROGRAMS, "agent", str(tmp_path / "token")]
    with trio.fail_after(PATIENCE):
        async with open_agent_process(command, make_client()) as agent:
            assert agent.auth_methods == []
        async with open_agent_process(command, make_client(terminal_login=run_in_terminal)) as agent:
            assert [type(method) for method in agent.auth_methods] == [AuthMethodTerminal]


async def test_a_terminal_login_that_nothing_runs_is_for_the_application(tmp_path: Path) -> None:
    async def choose(methods: Sequence[AuthMethod]) -> AuthMethod:
        return METHOD

    async def refused(agent: ClientSide) -> None:
        agent.auth_methods  # noqa: B018  # none of them is in a terminal, but an agent may not keep to that
        await open_and_close(agent)

    served = [sys.executable, PROGRAMS, "agent", str(tmp_path / "token")]
    client = make_client(choose_login=choose, terminal_login=run_in_terminal)
    async with open_agent_process(served, client) as agent:
        with pytest.raises(TerminalLoginRequired):
            await open_and_close(agent)


def test_an_exit_by_a_signal_is_named() -> None:
    assert str(LoginFailed(METHOD, -signal.SIGINT)) == "the login by 'In a terminal' failed: it ended with signal 2"


# ------------------------------------------------------------------------------------------------- in a real terminal


@final
class Terminal:
    """A real terminal with a program in it, and the person in front of it."""

    def __init__(self, master: int) -> None:
        self._master = master
        self._seen = ""

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def wait_for(self, text: str) -> None:
        """Read until ``text`` appears, and go on behind it the next time."""
        deadline = time.monotonic() + PATIENCE
        while text not in self._seen:
            assert time.monotonic() < deadline, self._seen
            if select.select([self._master], [], [], 0.1)[0]:
                try:
                    self._seen += os.read(self._master, 4096).decode()
                except OSError as exc:  # Linux says so when nobody has it open any more
                    raise AssertionError(self._seen) from exc
        self._seen = self._seen.partition(text)[2]


@contextmanager
def terminal(*program: str) -> Iterator[Terminal]:
    """A terminal with a shell that runs ``program``, which has ended well when the block ends."""
    master, slave = pty.openpty()
    command = [sys.executable, PROGRAMS, "shell", os.ttyname(slave), PROGRAMS, *program]
    with subprocess.Popen(command, start_new_session=True, stdin=subprocess.DEVNULL) as process:
        try:
            yield Terminal(master)
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
            os.close(slave)
            os.close(master)


@pytest.mark.spec("AUTH-12", "AUTH-14")
def test_a_login_has_the_terminal_to_itself_and_gives_it_back() -> None:
    for password, status in (("sesame", 0), ("wrong", 1)):
        with terminal("client", "ask") as screen:
            screen.wait_for("Password: ")
            screen.type(f"{password}\n")
            screen.wait_for(f"the login ended with {status}, and the terminal is ours")
            screen.type("more\n")
            screen.wait_for("more")  # the echo is on again
            screen.wait_for("read: more")


@pytest.mark.spec("AUTH-14")
def test_ctrl_c_ends_the_login_and_not_the_client() -> None:
    with terminal("client", "ask") as screen:
        screen.wait_for("Password: ")
        screen.type("\x03")
        screen.wait_for(f"the login ended with {-signal.SIGINT}, and the terminal is ours")
        screen.type("more\n")
        screen.wait_for("more")  # although the login died with the echo off
        screen.wait_for("read: more")


def test_ctrl_z_suspends_the_login_and_the_client_until_the_shell_continues_them() -> None:
    with terminal("client", "ask") as screen:
        screen.wait_for("Password: ")
        screen.type("\x1a")
        screen.wait_for("the job is suspended")
        screen.type("sesame\n")
        screen.wait_for("the login ended with 0, and the terminal is ours")
        screen.type("more\n")
        screen.wait_for("read: more")
