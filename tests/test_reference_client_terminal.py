"""The reference client at a real terminal, with a person at it: typed prompts, questions, Ctrl-C and Ctrl-D."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

PATIENCE: Final = 15.0
"""Seconds for anything to show up on the screen, on a slow machine."""

CTRL_C: Final = "\x03"
CTRL_D: Final = "\x04"

_STYLE: Final = re.compile(r"\x1b\[[0-9;]*m")


class Person:
    """Somebody at a terminal in which the client runs."""

    def __init__(self, fd: int, theirs: int, client: subprocess.Popen[bytes]) -> None:
        self._fd = fd
        self._theirs = theirs
        self._client = client
        self._raw = b""
        self._read_to = 0

    @property
    def seen(self) -> str:
        """All that was on the screen so far, without colours."""
        return _STYLE.sub("", self._raw.decode(errors="replace")).replace("\r\n", "\n")

    @property
    def colours(self) -> bool:
        """Whether there were any."""
        return b"\x1b[" in self._raw

    def sees(self, text: str) -> str:
        """Wait for ``text`` behind what was waited for before; what came up to it."""
        deadline = time.monotonic() + PATIENCE
        while (at := self.seen.find(text, self._read_to)) < 0:
            if not self._look(deadline):
                pytest.fail(f"{text!r} is not to be seen in {self.seen[self._read_to :]!r}")
        start, self._read_to = self._read_to, at + len(text)
        return self.seen[start : self._read_to]

    def types(self, text: str) -> None:
        """Type ``text``, with its newlines."""
        os.write(self._fd, text.encode())

    def leaves(self) -> int:
        """Wait for the end of the client, and return its exit status."""
        deadline = time.monotonic() + PATIENCE
        while self._look(deadline):
            pass
        return self._client.wait(PATIENCE)

    def _look(self, deadline: float) -> bool:
        """Read some more; False when nothing came any more."""
        if not select.select([self._fd], [], [], max(0, deadline - time.monotonic()))[0]:
            return False
        try:
            chunk = os.read(self._fd, 65536)
        except OSError:  # the client has gone, and its terminal with it
            return False
        self._raw += chunk
        self.close()  # the client has it now
        return bool(chunk)

    def close(self) -> None:
        """Close our descriptor of the client's end."""
        if self._theirs >= 0:
            os.close(self._theirs)
            self._theirs = -1


@contextmanager
def at_terminal(*arguments: str, agent: Sequence[str], cwd: Path, columns: int = 100) -> Iterator[Person]:
    """A person at a terminal of its own, in which the client has just been started."""
    fd, theirs = os.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        # The first terminal that the leader of a session opens is the one that Ctrl-C comes from.
        shell = 'terminal=$0; exec "$@" <"$terminal" >"$terminal" 2>&1'
        command = [sys.executable, "-m", "acp_ref", "client", *arguments, "--", *agent]
        client = subprocess.Popen(
            ["/bin/sh", "-c", shell, os.ttyname(theirs), *command],
            cwd=cwd,
            env={**os.environ, "TERM": "xterm", "COLUMNS": ""},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        person = Person(fd, theirs, client)
        try:
            yield person
        finally:
            person.close()
            if client.poll() is None:
                client.send_signal(signal.SIGTERM)
                client.wait(PATIENCE)
    finally:
        os.close(fd)


@pytest.fixture
def reference_agent(tmp_path: Path) -> list[str]:
    return [sys.executable, "-m", "acp_ref", "agent", "--sessions", str(tmp_path / "sessions")]


def test_a_person_talks_allows_cancels_and_leaves(tmp_path: Path, reference_agent: list[str]) -> None:
    with at_terminal(agent=reference_agent, cwd=tmp_path) as person:
        assert "commands: /echo" in person.sees("\n> ")
        person.types("hello\n")
        assert person.sees("\n> ") == "hello\nhello\n\n> "
        person.types('/run sh -c "echo out; exit 3"\n')
        assert "(execute, pending)\nMay the agent do this?\n" in person.sees("Choose 1-3: ")
        person.types("1\n")
        assert "  │ out\n  │ (exit status 3)\n✘ sh -c " in person.sees("\n> ")
        person.types('/run sh -c "echo started; sleep 60"\n')
        person.sees("Choose 1-3: ")
        person.types("1\n")
        person.sees("  │ started\n")
        person.types(CTRL_C)
        assert "cancelling the turn; Ctrl-C again leaves at once\n" in person.sees("(the turn was cancelled)\n\n> ")
        person.types("/run echo never\n")
        person.sees("Choose 1-3: ")
        person.types(CTRL_C)
        assert "(the question is not open any more)\n" in person.sees("(the turn was cancelled)\n\n> ")
        person.types(":mode code\n")
        person.sees("Mode: Code (code)\n\n> ")
        person.types(CTRL_D)
        assert person.leaves() == 0
        assert person.colours


def test_a_live_terminal_shows_its_output_as_it_comes(tmp_path: Path, reference_agent: list[str]) -> None:
    (tmp_path / "run.sh").write_text("echo first; read line < fifo; echo $line")
    os.mkfifo(tmp_path / "fifo")
    with at_terminal("--permission", "allow", agent=reference_agent, cwd=tmp_path) as person:
        person.sees("\n> ")
        person.types("/run sh run.sh\n")
        person.sees("  │ first\n")
        (tmp_path / "fifo").write_text("second\n")
        assert person.sees("(exit status 0)\n") == "  │ second\n  │ (exit status 0)\n"
        person.sees("\n> ")
        person.types(":quit\n")
        assert person.leaves() == 0


def test_ctrl_c_leaves_when_no_turn_runs_and_at_the_second_time_when_one_does(
    tmp_path: Path, reference_agent: list[str]
) -> None:
    with at_terminal(agent=reference_agent, cwd=tmp_path) as person:
        person.sees("\n> ")
        person.types(CTRL_C)
        assert person.leaves() == 130
    deaf = [sys.executable, "-c", DEAF]
    with at_terminal(agent=deaf, cwd=tmp_path) as person:
        person.sees("\n> ")
        person.types("hello\n")
        person.sees("hm\n")
        person.types(CTRL_C)
        person.sees("cancelling the turn")
        person.types(CTRL_C)
        assert person.leaves() == 130


DEAF: Final = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if request["method"] == "session/prompt":
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hm\\n"}}
        params = {"sessionId": "s", "update": update}
        print(json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}), flush=True)
        continue
    result = {"initialize": {"protocolVersion": 1}, "session/new": {"sessionId": "s"}}.get(request["method"])
    if result is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""

