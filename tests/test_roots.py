"""The roots of a session: what is absolute, what is inside, and that nobody gets out."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from acp_ref.errors import ErrorCode, RequestError
from acp_ref.roots import (
    OutsideRoots,
    Roots,
    check_additional_directories,
    check_cwd,
    distinct_directories,
    is_absolute,
    same_directory,
)


@pytest.fixture
def w(tmp_path: Path) -> Path:
    """A root. Beside it lie a directory of nearly its name and a secret."""
    root = tmp_path / "w"
    (root / "ok").mkdir(parents=True)
    (root / "ok" / "f").write_text("inside")
    (tmp_path / "w2").mkdir()
    (tmp_path / "w2" / "x").write_text("outside")
    (tmp_path / "secret").write_text("secret")
    return root


def refused(action: Callable[[], object]) -> str:
    """The reason why ``action`` was refused."""
    with pytest.raises(OutsideRoots) as caught:
        action()
    assert caught.value.code == ErrorCode.INVALID_PARAMS
    assert isinstance(caught.value.data, dict)
    reason = caught.value.data["reason"]
    assert isinstance(reason, str)
    return reason


# ------------------------------------------------------------------------------------------------------ absolute paths


@pytest.mark.spec("GEN-09")
@pytest.mark.parametrize(
    "path", ["/", "/a", "//a", "C:\\", "c:/a", "Z:\\a b", "\\\\server\\share", "\\\\server\\share\\x", "\\\\?\\C:\\x"]
)
def test_paths_of_every_platform_are_absolute(path: str) -> None:
    assert is_absolute(path)
    assert check_cwd(path) == path
    assert check_additional_directories([path]) == (path,)


NOT_ABSOLUTE = ["", ".", "..", "~", "~/a", "src", "a/b", "C:", "C:a", "\\a", "\\\\server", "\\\\", "file:///a", " /a"]


@pytest.mark.spec("SETUP-18", "GEN-09")
@pytest.mark.field_note(61)
@pytest.mark.parametrize("cwd", NOT_ABSOLUTE)
def test_a_cwd_that_is_not_absolute_is_refused_by_its_path(cwd: str) -> None:
    with pytest.raises(RequestError) as caught:
        Roots(cwd)
    assert caught.value.code == ErrorCode.INVALID_PARAMS
    assert caught.value.data == {"errors": ["$.cwd: must be absolute"]}


@pytest.mark.spec("SETUP-18")
@pytest.mark.parametrize("cwd", [None, 7, ["/a"], {}, True])
def test_a_cwd_that_is_no_string_is_refused(cwd: object) -> None:
    with pytest.raises(RequestError) as caught:
        check_cwd(cwd)
    assert caught.value.data == {"errors": ["$.cwd: expected string"]}


@pytest.mark.spec("SETUP-61", "SETUP-64")
@pytest.mark.field_note(99)
def test_every_bad_additional_directory_is_named_and_none_is_dropped() -> None:
    with pytest.raises(RequestError) as caught:
        check_additional_directories(["/a", 5, "", "rel", "/b\0c", None])
    assert caught.value.code == ErrorCode.INVALID_PARAMS
    where = "$.additionalDirectories"
    assert caught.value.data == {
        "errors": [
            f"{where}[1]: expected string",
            f"{where}[2]: must be absolute",
            f"{where}[3]: must be absolute",
            f"{where}[4]: must not contain NUL",
            f"{where}[5]: expected string",
        ]
    }


@pytest.mark.spec("SETUP-64")
@pytest.mark.parametrize("directories", ["/a", None, 7, {"0": "/a"}])
def test_additional_directories_that_are_no_list_are_refused(directories: object) -> None:
    with pytest.raises(RequestError) as caught:
        check_additional_directories(directories)
    assert caught.value.data == {"errors": ["$.additionalDirectories: expected array"]}


@pytest.mark.spec("SETUP-68")
def test_a_client_sends_each_additional_directory_once_and_never_its_cwd() -> None:
    assert distinct_directories("/w", ["/b", "/w", "/a", "/b", "/A", "/w/"]) == ["/b", "/a", "/A", "/w/"]


@pytest.mark.spec("SETUP-63")
@pytest.mark.field_note(64)
def test_directories_are_the_same_but_for_trailing_slashes() -> None:
    assert same_directory("/a", "/a/")
    assert same_directory("/", "//")
    assert same_directory("C:\\a\\", "C:\\a")
    assert not same_directory("/a", "/b")
    assert not same_directory("/a", "/a/.")
    assert not same_directory("/", "/a")
    assert not same_directory("/a\\", "/a")


# ------------------------------------------------------------------------------------------------------ inside


@pytest.mark.spec("SETUP-58", "SETUP-59")
def test_the_roots_are_the_cwd_and_then_the_others_in_order() -> None:
    assert Roots("/w", ["/b", "/a"]).roots == ("/w", "/b", "/a")
    assert Roots("/w").roots == ("/w",)


@pytest.mark.spec("SETUP-19", "SETUP-57")
@pytest.mark.field_note(62)
def test_a_relative_path_counts_from_the_cwd_and_from_nothing_else(w: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = w.parent / "w2"
    monkeypatch.chdir(other)
    roots = Roots(str(w), [str(other)])
    assert roots.resolve("ok/f") == str(w / "ok" / "f")
    assert roots.resolve("x") == str(w / "x")
    assert roots.resolve("") == roots.resolve(".") == str(w)
    assert roots.resolve("~") == str(w / "~")
    assert os.getcwd() == str(other)


@pytest.mark.spec("SETUP-20", "SETUP-59")
def test_every_root_is_inside_and_so_is_what_it_holds(w: Path) -> None:
    roots = Roots(str(w), [str(w.parent / "w2")])
    assert roots.resolve(str(w)) == str(w)
    assert roots.contains(str(w / "ok" / "f"))
    assert roots.contains(str(w.parent / "w2" / "x"))
    assert not roots.contains(str(w.parent / "secret"))


@pytest.mark.spec("SETUP-66", "SETUP-67")
@pytest.mark.field_note(65)
def test_a_directory_whose_name_only_begins_like_a_root_is_outside(w: Path) -> None:
    assert refused(lambda: Roots(str(w)).resolve(str(w.parent / "w2" / "x"))) == "outside"
    assert refused(lambda: Roots(f"{w}/").resolve(str(w.parent / "w2" / "x"))) == "outside"


@pytest.mark.spec("SETUP-66")
def test_nothing_is_outside_the_root_of_all() -> None:
    assert Roots("/").resolve("/etc/../etc/passwd") == os.path.realpath("/etc/passwd")


@pytest.mark.spec("SETUP-66")
@pytest.mark.field_note(65)
def test_dots_that_lead_out_are_refused_and_dots_that_stay_are_not(w: Path) -> None:
    roots = Roots(str(w))
    assert refused(lambda: roots.resolve(f"{w}/ok/../../secret")) == "outside"
    assert refused(lambda: roots.resolve("../secret")) == "outside"
    assert refused(lambda: roots.resolve("..")) == "outside"
    assert roots.resolve(f"{w}/ok/../ok/./f") == str(w / "ok" / "f")
    assert roots.resolve(f"{w}/../w/ok/f") == str(w / "ok" / "f")


@pytest.mark.spec("SETUP-66")
@pytest.mark.field_note(65)
def test_dots_after_a_link_lead_to_the_parent_of_where_it_points(w: Path) -> None:
    (w.parent / "far" / "deep").mkdir(parents=True)
    (w / "alias").symlink_to(w.parent / "far" / "deep")
    (w / "x").write_text("the file a lexical check would take it for")
    assert refused(lambda: Roots(str(w)).resolve(f"{w}/alias/../x")) == "outside"
    (w / "in" / "deep").mkdir(parents=True)
    (w / "inner").symlink_to("in/deep")
    assert Roots(str(w)).resolve(f"{w}/inner/../x") == str(w / "in" / "x")


@pytest.mark.spec("SETUP-66")
@pytest.mark.field_note(65)
def test_links_count_for_where_they_lead(w: Path) -> None:
    roots = Roots(str(w))
    (w / "out").symlink_to(w.parent)
    (w / "passwd").symlink_to("/etc/passwd")
    (w / "up").symlink_to("../secret")
    (w / "here").symlink_to("ok")
    (w / "chain").symlink_to("here/f")
    for path in ("out/secret", "passwd", "up", "out"):
        assert refused(partial(roots.resolve, str(w / path))) == "outside"
    assert roots.resolve("here/f") == roots.resolve("chain") == str(w / "ok" / "f")
    assert roots.resolve("out/w/ok/f") == str(w / "ok" / "f")  # out and in again is in


@pytest.mark.spec("SETUP-66")
@pytest.mark.field_note(65)
def test_what_does_not_exist_yet_is_where_it_would_be(w: Path) -> None:
    roots = Roots(str(w))
    (w / "out").symlink_to(w.parent)
    (w / "dangling").symlink_to(w.parent / "new")
    (w / "later").symlink_to("ok/new")
    assert roots.resolve("a/b/c") == str(w / "a" / "b" / "c")
    assert roots.resolve("later") == str(w / "ok" / "new")
    assert refused(lambda: roots.resolve("dangling")) == "outside"
    assert refused(lambda: roots.resolve("dangling/below")) == "outside"
    assert refused(lambda: roots.resolve("out/a/b")) == "outside"
    # Nobody can say where the parent of a directory leads that does not exist, or is no directory.
    assert "'..'" in refused(lambda: roots.resolve("a/../ok/f"))
    assert "'..'" in refused(lambda: roots.resolve("ok/f/../f"))


@pytest.mark.spec("SETUP-66")
def test_loops_of_links_are_refused(w: Path) -> None:
    (w / "a").symlink_to("b")
    (w / "b").symlink_to("a")
    (w / "self").symlink_to("self/x")
    roots = Roots(str(w))
    for path in ("a", "a/x", "self", "b/../ok/f"):
        assert refused(partial(roots.resolve, path)) == "too many symbolic links"


@pytest.mark.spec("SETUP-66")
def test_a_chain_of_links_as_long_as_the_kernel_takes_is_followed(w: Path) -> None:
    (w / "l0").symlink_to("ok/f")
    for n in range(1, 40):
        (w / f"l{n}").symlink_to(f"l{n - 1}")
    (w / "l40").symlink_to("l39")
    assert Roots(str(w)).resolve("l39") == str(w / "ok" / "f")
    assert refused(lambda: Roots(str(w)).resolve("l40")) == "too many symbolic links"


@pytest.mark.spec("SETUP-66")
@pytest.mark.parametrize("path", ["/w\0", "a\0b", "missing/a\0b", "\ud800", "missing/\ud800", "ok/" + "n" * 300])
def test_what_is_no_path_is_refused(w: Path, path: str) -> None:
    refused(lambda: Roots(str(w)).resolve(path))


@pytest.mark.spec("SETUP-66")
@pytest.mark.parametrize("path", ["root/etc/passwd", "cwd/x", "exe", "fd/0", "task/self/root", "ns/net", "map_files"])
def test_the_links_of_proc_lead_nowhere_inside(w: Path, path: str) -> None:
    (w / "proc").symlink_to("/proc/self")
    assert not Roots(str(w)).contains(f"/proc/self/{path}")
    assert not Roots(str(w)).contains(f"proc/{path}")
    assert not Roots(str(w)).contains(f"/proc/thread-self/{path}")


@pytest.mark.spec("SETUP-66")
def test_a_link_of_proc_that_leads_inside_is_inside(w: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(w)
    assert Roots(str(w)).resolve("/proc/self/cwd/ok/f") == str(w / "ok" / "f")


@pytest.mark.spec("GEN-09")
@pytest.mark.parametrize("path", ["C:\\w\\x", "\\\\server\\share\\x"])
def test_a_path_of_another_platform_is_outside(w: Path, path: str) -> None:
    (w / path).write_text("a file whose name looks like that")
    assert refused(lambda: Roots(str(w)).resolve(path)) == "not a path of this platform"


@pytest.mark.spec("GEN-09")
def test_a_root_of_another_platform_is_carried_and_holds_nothing(w: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(w)
    roots = Roots("C:\\w")
    assert roots.roots == ("C:\\w",)
    assert not roots.contains("x")
    assert not roots.contains(str(w))
    assert not roots.contains("/C:\\w/x")
    assert Roots("C:\\w", [str(w)]).contains(str(w / "ok" / "f"))


def test_a_root_may_be_a_link_and_may_be_missing(w: Path) -> None:
    (w.parent / "project").symlink_to(w)
    roots = Roots(str(w.parent / "project"))
    assert roots.resolve("ok/f") == roots.resolve(str(w / "ok" / "f")) == str(w / "ok" / "f")
    assert Roots(str(w / "missing")).resolve("f") == str(w / "missing" / "f")


def test_a_root_that_leads_nowhere_holds_nothing(w: Path) -> None:
    (w / "a").symlink_to("a")
    assert not Roots(str(w / "a")).contains("x")


@pytest.mark.spec("SETUP-66")
def test_a_root_that_is_exchanged_for_a_link_later_does_not_move(w: Path) -> None:
    (w / "sub").mkdir()
    roots = Roots(str(w), [str(w / "sub")])
    (w / "sub").rmdir()
    (w / "sub").symlink_to(w.parent)
    assert refused(lambda: roots.resolve(str(w / "sub" / "secret"))) == "outside"


def test_roots_are_compared_by_what_the_client_said() -> None:
    assert Roots("/w", ["/a"]) == Roots("/w", ("/a",))
    assert Roots("/w") != Roots("/w", ["/a"])
    assert "real" not in repr(Roots("/w"))


# ------------------------------------------------------------------------------------------------------ opening


def read(roots: Roots, path: str) -> str:
    directory, name, _ = roots.open_parent(path)
    try:
        with open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=directory)) as file:
            return file.read()
    finally:
        os.close(directory)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_the_directory_of_a_file_is_opened(w: Path) -> None:
    (w / "here").symlink_to("ok")
    roots = Roots(str(w))
    directory, name, real = roots.open_parent(str(w / "here" / "f"))
    try:
        assert (name, real) == ("f", str(w / "ok" / "f"))
        assert os.path.samestat(os.fstat(directory), os.stat(w / "ok"))
        assert not os.get_inheritable(directory)
    finally:
        os.close(directory)
    assert read(roots, "here/f") == "inside"


def test_missing_directories_are_made_only_when_asked_for(w: Path) -> None:
    roots = Roots(str(w))
    with pytest.raises(FileNotFoundError):
        roots.open_parent("a/b/c")
    assert not (w / "a").exists()
    directory, name, _ = roots.open_parent("a/b/c", create=True)
    os.close(directory)
    assert (name, (w / "a" / "b").is_dir()) == ("c", True)
    with pytest.raises(NotADirectoryError):
        roots.open_parent("ok/f/g", create=True)


def test_a_root_has_no_parent_to_open(w: Path) -> None:
    with pytest.raises(IsADirectoryError):
        Roots(str(w)).open_parent(str(w))


@pytest.mark.spec("SETUP-66")
@pytest.mark.field_note(65)
@pytest.mark.parametrize("create", [False, True])
def test_a_directory_exchanged_for_a_link_between_check_and_use_is_refused(
    w: Path, monkeypatch: pytest.MonkeyPatch, create: bool
) -> None:
    (w / "ok" / "deep").mkdir()
    roots = Roots(str(w))
    resolve = Roots._locate
    before = descriptors()

    def exchanged(self: Roots, path: str) -> tuple[str, str]:
        found = resolve(self, path)
        (w / "ok").rename(w / "was")
        (w / "ok").symlink_to(w.parent)
        return found

    monkeypatch.setattr(Roots, "_locate", exchanged)
    assert refused(lambda: roots.open_parent("ok/secret", create=create)) == "changed while it was opened"
    assert descriptors() == before


@pytest.mark.spec("SETUP-66")
def test_a_directory_between_two_roots_exchanged_for_a_link_is_refused(
    w: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (w / "ok" / "sub").mkdir()
    (w.parent / "w2" / "sub").mkdir()
    (w.parent / "w2" / "sub" / "f").write_text("outside")
    roots = Roots(str(w / "ok" / "sub"), [str(w)])
    resolve = Roots._locate

    def exchanged(self: Roots, path: str) -> tuple[str, str]:
        found = resolve(self, path)
        (w / "ok").rename(w / "was")
        (w / "ok").symlink_to(w.parent / "w2")
        return found

    monkeypatch.setattr(Roots, "_locate", exchanged)
    assert refused(lambda: read(roots, "f")) == "changed while it was opened"


@pytest.mark.spec("SETUP-66")
def test_a_link_that_appears_where_a_directory_is_about_to_be_made_is_refused(
    w: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir = os.mkdir

    def slow(path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        (w / "new").symlink_to(w.parent)
        mkdir(path, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", slow)
    assert refused(lambda: Roots(str(w)).open_parent("new/secret", create=True)) == "changed while it was opened"


@pytest.mark.spec("SETUP-66")
@pytest.mark.field_note(65)
def test_somebody_who_keeps_exchanging_a_directory_for_a_link_never_wins(w: Path) -> None:
    """A thread swaps ``d`` between a directory and a link out, as fast as it can, while the file in it is read."""
    (w / "d").mkdir()
    (w / "d" / "secret").write_text("harmless")
    (w / "link").symlink_to(w.parent)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.rename(w / "d", w / "dir")
            os.rename(w / "link", w / "d")
            os.rename(w / "d", w / "link")
            os.rename(w / "dir", w / "d")

    roots = Roots(str(w))
    thread = threading.Thread(target=swap)
    thread.start()
    outcomes: dict[str, int] = {}
    try:
        for _ in range(3000):
            try:
                outcome = read(roots, "d/secret")
            except OutsideRoots:
                outcome = "refused"
            except OSError as exc:
                outcome = errno.errorcode[exc.errno or 0]
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
    finally:
        stop.set()
        thread.join()
    assert outcomes.get("harmless", 0) > 0
    assert "secret" not in outcomes
    assert set(outcomes) <= {"harmless", "ENOENT", "ENOTDIR", "refused"}


def test_no_descriptor_is_left_by_what_fails(w: Path) -> None:
    (w / "a" / "b").mkdir(parents=True)
    roots = Roots(str(w))
    before = descriptors()
    for path in ("a/b/c/d", "a/b/../../ok/f/g/h", "missing/x", "../secret", "."):
        with pytest.raises((OSError, OutsideRoots)):
            roots.open_parent(path)
    assert descriptors() == before
