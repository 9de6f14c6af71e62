"""Loading Sessions: where conversations are kept, so that they outlive the agent's process.

https://agentclientprotocol.com/protocol/session-setup#loading-sessions
https://agentclientprotocol.com/protocol/session-list
https://agentclientprotocol.com/protocol/session-delete

A :class:`SessionStore` makes, finds, lists and deletes journals; a :class:`Journal` is one session's history and has
one writer at a time. :class:`MemoryStore` keeps them as long as the process lives, :class:`DirectoryStore` for good.

Whose sessions a store lists is settled by which store an agent is given: a store belongs to one user, and an agent that
serves several has one store for each (LIST-20). A directory store is private to the operating system's user.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol
from weakref import WeakValueDictionary

import attrs
import trio

from acp_ref._directory_journal import DirectoryJournal
from acp_ref._journal_files import (
    SUFFIX,
    Header,
    JournalFile,
    file_name,
    make_directory,
    read_header,
    read_info,
    remove,
)
from acp_ref._jsonrpc import JSON, JSONObject, exact
from acp_ref._replay import History, Replay
from acp_ref._session_list import DEFAULT_PAGE_SIZE, Position, info_update, noted_of, page, session_info
from acp_ref.errors import ErrorCode, RequestError
from acp_ref.reports import Report, log_report
from acp_ref.roots import is_absolute
from acp_ref.schema import ListSessionsResponse, SessionId, SessionInfo

__all__ = [
    "DirectoryStore",
    "History",
    "Journal",
    "MemoryStore",
    "SessionBusy",
    "SessionNotFound",
    "SessionStore",
    "default_sessions_directory",
]


class SessionNotFound(RequestError):
    """-32002: the store has no such session, or has it no more (DEL-08)."""

    def __init__(self, session_id: str) -> None:
        super().__init__(ErrorCode.RESOURCE_NOT_FOUND, "Session not found", {"sessionId": session_id})


class SessionBusy(RequestError):
    """-32600: another writer, here or in another process, has the session open."""

    def __init__(self, session_id: str) -> None:
        reason = "the session is in use elsewhere"
        super().__init__(ErrorCode.INVALID_REQUEST, "Session busy", {"sessionId": session_id, "reason": reason})


class Journal(Protocol):
    """The history of one session, open for its one writer."""

    @property
    def session_id(self) -> SessionId:
        """Whose journal it is."""
        ...

    @property
    def cwd(self) -> str:
        """The session's working directory, which never changes."""
        ...

    def append(self, update: bytes) -> None:
        """Add ``update``, the ``update`` member of a ``session/update`` as compact JSON.

        It is recorded when this returns, as firmly as the store records things: :class:`DirectoryStore` has handed it
        to the operating system, so that nothing a client was shown is lost when the process is killed. A store that
        cannot record any more does not raise: it reports that once and keeps what follows in memory.

        Raises:
          trio.ClosedResourceError: the journal is closed.
        """
        ...

    def set_additional_directories(self, directories: Sequence[str]) -> None:
        """Note the session's additional roots as they are now, for listings (LIST-08). They are not restored on load
        (SETUP-62)."""
        ...

    async def history(self, *, without: Collection[str] = ()) -> History:
        """The conversation so far, for replay; what is appended from now on, also while this waits, is not part of it.

        Updates of the kinds in ``without`` (the names that their ``sessionUpdate`` has) are left out of its updates, as
        for a client that did not announce them (COMP-01).

        Raises:
          trio.ClosedResourceError: the journal is closed.
        """
        ...

    async def aclose(self) -> None:
        """Let go of the session, so that another may open it. Idempotent, and never fails."""
        ...


class SessionStore(Protocol):
    """Where sessions are kept. What it raises as RequestError is meant for the peer."""

    async def create(self, session_id: SessionId, cwd: str) -> Journal:
        """The journal of a new session. Choose ids at random: one that was deleted must never come back.

        Raises:
          ValueError: the store has a session of that id (SETUP-05).
        """
        ...

    async def open(self, session_id: SessionId) -> Journal:
        """The journal of a session of an earlier time.

        Raises:
          SessionNotFound: there is none.
          SessionBusy: another writer has it open.
          RequestError: it cannot be read.
        """
        ...

    async def list(self, *, cwd: str | None = None, cursor: str | None = None) -> ListSessionsResponse:
        """One page of the sessions, the latest active first; with ``cwd`` only those of that directory.

        A listing changes nothing (LIST-19). A session that is active while a client turns the pages moves to the
        front, and is found by the next listing.

        Raises:
          RequestError: the cursor is none of ours, or was given out for another ``cwd`` (LIST-14, D-45); or the store
            cannot be read.
        """
        ...

    async def delete(self, session_id: SessionId) -> None:
        """Remove the session for good (DEL-05, DEL-07); nothing happens when there is none (DEL-06).

        Close its journal first. A journal of this store that is still open stays usable and is gone when it closes.

        Raises:
          SessionBusy: another process has it open.
          RequestError: it cannot be removed.
        """
        ...


