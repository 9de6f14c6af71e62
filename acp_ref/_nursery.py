"""A nursery for tasks beside a ``with`` block."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio

__all__ = ["open_nursery_beside"]


@asynccontextmanager
async def open_nursery_beside() -> AsyncGenerator[trio.Nursery, None]:
    """A nursery whose tasks serve the block: an exception of the block itself is raised as it is, and not in a group.

    The tasks are waited for, not cancelled: whoever uses it tells them to end when the block does. Their own exceptions
    come in a group, as from any nursery.
    """
    raised: Exception | None = None
    async with trio.open_nursery() as nursery:
        try:
            yield nursery
        except Exception as exc:
            raised = exc
    if raised is not None:
        raise raised
