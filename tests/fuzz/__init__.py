"""Property tests: both roles against every peer there could be, every type there and back, sessions in any order.

In the suite a bounded number of examples, the same ones every time. The long run is a command::

    python -m tests.fuzz --minutes 30 --frames 1000000

Everything is generated from seeds, one for each frame and each step, so a failing example shrinks to the frames and
steps that matter, and the long run names the seed that repeats a fault.
"""

from __future__ import annotations

from typing import Final

from hypothesis import HealthCheck, settings

__all__ = ["SLOW_CHECKS", "examples"]

SLOW_CHECKS: Final = (HealthCheck.too_slow, HealthCheck.data_too_large)


def examples(number: int) -> settings:
    """As many examples, the same ones in every run, kept nowhere."""
    return settings(
        max_examples=number, derandomize=True, database=None, deadline=None, suppress_health_check=SLOW_CHECKS
    )
