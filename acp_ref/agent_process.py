"""A spawned agent as a transport: the client's side of stdio.

https://agentclientprotocol.com/protocol/transports#stdio

The agent runs in a process group of its own (see :mod:`acp_ref._processes`) with three pipes: frames go to its stdin
(TRANS-11) and come from its stdout; its stderr is always read, so that it never blocks on its own log, and the end of
it is kept (TRANS-09).

When the agent goes by itself, "the connection closed" helps nobody. So the end of its stdout waits a moment for its
exit status and its last words, and becomes an :class:`AgentProcessError` that has both. A failed write waits for that
end, so that all the agent still said is read first and both tell the same story. What ends after *we* closed is no
error at all. Nor need the end of the agent be that of its stdout: a child may hold the pipe. So once the agent is gone,
silence counts as the end.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import Final

import trio

from acp_ref._fd_stream import FrameStream, PolledReader, PolledWriter, ThreadedReader, ThreadedWriter
from acp_ref._framing import DEFAULT_MAX_FRAME_BYTES, Frame
from acp_ref._nursery import open_nursery_beside
from acp_ref._processes import ChildProcess, child_environment, open_child

if sys.platform == "linux":
    import fcntl

__all__ = ["AgentProcess", "AgentProcessError", "AgentStartError", "open_agent_transport"]

LAST_WORDS_TIMEOUT: Final = 1.0
"""Seconds between the end of stdout (or a failed write) and the exit: a process closes its files before it is gone."""

STDOUT_GRACE: Final = 0.5
"""Seconds to read what the agent wrote before it went: a process outside its group may hold the pipe."""

PIPE_BYTES: Final = 1024 * 1024
"""What a pipe may hold, where we may say so: fewer context switches in a burst than with the usual 64 KiB."""


class AgentStartError(OSError):
    """The agent could not be started; the text names the command and why."""

    command: tuple[str, ...]

    def __init__(self, errno: int, reason: str, command: Sequence[str] = ()) -> None:
        super().__init__(errno, reason)
        self.command = tuple(command)


class AgentProcessError(trio.BrokenResourceError):
    """The agent ended, or closed a pipe, before this side closed the connection."""

    command: tuple[str, ...]
    exit_status: int | None
    """Minus the signal's number when a signal ended it; None when it still runs."""
    stderr_tail: str
    """The last it wrote to stderr, at most 4 KiB."""

    def __init__(self, what: str, command: tuple[str, ...], exit_status: int | None, stderr_tail: str) -> None:
        super().__init__(what, command, exit_status, stderr_tail)
        self.what = what
        self.command = command
        self.exit_status = exit_status
        self.stderr_tail = stderr_tail

    def __str__(self) -> str:
        last_words = self.stderr_tail.strip()
        return f"the agent {shlex.join(self.command)!r} {self.what}" + (f"; stderr: {last_words}" if last_words else "")


class AgentProcess:
    """A running agent and the frames to and from it; a :class:`~acp_ref.transports.Transport`."""

    def __init__(self, child: ChildProcess, stream: FrameStream, *, stdin_grace: float, term_grace: float) -> None:
        self._child = child
        self._stream = stream
        self._stdin_grace = stdin_grace
        self._term_grace = term_grace
        self._closing = False
        self._receiving = False
        self._discarding = False
        self._reads = 0
        self._cut_off = False
        self._watching = trio.CancelScope()
        self._stdout_ended = trio.Event()

    def __repr__(self) -> str:
        return f"<AgentProcess {self.pid} {shlex.join(self.command)!r}: {self._child.exit_reason()}>"

    @property
    def command(self) -> tuple[str, ...]:
        """What was started."""
        return self._child.command

    @property
    def pid(self) -> int:
        """Its process id, and on POSIX the id of its process group."""
        return self._child.pid

    @property
    def returncode(self) -> int | None:
        """Its exit status, minus the signal's number when a signal ended it; None while it runs."""
        return self._child.returncode

    @property
    def stderr_tail(self) -> str:
        """The last it wrote to stderr, at most 4 KiB."""
        return self._child.stderr_tail

    async def receive(self) -> Sequence[Frame]:
        """Wait for the agent's next frames. Empty when it ended because this side closed the transport.

        Raises:
          AgentProcessError: the agent ended, or closed its stdout, by itself.
          trio.ClosedResourceError: this side closed the transport, and the agent is gone.
          trio.BusyResourceError: another task is receiving.
        """
        if self._receiving:
            raise trio.BusyResourceError("another task is receiving from the agent")
        if self._discarding:
            await self._stdout_ended.wait()
            return ()
        self._receiving = True
        self._reads += 1
        try:
            if frames := await self._stream.receive():
                return frames
        except trio.ClosedResourceError:
            if not self._cut_off:
                raise
        finally:
            self._receiving = False
        self._stdout_ended.set()
        if not self._closing:
            await self._wait_for_last_words()
        if self._closing:
            return ()
        raise self._error("closed its stdout")

    def send_now(self, frames: Sequence[bytes]) -> bool:
        """See :class:`~acp_ref.transports.EagerTransport`."""
        return self._stream.send_now(frames)

    async def send(self, frames: Sequence[bytes]) -> None:
        """Write whole frames to the agent. One task sends; when it is cancelled inside a frame, no other can follow.

        Raises:
          AgentProcessError: the agent ended, or stopped reading.
          trio.ClosedResourceError: this side closed the transport.
        """
        try:
            await self._stream.send(frames)
        except trio.BrokenResourceError as exc:
            await self._wait_for_last_words()
            if self._closing:
                raise trio.ClosedResourceError("this side closed the transport") from None
            raise self._error(f"cannot be written to ({exc})") from exc

    async def aclose(self) -> None:
        """End the agent: close its stdin, wait, SIGTERM, wait, SIGKILL, to it and all in its group (TRANS-12).

        Idempotent. Shielded from cancellation, as the time it takes is bounded.
        """
        self._closing = True
        self._watching.cancel()
        self._stream.close_writing()
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._discard_output)
                await self._child.shutdown(stdin_grace=self._stdin_grace, term_grace=self._term_grace)
                with trio.move_on_after(STDOUT_GRACE):
                    await self._stdout_ended.wait()
                nursery.cancel_scope.cancel()
        self._stdout_ended.set()
        self._stream.close()

    async def drain_stderr(self, sink: Callable[[bytes], None] | None) -> None:
        """Read stderr until :meth:`aclose` ends; a cancellation must not stop it before, or the agent might block."""
        with trio.CancelScope(shield=True):
            await self._child.drain_stderr(sink)

    async def watch(self) -> None:
        """When the agent is gone and nothing more comes, end its output, whoever else may hold the pipe."""
        with self._watching:
            await self._child.wait()
            while not self._stdout_ended.is_set():
                reads = self._reads
                await trio.sleep(LAST_WORDS_TIMEOUT)
                if self._receiving and self._reads == reads:
                    self._cut_off = True
                    self._stream.close_reading()
                    break

    async def _discard_output(self) -> None:
        # An agent that blocks on a full stdout would not see that its stdin ended. Whoever waits for frames goes first:
        # he may have been woken for one already, and then the descriptor does not tell that he is reading.
        if self._receiving or self._discarding:
            return
        self._discarding = True
        try:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                while await self._stream.receive():
                    pass
            self._stdout_ended.set()
        finally:
            self._discarding = False

    async def _wait_for_last_words(self) -> None:
        with trio.move_on_after(LAST_WORDS_TIMEOUT):
            await self._stdout_ended.wait()
            await self._child.wait()
            await self._child.wait_stderr_ended()

    def _error(self, what: str) -> AgentProcessError:
        status = self._child.returncode
        what = f"still runs, but {what}" if status is None else f"ended with {self._child.exit_reason()}"
        return AgentProcessError(what, self.command, status, self.stderr_tail)


