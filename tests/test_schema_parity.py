"""The schema's classes and the methods against what the official SDKs carry: a JSON Schema, and pydantic models.

Every definition, property, mark, tag, value and method has its counterpart here, or stands in one of the short lists
below with the reason.
"""

from __future__ import annotations

import enum
import functools
import importlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from types import NoneType
from typing import Annotated, Final, NewType, get_args, get_origin

import attrs
import pydantic
import pytest
from typing_extensions import TypeForm

from acp_ref import errors, schema
from acp_ref._converter import structure, unstructure, wire
from acp_ref._jsonrpc import JSON, JSONObject, RequestId, loads
from acp_ref.methods import AGENT, CLIENT, AnyMethod, AnyNotification, Method, Role
from acp_ref.schema._base import Bounds, Mark, MinLength, OpenEnum, Untagged
from tests.npm import official_schema
from tests.schema_samples import payloads

ELSEWHERE: Final = {
    **dict.fromkeys(
        ["AgentRequest", "AgentResponse", "AgentNotification", "ClientRequest", "ClientResponse", "ClientNotification"],
        "envelopes: they are JSON-RPC's, and in _jsonrpc",
    ),
    "RequestId": "belongs to the envelope, in _jsonrpc",
    "Error": "belongs to the envelope: errors.RequestError",
    "ErrorCode": "errors.ErrorCode",
}
RENAMED: Final = {
    "ContentChunk": "three kinds, three classes: UserMessageChunk, AgentMessageChunk, AgentThoughtChunk",
    "ElicitationFormMode": "ElicitationFormRequest: a variant has the shared members too",
    "ElicitationUrlMode": "ElicitationUrlRequest: a variant has the shared members too",
    "ElicitationAcceptAction": "ElicitationAccept, beside ElicitationDecline and ElicitationCancel",
}
OUR_OWN: Final = {
    **dict.fromkeys(["UNSET", "UnsetType", "Unknown", "OpenEnum"], "how absence and the unknown look in Python"),
    "TRACE_CONTEXT_KEYS": "names that the extensibility page keeps",
    "ElicitationScope": "the schema has no name for this union",
    **dict.fromkeys(
        ["CancelledPermissionOutcome", "ElicitationDecline", "ElicitationCancel"],
        "a variant that is nothing but a tag in the schema",
    ),
    **dict.fromkeys(
        ["SetSessionConfigSelectRequest", "SetSessionConfigBooleanRequest"],
        "a variant without a name in the schema",
    ),
}
OPEN_HERE: Final = {
    "StringFormat": "an unknown format must not be refused (ELIC-44)",
    **dict.fromkeys(
        ["SessionUpdate", "ContentBlock", "ToolCallContent", "RequestPermissionOutcome", "SessionConfigOption"],
        "what a later version sends must not break a reader of this one",
    ),
    "AuthMethod": "kept and shown, never used (D-19)",
}
"""Closed in the schema."""
KEPT_AS_TEXT: Final = {"StopReason", "PermissionOptionKind", "PlanEntryPriority", "PlanEntryStatus"}
"""Enums that are closed on write while a reader keeps an unlisted value: no mark says what to do with it (D-30)."""

SAME: Final = {"AvailableCommandInput": "UnstructuredCommandInput"}
"""A union of one variant is that variant."""
MARKS: Final = {
    "x-deserialize-default-on-error": Mark.DEFAULT_ON_ERROR,
    "x-deserialize-skip-invalid-items": Mark.SKIP_INVALID_ITEMS,
    "x-deserialize-default-on-null": Mark.DEFAULT_ON_NULL,
}
FORMATS: Final = {
    "uint16": Bounds(0, 2**16 - 1),
    "uint32": Bounds(0, 2**32 - 1),
    "uint64": Bounds(0, 2**64 - 1),
    "int64": Bounds(-(2**63), 2**63 - 1),
}


@attrs.frozen
class Property:
    """What both sides say of a property."""

    type: str
    nullable: bool
    required: bool
    marks: frozenset[Mark]