LATE_LOGIN: Final = """
import json, os, sys
if sys.argv[1:] == ["--login"]:
    sys.exit(os.mkdir("in"))
for line in sys.stdin:
    request = json.loads(line)
    answer = {"result": {}}
    match request["method"]:
        case "initialize":
            methods = [{"type": "terminal", "id": "t", "name": "Terminal", "args": ["--login"]}]
            capabilities = {"sessionCapabilities": {"resume": {}}}
            answer = {"result": {"protocolVersion": 1, "authMethods": methods, "agentCapabilities": capabilities}}
        case "session/new":
            answer = {"result": {"sessionId": "s"}}
        case "session/resume":
            assert request["params"]["sessionId"] == "s"
        case "session/prompt" if os.path.exists("in") != (request["params"]["prompt"][0]["text"] == "before"):
            answer = {"result": {"stopReason": "end_turn"}}
        case "session/prompt":
            answer = {"error": {"code": -32000, "message": "Who are you?"}}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}), flush=True)
"""

LOGIN: Final = """
import json, os, sys
if sys.argv[1:] == ["--login"]:
    sys.exit(0 if input("Password: ") == "parrot" and not os.mkdir("in") else 1)
for line in sys.stdin:
    request = json.loads(line)
    answer = {"result": {}}
    match request["method"]:
        case "initialize":
            assert request["params"]["clientCapabilities"]["auth"] == {"terminal": True}
            methods = [{"type": "terminal", "id": "t", "name": "Terminal", "args": ["--login"]}]
            answer = {"result": {"protocolVersion": 1, "authMethods": methods}}
        case "session/new" if os.path.exists("in"):
            answer = {"result": {"sessionId": "s"}}
        case "session/new":
            answer = {"error": {"code": -32000, "message": "Who are you?"}}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}), flush=True)
"""


@pytest.mark.spec("AUTH-05", "AUTH-12", "AUTH-14", "AUTH-15", "AUTH-19")
@pytest.mark.parametrize(("password", "status"), [("parrot", 0), ("cuckoo", 1)])
def test_a_login_in_the_terminal_gets_the_keys_and_the_agent_is_started_again(
    password: str, status: int, tmp_path: Path
) -> None:
    with at_terminal(agent=[sys.executable, "-c", LOGIN], cwd=tmp_path) as person:
        assert "The agent wants you to log in: Who are you?\n  1  Terminal\n" in person.sees("Log in by 1: ")
        person.types("1\n")
        person.sees("Password: ")
        person.types(f"{password}\n")
        if status:
            person.sees("acp-ref client: the login by 'Terminal' failed: it ended with exit status 1\n")
        else:
            person.sees("\n> ")
            person.types(CTRL_D)
        assert person.leaves() == status


def test_after_a_login_in_the_middle_the_session_is_resumed_and_no_prompt_said_twice(tmp_path: Path) -> None:
    prompts = ["--prompt", "before", "--prompt", "after"]
    with at_terminal(*prompts, agent=[sys.executable, "-c", LATE_LOGIN], cwd=tmp_path) as person:
        assert person.sees("Log in by 1: ").count("> before") == 1
        person.types("1\n")
        assert person.leaves() == 0
        assert person.seen.count("> before") == 1
        assert person.seen.endswith("session s\n\n> after\n")


def test_a_narrow_terminal_gets_whole_words(tmp_path: Path, reference_agent: list[str]) -> None:
    with at_terminal(
        "--prompt", "one two three four five six", agent=reference_agent, cwd=tmp_path, columns=22
    ) as person:
        assert person.leaves() == 0
        assert person.seen.endswith("\none two three four \nfive six\n")
