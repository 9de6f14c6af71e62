"""What the peer asks: notifications handled in wire order, requests served by a task each and answered exactly once.

https://agentclientprotocol.com/protocol/cancellation

See :mod:`acp_ref.connection` for the whole. The one place where an exception becomes an error object is here:

* RequestError is answered as itself, params of the wrong shape are -32602;
* a call that the peer cancelled is answered with the method's own cancelled result where it has one, otherwise with the
  handler's result if it finished all the same, otherwise with -32800 (CANCEL-15);
* anything else is -32603, reported here with its traceback, and none of it reaches the peer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import trio

from acp_ref import _jsonrpc as jsonrpc
from acp_ref._converter import InvalidPayload, structure_hook
from acp_ref._jsonrpc import JSON, RequestId
from acp_ref._state import ConnectionEvent, ConnectionState, event_of
from acp_ref.errors import LocalProtocolError, RequestError
from acp_ref.handlers import Handlers, RequestRoute
from acp_ref.methods import CANCEL_REQUEST, INITIALIZE
from acp_ref.reports import Report, ReportKind
from acp_ref.requests import Answered, IncomingRequest

if TYPE_CHECKING:
    from acp_ref.connection import Connection

__all__ = ["Incoming"]

CANCEL_TIMEOUT: Final = 1.0
"""Seconds that cancelled handlers have to answer, once the conversation is over."""

READY: Final = ConnectionState.READY
"""Looking a member up in its enum takes longer than anything else that is done to a notification here."""

Held: TypeAlias = jsonrpc.Request | jsonrpc.Notification


class Incoming:
    """The requests and notifications of the peer on one connection."""

    served: int
    """How many were accepted so far."""

    def __init__(self, connection: Connection, handlers: Handlers) -> None:
        self._connection = connection
        self._handlers = handlers
        self._requests = handlers.requests
        self._notifications = handlers.notifications
        self._in_flight: dict[RequestId, IncomingRequest] = {}
        self._held: list[Held] = []
        self._held_ids: dict[RequestId, jsonrpc.Request] = {}
        self._changed = trio.lowlevel.ParkingLot()
        self.served = 0

    @property
    def in_flight(self) -> int:
        """How many requests are being handled."""
        return len(self._in_flight)

    # ------------------------------------------------------------------------------------------------- in wire order

    def take_notification(self, message: jsonrpc.Notification) -> None:
        """Call the handler of a notification, if there is one. Nothing is ever answered (ERR-02)."""
        connection, name = self._connection, message.method
        route = self._notifications.get(name) or self._handlers.other_notification(name)
        if route is None or connection.state is not READY:
            self._take_other(message)
            return
        try:
            route.deliver(connection, message.params)
        except InvalidPayload as exc:
            connection.report(Report(kind=ReportKind.INVALID, method=name, reason=str(exc)))  # D-29
        except Exception as exc:
            self._report_failed(name, "its handler raised", exc)

    def _take_other(self, message: jsonrpc.Notification) -> None:
        connection, name = self._connection, message.method
        if name == CANCEL_REQUEST.name:
            self._cancel(message)
        elif connection.state is ConnectionState.INITIALIZING:
            self._held.append(message)
        elif connection.state is not READY:
            reason = f"the connection is {connection.state.value}"
            connection.report(Report(kind=ReportKind.IGNORED, method=name, reason=reason))
        elif not name.startswith("$/"):  # EXT-10, CANCEL-19: unknown notifications are ignored
            connection.report(Report(kind=ReportKind.IGNORED, method=name, reason="nobody handles it"))

    def take_request(self, message: jsonrpc.Request) -> None:
        """Call the handler of a request, and let a task await what it returned."""
        connection, name = self._connection, message.method
        if message.id in self._in_flight or message.id in self._held_ids:  # never bool or float, so == is exact
            # D-32. With a null id: an answer under the id would be taken for the answer to the first request.
            refusal = RequestError.invalid_request(f"a request with the id {message.id!r} is being handled")
            connection.put_frame(jsonrpc.encode_error(None, refusal))
            return
        event = event_of(name)
        if connection.state is ConnectionState.INITIALIZING and event is ConnectionEvent.CALL:
            self._held.append(message)  # it waits for the initialize before it
            self._held_ids[message.id] = message
            return
        try:
            connection.advance(event)
        except LocalProtocolError as exc:
            connection.put_frame(jsonrpc.encode_error(message.id, RequestError.invalid_request(str(exc))))  # D-01, D-02
            return
        request = IncomingRequest(connection, message.id, name, trio.CancelScope(), message.params)
        self._in_flight[message.id] = request
        self.served += 1
        route = self._requests.get(name) or self._handlers.other_request(name)
        if route is None:
            self._answer(request, None, RequestError.method_not_found(name))  # EXT-08, D-15
            return
        try:
            result = route.accept(request, message.params)
        except Exception as exc:
            self._answer(request, None, self._error_of(name, exc))
            return
        if isinstance(result, Answered):
            self._answer(request, result.result, None)
        else:
            connection.nursery.start_soon(self._serve, request, route, result, name=name)

    def release(self) -> None:
        """``initialize`` was answered: take what was held behind it, in order."""
        held, self._held = self._held, []
        for message in held:
            if isinstance(message, jsonrpc.Notification):
                self.take_notification(message)
            elif self._held_ids.get(message.id) is message:  # not cancelled meanwhile
                del self._held_ids[message.id]
                self.take_request(message)

    async def wait_released(self, timeout: float) -> None:
        """The input has ended, perhaps while ``initialize`` is being answered: what is held behind it was read all the
        same, so let it begin first."""
        with trio.move_on_after(timeout):
            while self._held and self._connection.state is ConnectionState.INITIALIZING:
                await self._changed.park()

    def _cancel(self, message: jsonrpc.Notification) -> None:
        try:
            request_id = structure_hook(CANCEL_REQUEST.params)(message.params).request_id
        except InvalidPayload as exc:
            self._connection.report(Report(kind=ReportKind.INVALID, method=message.method, reason=str(exc)))
            return
        request = self._in_flight.get(request_id)
        if request is not None:
            request.cancel()  # CANCEL-13; requests nested in the handler send their own (CANCEL-21)
            return
        if self._held_ids.pop(request_id, None) is not None:
            self._connection.put_frame(jsonrpc.encode_error(request_id, RequestError.request_cancelled()))
        # CANCEL-20: otherwise it was answered already, and that answer stands

    # --------------------------------------------------------------------------------------------------- in its task

    async def _serve(self, request: IncomingRequest, route: RequestRoute, pending: Awaitable[JSON]) -> None:
        """Await a handler and answer its request once, whatever it does, behind all that it sent (CANCEL-14)."""
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
            if not isinstance(exc, BaseExceptionGroup):
                raise
            bugs, others = cast("BaseExceptionGroup[BaseException]", exc).split(Exception)
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
        for request_id in self._held_ids:
            self._connection.put_frame(jsonrpc.encode_error(request_id, RequestError.request_cancelled()))
        self._held.clear()
        self._held_ids.clear()
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
            frame = self._encode_error(request, error)
        self._forget(request)
        opening = request.method == INITIALIZE.name and self._connection.state is ConnectionState.INITIALIZING
        if opening:
            self._connection.initialized(succeeded=error is None)
        followers = request.followers(succeeded=error is None)
        self._connection.put_frame(frame, urgent=not followers)  # EXT-07; else it leaves with what follows it
        for then in followers:
            try:
                then()  # what must follow it, before anything else can
            except Exception as exc:
                self._report_failed(request.method, "what was to follow its answer raised", exc)
        if opening:
            self.release()

    def _forget(self, request: IncomingRequest) -> None:
        self._in_flight.pop(request.id, None)
        self._changed.unpark_all()

    def _error_of(self, method: str, exc: BaseException) -> RequestError:
        """What the peer is told of ``exc``."""
        leaves = [*_leaves(exc)]
        if len(leaves) == 1 and isinstance(leaves[0], RequestError):
            return leaves[0]
        closed = (trio.BrokenResourceError, trio.ClosedResourceError)
        if self._connection.ended and all(isinstance(leaf, closed) for leaf in leaves):
            return RequestError.request_cancelled()  # it spoke to a peer that was gone: no fault of the handler's
        self._report_failed(method, "its handler raised", exc)
        return RequestError.internal_error()

    def _encode_error(self, request: IncomingRequest, error: RequestError) -> bytes:
        """The frame of ``error``; without its data when that is not JSON, for an answer must never be lost."""
        try:
            return jsonrpc.encode_error(request.id, error)
        except ValueError as exc:
            self._report_failed(request.method, "the data of its error was left out", exc)
            return jsonrpc.encode_error(request.id, RequestError(error.code, error.message))

    def _report_failed(self, method: str, reason: str, error: BaseException) -> None:
        self._connection.report(Report(kind=ReportKind.HANDLER_FAILED, method=method, reason=reason, error=error))


def _leaves(exc: BaseException) -> Iterator[BaseException]:
    """The exceptions in nested groups; ``exc`` itself when it is none."""
    if isinstance(exc, BaseExceptionGroup):
        for member in cast("BaseExceptionGroup[BaseException]", exc).exceptions:
            yield from _leaves(member)
    else:
        yield exc
