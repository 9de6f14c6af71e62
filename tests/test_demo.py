"""The paired demo, as a process; and that it sees what is wrong, told by stories in which something is."""

from __future__ import annotations

import argparse
import http.client
import io
import os
import re
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import attrs
import pytest
import trio

import acp_ref
from acp_ref import demo, spec
from acp_ref.demo import mcp_server
from acp_ref.demo.leftovers import Processes
from acp_ref.demo.narrator import LONGEST_FRAME, Narrator
from acp_ref.demo.performance import perform
from acp_ref.demo.servers import open_web_servers
from acp_ref.demo.stage import Stage
from acp_ref.demo.story import STORY, Step, step

ROOT: Final = Path(acp_ref.__file__).parent.parent

LINUX: Final = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def environment(directory: Path) -> dict[str, str]:
    """Ours, with ``directory`` for temporary files and this package where no directory matters."""
    return os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(directory)}


# -------------------------------------------------------------------------------------------------- the whole of it


@attrs.frozen
class Performance:
    status: int
    out: str
    err: str
    seconds: float
    litter: list[str]
    """What is left in the directories it ran in and was given for its files."""

    def headings(self) -> list[str]:
        return re.findall(r"^ ?\d+  (.*)$", self.out, re.MULTILINE)


def run_demo(directory: Path, *options: str) -> Performance:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "acp_ref", "demo", *options],
        cwd=directory,
        env=environment(directory),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Performance(done.returncode, done.stdout, done.stderr, time.monotonic() - began, os.listdir(directory))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Performance:
    return run_demo(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def with_wire(tmp_path_factory: pytest.TempPathFactory) -> Performance:
    return run_demo(tmp_path_factory.mktemp("wire"), "--wire")


def test_the_demo_succeeds_within_its_time_and_leaves_nothing(plain: Performance) -> None:
    assert (plain.status, plain.err, plain.litter) == (0, "", []), plain.out
    assert plain.seconds < 20
    assert "NOT OK" not in plain.out
    assert re.search(r"^All is as it should be: \d\d checks in ", plain.out, re.MULTILINE)


def test_it_tells_every_step_in_order_with_the_page_it_comes_from(plain: Performance) -> None:
    assert plain.headings() == [*(told.title for told in STORY), "See that nothing is left"]
    addresses = re.findall(r"https://agentclientprotocol\.com/\S+", plain.out)
    assert addresses == [spec.page_url(told.page) for told in STORY]


def test_every_page_it_names_is_one_of_the_specification() -> None:
    assert not [told.page for told in STORY if not spec.on_page(told.page)]


def test_three_servers_are_called_with_permission_and_the_replay_is_what_was_seen_live(plain: Performance) -> None:
    for transport in ("stdio", "http", "sse"):
        asked = plain.out.index(f"May I? [{transport}: greet]")
        assert f"Hello Ada, from the {transport} server in " in plain.out[asked:]
    assert "ok      the turn ends as cancelled" in plain.out
    assert "ok      they tell what the first client saw, word for word" in plain.out
    assert len({*re.findall(r"process (\d+)\.", plain.out)}) == 2  # the second agent is another process


@LINUX
def test_it_ends_by_counting_what_it_had(plain: Performance) -> None:
    ending = plain.out[plain.out.index("See that nothing is left") :]
    # two agents, each with an MCP server that it started, and two servers on the web
    assert re.findall(r"    ok +(.*)", ending) == [
        "all 6 processes have ended",
        "all tasks have ended",
        "all file descriptors are closed",
    ]


def test_wire_shows_the_messages_and_none_of_the_secrets(with_wire: Performance) -> None:
    assert (with_wire.status, with_wire.err) == (0, ""), with_wire.out
    sent = re.findall(r'^    -> \{"jsonrpc":"2\.0","id":\d+,"method":"([^"]*)"', with_wire.out, re.MULTILINE)
    assert [method for method in sent if method != "session/prompt"] == [
        "initialize",
        "session/new",
        "session/close",
        "initialize",
        "session/load",
        "session/close",
    ]
    assert '    <- {"jsonrpc":"2.0","id":8,"result":{"stopReason":"cancelled"}}' in with_wire.out.splitlines()
    assert '{"name":"ACP_REF_DEMO_TOKEN","value":"***"}' in with_wire.out
    assert "demo-secret" not in with_wire.out + with_wire.err
    assert re.search(r" \[\d+ more characters\]$", with_wire.out, re.MULTILINE)


@LINUX
def test_a_demo_that_is_killed_leaves_no_process(tmp_path: Path) -> None:
    processes = Processes()
    with subprocess.Popen(
        [sys.executable, "-m", "acp_ref", "demo"],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        text=True,
    ) as killed:
        assert killed.stdout is not None
        assert any("The session is" in line for line in killed.stdout)  # by now all its servers run
        processes.look()
        assert len(processes) == 5
        killed.kill()
    deadline = time.monotonic() + 10
    while processes.left() and time.monotonic() < deadline:
        time.sleep(0.01)  # nothing tells when a process goes that is not our child
    assert processes.left() == []


# ------------------------------------------------------------------------------------- stories with something wrong


def told(*story: Step) -> tuple[Narrator, str]:
    """``story``, performed."""
    out = io.StringIO()
    narrator = Narrator(out)
    trio.run(perform, narrator, story)
    return narrator, out.getvalue()


@step("Be right", "overview")
async def right(stage: Stage) -> None:
    stage.tell.check("one and one is two", 1 + 1 == 2)


@step("Be wrong", "overview")
async def wrong(stage: Stage) -> None:
    stage.tell.check("one and one is three", 1 + 1 == 3, 1 + 1)


@step("Raise", "overview")
async def raising(stage: Stage) -> None:
    await stage.enter(open_web_servers(stage.token, cwd=stage.directory))
    raise RuntimeError("the roof is on fire")


def test_a_story_in_which_all_is_right_makes_exit_status_0(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("acp_ref.demo.story.STORY", (right,))
    assert demo.main(argparse.Namespace(wire=False)) == 0
    assert "All is as it should be: " in capsys.readouterr().out


def test_a_wrong_expectation_makes_exit_status_1_and_the_story_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("acp_ref.demo.story.STORY", (wrong, right))
    assert demo.main(argparse.Namespace(wire=False)) == 1
    out = capsys.readouterr().out
    assert "    NOT OK  one and one is three\n            but: 2\n" in out
    assert "    ok      one and one is two\n" in out
    assert out.endswith("seconds:\n- step 1, Be wrong: one and one is three\nbut: 2\n")


def test_a_step_that_raises_ends_the_story_and_everything_that_was_open() -> None:
    narrator, out = told(raising, right)
    assert narrator.failures == ["step 1, Raise: RuntimeError: the roof is on fire"]
    assert "Be right" not in out
    assert "have ended" in out  # the two servers too, or there would be another failure


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_an_agent_that_dies_is_told_with_its_last_words() -> None:
    @step("Kill the agent", "overview")
    async def killing(stage: Stage) -> None:
        await stage.enter(stage.open_agent())
        stage.session = await stage.enter(stage.agent.new_session(stage.directory))
        async with stage.session.prompt("/sleep 60") as turn:
            os.kill(stage.agent_process.pid, signal.SIGKILL)
            await turn.wait()

    narrator, _ = told(killing, right)
    [failure] = narrator.failures
    assert failure.startswith("step 1, Kill the agent: AgentProcessError: the agent ")
    assert failure.endswith("ended with signal SIGKILL")


async def test_a_step_that_takes_for_ever_is_ended(autojump_clock: trio.testing.MockClock) -> None:
    narrator = Narrator(io.StringIO())

    @step("Wait", "overview")
    async def waiting(stage: Stage) -> None:
        await trio.sleep_forever()

    await perform(narrator, (waiting,))
    assert narrator.failures == ["step 1, Wait: this took more than 60 seconds"]


@LINUX
def test_a_process_that_is_left_is_found_even_when_its_parent_is_gone() -> None:
    orphans: list[int] = []

    @step("Leave a process", "overview")
    async def leaving(stage: Stage) -> None:
        # The shell waits for the end of its stdin, so that it is there to be seen with its child.
        command = ["sh", "-c", "sleep 60 >/dev/null & echo $!; read -r line"]
        async with trio.open_nursery() as nursery:
            shell: trio.Process = await nursery.start(
                partial(trio.run_process, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, check=False)
            )
            assert shell.stdin is not None
            assert shell.stdout is not None
            async with shell.stdin, shell.stdout:
                orphans.append(int(await shell.stdout.receive_some()))
                stage.processes.look()

    try:
        narrator, _ = told(leaving)
    finally:
        for orphan in orphans:
            os.kill(orphan, signal.SIGKILL)
    assert narrator.failures == [
        f"step 2, See that nothing is left: all 2 processes have ended\nbut: {orphans[0]} (sleep 60)"
    ]


@LINUX
def test_a_file_and_a_task_that_are_left_are_found() -> None:
    files: list[int] = []

    @step("Leave a file and a task", "overview")
    async def leaving(stage: Stage) -> None:
        files.append(os.open(os.devnull, os.O_RDONLY))
        trio.lowlevel.spawn_system_task(trio.sleep_forever)

    narrator, _ = told(leaving)
    [file] = files
    os.close(file)
    assert [failure.partition(": ")[2] for failure in narrator.failures] == [
        "all tasks have ended\nbut: 1 more than before",
        f"all file descriptors are closed\nbut: {file} ({os.devnull})",
    ]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no process groups")
def test_without_proc_the_groups_of_what_was_started_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acp_ref.demo.leftovers.PROC", "/no/such/directory")
    processes = Processes()
    assert not processes.sees_descendants
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as child:
        processes.add(child.pid)
        assert processes.left() == [f"group {child.pid}"]
        child.kill()
    assert processes.left() == []


# --------------------------------------------------------------------------------------------------- how it is told


def test_a_frame_is_cut_after_it_was_redacted() -> None:
    out = io.StringIO()
    frame = b'{"env":[{"name":"A","value":"secret"}],"rest":"' + b"x" * 1000 + b'"}'
    Narrator(out, wire=True).frame("sent", frame)
    shown = out.getvalue()
    assert shown.startswith('    -> {"env":[{"name":"A","value":"***"}],"rest":"xxx')
    assert shown.endswith(f"x [{len(frame) - len('secret') + len('***') - LONGEST_FRAME} more characters]\n")


def test_a_terminal_that_cannot_show_a_character_gets_its_number() -> None:
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Narrator(terminal).say("agent", "caf\u00e9")
    terminal.seek(0)
    assert terminal.read() == "    agent   caf\\xe9\n"


def test_when_nobody_reads_any_more_the_story_is_still_performed() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w", encoding="utf-8") as out:
        narrator = Narrator(out)
        trio.run(perform, narrator, (wrong,))
        assert not narrator.heard
        assert narrator.failures == ["step 1, Be wrong: one and one is three\nbut: 2"]
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), writing)  # or closing would write again


# ------------------------------------------------------------------------------------------------- the MCP servers


async def test_a_web_server_answers_nobody_without_the_token(tmp_path: Path) -> None:
    async with open_web_servers("the token", cwd=str(tmp_path)) as servers:
        for server in servers:
            url = await server.url()
            for headers, refused in [
                ({}, True),
                ({mcp_server.TOKEN_HEADER: "another"}, True),
                ({mcp_server.TOKEN_HEADER: "the token"}, False),
            ]:
                status = await trio.to_thread.run_sync(status_of, url, headers)
                assert (status == 401) is refused, (server.transport, headers, status)
    assert [server.process.returncode for server in servers] == [0, 0]  # the end of stdin was enough


def status_of(url: str, headers: dict[str, str]) -> int:
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.netloc, timeout=20)
    try:
        connection.request("GET", address.path, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


def test_the_stdio_server_does_not_start_without_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(mcp_server.TOKEN_VARIABLE, raising=False)
    monkeypatch.setattr(sys, "argv", ["mcp_server.py", "stdio"])
    with pytest.raises(SystemExit, match="ACP_REF_DEMO_TOKEN is not set"):
        mcp_server.main()
