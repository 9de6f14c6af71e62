"""Prompt turn, as the client lives it.

https://agentclientprotocol.com/protocol/prompt-turn

The connection's reader puts the agent's updates into the turn, in wire order, and ends it when the answer comes; the
application takes them out at its own pace. Updates queue without bound, for a reader that waited for the application
would be a reader that can hang.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, final

import trio

from acp_ref.schema import AgentMessageChunk, SessionUpdate, StopReason, TextContent

if TYPE_CHECKING:
    from acp_ref.client_session import ClientSession

__all__ = ["ClientTurn"]


@final
class ClientTurn:
    """One prompt turn: an async iterable of the agent's updates, in order, that ends with a stop reason.

    Made by :meth:`ClientSession.prompt`. Iterate it in one task only.
    """

    session: ClientSession
    """The session it belongs to."""
    stop_reason: StopReason | str | None
    """Why it ended (PROMPT-17); None while it runs. A plain ``str`` is a reason this version does not know."""

    def __init__(self, session: ClientSession) -> None:
        self.session = session
        self.stop_reason = None
        self._updates: deque[SessionUpdate] = deque()
        self._wanted = True
        self._error: Exception | None = None
        self._over = False
        self._news = trio.lowlevel.ParkingLot()
        self._waiting = False

    def __aiter__(self) -> ClientTurn:
        return self

    async def __anext__(self) -> SessionUpdate:
        """The next update. A checkpoint only when there is none yet, otherwise only a chance to be cancelled.

        Raises:
          StopAsyncIteration: the turn is over, and :attr:`stop_reason` is set.
          RequestError: the agent answered the prompt with an error; :class:`AuthRequired` for -32000.
          RemoteProtocolError, trio.BrokenResourceError, trio.ClosedResourceError: see :meth:`Connection.request`.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._updates:
            if self._over:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            self._waiting = True
            await self._news.park()
        return self._updates.popleft()

    async def wait(self) -> StopReason | str:
        """Wait for the end of the turn without looking at its updates; ``session.state`` has them all.

        Raises:
          as :meth:`__anext__`.
        """
        self._wanted = False
        self._updates.clear()
        while not self._over:
            self._waiting = True
            await self._news.park()
        if self._error is not None:
            raise self._error
        assert self.stop_reason is not None
        return self.stop_reason

    async def text(self) -> str:
        """The text of the agent's answer, once the turn is over. Thoughts and tool calls are not part of it.

        Raises:
          as :meth:`__anext__`.
        """
        parts = [
            update.content.text
            async for update in self
            if isinstance(update, AgentMessageChunk) and isinstance(update.content, TextContent)
        ]
        return "".join(parts)

    @property
    def over(self) -> bool:
        """Whether the answer came, or never will."""
        return self._over

    def cancel(self) -> None:
        """Ask the agent to stop (CANCEL-01). The turn goes on until its answer, ``cancelled`` (CANCEL-10)."""
        if not self._over:
            self.session.cancel()

    # --------------------------------------------------------------------------------------- called in wire order

    def receive(self, update: SessionUpdate) -> None:
        """An update of the turn came."""
        if self._wanted:
            self._updates.append(update)
            if self._waiting:
                self._waiting = False
                self._news.unpark_all()

    def abandon(self) -> None:
        """Nobody looks at the updates any more."""
        self._wanted = False
        self._updates.clear()

    def settle(self, stop_reason: StopReason | str | None, error: Exception | None) -> None:
        """The turn is over."""
        self.stop_reason = stop_reason
        self._error = error
        self._over = True
        self._news.unpark_all()

    @property
    def queued(self) -> int:
        """Updates that were not taken yet."""
        return len(self._updates)
