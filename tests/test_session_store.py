"""The session stores: one contract for both, and what only files can show."""

from __future__ import annotations

import base64
import contextlib
import errno
import fcntl
import os
import random
import resource
import secrets
import signal
import stat
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
import trio

from acp_ref._jsonrpc import JSON, JSONObject, dumps, loads
from acp_ref.errors import ErrorCode, RequestError
from acp_ref.reports import Report, ReportKind
from acp_ref.schema import SessionId, SessionInfo
from acp_ref.session_store import (
    DirectoryStore,
    Journal,
    MemoryStore,
    SessionBusy,
    SessionNotFound,
    SessionStore,
    default_sessions_directory,
    state_directory,
)

HOSTILE_IDS = [
    "../../etc/passwd",
    "",
    ".",
    "..",
    "a/b",
    "/etc/passwd",
    "x" * 10_000,
    "a\0b",
    "💥",
    "A",
    "CON",
    "a.b",
]


def chunk(text: str) -> bytes:
    return dumps({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})


def title(text: str | None) -> bytes:
    return dumps({"sessionUpdate": "session_info_update", "title": text})


async def replayed(journal: Journal) -> list[bytes]:
    return list((await journal.history()).updates)


@pytest.fixture
def reports() -> list[Report]:
    return []


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "state" / "sessions"


@pytest.fixture
def files(directory: Path, reports: list[Report]) -> DirectoryStore:
    return DirectoryStore(directory, page_size=3, on_report=reports.append)


@pytest.fixture(params=["memory", "directory"])
def store(request: pytest.FixtureRequest, files: DirectoryStore) -> SessionStore:
    return files if request.param == "directory" else MemoryStore(page_size=3)


def new_id() -> SessionId:
    return SessionId(secrets.token_hex(16))


def names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


