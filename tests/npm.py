"""Programs and packages from npm, fetched once into a cache outside of this tree.

The official TypeScript SDK carries the JSON Schema of the protocol, which the types are held against, and is a peer to
talk to; ``acpx`` is a client that others wrote. Tests that need one are skipped where npm cannot fetch it, but never in
CI.
"""

from __future__ import annotations

import functools
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn

import pytest

SDK: Final = "@agentclientprotocol/sdk"
PACKAGES: Final = {SDK: "2.4.0", "zod": "4.6.7"}
"""Whole versions, so that a test says the same tomorrow. zod is what the SDK wants beside it."""

EXAMPLES: Final = {SDK: "1.9.0", "zod": "4.6.7"}
"""The last version whose package carries the SDK's examples."""

MACHINE: Final = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
NODE: Final = f"node-{sys.platform}-{MACHINE}"
ACPX: Final = {"acpx": "0.19.1", NODE: "22.23.3"}
"""The client, and the newer Node.js that it wants: the package that the package ``node`` fetches by a script."""

FETCH_SECONDS: Final = 180


def _cache() -> Path:
    if own := os.environ.get("ACP_REF_NPM_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "acp-ref" / "npm"


def give_up(reason: str) -> NoReturn:
    """Skip the test for that reason; in CI, where everything is there, fail it."""
    if os.environ.get("CI"):
        pytest.fail(f"needed in CI: {reason}")
    pytest.skip(reason)


def _place(*wanted: str) -> Path:
    return _cache() / "_".join(sorted(package.rpartition("/")[2].replace("@", "-") for package in wanted))


@functools.cache
def _fetch(*wanted: str) -> Path | str:
    """The folder ``node_modules`` with the packages ``wanted``, each as NAME@VERSION, or why there is none."""
    there = _place(*wanted)
    if (there / "node_modules").exists():
        return there / "node_modules"
    npm = shutil.which("npm")
    if npm is None:
        return "npm is not installed"
    there.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=there.parent) as fresh:
        options = ["--ignore-scripts", "--omit=peer", "--no-audit", "--no-fund", "--loglevel=error"]
        try:
            done = subprocess.run(
                [npm, "install", *options, "--prefix", fresh, *wanted],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=FETCH_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"npm did not fetch {' '.join(wanted)} within {FETCH_SECONDS} s"
        if done.returncode != 0:
            return f"npm cannot fetch {' '.join(wanted)}: {done.stderr.strip()[-400:]}"
        try:
            Path(fresh).rename(there)
        except OSError:  # another test run was faster
            if not there.exists():
                raise
        else:
            Path(fresh).mkdir()  # for TemporaryDirectory to take away
    return there / "node_modules"


def _specifiers(packages: Mapping[str, str]) -> list[str]:
    return [f"{package}@{version}" for package, version in packages.items()]


def _packages(packages: Mapping[str, str]) -> Path:
    found = _fetch(*_specifiers(packages))
    if isinstance(found, str):
        give_up(found)
    return found


def node() -> str:
    """The machine's Node.js; skips the test where there is none."""
    found = shutil.which("node")
    if found is None:
        give_up("Node.js is not installed")
    return found


def official_sdk() -> Path:
    """A folder ``node_modules`` with the official TypeScript SDK and zod in it; skips the test where there is none."""
    return _packages(PACKAGES)


def fetched_sdk() -> Path | None:
    """The folder of :func:`official_sdk`, if it was fetched before; nothing is fetched now."""
    there = _place(*_specifiers(PACKAGES)) / "node_modules"
    return there if there.exists() else None


def official_schema() -> Path:
    """The JSON Schema of ACP v1 that the official SDK carries; skips the test where there is none."""
    return official_sdk() / SDK / "schema" / "v1" / "schema.json"


def example_agent() -> list[str]:
    """The command of the official TypeScript SDK's own example of an agent; skips the test where there is none."""
    return [node(), str(_packages(EXAMPLES) / SDK / "dist" / "examples" / "agent.js")]


def acpx() -> list[str]:
    """The command of ``acpx``, with the Node.js it wants; skips the test where there is none."""
    there = _packages(ACPX)
    return [str(there / NODE / "bin" / "node"), str(there / "acpx" / "dist" / "cli.js")]
