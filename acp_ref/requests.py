"""Requests: one that was sent and waits for its answer, one that came and must be answered.

https://agentclientprotocol.com/protocol/overview#communication-model
https://agentclientprotocol.com/protocol/cancellation
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar, final

import attrs
import trio

if TYPE_CHECKING:
    from acp_ref._jsonrpc import JSON, RequestId
    from acp_ref.connection import Connection

__all__ = ["Answered", "IncomingRequest", "OutgoingRequest"]

R = TypeVar("R")


@final
class OutgoingRequest(Generic[R]):
    """A request of ours that is on its way. Made by :meth:`Connection.send_request`."""

    id: int
    """Our id for it."""
    method: str
    """Its wire name."""
    raw_result: JSON
    """The result as it came, with what this version does not know of it (D-31); None until then."""
    abandoned: bool
    """Whether nobody waits for the answer any more. It is expected all the same, so the id stays taken."""

    def __init__(
        self,
        request_id: int,
        method: str,
        decode: Callable[[JSON], R],
        send_cancellation: Callable[[int], None],
        on_settled: Callable[[OutgoingRequest[R]], None] | None,
    ) -> None:
        self.id = request_id
        self.method = method
        self.raw_result = None
        self.abandoned = False
        self._decode = decode
        self._send_cancellation = send_cancellation
        self._on_settled = on_settled
        self._results: list[R] = []
        self._error: Exception | None = None
        self._settled = trio.Event()

    @property
    def settled(self) -> bool:
        """Whether the answer came, or never will."""
        return self._settled.is_set()

    @property
    def error(self) -> Exception | None:
        """Why there is no result: the peer's error, a malformed result, or the end of the connection."""
        return self._error

    def outcome(self) -> R:
        """The result, once it is settled.

        Raises:
          RequestError, RemoteProtocolError, trio.BrokenResourceError, trio.ClosedResourceError: see
            :meth:`Connection.request`.
        """
        if self._error is not None:
            raise self._error
        return self._results[0]

    async def wait(self) -> R:
        """Wait for the answer. When the waiting is cancelled, so is the request, and the late answer is dropped (D-08).

        An answer that comes between the cancellation and its delivery is not late: it is returned, or whoever asked
        would own something that nobody knows of. The caller is cancelled at its next checkpoint.

        Raises:
          as :meth:`outcome`.
        """
        try:
            await self._settled.wait()
        except trio.Cancelled:
            if not self.settled:
                self.abandoned = True
                self.cancel()
                raise
        return self.outcome()

    def cancel(self) -> None:
        """Ask the peer to cancel it (CANCEL-11). The answer still comes, if the peer is well (CANCEL-12, CANCEL-15),
        and may be waited for (CANCEL-16)."""
        if not self.settled:
            self._send_cancellation(self.id)

    def resolve(self, raw: JSON) -> None:
        """The result came; called by the connection, in wire order. Raises InvalidPayload when its shape is wrong."""
        self.raw_result = raw
        self._results.append(self._decode(raw))

    def settle(self, error: Exception | None) -> None:
        """Nothing more will come; called by the connection, in wire order."""
        self._error = error
        self._settled.set()
        if self._on_settled is not None:
            self._on_settled(self)


@final
@attrs.define(eq=False)
class IncomingRequest:
    """A request of the peer that is being handled."""

    connection: Connection
    """The connection it came by, to call the peer back."""
    id: RequestId
    """The peer's id for it."""
    method: str
    """Its wire name."""
    scope: trio.CancelScope
    """Holds the handler; made before the handler's task, so that no cancellation comes too early."""
    params: JSON = attrs.field(default=None, repr=False)
    """Its params as they came, with what this version does not know of them (D-31); None when there are none."""
    cancel_requested: bool = False
    """Whether the peer asked to cancel it, by ``$/cancel_request`` or by the method's own way (CANCEL-17)."""
    _answered: list[Callable[[], None]] = attrs.field(factory=list["Callable[[], None]"])
    _refused: list[Callable[[], None]] = attrs.field(factory=list["Callable[[], None]"])

    def cancel(self) -> None:
        """Cancel the handler because the peer asked to. The request is answered all the same (CANCEL-15)."""
        self.cancel_requested = True
        self.scope.cancel()

    def on_answered(self, then: Callable[[], None], *, otherwise: Callable[[], None] | None = None) -> None:
        """Call ``then`` once the answer is on its way, before anything else can be sent after it.

        What must follow a response on the wire, such as the first updates of a new session, is sent from here.

        Args:
          otherwise: called instead when an error is the answer after all, as when the result is not JSON.
        """
        self._answered.append(then)
        if otherwise is not None:
            self._refused.append(otherwise)

    def followers(self, *, succeeded: bool) -> Sequence[Callable[[], None]]:
        """What :meth:`on_answered` has collected and still collects, to be called one by one; for the connection."""
        return self._answered if succeeded else self._refused


@final
@attrs.frozen
class Answered(Generic[R]):
    """The awaitable of a handler that need not wait: a plain ``def`` that returns it answers in wire order, at once and
    without a task."""

    result: R
    """The result."""

    def __await__(self) -> Generator[None, None, R]:
        yield from ()
        return self.result
