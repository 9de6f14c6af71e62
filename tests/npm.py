"""The official TypeScript SDK, fetched once into a cache outside of this tree.

Its package carries the JSON Schema of the protocol, which the types are held against, and it is a peer to talk to.
Tests that need it are skipped where npm cannot fetch it, but never in CI.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final, NoReturn

import pytest

SDK: Final = "@agentclientprotocol/sdk"
PACKAGES: Final = {SDK: "2.4.0", "zod": "4.6.7"}
"""Whole versions, so that a test says the same tomorrow. zod is what the SDK wants beside it."""

FETCH_SECONDS: Final = 180


def _cache() -> Path:
    if own := os.environ.get("ACP_REF_NPM_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "acp-ref" / "npm"


def _give_up(reason: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(f"needed in CI: {reason}")
    pytest.skip(reason)


@functools.cache
def _fetch() -> Path | str:
    """The folder ``node_modules``, or why there is none."""
    name = "_".join(f"{package.rpartition('/')[2]}-{version}" for package, version in sorted(PACKAGES.items()))
    there = _cache() / name
    if (there / "node_modules" / SDK / "package.json").exists():
        return there / "node_modules"
    npm = shutil.which("npm")
    if npm is None:
        return "npm is not installed"
    there.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=there.parent) as fresh:
        wanted = [f"{package}@{version}" for package, version in PACKAGES.items()]
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
            return f"npm did not fetch {SDK} within {FETCH_SECONDS} s"
        if done.returncode != 0:
            return f"npm cannot fetch {SDK}: {done.stderr.strip()[-400:]}"
        try:
            Path(fresh).rename(there)
        except OSError:  # another test run was faster
            if not there.exists():
                raise
        else:
            Path(fresh).mkdir()  # for TemporaryDirectory to take away
    return there / "node_modules"


def official_sdk() -> Path:
    """A folder ``node_modules`` with the official TypeScript SDK and zod in it; skips the test where there is none."""
    found = _fetch()
    if isinstance(found, str):
        _give_up(found)
    return found


def official_schema() -> Path:
    """The JSON Schema of ACP v1 that the official SDK carries; skips the test where there is none."""
    return official_sdk() / SDK / "schema" / "v1" / "schema.json"
