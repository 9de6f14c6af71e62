"""The mcpServers file that other programs share, and what becomes of it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from acp_ref._jsonrpc import JSON
from acp_ref.mcp_config import McpConfigError, load_mcp_config, parse_mcp_config
from acp_ref.schema import EnvVariable, HttpHeader, McpServer, McpServerHttp, McpServerSse, McpServerStdio


def servers(entries: JSON, **environ: str) -> list[McpServer]:
    return parse_mcp_config(json.dumps({"mcpServers": entries}).encode(), source="mcp.json", environ=environ)


def server(entry: JSON, **environ: str) -> McpServer:
    (only,) = servers({"it": entry}, **environ)
    return only


def program(directory: Path, name: str) -> str:
    path = directory / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.field_note(48)
@pytest.mark.spec("SETUP-25", "SETUP-28", "SETUP-29")
def test_env_as_an_object_becomes_a_list_and_args_and_env_are_always_there() -> None:
    assert servers(
        {
            "files": {"command": "/bin/files", "args": ["-v", "x"], "env": {"A": "1", "B": ""}},
            "bare": {"command": "/bin/bare"},
        }
    ) == [
        McpServerStdio(
            name="files",
            command="/bin/files",
            args=["-v", "x"],
            env=[EnvVariable(name="A", value="1"), EnvVariable(name="B", value="")],
        ),
        McpServerStdio(name="bare", command="/bin/bare", args=[], env=[]),
    ]


@pytest.mark.field_note(48)
def test_env_as_the_protocols_own_list_is_taken_as_it_is() -> None:
    env: JSON = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    assert server({"command": "/bin/x", "env": env}) == McpServerStdio(
        name="it",
        command="/bin/x",
        args=[],
        env=[EnvVariable(name="A", value="1"), EnvVariable(name="A", value="2")],
    )


@pytest.mark.spec("SETUP-32", "SETUP-33", "SETUP-36")
def test_a_url_is_http_unless_its_type_says_otherwise() -> None:
    url = "https://mcp.example/"
    token = HttpHeader(name="Authorization", value="Bearer x")
    assert server({"url": url}) == McpServerHttp(name="it", url=url, headers=[])
    for http in "http", "streamable-http", "streamableHttp":
        assert server({"type": http, "url": url, "headers": {"Authorization": "Bearer x"}}) == McpServerHttp(
            name="it", url=url, headers=[token]
        )
    headers: JSON = [{"name": "Authorization", "value": "Bearer x"}]
    assert server({"type": "sse", "url": url, "headers": headers}) == McpServerSse(name="it", url=url, headers=[token])


def test_type_stdio_is_what_a_command_means_anyway() -> None:
    assert server({"type": "stdio", "command": "/bin/x"}) == server({"command": "/bin/x"})


@pytest.mark.spec("SETUP-27")
def test_a_command_is_found_on_the_path_of_the_entry_and_else_on_ours(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for directory in ours, theirs:
        directory.mkdir()
    our_tool, their_tool = program(ours, "tool"), program(theirs, "tool")
    assert isinstance(found := server({"command": "tool"}, PATH=str(ours)), McpServerStdio)
    assert found.command == our_tool
    entry: JSON = {"command": "tool", "env": {"PATH": str(theirs)}}
    assert isinstance(found := server(entry, PATH=str(ours)), McpServerStdio)
    assert found.command == their_tool


@pytest.mark.spec("SETUP-27")
def test_a_relative_directory_on_the_path_still_gives_an_absolute_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = program(tmp_path, "tool")
    monkeypatch.chdir(tmp_path)
    assert isinstance(found := server({"command": "tool"}, PATH=os.curdir), McpServerStdio)
    assert found.command == tool


def test_a_disabled_server_is_left_out_and_unknown_keys_are_ignored() -> None:
    named = servers(
        {
            "off": {"command": "/bin/off", "disabled": True},
            "on": {"command": "/bin/on", "disabled": False, "autoApprove": ["x"], "timeout": 30},
        }
    )
    assert [server.name for server in named] == ["on"]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (7, "expected an object"),
        ({}, 'has neither "command" nor "url"'),
        ({"command": "/x", "url": "http://x"}, 'has both "command" and "url"; which of them is meant?'),
        ({"type": "websocket", "url": "ws://x"}, 'type: \'websocket\' is none of "stdio", "http", "sse"'),
        ({"type": 1, "url": "http://x"}, 'type: 1 is none of "stdio", "http", "sse"'),
        ({"type": "http", "command": "/x"}, "url: expected a string that is not empty"),
        ({"type": "stdio", "url": "http://x"}, "command: expected a string that is not empty"),
        ({"command": ""}, "command: expected a string that is not empty"),
        ({"command": ["npx", "x"]}, "command: expected a string that is not empty"),
        ({"command": "./x"}, "command: './x' is relative; give the absolute path of the program"),
        ({"command": "no-such"}, "command: there is no program 'no-such' on the PATH '/nowhere'"),
        ({"command": "/x", "args": "-v"}, "args: expected a list of strings"),
        ({"command": "/x", "args": ["-p", 80]}, "args[1]: expected a string"),
        ({"command": "/x", "env": "A=1"}, "env: expected an object, or a list of names and values"),
        ({"command": "/x", "env": {"PORT": 80}}, "env.PORT: expected a string"),
        ({"command": "/x", "env": [{"A": "1"}]}, 'env[0]: expected an object with "name" and "value"'),
        ({"command": "/x", "env": [{"name": "A"}]}, "env[0].value: expected a string"),
        ({"url": "http://x", "headers": {"X": None}}, "headers.X: expected a string"),
    ],
)
def test_a_fault_is_told_with_file_server_and_key(entry: JSON, reason: str) -> None:
    with pytest.raises(McpConfigError) as raised:
        servers({"good": {"command": "/bin/good"}, "bad": entry}, PATH="/nowhere")
    assert str(raised.value) == f"mcp.json: server 'bad': {reason}"


def test_a_fault_never_shows_a_value_that_may_be_a_secret() -> None:
    with pytest.raises(McpConfigError) as raised:
        server({"command": "/x", "env": {"TOKEN": ["hunter2"]}})
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("text", [b"[]", b"{}", b'{"mcpServers": []}', b'{"servers": {}}'])
def test_a_file_without_mcp_servers_is_a_mistake(text: bytes) -> None:
    with pytest.raises(McpConfigError, match=r'^mcp\.json: expected an object with an object "mcpServers"$'):
        parse_mcp_config(text, source="mcp.json")


def test_a_file_that_is_no_json_or_not_there_is_told_by_name(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    with pytest.raises(McpConfigError, match=r"mcp\.json: No such file"):
        load_mcp_config(str(path))
    path.write_text('{"mcpServers": {,}}')
    with pytest.raises(McpConfigError, match=r"mcp\.json: not JSON: .*line 1"):
        load_mcp_config(str(path))


def test_a_file_is_read_with_the_path_of_this_process(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    command = Path(sys.executable)
    path.write_text(json.dumps({"mcpServers": {"it": {"command": str(command)}}}))
    assert load_mcp_config(str(path)) == [McpServerStdio(name="it", command=str(command), args=[], env=[])]
