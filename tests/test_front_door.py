"""The front door: what ``import acp_ref`` gives, and what it costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import acp_ref

SOURCE = Path(acp_ref.__file__).read_text("utf-8")


def promised() -> dict[str, str]:
    """The names that type checkers see, with their rooms."""
    return {
        alias.name: node.module or ""
        for node in ast.walk(ast.parse(SOURCE))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }


def test_every_name_that_type_checkers_see_is_there_and_no_other() -> None:
    import importlib

    names = promised()
    assert len(names) > 60
    for name, room in names.items():
        assert getattr(acp_ref, name) is getattr(importlib.import_module(room), name)
    public = {name for name in dir(acp_ref) if name[0].isupper() or name in names}
    assert public - {"TYPE_CHECKING"} == set(names)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        acp_ref.nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_the_door_loads_nothing_and_an_agent_loads_no_client() -> None:
    program = (
        "import sys, acp_ref; early = len([m for m in sys.modules if m.startswith('acp_ref.')]); acp_ref.Agent;"
        "print(early, *[m for m in ('acp_ref.client', 'mcp', 'pydantic', 'asyncio') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0"]
