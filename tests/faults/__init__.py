"""The promises under fault, with everything real: processes, signals, pipes, disks.

The tests here are the short form. ``python -m tests.faults`` is the long one; its numbers are for a quiet machine.

What is looked for at the end of each is what :func:`tests.faults.system.nothing_left` tells: no process below us that
was not there before, orphans included; no open descriptor, no task.
"""
