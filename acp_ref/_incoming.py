"""The peer's requests: accepted in wire order, served by a task each, answered exactly once.

https://agentclientprotocol.com/protocol/cancellation

See :mod:`acp_ref.connection` for the whole. The one place where an exception becomes an error object is here:

* RequestError is answered as itself, params of the wrong shape are -32602;
* a call that the peer cancelled is answered with the method's own cancelled result where it has one, otherwise with the
  handler's result if it finished all the same, otherwise with -32800 (CANCEL-15);
* anything else is -32603, reported here with its traceback, and none of it reaches the peer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import trio

from acp_ref import _jsonrpc as jsonrpc
from acp_ref._jsonrpc import JSON, RequestId
from acp_ref.errors import RequestError
from acp_ref.handlers import Handlers, RequestRoute
from acp_ref.reports import Report, ReportKind
from acp_ref.requests import IncomingRequest

if TYPE_CHECKING:
    from acp_ref.connection import Connection

__all__ = ["IncomingRequests"]

CANCEL_TIMEOUT: Final = 1.0
"""Seconds that cancelled handlers have to answer, once the conversation is over."""

Held: TypeAlias = jsonrpc.Request | jsonrpc.Notification


class Answer(Protocol):
    """Sends the frame that answers a request."""

    def __call__(self, request: IncomingRequest, frame: bytes, *, succeeded: bool) -> None: ...


class IncomingRequests:
    """The requests of the peer on one connection."""

    served: int
    """How many were accepted so far."""

    def __init__(self, connection: Connection, handlers: Handlers, answer: Answer) -> None:
        self._connection = connection
        self._routes = handlers.requests
        self._send_answer = answer
        self._in_flight: dict[RequestId, IncomingRequest] = {}
        self._held: list[Held] = []
        self._changed = trio.lowlevel.ParkingLot()
        self.served = 0

    def __len__(self) -> int:
        return len(self._in_flight)

    def is_taken(self, request_id: RequestId) -> bool:
        """Whether a request with this id is being handled or held. Ids are never bool or float, so == is exact here."""
        return request_id in self._in_flight or self._held_with(request_id) is not None

    # ---------------------------------------------------------------------------- behind an initialize still in flight

    def hold(self, message: Held) -> None:
        """Keep ``message`` until the ``initialize`` before it was answered."""
        self._held.append(message)

    def release(self) -> Sequence[Held]:
        """What was held, in order."""
        held, self._held = self._held, []
        return held

    def _held_with(self, request_id: RequestId) -> jsonrpc.Request | None:
        for message in self._held:
            if isinstance(message, jsonrpc.Request) and message.id == request_id:
                return message
        return None

    # ------------------------------------------------------------------------------------------------- in wire order

    def accept(self, message: jsonrpc.Request) -> None:
        """Call the handler of ``message`` and let a task await what it returned."""
        name = message.method
        request = IncomingRequest(self._connection, message.id, name, trio.CancelScope())
        self._in_flight[message.id] = request
        self.served += 1
        route = self._routes.get(name)
        if route is None:
            self._answer(request, None, RequestError.method_not_found(name))  # EXT-08, D-15
            return
        try:
            result = route.accept(request, message.params)
        except Exception as exc:
            self._answer(request, None, self._error_of(name, exc))
        else:
            self._connection.nursery.start_soon(self.serve, request, route, result, name=name)

    def cancel(self, request_id: RequestId) -> None:
        """``$/cancel_request`` came for ``request_id``."""
        request = self._in_flight.get(request_id)
        if request is not None:
            request.cancel()  # CANCEL-13; requests nested in the handler send their own (CANCEL-21)
            return
        held = self._held_with(request_id)
        if held is not None:
            self._held.remove(held)
            self._connection.put_frame(jsonrpc.encode_error(request_id, RequestError.request_cancelled()))
        # CANCEL-20: otherwise it was answered already, and that answer stands

    # --------------------------------------------------------------------------------------------------- in its task

    async def serve(self, request: IncomingRequest, route: RequestRoute, pending: Awaitable[JSON]) -> None:
        """Await a handler and answer its request exactly once, whatever it does."""
        result: JSON = None
        error: RequestError | None = None
        finished = False
        try:
            with request.scope:
                result = await pending
                finished = True
        except Exception as exc:
            # CANCEL-06: what blows up because of a cancellation is no error of the handler's.
            error = (
                RequestError.request_cancelled() if request.cancel_requested else self._error_of(request.method, exc)
            )
        except BaseException as exc:
            # The connection is going down, and nobody is left to answer. A handler that fails on the way is still no
            # reason to bring anything else down.
            self._forget(request)
            bugs, others = exc.split(Exception) if isinstance(exc, BaseExceptionGroup) else (None, exc)
            if bugs is not None:
                self._error_of(request.method, bugs)
            if others is not None:
                raise others from None
            return
        if request.cancel_requested or not (finished or error):
            own = route.cancelled_result()
            if own is not None:
                result, error = own, None  # CANCEL-05, CANCEL-07: whatever blew up underneath
            elif not finished:
                error = RequestError.request_cancelled()  # CANCEL-15, CANCEL-18
        self._answer(request, result, error)

    async def finish(self, drain_timeout: float) -> None:
        """The conversation is over: let what is in flight finish, for so many seconds; then cancel it."""
        self._held.clear()
        with trio.move_on_after(drain_timeout):
            while self._in_flight:
                await self._changed.park()
        for request in self._in_flight.values():
            request.scope.cancel()
        with trio.move_on_after(CANCEL_TIMEOUT):
            while self._in_flight:
                await self._changed.park()

    def _answer(self, request: IncomingRequest, result: JSON, error: RequestError | None) -> None:
        frame = b""
        if error is None:
            try:
                frame = jsonrpc.encode_result(request.id, result)
            except ValueError as exc:
                error = self._error_of(request.method, exc)
        if error is not None:
            frame = _encode_error(request.id, error)
        self._forget(request)
        self._send_answer(request, frame, succeeded=error is None)

    def _forget(self, request: IncomingRequest) -> None:
        self._in_flight.pop(request.id, None)
        self._changed.unpark_all()

    def _error_of(self, method: str, exc: BaseException) -> RequestError:
        """What the peer is told of ``exc``."""
        leaves = [*_leaves(exc)]
        if len(leaves) == 1 and isinstance(leaves[0], RequestError):
            return leaves[0]
        self._connection.report(
            Report(kind=ReportKind.HANDLER_FAILED, method=method, reason="its handler raised", error=exc)
        )
        return RequestError.internal_error()


def _encode_error(request_id: RequestId, error: RequestError) -> bytes:
    """The frame of ``error``; without its data when that is not JSON, for an answer must never be lost."""
    try:
        return jsonrpc.encode_error(request_id, error)
    except ValueError:
        return jsonrpc.encode_error(request_id, RequestError(error.code, error.message))


def _leaves(exc: BaseException) -> Iterator[BaseException]:
    """The exceptions in nested groups; ``exc`` itself when it is none."""
    if isinstance(exc, BaseExceptionGroup):
        for member in exc.exceptions:
            yield from _leaves(member)
    else:
        yield exc
