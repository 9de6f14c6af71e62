"""Which test shows which requirement: read from the marks of the tests, without importing or running them.

    python -m tests.register --write      store the marks in acp_ref/spec/tests.json
    python -m tests.register --missing    what no test shows yet, by section, and the MUSTs that no line of code names

A mark counts where pytest would count it: on a test function or class, as ``pytestmark`` of a class or module, on a
``pytest.param``, also when the params stand in a constant of the module. Its arguments are literals. A mark that
belongs to no test is an error.
"""

from __future__ import annotations

import argparse
import ast
import functools
import json
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import attrs

from acp_ref import spec

TESTS: Final = Path(__file__).parent
STORED: Final = TESTS.parent / "acp_ref" / "spec" / "tests.json"
FIELD_NOTES: Final = TESTS / "field_notes.toml"

Argument: TypeAlias = str | int


class MisplacedMark(Exception):
    """A mark that no test carries, or whose arguments cannot be read."""


@attrs.frozen
class FieldNote:
    """A fault seen in real ACP software."""

    number: int
    title: str
    not_ours: str | None
    """Why no library can keep it out."""


def field_notes() -> Sequence[FieldNote]:
    """All field notes, by number."""
    tables: Mapping[str, Mapping[str, str]] = tomllib.loads(FIELD_NOTES.read_text("utf-8"))
    not_ours = tables["not_ours"]
    return [FieldNote(int(number), title, not_ours.get(number)) for number, title in tables["faults"].items()]


@functools.cache
def node_ids(mark: str, folder: Path = TESTS) -> Mapping[Argument, Sequence[str]]:
    """For each argument of ``pytest.mark.<mark>`` the node ids of the tests that carry it, in the order of the files.

    Raises:
      MisplacedMark: a mark belongs to no test, or has an argument that is not a literal.
    """
    found: defaultdict[Argument, list[str]] = defaultdict(list)
    for path in sorted(folder.rglob("*.py")):
        module = _Module(path, mark)
        for node_id, argument in module.marks(path.relative_to(folder.parent).as_posix()):
            if node_id not in found[argument]:
                found[argument].append(node_id)
        module.check_all_seen()
    return dict(found)


def stored_tests() -> Mapping[str, Sequence[str]]:
    """What ``tests.json`` holds now."""
    tests: Mapping[str, Sequence[str]] = json.loads(STORED.read_text("utf-8"))
    return tests


def write() -> None:
    """Store the marks of the tests in ``tests.json``, in the order of the register."""
    marked = node_ids("spec")
    known = [entry.id for entry in spec.requirements()]
    if unknown := sorted(map(str, marked.keys() - set(known))):
        raise MisplacedMark(f"no such requirement: {', '.join(unknown)}")
    tests = {name: marked[name] for name in known if name in marked}
    STORED.write_text(json.dumps(tests, indent=1) + "\n", "utf-8")


def unshown() -> Mapping[str, Sequence[str]]:
    """For each section the requirements that no test carries a mark of, although one could."""
    marked = node_ids("spec")
    missing: defaultdict[str, list[str]] = defaultdict(list)
    for entry in spec.requirements():
        if entry.id not in marked and entry.not_testable is None:
            missing[entry.section].append(entry.id)
    return dict(missing)


class _Module:
    """A file of tests, and which of its marks were seen on a test."""

    def __init__(self, path: Path, mark: str) -> None:
        self._path = path
        self._mark = mark
        self._tree = ast.parse(path.read_text("utf-8"), str(path))
        self._seen: set[ast.Call] = set()
        self._constants: dict[str, ast.expr] = {}
        for statement in self._tree.body:
            for name, value in _assigned(statement):
                self._constants[name] = value

    def marks(self, path: str) -> Iterator[tuple[str, Argument]]:
        if self._path.name.startswith("test_"):
            yield from self._in(self._tree.body, path, ())

    def check_all_seen(self) -> None:
        for call in self._calls(self._tree):
            if call not in self._seen:
                raise MisplacedMark(f"{self._path}:{call.lineno}: this {self._mark} mark belongs to no test")

    def _in(self, body: Iterable[ast.stmt], prefix: str, outer: Sequence[Argument]) -> Iterator[tuple[str, Argument]]:
        body = list(body)
        inherited = [*outer]
        for statement in body:
            for name, value in _assigned(statement):
                if name == "pytestmark":
                    inherited += self._arguments(value)
        for statement in body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) and statement.name.startswith("test_"):
                own = [argument for decorator in statement.decorator_list for argument in self._arguments(decorator)]
                for argument in (*inherited, *own):
                    yield f"{prefix}::{statement.name}", argument
            elif isinstance(statement, ast.ClassDef) and statement.name.startswith("Test"):
                own = [argument for decorator in statement.decorator_list for argument in self._arguments(decorator)]
                yield from self._in(statement.body, f"{prefix}::{statement.name}", (*inherited, *own))

    def _arguments(self, expression: ast.expr) -> Iterator[Argument]:
        """The arguments of the marks in ``expression`` and in the module's constants that it names."""
        for call in self._calls(expression):
            self._seen.add(call)
            for argument in call.args:
                if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str | int)):
                    raise MisplacedMark(f"{self._path}:{call.lineno}: a {self._mark} mark takes literals only")
                yield argument.value
        for node in ast.walk(expression):
            if isinstance(node, ast.Name) and node.id in self._constants:
                yield from self._arguments(self._constants[node.id])

    def _calls(self, tree: ast.AST) -> Iterator[ast.Call]:
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(f"mark.{self._mark}"):
                yield node


def _assigned(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
        for target in targets:
            if isinstance(target, ast.Name):
                yield target.id, statement.value


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.register", description="Which test shows which requirement.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", action="store_true", help="store the marks of the tests in acp_ref/spec/tests.json")
    what.add_argument("--missing", action="store_true", help="list what no test shows and no line of code names")
    if parser.parse_args(arguments).write:
        write()
        return 0
    for section, names in unshown().items():
        print(f"{section:8} {len(names):3} without a test: {' '.join(names)}")
    musts = [entry.id for entry in spec.requirements() if entry.level in (spec.Level.MUST, spec.Level.MUST_NOT)]
    unnamed = [name for name in musts if not spec.enforced_at(name)]
    print(f"{len(unnamed)} of {len(musts)} MUSTs that no line of code names: {' '.join(unnamed)}")
    marked = node_ids("field_note")
    notes = [str(note.number) for note in field_notes() if note.number not in marked and note.not_ours is None]
    print(f"{len(notes)} field notes without a test: {' '.join(notes)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
