"""Our requests: numbered, sent, and settled in wire order by their answers or by the end of the connection.

https://agentclientprotocol.com/protocol/overview#communication-model

See :mod:`acp_ref.connection` for the whole.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Protocol

from acp_ref import _jsonrpc as jsonrpc
from acp_ref._converter import InvalidPayload
from acp_ref.errors import RemoteProtocolError, excerpt
from acp_ref.reports import Report, ReportKind

if TYPE_CHECKING:
    from acp_ref._jsonrpc import JSON
    from acp_ref.connection import Connection

__all__ = ["OutgoingRequests", "PendingRequest"]


class PendingRequest(Protocol):
    """An :class:`~acp_ref.requests.OutgoingRequest` whatever its type."""

    method: str

    def resolve(self, raw: JSON) -> None: ...
    def settle(self, error: Exception | None) -> None: ...


class OutgoingRequests:
    """The requests of ours on one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._next_id = 0
        self._pending: dict[int, PendingRequest] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def __contains__(self, request_id: object) -> bool:
        return request_id in self._pending

    def next_id(self) -> int:
        """A fresh id: integers that count (ERR-04), never used again."""
        request_id = self._next_id
        self._next_id += 1
        return request_id

    def add(self, request_id: int, request: PendingRequest) -> None:
        """``request`` is about to be sent."""
        self._pending[request_id] = request

    def forget(self, request_id: int) -> None:
        """It was never sent after all."""
        self._pending.pop(request_id, None)

    def take(self, request_id: JSON) -> PendingRequest | None:
        """The request that a response to ``request_id`` is for. Ids are matched by type and value."""
        return self._pending.pop(request_id, None) if type(request_id) is int else None

    def report_unmatched(self, response: jsonrpc.Result | jsonrpc.ErrorResponse) -> None:
        """There is no such request. That is never answered: two strict peers would never stop."""
        what = f": {response.error}" if isinstance(response, jsonrpc.ErrorResponse) else ""
        reason = f"a response to {excerpt(response.id)}, which is no open request{what}"
        self._connection.report(Report(kind=ReportKind.UNMATCHED, reason=reason))

    def read(self, request: PendingRequest, response: jsonrpc.Result | jsonrpc.ErrorResponse) -> Exception | None:
        """Give ``request`` its result; what is returned is why there is none."""
        if isinstance(response, jsonrpc.ErrorResponse):
            return response.error
        try:
            request.resolve(response.result)
        except InvalidPayload as exc:
            self._connection.report(Report(kind=ReportKind.INVALID, method=request.method, reason=str(exc)))
            return RemoteProtocolError(f"the result of {request.method} is malformed: {exc}")
        return None

    def settle(self, request: PendingRequest, error: Exception | None) -> None:
        """Nothing more will come for ``request``. What its caller wants to do about it may fail and disturbs nobody."""
        try:
            request.settle(error)
        except Exception as exc:
            reason = "what was to happen when it was answered raised"
            self._connection.report(
                Report(kind=ReportKind.HANDLER_FAILED, method=request.method, reason=reason, error=exc)
            )

    def end(self, reason: Exception) -> None:
        """No answer will come any more. Each waiter gets an exception of its own."""
        pending, self._pending = self._pending, {}
        for request in pending.values():
            self.settle(request, copy.copy(reason))
