"""Our own stdin and stdout as a transport, on every kind of file they may be, polled and threaded."""

from __future__ import annotations

import os
import pty
import socket
import subprocess
import sys
import textwrap
import time
import tty
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, TypeAlias

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from acp_ref._framing import Frame, OversizedFrame
from acp_ref.stdio import open_stdio
from acp_ref.transports import Transport

KINDS: Final = ("pipe", "socket", "pty")
both_ways = pytest.mark.parametrize("threads", [False, True], ids=["polled", "threaded"])
every_kind = pytest.mark.parametrize("kind", KINDS)

Fds: TypeAlias = tuple[int, int]


@attrs.frozen
class Peer:
    """The other ends of our stdin and stdout."""

    stdin: int
    """Write here what we read."""
    stdout: int
    """Read here what we write."""

    def say(self, data: bytes) -> None:
        assert os.write(self.stdin, data) == len(data)

    async def hear(self, size: int) -> bytes:
        """The next ``size`` bytes of our stdout."""
        heard = b""
        while len(heard) < size:
            await trio.lowlevel.wait_readable(self.stdout)
            chunk = os.read(self.stdout, size - len(heard))
            assert chunk
            heard += chunk
        return heard


class Stdio:
    """Descriptors 0 and 1 of this very process, led to files of the test's choice and back in the end."""

    def __init__(self) -> None:
        self._files = ExitStack()
        self._saved = [os.dup(0), os.dup(1)]

    def use(self, stdin: int, stdout: int) -> None:
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)

    def lead_to(self, kind: str) -> Peer:
        match kind:
            case "pipe":
                (our_in, their_in), (their_out, our_out) = os.pipe(), os.pipe()
            case "socket":
                (our_in, their_in), (their_out, our_out) = _socket_pair(), _socket_pair()
            case _:
                their_in, our_in = pty.openpty()
                tty.setraw(our_in)
                their_out, our_out = os.dup(their_in), os.dup(our_in)
        for fd in (their_in, their_out):
            self._files.callback(_close, fd)
        self.use(our_in, our_out)
        os.close(our_in)
        os.close(our_out)
        return Peer(their_in, their_out)

    def restore(self) -> None:
        self.use(*self._saved)
        for fd in self._saved:
            os.close(fd)
        self._files.close()


def _socket_pair() -> Fds:
    left, right = socket.socketpair()
    return left.detach(), right.detach()


def _close(fd: int) -> None:
    with suppress(OSError):  # the test closed it
        os.close(fd)


@pytest.fixture
def stdio() -> Iterator[Stdio]:
    before = sorted(os.listdir("/proc/self/fd"))
    stdio = Stdio()
    yield stdio
    stdio.restore()
    deadline = time.monotonic() + 2  # an abandoned thread closes its descriptor when its system call returns
    while sorted(os.listdir("/proc/self/fd")) != before and time.monotonic() < deadline:
        time.sleep(0.001)
    assert sorted(os.listdir("/proc/self/fd")) == before


async def receive_all(transport: Transport) -> list[Frame]:
    received: list[Frame] = []
    while frames := await transport.receive():
        received += frames
    return received


# ----------------------------------------------------------------------------------------------------- frames both ways


@pytest.mark.spec("TRANS-02", "TRANS-04", "TRANS-06")
@every_kind
@both_ways
async def test_frames_come_and_go(stdio: Stdio, kind: str, threads: bool) -> None:
    peer = stdio.lead_to(kind)
    async with open_stdio(threads=threads) as transport:
        peer.say(b'{"id":1}\n{"id":2}\r\n\n{"id"')
        assert await transport.receive() == [b'{"id":1}', b'{"id":2}']
        await transport.send([b"one"])
        await transport.send([b"two", b"three"])
        assert await peer.hear(14) == b"one\ntwo\nthree\n"
        peer.say(b":3}\n")
        assert await transport.receive() == [b'{"id":3}']


@pytest.mark.spec("TRANS-06")
@every_kind
@both_ways
async def test_the_end_of_input_gives_the_last_unterminated_line_and_then_nothing(
    stdio: Stdio, kind: str, threads: bool
) -> None:
    peer = stdio.lead_to(kind)
    async with open_stdio(threads=threads) as transport:
        peer.say(b"one\ntwo" if kind != "pty" else b"one\n")  # a terminal that hangs up may drop what was not read
        assert await transport.receive() == [b"one"]
        os.close(peer.stdin)
        if kind == "pty":
            os.close(peer.stdout)
        assert await receive_all(transport) == ([] if kind == "pty" else [b"two"])
        assert not await transport.receive()


