"""Content.

https://agentclientprotocol.com/protocol/content
"""

from __future__ import annotations

import enum
from typing import ClassVar, TypeAlias

from acp_ref.schema._base import DefaultOnError, Int64, Meta, SkipInvalidItems, Unknown
from acp_ref.schema._frozen import frozen


class Role(enum.StrEnum):
    """One of the two sides of a conversation."""

    ASSISTANT = "assistant"
    """The agent."""
    USER = "user"
    """The user."""


@frozen(kw_only=True)
class Annotations:
    """Hints on how to use or show a piece of content (CONTENT-10)."""

    audience: SkipInvalidItems[list[Role] | None] = None
    """Whom it is for."""
    last_modified: DefaultOnError[str | None] = None
    """When it last changed, as ISO 8601 says."""
    priority: DefaultOnError[float | None] = None
    """How important it is."""
    meta: Meta = None


@frozen(kw_only=True)
class TextContent:
    """Text, in Markdown."""

    TAG: ClassVar = ("type", "text")

    annotations: DefaultOnError[Annotations | None] = None
    """Hints on its use."""
    text: str
    """The text."""
    meta: Meta = None


@frozen(kw_only=True)
class ImageContent:
    """An image."""

    TAG: ClassVar = ("type", "image")

    annotations: DefaultOnError[Annotations | None] = None
    """Hints on its use."""
    data: str
    """Its bytes in base64."""
    mime_type: str
    """What the bytes are, such as ``image/png``."""
    uri: DefaultOnError[str | None] = None
    """Where it came from."""
    meta: Meta = None


@frozen(kw_only=True)
class AudioContent:
    """Sound."""

    TAG: ClassVar = ("type", "audio")

    annotations: DefaultOnError[Annotations | None] = None
    """Hints on its use."""
    data: str
    """Its bytes in base64."""
    mime_type: str
    """What the bytes are, such as ``audio/wav``."""
    meta: Meta = None


@frozen(kw_only=True)
class ResourceLink:
    """A resource that is named but not contained."""

    TAG: ClassVar = ("type", "resource_link")

    annotations: DefaultOnError[Annotations | None] = None
    """Hints on its use."""
    description: DefaultOnError[str | None] = None
    """What it holds, for people to read."""
    mime_type: DefaultOnError[str | None] = None
    """What its bytes are."""
    name: str
    """What to call it."""
    size: DefaultOnError[Int64 | None] = None
    """Its size in bytes."""
    title: DefaultOnError[str | None] = None
    """What to call it, for people to read."""
    uri: str
    """Where it is."""
    meta: Meta = None


@frozen(kw_only=True)
class TextResourceContents:
    """A resource that is text."""

    mime_type: DefaultOnError[str | None] = None
    """What the text is."""
    text: str
    """The text."""
    uri: str
    """Where it came from."""
    meta: Meta = None


@frozen(kw_only=True)
class BlobResourceContents:
    """A resource that is bytes."""

    blob: str
    """The bytes in base64."""
    mime_type: DefaultOnError[str | None] = None
    """What the bytes are."""
    uri: str
    """Where it came from."""
    meta: Meta = None


EmbeddedResourceResource: TypeAlias = TextResourceContents | BlobResourceContents
"""The contents of a resource. It has either ``text`` or ``blob``; both is malformed (CONTENT-07)."""


@frozen(kw_only=True)
class EmbeddedResource:
    """A resource with its contents."""

    TAG: ClassVar = ("type", "resource")

    annotations: DefaultOnError[Annotations | None] = None
    """Hints on its use."""
    resource: EmbeddedResourceResource
    """The contents."""
    meta: Meta = None


ContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource | Unknown
"""A piece of content, of the shape that MCP has (CONTENT-01)."""
