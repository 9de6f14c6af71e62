"""Working Directory: the roots of a session, and what is inside them.

https://agentclientprotocol.com/protocol/session-setup#working-directory

A session has a working directory, the base of relative paths, and may have additional roots (SETUP-57, SETUP-58).
Paths are absolute on the wire (GEN-09), in the manner of any platform, because the peer may run on another one; they
are resolved only by the side that owns the files (D-26).

Theory of operation. Whether a path is inside is a question about real paths (SETUP-66): every symbolic link is
followed first, component by component, and ``..`` means what it means to the kernel, the parent of where a link led.
What cannot be resolved for certain is outside. The answer of :meth:`Roots.resolve` can be outdated as soon as it is
given: whoever may write inside the roots may put a link where a directory was. :meth:`Roots.open_parent` therefore
opens what was resolved step by step, by directory descriptors and following no link at all, beginning at the
outermost root; a link that was put in its way ends it. The roots themselves are pinned when the session is set up.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterable
from itertools import islice
from typing import Final

import attrs

from acp_ref.errors import ErrorCode, RequestError

__all__ = [
    "OutsideRoots",
    "Roots",
    "check_additional_directories",
    "check_cwd",
    "distinct_directories",
    "is_absolute",
    "same_directory",
]

_ABSOLUTE: Final = re.compile(r"/|[A-Za-z]:[\\/]|\\\\[^\\/]+[\\/]+[^\\/]")
"""POSIX; a Windows drive and a separator (``C:x`` is relative to the drive's directory); UNC: server and share."""

MAX_FAULTS: Final = 20
"""The most directories that one error names."""

MAX_LINKS: Final = 40
"""The most symbolic links in one path, as in Linux. It ends loops."""


class OutsideRoots(RequestError):
    """-32602: ``path`` is not, or not for certain, inside the session's roots (SETUP-59, SETUP-67)."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(ErrorCode.INVALID_PARAMS, "Path outside the session's roots", {"path": path, "reason": reason})


def is_absolute(path: str) -> bool:
    """Whether ``path`` is absolute on some platform (GEN-09): ``/a``, ``C:\\a``, ``C:/a`` or ``\\\\server\\share``."""
    return _ABSOLUTE.match(path) is not None


def _fault(directory: object) -> str | None:
    if not isinstance(directory, str):
        return "expected string"
    if not is_absolute(directory):
        return "must be absolute"
    return "must not contain NUL" if "\0" in directory else None


def check_cwd(cwd: object) -> str:
    """``cwd``, when it is an absolute path (SETUP-18). It need not exist; ``~`` is not expanded.

    Raises:
      RequestError: -32602, it is none.
    """
    fault = _fault(cwd)
    if fault is not None or not isinstance(cwd, str):
        raise RequestError.invalid_params(f"$.cwd: {fault}")
    return cwd


def check_additional_directories(directories: object) -> tuple[str, ...]:
    """``directories``, when they are absolute paths, one and all (SETUP-61, SETUP-64).

    Raises:
      RequestError: -32602, with every entry that is none, or the first ones of many. No entry is ever dropped.
    """
    where = "$.additionalDirectories"
    if not isinstance(directories, (list, tuple)):
        raise RequestError.invalid_params(f"{where}: expected array")
    entries: list[object] = [*directories]
    faults = (f"{where}[{index}]: {fault}" for index, entry in enumerate(entries) if (fault := _fault(entry)))
    if told := [*islice(faults, MAX_FAULTS)]:
        raise RequestError.invalid_params(*told)
    return tuple(entry for entry in entries if isinstance(entry, str))


def distinct_directories(cwd: str, directories: Iterable[str]) -> list[str]:
    """``directories`` without exact duplicates and copies of ``cwd``, in order: what a client sends (SETUP-68)."""
    return [directory for directory in dict.fromkeys(directories) if directory != cwd]


def same_directory(one: str, other: str) -> bool:
    """Whether the paths are equal but for trailing slashes (D-14). It looks at no file system."""

    def bare(path: str) -> str:
        return path.rstrip("/" if path.startswith("/") else "/\\")

    return bare(one) == bare(other)


def _real_path(path: str) -> str:
    """Where ``path``, absolute here, really leads; it need not exist to its end.

    Raises:
      OutsideRoots: that cannot be told for certain.
    """
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise OutsideRoots(path, "not a path") from None
    if "\0" in path:
        raise OutsideRoots(path, "not a path")
    if os.name == "nt":
        return os.path.realpath(path)
    ahead = path.split("/")[::-1]
    real = ""
    links = 0
    in_directory = True  # whether `real` is one, so that there may be links below it and `..` leads out of it
    while ahead:
        name = ahead.pop()
        if name in ("", "."):
            continue
        if name == "..":
            if not in_directory:
                raise OutsideRoots(path, "'..' after what is no directory")
            real = real.rpartition("/")[0]
            continue
        here = f"{real}/{name}"
        if in_directory:
            try:
                mode = os.lstat(here).st_mode
                target = os.readlink(here) if stat.S_ISLNK(mode) else None
            except (FileNotFoundError, NotADirectoryError):
                in_directory = False
            except OSError as exc:
                raise OutsideRoots(path, f"cannot be resolved: {exc.strerror}") from None
            else:
                if target is not None:
                    links += 1
                    if links > MAX_LINKS:
                        raise OutsideRoots(path, "too many symbolic links")
                    ahead += target.split("/")[::-1]
                    if target.startswith("/"):
                        real = ""
                    continue
                in_directory = stat.S_ISDIR(mode)
        real = here
    return real or "/"


def _is_inside(path: str, root: str) -> bool:
    """Component by component: ``/src2`` is not inside ``/src``; case counts where it does on the platform."""
    path, root = os.path.normcase(path), os.path.normcase(root)
    return path == root or path.startswith(root if root.endswith(os.sep) else root + os.sep)


def _real_roots(roots: Roots) -> tuple[str, ...]:
    """The real paths of ``roots``, the outermost first."""
    real: list[str] = []
    for root in roots.roots:
        if os.path.isabs(root):  # a root of another platform has nothing of ours inside
            with contextlib.suppress(OutsideRoots):  # and neither has one that leads nowhere for certain
                real.append(_real_path(root))
    return tuple(sorted(real, key=len))


@attrs.frozen
class Roots:
    """The working directory of a session and its additional roots.

    Raises:
      RequestError: -32602 from the constructor, when one of them is not absolute.
    """

    cwd: str = attrs.field(converter=check_cwd)
    """The session's directory, whatever the process's own is (SETUP-19)."""
    additional_directories: tuple[str, ...] = attrs.field(converter=check_additional_directories, default=())
    """The other roots, as the client sent them."""
    _real: tuple[str, ...] = attrs.field(
        init=False, eq=False, repr=False, default=attrs.Factory(_real_roots, takes_self=True)
    )

    @property
    def roots(self) -> tuple[str, ...]:
        """All roots, the working directory first (SETUP-58, SETUP-59)."""
        return (self.cwd, *self.additional_directories)

    def resolve(self, path: str) -> str:
        """The real path of ``path``, which is inside the roots; a relative one counts from ``cwd`` (SETUP-57).

        It need not exist. To open what it names, when others may change what is inside the roots, use
        :meth:`open_parent`. This reads the file system: call it in a thread where that may be slow.

        Raises:
          OutsideRoots: it is outside, or that cannot be told for certain.
        """
        real, _ = self._locate(path)
        return real

    def _locate(self, path: str) -> tuple[str, str]:
        """The real path of ``path`` and the outermost root that it is inside."""
        full = path if is_absolute(path) else f"{self.cwd}{os.sep}{path}"
        if not os.path.isabs(full):
            raise OutsideRoots(full, "not a path of this platform")
        real = _real_path(full)
        for root in self._real:  # the shortest first
            if _is_inside(real, root):
                return real, root
        raise OutsideRoots(full, "outside")

    def contains(self, path: str) -> bool:
        """Whether :meth:`resolve` finds ``path`` inside the roots (SETUP-20)."""
        try:
            self.resolve(path)
        except OutsideRoots:
            return False
        return True

    def open_parent(self, path: str, *, create: bool = False) -> tuple[int, str, str]:
        """Open the directory that holds what ``path`` names; follow no link on the way, not even a new one.

        Open the file itself relative to the descriptor and with ``O_NOFOLLOW``. ``create`` makes missing directories
        (D-25). Not on Windows, which has no directory descriptors.

        Returns:
          The directory's descriptor, which the caller closes, the name in it, and the real path of both.

        Raises:
          OutsideRoots: ``path`` is outside, or what it names was exchanged meanwhile.
          IsADirectoryError: ``path`` is a root itself.
          OSError: there is no such directory, or it cannot be opened.
        """
        if os.name == "nt":
            raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
        real, root = self._locate(path)
        if real == root:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        *directories, name = real[len(root) :].strip("/").split("/")
        fd = _open_directory(path, root, None, create)
        for directory in directories:
            outer = fd
            try:
                fd = _open_directory(path, directory, outer, create)
            finally:
                os.close(outer)
        return fd, name, real


# O_PATH, where there is one, asks for no permission to read what is only passed through.
_PASS_THROUGH: Final[int] = (
    getattr(os, "O_PATH", os.O_RDONLY)
    | getattr(os, "O_DIRECTORY", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
)


def _open_directory(path: str, name: str, outer: int | None, create: bool) -> int:
    """The directory ``name`` in ``outer``, made when it is missing and may be."""
    try:
        return os.open(name, _PASS_THROUGH, dir_fd=outer)
    except FileNotFoundError:
        if not create:
            raise
    except NotADirectoryError:
        _refuse_link(path, name, outer)
        raise
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, dir_fd=outer)
    try:
        return os.open(name, _PASS_THROUGH, dir_fd=outer)
    except OSError:
        _refuse_link(path, name, outer)
        raise


def _refuse_link(path: str, name: str, outer: int | None) -> None:
    """No link was there a moment ago."""
    if stat.S_ISLNK(os.stat(name, dir_fd=outer, follow_symlinks=False).st_mode):
        raise OutsideRoots(path, "changed while it was opened") from None
