"""Terminal authentication: the agent's own program, run by the client in the user's terminal, to log in and exit.

https://agentclientprotocol.com/protocol/authentication#terminal-authentication

The exit status alone says whether it worked; what the program writes is between it and the user (AUTH-18).

Theory of operation. :func:`run_in_terminal` treats the login as a shell treats a job. It is a process group of its own,
so that all of it can be ended, and as long as it runs it is the one in the terminal's foreground: it gets the keys, and
Ctrl-C means it and not us. When it is suspended by Ctrl-Z, nobody could ever wake it but us; so we suspend ourselves,
and give the terminal back to it when our own shell continues us.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final, TypeAlias

import attrs
import trio

from acp_ref._processes import ChildProcess, child_environment, open_child
from acp_ref.schema import AuthMethodTerminal

if sys.platform != "win32":
    import termios

__all__ = ["LoginCommand", "LoginFailed", "RunLogin", "login_command", "run_in_terminal"]

STDIN: Final = 0

POLL: Final = 0.2
"""Seconds between two looks at whether a login is suspended, or the terminal ours again: nothing else tells of that."""

TERM_GRACE: Final = 2.0
"""Seconds that a cancelled login has to go after SIGTERM."""


@attrs.frozen(kw_only=True)
class LoginCommand:
    """The process that carries out a terminal login."""

    command: Sequence[str]
    """The program and its arguments; no shell is involved."""
    env: Mapping[str, str] = attrs.field(repr=False)
    """Variables set in addition to the own ones. They may be secrets."""
    cwd: str | None = None
    """The directory it starts in; the own one when it is None."""


RunLogin: TypeAlias = Callable[[LoginCommand], Awaitable[int]]
"""Runs a login in an interactive terminal, waits for its end and returns its exit status, minus the signal's number
when a signal ended it (AUTH-14). When the user gives it up, it is ended and any status but 0 returned."""


class LoginFailed(Exception):
    """A terminal login ended with another exit status than 0."""

    method: AuthMethodTerminal
    exit_status: int
    """Minus the signal's number when a signal ended it."""

    def __init__(self, method: AuthMethodTerminal, exit_status: int) -> None:
        super().__init__(method, exit_status)
        self.method = method
        self.exit_status = exit_status

    def __str__(self) -> str:
        how = f"exit status {self.exit_status}" if self.exit_status >= 0 else f"signal {-self.exit_status}"
        return f"the login by {self.method.name!r} failed: it ended with {how}"


def login_command(
    method: AuthMethodTerminal,
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
) -> LoginCommand:
    """How to log in by ``method`` at an agent that is started with ``command``, ``env`` and ``cwd``.

    The program is the configured one, whatever else the agent says (AUTH-16). The method's arguments come after the
    configured ones, and its variables take the place of configured ones of the same name (AUTH-13).
    """
    return LoginCommand(command=[*command, *method.args], env={**(env or {}), **method.env}, cwd=cwd)  # AUTH-12


async def log_in_at_terminal(method: AuthMethodTerminal, login: LoginCommand, run: RunLogin) -> None:
    """Let ``run`` carry out ``login``.

    Raises:
      LoginFailed: it did not succeed (AUTH-14).
      OSError: the program cannot be started.
    """
    status = await run(login)
    if status != 0:  # AUTH-14, AUTH-18
        raise LoginFailed(method, status)


async def run_in_terminal(login: LoginCommand) -> int:
    """A :data:`RunLogin` for programs that have a terminal: runs the login in that, with the own stdin and stdout.

    Read nothing from stdin meanwhile. When it is cancelled, the login and all it started are ended.

    Raises:
      OSError: the program cannot be started.
    """
    child = await open_child(
        login.command,
        env=child_environment(login.env),
        cwd=login.cwd,
        stdin=None,
        stdout=None,
        stderr=None,
        own_session=False,
    )
    try:
        with _terminal_settings():
            return await _wait(child)
    finally:
        await child.shutdown(stdin_grace=0.0, term_grace=TERM_GRACE)


if sys.platform == "win32":  # all processes at a console share it

    @contextmanager
    def _terminal_settings() -> Generator[None]:
        yield

    async def _wait(child: ChildProcess) -> int:
        return await child.wait()

else:

    @contextmanager
    def _terminal_settings() -> Generator[None]:
        """Leave the terminal as it was: a login that died while it read a password has switched the echo off."""
        try:
            settings = termios.tcgetattr(STDIN)
        except termios.error:  # no terminal
            yield
            return
        try:
            yield
        finally:
            with suppress(termios.error):  # it is gone
                if _in_foreground():  # or doing this would stop us
                    termios.tcsetattr(STDIN, termios.TCSANOW, settings)

    async def _wait(child: ChildProcess) -> int:
        """Wait for ``child``, with the terminal in its hands whenever it would be in ours."""
        while True:
            with _foreground(child.pid) as lent:
                while not _is_suspended(child.pid) if lent else not _in_foreground():
                    with trio.move_on_after(POLL):
                        return await child.wait()
            if lent:  # no more than a wish: it is ignored where no shell could continue us
                os.killpg(os.getpgrp(), signal.SIGTSTP)

    @contextmanager
    def _foreground(group: int) -> Generator[bool]:
        """Have the process group in the terminal's foreground, if we are there, and awake; whether we were."""
        ours = os.getpgrp()
        lent = _in_foreground()
        if lent:
            _put_in_foreground(group)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGCONT)  # it may have been too early at the terminal, and been stopped
        try:
            yield lent
        finally:
            if lent:
                _put_in_foreground(ours)

    def _in_foreground() -> bool:
        """Whether we have a terminal, and it is ours to use now."""
        try:
            return os.tcgetpgrp(STDIN) == os.getpgrp()
        except OSError:
            return False

    def _put_in_foreground(group: int) -> None:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})  # or doing this from behind would stop us
        try:
            with suppress(OSError):  # the group, or the terminal, is gone
                os.tcsetpgrp(STDIN, group)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _is_suspended(pid: int) -> bool:
        suspended = False
        if sys.platform != "darwin":  # there, to look is to take the exit status away
            with suppress(ChildProcessError):  # it ended
                suspended = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG) is not None
        return suspended
