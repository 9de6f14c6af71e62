"""Record the updates of one turn of the reference agent: ``record_showcase FILE TIMES -- AGENT...``.

FILE gets one update in wire form per line, the turn TIMES times over. What has an id gets another one each time, as it
does in a long session.
"""

from __future__ import annotations

import tempfile

import trio

from acp_ref._jsonrpc import JSON, dumps, loads
from acp_ref.client import Client, open_agent_process
from acp_ref.file_system import FileSystem
from acp_ref.permissions import answer_with
from acp_ref.schema import PermissionOptionKind
from tests.bench.programs.script import arguments

IDS = ("toolCallId", "messageId", "compactionId")


def told_apart(update: dict[str, JSON], turn: int) -> dict[str, JSON]:
    return {key: f"{value}-{turn}" if key in IDS and value else value for key, value in update.items()}


async def main() -> None:
    (file, times), command = arguments()
    updates: list[dict[str, JSON]] = []
    prompted = False

    def look(direction: str, frame: bytes) -> None:
        if prompted and direction == "received":
            match loads(frame):
                case {"method": "session/update", "params": {"update": dict(update)}}:
                    updates.append(update)

    client = Client(
        name="recorder",
        version="1",
        request_permission=answer_with(PermissionOptionKind.ALLOW_ONCE),
        file_system=FileSystem(),
        terminals=True,
        notices=False,  # these two are news to the Python SDK
        compaction=False,
    )
    with tempfile.TemporaryDirectory() as directory:
        async with open_agent_process(command, client, on_frame=look) as agent, agent.new_session(directory) as session:
            prompted = True
            async with session.prompt("/showcase") as turn:
                await turn.wait()
    lines = [dumps(told_apart(update, turn)) for turn in range(int(times)) for update in updates]
    await trio.Path(file).write_bytes(b"\n".join(lines) + b"\n")


trio.run(main)
