"""One session's journal as a file: JSON lines, append-only, locked by its one writer.

https://agentclientprotocol.com/protocol/session-setup#loading-sessions

The first line is the header, an object that says whose journal it is; every further line is one update in wire form,
as it went into a ``session/update``. Beside ``<name>.jsonl`` stands ``<name>.info.json`` with what a listing shows
beyond the header, so that listing never reads a journal; it is derived, and made again when it is lost.

A line is in the hands of the operating system before :meth:`JournalFile.append` returns, so whatever kills the process
then loses nothing; a crash in the midst of a line leaves a torn last line, which the next writer cuts off. The lock is
the kernel's (``flock``) on the journal itself, so it ends with the process that holds it, however that ends.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

import attrs
import trio

from acp_ref._framing import Frame, FrameBuffer
from acp_ref._jsonrpc import JSONObject, dumps, loads
from acp_ref.schema import SessionId

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["Header", "JournalFile", "file_name", "make_directory", "read_header", "read_info", "remove", "write_info"]

SUFFIX: Final = ".jsonl"
INFO_SUFFIX: Final = ".info.json"
SCRATCH_SUFFIX: Final = ".info.tmp"
VERSION: Final = 1

MAX_HEADER_BYTES: Final = 64 * 1024
"""The longest header, newline included. A directory's name has at most a few thousand bytes wherever we run."""

BLOCK_BYTES: Final = 256 * 1024

# Neither a link nor a terminal nor a pipe is ever taken for a journal; where the platform lacks a flag it is 0.
_O_SAFE: Final[int] = (
    getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)


def file_name(session_id: str) -> str:
    """The file name of the journal of ``session_id``.

    An id is the peer's text, so it becomes part of a path only when it is plainly harmless; any other is hashed. The
    dot keeps both apart. Names that differ in case only are one file on some systems, hence lower case only. The
    header tells whose journal a file really is.
    """
    if re.fullmatch(r"[a-z0-9_-]{1,128}", session_id):
        return session_id + SUFFIX
    return "sha256." + hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest() + SUFFIX


def make_directory(path: Path) -> None:
    """Make ``path`` and its missing parents, for nobody but their owner.

    Raises:
      OSError: it cannot be made, or something else is there.
    """
    if not path.parent.is_dir():
        make_directory(path.parent)
    try:
        path.mkdir(0o700)
    except FileExistsError:
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from None


@attrs.frozen(kw_only=True)
class Header:
    """The first line of a journal."""

    session_id: SessionId
    cwd: str
    created: str
    """ISO 8601, UTC."""

    def encode(self) -> bytes:
        """The header's line, newline included."""
        return (
            dumps({"version": VERSION, "sessionId": self.session_id, "cwd": self.cwd, "created": self.created}) + b"\n"
        )

    @classmethod
    def decode(cls, line: bytes) -> Header | None:
        """The header that ``line`` is, or None."""
        try:
            value = loads(line)
        except (ValueError, RecursionError):
            return None
        if type(value) is not dict or value.get("version") != VERSION:
            return None
        match value:
            case {"sessionId": str(session_id), "cwd": str(cwd), "created": str(created)}:
                return cls(session_id=SessionId(session_id), cwd=cwd, created=created)
            case _:
                return None


def _pread(fd: int, count: int, offset: int) -> bytes:
    if sys.platform == "win32":
        os.lseek(fd, offset, os.SEEK_SET)
        block = os.read(fd, count)
    else:
        block = os.pread(fd, count, offset)
    return block


def _lock(fd: int) -> None:
    """Take the writer's lock. Raises BlockingIOError when another holds it, be it in this process or another."""
    if sys.platform == "win32":
        os.lseek(fd, 2**62, os.SEEK_SET)  # far beyond the end: there, a lock keeps no reader out
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError as exc:
            raise BlockingIOError(*exc.args) from None
    else:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _header_of(fd: int) -> tuple[Header, int] | None:
    """The header of the journal open as ``fd`` and its length, newline included; None when it is no journal."""
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        return None
    line, newline, _ = _pread(fd, MAX_HEADER_BYTES, 0).partition(b"\n")
    header = Header.decode(line) if newline else None
    return None if header is None else (header, len(line) + 1)


def read_header(path: Path) -> Header | None:
    """The header of the journal at ``path``, without taking its lock; None when there is no journal."""
    try:
        fd = os.open(path, os.O_RDONLY | _O_SAFE)
    except OSError:
        return None
    try:
        found = _header_of(fd)
    except OSError:
        return None
    finally:
        os.close(fd)
    return None if found is None else found[0]


