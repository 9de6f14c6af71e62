"""Error handling.

https://agentclientprotocol.com/protocol/overview#error-handling

Three families, and trio's words for closed channels:

* :class:`RequestError` travels: it is the ``error`` member of a JSON-RPC response. A handler raises it to answer with
  that error; a caller gets it raised when the peer answered with one.
* :class:`LocalProtocolError` and :class:`RemoteProtocolError` stay here: *you* (the caller of this library) or *they*
  (the peer) broke the protocol.
* ``trio.ClosedResourceError`` means that you closed the connection, ``trio.BrokenResourceError`` that it broke.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from acp_ref._jsonrpc import JSON

__all__ = [
    "AuthRequired",
    "CapabilityError",
    "ErrorCode",
    "LocalProtocolError",
    "ProtocolError",
    "RemoteProtocolError",
    "RequestError",
    "UnsupportedProtocolVersion",
]

EXCERPT: Final = 2000
"""The most characters of a peer's data in the text of an exception."""


class ErrorCode(enum.IntEnum):
    """The codes that JSON-RPC and ACP name (ERR-06). Any other 32-bit integer is legal and stays a plain ``int``."""

    PARSE_ERROR = -32700
    """The bytes were not JSON; answered with ``id: null``."""
    INVALID_REQUEST = -32600
    """JSON, but not a request object, or a request that this moment of the connection or session does not allow."""
    METHOD_NOT_FOUND = -32601
    """No such method, or a method whose capability was not announced."""
    INVALID_PARAMS = -32602
    """The params have the wrong shape, or name content, transports or values that were not announced."""
    INTERNAL_ERROR = -32603
    """The handler failed."""
    REQUEST_CANCELLED = -32800
    """The request was cancelled by its caller, or given up by the side that executed it."""
    AUTH_REQUIRED = -32000
    """Login is needed first. Used for nothing else."""
    RESOURCE_NOT_FOUND = -32002
    """The named session, terminal or file does not exist; ``data`` names it (ERR-11)."""


def excerpt(value: JSON) -> str:
    """``value`` for a person to read: as Python writes it, but no longer than a log bears, and however deep it is."""
    try:
        text = repr(value)
    except RecursionError:
        return "a value that is nested too deeply to be shown"
    return text if len(text) <= EXCERPT else f"{text[:EXCERPT]}..."


class RequestError(Exception):
    """The ``error`` of a JSON-RPC response.

    Raise it in a handler to answer the request with it; it is raised by :meth:`Connection.request` when the peer
    answered with one. The message is one short sentence (ERR-08), all else goes to the data. ``has_data`` tells a
    missing ``data`` from ``data: null`` (ERR-09).
    """

    code: int
    message: str
    data: JSON
    has_data: bool

    def __init__(self, code: int, message: str, data: JSON = None, *, has_data: bool | None = None) -> None:
        super().__init__(code, message, data)
        self.code = code
        self.message = message
        self.data = data
        self.has_data = data is not None if has_data is None else has_data

    def __str__(self) -> str:
        detail = f" {excerpt(self.data)}" if self.has_data else ""
        return f"[{self.code}] {self.message}{detail}"

    @classmethod
    def received(cls, code: int, message: str, data: JSON, *, has_data: bool) -> Self:
        """The error as a peer sent it."""
        error = cls.__new__(cls)
        RequestError.__init__(error, code, message, data, has_data=has_data)
        return error

    @classmethod
    def invalid_request(cls, reason: str) -> RequestError:
        """-32600: the message, or this moment for it, is not legal; ``reason`` goes to ``data.reason``."""
        return cls(ErrorCode.INVALID_REQUEST, "Invalid request", {"reason": reason})

    @classmethod
    def method_not_found(cls, method: str) -> RequestError:
        """-32601: this side does not handle ``method``."""
        return cls(ErrorCode.METHOD_NOT_FOUND, "Method not found", {"method": method})

    @classmethod
    def invalid_params(cls, *errors: str) -> RequestError:
        """-32602: each of ``errors`` says where (a JSON path) and what."""
        return cls(ErrorCode.INVALID_PARAMS, "Invalid params", {"errors": [*errors]})

    @classmethod
    def internal_error(cls) -> RequestError:
        """-32603, telling the peer nothing of what went wrong inside."""
        return cls(ErrorCode.INTERNAL_ERROR, "Internal error")

    @classmethod
    def request_cancelled(cls) -> RequestError:
        """-32800."""
        return cls(ErrorCode.REQUEST_CANCELLED, "Request cancelled")

    @classmethod
    def session_not_found(cls, session_id: str) -> RequestError:
        """-32002 with ``data.sessionId`` (ERR-11)."""
        return cls(ErrorCode.RESOURCE_NOT_FOUND, "Session not found", {"sessionId": session_id})

    @classmethod
    def terminal_not_found(cls, terminal_id: str) -> RequestError:
        """-32002 with ``data.terminalId`` (ERR-11)."""
        return cls(ErrorCode.RESOURCE_NOT_FOUND, "Terminal not found", {"terminalId": terminal_id})

    @classmethod
    def file_not_found(cls, path: str) -> RequestError:
        """-32002 with ``data.path`` (ERR-11)."""
        return cls(ErrorCode.RESOURCE_NOT_FOUND, "File not found", {"path": path})


class AuthRequired(RequestError):
    """-32000: log in first (ERR-10). Raised at a client by any session call; raise it in an agent's handler."""

    def __init__(self, message: str = "Authentication required", data: JSON = None) -> None:
        super().__init__(ErrorCode.AUTH_REQUIRED, message, data)


class ProtocolError(Exception):
    """Somebody broke the protocol; see the two subclasses for who."""


class LocalProtocolError(ProtocolError):
    """You asked for something the protocol does not allow now; nothing was written."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something the protocol does not allow, such as a result of the wrong shape."""


class CapabilityError(LocalProtocolError):
    """The peer did not announce ``capability``, so ``method`` was not sent; nothing was written."""

    method: str
    capability: str

    def __init__(self, method: str, capability: str) -> None:
        super().__init__(f"{method} needs {capability}, which the peer did not announce")
        self.method = method
        self.capability = capability


class UnsupportedProtocolVersion(RemoteProtocolError):
    """The agent answered ``initialize`` with a version this client does not speak (INIT-11)."""

    version: int

    def __init__(self, version: int) -> None:
        super().__init__(f"the agent speaks protocol version {version}, which this client does not")
        self.version = version
