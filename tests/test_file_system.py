"""The client's file system: text files inside the roots, for real."""

from __future__ import annotations

import errno
import os
import resource
import stat
import threading
import tracemalloc
from functools import partial
from pathlib import Path

import pytest
import trio

from acp_ref import file_system
from acp_ref.errors import ErrorCode, RequestError
from acp_ref.file_system import FileSystem
from acp_ref.roots import OutsideRoots, Roots
from acp_ref.schema import ReadTextFileRequest, SessionId, WriteTextFileRequest

SESSION = SessionId("s")


@pytest.fixture
def w(tmp_path: Path) -> Path:
    """The root. Beside it lies a secret."""
    root = tmp_path / "w"
    root.mkdir()
    (tmp_path / "secret").write_text("secret")
    return root


@pytest.fixture(params=[True, False], ids=["by descriptor", "by path"])
def roots(w: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Roots:
    """Its files are opened in one of the two ways; Windows knows only the second."""
    monkeypatch.setattr(file_system, "BY_DESCRIPTOR", request.param)
    return Roots(str(w))


async def read(
    roots: Roots,
    path: str | Path,
    line: int | None = None,
    limit: int | None = None,
    *,
    files: FileSystem | None = None,
) -> str:
    params = ReadTextFileRequest(session_id=SESSION, path=str(path), line=line, limit=limit)
    return (await (files or FileSystem()).read_text_file(roots, params)).content


async def write(roots: Roots, path: str | Path, content: str, *, files: FileSystem | None = None) -> None:
    params = WriteTextFileRequest(session_id=SESSION, path=str(path), content=content)
    await (files or FileSystem()).write_text_file(roots, params)


def names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


# ------------------------------------------------------------------------------------------------------------- reading


@pytest.mark.spec("FS-04", "FS-05")
async def test_a_file_is_read_whole(w: Path, roots: Roots) -> None:
    (w / "f").write_text("one\ntwo\n")
    assert await read(roots, w / "f") == "one\ntwo\n"


LINES = "one\r\ntwo\n\nfour\u2028still four\x0b\x0c\x85\nfive"


@pytest.mark.spec("FS-04", "FS-08")
@pytest.mark.parametrize(
    ("line", "limit", "expected"),
    [
        (None, None, LINES),
        (1, None, LINES),
        (1, 1, "one\r\n"),
        (2, 1, "two\n"),
        (2, 2, "two\n\n"),
        (3, 1, "\n"),
        (4, 1, "four\u2028still four\x0b\x0c\x85\n"),
        (None, 2, "one\r\ntwo\n"),
        (5, None, "five"),
        (5, 1, "five"),
        (5, 4_294_967_295, "five"),
        (6, None, ""),
        (6, 1, ""),
        (4_294_967_295, 4_294_967_295, ""),
        (1, 0, ""),
        (None, 0, ""),
        (9, 0, ""),
    ],
)
async def test_lines_count_from_one_and_end_with_a_line_feed_only(
    w: Path, roots: Roots, line: int | None, limit: int | None, expected: str
) -> None:
    (w / "f").write_bytes(LINES.encode())
    assert await read(roots, w / "f", line, limit) == expected

    async def buffer(path: str) -> str:
        return LINES

    assert await read(roots, w / "new", line, limit, files=FileSystem(overlay=buffer)) == expected


@pytest.mark.parametrize("line", [1, 2, 3])
async def test_the_lines_of_a_file_that_ends_with_a_line_feed(w: Path, roots: Roots, line: int) -> None:
    (w / "f").write_text("a\nb\n")
    assert await read(roots, w / "f", line) == "a\nb\n"[(line - 1) * 2 :]


async def test_lines_are_found_across_blocks(w: Path, roots: Roots) -> None:
    lines = [f"{n} " + "ä" * (n % 5000) + "\n" for n in range(2000)]
    (w / "f").write_text("".join(lines), encoding="utf-8")
    assert (w / "f").stat().st_size > 4 * 256 * 1024
    for line in (1, 2, 77, 500, 501, 1999, 2000):
        assert await read(roots, w / "f", line, 3) == "".join(lines[line - 1 : line + 2])
    assert await read(roots, w / "f", 1500) == "".join(lines[1499:])


@pytest.mark.parametrize("text", ["", "\n", "\r\n", "\r", "\ufeffbom\r\n", "e\u0301 💥 \0 ￿"])
async def test_text_comes_back_as_it_was_written(w: Path, roots: Roots, text: str) -> None:
    await write(roots, w / "f", text)
    assert (w / "f").read_bytes() == text.encode()
    assert await read(roots, w / "f") == text


async def refused(code: ErrorCode, roots: Roots, path: str | Path, line: int | None = None) -> str:
    """The message and data that a read is refused with."""
    with pytest.raises(RequestError) as caught:
        await read(roots, path, line)
    assert caught.value.code == code
    return str(caught.value)


@pytest.mark.spec("FS-04")
async def test_there_is_no_line_zero(w: Path, roots: Roots) -> None:
    (w / "f").write_text("x")
    assert "$.line" in await refused(ErrorCode.INVALID_PARAMS, roots, w / "f", 0)


@pytest.mark.spec("ERR-11")
@pytest.mark.parametrize("limit", [None, 0])
async def test_a_missing_file_is_not_found_by_its_path(w: Path, roots: Roots, limit: int | None) -> None:
    (w / "f").write_text("x")
    for path in (w / "missing", w / "missing" / "x", w / "f" / "x"):
        with pytest.raises(RequestError) as caught:
            await read(roots, path, limit=limit)
        assert caught.value.code == ErrorCode.RESOURCE_NOT_FOUND
        assert caught.value.data == {"path": str(path)}


@pytest.mark.spec("GEN-09")
@pytest.mark.parametrize("path", ["", "f", "./f", "~", "~/f"])
async def test_a_path_that_is_not_absolute_is_refused(roots: Roots, w: Path, path: str) -> None:
    assert "$.path: must be absolute" in await refused(ErrorCode.INVALID_PARAMS, roots, path)
    with pytest.raises(RequestError) as caught:
        await write(roots, path, "x")
    assert caught.value.code == ErrorCode.INVALID_PARAMS
    assert names(w) == []


async def test_what_is_no_text_file_says_so_at_once(w: Path, roots: Roots) -> None:
    (w / "d").mkdir()
    (w / "latin1").write_bytes("ä\n".encode("latin-1"))
    os.mkfifo(w / "pipe")
    with trio.fail_after(5):
        assert "a directory" in await refused(ErrorCode.INVALID_PARAMS, roots, w / "d")
        assert "a directory" in await refused(ErrorCode.INVALID_PARAMS, roots, w)
        assert "not UTF-8" in await refused(ErrorCode.INVALID_PARAMS, roots, w / "latin1")
        assert "not a regular file" in await refused(ErrorCode.INVALID_PARAMS, roots, w / "pipe")
        assert "not a regular file" in await refused(ErrorCode.INVALID_PARAMS, Roots("/dev"), "/dev/zero")


async def test_the_part_that_is_text_of_a_file_that_is_not_can_be_read(w: Path, roots: Roots) -> None:
    (w / "f").write_bytes(b"text\n\xff\ntext\n")
    assert await read(roots, w / "f", 1, 1) == "text\n"
    assert await read(roots, w / "f", 3) == "text\n"


async def test_what_the_system_refuses_to_read_is_an_internal_error_with_its_reason() -> None:
    # A process may not read the memory at address 0, not even its own and not even as root.
    pid = os.getpid()
    message = await refused(ErrorCode.INTERNAL_ERROR, Roots("/proc"), f"/proc/{pid}/mem")
    assert "Input/output error" in message


async def test_a_huge_file_costs_what_is_asked_of_it(w: Path, roots: Roots) -> None:
    with (w / "f").open("wb") as file:
        file.write(b"first\n" * 2)
        file.truncate(1 << 40)  # a terabyte
    with trio.fail_after(5):
        tracemalloc.start()
        try:
            assert await read(roots, w / "f", 2, 1) == "first\n"
            assert "fewer lines" in await refused(ErrorCode.INVALID_PARAMS, roots, w / "f")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 80 * 1024 * 1024


@pytest.mark.parametrize("limit", [None, 3, 100])
async def test_the_bound_on_what_is_read_is_exact(w: Path, roots: Roots, limit: int | None) -> None:
    (w / "f").write_text("four\n" * 3)
    assert await read(roots, w / "f", limit=limit, files=FileSystem(max_read_bytes=15)) == "four\n" * 3
    with pytest.raises(RequestError) as caught:
        await read(roots, w / "f", limit=limit, files=FileSystem(max_read_bytes=14))
    assert caught.value.code == ErrorCode.INVALID_PARAMS


@pytest.mark.spec("FS-03")
async def test_unsaved_changes_are_read_by_the_real_path_and_saved_files_from_disk(w: Path, roots: Roots) -> None:
    (w / "saved").write_text("disk")
    (w / "dirty").write_text("disk")
    (w / "link").symlink_to("dirty")
    buffers = {str(w / "dirty"): "buffer", str(w / "untitled"): "new"}

    async def overlay(path: str) -> str | None:
        return buffers.get(path)

    files = FileSystem(overlay=overlay)
    assert await read(roots, w / "saved", files=files) == "disk"
    assert await read(roots, w / "dirty", files=files) == "buffer"
    assert await read(roots, w / "link", files=files) == "buffer"
    assert await read(roots, w / "untitled", files=files) == "new"


@pytest.mark.spec("SETUP-67")
async def test_no_editor_is_asked_for_what_is_outside(w: Path, roots: Roots) -> None:
    asked: list[str] = []

    async def overlay(path: str) -> str | None:
        asked.append(path)
        return "x"

    for path in (w.parent / "secret", w / ".." / "secret"):
        with pytest.raises(OutsideRoots):
            await read(roots, path, files=FileSystem(overlay=overlay))
    assert asked == []


# ------------------------------------------------------------------------------------------------------------- writing


@pytest.mark.spec("FS-06")
async def test_writing_makes_the_file_and_the_directories_above_it(w: Path, roots: Roots) -> None:
    await write(roots, w / "a" / "b" / "f", "new")
    assert (w / "a" / "b" / "f").read_text() == "new"
    assert names(w / "a" / "b") == ["f"]


async def test_a_new_file_has_the_mode_that_the_umask_leaves(w: Path, roots: Roots) -> None:
    umask = os.umask(0o027)
    try:
        await write(roots, w / "f", "x")
    finally:
        os.umask(umask)
    assert stat.S_IMODE((w / "f").stat().st_mode) == 0o640


@pytest.mark.parametrize("mode", [0o755, 0o600, 0o664])
async def test_writing_keeps_the_mode(w: Path, roots: Roots, mode: int) -> None:
    (w / "f").write_text("old and longer")
    (w / "f").chmod(mode)
    await write(roots, w / "f", "new")
    assert (w / "f").read_text() == "new"
    assert stat.S_IMODE((w / "f").stat().st_mode) == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
async def test_writing_keeps_the_owner(w: Path, roots: Roots) -> None:
    (w / "f").write_text("old")
    os.chown(w / "f", 1234, 4321)
    await write(roots, w / "f", "new")
    status = (w / "f").stat()
    assert (status.st_uid, status.st_gid) == (1234, 4321)


async def test_a_link_stays_a_link_and_what_it_leads_to_is_written(w: Path, roots: Roots) -> None:
    (w / "target").write_text("old")
    (w / "link").symlink_to("target")
    (w / "later").symlink_to("d/new")
    await write(roots, w / "link", "new")
    await write(roots, w / "later", "made")
    assert ((w / "link").readlink(), (w / "later").readlink()) == (Path("target"), Path("d/new"))
    assert ((w / "target").read_text(), (w / "d" / "new").read_text()) == ("new", "made")


@pytest.mark.spec("SETUP-66", "SETUP-67")
@pytest.mark.field_note(65)
async def test_nothing_outside_is_read_or_written(w: Path, roots: Roots) -> None:
    outside = w.parent
    (w / "dangling").symlink_to(outside / "new")
    (w / "out").symlink_to(outside)
    (w / "link").symlink_to(outside / "secret")
    (w / "d").mkdir()
    paths = [outside / "secret", w / "dangling", w / "out" / "secret", w / "link", w / "d" / ".." / ".." / "secret"]
    paths += [Path(f"/proc/self/root{outside}/secret"), outside / "w2" / "f", w / "out" / "a" / "b"]
    for path in paths:
        with pytest.raises(OutsideRoots):
            await read(roots, path)
        with pytest.raises(OutsideRoots):
            await write(roots, path, "changed")
    assert names(outside) == ["secret", "w"]
    assert (outside / "secret").read_text() == "secret"


@pytest.mark.spec("SETUP-66")
@pytest.mark.field_note(65)
async def test_a_file_exchanged_for_a_link_between_check_and_use_is_neither_read_nor_written(
    w: Path, roots: Roots, monkeypatch: pytest.MonkeyPatch
) -> None:
    (w / "f").write_text("inside")
    locate = Roots._locate

    def exchanged(self: Roots, path: str) -> tuple[str, str]:
        found = locate(self, path)
        (w / "f").unlink()
        (w / "f").symlink_to(w.parent / "secret")
        return found

    monkeypatch.setattr(Roots, "_locate", exchanged)
    before = descriptors()
    with pytest.raises(OutsideRoots):
        await read(roots, w / "f")
    (w / "f").unlink()
    (w / "f").write_text("inside")
    with pytest.raises(OutsideRoots):
        await write(roots, w / "f", "changed")
    assert (w.parent / "secret").read_text() == "secret"
    assert names(w) == ["f"]
    assert descriptors() <= before + 1  # the thread's


async def test_what_is_no_regular_file_is_not_written(w: Path, roots: Roots) -> None:
    (w / "d").mkdir()
    for name in ("pipe", "read"):
        os.mkfifo(w / name)
    reader = os.open(w / "read", os.O_RDONLY | os.O_NONBLOCK)
    try:
        with trio.fail_after(5):
            for path in (w / "d", w, w / "pipe", w / "read"):
                with pytest.raises(RequestError) as caught:
                    await write(roots, path, "x")
                assert caught.value.code == ErrorCode.INVALID_PARAMS
        assert os.read(reader, 1) == b""
    finally:
        os.close(reader)
    assert names(w) == ["d", "pipe", "read"]


async def test_a_file_is_no_directory_to_write_in(w: Path, roots: Roots) -> None:
    (w / "f").write_text("old")
    with pytest.raises(RequestError) as caught:
        await write(roots, w / "f" / "g", "x")
    assert caught.value.code == ErrorCode.RESOURCE_NOT_FOUND
    assert (w / "f").read_text() == "old"


async def test_text_that_cannot_be_utf8_is_refused_before_anything_is_touched(w: Path, roots: Roots) -> None:
    with pytest.raises(RequestError) as caught:
        await write(roots, w / "d" / "f", "a\ud800b")
    assert caught.value.code == ErrorCode.INVALID_PARAMS
    assert names(w) == []


async def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(w: Path, roots: Roots) -> None:
    (w / "f").write_text("old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = descriptors()
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))  # as a full disk would
    try:
        with pytest.raises(RequestError) as caught:
            await write(roots, w / "f", "x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.code == ErrorCode.INTERNAL_ERROR
    assert caught.value.data == {"path": str(w / "f"), "reason": "File too large"}
    assert names(w) == ["f"]
    assert (w / "f").read_text() == "old"
    assert descriptors() <= before + 1  # the thread's


async def test_a_file_that_may_not_be_written_is_not_replaced(
    w: Path, roots: Roots, monkeypatch: pytest.MonkeyPatch
) -> None:
    (w / "f").write_text("old")
    real_open = os.open

    def as_another_user(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if os.path.basename(path) == "f" and flags & os.O_WRONLY:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return real_open(path, flags, mode, dir_fd=dir_fd)

    # Tests may run as root, whom no mode keeps out.
    monkeypatch.setattr(os, "open", as_another_user)
    with pytest.raises(RequestError) as caught:
        await write(roots, w / "f", "new")
    assert caught.value.code == ErrorCode.INTERNAL_ERROR
    assert caught.value.data == {"path": str(w / "f"), "reason": "Permission denied"}
    assert names(w) == ["f"]
    assert (w / "f").read_text() == "old"


@pytest.mark.spec("SETUP-67")
@pytest.mark.parametrize("roots", [False], indirect=True, ids=["by path"])
@pytest.mark.parametrize("reading", [True, False])
async def test_a_directory_that_is_exchanged_for_a_link_meanwhile_is_noticed_by_path_too(
    reading: bool, w: Path, roots: Roots, monkeypatch: pytest.MonkeyPatch
) -> None:
    (w / "d").mkdir()
    (w / "d" / "secret").write_text("harmless")
    real_open = os.open

    def exchange(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if (w / "d").is_dir() and not (w / "d").is_symlink():
            (w / "d").rename(w / "e")
            (w / "d").symlink_to(w.parent)
        return real_open(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", exchange)
    use = partial(read, roots, w / "d" / "secret") if reading else partial(write, roots, w / "d" / "new", "new")
    with pytest.raises(OutsideRoots):
        await use()
    assert names(w.parent) == ["secret", "w"]
    assert (w.parent / "secret").read_text() == "secret"


async def test_a_cancelled_write_has_happened_or_left_nothing(
    w: Path, roots: Roots, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    fsync = os.fsync

    def slow(fd: int) -> None:
        begun.set()
        go_on.wait(5)
        fsync(fd)

    monkeypatch.setattr(os, "fsync", slow)
    with trio.CancelScope() as cancelled:
        cancelled.cancel()
        await write(roots, w / "early", "x")
    assert names(w) == []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(write, roots, w / "late", "x")
        await trio.to_thread.run_sync(begun.wait, 5)
        nursery.cancel_scope.cancel()
        go_on.set()
    assert names(w) == ["late"]
    assert (w / "late").read_text() == "x"


async def test_nobody_ever_sees_half_a_file(w: Path, roots: Roots) -> None:
    texts = ["a" * 400_000, "b" * 300_000]
    await write(roots, w / "f", texts[0])
    seen: set[str] = set()

    async def look(task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        for _ in range(60):
            seen.add(await read(roots, w / "f"))

    async with trio.open_nursery() as nursery:
        await nursery.start(look)
        for n in range(20):
            await write(roots, w / "f", texts[n % 2])
    assert seen <= set(texts)
    assert names(w) == ["f"]


async def test_an_editor_is_told_of_what_was_written_and_of_nothing_else(w: Path, roots: Roots) -> None:
    told: list[tuple[str, str, str]] = []

    async def on_write(path: str, content: str) -> None:
        told.append((path, content, Path(path).read_text()))  # noqa: ASYNC240

    (w / "d").mkdir()
    (w / "link").symlink_to("f")
    files = FileSystem(on_write=on_write)
    await write(roots, w / "link", "x", files=files)
    for path in (w / "d", w.parent / "secret"):
        with pytest.raises(RequestError):
            await write(roots, path, "y", files=files)
    assert told == [(str(w / "f"), "x", "x")]


async def test_two_sessions_with_two_directories_do_not_mix(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for directory in (one, two):
        os.mkdir(directory)
    files = FileSystem()
    async with trio.open_nursery() as nursery:
        for n in range(5):
            for directory in (one, two):
                nursery.start_soon(
                    partial(write, files=files), Roots(str(directory)), directory / f"f{n}", directory.name
                )
    assert await read(Roots(str(one)), one / "f3") == "one"
    assert await read(Roots(str(two)), two / "f3") == "two"
    with pytest.raises(OutsideRoots):
        await read(Roots(str(one)), two / "f3")
