"""A hand-written MCP server with bad habits: ``nasty.py HABIT TAG``. Standard library only, so that it starts fast.

TAG is not looked at; it makes the process and its children easy to find.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

HABIT, TAG = sys.argv[1], sys.argv[2]
READY, READY_CHILD = os.pipe()
LINGER = """
import os, signal, sys, time
for number in sys.argv[3:]:
    signal.signal(int(number), signal.SIG_IGN)
os.close(int(sys.argv[2]))
time.sleep(300)
"""
LINGERER = [sys.executable, "-I", "-S", "-c", LINGER, TAG, str(READY_CHILD)]
TEXT = {"type": "text", "text": "hello"}
CONTENT = [
    TEXT | {"annotations": {"audience": ["user"], "priority": 0.5}, "_meta": {"k": None}},
    {"type": "image", "data": "AAAA", "mimeType": "image/png"},
    {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
    {"type": "resource_link", "uri": "file:///x", "name": "x", "size": 3},
    {"type": "resource", "resource": {"uri": "file:///y", "text": "why", "mimeType": "text/plain"}},
]
tool_names = [
    "echo",
    "where",
    "say",
    "content",
    "odd",
    "fail",
    "refuse",
    "hang",
    "ask",
    "die",
    "mute",
    "deaf",
    "long",
    "more",
]
cancelled: list[object] = []
out = sys.stdout.buffer


def write(line: bytes) -> None:
    out.write(line + b"\n")
    out.flush()


def send(**members: object) -> None:
    write(json.dumps({"jsonrpc": "2.0", **members}).encode())


def call(request: object, name: str, arguments: dict[str, str]) -> None:
    if name == "where":
        text = json.dumps({"cwd": os.getcwd(), "env": dict(os.environ), "pid": os.getpid()})
        send(id=request, result={"content": [{"type": "text", "text": text}]})
    elif name == "say":  # to stderr
        print(arguments["text"], file=sys.stderr, flush=True)
        send(id=request, result={"content": []})
    elif name == "content":
        send(id=request, result={"content": CONTENT, "structuredContent": {"n": 1}})
    elif name == "odd":
        send(id=request, result={"content": [{"type": "hologram"}]})
    elif name == "fail":
        send(id=request, result={"content": [TEXT], "isError": True})
    elif name == "refuse":
        send(id=request, error={"code": -32000, "message": f"no, {arguments['text']}"})
    elif name == "hang":
        pass
    elif name == "ask":  # which calls were given up
        send(id=request, result={"content": [{"type": "text", "text": json.dumps(cancelled)}]})
    elif name == "die":
        print(f"fatal: {arguments.get('text')}", file=sys.stderr, flush=True)
        os._exit(3)
    elif name == "mute":
        os.close(1)
        time.sleep(300)
    elif name == "deaf":
        os.close(0)
        time.sleep(300)
    elif name == "long":  # a line that never ends
        while True:
            out.write(b"x" * 65536)
    elif name == "more":
        tool_names.append("new")
        send(method="notifications/tools/list_changed")
        send(id=request, result={"content": []})
    else:
        send(id=request, result={"content": [{"type": "text", "text": arguments["text"]}]})


def handle(request: object, method: str, params: dict[str, object]) -> None:
    if method == "initialize" and HABIT == "modern":
        send(id=request, error={"code": -32022, "message": "too old", "data": {"supported": ["2026-07-28"]}})
    elif method == "initialize" and HABIT == "refuse":
        send(id=request, error={"code": -32603, "message": "no licence for " + os.environ.get("LICENCE", "you")})
    elif method == "initialize":
        version = params["protocolVersion"]
        capabilities: dict[str, object] = {} if HABIT == "toolless" else {"tools": {"listChanged": True}}
        info = {"name": HABIT, "version": "0"}
        send(id=request, result={"protocolVersion": version, "capabilities": capabilities, "serverInfo": info})
    elif method == "server/discover" and HABIT == "modern":
        result = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "resultType": "complete"}
        send(id=request, result=result | {"ttlMs": 0, "cacheScope": "public"})
    elif method == "tools/list":
        start = int(str(params.get("cursor", 0)))
        page: dict[str, object] = {
            "tools": [
                {"name": name, "title": name.title(), "description": f"to {name}", "inputSchema": {"type": "object"}}
                for name in tool_names[start : start + 10]
            ],
        }
        if start + 10 < len(tool_names) or HABIT == "endless":
            page["nextCursor"] = str(start + 10)
        if HABIT == "modern":
            page |= {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
        send(id=request, result=page)
    elif method == "tools/call" and params["name"] == "meta":
        send(id=request, result={"content": [{"type": "text", "text": json.dumps(params.get("_meta"))}]})
    elif method == "tools/call":
        arguments = params.get("arguments") or {}
        assert isinstance(arguments, dict)
        call(request, str(params["name"]), arguments)
    else:
        send(id=request, error={"code": -32601, "message": "Method not found"})


if HABIT == "exit":
    print("fatal: bad config", file=sys.stderr)
    sys.exit(3)
if HABIT == "never":  # and does not go when stdin ends, either
    time.sleep(300)
if HABIT == "stubborn":  # not even when it is asked to
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(300)
if HABIT == "clinging":  # does all it is asked to, but to go
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if HABIT == "loud":
    sys.stderr.write("x" * 1024 * 1024 + "\nready\n")
    sys.stderr.flush()
if HABIT == "parent":  # goes politely itself, but leaves a child behind
    subprocess.Popen(LINGERER, pass_fds=[READY_CHILD], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
if HABIT == "stubborn parent":  # the child holds the pipes, too
    subprocess.Popen([*LINGERER, str(int(signal.SIGTERM))], pass_fds=[READY_CHILD])
os.close(READY_CHILD)
os.read(READY, 1)  # the child, if there is one, has closed its end
if HABIT == "junk":
    out.write(b'Starting server...\n\n{not json\n[]\n{"jsonrpc":"2.0"}\n\xff\xfe\n')
    out.flush()

for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "notifications/cancelled":
        cancelled.append(message["params"]["requestId"])
    if "id" in message and "method" in message:
        handle(message["id"], message["method"], message.get("params") or {})
        if HABIT == "junk":
            write("handled \u2028 it".encode())

if HABIT == "clinging":
    time.sleep(300)
