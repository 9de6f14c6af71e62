"""An agent made of bytes: it spells everything beforehand and reads no more of a request than it must.

It costs next to nothing, so what a client that talks to it costs is the client's own. ``share COUNT PROMPTS`` is
answered when PROMPTS prompts have come, with COUNT updates that take turns among their sessions.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from itertools import cycle, islice
from typing import Final

from tests.bench.programs.script import MODE, SPELLED, TEXT, record

RECORD: Final = [json.dumps(update, separators=(",", ":")).encode() for update in record()]
HEAD: Final = re.compile(rb'"id":\s*(\d+|"[^"]*").{0,40}"method":\s*"([^"]+)"', re.DOTALL)
SESSION: Final = re.compile(rb'"sessionId":\s*"([^"]+)"')
PROMPT: Final = re.compile(rb'"text":\s*"((?:updates|large|record|share)[^"]*)"')
BEGINNING: Final = 1000
"""Bytes of a request that are looked at."""

CHUNK: Final = b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%b"}}'
MODES: Final = b'{"currentModeId":"%b","availableModes":[{"id":"%b","name":"The only one"}]}' % (2 * (MODE.encode(),))


def lines() -> Iterator[bytes]:
    """The beginnings of the lines of stdin."""
    head = b""
    while chunk := os.read(0, 1 << 20):
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield (head + end)[:BEGINNING]
            head = b""
        head = (head + rest)[:BEGINNING]


def write(data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]


def answer(request_id: bytes, result: bytes) -> None:
    write(b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (request_id, result))


def update(session: bytes, spelled: bytes) -> bytes:
    head = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"%b","update":' % session
    return head + spelled + b"}}\n"


def write_updates(session: bytes, words: list[str]) -> None:
    chunk = update(session, CHUNK % TEXT.encode())
    match words:
        case ["updates", count]:
            write(chunk * int(count))
        case ["large", size]:
            write(update(session, CHUNK % (rb"%b\n" % TEXT.encode() * (int(size) // SPELLED))))
        case ["record", _]:
            write(b"".join([update(session, spelled) for spelled in RECORD]))


def main() -> None:
    opened = 0
    sharing: list[tuple[bytes, bytes]] = []
    for line in lines():
        found = HEAD.search(line)
        if found is None:
            continue
        request_id, method = found.groups()
        if method == b"initialize":
            answer(request_id, b'{"protocolVersion":1,"agentCapabilities":{}}')
        elif method == b"session/new":
            opened += 1
            answer(request_id, b'{"sessionId":"s%d","modes":%b}' % (opened, MODES))
        elif method == b"session/prompt":
            session = SESSION.search(line)
            said = PROMPT.search(line)
            assert session is not None
            words = [] if said is None else said[1].decode().split()
            if words[:1] != ["share"]:
                write_updates(session[1], words)
                answer(request_id, b'{"stopReason":"end_turn"}')
                continue
            sharing.append((request_id, session[1]))
            if len(sharing) == int(words[2]):
                chunks = cycle([update(session, CHUNK % TEXT.encode()) for _, session in sharing])
                write(b"".join(islice(chunks, int(words[1]))))
                for request_id, _ in sharing:
                    answer(request_id, b'{"stopReason":"end_turn"}')
        else:
            answer(request_id, b"{}")


main()
