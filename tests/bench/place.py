"""Where the benchmark's programs are run: which there are on this machine, by what commands, in which environment."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import attrs

from tests import npm

__all__ = ["FLOOR", "OURS", "PYTHON", "RAW", "ROOT", "TYPESCRIPT", "Place", "open_place"]

OURS: Final = "acp_ref"
PYTHON: Final = "Python SDK"
TYPESCRIPT: Final = "TypeScript SDK"
FLOOR: Final = "trio and orjson"
RAW: Final = "bytes"

ROOT: Final = Path(__file__).parents[2]
QUIET: Final = 0.5
"""The load average of a machine that has little else to do."""

PROGRAMS: Final = Path(__file__).parent / "programs"


@attrs.frozen(kw_only=True)
class Place:
    """A directory for what the programs need, and what is known of the machine."""

    scratch: Path
    environment: Mapping[str, str]
    node: str
    """The program node; empty when there is none."""
    absent: Mapping[str, str]
    """Contenders that this machine does not have, and why."""

    def python(self, name: str, *arguments: object) -> list[str]:
        """The command of a Python program."""
        return [sys.executable, "-m", f"tests.bench.programs.{name}", *map(str, arguments)]

    def javascript(self, name: str, *arguments: object) -> list[str]:
        """The command of a TypeScript program."""
        return [self.node, str(self.scratch / f"{name}.mjs"), *map(str, arguments)]

    def agents(self, *options: object) -> Mapping[str, Sequence[str]]:
        """The commands of one agent of each kind."""
        return {
            OURS: self.python("ours_agent", *options),
            PYTHON: self.python("py_sdk_agent", *options),
            TYPESCRIPT: self.javascript("ts_sdk_agent", *options),
            FLOOR: self.python("floor_agent", *options),
            RAW: self.python("raw_agent", *options),
        }

    def clients(self, *task: object) -> Mapping[str, Sequence[str]]:
        """The commands of one client of each kind, with their task."""
        return {
            OURS: self.python("ours_client", *task),
            PYTHON: self.python("py_sdk_client", *task),
            TYPESCRIPT: self.javascript("ts_sdk_client", *task),
            FLOOR: self.python("floor_client", *task),
            RAW: self.python("raw_client", *task),
        }

    def describe(self) -> Iterator[str]:
        """What was measured, and on what."""
        packages = ["trio", "orjson", "attrs"]
        if PYTHON not in self.absent:
            packages += ["agent-client-protocol", "pydantic"]
        versions = (f"{name} {importlib.metadata.version(name)}" for name in packages)
        yield f"Python {platform.python_version()}, " + ", ".join(versions)
        if TYPESCRIPT not in self.absent:
            node = subprocess.run([self.node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
            yield f"node {node}, {npm.SDK} {npm.PACKAGES[npm.SDK]}"
        load = os.getloadavg()[0]
        yield f"{os.cpu_count()} cores, load average {load:.1f}" + (": expect noise" if load > QUIET else "")


@contextmanager
def open_place() -> Iterator[Place]:
    """Find what there is, and lay out what the programs need. Nothing is installed."""
    absent: dict[str, str] = {}
    try:
        importlib.metadata.version("agent-client-protocol")
    except importlib.metadata.PackageNotFoundError:
        absent[PYTHON] = "not installed: pip install '.[test]'"
    modules = npm.fetched_sdk()
    node = shutil.which("node")
    if node is None:
        absent[TYPESCRIPT] = "node is not installed"
    elif modules is None:
        absent[TYPESCRIPT] = "not fetched: python -m pytest tests/test_schema_parity.py does it"
    with TemporaryDirectory(prefix="acp-ref-bench-") as directory:
        scratch = Path(directory)
        for program in PROGRAMS.glob("*.mjs"):
            shutil.copy(program, scratch)
        if modules is not None:
            (scratch / "node_modules").symlink_to(modules)
        # As a program runs that was installed: compiled before, buffered, and with nothing else switched on.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        environment |= {"PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": str(scratch / "pycache")}
        yield Place(scratch=scratch, environment=environment, node=node or "", absent=absent)
