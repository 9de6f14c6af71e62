"""Cancellation.

https://agentclientprotocol.com/protocol/cancellation
"""

from __future__ import annotations

from acp_ref._jsonrpc import RequestId
from acp_ref.schema._base import Meta
from acp_ref.schema._frozen import frozen


@frozen(kw_only=True)
class CancelRequestNotification:
    """The caller does not need the answer any more. It still gets one: a result, or -32800."""

    request_id: RequestId
    """The request, by the id it was sent with."""
    meta: Meta = None
