"""Extensibility.

https://agentclientprotocol.com/protocol/extensibility
"""

from __future__ import annotations

from typing import Final, TypeAlias

from acp_ref._jsonrpc import JSON

ExtRequest: TypeAlias = "JSON"
"""The params of a custom request: any JSON."""
ExtResponse: TypeAlias = "JSON"
"""The result of a custom request: any JSON."""
ExtNotification: TypeAlias = "JSON"
"""The params of a custom notification: any JSON."""

TRACE_CONTEXT_KEYS: Final = ("traceparent", "tracestate", "baggage")
"""The keys of ``_meta`` that are kept for W3C trace context (EXT-03)."""
