"""The floors of the house: each module imports from its own floor and from those below, and the low ones never wait."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final

import attrs

import acp_ref

PACKAGE: Final = Path(acp_ref.__file__).parent

FLOORS: Final[Mapping[int, str]] = {
    0: "errors reports _jsonrpc _framing",
    1: "schema",
    2: "_converter",
    3: "methods _state",
    4: "connection handlers requests transports _incoming _outgoing _outbox _nursery",
    6: "agent authentication client prompt_turn session_settings session_setup _loading",
    7: "testing spec demo reference_agent reference_client cli __main__ __init__",
}
"""A module, or a package for all modules in it. ``agent_...`` and ``client_...`` are parts of agent and client."""

ROOMS: Final = 5
"""The floor of all others: transports, processes and what a session holds."""

NO_TRIO: Final = 3
"""Up to this floor nothing waits: bytes in, values out, tested without a loop."""

LONGEST: Final = 450
"""Lines. What is longer falls into two nouns of the specification."""

UPWARD_TYPES: Final[frozenset[tuple[str, str]]] = frozenset()
"""Imports for type checkers only that may go to a higher floor: module, imported."""


@attrs.frozen
class Import:
    module: str
    """Dotted, without the package's own name: ``schema.content``."""
    imported: str
    """Dotted and whole: ``acp_ref.schema``, ``trio``."""
    line: int
    for_types: bool
    """Under ``if TYPE_CHECKING``."""

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.imported}"


@functools.cache
def modules() -> Mapping[str, Path]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)] = path
    return found


@functools.cache
def imports() -> Sequence[Import]:
    return [found for module, path in modules().items() for found in _imports(module, path)]


def _imports(module: str, path: Path) -> Iterator[Import]:
    tree = ast.parse(path.read_text("utf-8"), str(path))
    for_types = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module, alias.name, node.lineno, node in for_types)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: imports are absolute here"
            assert node.module is not None
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                is_module = inner.removeprefix("acp_ref.") in modules()
                yield Import(module, inner if is_module else node.module, node.lineno, node in for_types)


def own(imported: str) -> str | None:
    """The name of a module of this package, without the package's; None for all other modules."""
    top, _, rest = imported.partition(".")
    return None if top != "acp_ref" else rest or "__init__"


def floor(module: str) -> int:
    name = module.partition(".")[0]
    for number, names in FLOORS.items():
        if name in names.split():
            return number
    part_of_a_role = name.startswith(("agent_", "client_")) and name != "agent_process"
    return floor("agent") if part_of_a_role else ROOMS


def test_no_module_imports_from_a_higher_floor() -> None:
    upward = [
        str(found)
        for found in imports()
        if (imported := own(found.imported)) is not None
        and floor(imported) > floor(found.module)
        and not (found.for_types and (found.module, imported) in UPWARD_TYPES)
    ]
    assert not upward


def test_no_two_modules_import_each_other() -> None:
    graph: dict[str, set[str]] = {module: set() for module in modules()}
    for found in imports():
        imported = own(found.imported)
        if imported is not None and not found.for_types and imported != found.module:
            graph[found.module].add(imported)
    TopologicalSorter(graph).prepare()  # CycleError names the cycle


def test_the_low_floors_import_no_trio() -> None:
    assert not [
        str(found)
        for found in imports()
        if floor(found.module) <= NO_TRIO and found.imported.partition(".")[0] in {"trio", "anyio"}
    ]


def test_no_module_imports_asyncio() -> None:
    assert not [str(found) for found in imports() if found.imported.partition(".")[0] == "asyncio"]


def test_a_module_can_be_read_in_one_sitting() -> None:
    lengths = {module: len(path.read_text("utf-8").splitlines()) for module, path in modules().items()}
    assert not {module: length for module, length in lengths.items() if length > LONGEST}


def test_importing_the_package_loads_neither_mcp_nor_pydantic_nor_asyncio() -> None:
    program = "import sys, acp_ref; print(*sorted({'mcp', 'pydantic', 'anyio', 'asyncio'} & sys.modules.keys()))"
    loaded = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60
    ).stdout.split()
    assert not loaded
