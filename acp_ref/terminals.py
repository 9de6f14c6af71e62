"""Terminals: the commands that a client runs for its agent.

https://agentclientprotocol.com/protocol/terminals

:class:`Terminals` answers the five terminal methods for one session. A command is run as given, program and arguments,
by no shell (D-21); it has no terminal device, reads nothing, and writes stdout and stderr into one pipe, in the order
in which it writes.

Theory of operation. A terminal is one task, which owns the process, its group and the pipe from start to release, and
two children of that task: one reads the pipe, one waits for the exit. *Ended* means that the process exited, never that
the pipe did: a grandchild may hold it open for ever. What the process wrote is in the pipe by then, so the reader gets
a moment to fetch it; after that the output is frozen and what still comes is thrown away, lest a background process
blocks on a full pipe. *Released* means that the agent gave the terminal back: its id is void, and its task ends the
group and then itself. The same shutdown of the group serves ``kill``, the release, and the end of the session.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Final, final

import trio

from acp_ref._fd_stream import ByteReader, PolledReader, ThreadedReader
from acp_ref._processes import ChildProcess, child_environment, open_child
from acp_ref._terminal_output import OutputBuffer
from acp_ref.errors import ErrorCode, RequestError
from acp_ref.reports import Report, ReportKind, log_report
from acp_ref.roots import check_cwd
from acp_ref.schema import (
    CreateTerminalRequest,
    CreateTerminalResponse,
    KillTerminalRequest,
    KillTerminalResponse,
    ReleaseTerminalRequest,
    ReleaseTerminalResponse,
    TerminalExitStatus,
    TerminalId,
    TerminalOutputRequest,
    TerminalOutputResponse,
    WaitForTerminalExitRequest,
    WaitForTerminalExitResponse,
)

__all__ = ["LocalTerminal", "Terminals"]

DEFAULT_MAX_OUTPUT_BYTES: Final = 1024 * 1024
"""1 MiB of output per terminal, when the agent sets no smaller limit. There is always a limit: ``yes`` never ends."""

DEFAULT_MAX_TERMINALS: Final = 64
"""Terminals of one session that are not released: enough for any agent that releases them."""

DEFAULT_RETAINED_BYTES: Final = 8 * 1024 * 1024
"""8 MiB for the released terminals of one session, which stay to be shown (TERM-14)."""

OVERHEAD_BYTES: Final = 4096
"""What a released terminal counts for besides its output, so that silent ones do not gather without bound."""

DRAIN_GRACE: Final = 0.25
"""Seconds between the exit and the end of the pipe. Only when a background process holds it is all of it waited."""


@final
class LocalTerminal:
    """A terminal of this client, for the application to show, also after its release (TOOL-15, TERM-16)."""

    id: TerminalId
    """What names it, within the session."""
    command: tuple[str, ...]
    """The program and its arguments."""
    cwd: str
    """The directory the command was started in."""

    def __init__(
        self,
        command: tuple[str, ...],
        cwd: str,
        *,
        output_byte_limit: int,
        term_grace: float,
        on_change: Callable[[LocalTerminal], None],
    ) -> None:
        self.id = TerminalId("term_" + secrets.token_hex(8))
        self.command = command
        self.cwd = cwd
        self._output = OutputBuffer(output_byte_limit)
        self._term_grace = term_grace
        self._on_change = on_change
        self._changes = trio.lowlevel.ParkingLot()
        self._child: ChildProcess | None = None
        self._exit_status: TerminalExitStatus | None = None
        self._pipe_ended = trio.Event()
        self._ended = trio.Event()
        self._released = trio.Event()
        self._gone = trio.Event()

    def __repr__(self) -> str:
        return f"<LocalTerminal {self.id} {self.command!r}>"

    @property
    def output(self) -> str:
        """What the command wrote, as far as it is kept. Each look costs time in proportion to its length."""
        return self._output.text()

    @property
    def output_bytes(self) -> int:
        """The length of :attr:`output` in UTF-8."""
        return len(self._output)

    @property
    def truncated(self) -> bool:
        """Whether the beginning of the output was dropped (TERM-04)."""
        return self._output.truncated

    @property
    def ended(self) -> bool:
        """Whether the command has ended. Output and exit status do not change any more."""
        return self._ended.is_set()

    @property
    def exit_status(self) -> TerminalExitStatus | None:
        """How the command ended (TERM-09). None while it runs, and for ever if not even SIGKILL could end it."""
        return self._exit_status

    @property
    def released(self) -> bool:
        """Whether the agent gave the terminal back."""
        return self._released.is_set()

    async def wait_changed(self) -> None:
        """Wait until there is more output, or the command has ended. When it has, return at once."""
        if self.ended:
            await trio.lowlevel.checkpoint()
        else:
            await self._changes.park()

    async def wait_ended(self) -> TerminalExitStatus:
        """Wait until the command has ended, and return how (TERM-10)."""
        await self._ended.wait()
        return self._exit_status or TerminalExitStatus()

    async def kill(self) -> None:
        """End the command and all in its process group (TERM-11). Harmless when it has ended (D-23)."""
        if self._child is None or self.ended:
            await trio.lowlevel.checkpoint()
            return
        await self._child.shutdown(stdin_grace=0, term_grace=self._term_grace)
        with trio.move_on_after(2 * DRAIN_GRACE):
            await self._ended.wait()

    # ------------------------------------------------------------------------------------------ what its owner calls

    async def run(
        self, env: Mapping[str, str], *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Start the command and own it until :meth:`release`, or until cancelled; nothing of it is left then.

        Raises:
          OSError, ValueError: it could not be started; see :func:`open_child`.
        """
        with ExitStack() as stack:
            stack.callback(self._gone.set)
            fd, their_fd = os.pipe()
            reader = ThreadedReader(fd) if sys.platform == "win32" else PolledReader(fd)
            stack.callback(reader.close)
            with os.fdopen(their_fd, "wb", buffering=0) as pipe:
                child = await open_child(
                    self.command, env=env, cwd=self.cwd, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe
                )
            try:
                self._child = child
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._read, reader)
                    nursery.start_soon(self._wait_for_exit, child)
                    task_status.started()
                    await self._released.wait()
                    await self.kill()
                    nursery.cancel_scope.cancel()
            finally:
                await child.shutdown(stdin_grace=0, term_grace=self._term_grace)  # and what it left in the background
                self._end(child.returncode)

    async def release(self) -> None:
        """Have :meth:`run` end the command, and wait until it is done, which is bounded."""
        if not self.released:
            self._released.set()
            self._changed()
        await self._gone.wait()

    async def _read(self, reader: ByteReader) -> None:
        try:
            while chunk := await reader.read():
                if not self.ended:
                    self._output.write(chunk)
                    self._changed()
        except trio.BrokenResourceError:
            pass  # as good as the end
        self._pipe_ended.set()

    async def _wait_for_exit(self, child: ChildProcess) -> None:
        status = await child.wait()
        with trio.move_on_after(DRAIN_GRACE) as grace:
            await self._pipe_ended.wait()
        if grace.cancelled_caught:
            await trio.lowlevel.checkpoint()  # a reader that was about to run when the time was up has its turn
        self._end(status)

    def _end(self, returncode: int | None) -> None:
        if not self.ended:
            self._output.finish()
            self._exit_status = None if returncode is None else _exit_status(returncode)
            self._ended.set()
            self._changed()

    def _changed(self) -> None:
        self._changes.unpark_all()
        self._on_change(self)