# ------------------------------------------------------------------------------------------------ their side


def obj(value: JSON) -> JSONObject:
    assert isinstance(value, dict), value
    return value


def objs(value: JSON) -> Sequence[JSONObject]:
    assert isinstance(value, list), value
    return [obj(x) for x in value]


def text(value: JSON) -> str:
    assert isinstance(value, str), value
    return value


@functools.cache
def definitions() -> Mapping[str, JSONObject]:
    whole = obj(loads(official_schema().read_bytes()))
    return {name: obj(definition) for name, definition in obj(whole["$defs"]).items()}


def their_type(node: JSONObject) -> tuple[str, bool]:
    """The type that ``node`` asks for, and whether it may be null."""
    if "$ref" in node:
        name = text(node["$ref"]).rpartition("/")[2]
        return SAME.get(name, name), False
    if "allOf" in node:
        (only,) = objs(node["allOf"])
        return their_type(only)
    if "anyOf" in node:
        first, second = objs(node["anyOf"])
        assert second == {"type": "null"}
        return their_type(first)[0], True
    kind = node.get("type")
    nullable = isinstance(kind, list) and "null" in kind
    if isinstance(kind, list):
        (kind,) = (k for k in kind if k != "null")
    match kind:
        case None:
            return "JSON", nullable
        case "integer":
            return text(node["format"]), nullable
        case "array":
            return f"list[{their_type(obj(node['items']))[0]}]", nullable
        case "object" if node["additionalProperties"] is not True:
            return f"dict[{their_type(obj(node['additionalProperties']))[0]}]", nullable
        case "string" if "minLength" in node:
            return f"string of {node['minLength']} or more", nullable
    return text(kind), nullable


def their_properties(node: JSONObject) -> Mapping[str, Property]:
    required = node.get("required", [])
    assert isinstance(required, list)
    return {
        name: Property(
            *their_type(obj(value)),
            name in required,
            frozenset(mark for key, mark in MARKS.items() if obj(value).get(key)),
        )
        for name, value in obj(node.get("properties", {})).items()
        if "const" not in obj(value)
    }


@attrs.frozen
class Variant:
    """One variant of a union that has tags."""

    key: str
    tag: str | None
    payload: str | None
    properties: Mapping[str, Property]
    scoped: bool
    """Whether the members of a scope lie in it too."""


def their_variants(name: str) -> Sequence[Variant]:
    """The tagged variants of a union, and the one without a tag; none if the union has no tags."""
    definition = definitions()[name]
    nodes = [node for node in _branches(definition) if node.get("title") != "other"]
    consts = [_const(node) for node in nodes]
    keys = {key for key, _ in filter(None, consts)}
    if not keys:
        return []
    (key,) = keys
    found = []
    for node, const in zip(nodes, consts, strict=True):
        payload = their_type({"allOf": node["allOf"]})[0] if "allOf" in node else None
        inner = definitions()[payload] if payload else {}
        properties = {**their_properties(definition), **their_properties(node), **their_properties(inner)}
        found.append(Variant(key, const[1] if const else None, payload, properties, "anyOf" in inner))
    return found


def _branches(definition: JSONObject) -> Sequence[JSONObject]:
    return objs(definition.get("oneOf", definition.get("anyOf", [])))


def _const(node: JSONObject) -> tuple[str, str] | None:
    tags = [(key, obj(p)["const"]) for key, p in obj(node.get("properties", {})).items() if "const" in obj(p)]
    return (tags[0][0], text(tags[0][1])) if tags else None


def is_open(definition: JSONObject) -> bool:
    return any(node.get("title") == "other" for node in _branches(definition))


def is_enum(definition: JSONObject) -> bool:
    return "properties" not in definition and any("const" in node for node in _branches(definition))


# ------------------------------------------------------------------------------------------------ our side