@both_ways
async def test_a_frame_beyond_the_limit_is_told_apart(stdio: Stdio, threads: bool) -> None:
    peer = stdio.lead_to("pipe")
    async with open_stdio(threads=threads, max_frame_bytes=10) as transport:
        peer.say(b"x" * 100 + b"\nshort\n")
        assert await transport.receive() == [OversizedFrame(b"x" * 100, b"x" * 100, 100), b"short"]


@pytest.mark.field_note(14, 15)
@every_kind
@both_ways
async def test_a_burst_of_5_mb_to_a_slow_reader_arrives_whole(stdio: Stdio, kind: str, threads: bool) -> None:
    peer = stdio.lead_to(kind)
    frames = [bytes([65 + i % 26]) * 4999 for i in range(1000)]
    async with open_stdio(threads=threads) as transport, trio.open_nursery() as nursery:
        nursery.start_soon(transport.send, frames)
        await wait_all_tasks_blocked()  # the reader sleeps, the writer waits for it
        assert await peer.hear(5_000_000) == b"".join(frame + b"\n" for frame in frames)


@both_ways
async def test_a_burst_of_5_mb_is_read_whole(stdio: Stdio, threads: bool) -> None:
    peer = stdio.lead_to("pipe")
    frames = [bytes([65 + i % 26]) * 49_999 for i in range(100)]

    def flood() -> None:
        with open(peer.stdin, "wb", closefd=False) as file:
            file.writelines(frame + b"\n" for frame in frames)
        os.close(peer.stdin)

    async with open_stdio(threads=threads) as transport, trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, flood)
        assert await receive_all(transport) == frames


@pytest.mark.field_note(14)
@both_ways
async def test_a_file_can_be_stdin_and_stdout(stdio: Stdio, threads: bool, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"one\ntwo\n")
    (tmp_path / "out").write_bytes(b"before\n")
    with open(tmp_path / "in", "rb") as stdin, open(tmp_path / "out", "ab") as stdout:  # noqa: ASYNC230
        stdio.use(stdin.fileno(), stdout.fileno())
        async with open_stdio(threads=threads) as transport:
            assert await receive_all(transport) == [b"one", b"two"]
            await transport.send([b"three", b"four"])
            await transport.send([b"five"])
        os.write(1, b"after\n")
    assert (tmp_path / "out").read_bytes() == b"before\nthree\nfour\nfive\nafter\n"


@both_ways
async def test_the_null_device_is_an_empty_input_and_takes_all_output(stdio: Stdio, threads: bool) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    stdio.use(null, null)
    os.close(null)
    async with open_stdio(threads=threads) as transport:
        assert not await transport.receive()
        await transport.send([b"x" * 1_000_000])


# ---------------------------------------------------------------------------------------------------- what is protected


@pytest.mark.spec("TRANS-08", "TRANS-10")
@pytest.mark.field_note(3, 5)
def test_whatever_prints_reads_or_inherits_stdio_cannot_touch_the_protocol(tmp_path: Path) -> None:
    script = """
        import os, subprocess, sys, trio
        from acp_ref.stdio import open_stdio

        async def main():
            early = sys.stdout
            print("before")
            async with open_stdio() as transport:
                frames = await transport.receive()
                print("printed")
                early.write("written\\n")       # by a reference from before, into a buffer
                os.write(1, b"raw\\n")
                subprocess.run(["sh", "-c", "echo child; cat"], check=True)
                try:
                    input()
                except EOFError:
                    print("no input")
                await transport.send([frames[0], *await transport.receive()])
            print("after")

        trio.run(main)
    """
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], input=b'{"id":1}\n{"id":2}', capture_output=True, check=True
    )
    # both frames came with one read or with two
    assert result.stdout.replace(b"\n", b" ").split() == [b"before", b'{"id":1}', b'{"id":2}', b"after"]
    assert sorted(result.stderr.decode().splitlines()) == ["child", "no input", "printed", "raw", "written"]


