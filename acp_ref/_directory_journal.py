"""Loading Sessions: one session's history in a file, or in memory where the disk fails.

https://agentclientprotocol.com/protocol/session-setup#loading-sessions

Theory of operation. Updates go to the file until it refuses one; from then on, to a list. What the file holds and then
the list is the history, in order, so a replay is whole as long as the journal is open.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain
from pathlib import Path

import trio

from acp_ref._framing import Frame
from acp_ref._journal_files import Header, JournalFile, read_info, write_info
from acp_ref._jsonrpc import JSONObject, exact
from acp_ref._replay import History, Replay
from acp_ref._session_list import info_update, noted_of
from acp_ref.reports import Report, ReportKind
from acp_ref.schema import SessionId

__all__ = ["DirectoryJournal"]


class DirectoryJournal:
    """The journal of one session of a :class:`DirectoryStore`, open for writing. ``file`` is None when there could be
    none."""

    def __init__(
        self, header: Header, path: Path, file: JournalFile | None, on_report: Callable[[Report], None]
    ) -> None:
        self._header = header
        self._path = path
        self._file = file
        self._on_report = on_report
        self._noted = {} if file is None else read_info(path)
        self._unwritten: list[bytes] = []
        self._broken = file is None
        self._reported = False
        self.closed = False
        self.deleted = False

    @property
    def session_id(self) -> SessionId:
        return self._header.session_id

    @property
    def cwd(self) -> str:
        return self._header.cwd

    def _check_open(self) -> None:
        if self.closed:
            raise trio.ClosedResourceError("the journal is closed")

    def append(self, update: bytes) -> None:
        self._check_open()
        if self._file is None or self._broken:
            self._unwritten.append(exact(update))
        else:
            try:
                self._file.append(update)
            except OSError as exc:
                self._unwritten.append(exact(update))
                self.degrade(exc)
        if (info := info_update(update)) is not None:
            self._note(noted_of(info, self._noted))

    def degrade(self, error: OSError) -> None:
        """Write no more, because of ``error``, and say so."""
        self._broken = True
        self._report(f"is not written any more, but kept in memory until the session is closed: {error.strerror}")

    def _report(self, what: str) -> None:
        if not self._reported:
            self._reported = True
            reason = f"the journal of session {self.session_id!r} {what}"
            self._on_report(Report(kind=ReportKind.DEGRADED, reason=reason))

    def set_additional_directories(self, directories: Sequence[str]) -> None:
        self._check_open()
        self._note({**self._noted, "additionalDirectories": [*directories]})

    def _note(self, noted: JSONObject) -> None:
        if noted == self._noted:
            return
        self._noted = noted
        if self._file is not None and not self.deleted:
            try:
                write_info(self._path, noted)
            except OSError as exc:
                self._report(f"has no title and roots in listings: {exc.strerror}")

    async def history(self, *, without: Collection[str] = ()) -> History:
        self._check_open()
        end = 0 if self._file is None else self._file.size
        unwritten = tuple(self._unwritten)
        noted = self._noted
        # The first pass reads and parses everything, which is no work for the loop's thread.
        source = None if self._file is None else self._file.copy()
        try:
            replay = await trio.to_thread.run_sync(lambda: Replay(self._lines(source, end, unwritten), without=without))
        finally:
            if source is not None:
                source.close()
        if replay.damaged:
            reason = f"{replay.damaged} damaged lines of the journal of session {self.session_id!r} were left out"
            self._on_report(Report(kind=ReportKind.DEGRADED, reason=reason))
        self._check_open()
        if self._noted is noted:  # and nothing newer was noted meanwhile
            self._note(noted_of(replay.info, noted))  # what is noted for listings may have been lost
        return replay.history(self._lines(self._file, end, unwritten))

    @staticmethod
    def _lines(file: JournalFile | None, end: int, unwritten: Sequence[bytes]) -> Iterator[Frame]:
        return chain(() if file is None else file.lines(end), unwritten)

    def _write_rest(self, file: JournalFile) -> None:
        """Write what was kept in memory, in case there is room again."""
        if self._unwritten:
            with contextlib.suppress(OSError):
                file.truncate()
                for update in self._unwritten:
                    file.append(update)

    async def aclose(self) -> None:
        if not self.closed:
            self.closed = True
            if self._file is not None:
                self._write_rest(self._file)
                self._file.close()
        await trio.lowlevel.checkpoint()
