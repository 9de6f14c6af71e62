"""Windows job objects: each call into the kernel, as it arrives at a kernel that is ours.

The functions of this kernel are real C functions with the types of Microsoft's documentation, written down here once
more. So an argument of the wrong width, or a structure with a field in the wrong place, does not arrive as it was sent.
"""

from __future__ import annotations

import ctypes
import errno
import importlib.util
import struct
from collections.abc import Iterator, Sequence
from ctypes import CFUNCTYPE, c_int, c_size_t, c_uint32, c_void_p
from types import ModuleType
from typing import Final

import pytest

from acp_ref import _windows_jobs
from acp_ref._windows_jobs import BasicAccounting, BasicLimits, ExtendedLimits, IoCounters, Kernel, ThreadEntry

HANDLE: Final = c_void_p
POINTER: Final = c_void_p
BOOL: Final = c_int
ENUM: Final = c_int
DWORD: Final = c_uint32

PID: Final = 0xFFFF_FFF8
"""Ids are unsigned, and multiples of four."""

JOB: Final = 0x7A00_0000_0010
PROCESS: Final = 0x7A00_0000_0020
SNAPSHOT: Final = 0x7A00_0000_0030
THREAD: Final = 0x7A00_0000_0040
INVALID: Final = 0xFFFF_FFFF_FFFF_FFFF

KILL_ON_JOB_CLOSE_AND_BREAKAWAY_OK: Final = 0x2800
SET_QUOTA_AND_TERMINATE: Final = 0x0101
SUSPEND_RESUME: Final = 0x0002
ONLY_THREADS: Final = 0x0004


class FakeKernel32(ctypes.CDLL):
    """A kernel32.dll with the functions that jobs need, and no other."""

    def __init__(self) -> None:
        super().__init__(None)
        self.calls: list[tuple[object, ...]] = []
        """The calls that were made, with what was behind their pointers."""
        self.failing = ""
        """The function that fails."""
        self.opened: list[int] = []
        """The handles that are open."""
        self.active_processes = 1
        self.threads: Sequence[tuple[int, int]] = [(4, 8), (PID, 12), (4, 16), (PID, 20)]
        """All threads of the system: whose it is, and its id."""
        self.gone: set[int] = set()
        """Threads that have ended by the time they are opened."""
        self._left: Iterator[tuple[int, int]] = iter(())
        self.CreateJobObjectW = CFUNCTYPE(HANDLE, POINTER, POINTER)(self._create_job)
        self.SetInformationJobObject = CFUNCTYPE(BOOL, HANDLE, ENUM, POINTER, DWORD)(self._set_information)
        self.AssignProcessToJobObject = CFUNCTYPE(BOOL, HANDLE, HANDLE)(self._assign)
        self.QueryInformationJobObject = CFUNCTYPE(BOOL, HANDLE, ENUM, POINTER, DWORD, POINTER)(self._query)
        self.TerminateJobObject = CFUNCTYPE(BOOL, HANDLE, c_uint32)(self._terminate)
        self.OpenProcess = CFUNCTYPE(HANDLE, DWORD, BOOL, DWORD)(self._open_process)
        self.CreateToolhelp32Snapshot = CFUNCTYPE(HANDLE, DWORD, DWORD)(self._snapshot)
        self.Thread32First = CFUNCTYPE(BOOL, HANDLE, POINTER)(self._first_thread)
        self.Thread32Next = CFUNCTYPE(BOOL, HANDLE, POINTER)(self._next_thread)
        self.OpenThread = CFUNCTYPE(HANDLE, DWORD, BOOL, DWORD)(self._open_thread)
        self.ResumeThread = CFUNCTYPE(DWORD, HANDLE)(self._resume_thread)
        self.CloseHandle = CFUNCTYPE(BOOL, HANDLE)(self._close)

    def _call(self, name: str, *arguments: object) -> bool:
        self.calls.append((name, *arguments))
        return name != self.failing

    def _open(self, handle: int, name: str, *arguments: object, or_else: int | None = None) -> int | None:
        if not self._call(name, *arguments):
            return or_else
        self.opened.append(handle)
        return handle

    def _create_job(self, attributes: int | None, name: int | None) -> int | None:
        return self._open(JOB, "CreateJobObjectW", attributes, name)

    def _set_information(self, job: int, kind: int, information: int, length: int) -> bool:
        return self._call("SetInformationJobObject", job, kind, ctypes.string_at(information, length))

    def _assign(self, job: int, process: int) -> bool:
        return self._call("AssignProcessToJobObject", job, process)

    def _query(self, job: int, kind: int, information: int, length: int, returned: int | None) -> bool:
        answer = struct.pack("=qqqqIIII", 1, 2, 3, 4, 5, 6, self.active_processes, 8)
        ctypes.memmove(information, answer, length)
        return self._call("QueryInformationJobObject", job, kind, length, returned)

    def _terminate(self, job: int, exit_status: int) -> bool:
        return self._call("TerminateJobObject", job, exit_status)

    def _open_process(self, access: int, inherit: int, pid: int) -> int | None:
        return self._open(PROCESS, "OpenProcess", access, inherit, pid)

    def _snapshot(self, flags: int, pid: int) -> int | None:
        self._left = iter(self.threads)
        return self._open(SNAPSHOT, "CreateToolhelp32Snapshot", flags, pid, or_else=INVALID)

    def _first_thread(self, snapshot: int, entry: int) -> bool:
        return self._call("Thread32First", snapshot) and self._tell_thread(entry)

    def _next_thread(self, snapshot: int, entry: int) -> bool:
        assert snapshot == SNAPSHOT
        return self._tell_thread(entry)

    def _tell_thread(self, entry: int) -> bool:
        assert struct.unpack("=I", ctypes.string_at(entry, 4)) == (28,)
        for owner, thread in self._left:
            ctypes.memmove(entry, struct.pack("=IIIIiiI", 28, 0, thread, owner, 8, 0, 0), 28)
            return True
        return False

    def _open_thread(self, access: int, inherit: int, thread: int) -> int | None:
        handle = self._open(THREAD, "OpenThread", access, inherit, thread)
        if thread in self.gone and handle is not None:
            self.opened.remove(handle)
            return None
        return handle

    def _resume_thread(self, thread: int) -> int:
        return 1 if self._call("ResumeThread", thread) else 0xFFFF_FFFF

    def _close(self, handle: int) -> bool:
        self.opened.remove(handle)
        return True


