"""Windows job objects: a child and all that it starts, to be counted and ended as one.

https://learn.microsoft.com/windows/win32/procthread/job-objects

A job is to Windows what a process group is to POSIX, and more. Nobody in it is missed because his parent went first,
and when the last handle to it is closed the kernel ends its members: so they go with us when we are killed ourselves.
Who asks to leave (CREATE_BREAKAWAY_FROM_JOB) may, as by setsid() on POSIX; few do, so a browser that a member is the
first to open most likely ends with it. Jobs nest, so we may be in one ourselves.

Only what a member starts becomes one. So a child is started suspended, put into its job, and resumed: there is no time
in which it could start something outside. The handle of its first thread, by which it would be resumed, is closed by
subprocess, so the thread is looked up in a snapshot of all threads of the system, which takes some milliseconds.

Here are calls and layouts only, and what they are used for is in :mod:`acp_ref._processes`. The types are those of the
Windows headers, spelled such that they have the same sizes on every platform: tests call this with a kernel of theirs.
"""

from __future__ import annotations

import ctypes
import errno
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from ctypes import c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p, c_wchar_p
from functools import cache
from typing import Final

__all__ = ["CREATE_SUSPENDED", "Kernel", "KernelJob"]

CREATE_SUSPENDED: Final = 0x0004

JOB_BASIC_ACCOUNTING_INFORMATION: Final = 1
JOB_EXTENDED_LIMIT_INFORMATION: Final = 9
JOB_LIMIT_BREAKAWAY_OK: Final = 0x0800
JOB_LIMIT_KILL_ON_JOB_CLOSE: Final = 0x2000
PROCESS_TERMINATE: Final = 0x0001
PROCESS_SET_QUOTA: Final = 0x0100
SNAPSHOT_THREADS: Final = 0x0004
THREAD_SUSPEND_RESUME: Final = 0x0002

INVALID_HANDLE: Final = c_void_p(-1).value
NOT_RESUMED: Final = 0xFFFFFFFF

EXIT_STATUS: Final = 1
"""What a process ends with that is terminated, as from ``Popen.terminate``."""

# The fields are set below each class: inside it, they would be an override of what ctypes declares as mutable.


class BasicLimits(ctypes.Structure):
    """JOBOBJECT_BASIC_LIMIT_INFORMATION

    https://learn.microsoft.com/windows/win32/api/winnt/ns-winnt-jobobject_basic_limit_information
    """

    limit_flags: int


BasicLimits._fields_ = (
    ("per_process_user_time_limit", c_int64),
    ("per_job_user_time_limit", c_int64),
    ("limit_flags", c_uint32),
    ("minimum_working_set_size", c_size_t),
    ("maximum_working_set_size", c_size_t),
    ("active_process_limit", c_uint32),
    ("affinity", c_size_t),
    ("priority_class", c_uint32),
    ("scheduling_class", c_uint32),
)


class IoCounters(ctypes.Structure):
    """IO_COUNTERS

    https://learn.microsoft.com/windows/win32/api/winnt/ns-winnt-io_counters
    """


IoCounters._fields_ = (
    ("read_operation_count", c_uint64),
    ("write_operation_count", c_uint64),
    ("other_operation_count", c_uint64),
    ("read_transfer_count", c_uint64),
    ("write_transfer_count", c_uint64),
    ("other_transfer_count", c_uint64),
)


