"""Content: blocks made from what programs have, bytes and files, and bytes made from blocks.

https://agentclientprotocol.com/protocol/content

The blocks themselves are plain values of :mod:`acp_ref.schema`. What can go wrong in making them is here: base64, file
addresses, and whether a file is better sent whole or named.
"""

from __future__ import annotations

import base64
import mimetypes
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

import trio

from acp_ref.schema import (
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextResourceContents,
)

__all__ = ["audio", "blob_resource", "data_of", "file_context", "image", "text_resource"]

MAX_EMBEDDED_BYTES: Final = 256 * 1024
"""The largest file that :func:`file_context` embeds by default: more than most sources have, and less than a model's
context takes. The agent can read a larger one for itself, as far as it needs."""


def image(data: bytes, mime_type: str, *, uri: str | None = None) -> ImageContent:
    """An image; ``mime_type`` is such as ``image/png``, ``uri`` where it came from (CONTENT-04)."""
    return ImageContent(data=_base64(data), mime_type=mime_type, uri=uri)


def audio(data: bytes, mime_type: str) -> AudioContent:
    """Sound; ``mime_type`` is such as ``audio/wav`` (CONTENT-05)."""
    return AudioContent(data=_base64(data), mime_type=mime_type)


def text_resource(uri: str, text: str, mime_type: str | None = None) -> EmbeddedResource:
    """A resource that is text, with its contents (CONTENT-07)."""
    return EmbeddedResource(resource=TextResourceContents(uri=uri, text=text, mime_type=mime_type))


def blob_resource(uri: str, data: bytes, mime_type: str | None = None) -> EmbeddedResource:
    """A resource that is bytes, with its contents (CONTENT-07)."""
    return EmbeddedResource(resource=BlobResourceContents(uri=uri, blob=_base64(data), mime_type=mime_type))


def data_of(content: ImageContent | AudioContent | BlobResourceContents) -> bytes:
    """The bytes in ``content``.

    Raises:
      ValueError: what the peer sent is no base64.
    """
    encoded = content.blob if isinstance(content, BlobResourceContents) else content.data
    return base64.b64decode(encoded, validate=True)


async def file_context(
    path: str, accepts: Callable[[ContentBlock], bool], *, max_bytes: int = MAX_EMBEDDED_BYTES
) -> EmbeddedResource | ResourceLink:
    """The file at ``path`` as context for a prompt: with its contents where the agent takes them (CONTENT-06), else as
    a link, which every agent takes (CONTENT-08, PROMPT-06)::

        async with session.prompt("What is this?", await file_context("/src/main.c", session.accepts)) as turn: ...

    Args:
      path: absolute.
      accepts: whether the agent takes a block; see :meth:`ClientSession.accepts`.
      max_bytes: a larger file is linked in any case, and so is what is no plain file, such as a directory.

    Raises:
      OSError: there is no such file, or it cannot be read.
      ValueError: ``path`` is not absolute.
    """
    uri = Path(path).as_uri()  # GEN-09
    mime_type, _ = mimetypes.guess_type(path)
    size, data = await trio.to_thread.run_sync(_read, path, max_bytes)
    if data is not None:
        resource = _resource(uri, data, mime_type)
        if accepts(resource):
            return resource
    return ResourceLink(uri=uri, name=Path(path).name, mime_type=mime_type, size=size)  # CONTENT-09


def _read(path: str, max_bytes: int) -> tuple[int | None, bytes | None]:
    """The size of a file and what is in it: nothing where it is larger than ``max_bytes``, or no plain file."""
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):  # a directory, or a pipe that may never end
        return None, None
    with open(path, "rb") as file:
        data = file.read(max_bytes + 1)
    return (len(data), data) if len(data) <= max_bytes else (status.st_size, None)


def _resource(uri: str, data: bytes, mime_type: str | None) -> EmbeddedResource:
    if b"\0" not in data:  # which is UTF-8, but in no text
        try:
            return text_resource(uri, data.decode(), mime_type)
        except UnicodeDecodeError:
            pass
    return blob_resource(uri, data, mime_type)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
