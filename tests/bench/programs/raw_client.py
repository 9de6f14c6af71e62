"""A client that decodes no update: what it measures is its agent's cost.

Its own tasks are ``start TIMES``, from the start of the agent to its answered initialize, and
``share COUNT SESSIONS PROMPTS``, many sessions on one connection. That all has come is known by the number of lines.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Final, Self

from tests.bench.programs.script import CWD, MODE, arguments, measured, prose, work_of

READ: Final = 1 << 18
KEPT: Final = 4096

CAPABILITIES: Final = {
    "session": {"compaction": {}, "configOptions": {"boolean": {}}, "notices": {}},
    "fs": {"readTextFile": False, "writeTextFile": False},
    "terminal": False,
}
"""Whatever may come in an update is welcome, and nothing is offered that an agent could ask for."""


class Agent:
    """An agent's process, and the conversation with it."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin = self._process.stdin
        self._stdout = self._process.stdout.fileno()
        self._last_id = 0
        self.pid = self._process.pid

    def spell(self, method: str, params: object) -> bytes:
        """The line of a request."""
        self._last_id += 1
        request = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        return json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"

    def spell_prompt(self, session: object, text: str) -> bytes:
        """The line of a prompt."""
        return self.spell("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": text}]})

    def write(self, line: bytes) -> None:
        rest = memoryview(line)
        while rest:
            rest = rest[self._stdin.write(rest) :]

    def skip(self, lines: int) -> bytes:
        """Read so many lines, which must be all there is, and return the end of what came; the last is an answer."""
        last = b""
        while lines > 0:
            chunk = os.read(self._stdout, READ)
            assert chunk, "the agent is gone"
            lines -= chunk.count(b"\n")
            last = (last + chunk[-KEPT:])[-KEPT:]
        assert lines == 0
        assert b'"result"' in last, last
        return last

    def call(self, method: str, params: object) -> dict[str, object]:
        """A request whose answer is a line that comes alone."""
        self.write(self.spell(method, params))
        answer: dict[str, dict[str, object]] = json.loads(self.skip(1))
        return answer["result"]

    def initialize(self) -> Self:
        self.call("initialize", {"protocolVersion": 1, "clientCapabilities": CAPABILITIES})
        return self

    def close(self) -> None:
        self._stdin.close()
        self._process.wait(20)
        os.close(self._stdout)


@contextmanager
def running(command: Sequence[str]) -> Iterator[Agent]:
    agent = Agent(command).initialize()
    try:
        yield agent
    finally:
        agent.close()


def start(command: Sequence[str], times: int) -> None:
    seconds: list[float] = []
    for _ in range(times):
        before = time.perf_counter()
        with running(command):
            seconds.append(time.perf_counter() - before)
    print(json.dumps({"seconds": median(seconds), "work": 1}))


def share(agent: Agent, count: int, sessions: int, prompts: int) -> None:
    opened = [agent.call("session/new", {"cwd": CWD, "mcpServers": []})["sessionId"] for _ in range(sessions)]
    lines = [agent.spell_prompt(session, f"updates {count // prompts}") for session in opened[:prompts]]
    with measured(count, agent.pid):
        agent.write(b"".join(lines))
        agent.skip(count + prompts)


def main() -> None:
    task, command = arguments()
    if task[0] == "start":
        start(command, int(task[1]))
        return
    with running(command) as agent:
        if task[0] == "share":
            share(agent, *map(int, task[1:]))
            return
        session = agent.call("session/new", {"cwd": CWD, "mcpServers": []})["sessionId"]
        name, work = task[0], work_of(*task)
        updates = {"updates": work, "record": work, "large": 1}.get(name, 0)
        prompt = agent.spell_prompt(session, "taste " + prose(work) if name == "prompt" else " ".join(task))
        with measured(work, agent.pid):
            if name == "requests":
                for _ in range(work):
                    agent.call("session/set_mode", {"sessionId": session, "modeId": MODE})
            else:
                agent.write(prompt)
                agent.skip(updates + 1)


main()
