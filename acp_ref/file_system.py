"""File System: the text files that a client offers its agent.

https://agentclientprotocol.com/protocol/file-system

:class:`FileSystem` answers ``fs/read_text_file`` and ``fs/write_text_file`` for one session's :class:`Roots`, and
nothing outside them (SETUP-67). Text is UTF-8 (FS-08); line ends and a byte order mark are part of it and come back as
they are. A line ends with a line feed and with nothing else.

Theory of operation. All work on files is done in threads, and a thread that has begun is never abandoned: a cancelled
write has either happened or left nothing behind. A write goes to a new file in the same directory, which then takes the
place of the old one, so that no reader sees half of it and no link is followed that was not there when the path was
resolved.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Awaitable, Callable
from typing import BinaryIO, Final, TypeAlias

import trio

from acp_ref.errors import ErrorCode, RequestError
from acp_ref.roots import OutsideRoots, Roots, is_absolute
from acp_ref.schema import ReadTextFileRequest, ReadTextFileResponse, WriteTextFileRequest, WriteTextFileResponse

__all__ = ["DEFAULT_MAX_READ_BYTES", "FileSystem", "OnWrite", "Overlay"]

Overlay: TypeAlias = Callable[[str], Awaitable[str | None]]
"""What the editor holds of the file at a real path and has not saved (FS-03), or None when it holds nothing."""

OnWrite: TypeAlias = Callable[[str, str], Awaitable[None]]
"""Told the real path and the new text of a file after it was written, so that an editor can show it."""

DEFAULT_MAX_READ_BYTES: Final = 32 * 1024 * 1024
"""32 MiB of text per answer: a quarter of the default frame limit, because JSON may need several bytes for one."""

BLOCK_BYTES: Final = 256 * 1024

# A pipe or a device must not hold us up before it is refused.
_O_SAFE: Final[int] = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


class FileSystem:
    """The two file system methods, for real files."""

    def __init__(
        self,
        *,
        overlay: Overlay | None = None,
        on_write: OnWrite | None = None,
        max_read_bytes: int = DEFAULT_MAX_READ_BYTES,
    ) -> None:
        self._overlay = overlay
        self._on_write = on_write
        self._max_read_bytes = max_read_bytes

    async def read_text_file(self, roots: Roots, params: ReadTextFileRequest) -> ReadTextFileResponse:
        """The text of a file inside ``roots``, or ``limit`` lines of it from ``line`` on (FS-04, D-24).

        Beyond the end there is "". Memory is bounded by what is answered, not by the file.

        Raises:
          RequestError: -32602 when the path is relative, outside the roots or no UTF-8 text file, the line is 0, or
            the text is longer than ``max_read_bytes``; -32002 when there is no such file; -32603 when it cannot be
            read.
        """
        first = 1 if params.line is None else params.line
        if first == 0:
            raise RequestError.invalid_params("$.line: lines count from 1")
        _check_absolute(params.path)
        if self._overlay is not None:
            real = await trio.to_thread.run_sync(roots.resolve, params.path)
            unsaved = await self._overlay(real)
            if unsaved is not None:
                return ReadTextFileResponse(content=_lines(unsaved, first, params.limit))
        content = await trio.to_thread.run_sync(_read, roots, params.path, first, params.limit, self._max_read_bytes)
        return ReadTextFileResponse(content=content)

    async def write_text_file(self, roots: Roots, params: WriteTextFileRequest) -> WriteTextFileResponse:
        """Write a file inside ``roots`` whole or not at all; make it, and the directories above it, when it is missing
        (FS-06, D-25).

        An existing file keeps its mode and owner, and a link stays a link: what it leads to is written.

        Raises:
          RequestError: -32602 when the path is relative, outside the roots or names no regular file, or the content
            is not Unicode; -32603 when it cannot be written. Nothing was changed.
        """
        _check_absolute(params.path)
        try:
            content = params.content.encode()
        except UnicodeEncodeError:
            raise RequestError.invalid_params("$.content: a surrogate has no UTF-8") from None
        real = await trio.to_thread.run_sync(_write, roots, params.path, content)
        if self._on_write is not None:
            await self._on_write(real, params.content)
        return WriteTextFileResponse()


def _check_absolute(path: str) -> None:
    if not is_absolute(path):
        raise RequestError.invalid_params("$.path: must be absolute")  # GEN-09


def _no_text_file(path: str, reason: str) -> RequestError:
    return RequestError(ErrorCode.INVALID_PARAMS, "Not a text file", {"path": path, "reason": reason})


def _refused(what: str, path: str, error: OSError) -> RequestError:
    """What to tell the agent of ``error``."""
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR:
            return RequestError.file_not_found(path)  # D-24
        case errno.EISDIR:
            return _no_text_file(path, "a directory")
        case errno.ENXIO:
            return _no_text_file(path, "not a regular file")
        case errno.ELOOP:  # where nothing but a file was when the path was resolved
            return OutsideRoots(path, "changed while it was opened")
        case _:
            return RequestError(ErrorCode.INTERNAL_ERROR, what, {"path": path, "reason": error.strerror})


# ---------------------------------------------------------------------------------------------------------- reading


def _after(text: str, start: int, lines: int) -> int:
    """Where ``lines`` lines of ``text`` are over, from ``start`` on."""
    for _ in range(lines):
        start = text.find("\n", start) + 1
        if start == 0:
            return len(text)
    return start


def _lines(text: str, first: int, limit: int | None) -> str:
    """``limit`` lines of ``text`` from line ``first`` on."""
    start = _after(text, 0, first - 1)
    return text[start:] if limit is None else text[start : _after(text, start, limit)]


def _read(roots: Roots, path: str, first: int, limit: int | None, max_bytes: int) -> str:
    try:
        directory, name, _ = roots.open_parent(path)
        try:
            fd = os.open(name, os.O_RDONLY | _O_SAFE, dir_fd=directory)
        finally:
            os.close(directory)
        with open(fd, "rb", buffering=BLOCK_BYTES) as file:
            _check_regular(path, fd)
            _skip_lines(file, first - 1)
            content = _take_lines(file, limit, max_bytes)
    except OSError as exc:
        raise _refused("Cannot read the file", path, exc) from exc
    if len(content) > max_bytes:
        raise RequestError.invalid_params(f"$.limit: more than {max_bytes} bytes; ask for fewer lines")
    try:
        return content.decode()
    except UnicodeDecodeError as exc:
        raise _no_text_file(path, f"not UTF-8: {exc.reason}") from None


def _check_regular(path: str, fd: int) -> os.stat_result:
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise _no_text_file(path, "a directory" if stat.S_ISDIR(status.st_mode) else "not a regular file")
    return status


def _skip_lines(file: BinaryIO, lines: int) -> None:
    while lines and (block := file.read(BLOCK_BYTES)):
        found = block.count(b"\n")
        if found < lines:
            lines -= found
            continue
        end = 0
        for _ in range(lines):
            end = block.index(b"\n", end) + 1
        file.seek(end - len(block), os.SEEK_CUR)
        return


def _take_lines(file: BinaryIO, limit: int | None, max_bytes: int) -> bytes:
    """``limit`` lines, or some more than ``max_bytes`` bytes when they are longer than that."""
    if limit is None:
        return file.read(max_bytes + 1)
    parts: list[bytes] = []
    room = max_bytes + 1
    while limit and room and (part := file.readline(room)):
        parts.append(part)
        room -= len(part)
        limit -= 1
    return b"".join(parts)


# ---------------------------------------------------------------------------------------------------------- writing


def _write(roots: Roots, path: str, content: bytes) -> str:
    try:
        directory, name, real = roots.open_parent(path, create=True)
        try:
            _replace(directory, name, path, content)
        finally:
            os.close(directory)
    except OSError as exc:
        raise _refused("Cannot write the file", path, exc) from exc
    return real


def _replace(directory: int, name: str, path: str, content: bytes) -> None:
    """Put ``content`` under ``name``, whole or not at all."""
    before = _status(directory, name, path)
    scratch = f".{secrets.token_hex(8)}.tmp"
    mode = 0o666 if before is None else 0o600  # closed until it has the mode of what it replaces
    fd = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _O_SAFE, mode, dir_fd=directory)
    try:
        with open(fd, "wb") as file:
            if before is not None:
                _take_over(fd, before)
            file.write(content)
            file.flush()
            os.fsync(fd)
        os.replace(scratch, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(scratch, dir_fd=directory)
        raise


def _status(directory: int, name: str, path: str) -> os.stat_result | None:
    """The status of the file that is there, None when none is. Opening it asks for the permission to write it, which
    replacing it would not."""
    try:
        fd = os.open(name, os.O_WRONLY | _O_SAFE, dir_fd=directory)
    except FileNotFoundError:
        return None
    try:
        return _check_regular(path, fd)
    finally:
        os.close(fd)


def _take_over(fd: int, before: os.stat_result) -> None:
    """Give the new file the owner, where we may, and the mode of the old one."""
    now = os.fstat(fd)
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        with contextlib.suppress(PermissionError):
            os.fchown(fd, before.st_uid, before.st_gid)
    os.fchmod(fd, stat.S_IMODE(before.st_mode))
