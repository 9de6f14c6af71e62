"""A hand-written agent with bad habits: ``faulty_agent.py HABIT TAG``. Standard library only, so that it starts fast.

A habit is some of these words, joined by commas:

* ``mute``: never answers; ``exit``: exits at once; ``crash``: exits when it is prompted, and before it has answered
* ``deaf``: stays when its stdin ends; ``stubborn``: stays even on SIGTERM
* ``parent``: starts a child with the same habits, which holds its pipes
* ``loud``: fills its stderr; ``junk``: prints on its stdout what is no message; ``flood``: never stops to send updates
* ``stuck``: never answers a prompt

TAG is not looked at; it makes the process and its children easy to find.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from itertools import repeat

HABITS, TAG = sys.argv[1].split(","), sys.argv[2]
STAY = 120


def write(message: object) -> None:
    text = json.dumps(message)
    if "junk" in HABITS:
        text = f"Welcome!\n\n{{not json\n\x1b[2J{text.encode().hex()}\n{text}\ndone\u2028"
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
    if "loud" in HABITS:
        sys.stderr.write("x" * 300_000 + "\n")


def handle(request: dict[str, object]) -> object:
    method = request["method"]
    if method == "initialize":
        return {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []}
    if method == "session/new":
        return {"sessionId": "s"}
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "well"}}
    for _ in repeat(None) if "flood" in HABITS else range(3):
        write({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}})
    if "crash" in HABITS:
        print("fatal: out of ideas", file=sys.stderr)
        os._exit(3)
    return {"stopReason": "end_turn"}


if "stubborn" in HABITS:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "parent" in HABITS:
    ready, ready_child = os.pipe()
    child = "child,stubborn" if "stubborn" in HABITS else "child"
    command = [sys.executable, "-I", "-S", __file__, child, TAG, str(ready_child)]
    subprocess.Popen(command, pass_fds=[ready_child])
    os.close(ready_child)
    os.read(ready, 1)
if "child" in HABITS:
    os.close(int(sys.argv[3]))
    time.sleep(STAY)
if "exit" in HABITS:
    print("fatal: no licence", file=sys.stderr)
    sys.exit(3)
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "mute" not in HABITS and not ("stuck" in HABITS and message["method"] == "session/prompt"):
        write({"jsonrpc": "2.0", "id": message["id"], "result": handle(message)})
if "deaf" in HABITS or "stubborn" in HABITS:
    time.sleep(STAY)
