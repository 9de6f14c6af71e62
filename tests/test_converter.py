"""Between the schema's classes and JSON: strict, tolerant where the schema says so, open to what is to come."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Sequence
from typing import Final, assert_type

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypeForm

from acp_ref._converter import (
    InvalidPayload,
    Salvage,
    salvages,
    structure,
    structure_hook,
    take_salvaged,
    unstructure,
    unstructure_hook,
)
from acp_ref._converter.wire import AnyJSON
from acp_ref._jsonrpc import JSON, JSONObject, dumps, loads
from acp_ref.methods import AGENT, CLIENT
from acp_ref.schema import (
    UNSET,
    AgentMessageChunk,
    Annotations,
    AuthMethod,
    AuthMethodAgent,
    AuthMethodId,
    AuthMethodTerminal,
    BlobResourceContents,
    CancelRequestNotification,
    CompactionUpdate,
    ContentBlock,
    CreateElicitationRequest,
    CreateElicitationResponse,
    CreateTerminalRequest,
    CurrentModeUpdate,
    ElicitationAccept,
    ElicitationDecline,
    ElicitationFormRequest,
    ElicitationPropertySchema,
    ElicitationRequestScope,
    ElicitationSchema,
    ElicitationSessionScope,
    EmbeddedResource,
    EnvVariable,
    InitializeRequest,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionRequest,
    LogoutResponse,
    McpServer,
    McpServerHttp,
    McpServerStdio,
    MultiSelectItems,
    NewSessionRequest,
    NewSessionResponse,
    Notice,
    NoticeSeverity,
    NumberPropertySchema,
    PermissionOption,
    PermissionOptionId,
    PermissionOptionKind,
    Plan,
    PlanEntry,
    PlanEntryPriority,
    PlanEntryStatus,
    PromptRequest,
    PromptResponse,
    ReadTextFileRequest,
    RequestPermissionOutcome,
    RequestPermissionRequest,
    ResumeSessionRequest,
    SelectedPermissionOutcome,
    SessionConfigOption,
    SessionConfigSelect,
    SessionConfigSelectGroup,
    SessionId,
    SessionInfoUpdate,
    SessionNotification,
    SessionUpdate,
    SetSessionConfigBooleanRequest,
    SetSessionConfigOptionRequest,
    SetSessionConfigSelectRequest,
    StopReason,
    StringPropertySchema,
    TextContent,
    TextResourceContents,
    TitledMultiSelectItems,
    ToolCall,
    ToolCallId,
    ToolCallStatus,
    ToolCallUpdate,
    ToolKind,
    Unknown,
    UsageUpdate,
)
from tests.schema_samples import payloads

S: Final = SessionId("s")
STDIO: Final[JSON] = {"name": "a", "command": "/bin/a", "args": [], "env": []}


def errors(t: TypeForm[object], value: JSON) -> Sequence[str]:
    """What is wrong with ``value``, which must not be a ``t``."""
    with pytest.raises(InvalidPayload) as caught:
        structure(t, value)
    assert str(caught.value) == "; ".join(caught.value.errors)
    return caught.value.errors


def refused(t: TypeForm[object], value: object) -> Sequence[str]:
    """Why ``value`` is not written."""
    with pytest.raises(InvalidPayload) as caught:
        unstructure(t, value)
    return caught.value.errors


def written(t: TypeForm[object], value: object) -> JSONObject:
    out = unstructure(t, value)
    assert isinstance(out, dict)
    assert loads(dumps(out)) == out
    return out


def update(value: JSON) -> SessionUpdate:
    return structure(SessionNotification, {"sessionId": "s", "update": value}).update


@pytest.fixture(autouse=True)
def _nothing_salvaged() -> None:
    take_salvaged()


# ------------------------------------------------------------------------------------------------ both ways


@pytest.mark.parametrize(("name", "t", "value"), payloads(), ids=lambda x: x if isinstance(x, str) else "")
def test_what_is_written_is_read_as_what_it_was(name: str, t: TypeForm[object], value: object) -> None:
    once = unstructure(t, value)
    assert structure(t, loads(dumps(once))) == value
    assert not take_salvaged()
    assert not salvages(t, once)


def test_the_types_of_what_is_read_are_known() -> None:
    assert_type(structure(PromptResponse, {"stopReason": "end_turn"}), PromptResponse)
    assert_type(structure(ContentBlock, {"type": "text", "text": ""}), ContentBlock)
    assert_type(structure(JSON, None), JSON)


def test_an_alias_of_json_is_a_type_too() -> None:
    anything: JSON = {"a": [1, None, "x"]}
    assert structure(JSON, anything) is anything
    assert unstructure(JSON, None) is None
    assert structure(JSON, None) is None
    assert errors(JSONObject, [1]) == ["$: expected object, got array"]
    assert refused(JSON, {"a": [1, math.inf]}) == ["$.a[1]: NaN and Infinity are not JSON"]


def test_classes_of_an_extension_follow_the_same_rules() -> None:
    @attrs.frozen(kw_only=True)
    class Progress:
        done_so_far: int
        note: str | None = None
        details: JSONObject | None = None

    assert structure(Progress, {"doneSoFar": 5, "more": 1}) == Progress(done_so_far=5)
    assert unstructure(Progress, Progress(done_so_far=5)) == {"doneSoFar": 5}
    assert errors(Progress, {"doneSoFar": "5"}) == ["$.doneSoFar: expected integer, got string"]


def test_a_type_without_a_json_form_is_an_error_of_the_programmer() -> None:
    types: Sequence[TypeForm[object]] = [complex, tuple[int, str], bytes | int]
    for t in types:
        with pytest.raises(TypeError, match="no JSON form"):
            structure_hook(t)
        with pytest.raises(TypeError, match="no JSON form"):
            unstructure_hook(t)(AnyJSON())


# ------------------------------------------------------------------------------------------------ names and order


@pytest.mark.spec("EXT-01")
def test_names_are_in_camel_case_and_meta_has_its_underscore() -> None:
    value = CreateTerminalRequest(session_id=S, command="ls", output_byte_limit=5, meta={"k": None})
    expected: JSON = {
        "sessionId": "s", "command": "ls", "args": [], "env": [], "outputByteLimit": 5, "_meta": {"k": None},
    }  # fmt: skip
    assert written(CreateTerminalRequest, value) == expected


def test_a_tag_comes_first() -> None:
    chunk = written(SessionUpdate, AgentMessageChunk(content=TextContent(text="hi")))
    assert list(chunk) == ["sessionUpdate", "content"]


@pytest.mark.spec("EXT-04", "INIT-15")
def test_unknown_keys_are_ignored_and_never_written() -> None:
    value = structure(InitializeRequest, {"protocolVersion": 1, "later": True, "clientCapabilities": {"x": {}}})
    assert value == InitializeRequest(protocol_version=value.protocol_version)
    assert not take_salvaged()
    assert "later" not in written(InitializeRequest, value)


# ------------------------------------------------------------------------------------------------ absent and null


@pytest.mark.field_note(46)
@pytest.mark.spec("SETUP-04", "SETUP-09")
def test_required_lists_are_written_when_they_are_empty() -> None:
    assert written(NewSessionRequest, NewSessionRequest(cwd="/", mcp_servers=[])) == {"cwd": "/", "mcpServers": []}
    load = written(LoadSessionRequest, LoadSessionRequest(session_id=S, cwd="/", mcp_servers=[]))
    assert load["mcpServers"] == []
    assert written(ResumeSessionRequest, ResumeSessionRequest(session_id=S, cwd="/"))["mcpServers"] == []


@pytest.mark.field_note(46)
def test_a_missing_list_of_mcp_servers_is_an_error_that_names_it_and_null_is_the_empty_list() -> None:
    assert errors(NewSessionRequest, {"cwd": "/"}) == ["$.mcpServers: required"]
    assert structure(NewSessionRequest, {"cwd": "/", "mcpServers": None}).mcp_servers == []
    assert not take_salvaged()
    assert errors(NewSessionRequest, {"cwd": "/", "mcpServers": "x"}) == ["$.mcpServers: expected array, got string"]


@pytest.mark.field_note(47)
def test_the_lists_of_an_mcp_server_are_always_written() -> None:
    stdio = McpServerStdio(name="a", command="/bin/a", args=[], env=[])
    http = McpServerHttp(name="b", url="http://b", headers=[])
    assert written(McpServer, stdio) == STDIO
    assert written(McpServer, http) == {"type": "http", "name": "b", "url": "http://b", "headers": []}


@pytest.mark.field_note(29)
def test_an_empty_result_may_be_null_or_have_more_members() -> None:
    empty: Sequence[JSON] = [None, {}, {"unheard": "of"}, {"_meta": None}]
    for value in empty:
        assert structure(LogoutResponse, value) == LogoutResponse()
    assert written(LogoutResponse, LogoutResponse()) == {}
    assert errors(NewSessionResponse, None) == ["$.sessionId: required"]


@pytest.mark.parametrize("call", [*AGENT.handles, *CLIENT.handles], ids=lambda call: call.name)
def test_missing_params_are_an_empty_object(call: object) -> None:
    params: TypeForm[object] = getattr(call, "params")  # noqa: B009  # whatever its type
    assert _read(params, None) == _read(params, {})


def _read(t: TypeForm[object], value: JSON) -> object:
    try:
        return structure(t, value)
    except InvalidPayload as exc:
        return exc.errors


@pytest.mark.field_note(89)
@pytest.mark.spec("LIST-16", "LIST-17")
@pytest.mark.parametrize(
    ("wire", "value"),
    [
        ({}, SessionInfoUpdate()),
        ({"title": None}, SessionInfoUpdate(title=None)),
        ({"title": "T", "updatedAt": None}, SessionInfoUpdate(title="T", updated_at=None)),
        ({"_meta": None}, SessionInfoUpdate(meta=None)),
        ({"_meta": {"k": None}}, SessionInfoUpdate(meta={"k": None})),
    ],
)
def test_absent_null_and_value_are_three_things(wire: JSONObject, value: SessionInfoUpdate) -> None:
    whole: JSON = {"sessionUpdate": "session_info_update", **wire}
    assert update(whole) == value
    assert written(SessionUpdate, value) == whole


@pytest.mark.spec("COMP-03")
def test_a_compaction_keeps_clears_or_replaces_its_summary() -> None:
    base: JSONObject = {"sessionUpdate": "compaction_update", "compactionId": "c", "status": "completed"}
    changes: Sequence[JSONObject] = [{}, {"summary": None}, {"summary": []}]
    found = [update({**base, **change}) for change in changes]
    assert [x.summary for x in found if isinstance(x, CompactionUpdate)] == [UNSET, None, []]
    assert [written(SessionUpdate, x) for x in found] == [{**base, **change} for change in changes]


@pytest.mark.field_note(89)
def test_raw_input_that_is_null_stays_null() -> None:
    whole: JSON = {"sessionUpdate": "tool_call_update", "toolCallId": "1", "rawInput": None}
    value = update(whole)
    assert value == ToolCallUpdate(tool_call_id=ToolCallId("1"), raw_input=None)
    assert written(SessionUpdate, value) == whole


@pytest.mark.spec("TOOL-05", "TOOL-07", "TOOL-09", "PROMPT-11")
def test_elsewhere_null_reads_as_absent_and_is_never_written() -> None:
    nulls = {"kind": None, "status": None, "title": None, "name": None, "content": None, "_meta": None}
    value = update({"sessionUpdate": "tool_call_update", "toolCallId": "1", **nulls})
    assert not take_salvaged()
    assert value == ToolCallUpdate(tool_call_id=ToolCallId("1"))
    assert written(SessionUpdate, value) == {"sessionUpdate": "tool_call_update", "toolCallId": "1"}
    capabilities: JSON = {"fs": None, "terminal": None, "auth": None}
    structure(InitializeRequest, {"protocolVersion": 1, "clientCapabilities": capabilities, "clientInfo": None})
    assert not take_salvaged()


# ------------------------------------------------------------------------------------------------ unions


@pytest.mark.field_note(87)
@pytest.mark.spec("ELIC-40", "ELIC-41", "ELIC-42")
@pytest.mark.parametrize(
    ("t", "key"),
    [
        (SessionUpdate, "sessionUpdate"),
        (ContentBlock, "type"),
        (ElicitationPropertySchema, "type"),
        (CreateElicitationRequest, "mode"),
        (CreateElicitationResponse, "action"),
        (MultiSelectItems, "type"),
        (SessionConfigOption, "type"),
        (RequestPermissionOutcome, "outcome"),
        (AuthMethod, "type"),
    ],
)
def test_an_unknown_variant_is_kept_and_written_back_unchanged(t: TypeForm[object], key: str) -> None:
    raw: JSONObject = {key: "plan_v9", "x": {"y": [1, None]}, "_meta": {"k": 1}}
    value = structure(t, raw)
    assert value == Unknown(raw=raw)
    assert unstructure(t, value) == raw
    assert not take_salvaged()


def test_a_known_variant_with_a_bad_payload_is_an_error() -> None:
    assert errors(SessionUpdate, {"sessionUpdate": "plan"}) == ["$.entries: required"]
    assert errors(ContentBlock, {"type": "image", "data": 5, "mimeType": "image/png"}) == [
        "$.data: expected string, got integer"
    ]


def test_a_missing_tag_is_an_error() -> None:
    assert errors(SessionNotification, {"sessionId": "s", "update": {"entries": []}}) == [
        "$.update.sessionUpdate: required"
    ]
    assert errors(ContentBlock, {"type": None, "text": "x"}) == ["$.type: required"]
    assert errors(ContentBlock, {"type": ["text"], "text": "x"}) == ["$.type: expected string, got array"]
    assert errors(ContentBlock, "text") == ["$: expected object, got string"]


def test_a_tag_is_written_in_a_union_and_not_in_a_plain_field() -> None:
    call = ToolCallUpdate(tool_call_id=ToolCallId("1"))
    assert written(SessionUpdate, call) == {"sessionUpdate": "tool_call_update", "toolCallId": "1"}
    request = RequestPermissionRequest(session_id=S, tool_call=call, options=[])
    assert written(RequestPermissionRequest, request)["toolCall"] == {"toolCallId": "1"}


@pytest.mark.field_note(50)
@pytest.mark.spec("SETUP-04")
def test_a_server_without_type_or_of_type_stdio_is_started_and_one_of_unknown_type_never() -> None:
    plain = structure(McpServer, STDIO)
    assert isinstance(STDIO, dict)
    assert plain == McpServerStdio(name="a", command="/bin/a", args=[], env=[])
    assert structure(McpServer, {**STDIO, "type": "stdio"}) == plain
    assert structure(McpServer, {**STDIO, "type": None}) == plain
    assert errors(McpServer, {**STDIO, "type": "websocket"}) == ["$.type: unknown type 'websocket'"]
    assert errors(McpServer, {"type": "http", "name": "a", "command": "/bin/a"}) == [
        "$.url: required",
        "$.headers: required",
    ]
    assert written(McpServer, plain) == STDIO


@pytest.mark.field_note(47, 48)
def test_a_fault_of_an_mcp_server_is_told_once() -> None:
    servers: JSON = [
        {"name": "a", "command": "/bin/a"},
        {"name": "b", "command": "/bin/b", "args": [], "env": {"KEY": "1"}},
        {"type": "http", "name": "c", "url": "http://c", "headers": {"k": "v"}},
    ]
    assert errors(NewSessionRequest, {"cwd": "/", "mcpServers": servers}) == [
        "$.mcpServers[0].args: required",
        "$.mcpServers[0].env: required",
        "$.mcpServers[1].env: expected array, got object",
        "$.mcpServers[2].headers: expected array, got object",
    ]


@pytest.mark.field_note(49)
def test_one_bad_mcp_server_fails_the_request_with_its_place() -> None:
    found = errors(NewSessionRequest, {"cwd": "/", "mcpServers": [{**_object(STDIO), "command": 1}, STDIO]})
    assert found == ["$.mcpServers[0].command: expected string, got integer"]


def _object(value: JSON) -> JSONObject:
    assert isinstance(value, dict)
    return value


@pytest.mark.field_note(99)
@pytest.mark.parametrize(
    ("value", "error"),
    [
        (["/a", 5], "$.additionalDirectories[1]: expected string, got integer"),
        ("/a", "$.additionalDirectories: expected array, got string"),
    ],
)
def test_a_malformed_root_fails_the_request(value: JSON, error: str) -> None:
    request: JSON = {"cwd": "/", "mcpServers": [], "additionalDirectories": value}
    assert errors(NewSessionRequest, request) == [error]


def test_no_additional_directories_are_not_written() -> None:
    assert "additionalDirectories" not in written(NewSessionRequest, NewSessionRequest(cwd="/", mcp_servers=[]))


@pytest.mark.spec("AUTH-04")
def test_a_login_method_without_type_is_carried_out_by_the_agent() -> None:
    agent = AuthMethodAgent(id=AuthMethodId("a"), name="A")
    assert structure(AuthMethod, {"id": "a", "name": "A"}) == agent
    assert structure(AuthMethod, {"id": "a", "name": "A", "type": "agent"}) == agent
    assert written(AuthMethod, agent) == {"id": "a", "name": "A"}
    terminal = structure(AuthMethod, {"type": "terminal", "id": "t", "name": "T", "args": None, "env": {"K": "v"}})
    assert terminal == AuthMethodTerminal(id=AuthMethodId("t"), name="T", env={"K": "v"})


def test_the_value_of_a_config_option_is_a_name_unless_its_type_is_boolean() -> None:
    base: JSONObject = {"sessionId": "s", "configId": "c"}
    named = structure(SetSessionConfigOptionRequest, {**base, "value": "v"})
    assert isinstance(named, SetSessionConfigSelectRequest)
    assert structure(SetSessionConfigOptionRequest, {**base, "type": "later", "value": "v"}) == named
    assert written(SetSessionConfigOptionRequest, named) == {**base, "value": "v"}
    switched = structure(SetSessionConfigOptionRequest, {**base, "type": "boolean", "value": True})
    assert isinstance(switched, SetSessionConfigBooleanRequest)
    assert written(SetSessionConfigOptionRequest, switched) == {"type": "boolean", **base, "value": True}
    assert errors(SetSessionConfigOptionRequest, {**base, "value": True}) == ["$.value: expected string, got boolean"]
    assert errors(SetSessionConfigOptionRequest, {**base, "type": "boolean", "value": "on"}) == [
        "$.value: expected boolean, got string"
    ]


@pytest.mark.spec("CONTENT-07")
def test_an_embedded_resource_is_text_or_bytes_and_not_both() -> None:
    def resource(**members: JSON) -> JSON:
        return {"type": "resource", "resource": {"uri": "file:///a", **members}}

    text, blob = structure(ContentBlock, resource(text="")), structure(ContentBlock, resource(blob="AA==", text=None))
    assert isinstance(text, EmbeddedResource)
    assert isinstance(blob, EmbeddedResource)
    assert isinstance(text.resource, TextResourceContents)
    assert isinstance(blob.resource, BlobResourceContents)
    assert errors(ContentBlock, resource(text="a", blob="AA==")) == ["$.resource: expected text or blob, got both"]
    assert errors(ContentBlock, resource()) == ["$.resource: expected text or blob, got neither"]


def test_the_values_of_a_select_option_are_all_in_groups_or_none() -> None:
    base: JSONObject = {"type": "select", "id": "m", "name": "Model", "currentValue": "a"}
    value: JSON = {"value": "a", "name": "A"}
    group: JSON = {"group": "g", "name": "G", "options": [value, {"value": 5}]}
    flat = structure(SessionConfigOption, {**base, "options": [value]})
    grouped = structure(SessionConfigOption, {**base, "options": [group]})
    assert isinstance(flat, SessionConfigSelect)
    assert isinstance(grouped, SessionConfigSelect)
    assert isinstance(grouped.options[0], SessionConfigSelectGroup)
    assert grouped.options[0].options == flat.options
    assert written(SessionConfigOption, grouped)["options"] == [{"group": "g", "name": "G", "options": [value]}]
    assert errors(SessionConfigOption, {**base, "options": [value, group]}) == ["$.options[1].value: required"]
    assert errors(SessionConfigOption, {**base, "options": {}}) == ["$.options: expected array, got object"]


@pytest.mark.spec("MODE-05")
def test_a_mode_update_is_read_by_its_older_name_and_written_by_its_newer() -> None:
    older = update({"sessionUpdate": "current_mode_update", "modeId": "ask"})
    newer = update({"sessionUpdate": "current_mode_update", "currentModeId": "ask", "modeId": "other"})
    assert older == newer
    assert isinstance(older, CurrentModeUpdate)
    assert written(SessionUpdate, older) == {"sessionUpdate": "current_mode_update", "currentModeId": "ask"}
    assert errors(SessionUpdate, {"sessionUpdate": "current_mode_update"}) == ["$.currentModeId: required"]


# ------------------------------------------------------------------------------------------------ elicitation

FORM: Final[JSONObject] = {"mode": "form", "message": "Who?", "requestedSchema": {}}


@pytest.mark.spec("ELIC-09")
def test_an_elicitation_has_exactly_one_scope_and_it_lies_flat() -> None:
    in_session = structure(CreateElicitationRequest, {**FORM, "sessionId": "s", "toolCallId": "t"})
    in_request = structure(CreateElicitationRequest, {**FORM, "requestId": 5})
    assert isinstance(in_session, ElicitationFormRequest)
    assert isinstance(in_request, ElicitationFormRequest)
    assert in_session.scope == ElicitationSessionScope(session_id=S, tool_call_id=ToolCallId("t"))
    assert in_request.scope == ElicitationRequestScope(request_id=5)
    schema: JSON = {"type": "object", "properties": {}}
    assert written(CreateElicitationRequest, in_session) == {
        **FORM, "requestedSchema": schema, "sessionId": "s", "toolCallId": "t",
    }  # fmt: skip
    assert written(CreateElicitationRequest, in_request) == {**FORM, "requestedSchema": schema, "requestId": 5}
    both: JSON = {**FORM, "sessionId": "s", "requestId": 5}
    assert errors(CreateElicitationRequest, both) == ["$: expected sessionId or requestId, got both"]
    assert errors(CreateElicitationRequest, FORM) == ["$: expected sessionId or requestId, got neither"]
    bad: JSON = {**FORM, "sessionId": 5}
    assert errors(CreateElicitationRequest, bad) == ["$.sessionId: expected string, got integer"]


@pytest.mark.spec("ELIC-43")
def test_a_form_always_says_that_it_is_an_object_and_what_its_fields_are() -> None:
    forms: Sequence[JSON] = [{}, {"type": "list"}, {"properties": {}}]
    for value in forms:
        assert structure(ElicitationSchema, value) == ElicitationSchema()
    assert written(ElicitationSchema, ElicitationSchema()) == {"type": "object", "properties": {}}
    assert errors(ElicitationSchema, {"properties": None}) == ["$.properties: expected object, got null"]


@pytest.mark.spec("ELIC-44")
def test_an_unknown_string_format_is_kept() -> None:
    value = structure(ElicitationPropertySchema, {"type": "string", "format": "ipv4"})
    assert value == StringPropertySchema(format="ipv4")
    assert written(ElicitationPropertySchema, value) == {"type": "string", "format": "ipv4"}


def test_titled_choices_have_no_type() -> None:
    raw: JSON = {"anyOf": [{"const": "a", "title": "A"}]}
    value = structure(MultiSelectItems, raw)
    assert isinstance(value, TitledMultiSelectItems)
    assert written(MultiSelectItems, value) == raw


@pytest.mark.spec("ELIC-20", "ELIC-21")
def test_an_answer_has_content_only_when_it_is_accepted() -> None:
    content: JSON = {"name": "x", "n": 3, "f": 0.5, "b": True, "l": ["a"]}
    assert structure(CreateElicitationResponse, {"action": "accept", "content": None}) == ElicitationAccept()
    assert structure(CreateElicitationResponse, {"action": "decline", "content": content}) == ElicitationDecline()
    accepted = structure(CreateElicitationResponse, {"action": "accept", "content": content})
    assert written(CreateElicitationResponse, accepted) == {"action": "accept", "content": content}
    bad: JSON = {"action": "accept", "content": {"a": {}, "b": [1], "c": None}}
    assert errors(CreateElicitationResponse, bad) == [
        "$.content.a: expected string, number, boolean or array, got object",
        "$.content.b[0]: expected string, got integer",
        "$.content.c: expected string, number, boolean or array, got null",
    ]


# ------------------------------------------------------------------------------------------------ enums


@pytest.mark.field_note(87, 88, 95)
def test_an_unlisted_value_stays_a_string_where_nothing_may_be_lost() -> None:
    assert structure(PromptResponse, {"stopReason": "error"}).stop_reason == "error"
    assert structure(PromptResponse, {"stopReason": "refusal"}).stop_reason is StopReason.REFUSAL
    plan: JSON = {"entries": [{"content": "x", "priority": "urgent", "status": "blocked"}]}
    entry = structure(Plan, plan).entries[0]
    assert (entry.priority, entry.status) == ("urgent", "blocked")
    option = structure(PermissionOption, {"optionId": "o", "name": "O", "kind": "allow_until_tomorrow"})
    assert option.kind == "allow_until_tomorrow"
    assert not isinstance(option.kind, PermissionOptionKind)
    assert not take_salvaged()


@pytest.mark.field_note(87)
@pytest.mark.spec("TOOL-03")
def test_an_unlisted_value_is_the_default_where_the_schema_says_so() -> None:
    call = update({"sessionUpdate": "tool_call", "toolCallId": "1", "title": "", "kind": "dance", "status": "napping"})
    assert isinstance(call, ToolCall)
    assert (call.kind, call.status) == (ToolKind.OTHER, ToolCallStatus.PENDING)
    assert take_salvaged()


@pytest.mark.field_note(88)
@pytest.mark.spec("PROMPT-17", "PLAN-02")
def test_closed_enums_are_closed_on_write_and_open_ones_open() -> None:
    assert refused(PromptResponse, PromptResponse(stop_reason="error")) == [
        "$.stopReason: expected one of end_turn, max_tokens, max_turn_requests, refusal, cancelled, got 'error'"
    ]
    assert written(PromptResponse, PromptResponse(stop_reason="end_turn")) == {"stopReason": "end_turn"}
    entry = PlanEntry(content="x", priority="urgent", status="done")
    assert [fault.partition(":")[0] for fault in refused(Plan, Plan(entries=[entry]))] == [
        "$.entries[0].priority",
        "$.entries[0].status",
    ]
    notice = Notice(severity="grave", title="x")
    assert written(SessionUpdate, notice) == {"sessionUpdate": "notice", "severity": "grave", "title": "x"}


def test_enum_members_are_written_as_plain_strings() -> None:
    out = written(SessionUpdate, Notice(severity=NoticeSeverity.INFO, title=NoticeSeverity.ERROR))
    assert {type(x) for x in out.values()} == {str}
    entry = PlanEntry(content="", priority=PlanEntryPriority.LOW, status=PlanEntryStatus.PENDING)
    assert {type(x) for x in written(PlanEntry, entry).values()} == {str}


# ------------------------------------------------------------------------------------------------ strictness


@pytest.mark.parametrize(
    ("t", "value", "error"),
    [
        (ReadTextFileRequest, {"sessionId": 5, "path": "/"}, "$.sessionId: expected string, got integer"),
        (ReadTextFileRequest, {"sessionId": None, "path": "/"}, "$.sessionId: expected string, got null"),
        (ReadTextFileRequest, {"sessionId": "s", "path": "/", "line": "5"}, "$.line: expected integer, got string"),
        (ReadTextFileRequest, {"sessionId": "s", "path": "/", "line": True}, "$.line: expected integer, got boolean"),
        (ReadTextFileRequest, {"sessionId": "s", "path": "/", "line": 1.0}, "$.line: expected integer, got number"),
        (Annotations, [], "$: expected object, got array"),
        (LogoutResponse, [], "$: expected object, got array"),
        (PromptRequest, {"sessionId": "s", "prompt": "hi"}, "$.prompt: expected array, got string"),
        (PromptRequest, {"sessionId": "s", "prompt": {}}, "$.prompt: expected array, got object"),
        (AuthMethodTerminal, {"id": "a", "name": "", "env": {"K": 1}}, "$.env.K: expected string, got integer"),
        (AuthMethodTerminal, {"id": "a", "name": "", "env": []}, "$.env: expected object, got array"),
        (Notice, {"severity": 1, "title": "x"}, "$.severity: expected string, got integer"),
        (Notice, {"severity": "info", "title": ""}, "$.title: expected a string that is not empty"),
    ],
)
def test_nothing_is_coerced(t: TypeForm[object], value: JSON, error: str) -> None:
    assert errors(t, value) == [error]


@pytest.mark.spec("INIT-06", "PROMPT-13")
@pytest.mark.parametrize(
    ("t", "value", "path", "low", "high"),
    [
        (InitializeRequest, {"protocolVersion": None}, "protocolVersion", 0, 2**16 - 1),
        (ReadTextFileRequest, {"sessionId": "s", "path": "/", "limit": None}, "limit", 0, 2**32 - 1),
        (CreateTerminalRequest, {"sessionId": "s", "command": ""}, "outputByteLimit", 0, 2**64 - 1),
        (UsageUpdate, {"used": 0, "size": 0}, "used", 0, 2**64 - 1),
        (CancelRequestNotification, {"requestId": 0}, "requestId", -(2**63), 2**63 - 1),
    ],
)  # fmt: skip
def test_integers_stay_in_their_range(t: TypeForm[object], value: JSONObject, path: str, low: int, high: int) -> None:
    for good in (low, high):
        read = structure(t, {**value, path: good})
        assert unstructure(t, read) == {**_object(unstructure(t, read)), path: good}
    for bad in (low - 1, high + 1):
        assert errors(t, {**value, path: bad}) == [f"$.{path}: expected an integer from {low} to {high}, got {bad}"]


def test_a_request_id_is_an_integer_a_string_or_null() -> None:
    for good in (0, -5, "0", "", None):
        value = structure(CancelRequestNotification, {"requestId": good})
        assert type(value.request_id) is type(good)
        assert written(CancelRequestNotification, value) == {"requestId": good}
    wrong: Sequence[JSON] = [True, 1.0, [], {}]
    for bad in wrong:
        (error,) = errors(CancelRequestNotification, {"requestId": bad})
        assert error.startswith("$.requestId: expected string, integer or null, got ")
    assert errors(CancelRequestNotification, {}) == ["$.requestId: required"]


def test_a_number_may_be_whole_and_is_never_infinite() -> None:
    value = structure(ElicitationPropertySchema, {"type": "number", "minimum": 1, "maximum": 2.5})
    assert value == NumberPropertySchema(minimum=1, maximum=2.5)
    bad: JSON = {"type": "number", "minimum": math.inf, "maximum": True}
    assert errors(ElicitationPropertySchema, bad) == [
        "$.minimum: NaN and Infinity are not JSON",
        "$.maximum: expected number, got boolean",
    ]


def test_all_faults_are_told_at_once_by_their_names_on_the_wire() -> None:
    chunk: JSON = {"sessionUpdate": "agent_message_chunk", "content": {"type": "resource_link", "uri": 1}}
    assert errors(SessionNotification, {"update": chunk}) == [
        "$.sessionId: required",
        "$.update.content.name: required",
        "$.update.content.uri: expected string, got integer",
    ]


def test_a_key_that_is_no_identifier_is_quoted_in_a_path() -> None:
    properties: JSON = {"first name": {"type": "string", "minLength": -1}}
    assert errors(ElicitationSchema, {"properties": properties}) == [
        "$.properties['first name'].minLength: expected an integer from 0 to 4294967295, got -1"
    ]


# ------------------------------------------------------------------------------------------------ tolerance


@pytest.mark.spec("EXT-02", "CONTENT-10")
def test_what_a_mark_forgives_is_mended_and_reported() -> None:
    block: JSON = {
        "type": "text",
        "text": "hi",
        "annotations": {"priority": "high", "audience": ["user", "crowd"], "lastModified": 5},
        "_meta": 5,
    }
    value = structure(ContentBlock, block)
    assert value == TextContent(text="hi", annotations=structure(Annotations, {"audience": ["user"]}))
    assert take_salvaged()
    assert not take_salvaged()
    assert salvages(ContentBlock, block) == [
        Salvage("$.annotations.audience[1]", "expected one of assistant, user, got 'crowd'"),
        Salvage("$.annotations.lastModified", "expected string, got integer"),
        Salvage("$.annotations.priority", "expected number, got string"),
        Salvage("$._meta", "expected object, got integer"),
    ]


def test_bad_items_are_left_out_one_by_one_where_the_schema_says_so() -> None:
    good: JSON = {"sessionId": "s", "cwd": "/"}
    listing: JSON = {"sessions": [good, {"sessionId": 5}, "x", {**_object(good), "title": 5}]}
    assert [x.session_id for x in structure(ListSessionsResponse, listing).sessions] == ["s", "s"]
    assert [salvage.path for salvage in salvages(ListSessionsResponse, listing)] == [
        "$.sessions[1].sessionId",
        "$.sessions[1].cwd",
        "$.sessions[2]",
        "$.sessions[3].title",
    ]
    wrong: Sequence[JSON] = [None, "x", {}]
    for bad in wrong:
        assert structure(ListSessionsResponse, {"sessions": bad}).sessions == []
        assert take_salvaged()
        assert [salvage.path for salvage in salvages(ListSessionsResponse, {"sessions": bad})] == ["$.sessions"]
    assert errors(ListSessionsResponse, {}) == ["$.sessions: required"]


def test_items_that_were_left_out_are_noticed() -> None:
    plan: JSON = {"entries": [{"content": "x", "priority": "low", "status": "pending"}, {}]}
    assert len(structure(Plan, plan).entries) == 1
    assert take_salvaged()


def test_a_value_given_up_is_reported_with_all_that_was_wrong_in_it() -> None:
    answer: JSON = {"protocolVersion": 1, "agentInfo": {"name": 5, "title": 5, "version": "1"}}
    assert structure(InitializeResponse, answer).agent_info is None
    assert salvages(InitializeResponse, answer) == [
        Salvage("$.agentInfo.name", "expected string, got integer"),
        Salvage("$.agentInfo.title", "expected string, got integer"),
    ]


def test_a_malformed_capability_is_not_there_and_its_siblings_are() -> None:
    answer: JSON = {
        "protocolVersion": 1,
        "agentCapabilities": {"loadSession": "yes", "mcpCapabilities": {"http": 1, "sse": True}, "auth": []},
    }
    found = structure(InitializeResponse, answer).agent_capabilities
    assert (found.load_session, found.mcp_capabilities.http, found.mcp_capabilities.sse) == (False, False, True)
    assert [salvage.path for salvage in salvages(InitializeResponse, answer)] == [
        "$.agentCapabilities.loadSession",
        "$.agentCapabilities.mcpCapabilities.http",
        "$.agentCapabilities.auth",
    ]


def test_what_is_mended_is_no_error_and_what_is_an_error_is_not_mended() -> None:
    bad: JSON = {"protocolVersion": -1, "agentInfo": {"name": "a"}}
    assert errors(InitializeResponse, bad) == ["$.protocolVersion: expected an integer from 0 to 65535, got -1"]
    assert not take_salvaged()
    assert salvages(InitializeResponse, bad) == [Salvage("$.agentInfo.version", "required")]


def test_a_wrong_value_without_a_mark_is_an_error() -> None:
    request: JSON = {"sessionId": "s", "command": "ls", "args": ["-l", 5], "cwd": 5}
    assert errors(CreateTerminalRequest, request) == [
        "$.args[1]: expected string, got integer",
        "$.cwd: expected string, got integer",
    ]
    assert structure(CreateTerminalRequest, {"sessionId": "s", "command": "ls", "env": None}).env == []


# ------------------------------------------------------------------------------------------------ strict writing


@pytest.mark.field_note(9, 90)
def test_what_json_cannot_say_is_not_written_and_the_place_is_told() -> None:
    call = ToolCall(
        tool_call_id=ToolCallId("1"),
        title="x",
        raw_input={"numbers": [1.0, math.nan]},
        raw_output={"set": {1}},  # type: ignore[dict-item]  # what the test is about
        meta={5: "x"},  # type: ignore[dict-item]  # the same
    )
    assert refused(SessionNotification, SessionNotification(session_id=S, update=call)) == [
        "$.update.rawInput.numbers[1]: NaN and Infinity are not JSON",
        "$.update.rawOutput.set: expected JSON, got set",
        "$.update._meta: expected keys that are strings, got integer",
    ]


def test_a_value_that_refers_to_itself_is_refused() -> None:
    endless: JSONObject = {}
    endless["x"] = endless
    assert refused(SessionUpdate, ToolCall(tool_call_id=ToolCallId("1"), title="", meta=endless))


def test_a_value_of_another_type_is_refused() -> None:
    assert refused(PromptResponse, LogoutResponse()) == ["$: expected PromptResponse, got LogoutResponse"]
    assert refused(RequestPermissionOutcome, TextContent(text="")) == [
        "$: expected CancelledPermissionOutcome or SelectedPermissionOutcome or Unknown, got TextContent"
    ]
    server = McpServerStdio(name="a", command="b", args=["x", 5], env={})  # type: ignore[list-item, arg-type]
    assert refused(NewSessionRequest, NewSessionRequest(cwd="/", mcp_servers=[server])) == [
        "$.mcpServers[0].args[1]: expected string, got integer",
        "$.mcpServers[0].env: expected array, got object",
    ]
    assert refused(Notice, Notice(severity="info", title="")) == ["$.title: expected a string that is not empty"]


def test_a_subclass_of_a_variant_is_written_as_the_variant() -> None:
    @attrs.frozen(kw_only=True)
    class Marked(SelectedPermissionOutcome):
        note: str = ""

    outcome = Marked(option_id=PermissionOptionId("yes"), note="mine")
    assert written(RequestPermissionOutcome, outcome) == {"outcome": "selected", "optionId": "yes"}


def test_writing_changes_nothing_of_what_is_written() -> None:
    meta: JSONObject = {"k": [1]}
    env = [EnvVariable(name="A", value="1")]
    server = McpServerStdio(name="a", command="b", args=["x"], env=env, meta=meta)
    out = written(McpServer, server)
    assert isinstance(out["args"], list)
    out["args"].append("y")
    assert server.args == ["x"]
    assert meta == {"k": [1]}


# ------------------------------------------------------------------------------------------------ any JSON at all

JSON_VALUES: Final[st.SearchStrategy[JSON]] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
KEYS: Final = st.sampled_from(
    ["sessionId", "update", "sessionUpdate", "content", "type", "text", "toolCallId", "entries", "mcpServers"]
) | st.sampled_from(["cwd", "name", "env", "prompt", "protocolVersion", "agentCapabilities", "authMethods"])
WORDS: Final = st.sampled_from(
    ["s", "tool_call", "plan", "agent_message_chunk", "text", "stdio", "pending", "session_info_update"]
)
LIKELY: Final[st.SearchStrategy[JSON]] = st.recursive(
    WORDS | JSON_VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=20,
)


@given(value=LIKELY, t=st.sampled_from([SessionNotification, NewSessionRequest, InitializeResponse, PromptRequest]))
def test_no_json_does_more_than_be_refused(value: JSON, t: type[object]) -> None:
    found = _read(t, value)
    mended = take_salvaged()
    if isinstance(found, list):
        assert found
        assert all(isinstance(error, str) and error.startswith("$") for error in found)
    else:
        assert mended or not salvages(t, value)


# ------------------------------------------------------------------------------------------------ start-up


def test_importing_the_converter_builds_no_hook_and_imports_no_trio() -> None:
    code = """
import sys
from importlib.util import module_from_spec, spec_from_file_location
import types
package = types.ModuleType("acp_ref")
package.__path__ = [sys.argv[1]]
sys.modules["acp_ref"] = package
import acp_ref._converter as converter
assert not converter._structure_hooks and not converter._fast._variants
assert not {"trio", "mcp", "pydantic"} & sys.modules.keys(), sys.modules.keys()
"""
    import acp_ref

    subprocess.run([sys.executable, "-c", code, acp_ref.__path__[0]], check=True, timeout=60)