class ExtendedLimits(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION

    https://learn.microsoft.com/windows/win32/api/winnt/ns-winnt-jobobject_extended_limit_information
    """

    basic: BasicLimits


ExtendedLimits._fields_ = (
    ("basic", BasicLimits),
    ("io_info", IoCounters),
    ("process_memory_limit", c_size_t),
    ("job_memory_limit", c_size_t),
    ("peak_process_memory_used", c_size_t),
    ("peak_job_memory_used", c_size_t),
)


class BasicAccounting(ctypes.Structure):
    """JOBOBJECT_BASIC_ACCOUNTING_INFORMATION

    https://learn.microsoft.com/windows/win32/api/winnt/ns-winnt-jobobject_basic_accounting_information
    """

    active_processes: int


BasicAccounting._fields_ = (
    ("total_user_time", c_int64),
    ("total_kernel_time", c_int64),
    ("this_period_total_user_time", c_int64),
    ("this_period_total_kernel_time", c_int64),
    ("total_page_fault_count", c_uint32),
    ("total_processes", c_uint32),
    ("active_processes", c_uint32),
    ("total_terminated_processes", c_uint32),
)


class ThreadEntry(ctypes.Structure):
    """THREADENTRY32

    https://learn.microsoft.com/windows/win32/api/tlhelp32/ns-tlhelp32-threadentry32
    """

    size: int
    thread_id: int
    owner_process_id: int


ThreadEntry._fields_ = (
    ("size", c_uint32),
    ("usage", c_uint32),
    ("thread_id", c_uint32),
    ("owner_process_id", c_uint32),
    ("base_priority", c_int32),
    ("delta_priority", c_int32),
    ("flags", c_uint32),
)


class Kernel:
    """The functions of kernel32.dll that jobs need.

    Args:
      library: has the functions under their own names. Their types are set on it, so it must be nobody else's.
      last_error: the error of the function that failed last in this thread.
    """

    def __init__(self, library: ctypes.CDLL, last_error: Callable[[], OSError]) -> None:
        self.library: Final = library
        self._last_error = last_error
        library.CreateJobObjectW.restype = c_void_p
        library.CreateJobObjectW.argtypes = (c_void_p, c_wchar_p)
        library.SetInformationJobObject.restype = c_int
        library.SetInformationJobObject.argtypes = (c_void_p, c_int, c_void_p, c_uint32)
        library.AssignProcessToJobObject.restype = c_int
        library.AssignProcessToJobObject.argtypes = (c_void_p, c_void_p)
        library.QueryInformationJobObject.restype = c_int
        library.QueryInformationJobObject.argtypes = (c_void_p, c_int, c_void_p, c_uint32, c_void_p)
        library.TerminateJobObject.restype = c_int
        library.TerminateJobObject.argtypes = (c_void_p, c_uint32)
        library.OpenProcess.restype = c_void_p
        library.OpenProcess.argtypes = (c_uint32, c_int, c_uint32)
        library.CreateToolhelp32Snapshot.restype = c_void_p
        library.CreateToolhelp32Snapshot.argtypes = (c_uint32, c_uint32)
        library.Thread32First.restype = c_int
        library.Thread32First.argtypes = (c_void_p, c_void_p)
        library.Thread32Next.restype = c_int
        library.Thread32Next.argtypes = (c_void_p, c_void_p)
        library.OpenThread.restype = c_void_p
        library.OpenThread.argtypes = (c_uint32, c_int, c_uint32)
        library.ResumeThread.restype = c_uint32
        library.ResumeThread.argtypes = (c_void_p,)
        library.CloseHandle.restype = c_int
        library.CloseHandle.argtypes = (c_void_p,)

    def new_job(self, pid: int) -> KernelJob:
        """A job with the process ``pid``, whose end nobody has waited for yet, or the id may be another's by now.

        Raises:
          OSError: it cannot be in a job of ours. It runs, or is suspended, as before.
        """
        job = KernelJob(self, self.opened(self.library.CreateJobObjectW(None, None)))  # no child inherits this handle
        try:
            job.limit(JOB_LIMIT_KILL_ON_JOB_CLOSE | JOB_LIMIT_BREAKAWAY_OK)
            job.add(pid)
        except BaseException:
            job.close()
            raise
        return job

    def resume(self, pid: int) -> None:
        """Let the process ``pid`` run that was started suspended.

        Raises:
          OSError: no thread of it was found, or none can be resumed. One of several may be gone by now: other programs
            put theirs into new processes.
        """
        error: OSError = ProcessLookupError(errno.ESRCH, f"process {pid} has no thread")
        resumed = False
        for thread_id in self._threads(pid):
            try:
                with self.closing(self.library.OpenThread(THREAD_SUSPEND_RESUME, False, thread_id)) as thread:
                    self.check(self.library.ResumeThread(thread) != NOT_RESUMED)
                resumed = True
            except OSError as exc:
                error = exc
        if not resumed:
            raise error

    def _threads(self, pid: int) -> Sequence[int]:
        """The ids of the threads of ``pid``: its first one, and what some other program may have put into it."""
        threads: list[int] = []
        entry = ThreadEntry(size=ctypes.sizeof(ThreadEntry))
        with self.closing(self.library.CreateToolhelp32Snapshot(SNAPSHOT_THREADS, 0)) as snapshot:
            more = self.library.Thread32First(snapshot, ctypes.byref(entry))
            while more:
                if entry.owner_process_id == pid:
                    threads.append(entry.thread_id)
                more = self.library.Thread32Next(snapshot, ctypes.byref(entry))
        return threads

    def opened(self, handle: int | None) -> int:
        """``handle``, when it is one. Raises OSError."""
        if handle is None or handle == INVALID_HANDLE:
            raise self._last_error()
        return handle

    @contextmanager
    def closing(self, handle: int | None) -> Generator[int]:
        """``handle``, when it is one, for the time of the ``with`` block. Raises OSError."""
        handle = self.opened(handle)
        try:
            yield handle
        finally:
            self.library.CloseHandle(handle)

    def check(self, succeeded: bool) -> None:
        """Raise the last error, unless the function ``succeeded``."""
        if not succeeded:
            raise self._last_error()


class KernelJob:
    """A job object; a :class:`~acp_ref._processes.Job`. Made by :meth:`Kernel.new_job`."""

    def __init__(self, kernel: Kernel, handle: int) -> None:
        self._kernel = kernel
        self._handle: int | None = handle

    def limit(self, flags: int) -> None:
        """Set the limits that ``flags`` names. Raises OSError."""
        limits = ExtendedLimits()
        limits.basic.limit_flags = flags
        self._kernel.check(
            self._kernel.library.SetInformationJobObject(
                self._handle, JOB_EXTENDED_LIMIT_INFORMATION, ctypes.byref(limits), ctypes.sizeof(limits)
            )
        )

    def add(self, pid: int) -> None:
        """Make the process ``pid`` a member. Raises OSError."""
        with self._kernel.closing(
            self._kernel.library.OpenProcess(PROCESS_SET_QUOTA | PROCESS_TERMINATE, False, pid)
        ) as process:
            self._kernel.check(self._kernel.library.AssignProcessToJobObject(self._handle, process))

    def has_members(self) -> bool:
        """Whether a member lives. Raises OSError."""
        accounting = BasicAccounting()
        self._kernel.check(
            self._kernel.library.QueryInformationJobObject(
                self._handle,
                JOB_BASIC_ACCOUNTING_INFORMATION,
                ctypes.byref(accounting),
                ctypes.sizeof(accounting),
                None,
            )
        )
        return accounting.active_processes > 0

    def terminate(self) -> None:
        """End all members, which takes them a moment. Raises OSError."""
        self._kernel.check(self._kernel.library.TerminateJobObject(self._handle, EXIT_STATUS))

    def close(self) -> None:
        """Let go of the job, which ends the members that there are. Idempotent; it is the last call."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._kernel.library.CloseHandle(handle)


if sys.platform == "win32":

    @cache
    def kernel() -> Kernel:
        """The kernel of this system."""
        library = ctypes.WinDLL("kernel32", use_last_error=True)
        return Kernel(library, lambda: ctypes.WinError(ctypes.get_last_error()))