def _exit_status(returncode: int) -> TerminalExitStatus:
    if returncode >= 0:
        return TerminalExitStatus(exit_code=returncode)
    try:
        return TerminalExitStatus(signal=signal.Signals(-returncode).name)  # D-21
    except ValueError:  # a real-time signal
        return TerminalExitStatus(signal=f"SIG{-returncode}")


@final
class Terminals:
    """The terminals of one session: a client's answers to the five terminal methods.

    Args:
      cwd: the session's working directory, where commands run that ask for no other.
      contains: whether a directory is inside the session's roots, such as :meth:`Roots.contains`; called in a thread.
        Without it a command may run in any directory.
      on_change: told of each change of a terminal: output, end, release. It must not block.
      on_report: told when ``on_change`` failed.
      max_output_bytes: the most output that is kept of a terminal, whatever the agent asks for.
      max_terminals: the most terminals at a time that are not released.
      retained_bytes: the most output that is kept of released terminals; the oldest go first.
      term_grace: seconds a command has to go after SIGTERM, before SIGKILL.
    """

    def __init__(
        self,
        cwd: str,
        *,
        contains: Callable[[str], bool] | None = None,
        on_change: Callable[[LocalTerminal], None] | None = None,
        on_report: Callable[[Report], None] = log_report,
        max_output_bytes: int = DEFAULT_MAX_OUTPUT_BYTES,
        max_terminals: int = DEFAULT_MAX_TERMINALS,
        retained_bytes: int = DEFAULT_RETAINED_BYTES,
        term_grace: float = 2.0,
    ) -> None:
        self._cwd = cwd
        self._contains = contains
        self._on_change = on_change
        self._on_report = on_report
        self._max_output_bytes = max_output_bytes
        self._max_terminals = max_terminals
        self._retained_bytes = retained_bytes
        self._term_grace = term_grace
        self._terminals: dict[str, LocalTerminal] = {}
        self._released: dict[str, LocalTerminal] = {}  # the oldest first
        self._nursery: trio.Nursery | None = None
        self._closing = trio.Event()
        self._closed = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Own the terminals until :meth:`aclose`, or until cancelled; no process of theirs is left then (TERM-17)."""
        try:
            async with trio.open_nursery() as self._nursery:
                task_status.started()
                await self._closing.wait()
                for terminal in [*self._terminals.values()]:
                    self._nursery.start_soon(self._give_back, terminal)
        finally:
            self._closing.set()
            self._closed.set()

    async def aclose(self) -> None:
        """Release all terminals and wait until they are gone, which is bounded. Idempotent."""
        self._closing.set()
        if self._nursery is None:
            await trio.lowlevel.checkpoint()
        else:
            await self._closed.wait()

    def get(self, terminal_id: str) -> LocalTerminal | None:
        """The terminal of that id, also a released one as long as its output is kept (TERM-14)."""
        return self._terminals.get(terminal_id) or self._released.get(terminal_id)

    # ------------------------------------------------------------------------------------------------- the methods

    async def create(self, request: CreateTerminalRequest) -> CreateTerminalResponse:
        """Start a command, and return at once (TERM-06).

        Raises:
          RequestError: -32602 when ``cwd`` is no directory or not inside the roots, or the command cannot be passed to
            a process; -32002 when there is no such program; -32603 when the system refuses to run it, or too many
            terminals are open; -32600 when the session ends.
        """
        if not request.command:
            raise RequestError.invalid_params("$.command: must not be empty")
        cwd = await self._directory(request.cwd)
        if self._nursery is None or self._closing.is_set():
            raise RequestError.invalid_request("the session runs no commands any more")
        if len(self._terminals) >= self._max_terminals:
            reason = f"{self._max_terminals} are open; release those that are not needed any more"  # TERM-07
            raise RequestError(ErrorCode.INTERNAL_ERROR, "Too many terminals", {"reason": reason})
        limit = self._max_output_bytes
        if request.output_byte_limit is not None:
            limit = min(limit, request.output_byte_limit)
        terminal = LocalTerminal(
            (request.command, *request.args),
            cwd,
            output_byte_limit=limit,
            term_grace=self._term_grace,
            on_change=self._changed,
        )
        env = child_environment({variable.name: variable.value for variable in request.env})  # D-20
        with ExitStack() as undo:
            self._terminals[terminal.id] = terminal
            undo.callback(self._terminals.pop, terminal.id, None)
            try:
                await self._nursery.start(terminal.run, env)
            except OSError as exc:
                raise _not_started(request, cwd, exc) from exc
            except ValueError as exc:  # a NUL, a surrogate, an "=" in the name of a variable
                raise RequestError.invalid_params(f"$: {request.command!r} cannot be run: {exc}") from exc
            undo.pop_all()
        return CreateTerminalResponse(terminal_id=terminal.id)

    async def output(self, request: TerminalOutputRequest) -> TerminalOutputResponse:
        """What there is now, without waiting for more (TERM-08).

        Raises:
          RequestError: -32002, there is no such terminal.
        """
        terminal = self._find(request.terminal_id)
        await trio.lowlevel.checkpoint()
        return TerminalOutputResponse(
            output=terminal.output, truncated=terminal.truncated, exit_status=terminal.exit_status
        )

    async def wait_for_exit(self, request: WaitForTerminalExitRequest) -> WaitForTerminalExitResponse:
        """Wait until the command has ended (TERM-10), also when a release ends it (D-23).

        Raises:
          RequestError: -32002, there is no such terminal.
        """
        status = await self._find(request.terminal_id).wait_ended()
        return WaitForTerminalExitResponse(exit_code=status.exit_code, signal=status.signal)

    async def kill(self, request: KillTerminalRequest) -> KillTerminalResponse:
        """End the command and keep the terminal (TERM-11). Harmless when it has ended (D-23).

        Raises:
          RequestError: -32002, there is no such terminal.
        """
        await self._find(request.terminal_id).kill()
        return KillTerminalResponse()

    async def release(self, request: ReleaseTerminalRequest) -> ReleaseTerminalResponse:
        """End the command if it still runs, and forget the id (TERM-13). No process of it is left then.

        Raises:
          RequestError: -32002, there is no such terminal.
        """
        await self._give_back(self._find(request.terminal_id))
        return ReleaseTerminalResponse()

    # --------------------------------------------------------------------------------------------------- and within

    async def _directory(self, cwd: str | None) -> str:
        if cwd is None:
            await trio.lowlevel.checkpoint()
            return self._cwd  # D-21
        check_cwd(cwd)  # TERM-03
        if self._contains is not None and not await trio.to_thread.run_sync(self._contains, cwd):
            raise RequestError.invalid_params(f"$.cwd: {cwd!r} is outside the session's roots")  # SETUP-20
        return cwd

    def _find(self, terminal_id: str) -> LocalTerminal:
        terminal = self._terminals.get(terminal_id)
        if terminal is None:
            raise RequestError.terminal_not_found(terminal_id)  # D-13
        return terminal

    async def _give_back(self, terminal: LocalTerminal) -> None:
        if self._terminals.pop(terminal.id, None) is not None:
            self._released[terminal.id] = terminal
        await terminal.release()
        excess = sum(OVERHEAD_BYTES + kept.output_bytes for kept in self._released.values()) - self._retained_bytes
        while excess > 0:
            oldest = self._released.pop(next(iter(self._released)))
            excess -= OVERHEAD_BYTES + oldest.output_bytes

    def _changed(self, terminal: LocalTerminal) -> None:
        if self._on_change is not None:
            try:
                self._on_change(terminal)
            except Exception as exc:
                reason = f"on_change failed for terminal {terminal.id}"
                self._on_report(Report(kind=ReportKind.HANDLER_FAILED, reason=reason, error=exc))


def _not_started(request: CreateTerminalRequest, cwd: str, error: OSError) -> RequestError:
    reason = error.strerror or str(error)
    if error.filename == cwd and request.command != cwd:
        return RequestError.invalid_params(f"$.cwd: {cwd!r}: {reason}")
    if not isinstance(error, FileNotFoundError):
        return RequestError(
            ErrorCode.INTERNAL_ERROR, f"Cannot run {request.command!r}", {"command": request.command, "reason": reason}
        )
    if not request.args and len(request.command.split()) > 1:
        reason = (
            "a command is run without a shell; give its arguments as args, or run a shell with the line as argument"
        )
    return RequestError(
        ErrorCode.RESOURCE_NOT_FOUND,
        f"Command not found: {request.command!r}",
        {"command": request.command, "reason": reason},
    )