def read_info(journal: Path) -> JSONObject:
    """What is noted beside ``journal``; empty when nothing is, or nothing legible."""
    try:
        info = loads(journal.with_suffix(INFO_SUFFIX).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return info if type(info) is dict else {}


def write_info(journal: Path, info: JSONObject) -> None:
    """Note ``info`` beside ``journal``, whole or not at all; for the one who has the journal open. Raises OSError."""
    scratch = journal.with_suffix(SCRATCH_SUFFIX)
    try:
        fd = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _O_SAFE, 0o600)
        with open(fd, "wb") as file:
            file.write(dumps(info))
        scratch.replace(journal.with_suffix(INFO_SUFFIX))
    except OSError:
        with contextlib.suppress(OSError):
            scratch.unlink()
        raise


def remove(journal: Path) -> None:
    """Remove ``journal`` and what is noted beside it. Raises OSError, but not when there is nothing.

    The journal goes last: whoever was interrupted may delete it again.
    """
    for suffix in (SCRATCH_SUFFIX, INFO_SUFFIX, SUFFIX):
        journal.with_suffix(suffix).unlink(missing_ok=True)


class JournalFile:
    """A journal that this process may write, open and locked until :meth:`close`."""

    def __init__(self, path: Path, fd: int, header: Header, start: int, size: int) -> None:
        self.path = path
        self.header = header
        self.start = start
        """Where the updates begin."""
        self.size = size
        """Where the last whole line ends."""
        self._fd = fd

    @classmethod
    def create(cls, path: Path, header: Header) -> Self:
        """A new journal.

        Raises:
          FileExistsError: there is one already.
          OSError: it cannot be made; nothing is left of it.
        """
        line = header.encode()
        if len(line) > MAX_HEADER_BYTES:
            raise OSError(errno.ENAMETOOLONG, "the session id and working directory are too long for a journal")
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | _O_SAFE, 0o600)
        file = cls(path, fd, header, len(line), 0)
        try:
            _lock(fd)
            file.append(line[:-1])
        except BaseException:
            file.close()
            with contextlib.suppress(OSError):
                path.unlink()
            raise
        return file

    @classmethod
    def open(cls, path: Path, session_id: str, *, writable: bool = True) -> Self:
        """The journal of ``session_id``, a torn last line cut off.

        One that is not ``writable`` is locked and read all the same; its torn last line is only passed over.

        Raises:
          FileNotFoundError: there is none.
          BlockingIOError: another writer has it open.
          OSError: it cannot be opened for writing.
        """
        fd = os.open(path, (os.O_RDWR | os.O_APPEND if writable else os.O_RDONLY) | _O_SAFE)
        try:
            _lock(fd)
            found = _header_of(fd)
            # Whoever deleted it while we came in held the lock, so what we have open may be nobody's by now.
            if found is None or found[0].session_id != session_id or os.fstat(fd).st_nlink == 0:
                raise FileNotFoundError(errno.ENOENT, "no such journal", str(path))
            header, start = found
            file = cls(path, fd, header, start, os.fstat(fd).st_size)
            file._find_end(cut=writable)
        except BaseException:
            os.close(fd)
            raise
        return file

    def _find_end(self, *, cut: bool) -> None:
        """Make the last whole line the end."""
        whole = self.size
        while whole > self.start:
            offset = max(self.start, whole - BLOCK_BYTES)
            newline = _pread(self._fd, whole - offset, offset).rfind(b"\n")
            if newline >= 0:
                whole = offset + newline + 1
                break
            whole = offset
        if whole < self.size and cut:
            os.ftruncate(self._fd, whole)
        self.size = whole

    def append(self, line: bytes) -> None:
        """Add ``line``, which holds no newline. When this returns, the operating system has it.

        Raises:
          OSError: it cannot be written; no more of the file counts than before.
        """
        rest = line + b"\n"
        try:
            written = os.write(self._fd, rest)
            while written < len(rest):
                rest = rest[written:]
                written = os.write(self._fd, rest)
        except OSError:
            with contextlib.suppress(OSError):
                self.truncate()
            raise
        self.size += len(line) + 1

    def truncate(self) -> None:
        """Cut off what a failed append may have left. Raises OSError."""
        os.ftruncate(self._fd, self.size)

    def lines(self, end: int) -> Iterator[Frame]:
        """The updates up to ``end``, a present or former :attr:`size`; one block of the file is in memory at a time.

        Raises:
          trio.ClosedResourceError: the file was closed meanwhile.
        """
        buffer = FrameBuffer()
        offset = self.start
        while offset < end:
            if self._fd < 0:
                raise trio.ClosedResourceError("the journal is closed")
            block = _pread(self._fd, min(BLOCK_BYTES, end - offset), offset)
            if not block:
                break
            offset += len(block)
            yield from buffer.feed(block)
        yield from buffer.end()

    def copy(self) -> JournalFile:
        """The same open file under a second descriptor, for a thread. The lock ends when both are closed."""
        return JournalFile(self.path, os.dup(self._fd), self.header, self.start, self.size)

    def close(self) -> None:
        """Close the file and so give up its lock. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