def name_of(t: object) -> str:
    """What the schema calls ``t``."""
    if get_origin(t) is Annotated:
        base, limit = get_args(t)
        if isinstance(limit, MinLength):
            return f"string of {limit.characters} or more"
        if isinstance(base, NewType):
            return base.__name__
        return next(name for name, bounds in FORMATS.items() if bounds == limit)
    if get_origin(t) is list:
        return f"list[{name_of(get_args(t)[0])}]"
    if get_origin(t) is dict:
        return f"dict[{name_of(get_args(t)[1])}]"
    if t == RequestId:
        return "RequestId"
    plain = {str: "string", bool: "boolean", float: "number", wire.AnyJSON: "JSON", wire.AnyObject: "object"}
    for known, name in plain.items():
        if t is known:
            return name
    aliases = [name for name in schema.__all__ if getattr(schema, name) == t]
    if aliases:
        return SAME.get(aliases[0], aliases[0])
    rest = wire.without(t, NoneType)
    if len(wire.members(rest)) == 2:  # an enum with room for a string
        rest = wire.without(rest, str)
    assert rest != t, t
    return name_of(rest)


def our_properties(cl: type) -> Mapping[str, Property]:
    return {
        f.wire: Property(
            name_of(f.type),
            f.nullable and f.type != RequestId,
            f.required,
            f.marks & set(MARKS.values()),
        )
        for f in wire.fields(cl)
        if f.wire != wire.WHOLE
    }


def our_variant(name: str, variant: Variant) -> type:
    for cl in wire.members(getattr(schema, name)):
        assert isinstance(cl, type)
        untagged = getattr(cl, "UNTAGGED", None)
        if variant.tag is None and isinstance(untagged, Untagged) and untagged.key == variant.key:
            return cl
        if getattr(cl, "TAG", None) == (variant.key, variant.tag):
            return cl
    raise AssertionError(f"{name} has no variant {variant.tag}")


def names(kind: str) -> Iterator[str]:
    """The definitions of a kind that have a counterpart in the schema package."""
    for name, definition in definitions().items():
        if name in ELSEWHERE or name in RENAMED:
            continue
        if is_enum(definition):
            found = "enum"
        elif their_variants(name):
            found = "union"
        elif definition.get("type") in ("string", "integer"):
            found = "scalar"
        elif definition.get("type") == "object":
            found = "object"
        else:
            found = "other"
        if found == kind:
            yield name


# ------------------------------------------------------------------------------------------------ the comparison


def test_every_definition_has_a_counterpart_and_every_class_a_definition() -> None:
    theirs = set(definitions()) - set(ELSEWHERE) - set(RENAMED)
    assert theirs <= set(schema.__all__)
    variants = {our_variant(name, v).__name__ for name in names("union") for v in their_variants(name)}
    assert set(schema.__all__) == theirs | variants | set(OUR_OWN)
    assert not theirs & set(OUR_OWN)
    assert set(ELSEWHERE) | set(RENAMED) <= set(definitions())


def test_scalars_have_the_same_base_and_range() -> None:
    for name in names("scalar"):
        t = getattr(schema, name)
        assert isinstance(t, NewType), name
        kind = definitions()[name]["type"]
        assert t.__supertype__ is {"string": str, "integer": int}[text(kind)], name
    limits = {
        get_args(f.type)[1]
        for cl in (schema.InitializeRequest, schema.InitializeResponse)
        for f in wire.fields(cl)
        if get_origin(f.type) is Annotated
    }
    version = definitions()["ProtocolVersion"]
    assert limits == {Bounds(0, 65535)} == {FORMATS[text(version["format"])]}
    assert (version["minimum"], version["maximum"]) == (0, 65535)


@pytest.mark.spec("TOOL-04", "TOOL-10", "PLAN-02", "PROMPT-17")
def test_enums_have_the_same_values_and_openness() -> None:
    for name in names("enum"):
        t = getattr(schema, name)
        assert issubclass(t, enum.StrEnum), name
        values = [text(node["const"]) for node in _branches(definitions()[name]) if "const" in node]
        assert [member.value for member in t] == values, name
        assert issubclass(t, OpenEnum) == (is_open(definitions()[name]) or name in OPEN_HERE), name


