"""MCP servers, as the common ``mcpServers`` file names them.

https://agentclientprotocol.com/protocol/session-setup#mcp-servers

Programs that use MCP servers share a file format, an object with a server under each name::

    {"mcpServers": {
        "files": {"command": "npx", "args": ["-y", "some-server"], "env": {"LEVEL": "2"}},
        "web": {"type": "http", "url": "https://mcp.example/", "headers": {"Authorization": "Bearer ..."}}
    }}

What the protocol wants differs in three points: ``env`` and ``headers`` are lists of names and values (SETUP-29,
SETUP-33), the command is an absolute path (SETUP-27), and a server at a URL says over which transport (SETUP-32,
SETUP-36). :func:`load_mcp_config` makes up for them. Keys that are not known are ignored, as every program has some of
its own; a server that is marked ``"disabled": true`` is left out. What is known must be right, or nothing is read.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from typing import Final

from acp_ref._jsonrpc import JSON, JSONObject, loads
from acp_ref.schema import EnvVariable, HttpHeader, McpServer, McpServerHttp, McpServerSse, McpServerStdio

__all__ = ["McpConfigError", "load_mcp_config", "parse_mcp_config"]

TRANSPORTS: Final[Mapping[str, str]] = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "sse": "sse",
}
"""What ``type`` may say. The longer names are other programs' for ``http``."""


class McpConfigError(ValueError):
    """The file cannot be used; the text names the file, the server and the key."""


def load_mcp_config(path: str) -> list[McpServer]:
    """The servers that the file at ``path`` names, in its order.

    Raises:
      McpConfigError: it cannot be read, or something in it is wrong.
    """
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError as exc:
        raise McpConfigError(f"{path}: {exc.strerror}") from exc
    return parse_mcp_config(text, source=path)


def parse_mcp_config(
    text: bytes, *, source: str = "mcpServers", environ: Mapping[str, str] = os.environ
) -> list[McpServer]:
    """The servers that ``text`` names, in its order.

    Args:
      text: JSON, as described above.
      source: what the text is called in errors.
      environ: where ``PATH`` is looked up for commands of entries that set none.

    Raises:
      McpConfigError: something in it is wrong.
    """
    try:
        config = loads(text)
    except ValueError as exc:
        raise McpConfigError(f"{source}: not JSON: {exc}") from None
    servers = config.get("mcpServers") if isinstance(config, dict) else None
    if not isinstance(servers, dict):
        raise McpConfigError(f'{source}: expected an object with an object "mcpServers"')
    entries = [_Entry(source, name, value) for name, value in servers.items()]
    return [entry.server(environ) for entry in entries if not entry.disabled]


class _Entry:
    """One server of the file."""

    def __init__(self, source: str, name: str, value: JSON) -> None:
        self._source = source
        self._name = name
        if not isinstance(value, dict):
            raise self._error("expected an object")
        self._value: JSONObject = value

    @property
    def disabled(self) -> bool:
        return self._value.get("disabled") is True

    def server(self, environ: Mapping[str, str]) -> McpServer:
        match self._transport():
            case "http":
                return McpServerHttp(name=self._name, url=self._text("url"), headers=self._headers())
            case "sse":
                return McpServerSse(name=self._name, url=self._text("url"), headers=self._headers())
            case _:
                env = [EnvVariable(name=name, value=value) for name, value in self._pairs("env")]
                path = next((variable.value for variable in reversed(env) if variable.name == "PATH"), None)
                command = self._absolute(self._text("command"), environ.get("PATH") if path is None else path)
                return McpServerStdio(name=self._name, command=command, args=self._args(), env=env)

    def _transport(self) -> str:
        has_command, has_url = "command" in self._value, "url" in self._value
        if has_command and has_url:
            raise self._error('has both "command" and "url"; which of them is meant?')
        kind = self._value.get("type")
        if kind is None:
            if not has_command and not has_url:
                raise self._error('has neither "command" nor "url"')
            return "stdio" if has_command else "http"
        transport = TRANSPORTS.get(kind) if isinstance(kind, str) else None
        if transport is None:  # D-18: it starts no process
            raise self._error(f'type: {kind!r} is none of "stdio", "http", "sse"')
        return transport

    def _absolute(self, command: str, path: str | None) -> str:
        """The program that ``command`` means here (SETUP-27)."""
        if os.path.isabs(command):
            return command
        if os.path.dirname(command):
            raise self._error(f"command: {command!r} is relative; give the absolute path of the program")
        found = shutil.which(command, path=path)
        if found is None:
            raise self._error(f"command: there is no program {command!r} on the PATH {path or os.defpath!r}")
        return os.path.abspath(found)

    def _text(self, key: str) -> str:
        value = self._value.get(key)
        if not isinstance(value, str) or not value:
            raise self._error(f"{key}: expected a string that is not empty")
        return value

    def _args(self) -> list[str]:
        value = self._value.get("args")
        if value is None:
            return []  # SETUP-28: the protocol wants the list all the same
        if not isinstance(value, list):
            raise self._error("args: expected a list of strings")
        args: list[str] = []
        for index, item in enumerate(value):
            if not isinstance(item, str):
                raise self._error(f"args[{index}]: expected a string")
            args.append(item)
        return args

    def _headers(self) -> list[HttpHeader]:
        return [HttpHeader(name=name, value=value) for name, value in self._pairs("headers")]

    def _pairs(self, key: str) -> Iterator[tuple[str, str]]:
        """Names and values, whether they come as an object or as the protocol's own list."""
        match self._value.get(key):
            case None:
                return
            case dict(members):
                for name, value in members.items():
                    yield name, self._pair_value(f"{key}.{name}", value)
            case list(items):
                for index, item in enumerate(items):
                    if not isinstance(item, dict) or not isinstance(named := item.get("name"), str):
                        raise self._error(f'{key}[{index}]: expected an object with "name" and "value"')
                    yield named, self._pair_value(f"{key}[{index}].value", item.get("value"))
            case _:
                raise self._error(f"{key}: expected an object, or a list of names and values")

    def _pair_value(self, key: str, value: JSON) -> str:
        if not isinstance(value, str):
            raise self._error(f"{key}: expected a string")  # never shown: it may be a secret
        return value

    def _error(self, reason: str) -> McpConfigError:
        return McpConfigError(f"{self._source}: server {self._name!r}: {reason}")