# ---------------------------------------------------------------------------------------------------------- in memory


@attrs.define(eq=False)
class _Record:
    """A session of a :class:`MemoryStore`."""

    session_id: SessionId
    cwd: str
    updated: int
    updates: list[bytes] = attrs.field(factory=list[bytes])
    noted: JSONObject = attrs.field(factory=dict[str, JSON])
    writer: _MemoryJournal | None = None


class _MemoryJournal:
    def __init__(self, record: _Record) -> None:
        self._record = record
        record.writer = self

    @property
    def session_id(self) -> SessionId:
        return self._record.session_id

    @property
    def cwd(self) -> str:
        return self._record.cwd

    def _check_open(self) -> None:
        if self._record.writer is not self:
            raise trio.ClosedResourceError("the journal is closed")

    def append(self, update: bytes) -> None:
        self._check_open()
        record = self._record
        record.updates.append(exact(update))
        record.updated = time.time_ns()
        if (info := info_update(update)) is not None:
            record.noted = noted_of(info, record.noted)

    def set_additional_directories(self, directories: Sequence[str]) -> None:
        self._check_open()
        self._record.noted["additionalDirectories"] = [*directories]

    async def history(self, *, without: Collection[str] = ()) -> History:
        self._check_open()
        lines = self._record.updates
        history = Replay(lines, without=without).history(lines)  # first of all: what is said from now on is no part
        await trio.lowlevel.checkpoint()
        return history

    async def aclose(self) -> None:
        if self._record.writer is self:
            self._record.writer = None
        await trio.lowlevel.checkpoint()


class MemoryStore:
    """A :class:`SessionStore` that lives as long as the process."""

    def __init__(self, *, page_size: int = DEFAULT_PAGE_SIZE) -> None:
        self._records: dict[str, _Record] = {}
        self._page_size = page_size

    async def create(self, session_id: SessionId, cwd: str) -> Journal:
        """See :meth:`SessionStore.create`."""
        await trio.lowlevel.checkpoint()
        if session_id in self._records:
            raise ValueError(f"there is a session {session_id!r} already")  # SETUP-05
        record = self._records[session_id] = _Record(session_id, cwd, time.time_ns())
        return _MemoryJournal(record)

    async def open(self, session_id: SessionId) -> Journal:
        """See :meth:`SessionStore.open`."""
        await trio.lowlevel.checkpoint()
        record = self._records.get(session_id)
        if record is None:
            raise SessionNotFound(session_id)
        if record.writer is not None:
            raise SessionBusy(session_id)
        return _MemoryJournal(record)

    async def list(self, *, cwd: str | None = None, cursor: str | None = None) -> ListSessionsResponse:
        """See :meth:`SessionStore.list`."""
        await trio.lowlevel.checkpoint()
        positions = [(record.updated, session_id) for session_id, record in self._records.items()]
        return page(positions, self._info, cwd, cursor, self._page_size)

    def _info(self, session_id: str) -> SessionInfo:
        record = self._records[session_id]
        return session_info(record.session_id, record.cwd, record.noted, record.updated)

    async def delete(self, session_id: SessionId) -> None:
        """See :meth:`SessionStore.delete`."""
        await trio.lowlevel.checkpoint()
        self._records.pop(session_id, None)  # DEL-06


# ------------------------------------------------------------------------------------------------------ in a directory


