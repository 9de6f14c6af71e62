"""Content, in words where it is none.

https://agentclientprotocol.com/protocol/content
"""

from __future__ import annotations

from acp_ref.reference_client.text import one_line
from acp_ref.schema import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

__all__ = ["described"]


def described(block: ContentBlock) -> str:
    """What a person may read of ``block``: text as it is, and of all else what it is."""
    match block:
        case TextContent(text=text):
            return text
        case ImageContent():
            return f"[image: {_data(block.mime_type, block.data)}]"
        case AudioContent():
            return f"[sound: {_data(block.mime_type, block.data)}]"
        case ResourceLink():
            return f"[link: {one_line(block.title or block.name)} <{one_line(block.uri)}>]"
        case EmbeddedResource(resource=resource):
            if isinstance(resource, TextResourceContents):
                return f"[resource: {one_line(resource.uri)}]\n{resource.text}"
            return f"[resource: {one_line(resource.uri)}, {_data(resource.mime_type or 'bytes', resource.blob)}]"
        case _:
            return f"[content of a kind that is not known here: {one_line(str(block.raw.get('type')))}]"


def _data(kind: str, base64: str) -> str:
    size = len(base64) * 3 // 4 - base64[-2:].count("=")
    return f"{one_line(kind)}, {size:,} bytes"
