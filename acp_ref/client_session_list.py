"""Session List, as the client turns its pages.

https://agentclientprotocol.com/protocol/session-list
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import final

import trio

from acp_ref.errors import RemoteProtocolError
from acp_ref.schema import ListSessionsRequest, ListSessionsResponse, SessionInfo

__all__ = ["SessionListing"]


@final
class SessionListing:
    """The sessions of an agent, as :meth:`ClientSide.list_sessions` gives them."""

    def __init__(self, ask: Callable[[ListSessionsRequest], Awaitable[ListSessionsResponse]], cwd: str | None) -> None:
        self._ask = ask
        self._cwd = cwd
        self._page: list[SessionInfo] = []
        self._cursor: str | None = None
        self._seen: set[str] = set()
        self._started = False

    def __aiter__(self) -> AsyncIterator[SessionInfo]:
        return self

    async def __anext__(self) -> SessionInfo:
        """The next session; asks for a page when it has to.

        Raises:
          RemoteProtocolError: the agent gave the same cursor twice, so that the listing would never end (LIST-12).
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._page:
            if self._started and self._cursor is None:  # LIST-12
                raise StopAsyncIteration
            request = ListSessionsRequest(cwd=self._cwd, cursor=self._cursor)  # LIST-04, LIST-11, LIST-13
            response = await self._ask(request)
            self._started = True
            self._page = [*reversed(response.sessions)]  # LIST-09: as they are told now
            self._cursor = response.next_cursor
            if self._cursor is not None:
                if self._cursor in self._seen:
                    raise RemoteProtocolError("the agent's listing goes in circles")
                self._seen.add(self._cursor)
        return self._page.pop()