@pytest.fixture
def kernel32() -> Iterator[FakeKernel32]:
    library = FakeKernel32()
    yield library
    assert library.opened == []


def kernel_of(library: FakeKernel32) -> Kernel:
    return Kernel(library, lambda: PermissionError(errno.EACCES, f"{library.calls[-1][0]} was refused"))


# ------------------------------------------------------------------------------------------------------------- layouts

LAYOUTS: Final[Sequence[tuple[type[ctypes.Structure], int, int, Sequence[tuple[str, int, int]]]]] = [
    (
        BasicLimits,
        64,
        48,
        [
            ("per_process_user_time_limit", 0, 0),
            ("per_job_user_time_limit", 8, 8),
            ("limit_flags", 16, 16),
            ("minimum_working_set_size", 24, 20),
            ("maximum_working_set_size", 32, 24),
            ("active_process_limit", 40, 28),
            ("affinity", 48, 32),
            ("priority_class", 56, 36),
            ("scheduling_class", 60, 40),
        ],
    ),
    (
        IoCounters,
        48,
        48,
        [
            ("read_operation_count", 0, 0),
            ("write_operation_count", 8, 8),
            ("other_operation_count", 16, 16),
            ("read_transfer_count", 24, 24),
            ("write_transfer_count", 32, 32),
            ("other_transfer_count", 40, 40),
        ],
    ),
    (
        ExtendedLimits,
        144,
        112,
        [
            ("basic", 0, 0),
            ("io_info", 64, 48),
            ("process_memory_limit", 112, 96),
            ("job_memory_limit", 120, 100),
            ("peak_process_memory_used", 128, 104),
            ("peak_job_memory_used", 136, 108),
        ],
    ),
    (
        BasicAccounting,
        48,
        48,
        [
            ("total_user_time", 0, 0),
            ("total_kernel_time", 8, 8),
            ("this_period_total_user_time", 16, 16),
            ("this_period_total_kernel_time", 24, 24),
            ("total_page_fault_count", 32, 32),
            ("total_processes", 36, 36),
            ("active_processes", 40, 40),
            ("total_terminated_processes", 44, 44),
        ],
    ),
    (
        ThreadEntry,
        28,
        28,
        [
            ("size", 0, 0),
            ("usage", 4, 4),
            ("thread_id", 8, 8),
            ("owner_process_id", 12, 12),
            ("base_priority", 16, 16),
            ("delta_priority", 20, 20),
            ("flags", 24, 24),
        ],
    ),
]
"""Of winnt.h and tlhelp32.h: each structure, its size and the places of its fields, on 64 and on 32 bits."""


