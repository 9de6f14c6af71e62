"""File System: the text files that a client offers its agent.

https://agentclientprotocol.com/protocol/file-system

:class:`FileSystem` answers ``fs/read_text_file`` and ``fs/write_text_file`` for one session's :class:`Roots`, and
nothing outside them (SETUP-67). Text is UTF-8 (FS-08); line ends and a byte order mark are part of it and come back as
they are. A line ends with a line feed and with nothing else.

Theory of operation. All work on files is done in threads, and a thread that has begun is never abandoned: a cancelled
write has either happened or left nothing behind. A write goes to a new file in the same directory, which then takes the
place of the old one, so that no reader sees half of it and no link is followed that was not there when the path was
resolved.

Windows has no descriptors of directories. There a path is resolved, used, and resolved again: if it then leads
elsewhere, nothing is read or written. That is weaker. Who may write inside the roots, and exchanges a directory twice
in the right moments, gets away with it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import sys
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

# A pipe or a device must not hold us up before it is refused, nor may Windows touch line ends.
_O_SAFE: Final[int] = (
    getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)

BY_DESCRIPTOR: Final = os.open in os.supports_dir_fd
"""Whether files can be opened relative to a descriptor of their directory; not on Windows."""


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


class _Place:
    """Where a file is, or will be: in a directory inside the roots, under a name."""

    def __init__(self, roots: Roots, path: str, *, create: bool = False) -> None:
        self.path = path
        self._roots = roots
        self._directory: int | None = None
        if BY_DESCRIPTOR:
            self._directory, self.name, self.real = roots.open_parent(path, create=create)
        else:
            self.name = self.real = roots.resolve(path)
            if create:
                with contextlib.suppress(FileExistsError):  # or a file is in its place, as opening tells
                    os.makedirs(os.path.dirname(self.real))

    def beside(self, name: str) -> str:
        """What :meth:`open` takes for another file in the same directory."""
        return name if self._directory is not None else os.path.join(os.path.dirname(self.real), name)

    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        """Open the file of that name; follow no link."""
        if self._directory is not None:
            return os.open(name, flags | _O_SAFE, mode, dir_fd=self._directory)
        if os.path.isdir(name):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self.path)
        fd = os.open(name, flags | _O_SAFE, mode)
        try:
            self.check()
        except BaseException:
            os.close(fd)
            if flags & os.O_EXCL:  # it is new
                os.unlink(name)
            raise
        return fd

    def check(self) -> None:
        """Whether the path still leads here, where it was not pinned.

        Raises:
          OutsideRoots: it does not.
        """
        if self._directory is None and self._roots.resolve(self.path) != self.real:
            raise OutsideRoots(self.path, "changed while it was opened")

    def replace(self, scratch: str) -> None:
        """Let the file of the name ``scratch`` take the place of the one that is here."""
        self.check()
        os.replace(scratch, self.name, src_dir_fd=self._directory, dst_dir_fd=self._directory)

    def remove(self, name: str) -> None:
        """Remove the file of that name."""
        os.unlink(name, dir_fd=self._directory)

    def close(self) -> None:
        """Let go of the directory."""
        if self._directory is not None:
            os.close(self._directory)


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
        with contextlib.closing(_Place(roots, path)) as place:
            fd = place.open(place.name, os.O_RDONLY)
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
        with contextlib.closing(_Place(roots, path, create=True)) as place:
            _replace(place, content)
            return place.real
    except OSError as exc:
        raise _refused("Cannot write the file", path, exc) from exc


def _replace(place: _Place, content: bytes) -> None:
    """Put ``content`` at ``place``, whole or not at all."""
    before = _status(place)
    scratch = place.beside(f".{secrets.token_hex(8)}.tmp")
    mode = 0o666 if before is None else 0o600  # closed until it has the mode of what it replaces
    fd = place.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with open(fd, "wb") as file:
            if before is not None:
                _take_over(fd, before)
            file.write(content)
            file.flush()
            os.fsync(fd)
        place.replace(scratch)
    except BaseException:
        with contextlib.suppress(OSError):
            place.remove(scratch)
        raise


def _status(place: _Place) -> os.stat_result | None:
    """The status of the file that is there, None when none is. Opening it asks for the permission to write it, which
    replacing it would not."""
    try:
        fd = place.open(place.name, os.O_WRONLY)
    except FileNotFoundError:
        return None
    try:
        return _check_regular(place.path, fd)
    finally:
        os.close(fd)


def _take_over(fd: int, before: os.stat_result) -> None:
    """Give the new file the owner, where we may, and the mode of the old one."""
    if sys.platform != "win32":
        now = os.fstat(fd)
        if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
            with contextlib.suppress(PermissionError):
                os.fchown(fd, before.st_uid, before.st_gid)
        os.fchmod(fd, stat.S_IMODE(before.st_mode))
