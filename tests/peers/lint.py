"""The linter ``acplint`` on an agent: ``lint [--mended] CWD -- AGENT...``. It prints the linter's report as JSON.

The linter waits for fixed times and looks what has come. Here it looks as soon as all it asked for is answered, for an
agent has said by then what it had to say. Mended, it speaks the protocol of the schema where it has one of its own, and
its prompts are commands that do what they ask for in words: so that its other checks have something to look at.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any, Final

from acplint import runner  # type: ignore[import-untyped]
from acplint.transport import AcpTransport  # type: ignore[import-untyped]

COMMANDS: Final = {
    "Read the file": "/showcase",
    "Write 'test'": "/write test.txt test",
    "Create a file": "/write acplint_write_test.txt hello",
    "Create a simple plan": "/plan",
    "Write me a very long essay": "/sleep 300",  # to be cancelled
    "Do something complex": "/sleep 300",
}
"""What its prompts begin with, and a command of the reference agent that does something like it."""

ORDER: Final = [
    "initialization",
    "session_lifecycle",
    "streaming",
    "tool_calls",
    "permissions",
    "session_modes",  # sets the one in which nobody is asked, which the next ones need
    "file_operations",
    "terminals",
    "plans",
    "config_options",
    "cancel",
    "stress",
    "schema_validation",
    "authentication",  # logs out
]
"""All its checks, in an order in which none is in the way of another."""


class Brisk(AcpTransport):  # type: ignore[misc]
    """Its transport, without the waits."""

    async def collect_notifications(self, method: str | None = None, duration: float = 0) -> list[dict[str, Any]]:
        await asyncio.sleep(0)  # a request that was begun gets on its way
        if self._pending_requests:
            await asyncio.wait(self._pending_requests.values())
        found: list[dict[str, Any]] = []
        while not self._notifications.empty():
            found.append(self._notifications.get_nowait())
        return [message for message in found if message["method"] == method]

    async def wait_for_agent_request(self, method: str | None = None, timeout: float = 0) -> dict[str, Any]:
        await asyncio.sleep(0)
        while self._agent_requests.empty():
            if not self._pending_requests:
                raise TimeoutError
            await asyncio.sleep(0.01)
        message: dict[str, Any] = self._agent_requests.get_nowait()
        assert message["method"] == method, message
        return message


class Mended(Brisk):
    """Its transport, with the schema's names instead of the linter's."""

    async def send_request(
        self, method: str, params: dict[str, Any] | None = None, request_id: int | None = None
    ) -> dict[str, Any]:
        assert params is not None
        if method == "initialize":
            params = params | {"protocolVersion": 1, "clientCapabilities": {"fs": {"writeTextFile": True}}}
        elif method == "session/prompt":
            text = params["content"][0]["text"]
            text = next((command for start, command in COMMANDS.items() if text.startswith(start)), text)
            params = {"sessionId": params["sessionId"], "prompt": [{"type": "text", "text": text}]}
        elif method == "session/set_config_option":
            params = {"configId": params["optionId"]} | params
        response: dict[str, Any] = await super().send_request(method, params, request_id)
        if method == "initialize" and "result" in response:
            response["result"]["protocolVersion"] = str(response["result"]["protocolVersion"])
        return response

    async def _dispatch(self, message: dict[str, Any]) -> None:
        if message.get("method") == "session/update":
            update = message["params"]["update"]
            first, *others = update["sessionUpdate"].split("_")
            update["sessionUpdate"] = first + "".join(word.title() for word in others)
        await super()._dispatch(message)


if __name__ == "__main__":
    separator = sys.argv.index("--")
    *options, cwd = sys.argv[1:separator]
    mended = options == ["--mended"]
    runner.AcpTransport = Mended if mended else Brisk
    linter = runner.ConformanceRunner(sys.argv[separator + 1 :], cwd=cwd, categories=ORDER if mended else None)
    print(linter.run_all().to_json())