@asynccontextmanager
async def open_agent_transport(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    stderr: Callable[[bytes], None] | None = None,
    max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES,
    stdin_grace: float = 2.0,
    term_grace: float = 2.0,
    threads: bool = sys.platform == "win32",
) -> AsyncGenerator[AgentProcess]:
    """Start an agent (TRANS-03) and end it, with all in its process group, when the context ends on whatever path.

    Args:
      command: the program, looked up on the PATH the agent will have, and its arguments. No shell is involved.
      env: variables merged over our own environment.
      cwd: the agent's working directory; ours when None.
      stderr: sees each chunk that the agent writes to stderr.
      max_frame_bytes: the longest frame that is read; of a longer one only the head is kept.
      stdin_grace: seconds the agent has to go once its stdin ended, before SIGTERM.
      term_grace: seconds its group has to go after SIGTERM, before SIGKILL.
      threads: read and write in worker threads, the only way on Windows.

    Raises:
      AgentStartError: the program or ``cwd`` does not exist or may not be used.
      ValueError: ``command`` is empty or cannot be passed to the system.
    """
    child, stream = await _start(command, child_environment(env or {}), cwd, max_frame_bytes, threads=threads)
    agent = AgentProcess(child, stream, stdin_grace=stdin_grace, term_grace=term_grace)
    async with open_nursery_beside() as nursery:
        nursery.start_soon(agent.drain_stderr, stderr)
        nursery.start_soon(agent.watch)
        try:
            yield agent
        finally:
            await agent.aclose()


async def _start(
    command: Sequence[str], env: Mapping[str, str], cwd: str | None, max_frame_bytes: int, *, threads: bool
) -> tuple[ChildProcess, FrameStream]:
    with ExitStack() as theirs, ExitStack() as ours:
        their_stdin, stdin = os.pipe()
        theirs.callback(os.close, their_stdin)
        writer = ThreadedWriter(stdin) if threads else PolledWriter(stdin)
        ours.callback(writer.close)
        stdout, their_stdout = os.pipe()
        theirs.callback(os.close, their_stdout)
        reader = ThreadedReader(stdout) if threads else PolledReader(stdout)
        ours.callback(reader.close)
        if sys.platform != "win32" and not threads:
            os.set_blocking(stdin, False)
        _enlarge(stdin)
        _enlarge(stdout)
        try:
            child = await open_child(command, env=env, cwd=cwd, stdin=their_stdin, stdout=their_stdout)
        except OSError as exc:
            raise AgentStartError(exc.errno or 0, _why(exc, command, env, cwd), command) from exc
        ours.pop_all()
    return child, FrameStream(reader, writer, max_frame_bytes)


def _why(error: OSError, command: Sequence[str], env: Mapping[str, str], cwd: str | None) -> str:
    reason = error.strerror or str(error)
    if cwd is not None and error.filename == cwd:
        reason += f": its working directory {cwd!r}"
    elif isinstance(error, FileNotFoundError) and not os.path.dirname(command[0]):
        reason += f"; PATH is {env.get('PATH', os.defpath)!r}"
    return f"the agent {shlex.join(command)!r} could not be started: {reason}"


def _enlarge(pipe: int) -> None:
    if sys.platform == "linux":
        with suppress(OSError):  # beyond what the system grants us
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