@pytest.mark.field_note(5)
async def test_descriptors_0_and_1_are_harmless_while_it_runs_and_as_before_after(stdio: Stdio) -> None:
    peer = stdio.lead_to("socket")
    before = [os.fstat(0), os.fstat(1)]
    printed = sys.stdout
    inheritable = {fd for fd in _open_fds() if os.get_inheritable(fd)}
    async with open_stdio() as transport:
        assert os.path.samestat(os.fstat(0), os.stat(os.devnull))
        assert os.path.samestat(os.fstat(1), os.fstat(2))
        assert sys.stdout is sys.stderr
        assert {fd for fd in _open_fds() if os.get_inheritable(fd)} == inheritable
        await transport.send([b"x"])
    assert [os.fstat(0), os.fstat(1)] == before
    assert os.get_inheritable(0)
    assert os.get_inheritable(1)
    assert sys.stdout is printed
    peer.say(b"left over")
    assert os.read(0, 100) == b"left over"


def _open_fds() -> Iterator[int]:
    for name in os.listdir("/proc/self/fd"):
        try:
            os.fstat(int(name))
        except OSError:  # the listing's own
            continue
        yield int(name)


@pytest.mark.field_note(14)
@every_kind
@both_ways
async def test_the_mode_of_an_inherited_file_is_never_changed(stdio: Stdio, kind: str, threads: bool) -> None:
    peer = stdio.lead_to(kind)
    shared = [os.dup(0), os.dup(1)]  # the same open files, as our parent holds them
    try:
        async with open_stdio(threads=threads) as transport, trio.open_nursery() as nursery:
            nursery.start_soon(transport.send, [b"x" * 1_000_000])
            peer.say(b"one\n")
            assert await transport.receive() == [b"one"]
            assert all(os.get_blocking(fd) for fd in shared)
            await peer.hear(1_000_001)
        assert all(os.get_blocking(fd) for fd in shared)
    finally:
        for fd in shared:
            os.close(fd)


@pytest.mark.field_note(14)
@every_kind
@both_ways
async def test_a_parent_that_made_our_stdio_non_blocking_does_no_harm(stdio: Stdio, kind: str, threads: bool) -> None:
    peer = stdio.lead_to(kind)
    os.set_blocking(0, False)
    os.set_blocking(1, False)
    async with open_stdio(threads=threads) as transport, trio.open_nursery() as nursery:

        async def receive() -> None:
            assert await transport.receive() == [b"one"]

        nursery.start_soon(receive)
        nursery.start_soon(transport.send, [b"x" * 1_000_000])
        await wait_all_tasks_blocked(0.01)
        peer.say(b"one\n")
        await peer.hear(1_000_001)


async def test_a_default_timeout_of_sockets_changes_nothing(stdio: Stdio) -> None:
    peer = stdio.lead_to("socket")
    shared = os.dup(1)
    socket.setdefaulttimeout(5)
    try:
        async with open_stdio() as transport, trio.open_nursery() as nursery:
            assert os.get_blocking(shared)
            nursery.start_soon(transport.send, [b"x" * 1_000_000])
            await wait_all_tasks_blocked()
            await peer.hear(1_000_001)
    finally:
        socket.setdefaulttimeout(None)
        os.close(shared)


@pytest.mark.field_note(14)
def test_logging_a_lot_to_a_stderr_that_is_the_same_terminal_as_stdout_does_not_fail() -> None:
    script = """
        import sys, trio
        from acp_ref.stdio import open_stdio

        async def main():
            async with open_stdio() as transport:
                await transport.receive()
                sys.stderr.write("e" * 1_000_000)
                await transport.send([b"o" * 1_000_000])

        trio.run(main)
    """
    terminal, ours = pty.openpty()
    tty.setraw(ours)
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdin=ours, stdout=ours, stderr=ours
    ) as process:
        os.close(ours)
        os.write(terminal, b"go\n")
        time.sleep(0.01)
        heard = b""
        while len(heard) < 2_000_001:
            heard += os.read(terminal, 65536)
        assert process.wait(10) == 0
    os.close(terminal)
    assert (heard.count(b"e"), heard.count(b"o")) == (1_000_000, 1_000_000)


async def test_stdio_is_taken_over_once(stdio: Stdio) -> None:
    stdio.lead_to("pipe")
    async with open_stdio():
        with pytest.raises(trio.BusyResourceError):
            async with open_stdio():
                pass
    async with open_stdio():
        pass