def test_an_open_enum_or_one_that_no_mark_mends_leaves_room_for_a_string() -> None:
    """And no other does."""
    classes = [getattr(schema, name) for name in schema.__all__]
    with_room: set[str] = set()
    without_room: set[str] = set()
    for cl in classes:
        if not (inspect.isclass(cl) and attrs.has(cl)):
            continue
        for f in wire.fields(cl):
            for t in (f.type, *wire.members(f.type)):
                if isinstance(t, type) and issubclass(t, enum.Enum):
                    (with_room if str in wire.members(f.type) else without_room).add(t.__name__)
    opened = {name for name in names("enum") if issubclass(getattr(schema, name), OpenEnum)}
    assert with_room == opened | KEPT_AS_TEXT
    assert not with_room & without_room


@pytest.mark.spec("ELIC-06", "ELIC-08", "TOOL-11")
def test_unions_have_the_same_tags_and_variants() -> None:
    for name in names("union"):
        members = wire.members(getattr(schema, name))
        variants = their_variants(name)
        known = [our_variant(name, variant) for variant in variants]
        assert len(set(known)) == len(variants), name
        assert set(members) - {schema.Unknown} == set(known), name
        assert (schema.Unknown in members) == (is_open(definitions()[name]) or name in OPEN_HERE), name
        for cl, variant in zip(known, variants, strict=True):
            assert our_properties(cl) == variant.properties, cl
            assert any(f.wire == wire.WHOLE for f in wire.fields(cl)) == variant.scoped, cl
            assert cl.__name__ == variant.payload or variant.payload is None or variant.payload in RENAMED, cl


def test_unions_without_tags_have_the_same_members() -> None:
    by_shape = {name for name in names("other") if not name.startswith("Ext")} - set(SAME)
    assert by_shape == {"EmbeddedResourceResource", "SessionConfigSelectOptions", "ElicitationContentValue"}
    for name in by_shape - {"ElicitationContentValue"}:
        theirs = {their_type(node)[0] for node in _branches(definitions()[name])}
        assert {name_of(member) for member in wire.members(getattr(schema, name))} == theirs, name
    values = [their_type(node)[0] for node in _branches(definitions()["ElicitationContentValue"])]
    assert values == ["string", "int64", "number", "boolean", "list[string]"]
    assert wire.members(schema.ElicitationContentValue) == (str, int, float, bool, list[str])
    scopes = {their_type(node)[0] for node in _branches(definitions()["ElicitationFormMode"])}
    assert {name_of(member) for member in wire.members(schema.ElicitationScope)} == scopes


@pytest.mark.spec("EXT-01")
def test_objects_have_the_same_properties_with_the_same_marks() -> None:
    flattened = {
        v.payload for name in names("union") for v in their_variants(name) if "properties" in definitions()[name]
    }
    compared = 0
    for name in names("object"):
        if name in flattened:  # compared as a variant, with the shared properties
            continue
        assert our_properties(getattr(schema, name)) == their_properties(definitions()[name]), name
        compared += 1
    assert compared > 110


@pytest.mark.spec("INIT-12", "INIT-20")
def test_defaults_are_the_same() -> None:
    compared = 0
    for name in names("object"):
        cl = getattr(schema, name)
        defaults = {
            key: obj(node)["default"]
            for key, node in obj(definitions()[name].get("properties", {})).items()
            if "default" in obj(node)
        }
        if not defaults:
            continue
        required = {f.wire: 1 if f.name == "protocol_version" else "x" for f in wire.fields(cl) if f.required}
        t: TypeForm[object] = cl
        written = obj(unstructure(t, structure(t, {**required})))
        assert {key: written[key] for key in defaults} == defaults, name
        compared += len(defaults)
    assert compared > 15


def test_error_codes_are_the_same() -> None:
    values = [node["const"] for node in _branches(definitions()["ErrorCode"]) if "const" in node]
    assert {int(code) for code in errors.ErrorCode} == set(values)


# ------------------------------------------------------------------------------------------------ methods