def mode(path: Path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


async def make(store: SessionStore, *updates: bytes, cwd: str = "/w") -> SessionId:
    """A session that was used and closed."""
    journal = await store.create(new_id(), cwd)
    for update in updates:
        journal.append(update)
    await journal.aclose()
    return journal.session_id


# ---------------------------------------------------------------------------------------------- the contract of a store


@pytest.mark.spec("SETUP-06", "SETUP-10", "SETUP-11", "SETUP-12")
@pytest.mark.field_note(66)
async def test_what_was_appended_comes_back_whole_and_in_order(store: SessionStore) -> None:
    updates = [chunk(f"chunk {n}") for n in range(1000)]
    session_id = await make(store, *updates)
    journal = await store.open(session_id)
    assert (journal.session_id, journal.cwd) == (session_id, "/w")
    assert await replayed(journal) == updates


@pytest.mark.spec("SETUP-15")
async def test_a_loaded_session_goes_on_where_it_ended(store: SessionStore) -> None:
    session_id = await make(store, chunk("one"))
    journal = await store.open(session_id)
    journal.append(chunk("two"))
    assert await replayed(journal) == [chunk("one"), chunk("two")]
    await journal.aclose()
    assert await replayed(await store.open(session_id)) == [chunk("one"), chunk("two")]


async def test_what_is_appended_during_a_replay_belongs_to_the_next(store: SessionStore) -> None:
    journal = await store.create(new_id(), "/w")
    journal.append(chunk("one"))
    first = (await journal.history()).updates
    journal.append(chunk("two"))
    assert list(first) == [chunk("one")]
    assert await replayed(journal) == [chunk("one"), chunk("two")]


@pytest.mark.spec("COMP-01")
async def test_a_replay_can_leave_compactions_out(store: SessionStore) -> None:
    done = dumps({"sessionUpdate": "compaction_update", "compactionId": "k", "status": "completed"})
    journal = await store.create(new_id(), "/w")
    journal.append(done)
    assert len(list((await journal.history()).updates)) == 1
    assert list((await journal.history(without={"compaction_update"})).updates) == []


@pytest.mark.spec("SETUP-05")
async def test_an_id_is_taken_once(store: SessionStore) -> None:
    session_id = await make(store, chunk("mine"))
    with pytest.raises(ValueError, match="already"):
        await store.create(session_id, "/w")
    assert await replayed(await store.open(session_id)) == [chunk("mine")]


@pytest.mark.spec("SETUP-16")
async def test_an_unknown_session_is_not_found(store: SessionStore) -> None:
    with pytest.raises(SessionNotFound) as caught:
        await store.open(SessionId("nope"))
    assert caught.value.code == ErrorCode.RESOURCE_NOT_FOUND
    assert caught.value.data == {"sessionId": "nope"}


async def test_a_session_has_one_writer_at_a_time(store: SessionStore) -> None:
    journal = await store.create(new_id(), "/w")
    other = await make(store)
    with pytest.raises(SessionBusy) as caught:
        await store.open(journal.session_id)
    assert caught.value.code == ErrorCode.INVALID_REQUEST
    await (await store.open(other)).aclose()
    await journal.aclose()
    await (await store.open(journal.session_id)).aclose()


async def test_a_closed_journal_is_closed(store: SessionStore) -> None:
    journal = await store.create(new_id(), "/w")
    await journal.aclose()
    await journal.aclose()
    with pytest.raises(trio.ClosedResourceError):
        journal.append(chunk("late"))
    with pytest.raises(trio.ClosedResourceError):
        journal.set_additional_directories(["/x"])
    with pytest.raises(trio.ClosedResourceError):
        await journal.history()


async def test_closing_works_in_a_cancelled_scope(store: SessionStore) -> None:
    journal = await store.create(new_id(), "/w")
    with trio.CancelScope() as scope:
        scope.cancel()
        await journal.aclose()
    await (await store.open(journal.session_id)).aclose()


@pytest.mark.spec("DEL-05", "DEL-06", "DEL-08")
@pytest.mark.field_note(74)
async def test_a_deleted_session_is_gone_and_may_be_deleted_again(store: SessionStore) -> None:
    session_id, other = await make(store, title("T")), await make(store)
    await store.delete(session_id)
    await store.delete(session_id)
    with pytest.raises(SessionNotFound):
        await store.open(session_id)
    assert [info.session_id for info in (await store.list()).sessions] == [other]


@pytest.mark.spec("DEL-08")
async def test_a_session_deleted_while_open_stays_usable_until_it_is_closed(store: SessionStore) -> None:
    journal = await store.create(new_id(), "/w")
    journal.append(chunk("one"))
    await store.delete(journal.session_id)
    journal.append(chunk("two"))
    journal.append(title("T"))
    journal.set_additional_directories(["/x"])
    assert await replayed(journal) == [chunk("one"), chunk("two"), title("T")]
    await journal.aclose()
    if isinstance(store, DirectoryStore):
        assert names(store.path) == []
    with pytest.raises(SessionNotFound):
        await store.open(journal.session_id)
    assert (await store.list()).sessions == []


@pytest.mark.parametrize("session_id", HOSTILE_IDS, ids=range(len(HOSTILE_IDS)))
async def test_any_text_is_a_session_id(store: SessionStore, tmp_path: Path, session_id: str) -> None:
    hostile = SessionId(session_id)
    await store.delete(hostile)
    with pytest.raises(SessionNotFound):
        await store.open(hostile)
    journal = await store.create(hostile, "/w")
    journal.append(chunk("x"))
    await journal.aclose()
    other = await make(store)
    assert {info.cwd for info in (await store.list()).sessions} == {"/w"}
    assert len((await store.list()).sessions) == 2
    await (await store.open(other)).aclose()
    loaded = await store.open(hostile)
    assert await replayed(loaded) == [chunk("x")]
    await loaded.aclose()
    await store.delete(hostile)
    assert [info.session_id for info in (await store.list()).sessions] == [other]
    assert set(names(tmp_path)) <= {"state"}


async def test_an_id_that_no_file_could_hold_is_of_no_session(store: SessionStore) -> None:
    surrogate = SessionId("\ud800")
    await store.delete(surrogate)
    with pytest.raises(SessionNotFound):
        await store.open(surrogate)


# ------------------------------------------------------------------------------------------------------------- listing


@pytest.mark.spec("LIST-10")
async def test_no_sessions_are_an_empty_list(store: SessionStore) -> None:
    page = await store.list()
    assert (page.sessions, page.next_cursor) == ([], None)
    await make(store)
    assert (await store.list(cwd="/elsewhere")).sessions == []


@pytest.mark.spec("LIST-05", "LIST-07", "LIST-08", "LIST-16", "LIST-17")
async def test_a_listing_shows_what_is_known_of_a_session(store: SessionStore) -> None:
    meta = dumps({"sessionUpdate": "session_info_update", "_meta": {"tag": 1}})
    journal = await store.create(new_id(), "/w/p")
    journal.set_additional_directories(["/x", "/y"])
    journal.append(title("First"))
    journal.append(meta)
    journal.append(title("Second"))
    [info] = (await store.list()).sessions  # also while it is open
    assert info.updated_at is not None
    assert abs(datetime.fromisoformat(info.updated_at).timestamp() - time.time()) < 60
    assert info == SessionInfo(
        session_id=journal.session_id,
        cwd="/w/p",
        additional_directories=["/x", "/y"],
        title="Second",
        updated_at=info.updated_at,
        meta={"tag": 1},
    )
    journal.append(title(None))
    await journal.aclose()
    [info] = (await store.list()).sessions
    assert (info.title, info.meta) == (None, {"tag": 1})


async def test_a_text_that_speaks_of_session_info_is_no_title(store: SessionStore) -> None:
    await make(store, chunk('{"sessionUpdate":"session_info_update","title":"no"}'), title("yes"))
    [info] = (await store.list()).sessions
    assert info.title == "yes"


def age(store: SessionStore, *session_ids: SessionId) -> None:
    """Make the sessions last active one second apart, the last of them just now."""
    now = time.time_ns()
    for index, session_id in enumerate(reversed(session_ids)):
        when = now - index * 10**9
        if isinstance(store, DirectoryStore):
            os.utime(store.path / f"{session_id}.jsonl", ns=(when, when))
        elif isinstance(store, MemoryStore):
            store._records[session_id].updated = when


@pytest.mark.spec("LIST-11", "LIST-12", "LIST-15")
@pytest.mark.parametrize("count", [2, 3, 4, 6, 7])
async def test_pages_are_bounded_and_together_hold_every_session_once_newest_first(
    store: SessionStore, count: int
) -> None:
    made = [await make(store) for _ in range(count)]
    age(store, *made)
    listed: list[str] = []
    cursor: str | None = None
    for _ in range(count):
        page = await store.list(cursor=cursor)
        assert 0 < len(page.sessions) <= 3
        listed += [info.session_id for info in page.sessions]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert listed == made[::-1]


async def test_sessions_of_the_same_moment_are_paged_too(store: SessionStore) -> None:
    made = [await make(store) for _ in range(7)]
    for session_id in made:
        age(store, session_id)
    if isinstance(store, DirectoryStore):
        for session_id in made:
            os.utime(store.path / f"{session_id}.jsonl", ns=(10**18, 10**18))
    first = await store.list()
    second = await store.list(cursor=first.next_cursor)
    third = await store.list(cursor=second.next_cursor)
    assert sorted(info.session_id for page in (first, second, third) for info in page.sessions) == sorted(made)


@pytest.mark.spec("LIST-05")
async def test_a_listing_can_be_of_one_directory(store: SessionStore) -> None:
    here = [await make(store, cwd="/w") for _ in range(4)]
    for _ in range(4):
        await make(store, cwd="/w2")
    first = await store.list(cwd="/w/")
    second = await store.list(cwd="/w/", cursor=first.next_cursor)
    assert {info.session_id for page in (first, second) for info in page.sessions} == set(here)
    assert second.next_cursor is None


async def test_a_session_deleted_between_two_pages_does_no_harm(store: SessionStore) -> None:
    made = [await make(store) for _ in range(6)]
    age(store, *made)
    first = await store.list()
    for session_id in (made[2], made[3]):  # one of the next page, and the one the cursor points at
        await store.delete(session_id)
    second = await store.list(cursor=first.next_cursor)
    assert [info.session_id for info in second.sessions] == [made[1], made[0]]


BAD_CURSORS = ["", "nonsense", "ä", "AAAA", "=" * 5, "A" * 100_000, base64.urlsafe_b64encode(b'[1,"a",null]').decode()]


@pytest.mark.spec("LIST-14")
@pytest.mark.parametrize("cursor", BAD_CURSORS, ids=range(len(BAD_CURSORS)))
async def test_a_cursor_of_nobody_is_refused(store: SessionStore, cursor: str) -> None:
    with pytest.raises(RequestError) as caught:
        await store.list(cursor=cursor)
    assert caught.value.code == ErrorCode.INVALID_PARAMS


@pytest.mark.spec("LIST-14")
async def test_a_cursor_that_was_changed_or_given_for_another_directory_is_refused(store: SessionStore) -> None:
    for _ in range(4):
        await make(store)
    cursor = (await store.list()).next_cursor
    assert cursor is not None
    changed = [cursor[:20] + ("A" if cursor[20] != "A" else "B") + cursor[21:], cursor + "A", cursor[:-4], cursor[4:]]
    body = base64.urlsafe_b64decode(cursor)
    forged = body[:6] + body[6:].replace(b"[1", b"[2", 1)
    assert forged != body
    changed.append(base64.urlsafe_b64encode(forged).decode())
    for wrong, cwd in [*((text, None) for text in changed), (cursor, "/w")]:
        with pytest.raises(RequestError) as caught:
            await store.list(cursor=wrong, cwd=cwd)
        assert caught.value.code == ErrorCode.INVALID_PARAMS


@pytest.mark.spec("GEN-09", "LIST-05")
async def test_a_listing_of_a_relative_directory_is_refused(store: SessionStore) -> None:
    with pytest.raises(RequestError) as caught:
        await store.list(cwd="w")
    assert caught.value.data == {"errors": ["$.cwd: must be absolute"]}


@pytest.mark.spec("LIST-19")
async def test_listing_changes_nothing_on_disk(files: DirectoryStore, directory: Path) -> None:
    await make(files, chunk("x"), title("T"))

    def state() -> list[tuple[str, int, bytes]]:
        return sorted((path.name, path.stat().st_mtime_ns, path.read_bytes()) for path in directory.iterdir())

    before = state()
    await files.list()
    assert state() == before


async def test_listing_a_missing_directory_does_not_make_it(files: DirectoryStore, tmp_path: Path) -> None:
    assert (await files.list()).sessions == []
    await files.delete(SessionId("x"))
    assert names(tmp_path) == []


async def test_listing_reads_no_journal_beyond_its_header(files: DirectoryStore, directory: Path) -> None:
    session_id = await make(files, title("T"))
    path = directory / f"{session_id}.jsonl"
    with path.open("ab") as file:
        file.truncate(1 << 40)  # a terabyte of nothing
    with trio.fail_after(5):
        [info] = (await files.list()).sessions
    assert info.title == "T"


# --------------------------------------------------------------------------------------------------------------- files


async def test_a_journal_is_a_header_and_the_updates_as_json_lines(files: DirectoryStore, directory: Path) -> None:
    session_id = await make(files, chunk("ä\n"), title("T"))
    text = (directory / f"{session_id}.jsonl").read_text(encoding="utf-8")
    header, *updates = [loads(line.encode()) for line in text.splitlines()]
    assert isinstance(header, dict)
    assert (header["version"], header["sessionId"], header["cwd"]) == (1, session_id, "/w")
    assert isinstance(header["created"], str)
    assert datetime.fromisoformat(header["created"]).tzinfo is not None
    expected: list[JSON] = [loads(chunk("ä\n")), loads(title("T"))]
    assert updates == expected


async def test_sessions_survive_the_store(files: DirectoryStore, directory: Path) -> None:
    session_id = await make(files, chunk("x"), title("T"))
    later = DirectoryStore(directory)
    assert await replayed(await later.open(session_id)) == [chunk("x"), title("T")]


async def test_only_the_user_may_read_what_is_kept(files: DirectoryStore, directory: Path) -> None:
    await make(files, title("T"))
    assert (mode(directory.parent), mode(directory)) == (0o700, 0o700)
    assert [mode(directory / name) for name in names(directory)] == [0o600, 0o600]


async def test_an_appended_update_is_in_the_file_at_once(files: DirectoryStore, directory: Path) -> None:
    journal = await files.create(new_id(), "/w")
    journal.append(chunk("now"))
    assert (directory / f"{journal.session_id}.jsonl").read_bytes().endswith(chunk("now") + b"\n")


async def test_deleting_leaves_no_file(files: DirectoryStore, directory: Path) -> None:
    await files.delete(await make(files, title("T")))
    assert names(directory) == []


async def test_a_file_under_the_name_of_another_session_is_nobodys(files: DirectoryStore, directory: Path) -> None:
    session_id = await make(files, chunk("secret"))
    (directory / f"{session_id}.jsonl").rename(directory / "stolen.jsonl")
    with pytest.raises(SessionNotFound):
        await files.open(SessionId("stolen"))
    await files.delete(SessionId("stolen"))
    assert (directory / "stolen.jsonl").exists()
    assert (await files.list()).sessions == []


async def test_what_is_no_journal_is_passed_over(files: DirectoryStore, directory: Path, tmp_path: Path) -> None:
    session_id = await make(files, chunk("x"))
    (directory / "empty.jsonl").touch()
    (directory / "junk.jsonl").write_bytes(b"\0\xff{" * 1000)
    (directory / "half.jsonl").write_bytes(b'{"version":1,"sessionId":"half","cwd":"/w"')
    (directory / "later.jsonl").write_bytes(b'{"version":2,"sessionId":"later","cwd":"/w","created":""}\n')
    (directory / "folder.jsonl").mkdir()
    os.mkfifo(directory / "pipe.jsonl")
    outside = tmp_path / "link.jsonl"
    outside.write_bytes(b'{"version":1,"sessionId":"link","cwd":"/w","created":""}\n')
    (directory / "link.jsonl").symlink_to(outside)
    assert [info.session_id for info in (await files.list()).sessions] == [session_id]
    for name in ("empty", "junk", "half", "later", "folder", "pipe"):
        with pytest.raises(SessionNotFound):
            await files.open(SessionId(name))
    with pytest.raises(RequestError):
        await files.open(SessionId("link"))


@pytest.mark.parametrize("torn", [b"{", chunk("torn")[:-3], b"\0" * 5000, b'{"x":"' + b"y" * 1_000_000])
async def test_a_torn_last_line_is_cut_off_by_the_next_writer(
    files: DirectoryStore, directory: Path, reports: list[Report], torn: bytes
) -> None:
    session_id = await make(files, chunk("whole"))
    path = directory / f"{session_id}.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    journal = await files.open(session_id)
    assert await replayed(journal) == [chunk("whole")]
    journal.append(chunk("next"))
    assert path.read_bytes() == whole + chunk("next") + b"\n"
    assert reports == []


async def test_a_journal_torn_right_after_its_header_is_empty(files: DirectoryStore, directory: Path) -> None:
    session_id = await make(files)
    with (directory / f"{session_id}.jsonl").open("ab") as file:
        file.write(b'{"sess')
    assert await replayed(await files.open(session_id)) == []


async def test_damage_in_the_middle_costs_the_damaged_lines_and_is_reported(
    files: DirectoryStore, directory: Path, reports: list[Report]
) -> None:
    session_id = await make(files, chunk("one"), chunk("two"), chunk("three"), chunk("four"))
    path = directory / f"{session_id}.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"two"}}\n', b"\0\0\0\n").replace(b'"three"', b'"three"\n'))
    journal = await files.open(session_id)
    assert await replayed(journal) == [chunk("one"), chunk("four")]
    [report] = reports
    assert report.kind is ReportKind.DEGRADED
    assert report.reason.startswith("3 damaged lines")


async def test_titles_that_were_lost_are_found_again_by_a_load(files: DirectoryStore, directory: Path) -> None:
    session_id = await make(files, title("T"), chunk("x"))
    (directory / f"{session_id}.info.json").write_bytes(b'{"tit')
    [info] = (await files.list()).sessions
    assert info.title is None
    journal = await files.open(session_id)
    await journal.history()
    [info] = (await files.list()).sessions
    assert info.title == "T"


async def test_a_replay_stops_when_its_journal_is_closed(files: DirectoryStore) -> None:
    journal = await files.create(new_id(), "/w")
    for _ in range(20):
        journal.append(chunk("x" * 50_000))
    updates = (await journal.history()).updates
    next(updates)
    await journal.aclose()
    with pytest.raises(trio.ClosedResourceError):
        list(updates)


async def test_no_descriptor_is_left(files: DirectoryStore) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    await make(files)  # whatever the first thread opens is open now
    before = descriptors()
    for _ in range(5):
        session_id = await make(files, chunk("x"), title("T"))
        journal = await files.open(session_id)
        await replayed(journal)
        with pytest.raises(SessionBusy):
            await files.open(session_id)
        await journal.aclose()
        with pytest.raises(SessionNotFound):
            await files.open(SessionId("nope"))
        with pytest.raises(ValueError, match="already"):
            await files.create(session_id, "/w")
        await files.list()
        await files.delete(session_id)
        with trio.CancelScope() as scope:
            scope.cancel()
            await files.create(new_id(), "/w")
    assert descriptors() == before


async def test_a_long_conversation_replays_in_bounded_memory(files: DirectoryStore) -> None:
    journal = await files.create(new_id(), "/w")
    big = chunk("x" * 100_000)
    for _ in range(200):  # 20 MB
        journal.append(big)
    tracemalloc.start()
    try:
        assert sum(map(len, (await journal.history()).updates)) == 200 * len(big)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3_000_000


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
async def test_an_update_is_kept_in_memory_in_about_its_own_size(tmp_path: Path) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    (tmp_path / "file").touch()
    nowhere = DirectoryStore(tmp_path / "file" / "sessions", on_report=lambda report: None)
    for store in (MemoryStore(), nowhere):
        journal = await store.create(new_id(), "/w")
        before = resident()
        for number in range(20_000):
            journal.append(chunk(f"update {number}"))
        assert resident() - before < 20_000 * 5 * len(chunk("update 20000"))


# ---------------------------------------------------------------------------------------------------- where disks fail


@contextlib.contextmanager
def no_file_beyond(size: int) -> Iterator[None]:
    """The operating system refuses to let any file of this process grow beyond ``size`` bytes, as a full disk would."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_full_disk_is_reported_once_and_the_session_goes_on_in_memory(
    files: DirectoryStore, directory: Path, reports: list[Report]
) -> None:
    updates = [chunk(f"chunk {n}") for n in range(100)]
    journal = await files.create(new_id(), "/w")
    with no_file_beyond(3000):
        for update in updates:
            journal.append(update)
        journal.append(title("T"))
        [report] = reports
        assert report.kind is ReportKind.DEGRADED
        assert os.strerror(errno.EFBIG) in report.reason
        assert await replayed(journal) == [*updates, title("T")]
        stored = (directory / f"{journal.session_id}.jsonl").read_bytes()
        assert stored.endswith(b"}\n")  # no torn line
        assert 2000 < len(stored) <= 3000
        await journal.aclose()
    loaded = await files.open(journal.session_id)
    kept = await replayed(loaded)
    assert kept == updates[: len(kept)]
    assert len(kept) > 20


async def test_what_a_full_disk_refused_is_written_when_there_is_room_at_the_end(
    files: DirectoryStore, reports: list[Report]
) -> None:
    updates = [chunk(f"chunk {n}") for n in range(100)]
    journal = await files.create(new_id(), "/w")
    with no_file_beyond(3000):
        for update in updates:
            journal.append(update)
    await journal.aclose()
    assert len(reports) == 1
    assert await replayed(await files.open(journal.session_id)) == updates


async def test_a_torn_line_that_could_not_be_cut_off_is_cut_off_at_the_end(
    files: DirectoryStore, reports: list[Report], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fd: int, length: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    updates = [chunk(f"chunk {n}") for n in range(100)]
    journal = await files.create(new_id(), "/w")
    with no_file_beyond(3000), monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", refuse)
        for update in updates:
            journal.append(update)
        assert await replayed(journal) == updates
    await journal.aclose()
    assert await replayed(await files.open(journal.session_id)) == updates
    assert len(reports) == 1


async def test_a_session_made_on_a_full_disk_lives_in_memory(
    files: DirectoryStore, directory: Path, reports: list[Report]
) -> None:
    with no_file_beyond(10):
        journal = await files.create(new_id(), "/w")
        journal.append(chunk("x"))
        journal.append(title("T"))
        journal.set_additional_directories(["/x"])
        assert await replayed(journal) == [chunk("x"), title("T")]
    journal.append(title("there is room again, but no journal"))
    await journal.aclose()
    assert len(reports) == 1
    assert names(directory) == []


async def test_a_directory_that_cannot_be_made_is_reported_and_the_session_lives_in_memory(
    tmp_path: Path, reports: list[Report]
) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "sessions", Path("/proc/sessions")):
        store = DirectoryStore(path, on_report=reports.append)
        journal = await store.create(new_id(), "/w")
        journal.append(chunk("x"))
        assert await replayed(journal) == [chunk("x")]
        await journal.aclose()
        with pytest.raises(SessionNotFound):
            await store.open(journal.session_id)
        await store.delete(journal.session_id)
    assert [report.kind for report in reports] == [ReportKind.DEGRADED] * 3
    assert "Not a directory" in reports[0].reason


async def test_a_directory_that_cannot_be_listed_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RequestError) as caught:
        await DirectoryStore(tmp_path / "file").list()
    assert caught.value.code == ErrorCode.INTERNAL_ERROR
    assert caught.value.data == {"reason": "Not a directory"}


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
async def test_a_journal_that_may_only_be_read_is_loaded_and_goes_on_in_memory(
    files: DirectoryStore, directory: Path, reports: list[Report], monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    session_id = await make(files, chunk("one"))
    path = directory / f"{session_id}.jsonl"
    path.write_bytes(path.read_bytes() + b"{torn")
    before = path.read_bytes()
    real_open = os.open

    def read_only(name: str | Path, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY):
            raise OSError(code, os.strerror(code), str(name))
        return real_open(name, flags, mode, dir_fd=dir_fd)

    # Tests may run as root, whom no mode keeps out.
    monkeypatch.setattr(os, "open", read_only)
    journal = await files.open(session_id)
    journal.append(chunk("two"))
    journal.append(title("T"))
    assert await replayed(journal) == [chunk("one"), chunk("two"), title("T")]
    with pytest.raises(SessionBusy):
        await files.open(session_id)
    await journal.aclose()
    [report] = reports
    assert os.strerror(code) in report.reason
    assert path.read_bytes() == before


async def test_a_title_that_cannot_be_noted_is_reported_and_fails_nothing(
    files: DirectoryStore, directory: Path, reports: list[Report]
) -> None:
    journal = await files.create(new_id(), "/w")
    (directory / f"{journal.session_id}.info.json").mkdir()
    journal.append(title("S"))
    journal.append(chunk("x"))
    journal.append(title("T"))
    assert await replayed(journal) == [chunk("x"), title("T")]
    assert [report.kind for report in reports] == [ReportKind.DEGRADED]
    assert names(directory) == [f"{journal.session_id}.info.json", f"{journal.session_id}.jsonl"]


# ------------------------------------------------------------------------------------------------------- two processes

CHILD = """
import sys, trio
from acp_ref.session_store import DirectoryStore, SessionId

async def main(path, session_id, mode):
    store = DirectoryStore(path)
    journal = await (store.create(session_id, "/w") if mode == "create" else store.open(session_id))
    print("open", flush=True)
    count = 0
    while mode == "create":
        count += 1
        text = f"chunk {count} " + "x" * (count % 7 * 3000)
        update = '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"' + text + '"}}'
        journal.append(update.encode())
        print(count, flush=True)  # what the client was shown
    sys.stdin.read()

trio.run(main, sys.argv[1], SessionId(sys.argv[2]), sys.argv[3])
"""


@contextlib.contextmanager
def child(directory: Path, session_id: str, mode: str) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that has the session open, or is writing it as fast as it can."""
    command = [sys.executable, "-c", CHILD, str(directory), session_id, mode]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"open\n"
            yield process
        finally:
            process.kill()


@pytest.mark.spec("SETUP-06")
async def test_another_process_is_refused_the_busy_session_and_no_other(files: DirectoryStore) -> None:
    busy, free = await make(files, chunk("x"), title("T")), await make(files)
    with child(files.path, busy, "open"):
        with pytest.raises(SessionBusy):
            await files.open(busy)
        with pytest.raises(SessionBusy):
            await files.delete(busy)
        await (await files.open(free)).aclose()
        assert {info.session_id for info in (await files.list()).sessions} == {busy, free}
    journal = await files.open(busy)  # the lock went with the process
    assert await replayed(journal) == [chunk("x"), title("T")]


async def test_nothing_that_was_shown_is_lost_when_the_process_is_killed(
    files: DirectoryStore, reports: list[Report]
) -> None:
    for _ in range(4):
        session_id = new_id()
        with child(files.path, session_id, "create") as process:
            await trio.sleep(
                random.uniform(0.0, 0.08)
            )  # not to synchronise: the moment of the kill is the test's input
            process.send_signal(signal.SIGKILL)
            assert process.stdout is not None
            shown = process.stdout.read().split(b"\n")[:-1]
        journal = await files.open(session_id)
        updates = await replayed(journal)
        assert len(updates) >= len(shown)
        for number, update in enumerate(updates, 1):
            assert f'"chunk {number} '.encode() in update
        journal.append(chunk("more"))
        assert (await replayed(journal))[-1] == chunk("more")
        await journal.aclose()
    assert reports == []


async def test_a_journal_that_was_deleted_while_it_was_being_opened_is_not_found(
    files: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id = await make(files, chunk("x"))
    real = fcntl.flock

    def late(fd: int, operation: int) -> None:
        (files.path / f"{session_id}.jsonl").unlink(missing_ok=True)
        real(fd, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(SessionNotFound):
        await files.open(session_id)


# ------------------------------------------------------------------------------------------------------------ where


@pytest.mark.parametrize(
    ("platform", "environ", "expected"),
    [
        ("linux", {}, "/home/u/.local/state"),
        ("linux", {"XDG_STATE_HOME": "/data"}, "/data"),
        ("linux", {"XDG_STATE_HOME": "data"}, "/home/u/.local/state"),
        ("freebsd14", {"XDG_STATE_HOME": ""}, "/home/u/.local/state"),
        ("darwin", {"XDG_STATE_HOME": "/data"}, "/home/u/Library/Application Support"),
        ("win32", {}, "/home/u/AppData/Local"),
        ("win32", {"LOCALAPPDATA": "C:\\Users\\u\\AppData\\Local"}, "C:\\Users\\u\\AppData\\Local"),
    ],
)
def test_the_default_directory_follows_the_platform(platform: str, environ: dict[str, str], expected: str) -> None:
    assert state_directory(platform, environ, Path("/home/u")) == Path(expected)


def test_the_default_directory_is_below_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/data")
    if sys.platform == "linux":
        assert default_sessions_directory() == Path("/data/acp-ref/sessions")


def test_an_info_member_of_the_wrong_type_is_passed_over() -> None:
    from acp_ref._session_list import session_info

    noted: JSONObject = {"title": 7, "_meta": [], "additionalDirectories": ["/x", 7]}
    info = session_info(SessionId("a"), "/w", noted, 0)
    assert (info.title, info.meta, info.additional_directories) == (None, None, ["/x"])
    assert info.updated_at == "1970-01-01T00:00:00.000Z"
