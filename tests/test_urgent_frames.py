"""Requests and answers leave at once where they can, and nothing changes places for it."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from acp_ref._fd_stream import FrameStream, PolledReader, PolledSocketWriter, PolledWriter
from acp_ref._framing import DEFAULT_MAX_FRAME_BYTES, Frame
from acp_ref._jsonrpc import JSON, loads
from acp_ref._outbox import URGENT_BYTES, Outbox
from acp_ref.connection import Connection, open_connection
from acp_ref.handlers import Handlers
from acp_ref.methods import AGENT, CLIENT, INITIALIZE, extension_method
from acp_ref.requests import Answered, IncomingRequest
from acp_ref.schema import InitializeRequest, InitializeResponse, ProtocolVersion
from acp_ref.transports import EagerTransport, MemoryTransport, Transport, memory_transport_pair
from tests.test_connection import ECHO, TELL, echo, initialize

ONE: Final = ProtocolVersion(1)
FOLLOWED: Final = extension_method("_test/followed", JSON, JSON)


@attrs.define
class Noted:
    """A transport that notes what it is given, and how."""

    inner: MemoryTransport
    writes: list[tuple[str, list[JSON]]] = attrs.field(factory=list[tuple[str, list[JSON]]])
    willing: bool = True

    def _note(self, how: str, frames: Sequence[bytes]) -> None:
        self.writes.append((how, [loads(frame) for frame in frames]))

    async def receive(self) -> Sequence[Frame]:
        return await self.inner.receive()

    async def send(self, frames: Sequence[bytes]) -> None:
        self._note("send", frames)
        await self.inner.send(frames)

    def send_now(self, frames: Sequence[bytes]) -> bool:
        if not (self.willing and self.inner.send_now(frames)):
            return False
        self._note("send_now", frames)
        return True

    async def aclose(self) -> None:
        await self.inner.aclose()

    def methods(self) -> list[tuple[str, list[JSON]]]:
        """What was written, by its method or its result."""
        return [(how, [_name(message) for message in messages]) for how, messages in self.writes]


def _name(message: JSON) -> JSON:
    assert isinstance(message, dict)
    return message.get("method") or message.get("result")


def echo_and_tell(request: IncomingRequest, params: JSON) -> Answered[JSON]:
    request.on_answered(lambda: request.connection.put_notification(TELL, 1))
    return Answered(params)


@asynccontextmanager
async def noted() -> AsyncGenerator[tuple[Connection, Noted, Connection, Noted], None]:
    """A client and an agent that echo, and what each of them writes."""
    handlers = Handlers()
    handlers.on_request(ECHO, echo)
    handlers.on_notification(TELL, lambda connection, params: None)
    agents = Handlers()
    agents.update(handlers)
    agents.on_request(INITIALIZE, initialize)
    agents.on_request(FOLLOWED, echo_and_tell)
    ours, theirs = memory_transport_pair()
    client_end, agent_end = Noted(ours), Noted(theirs)
    client, agent = Connection(client_end, CLIENT, handlers), Connection(agent_end, AGENT, agents)
    async with open_connection(agent), open_connection(client):
        answer: InitializeResponse = await client.request(INITIALIZE, InitializeRequest(protocol_version=ONE))
        client.counterpart = answer.agent_capabilities
        client_end.writes.clear()
        agent_end.writes.clear()
        yield client, client_end, agent, agent_end


async def test_a_request_is_written_before_its_caller_waits() -> None:
    async with noted() as (client, end, _, _):
        request = await client.send_request(ECHO, "a")
        assert end.methods() == [("send_now", ["_test/echo"])]
        assert await request.wait() == "a"


async def test_an_answer_is_written_in_the_step_that_makes_it() -> None:
    async with noted() as (client, _, _, end):
        assert [await client.request(ECHO, text) for text in ("a", "b")] == ["a", "b"]
        assert end.methods() == [("send_now", ["a"]), ("send_now", ["b"])]


async def test_an_answer_leaves_together_with_what_must_follow_it() -> None:
    async with noted() as (client, _, _, end):
        assert await client.request(FOLLOWED, "a") == "a"
        assert end.methods() == [("send", ["a", "_test/tell"])]


async def test_what_was_said_before_a_request_leaves_before_it_and_with_it() -> None:
    async with noted() as (client, end, _, _):
        await client.notify(TELL, 1)
        await client.notify(TELL, 2)
        request = await client.send_request(ECHO, "a")
        await client.notify(TELL, 3)
        await request.wait()
        assert end.methods() == [
            ("send_now", ["_test/tell", "_test/tell", "_test/echo"]),
            ("send", ["_test/tell"]),
        ]
        assert client.statistics().writes == 3  # and initialize


async def test_requests_and_answers_that_come_in_a_burst_share_their_writes() -> None:
    async with noted() as (client, ours, _, theirs):
        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(client.request, ECHO, number)
        assert [len(messages) for _, messages in ours.writes] == [1, 99]
        assert sum(len(messages) for _, messages in theirs.writes) == 100
        assert len(theirs.writes) <= 4


async def test_an_urgent_frame_waits_while_a_write_goes_on() -> None:
    written: list[bytes] = []
    go_on = trio.Event()

    async def send(frames: Sequence[bytes]) -> None:
        written.append(frames[0])
        await go_on.wait()
        written.extend(frames[1:])

    def send_now(frames: Sequence[bytes]) -> bool:
        written.extend(frames)
        return True

    outbox = Outbox(1 << 16, send_now)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.write, send)
        outbox.put(b"1")
        outbox.put(b"2")
        await wait_all_tasks_blocked()
        outbox.put_urgent(b"3")
        await wait_all_tasks_blocked()
        assert written == [b"1"]
        go_on.set()
        await wait_all_tasks_blocked()
        outbox.close()
    assert written == [b"1", b"2", b"3"]


async def test_a_request_that_cannot_be_written_at_once_is_written_later_and_once() -> None:
    async with noted() as (client, end, _, _):
        end.willing = False
        assert await client.request(ECHO, "a") == "a"
        assert end.methods() == [("send", ["_test/echo"])]


async def test_a_large_request_is_left_to_the_writer() -> None:
    async with noted() as (client, end, _, _):
        text = "x" * URGENT_BYTES
        assert await client.request(ECHO, text) == text
        assert [how for how, _ in end.writes] == ["send"]


async def test_a_transport_of_three_methods_will_do() -> None:
    class Plain:
        def __init__(self, inner: Transport) -> None:
            self.receive, self.send, self.aclose = inner.receive, inner.send, inner.aclose

    handlers = Handlers()
    handlers.on_request(INITIALIZE, initialize)
    ours, theirs = memory_transport_pair()
    plain: Transport = Plain(ours)
    assert not isinstance(plain, EagerTransport)
    client = Connection(plain, CLIENT, Handlers())
    async with open_connection(Connection(theirs, AGENT, handlers)), open_connection(client):
        answer = await client.request(INITIALIZE, InitializeRequest(protocol_version=ONE))
        assert answer.protocol_version == 1


async def test_a_refusal_to_write_now_wakes_the_writer_and_keeps_the_order() -> None:
    written: list[bytes] = []

    async def send(frames: Sequence[bytes]) -> None:
        written.extend(frames)

    outbox = Outbox(1 << 16, lambda frames: False)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.write, send)
        await wait_all_tasks_blocked()
        outbox.put(b"1")
        outbox.put_urgent(b"2")
        outbox.put_urgent(b"3")
        outbox.put(b"4")
        await wait_all_tasks_blocked()
        outbox.close()
        outbox.put_urgent(b"5")
    assert written == [b"1", b"2", b"3", b"4"]
    assert (outbox.frames_sent, outbox.queued_bytes) == (4, 0)


async def test_room_that_an_urgent_frame_makes_wakes_who_waits_for_it() -> None:
    outbox = Outbox(2, lambda frames: True)
    outbox.put(b"12")  # and the writer never runs
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.wait_for_room)
        await wait_all_tasks_blocked()
        outbox.put_urgent(b"3")
    assert (outbox.frames_sent, outbox.writes, outbox.queued_bytes) == (2, 1, 0)


@pytest.mark.parametrize("willing", [True, False])
async def test_what_is_said_by_who_writes_an_urgent_frame_follows_that_frame(willing: bool) -> None:
    written: list[bytes] = []

    def send_now(frames: Sequence[bytes]) -> bool:
        if written or not willing:
            outbox.put(b"4")
            return False
        written.extend(frames)
        outbox.put(b"3")
        outbox.put_urgent(b"3 too")
        return True

    async def send(frames: Sequence[bytes]) -> None:
        written.extend(frames)

    outbox = Outbox(1 << 16, send_now)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.write, send)
        await wait_all_tasks_blocked()
        outbox.put(b"1")
        outbox.put_urgent(b"2")
        await wait_all_tasks_blocked()
        outbox.close()
    assert written == ([b"1", b"2", b"3", b"3 too"] if willing else [b"1", b"2", b"4"])
    assert (outbox.frames_sent, outbox.queued_bytes) == (len(written), 0)


async def test_no_interrupt_comes_between_a_write_and_the_note_of_it() -> None:
    guarded: list[bool] = []

    async def send(frames: Sequence[bytes]) -> None:
        guarded.append(trio.lowlevel.currently_ki_protected())

    def send_now(frames: Sequence[bytes]) -> bool:
        guarded.append(trio.lowlevel.currently_ki_protected())
        return True

    assert not trio.lowlevel.currently_ki_protected()
    outbox = Outbox(1 << 16, send_now)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.write, send)
        await wait_all_tasks_blocked()
        outbox.put_urgent(b"1")
        outbox.put(b"2")
        await wait_all_tasks_blocked()
        outbox.close()
    assert guarded == [True, True]


# ------------------------------------------------------------------------------------------------ what the kernel takes


@contextmanager
def stream_to(kind: str) -> Generator[tuple[FrameStream, int], None, None]:
    """A stream that writes to a pipe or socket, and the other end of that."""
    null = os.open(os.devnull, os.O_RDONLY)
    if kind == "pipe":
        theirs, ours = os.pipe()
        os.set_blocking(ours, False)
        writer = PolledWriter(ours)
    else:
        left, right = socket.socketpair()
        left.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # as little as there is
        theirs = right.detach()
        writer = PolledSocketWriter(left.detach())
    stream = FrameStream(PolledReader(null), writer, DEFAULT_MAX_FRAME_BYTES)
    try:
        yield stream, theirs
    finally:
        stream.close()
        os.close(theirs)


@pytest.mark.parametrize("kind", ["pipe", "socket"])
@pytest.mark.parametrize("size", [1, 100, 1_000, 4_000])
async def test_what_a_full_kernel_buffer_takes_in_part_arrives_whole_and_once(kind: str, size: int) -> None:
    frames: list[bytes] = []
    with stream_to(kind) as (stream, theirs):
        batch: list[bytes] = []
        while len(frames) < 200_000:
            frame = b"%d " % len(frames) + b"x" * size
            frames.append(frame)
            batch = [frame]
            if not stream.send_now(batch):
                break
        for _ in range(3):  # and more is said meanwhile
            frames.append(b"%d more" % len(frames))
            batch.append(frames[-1])
            if stream.send_now(batch):
                batch = []
        async with trio.open_nursery() as nursery:
            if batch:
                nursery.start_soon(stream.send, batch)
            whole = b"".join(frame + b"\n" for frame in frames)
            heard = b""
            while len(heard) < len(whole):
                await trio.lowlevel.wait_readable(theirs)
                heard += os.read(theirs, 1 << 16)
        assert heard == whole


@pytest.mark.parametrize("kind", ["pipe", "socket"])
async def test_a_reader_that_is_gone_is_told_by_the_writer_and_never_by_send_now(kind: str) -> None:
    with stream_to(kind) as (stream, theirs):
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, theirs)  # the other end is closed
        os.close(null)
        assert not stream.send_now([b"a"])
        with pytest.raises(trio.BrokenResourceError, match="stopped reading"):
            await stream.send([b"a"])
        stream.close()
        assert not stream.send_now([b"a"])
        with pytest.raises(trio.ClosedResourceError):
            await stream.send([b"a"])


class Reluctant(PolledWriter):
    """Takes three bytes, then no more until it is told to."""

    takes = 3

    def _write_now(self, data: bytes | memoryview) -> int:
        if not self.takes:
            raise BlockingIOError
        taken, self.takes = min(self.takes, len(data)), 0
        return super()._write_now(data[:taken])


@pytest.mark.parametrize("cancelled", [False, True])
async def test_what_began_to_be_written_at_once_goes_on_where_it_stopped_or_ends_the_stream(cancelled: bool) -> None:
    theirs, ours = os.pipe()
    os.set_blocking(ours, False)
    writer = Reluctant(ours)
    try:
        assert not writer.write_now(b"hello\n")
        assert not writer.write_now(b"hello\nthere\n")
        if cancelled:
            with trio.CancelScope() as scope:
                scope.cancel()
                await writer.write(b"hello\nthere\n")
        writer.takes = 100
        if cancelled:
            with pytest.raises(trio.BrokenResourceError, match="cut off"):
                await writer.write(b"hello\n")
            assert not writer.write_now(b"hello\n")
            assert os.read(theirs, 100) == b"hel"
        else:
            await writer.write(b"hello\nthere\n")
            writer.takes = 100
            assert writer.write_now(b"!\n")
            assert os.read(theirs, 100) == b"hello\nthere\n!\n"
    finally:
        writer.close()
        os.close(theirs)