async def test_a_closed_stdout_is_refused_and_nothing_changes(stdio: Stdio) -> None:
    stdio.lead_to("pipe")
    os.close(1)
    with pytest.raises(OSError, match="Bad file descriptor"):
        async with open_stdio():
            pass
    os.dup2(0, 1)
    async with open_stdio():
        pass


async def test_without_a_stderr_stray_output_goes_nowhere(stdio: Stdio) -> None:
    peer = stdio.lead_to("pipe")
    stderr = os.dup(2)
    os.close(2)
    try:
        async with open_stdio() as transport:
            os.write(1, b"stray\n")
            await transport.send([b"frame"])
        assert await peer.hear(6) == b"frame\n"
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


# ------------------------------------------------------------------------------------------------------------- the end


@pytest.mark.field_note(13)
@pytest.mark.parametrize("kind", ["pipe", "socket"])
@both_ways
async def test_writing_to_a_client_that_is_gone_raises_broken(stdio: Stdio, kind: str, threads: bool) -> None:
    peer = stdio.lead_to(kind)
    async with open_stdio(threads=threads) as transport:
        os.close(peer.stdout)
        for _ in range(2):
            with pytest.raises(trio.BrokenResourceError, match="stopped reading"):
                await transport.send([b"x"])


async def test_a_client_that_is_gone_before_we_start_is_noticed_at_the_first_write(stdio: Stdio) -> None:
    peer = stdio.lead_to("pipe")
    os.close(peer.stdout)
    async with open_stdio() as transport:
        with pytest.raises(trio.BrokenResourceError, match="stopped reading"):
            await transport.send([b"x"])


@every_kind
@both_ways
async def test_a_send_that_is_cancelled_inside_a_frame_is_the_last(stdio: Stdio, kind: str, threads: bool) -> None:
    peer = stdio.lead_to(kind)
    async with open_stdio(threads=threads) as transport:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(transport.send, [b"x" * 5_000_000])
            await wait_all_tasks_blocked(0.05)
            nursery.cancel_scope.cancel()
        with pytest.raises(trio.BrokenResourceError, match="cut off"):
            await transport.send([b"y"])
        os.close(peer.stdin)
        os.close(peer.stdout)  # lets the thread go


async def test_a_send_that_is_cancelled_before_its_first_byte_does_no_harm(stdio: Stdio) -> None:
    peer = stdio.lead_to("pipe")
    async with open_stdio() as transport:
        with trio.CancelScope() as scope:
            scope.cancel()
            await transport.send([b"x"])
        with trio.move_on_after(0):
            await transport.send([b"x"])
        await transport.send([b"y"])
        assert await peer.hear(2) == b"y\n"


@both_ways
async def test_a_receive_that_is_cancelled_loses_nothing(stdio: Stdio, threads: bool) -> None:
    peer = stdio.lead_to("pipe")
    async with open_stdio(threads=threads) as transport:
        for _ in range(3):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(transport.receive)
                await wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
        peer.say(b"one\n")
        with trio.fail_after(5):
            assert await transport.receive() == [b"one"]


@both_ways
async def test_closing_wakes_who_receives_and_who_sends(stdio: Stdio, threads: bool) -> None:
    peer = stdio.lead_to("pipe")

    async with open_stdio(threads=threads) as transport:
        async with trio.open_nursery() as nursery:

            async def receives() -> None:
                with pytest.raises(trio.ClosedResourceError):
                    await transport.receive()

            async def sends() -> None:
                with pytest.raises(trio.ClosedResourceError):
                    await transport.send([b"x" * 5_000_000])

            nursery.start_soon(receives)
            nursery.start_soon(sends)
            await wait_all_tasks_blocked(0.05)
            await transport.aclose()
        await transport.aclose()
        with pytest.raises(trio.ClosedResourceError):
            await transport.receive()
        with pytest.raises(trio.ClosedResourceError):
            await transport.send([b"x"])
        os.close(peer.stdin)
        os.close(peer.stdout)


@pytest.mark.field_note(11)
@both_ways
def test_a_read_in_flight_does_not_keep_the_process_alive(threads: bool) -> None:
    script = f"""
        import trio
        from acp_ref.stdio import open_stdio

        async def main():
            async with open_stdio(threads={threads}) as transport:
                with trio.move_on_after(0.05):
                    await transport.receive()

        trio.run(main)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdin=subprocess.PIPE) as process:
        assert process.wait(10) == 0
