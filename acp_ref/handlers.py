"""Handlers: what one side does with the methods of its role, as data.

https://agentclientprotocol.com/protocol/overview#communication-model

A request handler takes the request it answers and the typed params, and returns an awaitable of the typed result. A
notification handler is a plain ``def``: it runs in wire order and must not wait.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar, final

import attrs

from acp_ref._converter import InvalidPayload, structure_hook, take_salvaged, unstructure_hook
from acp_ref.errors import RequestError
from acp_ref.methods import Method, Notification
from acp_ref.requests import Answered, IncomingRequest

if TYPE_CHECKING:
    from acp_ref._jsonrpc import JSON
    from acp_ref.connection import Connection

__all__ = [
    "Handlers",
    "NotificationHandler",
    "NotificationRoute",
    "OtherNotificationHandler",
    "RequestHandler",
    "RequestRoute",
    "only_extensions",
]

P = TypeVar("P")
R = TypeVar("R")


RequestHandler: TypeAlias = Callable[[IncomingRequest, P], Awaitable[R]]
NotificationHandler: TypeAlias = "Callable[[Connection, P], None]"
OtherNotificationHandler: TypeAlias = "Callable[[Connection, str, JSON], None]"
"""Takes the name of the notification, too."""


class RequestRoute(Protocol):
    """A method and its handler, with their types closed over."""

    def accept(self, request: IncomingRequest, params: JSON) -> Awaitable[JSON]:
        """Decode ``params`` and call the handler, in wire order; what comes back is awaited in a task."""
        ...

    def cancelled_result(self) -> JSON:
        """The method's own result for a cancelled call, or None where it has none."""
        ...


class NotificationRoute(Protocol):
    """A notification and its handler, with their type closed over."""

    def deliver(self, connection: Connection, params: JSON) -> None:
        """Decode ``params`` and call the handler, in wire order."""
        ...


@attrs.define(eq=False)
class _RequestRoute(Generic[P, R]):
    method: Method[P, R]
    handler: RequestHandler[P, R]

    def accept(self, request: IncomingRequest, params: JSON) -> Awaitable[JSON]:
        try:
            value = request.connection.read(self.method.params, params, self.method.name, "$.params")
        except InvalidPayload as exc:
            raise RequestError.invalid_params(*exc.errors) from exc
        pending = self.handler(request, value)
        if isinstance(pending, Answered):
            return Answered(unstructure_hook(self.method.result)(pending.result))
        return self._encoded(pending)

    async def _encoded(self, result: Awaitable[R]) -> JSON:
        return unstructure_hook(self.method.result)(await result)

    def cancelled_result(self) -> JSON:
        result = self.method.cancelled
        return None if result is None else unstructure_hook(self.method.result)(result)


@attrs.define(eq=False)
class _NotificationRoute(Generic[P]):
    method: Notification[P]
    handler: NotificationHandler[P]
    _read: Callable[[JSON], P] | None = None

    def deliver(self, connection: Connection, params: JSON) -> None:
        # Connection.read, with its parts looked up once: this is the way of every update.
        read = self._read
        if read is None:
            read = self._read = structure_hook(self.method.params)
        value = read(params)
        if take_salvaged():
            connection.report_salvages(self.method.params, params, self.method.name, "$.params")
        self.handler(connection, value)


@attrs.define(eq=False)
class _OtherRequestRoute:
    handler: RequestHandler[JSON, JSON]

    def accept(self, request: IncomingRequest, params: JSON) -> Awaitable[JSON]:
        return self.handler(request, params)

    def cancelled_result(self) -> JSON:
        return None


@attrs.define(eq=False)
class _OtherNotificationRoute:
    name: str
    handler: OtherNotificationHandler

    def deliver(self, connection: Connection, params: JSON) -> None:
        self.handler(connection, self.name, params)


@final
class Handlers:
    """The handlers of one side, by wire name. A method without one is answered -32601."""

    def __init__(self) -> None:
        self._requests: dict[str, RequestRoute] = {}
        self._notifications: dict[str, NotificationRoute] = {}
        self._other_requests: RequestRoute | None = None
        self._other_notifications: OtherNotificationHandler | None = None

    @property
    def requests(self) -> Mapping[str, RequestRoute]:
        """The routes of requests, by wire name."""
        return self._requests

    @property
    def notifications(self) -> Mapping[str, NotificationRoute]:
        """The routes of notifications, by wire name."""
        return self._notifications

    def on_request(self, method: Method[P, R], handler: RequestHandler[P, R]) -> None:
        """Answer ``method`` with ``handler``. A second handler for the same method replaces the first."""
        self._requests[method.name] = _RequestRoute(method, handler)

    def on_notification(self, method: Notification[P], handler: NotificationHandler[P]) -> None:
        """Call ``handler`` for every ``method``, in wire order."""
        self._notifications[method.name] = _NotificationRoute(method, handler)

    def on_other_requests(self, handler: RequestHandler[JSON, JSON]) -> None:
        """Answer every extension request that has no handler of its own with ``handler``, as a proxy does.

        Its name is ``request.method``, whole and with the underscore. The params are as they came, None when they are
        absent. For one that is not known there either, raise :meth:`RequestError.method_not_found` (EXT-08).
        """
        self._other_requests = _OtherRequestRoute(handler)

    def on_other_notifications(self, handler: OtherNotificationHandler) -> None:
        """Call ``handler`` for every extension notification that has no handler of its own, in wire order."""
        self._other_notifications = handler

    def other_request(self, name: str) -> RequestRoute | None:
        """What answers the request ``name`` when nothing of its own does (EXT-05)."""
        return self._other_requests if name.startswith("_") else None

    def other_notification(self, name: str) -> NotificationRoute | None:
        """What takes the notification ``name`` when nothing of its own does (EXT-05)."""
        if self._other_notifications is None or not name.startswith("_"):
            return None
        return _OtherNotificationRoute(name, self._other_notifications)

    def update(self, other: Handlers) -> None:
        """Take all handlers of ``other`` as well."""
        self._requests.update(other._requests)
        self._notifications.update(other._notifications)
        self._other_requests = other._other_requests or self._other_requests
        self._other_notifications = other._other_notifications or self._other_notifications


def only_extensions(instance: object, attribute: object, handlers: Handlers | None) -> None:
    """A validator of attrs: what an application adds has names that begin with an underscore (EXT-05, EXT-06).

    Raises:
      ValueError: they do not; what the protocol defines is offered in other ways.
    """
    for name in () if handlers is None else (*handlers.requests, *handlers.notifications):
        if not name.startswith("_"):
            raise ValueError(f"the name of an extension starts with an underscore, unlike {name!r}")
