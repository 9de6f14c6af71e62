"""The least program that has an agent: ``client_program.py AGENT SERVERS``. It says ``ready``, and then does nothing.

AGENT is a command and SERVERS are MCP servers on stdio, each a command; both are JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import trio

import acp_ref as acp
from acp_ref.permissions import answer_with
from acp_ref.schema import McpServerStdio


async def main(command: Sequence[str], servers: Sequence[Sequence[str]]) -> None:
    client = acp.Client(name="least", version="1", request_permission=answer_with(acp.PermissionOptionKind.REJECT_ONCE))
    mcp_servers = [McpServerStdio(name="server", command=first, args=[*args], env=[]) for first, *args in servers]
    async with (
        acp.open_agent_process(command, client, on_report=lambda report: None) as agent,
        agent.new_session("/", mcp_servers=mcp_servers) as session,
        session.prompt("hello"),
    ):
        print("ready", flush=True)
        await trio.sleep_forever()


trio.run(main, json.loads(sys.argv[1]), json.loads(sys.argv[2]))
