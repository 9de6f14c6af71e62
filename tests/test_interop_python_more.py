"""The official Python SDK at the other end, once more: extensions of ours, questions of its, and its own examples."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Final

import pytest
import trio

import acp_ref as acp
from acp_ref.elicitation import ElicitationAnswer, UrlFacts
from acp_ref.permissions import answer_with
from acp_ref.reports import Report
from acp_ref.schema import ElicitationAccept, ElicitationDecline, ElicitationUrlRequest, ToolCallId, ToolCallStatus
from tests.npm import give_up

ROOT: Final = Path(__file__).parent.parent
SDK: Final = "agent-client-protocol"
ASKING_AGENT: Final = [sys.executable, "-m", "tests.peers.py_sdk_asking_agent"]

PATIENCE: Final = 60.0
"""Seconds for a conversation that takes one: a machine may be busy."""


@pytest.mark.spec("EXT-05", "EXT-06", "EXT-07")
def test_the_sdk_and_an_agent_of_ours_call_extensions_of_each_other() -> None:
    agent = [sys.executable, "-m", "tests.peers.extension_agent"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.peers.py_sdk_extension_client", *agent],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        cwd=ROOT,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {
        "announced": {"example.com": {"version": 1}},
        "flown": {"flown": "home", "heard": {"called": {"back": "home"}}},
        "refused": -32601,
        "news": [{"n": 1, "echoed": True}],
    }


# ------------------------------------------------------------------------------------------------ questions of its own


@asynccontextmanager
async def open_session(command: Sequence[str], client: acp.Client) -> AsyncGenerator[acp.ClientSession, None]:
    """A session of an agent; that anything it sends is odd fails the test."""
    reports: list[Report] = []
    with trio.fail_after(PATIENCE):
        async with (
            acp.open_agent_process(
                command, client, cwd=str(ROOT), stderr=lambda chunk: None, on_report=reports.append
            ) as agent,
            agent.new_session("/") as session,
        ):
            yield session
    assert reports == []


async def ask(session: acp.ClientSession, prompt: str) -> str:
    async with session.prompt(prompt) as turn:
        said = await turn.text()
    assert turn.stop_reason is acp.StopReason.END_TURN
    return said


async def test_our_client_opens_pages_for_an_agent_of_the_sdk_or_does_not() -> None:
    async def only_at_home(request: ElicitationUrlRequest, facts: UrlFacts) -> ElicitationAnswer:
        return ElicitationAccept() if facts.host == "example.com" else ElicitationDecline()

    allow = answer_with(acp.PermissionOptionKind.ALLOW_ONCE)
    client = acp.Client(name="test", version="1", request_permission=allow, elicit_url=only_at_home)
    async with open_session(ASKING_AGENT, client) as session:
        assert await ask(session, "open https://example.com/page") == "accept"
        assert await ask(session, "open https://example.org/page") == "decline"


@pytest.mark.spec("CANCEL-03", "CANCEL-10", "PERM-05")
async def test_our_client_answers_the_open_question_of_a_turn_that_it_cancels() -> None:
    asked = trio.Event()

    async def think_for_ever(request: acp.RequestPermissionRequest) -> acp.PermissionOption | None:
        asked.set()
        await trio.sleep_forever()

    client = acp.Client(name="test", version="1", request_permission=think_for_ever)
    async with open_session(ASKING_AGENT, client) as session:
        async with session.prompt("permit") as turn:
            await asked.wait()
            turn.cancel()
            assert await turn.text() == "cancelled"
        assert turn.stop_reason is acp.StopReason.CANCELLED
        assert session.state.tool_calls[ToolCallId("call")].status is ToolCallStatus.FAILED


# ---------------------------------------------------------------------------------------------------- its own examples


@pytest.fixture(scope="module")
def examples() -> Path:
    """The folder of the examples, which only the source distribution has; fetched once, into a cache of the user.

    Skips the test where pip cannot fetch it, but never in CI.
    """
    name = f"{SDK.replace('-', '_')}-{version(SDK)}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "acp-ref" / "pypi"
    archive = cache / f"{name}.tar.gz"
    if not archive.exists():
        options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-binary", SDK, "--dest", str(cache)]
        fetched = subprocess.run(
            [sys.executable, "-m", "pip", "download", *options, f"{SDK}=={version(SDK)}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        if fetched.returncode != 0:
            give_up(f"pip cannot fetch the sources of {SDK}: {fetched.stderr.strip()[-400:]}")
    if not (cache / name).exists():
        with tarfile.open(archive) as opened, tempfile.TemporaryDirectory(dir=cache) as fresh:
            opened.extractall(fresh, filter="data")
            with suppress(OSError):  # another test run was faster
                Path(fresh, name).rename(cache / name)
    return cache / name / "examples"


PLAIN: Final = acp.Client(name="test", version="1", request_permission=answer_with(acp.PermissionOptionKind.ALLOW_ONCE))


async def test_our_client_goes_through_a_turn_of_the_example_agent_of_the_sdk(examples: Path) -> None:
    async with open_session([sys.executable, str(examples / "agent.py")], PLAIN) as session:
        async with session.prompt("hello", acp.ResourceLink(name="a", uri="file:///a")) as turn:
            updates = [update async for update in turn]
        assert [update.content for update in updates if isinstance(update, acp.AgentMessageChunk)] == [
            acp.TextContent(text="Client sent:"),
            acp.TextContent(text="hello"),
            acp.ResourceLink(name="a", uri="file:///a"),
        ]


async def test_our_client_goes_through_a_turn_of_the_example_echo_agent_of_the_sdk(examples: Path) -> None:
    async with open_session([sys.executable, str(examples / "echo_agent.py")], PLAIN) as session:
        async with session.prompt("hello \u2028 \U0001f99c") as turn:
            updates = [update async for update in turn]
        assert updates == [
            acp.AgentMessageChunk(
                content=acp.TextContent(text="hello \u2028 \U0001f99c", meta={"echo": True}), meta={"echo": True}
            )
        ]
