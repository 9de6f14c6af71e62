"""How long an import takes in a fresh process, and what it should not bring along: ``imports MODULE TIMES``."""

from __future__ import annotations

import json
import subprocess
import sys
from statistics import median
from typing import Final

PROGRAM: Final = """
import sys, time
before = time.perf_counter()
import {module}
print(time.perf_counter() - before, len({{"mcp", "pydantic", "asyncio"}} & sys.modules.keys()))
"""

module, times = sys.argv[1:]
seconds: list[float] = []
unwanted = 0
for _ in range(int(times)):
    command = [sys.executable, "-c", PROGRAM.format(module=module)]
    took, found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    seconds.append(float(took))
    unwanted = int(found)
print(json.dumps({"seconds": median(seconds), "unwanted": unwanted}))
