"""What a peer may say: from any bytes to messages that are nearly right."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final, TypeAlias, final

from acp_ref._converter import unstructure
from acp_ref._jsonrpc import JSON, JSONObject
from acp_ref.methods import AGENT, Role
from tests.schema_samples import samples

__all__ = ["LIVE", "STORED", "Words", "starts_a_program"]

LIVE: Final = ("live-0", "live-1")
"""The sessions that are open."""
STORED: Final = "stored"
"""A session that can be loaded."""

SESSION_IDS: Final = (*LIVE, *LIVE, *LIVE, STORED, "nobody", "", "\ud800", "../x")

IDS: Final[Sequence[JSON]] = (
    0,
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    "0",
    "1",
    "a",
    "",
    "\ud800",
    None,
    -7,
    2**53 + 1,
    2**63 - 1,
    -(2**63),
)
NO_IDS: Final[Sequence[JSON]] = (1.5, 1.0, True, False, [], [1], {}, 2**63, -(2**63) - 1, 1e300)

STRINGS: Final = (
    "",
    "a",
    "é",
    "😀",
    "\u2028\u2029\u0085\x0b\x0c",
    "\x00",
    "\ud800",
    "\udc00\ud800",
    '"\\/\b\f\n\r\t',
    "wait",
    "fail",
    "refuse",
    "ask",
    "/nowhere/file",
    "relative/path",
    "https://example.com/a?b",
    "javascript:alert(1)",
    "0",
    "1",
    "null",
    "2.0",
    "x" * 300,
    *LIVE,
    STORED,
)
KEYS: Final = [
    "jsonrpc",
    "id",
    "method",
    "params",
    "result",
    "error",
    "code",
    "message",
    "data",
    "sessionId",
    "cwd",
    "mcpServers",
    "prompt",
    "type",
    "text",
    "_meta",
    "update",
    "sessionUpdate",
    "content",
    "toolCallId",
    "title",
    "kind",
    "status",
    "options",
    "optionId",
    "requestId",
    "protocolVersion",
    "clientCapabilities",
    "modes",
    "configOptions",
    "sessions",
    "nextCursor",
    "cursor",
    "outcome",
    "stopReason",
    "name",
    "value",
    "entries",
    "path",
    "line",
]
METHODS: Final = (
    "_ext",
    "_x.ai/y",
    "nonsense",
    "",
    "$/nonsense",
    "$/cancel_request",
    "session",
    "session/new ",
    "\ud800",
)

Mutation: TypeAlias = "Callable[[Words, JSON], JSON]"


@functools.cache
def examples_of(role: Role) -> Mapping[str, Sequence[str]]:
    """For each method that ``role`` handles, params as they should be, as JSON text."""
    return {
        method.name: [json.dumps(unstructure(method.params, value)) for value in samples(method.params)]
        for method in role.handles
    }


@functools.cache
def results_for(role: Role) -> Sequence[str]:
    """Results that ``role`` may get, as JSON text."""
    return [
        json.dumps(unstructure(method.result, value))
        for method in role.handles
        if hasattr(method, "result")
        for value in samples(method.result)
    ]


@final
class Words:
    """Says something to ``role``, which the seed decides."""

    def __init__(self, seed: int, role: Role) -> None:
        self._rng = Random(seed)
        self._role = role

    # ------------------------------------------------------------------------------------------------ values

    def value(self, depth: int = 3) -> JSON:
        """Any JSON value."""
        rng = self._rng
        match rng.randrange(12 if depth else 8):
            case 0:
                return None
            case 1:
                return rng.random() < 0.5
            case 2:
                return rng.choice([0, 1, -1, 7, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**40])
            case 3:
                return rng.choice([0.0, -0.0, 0.5, 1.0, -1.5, 1e15, 1e16, 1.7976931348623157e308, 5e-324])
            case 8 | 9:
                return [self.value(depth - 1) for _ in range(rng.randrange(4))]
            case 10 | 11:
                return {self.key(): self.value(depth - 1) for _ in range(rng.randrange(5))}
            case _:
                return rng.choice(STRINGS)

    def key(self) -> str:
        """A key: one that means something, mostly."""
        return self._rng.choice(STRINGS if self._rng.random() < 0.2 else KEYS)

    def id(self) -> JSON:
        """An id, mostly one that is."""
        return self._rng.choice(NO_IDS if self._rng.random() < 0.1 else IDS)

    # ------------------------------------------------------------------------------------------------ messages

    def call(self) -> JSONObject:
        """A request or a notification as it should be."""
        rng = self._rng
        examples = examples_of(self._role)
        name = rng.choice([*examples])
        params: JSONObject = json.loads(rng.choice(examples[name]))
        message: JSONObject = {"jsonrpc": "2.0"}
        if name not in ("session/cancel", "session/update", "$/cancel_request", "elicitation/complete"):
            message["id"] = rng.choice(IDS)
        message["method"] = name
        message["params"] = params
        self._placed(params)
        if name in ("session/new", "session/load", "session/resume"):
            params["cwd"] = rng.choice(["/nowhere", "/nowhere", "/nowhere/", "/elsewhere"])
            params["mcpServers"] = []
        if name == "session/prompt":
            text: JSONObject = {"type": "text", "text": rng.choice(STRINGS)}
            rest = params["prompt"] if rng.random() < 0.3 else []
            params["prompt"] = [text, *rest] if isinstance(rest, list) else [text]
        return message

    def _placed(self, value: JSON) -> JSON:
        """``value`` about sessions and requests that there are."""
        if isinstance(value, dict):
            for key, member in value.items():
                if key == "sessionId":
                    value[key] = self._rng.choice(SESSION_IDS)
                elif key == "requestId":
                    value[key] = self._rng.choice(IDS)
                else:
                    self._placed(member)
        elif isinstance(value, list):
            for item in value:
                self._placed(item)
        return value

    def response(self) -> JSONObject:
        """A response, mostly to one of the first requests of the other side."""
        rng = self._rng
        message: JSONObject = {"jsonrpc": "2.0", "id": rng.randrange(12) if rng.random() < 0.8 else self.id()}
        if rng.random() < 0.3:
            code = rng.choice([-32000, -32002, -32601, -32603, -32700, -32800, 0, 2**40, 1.5])
            message["error"] = {"code": code, "message": rng.choice(STRINGS), "data": self.value()}
        else:
            other = next(role for role in (AGENT, _client()) if role is not self._role)
            message["result"] = self._placed(json.loads(rng.choice(results_for(other))))
        return message

    def envelope(self) -> JSONObject:
        """An object with some of the keys of a message."""
        rng = self._rng
        makers: list[tuple[str, Callable[[], JSON]]] = [
            ("jsonrpc", lambda: rng.choice(["2.0", "2.0", "2.0", "1.0", 2, None])),
            ("id", self.id),
            (
                "method",
                lambda: self.value() if rng.random() < 0.2 else rng.choice([*METHODS, *examples_of(self._role)]),
            ),
            ("params", self.value),
            ("result", self.value),
            ("error", self.value),
        ]
        rng.shuffle(makers)
        return {key: make() for key, make in makers if rng.random() < 0.55}

    # ------------------------------------------------------------------------------------------------ mutations

    def mutated(self, value: JSON) -> JSON:
        """``value`` with one thing changed somewhere inside."""
        rng = self._rng
        if isinstance(value, dict) and value and rng.random() < 0.85:
            key = rng.choice([*value])
            match rng.randrange(8):
                case 0:
                    return {k: v for k, v in value.items() if k != key}
                case 1:
                    return {**value, key: self.value()}
                case 2:
                    return {**value, self.key(): self.value()}
                case 3:
                    return dict(reversed(value.items()))
                case _:
                    return {**value, key: self.mutated(value[key])}
        if isinstance(value, list) and value and rng.random() < 0.85:
            index = rng.randrange(len(value))
            match rng.randrange(6):
                case 0:
                    return value[:index] + value[index + 1 :]
                case 1:
                    return [*value, *value]
                case 2:
                    return [*value[:index], self.value(), *value[index:]]
                case _:
                    return [*value[:index], self.mutated(value[index]), *value[index + 1 :]]
        return self.value()

    def spelled(self, value: JSON) -> bytes:
        """``value`` as JSON text, in one of its spellings."""
        rng = self._rng
        text = json.dumps(
            value,
            ensure_ascii=rng.random() < 0.5,
            separators=rng.choice([(",", ":"), (", ", ": "), (" ,", "\t:  ")]),
        )
        if rng.random() < 0.03:
            text = "\ufeff" + text
        if rng.random() < 0.03:  # a key twice
            text = text.replace("{", '{"id":3,', 1)
        if rng.random() < 0.03:
            text = text.replace(
                "0", rng.choice(["NaN", "Infinity", "1e999", "-1e999", "00", "1" * 5000, "0.1e-999"]), 1
            )
        return text.encode("utf-8", "surrogatepass").replace(b"\n", b"")

    def _scrambled(self, text: bytes) -> bytes:
        rng = self._rng
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(text) + 1)
            match rng.randrange(5):
                case 0:
                    text = text[:at] + bytes([rng.randrange(256)]) + text[at + 1 :]
                case 1:
                    text = (
                        text[:at] + rng.choice([b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b"\xff"]) + text[at:]
                    )
                case 2:
                    text = text[:at]
                case 3:
                    text = text[at:]
                case _:
                    text = text + text
        return text

    def deep(self) -> bytes:
        """A message with something in it that is nested deeply."""
        rng = self._rng
        depth = rng.choice([50, 200, 500, 900, 980, 1010, 1025, 1500, 3000])
        opening, closing = rng.choice([(b"[", b"]"), (b'{"a":', b"}"), (b'[{"b":', b"}]")])
        nest = opening * depth + b"1" + closing * depth
        session = rng.choice(LIVE).encode()
        number = str(rng.randrange(8)).encode()
        return rng.choice(
            [
                b'{"jsonrpc":"2.0","id":%b,"method":"_ext","params":%b}' % (number, nest),
                b'{"id":%b,"method":"_ext","params":{}}' % nest,
                b'{"jsonrpc":"2.0","method":"_tell","params":%b}' % nest,
                b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (number, nest),
                b'{"jsonrpc":"2.0","id":%b,"result":1}' % nest,
                b'{"jsonrpc":"2.0","id":%b,"error":{"code":1,"message":"","data":%b}}' % (number, nest),
                b'{"jsonrpc":"2.0","id":%b,"method":"session/prompt","params":{"sessionId":"%b","prompt":[{"type":"text",'
                b'"text":"ask","_meta":{"m":%b}}]}}' % (number, session, nest),
                b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"%b","update":{"sessionUpdate":"tool_call",'
                b'"toolCallId":"t","title":"deep","rawInput":%b}}}' % (session, nest),
                b'{"jsonrpc":"2.0","id":%b,"method":"session/request_permission","params":{"sessionId":"%b","toolCall":{'
                b'"toolCallId":"t","title":"deep","rawInput":%b},"options":[{"optionId":"y","name":"","kind":"allow_once"}]'
                b"}}" % (number, session, nest),
                nest,
            ]
        )

    # ------------------------------------------------------------------------------------------------ frames

    def frame(self) -> bytes:
        """One line, without its end."""
        rng = self._rng
        at = rng.random()
        if at < 0.04:
            return bytes(rng.choices(range(256), k=rng.randrange(40))).replace(b"\n", b"")
        if at < 0.08:
            return self.spelled(self.value())
        if at < 0.10:
            return self.deep()
        if at < 0.12:
            return rng.choice([b"", b" ", b"\t \r", b"[]", b"{}", b"Welcome!", b"\x1b[2J", b"null", b"\x0b"])
        if at < 0.27:
            message: JSON = self.envelope()
        elif at < 0.45:
            message = self.response()
        else:
            message = self.call()
        if at < 0.20 or rng.random() < 0.45:
            for _ in range(rng.choice([1, 1, 1, 2, 4])):
                message = self.mutated(message)
        text = self.spelled(message)
        return self._scrambled(text).replace(b"\n", b"") if rng.random() < 0.08 else text


def _client() -> Role:
    from acp_ref.methods import CLIENT

    return CLIENT


def starts_a_program(frame: bytes) -> bool:
    """Whether ``frame`` asks for an MCP server. These tests start none: they would be tests of the servers."""
    try:
        message: JSON = json.loads(frame.decode("utf-8-sig", "surrogatepass"))
    except (ValueError, RecursionError):
        return False
    params = message.get("params") if isinstance(message, dict) else None
    servers = params.get("mcpServers") if isinstance(params, dict) else None
    return isinstance(servers, list) and any(isinstance(server, dict) and "command" in server for server in servers)