class DirectoryStore:
    """A :class:`SessionStore` of files, a journal for each session, that outlives the process.

    Any number of processes may use one directory; a session is open in one of them at a time. The directory is made
    when the first session is, for its owner only. A disk that is full or may not be written fails no session: its
    history is kept in memory instead, which is reported once to ``on_report``.

    Updates are handed to the operating system one by one, so they survive the process, however it ends, but not a
    power failure of the same moment.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        page_size: int = DEFAULT_PAGE_SIZE,
        on_report: Callable[[Report], None] = log_report,
    ) -> None:
        self.path: Final = Path(path).absolute()
        self._page_size = page_size
        self._on_report = on_report
        self._journals: WeakValueDictionary[str, DirectoryJournal] = WeakValueDictionary()

    def _path_of(self, session_id: str) -> Path:
        return self.path / file_name(session_id)

    def _journal(self, header: Header, file: JournalFile | None) -> DirectoryJournal:
        journal = DirectoryJournal(header, self._path_of(header.session_id), file, self._on_report)
        self._journals[header.session_id] = journal
        return journal

    async def create(self, session_id: SessionId, cwd: str) -> Journal:
        """See :meth:`SessionStore.create`. It does not fail when the disk does: see the class."""
        header = Header(session_id=session_id, cwd=cwd, created=datetime.now(UTC).isoformat(timespec="seconds"))
        try:
            file = await trio.to_thread.run_sync(self._create, header)
        except FileExistsError:
            raise ValueError(f"there is a session {session_id!r} already") from None  # SETUP-05
        except OSError as exc:
            journal = self._journal(header, None)
            journal.degrade(exc)
            return journal
        return self._journal(header, file)

    def _create(self, header: Header) -> JournalFile:
        make_directory(self.path)
        return JournalFile.create(self._path_of(header.session_id), header)

    async def open(self, session_id: SessionId) -> Journal:
        """See :meth:`SessionStore.open`. What may be read but not written is opened, and kept in memory from there."""
        file, refused = await trio.to_thread.run_sync(self._open, session_id)
        journal = self._journal(file.header, file)
        if refused is not None:
            journal.degrade(refused)
        return journal

    def _open(self, session_id: SessionId) -> tuple[JournalFile, OSError | None]:
        path = self._path_of(session_id)
        try:
            try:
                return JournalFile.open(path, session_id), None
            except (FileNotFoundError, NotADirectoryError, BlockingIOError):
                raise
            except OSError as exc:
                return JournalFile.open(path, session_id, writable=False), exc
        except (FileNotFoundError, NotADirectoryError):
            raise SessionNotFound(session_id) from None
        except BlockingIOError:
            raise SessionBusy(session_id) from None
        except OSError as exc:
            raise _unusable(exc) from exc

    async def list(self, *, cwd: str | None = None, cursor: str | None = None) -> ListSessionsResponse:
        """See :meth:`SessionStore.list`. No journal is read beyond its first line."""
        return await trio.to_thread.run_sync(self._list, cwd, cursor)

    def _list(self, cwd: str | None, cursor: str | None) -> ListSessionsResponse:
        positions: list[Position] = []
        try:
            with os.scandir(self.path) as entries:
                for entry in entries:
                    if entry.name.endswith(SUFFIX):
                        with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                            positions.append((entry.stat(follow_symlinks=False).st_mtime_ns, entry.name))
        except FileNotFoundError:  # no session was ever made
            pass
        except OSError as exc:
            raise _unusable(exc) from exc
        updated = {name: when for when, name in positions}

        def read(name: str) -> SessionInfo | None:
            header = read_header(self.path / name)
            if header is None or file_name(header.session_id) != name:  # not a session that could be loaded
                return None
            return session_info(header.session_id, header.cwd, read_info(self.path / name), updated[name])

        return page(positions, read, cwd, cursor, self._page_size)

    async def delete(self, session_id: SessionId) -> None:
        """See :meth:`SessionStore.delete`."""
        journal = self._journals.get(session_id)
        ours = journal is not None and not journal.closed
        if journal is not None:
            journal.deleted = True
        await trio.to_thread.run_sync(self._delete, session_id, ours)

    def _delete(self, session_id: SessionId, ours: bool) -> None:
        path = self._path_of(session_id)
        try:
            # Whose journal the file is, and that nobody writes it, is known once it is open and locked.
            lock = contextlib.nullcontext() if ours else contextlib.closing(JournalFile.open(path, session_id))
            with lock:
                remove(path)
        except (FileNotFoundError, NotADirectoryError):  # DEL-06
            pass
        except BlockingIOError:
            raise SessionBusy(session_id) from None
        except OSError as exc:
            raise _unusable(exc) from exc


def _unusable(error: OSError) -> RequestError:
    """-32603, with the operating system's reason but no path."""
    return RequestError(ErrorCode.INTERNAL_ERROR, "The session store cannot be used", {"reason": error.strerror})


def default_sessions_directory() -> Path:
    """Where the platform wants programs to keep what they must not lose and users do not look at.

    ``$XDG_STATE_HOME/acp-ref/sessions`` (``~/.local/state`` when that is not set), on macOS below
    ``~/Library/Application Support``, on Windows below ``%LOCALAPPDATA%``.
    """
    return state_directory(sys.platform, os.environ, Path.home()) / "acp-ref" / "sessions"


def state_directory(platform: str, environ: Mapping[str, str], home: Path) -> Path:
    """Where programs keep their state on ``platform``. A relative path in the environment does not count."""
    if platform == "darwin":
        return home / "Library" / "Application Support"
    variable, default = ("LOCALAPPDATA", "AppData/Local") if platform == "win32" else ("XDG_STATE_HOME", ".local/state")
    given = environ.get(variable, "")
    return Path(given) if is_absolute(given) else home / default
