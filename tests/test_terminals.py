"""Terminals: real commands, what is kept of their output, and that none of them outlives its release."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_ref._terminal_output import OutputBuffer
from acp_ref.errors import ErrorCode, RequestError
from acp_ref.reports import Report, ReportKind
from acp_ref.roots import Roots
from acp_ref.schema import (
    CreateTerminalRequest,
    EnvVariable,
    KillTerminalRequest,
    ReleaseTerminalRequest,
    SessionId,
    TerminalExitStatus,
    TerminalId,
    TerminalOutputRequest,
    WaitForTerminalExitRequest,
    WaitForTerminalExitResponse,
)
from acp_ref.terminals import LocalTerminal, Terminals

SESSION = SessionId("s")
PYTHON = ("-I", "-S", "-c")
IGNORE_TERM = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
)


@pytest.fixture(autouse=True)
def _no_descriptor_leaks() -> Iterator[None]:
    before = sorted(os.listdir("/proc/self/fd"))
    yield
    assert sorted(os.listdir("/proc/self/fd")) == before


@asynccontextmanager
async def running(terminals: Terminals) -> AsyncIterator[Terminals]:
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            await nursery.start(terminals.run)
            yield terminals
            await terminals.aclose()


def create(command: str, *args: str, limit: int | None = None, cwd: str | None = None) -> CreateTerminalRequest:
    return CreateTerminalRequest(session_id=SESSION, command=command, args=[*args], output_byte_limit=limit, cwd=cwd)


async def start(terminals: Terminals, request: CreateTerminalRequest) -> LocalTerminal:
    terminal = terminals.get((await terminals.create(request)).terminal_id)
    assert terminal is not None
    return terminal


async def run(terminals: Terminals, command: str, *args: str, limit: int | None = None) -> LocalTerminal:
    """Run it to its end."""
    terminal = await start(terminals, create(command, *args, limit=limit))
    await terminal.wait_ended()
    return terminal


async def wait_for_exit(terminals: Terminals, terminal_id: TerminalId) -> WaitForTerminalExitResponse:
    return await terminals.wait_for_exit(WaitForTerminalExitRequest(session_id=SESSION, terminal_id=terminal_id))


async def release(terminals: Terminals, terminal_id: TerminalId) -> None:
    await terminals.release(ReleaseTerminalRequest(session_id=SESSION, terminal_id=terminal_id))


async def wait_output(terminal: LocalTerminal, is_enough: Callable[[str], bool]) -> str:
    while not is_enough(terminal.output):
        assert not terminal.ended, terminal.output
        await terminal.wait_changed()
    return terminal.output


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


# ------------------------------------------------------------------------------------------------------------- create


@pytest.mark.spec("TERM-03")
@pytest.mark.field_note(94)
async def test_arguments_reach_the_command_as_they_are(tmp_path: Path) -> None:
    async with running(Terminals(str(tmp_path))) as terminals:
        printf = await run(terminals, "printf", "<%s>", "a b", "$HOME", "*", "")
        assert printf.output == "<a b><$HOME><*><>"
        assert printf.command == ("printf", "<%s>", "a b", "$HOME", "*", "")


@pytest.mark.field_note(94)
async def test_a_shell_line_as_the_command_is_refused_with_a_hint(tmp_path: Path) -> None:
    async with running(Terminals(str(tmp_path))) as terminals:
        with pytest.raises(RequestError, match="Command not found: 'echo a b'") as refused:
            await terminals.create(create("echo a b"))
        assert refused.value.code == ErrorCode.RESOURCE_NOT_FOUND
        assert "without a shell" in str(refused.value.data)
        with pytest.raises(RequestError, match="Command not found: 'no-such-program'"):
            await terminals.create(create("no-such-program", "--flag"))


async def test_a_file_that_is_no_program_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("text")
    async with running(Terminals(str(tmp_path))) as terminals:
        with pytest.raises(RequestError, match=r"Cannot run '\./notes\.txt'") as refused:
            await terminals.create(create("./notes.txt"))
        assert refused.value.code == ErrorCode.INTERNAL_ERROR
        assert "Permission denied" in str(refused.value.data)


@pytest.mark.parametrize("request_", [create(""), create("echo", "a\0b"), create("echo", "\ud800"), create("e\0")])
async def test_what_cannot_be_passed_to_a_process_is_invalid(tmp_path: Path, request_: CreateTerminalRequest) -> None:
    async with running(Terminals(str(tmp_path))) as terminals:
        with pytest.raises(RequestError) as refused:
            await terminals.create(request_)
        assert refused.value.code == ErrorCode.INVALID_PARAMS


@pytest.mark.spec("TERM-06", "TERM-08", "TERM-09")
async def test_create_returns_while_the_command_goes_on(tmp_path: Path) -> None:
    async with running(Terminals(str(tmp_path))) as terminals:
        terminal = await start(terminals, create("sh", "-c", "echo up; exec sleep 600"))
        await wait_output(terminal, "up\n".__eq__)
        now = await terminals.output(TerminalOutputRequest(session_id=SESSION, terminal_id=terminal.id))
        assert (now.output, now.truncated, now.exit_status) == ("up\n", False, None)


@pytest.mark.spec("TERM-03")
async def test_a_command_runs_in_the_session_s_directory_or_the_one_given(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    contains = Roots(cwd=str(tmp_path)).contains
    async with running(Terminals(str(tmp_path), contains=contains)) as terminals:
        assert (await run(terminals, "pwd")).output == f"{tmp_path}\n"
        terminal = await start(terminals, create("pwd", cwd=str(inner)))
        await terminal.wait_ended()
        assert terminal.output == f"{inner}\n"
        assert terminal.cwd == str(inner)


@pytest.mark.spec("TERM-03")
@pytest.mark.parametrize("cwd", ["inner", "./", "", "/", "/no/such/place"])
async def test_a_directory_that_is_relative_or_outside_the_roots_is_refused(tmp_path: Path, cwd: str) -> None:
    contains = Roots(cwd=str(tmp_path)).contains
    async with running(Terminals(str(tmp_path), contains=contains)) as terminals:
        with pytest.raises(RequestError, match=r"\$\.cwd") as refused:
            await terminals.create(create("pwd", cwd=cwd))
        assert refused.value.code == ErrorCode.INVALID_PARAMS


async def test_a_directory_that_does_not_exist_is_not_mistaken_for_the_command(tmp_path: Path) -> None:
    async with running(Terminals(str(tmp_path))) as terminals:
        with pytest.raises(RequestError, match=r"\$\.cwd.*missing.*No such file") as refused:
            await terminals.create(create("pwd", cwd=str(tmp_path / "missing")))
        assert refused.value.code == ErrorCode.INVALID_PARAMS


@pytest.mark.spec("TERM-03")
async def test_variables_are_set_over_the_inherited_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEPT", "1")
    monkeypatch.setenv("CHANGED", "1")
    request = CreateTerminalRequest(
        session_id=SESSION,
        command="sh",
        args=["-c", "echo $KEPT $CHANGED $ADDED"],
        env=[EnvVariable(name="CHANGED", value="2"), EnvVariable(name="ADDED", value="3")],
    )
    async with running(Terminals(str(tmp_path))) as terminals:
        terminal = await start(terminals, request)
        await terminal.wait_ended()
        assert terminal.output == "1 2 3\n"
        bad = CreateTerminalRequest(session_id=SESSION, command="true", env=[EnvVariable(name="A=B", value="")])
        with pytest.raises(RequestError) as refused:
            await terminals.create(bad)
        assert refused.value.code == ErrorCode.INVALID_PARAMS


async def test_a_command_has_no_input_and_a_group_of_its_own(tmp_path: Path) -> None:
    async with running(Terminals(str(tmp_path))) as terminals:
        assert (await run(terminals, "cat")).exit_status == TerminalExitStatus(exit_code=0)
        program = "import os; print(os.getpgid(0) == os.getpid())"
        assert (await run(terminals, sys.executable, *PYTHON, program)).output == "True\n"


async def test_ids_are_not_to_be_guessed_and_differ(tmp_path: Path) -> None:
    async with running(Terminals(str(tmp_path))) as terminals:
        ids = {(await run(terminals, "true")).id for _ in range(5)}
        assert len(ids) == 5
        assert all(len(terminal_id) >= 16 for terminal_id in ids)


@pytest.mark.spec("TERM-07")
async def test_more_terminals_than_allowed_are_refused_until_one_is_released(tmp_path: Path) -> None:
    async with running(Terminals(str(tmp_path), max_terminals=2)) as terminals:
        first = await run(terminals, "true")
        await run(terminals, "true")
        with pytest.raises(RequestError, match=r"Too many terminals.*2 are open"):
            await terminals.create(create("true"))
        await release(terminals, first.id)
        await run(terminals, "true")


async def test_a_command_that_did_not_start_counts_for_nothing(tmp_path: Path) -> None:
    async with running(Terminals(str(tmp_path), max_terminals=1)) as terminals:
        for _ in range(3):
            with pytest.raises(RequestError, match="not found"):
                await terminals.create(create("no-such-program"))
        await run(terminals, "true")


# ------------------------------------------------------------------------------------------------------------- output


@pytest.mark.spec("TERM-08")
async def test_both_streams_come_as_one_in_the_order_of_writing(tmp_path: Path) -> None:
    async with running(Terminals(str(tmp_path))) as terminals:
        line = "for i in 1 2 3; do echo out $i; echo err $i >&2; done"
        assert (await run(terminals, "sh", "-c", line)).output == "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n"


@pytest.mark.spec("TERM-04", "TERM-05")
@pytest.mark.field_note(92)
@pytest.mark.parametrize(
    ("limit", "kept", "truncated"),
    [(0, "", True), (3, "", True), (4, "😀", True), (5, "😀", True), (7, "€😀", True), (10, "aé€😀", False)],
)
async def test_the_beginning_is_cut_off_between_characters(
    tmp_path: Path, limit: int, kept: str, truncated: bool
) -> None:
    async with running(Terminals(str(tmp_path))) as terminals:
        terminal = await run(terminals, "printf", "%s", "aé€😀", limit=limit)
        now = await terminals.output(TerminalOutputRequest(session_id=SESSION, terminal_id=terminal.id))
        assert (now.output, now.truncated) == (kept, truncated)


@pytest.mark.field_note(92)
async def test_with_limit_0_silence_is_not_truncated(tmp_path: Path) -> None:
    async with running(Terminals(str(tmp_path))) as terminals:
        assert not (await run(terminals, "true", limit=0)).truncated


@pytest.mark.spec("TERM-04")
@pytest.mark.field_note(92)
async def test_the_smaller_of_the_two_limits_wins(tmp_path: Path) -> None:
    async with running(Terminals(str(tmp_path), max_output_bytes=4)) as terminals:
        assert (await run(terminals, "printf", "123456")).output == "3456"
        assert (await run(terminals, "printf", "123456", limit=2)).output == "56"
        assert (await run(terminals, "printf", "123456", limit=2**64 - 1)).output == "3456"


@pytest.mark.field_note(8, 92)
async def test_bytes_that_are_no_utf_8_are_replaced(tmp_path: Path) -> None:
    async with running(Terminals(str(tmp_path))) as terminals:
        assert (await run(terminals, "printf", r"a\377b\342\202")).output == "a\ufffdb\ufffd"


@pytest.mark.field_note(92)
async def test_200_mb_of_output_fit_into_little_memory(tmp_path: Path) -> None:
    async with running(Terminals(str(tmp_path))) as terminals:
        await run(terminals, "sh", "-c", "yes | head -c 1000000")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        terminal = await run(terminals, "sh", "-c", "yes | head -c 200000000", limit=1024)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert terminal.output == "y\n" * 512
        assert grown < 8 * 1024  # KiB


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(st.text(max_size=12).map(lambda text: text.encode("utf-8", "replace")), st.binary(max_size=8)),
        max_size=8,
    ),
    st.integers(0, 40),
)
@pytest.mark.spec("TERM-04", "TERM-05")
@pytest.mark.field_note(92)
def test_what_is_kept_is_the_longest_end_that_fits(writes: list[bytes], limit: int) -> None:
    buffer = OutputBuffer(limit)
    buffer_of_slices = OutputBuffer(limit)
    for data in writes:
        buffer.write(data)
        for index in range(len(data)):
            buffer_of_slices.write(data[index : index + 1])
    buffer.finish()
    buffer_of_slices.finish()
    whole = b"".join(writes).decode("utf-8", "replace")
    ends = (whole[start:] for start in range(len(whole) + 1))
    kept = next(end for end in ends if len(end.encode()) <= limit)
    assert buffer.text() == buffer_of_slices.text() == kept
    assert buffer.truncated == buffer_of_slices.truncated == (kept != whole)
    assert len(buffer) == len(kept.encode())


@pytest.mark.field_note(92)
@pytest.mark.parametrize("limit", [0, 1, 1000, 100_000])
def test_a_buffer_is_cut_rarely_and_holds_no_more_than_it_says(limit: int) -> None:
    buffer = OutputBuffer(limit)
    chunk = "€😀".encode() * 1000  # 7000 bytes
    for count in range(1, 201):
        buffer.write(chunk)
        assert len(buffer) <= limit
        assert buffer.truncated == (7000 * count > limit)
    whole = chunk * 200
    assert buffer.text() == whole[max(0, len(whole) - limit) :].decode("utf-8", "ignore")


# --------------------------------------------------------------------------------------------------------------- exit


@pytest.mark.spec("TERM-09", "TERM-10")
async def test_an_exit_code_or_the_name_of_a_signal_tells_how_it_ended(tmp_path: Path) -> None:
    async with running(Terminals(str(tmp_path))) as terminals:
        code = await start(terminals, create("sh", "-c", "exit 3"))
        assert await wait_for_exit(terminals, code.id) == WaitForTerminalExitResponse(exit_code=3)
        killed = await start(terminals, create("sh", "-c", "kill -KILL $$"))
        assert await wait_for_exit(terminals, killed.id) == WaitForTerminalExitResponse(signal="SIGKILL")
        odd = await start(terminals, create("sh", "-c", f"kill -{signal.SIGRTMIN + 2} $$"))
        assert (await wait_for_exit(terminals, odd.id)).signal == f"SIG{signal.SIGRTMIN + 2}"
        now = await terminals.output(TerminalOutputRequest(session_id=SESSION, terminal_id=killed.id))
        assert now.exit_status == TerminalExitStatus(signal="SIGKILL")


@pytest.mark.spec("TERM-10")
async def test_any_number_of_waiters_get_the_exit_and_a_late_one_gets_it_at_once(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    os.mkfifo(tmp_path / "gate")
    seen: list[WaitForTerminalExitResponse] = []

    async def wait() -> None:
        seen.append(await wait_for_exit(terminals, terminal.id))

    async with running(Terminals(str(tmp_path))) as terminals:
        terminal = await start(terminals, create("sh", "-c", "read x < gate; exit $x"))
        for _ in range(3):
            nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        assert not seen
        async with await trio.open_file(tmp_path / "gate", "w") as gate:
            await gate.write("7\n")
        await wait()
        await wait()
        await trio.testing.wait_all_tasks_blocked()
        assert seen == [WaitForTerminalExitResponse(exit_code=7)] * 5


@pytest.mark.spec("TERM-10")
@pytest.mark.field_note(93)
async def test_the_exit_does_not_wait_for_a_pipe_that_a_background_process_holds(tmp_path: Path) -> None:
    async with running(Terminals(str(tmp_path))) as terminals:
        before = trio.current_time()
        terminal = await start(terminals, create("sh", "-c", "sleep 1000 & echo $!"))
        assert await wait_for_exit(terminals, terminal.id) == WaitForTerminalExitResponse(exit_code=0)
        assert trio.current_time() - before < 3  # a quarter of a second, on a machine with nothing else to do
        background = int(terminal.output)
        assert is_alive(background)
        await release(terminals, terminal.id)
        assert not is_alive(background)


@pytest.mark.field_note(93)
async def test_output_is_frozen_at_the_exit_and_nobody_blocks_on_a_full_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    os.mkfifo(tmp_path / "done")
    line = "(read x < gate; yes | head -c 300000; echo done > done) & echo hi"
    async with running(Terminals(str(tmp_path))) as terminals:
        terminal = await run(terminals, "sh", "-c", line)
        async with await trio.open_file(tmp_path / "gate", "w") as gate:
            await gate.write("go\n")
        async with await trio.open_file(tmp_path / "done") as done:
            assert await done.read() == "done\n"
        assert terminal.output == "hi\n"


async def test_all_that_was_written_before_the_exit_is_there_after_it(tmp_path: Path) -> None:
    async with running(Terminals(str(tmp_path))) as terminals:
        for size in (65_535, 65_536, 200_001):
            assert (await run(terminals, "head", "-c", str(size), "/dev/zero")).output == "\0" * size


# --------------------------------------------------------------------------------------------------- kill and release


@pytest.mark.spec("TERM-11")
@pytest.mark.field_note(93)
async def test_kill_ends_the_group_and_keeps_the_terminal(tmp_path: Path) -> None:
    async with running(Terminals(str(tmp_path))) as terminals:
        terminal = await start(terminals, create("sh", "-c", "sleep 1000 & echo $!; wait"))
        grandchild = int(await wait_output(terminal, lambda output: output.endswith("\n")))
        kill = KillTerminalRequest(session_id=SESSION, terminal_id=terminal.id)
        await terminals.kill(kill)
        assert not is_alive(grandchild)
        assert await wait_for_exit(terminals, terminal.id) == WaitForTerminalExitResponse(signal="SIGTERM")
        now = await terminals.output(TerminalOutputRequest(session_id=SESSION, terminal_id=terminal.id))
        assert (now.output, now.exit_status) == (f"{grandchild}\n", TerminalExitStatus(signal="SIGTERM"))
        await terminals.kill(kill)


@pytest.mark.field_note(93)
async def test_kill_after_the_exit_changes_nothing(tmp_path: Path) -> None:
    async with running(Terminals(str(tmp_path))) as terminals:
        terminal = await run(terminals, "sh", "-c", "echo hi; exit 4")
        await terminals.kill(KillTerminalRequest(session_id=SESSION, terminal_id=terminal.id))
        assert terminal.exit_status == TerminalExitStatus(exit_code=4)
        assert terminal.output == "hi\n"


@pytest.mark.spec("TERM-11")
async def test_a_command_that_does_not_heed_sigterm_gets_sigkill(tmp_path: Path) -> None:
    async with running(Terminals(str(tmp_path), term_grace=0.1)) as terminals:
        terminal = await start(terminals, create(sys.executable, *PYTHON, IGNORE_TERM))
        await wait_output(terminal, "deaf\n".__eq__)
        await terminal.kill()
        assert terminal.exit_status == TerminalExitStatus(signal="SIGKILL")


@pytest.mark.spec("TERM-11")
async def test_the_last_words_of_a_killed_command_are_kept(tmp_path: Path) -> None:
    async with running(Terminals(str(tmp_path))) as terminals:
        line = "trap 'yes | head -c 150000; exit 3' TERM; echo up; while :; do sleep 0.01; done"
        terminal = await start(terminals, create("sh", "-c", line))
        await wait_output(terminal, "up\n".__eq__)
        await terminal.kill()
        assert terminal.exit_status == TerminalExitStatus(exit_code=3)
        assert len(terminal.output) > 150_000


@pytest.mark.spec("TERM-13", "TERM-12")
@pytest.mark.field_note(93)
async def test_release_ends_the_command_answers_the_waiters_and_voids_the_id(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    seen: list[WaitForTerminalExitResponse] = []

    async def wait() -> None:
        seen.append(await wait_for_exit(terminals, terminal.id))

    async with running(Terminals(str(tmp_path))) as terminals:
        terminal = await start(terminals, create("sh", "-c", "echo $$; exec sleep 1000"))
        pid = int(await wait_output(terminal, lambda output: output.endswith("\n")))
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        await release(terminals, terminal.id)
        assert not is_alive(pid)
        await trio.testing.wait_all_tasks_blocked()
        assert seen == [WaitForTerminalExitResponse(signal="SIGTERM")]
        with pytest.raises(RequestError):
            await wait_for_exit(terminals, terminal.id)


@pytest.mark.spec("TERM-13")
@pytest.mark.field_note(93)
@pytest.mark.parametrize("known", [True, False])
async def test_a_released_or_unknown_id_is_answered_with_not_found(tmp_path: Path, known: bool) -> None:
    async with running(Terminals(str(tmp_path))) as terminals:
        terminal_id = TerminalId("nothing")
        if known:
            terminal_id = (await run(terminals, "true")).id
            await release(terminals, terminal_id)
        calls = [
            terminals.output(TerminalOutputRequest(session_id=SESSION, terminal_id=terminal_id)),
            terminals.wait_for_exit(WaitForTerminalExitRequest(session_id=SESSION, terminal_id=terminal_id)),
            terminals.kill(KillTerminalRequest(session_id=SESSION, terminal_id=terminal_id)),
            terminals.release(ReleaseTerminalRequest(session_id=SESSION, terminal_id=terminal_id)),
        ]
        for call in calls:
            with pytest.raises(RequestError) as refused:
                await call
            assert refused.value.code == ErrorCode.RESOURCE_NOT_FOUND
            assert refused.value.data == {"terminalId": terminal_id}


# ------------------------------------------------------------------------------------------------- for people to see


@pytest.mark.spec("TOOL-15", "TERM-14", "TERM-16")
async def test_output_is_shown_as_it_comes_and_stays_after_the_release(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    shown: list[tuple[str, bool, bool]] = []

    def show(terminal: LocalTerminal) -> None:
        shown.append((terminal.output, terminal.ended, terminal.released))

    async with running(Terminals(str(tmp_path), on_change=show)) as terminals:
        terminal = await start(terminals, create("sh", "-c", "echo one; read x < gate; echo two"))
        await wait_output(terminal, "one\n".__eq__)
        assert shown == [("one\n", False, False)]
        async with await trio.open_file(tmp_path / "gate", "w") as gate:
            await gate.write("go\n")
        await terminal.wait_ended()
        await release(terminals, terminal.id)
        assert shown[1:] == [("one\ntwo\n", False, False), ("one\ntwo\n", True, False), ("one\ntwo\n", True, True)]
        assert terminals.get(terminal.id) is terminal
        await terminal.wait_changed()  # nothing will
        assert (terminal.output, terminal.exit_status) == ("one\ntwo\n", TerminalExitStatus(exit_code=0))


async def test_a_failing_display_harms_no_terminal(tmp_path: Path) -> None:
    reports: list[Report] = []

    def show(_terminal: LocalTerminal) -> None:
        raise KeyError("display")

    async with running(Terminals(str(tmp_path), on_change=show, on_report=reports.append)) as terminals:
        assert (await run(terminals, "echo", "hi")).output == "hi\n"
    assert {report.kind for report in reports} == {ReportKind.HANDLER_FAILED}
    assert all(isinstance(report.error, KeyError) for report in reports)


@pytest.mark.spec("TERM-14")
async def test_what_is_kept_of_released_terminals_is_bounded(tmp_path: Path) -> None:
    async with running(Terminals(str(tmp_path), retained_bytes=20_000)) as terminals:
        ids = []
        for _ in range(4):
            terminal = await run(terminals, "head", "-c", "3000", "/dev/zero")
            await release(terminals, terminal.id)
            ids.append(terminal.id)
        assert [terminals.get(terminal_id) is not None for terminal_id in ids] == [False, False, True, True]


# ---------------------------------------------------------------------------------------------------------------- end


@pytest.mark.spec("TERM-17")
@pytest.mark.field_note(93)
async def test_the_end_of_the_session_releases_all_terminals(tmp_path: Path) -> None:
    async with running(Terminals(str(tmp_path))) as terminals:
        opened = [await start(terminals, create("sh", "-c", "echo $$; exec sleep 1000")) for _ in range(3)]
        pids = [int(await wait_output(terminal, lambda output: output.endswith("\n"))) for terminal in opened]
        await terminals.aclose()
        assert not any(is_alive(pid) for pid in pids)
        assert all(terminal.released and terminal.ended for terminal in opened)
        await terminals.aclose()
        with pytest.raises(RequestError, match="no commands any more"):
            await terminals.create(create("true"))


@pytest.mark.spec("TERM-17")
async def test_a_cancelled_session_leaves_no_process(tmp_path: Path) -> None:
    terminals = Terminals(str(tmp_path))
    async with trio.open_nursery() as nursery:
        await nursery.start(terminals.run)
        terminal = await start(terminals, create("sh", "-c", "sleep 1000 & echo $!; wait"))
        grandchild = int(await wait_output(terminal, lambda output: output.endswith("\n")))
        nursery.cancel_scope.cancel()
    assert not is_alive(grandchild)
    assert terminal.exit_status == TerminalExitStatus(signal="SIGTERM")


async def test_a_create_that_is_cancelled_as_the_process_starts_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    class Popen(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            started.append(self.pid)
            trio.from_thread.run_sync(scope.cancel)

    async with running(Terminals(str(tmp_path), max_terminals=1)) as terminals:
        monkeypatch.setattr(subprocess, "Popen", Popen)
        with trio.CancelScope() as scope:
            await terminals.create(create("sleep", "1000"))
        monkeypatch.undo()
        assert scope.cancelled_caught
        assert started
        assert not is_alive(started[0])
        await run(terminals, "true")


async def test_a_cancelled_release_is_carried_out_all_the_same(tmp_path: Path) -> None:
    async with running(Terminals(str(tmp_path))) as terminals:
        terminal = await start(terminals, create("sh", "-c", "echo up; exec sleep 1000"))
        await wait_output(terminal, "up\n".__eq__)
        with trio.CancelScope() as scope:
            scope.cancel()
            await release(terminals, terminal.id)
        assert scope.cancelled_caught
        assert terminal.released
        assert await terminal.wait_ended() == TerminalExitStatus(signal="SIGTERM")


async def test_terminals_that_never_ran_can_be_closed() -> None:
    terminals = Terminals("/")
    await terminals.aclose()
    with pytest.raises(RequestError):
        await terminals.create(create("true"))
