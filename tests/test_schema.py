"""The classes of the schema: a module for each page, plain values, a word on every field."""

from __future__ import annotations

import ast
import enum
import importlib
import inspect
import pkgutil
from pathlib import Path
from types import ModuleType
from typing import Final

import attrs
import pytest

from acp_ref import schema
from acp_ref.schema import (
    UNSET,
    AgentCapabilities,
    AgentMessageChunk,
    ClientCapabilities,
    SessionInfoUpdate,
    TextContent,
    ToolCall,
    ToolCallId,
    ToolCallStatus,
    ToolKind,
    UnsetType,
)
from tests.schema_samples import classes

PAGES: Final = [name for _, name, _ in pkgutil.iter_modules(schema.__path__) if not name.startswith("_")]
NOT_OF_THE_PROTOCOL: Final = ["UNSET", "OpenEnum", "Unknown", "UnsetType"]


def page(name: str) -> ModuleType:
    return importlib.import_module(f"acp_ref.schema.{name}")


@pytest.mark.parametrize("name", PAGES)
def test_a_module_names_its_page_and_the_address(name: str) -> None:
    title, blank, address, *_ = [*(page(name).__doc__ or "").splitlines(), "", "", ""]
    assert title[:1].isupper()
    assert title.endswith(".")
    assert not blank
    folder = "rfds/session-" if name in ("notices", "compaction") else "protocol/"
    assert address == f"https://agentclientprotocol.com/{folder}{name.replace('_', '-')}"


@pytest.mark.parametrize("name", PAGES)
def test_every_class_field_and_value_of_a_page_is_explained(name: str) -> None:
    path = page(name).__file__
    assert path is not None
    for node in ast.parse(Path(path).read_text("utf-8")).body:
        if not isinstance(node, ast.ClassDef):
            continue
        assert ast.get_docstring(node), node.name
        for this, following in zip(node.body, [*node.body[1:], None], strict=True):
            target = this.target if isinstance(this, ast.AnnAssign) else None
            is_member = isinstance(this, ast.Assign)
            if is_member or (isinstance(target, ast.Name) and target.id not in ("TAG", "UNTAGGED", "meta")):
                assert isinstance(following, ast.Expr), f"{node.name}, line {this.lineno}"
                assert isinstance(following.value, ast.Constant), f"{node.name}, line {this.lineno}"


def test_the_package_exports_every_name_of_every_page() -> None:
    public = {
        name
        for module in PAGES
        for name, value in vars(page(module)).items()
        if (inspect.isclass(value) and value.__module__ == f"acp_ref.schema.{module}")
        or (type(value).__name__ == "NewType" and value.__module__ == f"acp_ref.schema.{module}")
    }
    assert public <= set(schema.__all__)
    assert sorted(schema.__all__) == sorted(set(schema.__all__))
    for name in schema.__all__:
        assert hasattr(schema, name)


@pytest.mark.parametrize("cl", classes(), ids=lambda cl: cl.__name__)
def test_a_class_is_a_value_made_by_keywords_without_room_for_anything_else(cl: type) -> None:
    if attrs.fields(cl):
        assert all(a.kw_only and a.init for a in attrs.fields(cl))
        with pytest.raises(TypeError):
            cl(1)
    with pytest.raises(AttributeError):
        setattr(object.__new__(cl), "anything", 1)  # noqa: B010  # no class has such a field


def test_a_value_shows_what_was_set_and_nothing_else() -> None:
    chunk = AgentMessageChunk(content=TextContent(text="a"), message_id=None)
    assert repr(chunk) == "AgentMessageChunk(content=TextContent(text='a'))"


def test_equal_values_are_equal_and_those_without_lists_are_hashable() -> None:
    assert TextContent(text="a") == TextContent(text="a") != TextContent(text="b")
    assert len({TextContent(text="a"), TextContent(text="a")}) == 1
    chunk = AgentMessageChunk(content=TextContent(text="a"))
    assert attrs.evolve(chunk, content=TextContent(text="b")).content == TextContent(text="b")


def test_unset_is_false_and_alone() -> None:
    assert not UNSET
    assert repr(UNSET) == "UNSET"
    assert list(UnsetType) == [UNSET]
    assert SessionInfoUpdate().title is UNSET


@pytest.mark.spec("INIT-12", "INIT-14", "INIT-20")
def test_a_capability_that_is_not_mentioned_is_not_there() -> None:
    def unsupported(value: object) -> bool:
        if value is None or value is False:
            return True
        cl: type = type(value)
        return attrs.has(cl) and all(unsupported(getattr(value, a.name)) for a in attrs.fields(cl))

    assert unsupported(AgentCapabilities())
    assert unsupported(ClientCapabilities())


@pytest.mark.spec("TOOL-03", "TOOL-04")
def test_a_tool_call_is_pending_and_of_no_special_kind_unless_it_says_so() -> None:
    call = ToolCall(tool_call_id=ToolCallId("1"), title="look around")
    assert (call.kind, call.status) == (ToolKind.OTHER, ToolCallStatus.PENDING)
    assert len(ToolKind) == 10
    assert ToolKind.SWITCH_MODE.value == "switch_mode"


def test_a_member_of_an_enum_is_its_value() -> None:
    enums = [t for name in schema.__all__ if inspect.isclass(t := getattr(schema, name)) and issubclass(t, enum.Enum)]
    for t in enums:
        assert t is UnsetType or issubclass(t, enum.StrEnum), t


def test_what_the_protocol_does_not_have_is_little() -> None:
    own = [name for name in schema.__all__ if getattr(schema, name) in map(vars(schema).get, NOT_OF_THE_PROTOCOL)]
    assert sorted(own) == sorted(NOT_OF_THE_PROTOCOL)