@pytest.mark.skipif(ctypes.sizeof(c_size_t) != 8, reason="a system of 32 bits")
@pytest.mark.parametrize(("structure", "size", "narrow_size", "places"), LAYOUTS)
def test_structures_are_laid_out_as_in_the_headers_of_windows(
    structure: type[ctypes.Structure],
    size: int,
    narrow_size: int,
    places: Sequence[tuple[str, int, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ctypes, "c_size_t", c_uint32)
    narrow = getattr(a_second_copy_of_the_module(), structure.__name__)
    assert [(name, getattr(structure, name).offset, getattr(narrow, name).offset) for name, *_ in places] == places
    assert [name for name, *_ in structure._fields_] == [name for name, *_ in places]
    assert ctypes.sizeof(structure) == size
    assert ctypes.sizeof(narrow) == narrow_size


def a_second_copy_of_the_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("a_second_copy", _windows_jobs.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --------------------------------------------------------------------------------------------------------- a job's life


def test_a_job_ends_its_members_with_us_and_that_is_set_before_it_has_any(kernel32: FakeKernel32) -> None:
    job = kernel_of(kernel32).new_job(PID)
    limits = bytearray(144)
    limits[16:20] = struct.pack("=I", KILL_ON_JOB_CLOSE_AND_BREAKAWAY_OK)
    assert kernel32.calls == [
        ("CreateJobObjectW", None, None),  # so that no child inherits the handle, and no other program opens it
        ("SetInformationJobObject", JOB, 9, bytes(limits)),
        ("OpenProcess", SET_QUOTA_AND_TERMINATE, False, PID),
        ("AssignProcessToJobObject", JOB, PROCESS),
    ]
    assert kernel32.opened == [JOB]
    job.close()


@pytest.mark.parametrize(
    "function", ["CreateJobObjectW", "SetInformationJobObject", "OpenProcess", "AssignProcessToJobObject"]
)
def test_a_job_that_cannot_be_made_leaves_no_handle_and_says_why(kernel32: FakeKernel32, function: str) -> None:
    kernel32.failing = function
    with pytest.raises(PermissionError, match=f"{function} was refused"):
        kernel_of(kernel32).new_job(PID)
    assert kernel32.opened == []


@pytest.mark.parametrize("members", [0, 1, 2])
def test_a_job_knows_whether_a_member_lives(kernel32: FakeKernel32, members: int) -> None:
    job = kernel_of(kernel32).new_job(PID)
    kernel32.active_processes = members
    kernel32.calls.clear()
    assert job.has_members() is (members > 0)
    assert kernel32.calls == [("QueryInformationJobObject", JOB, 1, 48, None)]
    job.close()


def test_all_members_of_a_job_are_ended_by_one_call(kernel32: FakeKernel32) -> None:
    job = kernel_of(kernel32).new_job(PID)
    kernel32.calls.clear()
    job.terminate()
    assert kernel32.calls == [("TerminateJobObject", JOB, 1)]
    job.close()


def test_what_is_refused_to_a_job_is_an_error(kernel32: FakeKernel32) -> None:
    job = kernel_of(kernel32).new_job(PID)
    kernel32.failing = "QueryInformationJobObject"
    with pytest.raises(PermissionError, match="QueryInformationJobObject was refused"):
        job.has_members()
    kernel32.failing = "TerminateJobObject"
    with pytest.raises(PermissionError, match="TerminateJobObject was refused"):
        job.terminate()
    job.close()


def test_a_job_may_be_closed_twice(kernel32: FakeKernel32) -> None:
    job = kernel_of(kernel32).new_job(PID)
    job.close()
    job.close()


# ------------------------------------------------------------------------------------------------------------ resuming


def test_all_threads_of_the_process_are_resumed_and_no_others(kernel32: FakeKernel32) -> None:
    kernel_of(kernel32).resume(PID)
    assert kernel32.calls == [
        ("CreateToolhelp32Snapshot", ONLY_THREADS, 0),
        ("Thread32First", SNAPSHOT),
        ("OpenThread", SUSPEND_RESUME, False, 12),
        ("ResumeThread", THREAD),
        ("OpenThread", SUSPEND_RESUME, False, 20),
        ("ResumeThread", THREAD),
    ]


@pytest.mark.parametrize("function", ["CreateToolhelp32Snapshot", "OpenThread", "ResumeThread"])
def test_a_process_that_cannot_be_resumed_is_an_error(kernel32: FakeKernel32, function: str) -> None:
    kernel32.failing = function
    with pytest.raises(PermissionError, match=f"{function} was refused"):
        kernel_of(kernel32).resume(PID)


def test_a_thread_that_is_gone_by_now_is_passed_over(kernel32: FakeKernel32) -> None:
    kernel32.gone = {12}
    kernel_of(kernel32).resume(PID)
    assert kernel32.calls[-2:] == [("OpenThread", SUSPEND_RESUME, False, 20), ("ResumeThread", THREAD)]
    kernel32.gone = {12, 20}
    with pytest.raises(PermissionError, match="OpenThread was refused"):
        kernel_of(kernel32).resume(PID)


@pytest.mark.parametrize("failing", ["", "Thread32First"])
def test_a_process_of_which_no_thread_is_found_is_an_error(kernel32: FakeKernel32, failing: str) -> None:
    kernel32.failing = failing
    kernel32.threads = [(4, 8)]
    with pytest.raises(ProcessLookupError, match=f"process {PID} has no thread"):
        kernel_of(kernel32).resume(PID)
