"""The headless client ``acpx`` at the other end: a program that others wrote for other agents, with real processes.

It runs every prompt in a process of its own, and keeps saved sessions by resuming them: each of its commands starts the
agent again.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from tests.npm import acpx

ROOT: Final = Path(__file__).parent.parent
NASTY: Final = str(ROOT / "tests" / "mcp_fixtures" / "nasty.py")

PATIENCE: Final = 60.0
"""Seconds for a command that takes one: a machine may be busy."""


@attrs.frozen
class Acpx:
    """The client with a home, a project and an agent of its own."""

    home: Path

    @property
    def project(self) -> Path:
        return self.home / "project"

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one of its commands, and return how it ended and what it said."""
        sessions = str(self.home / "sessions")
        agent = [sys.executable, "-m", "acp_ref", "agent", "--sessions", sessions, "--mcp-timeout", f"{PATIENCE}"]
        settings = ["--cwd", str(self.project), "--ttl", "60", "--agent", shlex.join(agent)]
        return subprocess.run(
            [*acpx(), *settings, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            env=os.environ | {"HOME": str(self.home), "PYTHONPATH": str(ROOT)},
        )

    def say(self, *arguments: str) -> str:
        """Run a command that must go well, and return what it said."""
        done = self.run(*arguments)
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout

    def agent_has_heard(self, prompt: str) -> bool:
        """Whether it stands in the journal of a session: the turn has begun."""
        return any(prompt in journal.read_text() for journal in (self.home / "sessions").glob("*.jsonl"))


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def processes_with(word: str) -> Sequence[str]:
    """The command lines of the processes that have ``word`` in it."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if word in line:
            found.append(line)
    return found


ONE_SHOT: Final[Mapping[str, Sequence[str]]] = {
    "json": ["--format", "json", "--json-strict", "exec", "hello \u2028 \U0001f99c"],
    "quiet": ["--format", "quiet", "exec", "--config-option", "model=cockatoo", "be quiet"],
    "showcase": ["--approve-all", "exec", "/showcase"],
    "denied": ["--deny-all", "exec", "/write a.txt anything"],
    "tool": ["--approve-all", "--mcp-config", "../mcp.json", "exec", '/call good echo {"text": "from MCP"}'],
    "late": ["--timeout", "3", "exec", "/sleep 300"],
}
"""Prompts in sessions of their own."""


@attrs.frozen
class Saved:
    """What became of a saved session."""

    client: Acpx
    session_id: str
    ran: str
    cancelled: str
    listed: str


def live_through_a_saved_session(client: Acpx) -> Saved:
    session_id = client.say("sessions", "new", "--name", "one").strip()
    client.say("prompt", "-s", "one", "/title Two parrots")
    client.say("set-mode", "-s", "one", "code")
    ran = client.say("--approve-all", "prompt", "-s", "one", "/run touch made")
    with ThreadPoolExecutor() as threads:
        asleep = threads.submit(client.say, "prompt", "-s", "one", "/sleep 120")
        wait_until(lambda: client.agent_has_heard("/sleep 120"))
        assert "cancel requested" in client.say("cancel", "-s", "one")
        cancelled = asleep.result()
    client.say("sessions", "close", "one")
    return Saved(client, session_id, ran, cancelled, client.say("sessions", "list"))


@attrs.frozen
class Outcome:
    """What became of everything; a few commands run at once, for each takes a while to start."""

    one_shot: Mapping[str, subprocess.CompletedProcess[str]]
    saved: Saved


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    acpx()  # skips here, and not in a thread

    def client(name: str) -> Acpx:
        home = tmp_path_factory.mktemp(name)
        (home / "project").mkdir()
        server = {"name": "good", "command": sys.executable, "args": ["-I", "-S", NASTY, "good", "tag"]}
        (home / "mcp.json").write_text(json.dumps({"mcpServers": [server]}))
        return Acpx(home)

    with ThreadPoolExecutor(3) as threads:
        saved = threads.submit(live_through_a_saved_session, client("saved"))
        one_shot = {name: threads.submit(client(name).run, *arguments) for name, arguments in ONE_SHOT.items()}
    return Outcome({name: done.result() for name, done in one_shot.items()}, saved.result())


def test_acpx_gets_an_answer(outcome: Outcome) -> None:
    assert (outcome.one_shot["json"].returncode, outcome.one_shot["json"].stderr) == (0, "")
    messages: list[dict[str, Any]] = [json.loads(line) for line in outcome.one_shot["json"].stdout.rstrip().split("\n")]
    results = [message["result"] for message in messages if "result" in message]
    updates = [message["params"]["update"] for message in messages if message.get("method") == "session/update"]
    assert results[0]["agentInfo"]["name"] == "acp-ref"
    assert results[-1] == {"stopReason": "end_turn"}
    assert [update["sessionUpdate"] for update in updates] == ["available_commands_update", "agent_message_chunk"]
    assert updates[-1]["content"]["text"] == "hello \u2028 \U0001f99c"
    assert not [message for message in messages if "error" in message]


def test_acpx_sets_an_option_before_the_prompt(outcome: Outcome) -> None:
    assert (outcome.one_shot["quiet"].returncode, outcome.one_shot["quiet"].stdout.strip()) == (0, "BE QUIET")


def test_acpx_goes_through_the_showcase(outcome: Outcome) -> None:
    assert outcome.one_shot["showcase"].returncode == 0
    said = outcome.one_shot["showcase"].stdout
    assert "did not go well" not in said
    for line in (
        "[thinking] Let me show what an agent can say.",
        "  - [completed] Say it again",
        "[tool] Found a parrot (completed)",
        "[tool] Fetch another parrot (failed)",
        "[tool] Think about it (completed)",
        "[tool] Write acp-showcase.txt (completed)",
        "    And said so.",
        "    Hello from a terminal",
        "[done] end_turn",
    ):
        assert line in said.splitlines()


def test_acpx_denies_what_the_agent_asks_for(outcome: Outcome) -> None:
    said = outcome.one_shot["denied"].stdout
    assert "[tool] Write a.txt (failed)" in said
    assert "Not permitted: the user chose 'Reject'." in said
    assert "[done] end_turn" in said
    assert outcome.one_shot["denied"].returncode == 5  # by which it says: permission denied


@pytest.mark.spec("SETUP-21")
def test_acpx_has_a_tool_of_an_mcp_server_called(outcome: Outcome) -> None:
    said = outcome.one_shot["tool"].stdout
    assert outcome.one_shot["tool"].returncode == 0
    assert "[tool] good: echo (completed)" in said
    assert "from MCP" in said


def test_acpx_gives_up_waiting(outcome: Outcome) -> None:
    assert outcome.one_shot["late"].returncode == 3  # by which it says: timeout
    assert "Timed out after 3000ms" in outcome.one_shot["late"].stderr


@pytest.mark.spec("SETUP-48", "CANCEL-05")
def test_acpx_keeps_a_session_over_many_processes(outcome: Outcome) -> None:
    saved = outcome.saved
    assert "[tool] touch made (completed)" in saved.ran
    assert "session/request_permission" not in saved.ran  # the mode was "code" still
    assert (saved.client.project / "made").exists()
    assert "[done] cancelled" in saved.cancelled
    (listed,) = saved.listed.splitlines()
    assert listed.split("\t")[:3] == [saved.session_id, "Two parrots", str(saved.client.project)]


def test_acpx_leaves_no_agent_behind(outcome: Outcome) -> None:
    homes = str(outcome.saved.client.home.parent)
    wait_until(lambda: not processes_with(homes))  # they may be about to go
