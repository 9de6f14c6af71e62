"""Session List: pages, cursors, and what a listing says of a session.

https://agentclientprotocol.com/protocol/session-list
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final, TypeAlias

from acp_ref._jsonrpc import JSON, JSONObject, dumps, loads
from acp_ref._replay import parse_update
from acp_ref.errors import RequestError
from acp_ref.roots import is_absolute, same_directory
from acp_ref.schema import ListSessionsResponse, SessionId, SessionInfo

__all__ = ["DEFAULT_PAGE_SIZE", "Position", "info_update", "noted_of", "page", "session_info"]

DEFAULT_PAGE_SIZE: Final = 50
"""Sessions per page (LIST-15): more than an editor shows at once, and a few kilobytes on the wire."""

Position: TypeAlias = tuple[int, str]
"""Where a session stands in a listing: when it was last active, in nanoseconds, and the store's name of it."""


def _check_of(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=6).digest()


def _encode_cursor(position: Position, cwd: str | None) -> str:
    body = dumps([*position, cwd])
    return base64.urlsafe_b64encode(_check_of(body) + body).decode()


def _decode_cursor(cursor: str, cwd: str | None) -> Position:
    """The position that ``cursor`` names. It comes from the peer, so nothing in it is taken on trust."""
    value: JSON = None
    try:
        raw = base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True)
        if _check_of(raw[6:]) == raw[:6]:
            value = loads(raw[6:])
    except (ValueError, RecursionError):  # not ASCII, not base64, not JSON
        pass
    match value:
        case [int(when), str(name), (str() | None) as listed] if listed == cwd:
            return when, name
        case [int(), str(), (str() | None)]:
            raise RequestError.invalid_params("$.cursor: it belongs to a listing of another cwd")  # D-45
        case _:
            raise RequestError.invalid_params("$.cursor: not a cursor of this listing")  # LIST-14


def page(
    positions: Iterable[Position],
    read: Callable[[str], SessionInfo | None],
    cwd: str | None,
    cursor: str | None,
    page_size: int,
) -> ListSessionsResponse:
    """The page after ``cursor``. ``read`` gives what is known of a session, or None when it is gone meanwhile."""
    if cwd is not None and not is_absolute(cwd):
        raise RequestError.invalid_params("$.cwd: must be absolute")  # LIST-05, GEN-09
    after = None if cursor is None else _decode_cursor(cursor, cwd)
    sessions: list[SessionInfo] = []
    last: Position | None = None
    for position in sorted(positions, reverse=True):
        if after is not None and position >= after:
            continue
        info = read(position[1])
        if info is None or not (cwd is None or same_directory(info.cwd, cwd)):
            continue
        if last is not None and len(sessions) == page_size:  # there is one more, so there is one more page
            return ListSessionsResponse(sessions=sessions, next_cursor=_encode_cursor(last, cwd))
        sessions.append(info)
        last = position
    return ListSessionsResponse(sessions=sessions)  # LIST-06, LIST-10


def _timestamp(nanoseconds: int) -> str:
    """ISO 8601, UTC (LIST-07)."""
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


INFO_KEYS: Final = ("title", "_meta", "additionalDirectories")
LISTED_DEPTH: Final = 100
"""How deep in its message, at the very most, a ``_meta`` is written, whoever writes it."""
"""What is noted of a session for listings. The time of its last activity is when its journal was last written."""


def session_info(session_id: SessionId, cwd: str, noted: JSONObject, updated: int) -> SessionInfo:
    """What a listing says of a session: ``noted`` has those of INFO_KEYS that are known, ``updated`` is the time of its
    last activity in nanoseconds."""
    title, meta, directories = (noted.get(key) for key in INFO_KEYS)
    return SessionInfo(
        session_id=session_id,
        cwd=cwd,
        additional_directories=[d for d in directories if isinstance(d, str)] if isinstance(directories, list) else [],
        title=title if isinstance(title, str) else None,
        updated_at=_timestamp(updated),
        meta=meta if isinstance(meta, dict) else None,
    )


def noted_of(update: JSONObject, before: JSONObject) -> JSONObject:
    """What listings need to know after a ``session_info_update`` (LIST-16): its title and ``_meta``, where it has them.

    It is the store that knows when the session was last active, so ``updatedAt`` is not of them. Nor is a ``_meta``
    that is nested too deeply to be listed: one session must not take all the others out of the listing.
    """
    noted: JSONObject = {key: update[key] for key in ("title", "_meta") if key in update}
    if not _can_be_listed(noted.get("_meta")):
        del noted["_meta"]
    return {**before, **noted}


def _can_be_listed(meta: JSON) -> bool:
    for _ in range(LISTED_DEPTH):
        meta = [meta]
    try:
        dumps(meta)
    except ValueError:
        return False
    return True


def info_update(update: bytes) -> JSONObject | None:
    """``update`` parsed, when it is a ``session_info_update``. Nearly none is, so this looks before it parses; what it
    looks for cannot be in a text, where quotes are escaped."""
    if b'"session_info_update"' not in update:
        return None
    parsed = parse_update(update)
    return parsed[1] if parsed is not None and parsed[0] == "session_info_update" else None