@attrs.frozen
class Call:
    params: str
    result: str | None


def their_calls(side: str) -> Mapping[str, Call]:
    found: dict[str, Call] = {}
    of_side = [(name, node) for name, node in definitions().items() if node.get("x-side") == side]
    for name, node in of_side:
        if not name.endswith("Response"):
            answers = [n for n, other in of_side if other["x-method"] == node["x-method"] and n.endswith("Response")]
            found[text(node["x-method"])] = Call(name, answers[0] if answers else None)
    return found


def our_calls(role: Role) -> Mapping[str, Call]:
    def call(method: AnyMethod | AnyNotification) -> Call:
        result = getattr(method, "result") if isinstance(method, Method) else None  # noqa: B009  # whatever its type
        return Call(name_of(method.params), None if result is None else name_of(result))

    return {method.name: call(method) for method in role.handles}


def test_methods_have_the_same_names_types_and_sides() -> None:
    either_way = their_calls("protocol")
    assert list(either_way) == ["$/cancel_request"]
    assert our_calls(AGENT) == {**their_calls("agent"), **either_way}
    assert our_calls(CLIENT) == {**their_calls("client"), **either_way}


# ------------------------------------------------------------------------------------------------ samples

SAMPLES: Final = payloads()
IDS: Final = [name for name, _, _ in SAMPLES]


@functools.cache
def _validator(name: str) -> object:
    jsonschema = importlib.import_module("jsonschema")  # comes with mcp, and has no types
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": {**definitions()}})


@pytest.mark.parametrize(("name", "t", "value"), SAMPLES, ids=IDS)
def test_what_is_written_is_valid_by_the_official_schema(name: str, t: TypeForm[object], value: object) -> None:
    faults = getattr(_validator(name), "iter_errors")(unstructure(t, value))  # noqa: B009  # no types
    assert not [fault.message for fault in faults]


MODELS: Final = {
    "ElicitationFormRequest": ["CreateFormSessionElicitationRequest", "CreateFormRequestElicitationRequest"],
    "ElicitationUrlRequest": ["CreateUrlSessionElicitationRequest", "CreateUrlRequestElicitationRequest"],
    "ElicitationAccept": ["AcceptElicitationResponse"],
    "ElicitationDecline": ["DeclineElicitationResponse"],
    "ElicitationCancel": ["CancelElicitationResponse"],
    "SetSessionConfigSelectRequest": ["SetSessionConfigOptionSelectRequest"],
    "SetSessionConfigBooleanRequest": ["SetSessionConfigOptionBooleanRequest"],
}
"""The official Python SDK's models, where they have other names."""
NEWER: Final = (schema.Notice, schema.CompactionUpdate, schema.CompactionSummaryChunk)
"""Updates that the official Python SDK does not have yet."""


def _older(value: JSON) -> JSON:
    """``value`` without the members that the official Python SDK does not have yet."""
    if isinstance(value, list):
        return [_older(x) for x in value]
    if not isinstance(value, dict):
        return value
    newer = {"name"} if "toolCallId" in value else {"compaction", "notices"}
    return {key: _older(x) for key, x in value.items() if key not in newer}


@pytest.mark.parametrize(
    ("name", "t", "value"),
    [s for s in SAMPLES if not (isinstance(s[2], schema.SessionNotification) and isinstance(s[2].update, NEWER))],
)
def test_the_official_python_sdk_reads_what_is_written_and_is_read_again(
    name: str, t: TypeForm[object], value: object
) -> None:
    official = importlib.import_module("acp.schema")
    written = _older(unstructure(t, value))
    refusals = []
    for model in MODELS.get(type(value).__name__, [name]):
        try:
            read: pydantic.BaseModel = getattr(official, model).model_validate(written)
        except pydantic.ValidationError as exc:
            refusals.append(str(exc))
        else:
            again = read.model_dump(mode="json", by_alias=True, exclude_unset=True)
            assert structure(t, again) == structure(t, written)
            return
    raise AssertionError(refusals)
