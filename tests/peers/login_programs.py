"""Programs for the tests of terminal logins: an agent that can log in, a client at a terminal, and a shell.

python login_programs.py agent TOKEN           an agent that needs the file TOKEN for its sessions
python login_programs.py agent TOKEN --login   its login: makes the file
python login_programs.py ask                   a login that asks for a password at the terminal
python login_programs.py client ask            a client that runs such a login, and says how it ended
python login_programs.py shell TERMINAL ...    a shell that runs a job in a terminal, and lists what it does
"""

from __future__ import annotations

import getpass
import os
import signal
import sys
from pathlib import Path

PASSWORD = "sesame"


def log_in(token: Path) -> None:  # AUTH-17: log in, do nothing else, and exit
    account = f"{os.environ.get('BASE')} {os.environ.get('ACCOUNT')}"
    print(f"cannot log in: {account}")  # but it can: what counts is the exit status
    token.write_text(account)


def agent(token: Path) -> None:
    import trio

    import acp_ref as acp
    from acp_ref.schema import AuthMethodId, AuthMethodTerminal

    async def parrot(turn: acp.PromptTurn) -> acp.StopReason:
        await turn.send_text(turn.text)
        return acp.StopReason.END_TURN

    async def refuse(method_id: AuthMethodId) -> None:
        raise acp.RequestError.internal_error()

    terminal = AuthMethodTerminal(
        id=AuthMethodId("terminal"), name="In a terminal", args=["--login"], env={"ACCOUNT": "polly"}
    )
    authentication = acp.Authentication(methods=[terminal], authenticate=refuse, logged_in=token.exists)
    trio.run(acp.serve_agent, acp.Agent(name="parrot", version="1", prompt=parrot, authentication=authentication))


def ask() -> int:
    print("asking", flush=True)
    return 0 if getpass.getpass("Password: ") == PASSWORD else 1


def client(habit: str) -> None:
    import trio

    from acp_ref.terminal_login import LoginCommand, run_in_terminal

    login = LoginCommand(command=[sys.executable, __file__, habit], env={})
    status = trio.run(run_in_terminal, login)
    in_front = os.tcgetpgrp(0) == os.getpgrp()
    print(f"the login ended with {status}, and the terminal is {'ours' if in_front else 'lost'}", flush=True)
    print(f"read: {input()}", flush=True)


def shell(terminal: str, *command: str) -> int:
    """Run ``command`` as a job in the foreground; when it is suspended, say so and continue it. Returns its status."""
    fd = os.open(terminal, os.O_RDWR)  # the first one that a session leader opens is its own
    for standard in (0, 1, 2):
        os.dup2(fd, standard)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    job = os.posix_spawn(
        sys.executable, [sys.executable, *command], os.environ, setpgroup=0, setsigdef=[signal.SIGTTOU]
    )
    while True:
        os.tcsetpgrp(0, job)
        os.killpg(job, signal.SIGCONT)
        _, status = os.waitpid(job, os.WUNTRACED)
        os.tcsetpgrp(0, os.getpgrp())
        if not os.WIFSTOPPED(status):
            return os.waitstatus_to_exitcode(status)
        os.write(1, b"the job is suspended\n")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["agent", token, "--login"]:
            log_in(Path(token))
        case ["agent", token]:
            agent(Path(token))
        case ["ask"]:
            sys.exit(ask())
        case ["client", habit]:
            client(habit)
        case ["shell", terminal, *command]:
            sys.exit(shell(terminal, *command))
