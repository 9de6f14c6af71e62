"""Connection: THE one symmetric Connection of agents and clients.

https://agentclientprotocol.com/protocol/overview#communication-model

The life of a message::

    bytes -> frames -> envelope -> legal in this state? -> method by name in our handlers -> typed params -> handler
          -> result -> outbox -> the one writer -> bytes

Theory of operation. Two tasks live as long as the stream, and one more for each request being handled:

* The **reader** (:meth:`Connection.run` itself) awaits nothing but frames, so nothing the peer or a handler does can
  stop it. It handles each message in place, in wire order: a response is resolved, a notification handler (a plain
  ``def``) is called. So ``await request(...)`` returns only after every notification that came before the response was
  handled, and no handler can deadlock the connection.
* A **request handler** is called by the reader, in wire order, and returns an awaitable that a task of its own awaits.
  An ``async def`` runs wholly in that task. A ``def`` that returns an awaitable does its first part in wire order: that
  is how a prompt turn exists before the next line, a cancellation of it, is read. Its CancelScope is made and filed
  under the request's id before the task is spawned, or a cancellation in the same chunk would be lost.
* The **writer** takes whole frames from the :class:`~acp_ref._outbox.Outbox`.

Exactly one place, :class:`~acp_ref._incoming.Incoming`, turns an exception into an error object. A handler's
bug never ends the connection, and nothing of it but "Internal error" reaches the peer.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, Literal, TypeAlias, TypeVar, final

import trio
from typing_extensions import TypeForm

from acp_ref import _jsonrpc as jsonrpc
from acp_ref._converter import InvalidPayload, salvages, structure_hook, take_salvaged, unstructure_hook
from acp_ref._framing import Frame, OversizedFrame, UnterminatedFrame
from acp_ref._incoming import Incoming
from acp_ref._jsonrpc import JSON, JSONObject
from acp_ref._nursery import open_nursery_beside
from acp_ref._outbox import DEFAULT_HIGH_WATER, Outbox
from acp_ref._outgoing import OutgoingRequests, PendingRequest
from acp_ref._state import CONNECTION, ConnectionEvent, ConnectionState, ConnectionStatistics, after, event_of
from acp_ref.errors import CapabilityError, RemoteProtocolError
from acp_ref.handlers import Handlers
from acp_ref.methods import CANCEL_REQUEST, INITIALIZE, Method, Notification, Role
from acp_ref.reports import EXCERPT, Report, ReportKind, log_report
from acp_ref.requests import OutgoingRequest
from acp_ref.schema import AgentCapabilities, CancelRequestNotification, ClientCapabilities
from acp_ref.transports import EagerTransport, Transport

__all__ = ["Capabilities", "Connection", "ConnectionStatistics", "FrameHook", "open_connection"]

P = TypeVar("P")
R = TypeVar("R")

Capabilities: TypeAlias = AgentCapabilities | ClientCapabilities
"""What one side announced in ``initialize``."""

FrameHook: TypeAlias = Callable[[Literal["sent", "received"], bytes], None]
"""Sees every frame as it is queued or read. It sees secrets too: see :func:`acp_ref.trace.redacted`."""

FLUSH_TIMEOUT: Final = 1.0
"""Seconds that the last answers have to leave, once the conversation is over."""


@final
class Connection:
    """One end of a conversation. The same class at the agent and at the client; the difference is ``role``, a table.

    Args:
      transport: the frames. Closed when :meth:`run` ends.
      role: the role this end plays. Only its methods may have handlers (extensions aside).
      handlers: what to do with the peer's messages.
      on_report: hears of everything that is ignored, salvaged or fails without an answer.
      on_frame: sees every frame, both ways.
      high_water: bytes that may wait in the outbox before :meth:`notify` and :meth:`request` wait.
      drain_timeout: seconds that requests already read may go on after the end of input, before they are cancelled.
      strict: refuse messages with faults that the schema tolerates, instead of mending and reporting them.
    """

    role: Role
    """The role this end plays."""
    state: ConnectionState
    """Where it stands."""
    counterpart: Capabilities | None
    """What the peer announced; None before ``initialize`` was answered. Set by the role's initialize handling."""
    introduction: JSONObject
    """The peer's half of ``initialize`` as it came, with what this version does not know of it (INIT-15, D-31)."""

    def __init__(
        self,
        transport: Transport,
        role: Role,
        handlers: Handlers,
        *,
        on_report: Callable[[Report], None] = log_report,
        on_frame: FrameHook | None = None,
        high_water: int = DEFAULT_HIGH_WATER,
        drain_timeout: float = 0.0,
        strict: bool = False,
    ) -> None:
        allowed = {method.name for method in role.handles}
        for name in (*handlers.requests, *handlers.notifications):
            if name not in allowed and not name.startswith("_"):
                raise ValueError(f"{name} is not a method that the {role.name} handles")
        self.role = role
        self.counterpart = None
        self.introduction = {}
        self._transport = transport
        self._on_report = on_report
        self._on_frame = on_frame
        self._drain_timeout = drain_timeout
        self._strict = strict
        self._outbox = Outbox(high_water, transport.send_now if isinstance(transport, EagerTransport) else None)
        self.state = ConnectionState.FRESH
        self._ended: trio.BrokenResourceError | trio.ClosedResourceError | None = None
        self._outgoing = OutgoingRequests(self)
        self._incoming = Incoming(self, handlers)
        self._nursery: trio.Nursery | None = None
        self._reading = trio.CancelScope()
        self._written = trio.Event()
        self._frames_received = 0
        self._when_ended: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return f"<Connection as {self.role.name}, {self.state.value}>"

    # ---------------------------------------------------------------------------------------------- calling the peer

    async def request(self, method: Method[P, R], params: P) -> R:
        """Call ``method`` and wait for its answer, however long that takes.

        When it returns, every notification that came before the answer has been handled. When the caller is cancelled,
        the peer is told so by ``$/cancel_request`` (CANCEL-11) and the late answer is dropped (D-08).

        Raises:
          RequestError: the peer answered with an error; :class:`AuthRequired` for -32000.
          CapabilityError: the peer did not announce what ``method`` needs. Nothing was written.
          LocalProtocolError: ``method`` is not allowed now, before ``initialize`` for example. Nothing was written.
          RemoteProtocolError: the result has the wrong shape.
          ValueError: ``params`` is not JSON or breaks the schema. Nothing was written.
          trio.BrokenResourceError: the connection broke before the answer came; the text says who closed and why.
          trio.ClosedResourceError: this connection was closed.
        """
        return await (await self.send_request(method, params)).wait()

    async def send_request(
        self,
        method: Method[P, R],
        params: P,
        *,
        on_settled: Callable[[OutgoingRequest[R]], None] | None = None,
    ) -> OutgoingRequest[R]:
        """Call ``method`` without waiting for its answer.

        Args:
          on_settled: called when the answer came or never will, in wire order, before any later message is handled,
            also when nobody waits any more. It must not wait and must not raise.

        Raises:
          CapabilityError, LocalProtocolError, ValueError: as :meth:`request`. Nothing was written.
          trio.BrokenResourceError, trio.ClosedResourceError: the connection is over.
        """
        self._check(method)
        raw_params = unstructure_hook(method.params)(params)
        request_id = self._outgoing.next_id()
        frame = jsonrpc.encode_request(request_id, method.name, raw_params)

        def decode(result: JSON) -> R:
            return self.read(method.result, result, method.name, "$.result")

        request = OutgoingRequest(request_id, method.name, decode, self._put_cancellation, on_settled)
        self.advance(event_of(method.name))
        self._outgoing.add(request_id, request)
        try:
            await self.wait_for_room()
            self.put_frame(frame, urgent=True)
        except BaseException:
            self._outgoing.forget(request_id)
            if self.state is ConnectionState.INITIALIZING:
                self.state = ConnectionState.FRESH
            raise
        return request

    async def notify(self, method: Notification[P], params: P) -> None:
        """Send ``method``. Returns once it is queued: at once, unless many bytes wait to be written already.

        Raises:
          CapabilityError, LocalProtocolError, ValueError: as :meth:`request`. Nothing was written.
          trio.BrokenResourceError, trio.ClosedResourceError: the connection is over.
        """
        self._check(method)
        self.advance(ConnectionEvent.CALL)
        await self.send_frame(jsonrpc.encode_notification(method.name, unstructure_hook(method.params)(params)))

    def put_notification(self, method: Notification[P], params: P) -> None:
        """Queue a notification now, without waiting for room; dropped when the connection is over.

        Raises:
          ValueError: ``params`` is not JSON or breaks the schema.
        """
        self.put_frame(jsonrpc.encode_notification(method.name, unstructure_hook(method.params)(params)))

    async def send_frame(self, frame: bytes) -> None:
        """Queue a whole message that was encoded before, such as one replayed from a journal; see :meth:`notify`.

        Raises:
          trio.BrokenResourceError, trio.ClosedResourceError: the connection is over.
        """
        await self.wait_for_room()
        self.put_frame(frame)

    async def wait_for_room(self) -> None:
        """What :meth:`send_frame` does before it queues; until the caller waits again, :meth:`put_frame` does the rest.

        Raises:
          trio.BrokenResourceError, trio.ClosedResourceError: the connection is over.
        """
        await self._outbox.wait_for_room()
        if self._ended is not None:
            raise copy.copy(self._ended)

    def put_frame(self, frame: bytes, *, urgent: bool = False) -> None:
        """Queue a whole encoded message now, without waiting for room; dropped when the connection is over. Is it
        ``urgent``, it may be written at once, with what is queued before it."""
        if self._on_frame is not None:
            self._show(self._on_frame, "sent", frame)
        if urgent:
            self._outbox.put_urgent(frame)
        else:
            self._outbox.put(frame)

    def _show(self, hook: FrameHook, direction: Literal["sent", "received"], frame: bytes) -> None:
        """A hook that fails is reported and never disturbs the conversation."""
        try:
            hook(direction, frame)
        except Exception as exc:
            self.report(Report(kind=ReportKind.HANDLER_FAILED, reason="the on_frame hook failed", error=exc))

    def statistics(self) -> ConnectionStatistics:
        """What the connection is doing now."""
        return ConnectionStatistics(
            state=self.state.value,
            requests_pending=len(self._outgoing),
            requests_in_flight=self._incoming.in_flight,
            requests_served=self._incoming.served,
            frames_received=self._frames_received,
            frames_sent=self._outbox.frames_sent,
            writes=self._outbox.writes,
            outbox_bytes=self._outbox.queued_bytes,
        )

    def when_ended(self, then: Callable[[], None]) -> None:
        """Call ``then`` when the conversation is over, for whatever reason. It must not wait and must not raise."""
        self._when_ended.append(then)

    @property
    def ended(self) -> bool:
        """Whether the conversation is over."""
        return self._ended is not None

    def is_pending(self, request_id: object) -> bool:
        """Whether ``request_id`` names a request of ours that waits for its answer."""
        return type(request_id) is int and request_id in self._outgoing

    def report(self, report: Report) -> None:
        """Tell the ``on_report`` hook; a hook that fails is logged and never disturbs the conversation."""
        try:
            self._on_report(report)
        except Exception as exc:
            log_report(Report(kind=ReportKind.HANDLER_FAILED, reason="the on_report hook failed", error=exc))

    def read(self, t: TypeForm[R], value: JSON, method: str, where: str) -> R:
        """``value`` as a ``t``, with a report of everything that was mended in it on the way (D-28).

        Args:
          where: the JSON path of ``value`` in the message.

        Raises:
          InvalidPayload: it is none; in strict mode, also when it had to be mended.
        """
        result = structure_hook(t)(value)
        if take_salvaged():
            self.report_salvages(t, value, method, where)
        return result

    def report_salvages(self, t: TypeForm[R], value: JSON, method: str, where: str) -> None:
        """Report what had to be mended when ``value`` was read as a ``t``; see :meth:`read`."""
        mended = salvages(t, value)
        if mended and self._strict:
            raise InvalidPayload([f"{salvage.path}: {salvage.reason}" for salvage in mended])
        for salvage in mended:
            path = where + salvage.path.removeprefix("$")
            self.report(Report(kind=ReportKind.SALVAGED, method=method, path=path, reason=salvage.reason))

    def _check(self, method: Method[P, R] | Notification[P]) -> None:
        if self._ended is not None:
            raise copy.copy(self._ended)
        gate = method.gate
        if gate is not None and self.state is ConnectionState.READY:
            counterpart = self.counterpart
            if counterpart is None or not gate.is_open(counterpart):
                raise CapabilityError(method.name, gate.path)

    def _put_cancellation(self, request_id: int) -> None:
        self.put_notification(CANCEL_REQUEST, CancelRequestNotification(request_id=request_id))

    # ------------------------------------------------------------------------------------------------- the two tasks

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold the conversation: from the first byte to the end of input, then tidy up and return.

        At the end of input, what was read is handled; our requests fail; the peer's requests get ``drain_timeout``
        seconds to finish and are cancelled then; the last answers leave; the transport is closed.
        """
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._write)
                task_status.started()
                with self._reading:
                    await self._read()
                    await self._incoming.wait_released(self._drain_timeout)
                self._end(trio.BrokenResourceError(f"the {self.role.peer} closed the connection"))
                await self._incoming.finish(self._drain_timeout)
                self._outbox.close()
                with trio.move_on_after(FLUSH_TIMEOUT):
                    await self._written.wait()
                nursery.cancel_scope.cancel()
        finally:
            self._end(trio.ClosedResourceError("this connection was closed"))
            self._outbox.close()  # also when this was cancelled, or who waits for room would wait for ever
            await self._transport.aclose()

    async def aclose(self) -> None:
        """End the conversation from this side: our requests fail, what is queued still leaves, :meth:`run` returns."""
        self._end(trio.ClosedResourceError("this connection was closed"))
        self._reading.cancel()
        await trio.lowlevel.checkpoint()

    @property
    def nursery(self) -> trio.Nursery:
        """Nursery A: lives as long as the stream; sessions are its children.

        Raises:
          trio.ClosedResourceError: the connection is not running.
        """
        if self._nursery is None:
            raise trio.ClosedResourceError("the connection is not running")
        return self._nursery

    async def _read(self) -> None:
        try:
            while self._handle_all(await self._transport.receive()):  # which leaves nothing here to keep while it waits
                pass
        except (trio.BrokenResourceError, trio.ClosedResourceError) as exc:
            self._end(exc)

    def _handle_all(self, frames: Sequence[Frame]) -> bool:
        """Handle frames as they came, in place and without waiting; False at the end of input."""
        self._frames_received += len(frames)
        self._outbox.allow_urgent()
        for frame in frames:
            if isinstance(frame, OversizedFrame):
                reason = f"a message of {frame.size} bytes is larger than this side accepts"
                self._handle_invalid(jsonrpc.unreadable(reason, frame.head, frame.tail), frame.head)
                continue
            if self._on_frame is not None:
                self._show(self._on_frame, "received", frame)
            message = jsonrpc.decode(frame)
            if isinstance(message, jsonrpc.Notification):
                self._incoming.take_notification(message)
            elif isinstance(message, jsonrpc.Request):
                self._incoming.take_request(message)
            elif isinstance(message, jsonrpc.Result | jsonrpc.ErrorResponse):
                self._handle_response(message)
            else:
                self._handle_invalid(message, frame)
        return bool(frames)

    async def _write(self) -> None:
        try:
            await self._outbox.write(self._transport.send)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as exc:
            # The peer reads no more: once, and by the same way as the end of input.
            self._outbox.close()
            self._end(exc)
            self._reading.cancel()
        self._written.set()

    def _end(self, reason: trio.BrokenResourceError | trio.ClosedResourceError) -> None:
        """The conversation is over: everybody who waits for the peer learns why. The first reason stands."""
        if self._ended is not None:
            return
        self._ended = reason
        self.state = ConnectionState.ENDED
        self._outgoing.end(reason)
        for then in self._when_ended:
            then()

    # --------------------------------------------------------------------------------------------- one message

    def advance(self, event: ConnectionEvent) -> None:
        """A message came or is about to be sent. Raises LocalProtocolError when it is not legal now."""
        if event is not ConnectionEvent.CALL or self.state is not ConnectionState.READY:  # where it changes nothing
            self.state = after(CONNECTION, self.state, event)

    def initialized(self, *, succeeded: bool) -> None:
        """``initialize`` was answered."""
        self.advance(ConnectionEvent.INITIALIZED if succeeded else ConnectionEvent.REFUSED)

    def _handle_response(self, message: jsonrpc.Result | jsonrpc.ErrorResponse) -> None:
        request = self._outgoing.take(message.id)
        if request is None:
            self._outgoing.report_unmatched(message)
        else:
            self._settle(request, self._outgoing.read(request, message))

    def _settle(self, request: PendingRequest, error: Exception | None) -> None:
        opening = request.method == INITIALIZE.name and self.state is ConnectionState.INITIALIZING
        if opening:
            self.initialized(succeeded=error is None)
        self._outgoing.settle(request, error)
        if opening:
            self._incoming.release()

    def _handle_invalid(self, message: jsonrpc.InvalidMessage, frame: bytes) -> None:
        """Answer what was perhaps a request, and fail the request of ours that gets no other response."""
        self.report(Report(kind=ReportKind.JUNK, reason=message.reason, excerpt=frame[:EXCERPT]))
        if message.is_response:  # what the end of the conversation cut off fails with it, and that says why
            request = None if isinstance(frame, UnterminatedFrame) else self._outgoing.take(message.id)
            if request is not None:
                reason = f"the response to {request.method} cannot be read: {message.reason}"
                self._settle(request, RemoteProtocolError(reason))
        # D-33. But a stray print of an agent is no request of anybody, so a client does not answer it.
        elif message.answer is not None and (message.is_call or self.role.answers_junk):
            self.put_frame(jsonrpc.encode_error(message.id, message.answer))


@asynccontextmanager
async def open_connection(connection: Connection) -> AsyncGenerator[Connection, None]:
    """Run ``connection`` inside the ``with`` block and close it at its end."""
    async with open_nursery_beside() as nursery:
        await nursery.start(connection.run)
        try:
            yield connection
        finally:
            await connection.aclose()
