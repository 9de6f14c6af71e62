"""The methods as values: their types, their gates, and the roles they make up."""

from __future__ import annotations

from typing import TypeVar, assert_type

import attrs
import pytest

from acp_ref import methods, schema
from acp_ref._jsonrpc import JSON, JSONObject
from acp_ref.methods import (
    ADDITIONAL_DIRECTORIES_GATE,
    AGENT,
    BOOLEAN_CONFIG_OPTION_GATE,
    CANCEL,
    CANCEL_REQUEST,
    CLIENT,
    COMPLETE_ELICITATION,
    CREATE_ELICITATION,
    CREATE_TERMINAL,
    ELICITATION_GATES,
    LIST_SESSIONS,
    LOAD_SESSION,
    LOGOUT,
    MCP_SERVER_GATES,
    NEW_SESSION,
    PROMPT,
    PROMPT_CONTENT_GATES,
    SESSION_UPDATE_GATES,
    SET_SESSION_CONFIG_OPTION,
    Gate,
    Method,
    Notification,
    extension_method,
    extension_notification,
)
from acp_ref.schema import (
    AgentCapabilities,
    ClientCapabilities,
    ElicitationCapabilities,
    ElicitationFormCapabilities,
    ElicitationUrlCapabilities,
    PromptCapabilities,
    SessionCapabilities,
    SessionListCapabilities,
    StopReason,
)

P = TypeVar("P")
R = TypeVar("R")

CALLS = [*AGENT.handles, *CLIENT.handles]
GATES = [
    *(call.gate for call in CALLS if call.gate is not None),
    *PROMPT_CONTENT_GATES.values(),
    *MCP_SERVER_GATES.values(),
    *SESSION_UPDATE_GATES.values(),
    *ELICITATION_GATES.values(),
    ADDITIONAL_DIRECTORIES_GATE,
    BOOLEAN_CONFIG_OPTION_GATE,
]


def answer(method: Method[P, R], params: P, result: R) -> R:
    """Type-checks as a call of ``method`` does."""
    return result


def test_a_call_has_the_types_of_its_method() -> None:
    """Nothing here is ``Any``: the type checker reads this test."""
    opened = answer(
        NEW_SESSION,
        schema.NewSessionRequest(cwd="/", mcp_servers=[]),
        schema.NewSessionResponse(session_id=schema.SessionId("s")),
    )
    assert_type(opened, schema.NewSessionResponse)
    asked = answer(
        CREATE_ELICITATION,
        schema.ElicitationUrlRequest(
            message="Log in",
            scope=schema.ElicitationRequestScope(request_id=1),
            elicitation_id=schema.ElicitationId("e"),
            url="https://example.com",
        ),
        schema.ElicitationDecline(),
    )
    assert_type(asked, schema.CreateElicitationResponse)
    assert_type(
        SET_SESSION_CONFIG_OPTION,
        Method[schema.SetSessionConfigOptionRequest, schema.SetSessionConfigOptionResponse],
    )
    assert_type(CANCEL, Notification[schema.CancelNotification])
    assert_type(PROMPT.cancelled, schema.PromptResponse | None)


def test_an_extension_has_the_types_it_was_made_with() -> None:
    ping = extension_method("_example.com/ping", JSON, JSONObject)
    assert_type(ping, Method[JSON, JSONObject])
    pong: JSONObject = {"pong": 1}
    assert_type(answer(ping, None, pong), JSONObject)

    @attrs.frozen(kw_only=True)
    class Progress:
        percent: int

    progress = extension_notification("_example.com/progress", Progress)
    assert_type(progress, Notification[Progress])
    assert progress.params is Progress
    assert (ping.gate, progress.gate) == (None, None)


@pytest.mark.spec("EXT-05", "EXT-06")
@pytest.mark.parametrize("name", ["ping", "session/ping", "$/ping", "", " _ping"])
def test_the_name_of_an_extension_starts_with_an_underscore(name: str) -> None:
    with pytest.raises(ValueError, match="underscore"):
        extension_method(name, JSON, JSON)
    with pytest.raises(ValueError, match="underscore"):
        extension_notification(name, JSON)


def test_names_are_unique_within_a_role_and_shared_only_by_the_cancellation_of_requests() -> None:
    agents, clients = ([call.name for call in role.handles] for role in (AGENT, CLIENT))
    assert len(set(agents)) == len(agents)
    assert len(set(clients)) == len(clients)
    assert set(agents) & set(clients) == {CANCEL_REQUEST.name}


def test_every_method_of_the_module_belongs_to_a_role() -> None:
    constants = [value for value in vars(methods).values() if isinstance(value, Method | Notification)]
    assert {id(call) for call in constants} == {id(call) for call in CALLS}


def test_only_a_cancelled_prompt_has_a_result_that_says_so() -> None:
    with_result = [call for call in CALLS if isinstance(call, Method) and call.cancelled is not None]
    assert with_result == [PROMPT]
    assert PROMPT.cancelled is not None
    assert PROMPT.cancelled.stop_reason is StopReason.CANCELLED


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_a_method_names_the_page_that_describes_it(call: methods.AnyNotification) -> None:
    name, _, section = call.page.partition("#")
    assert name.replace("-", "_") in vars(schema)
    assert section or name == "cancellation"


# ------------------------------------------------------------------------------------------------ gates


def full(cl: type) -> object:
    """All capabilities there are."""
    attrs.resolve_types(cl, localns={"JSON": object, "JSONObject": object})
    return cl(**{a.name: _everything(a.type) for a in attrs.fields(cl) if a.name != "meta"})


def _everything(t: object) -> object:
    while args := getattr(t, "__args__", ()):  # Annotated, then Optional
        t = args[0]
    assert isinstance(t, type)
    return True if t is bool else full(t)


def capabilities(gate: Gate) -> tuple[AgentCapabilities | ClientCapabilities, AgentCapabilities | ClientCapabilities]:
    """None and all, of the side that announces."""
    cl = AgentCapabilities if gate.path.startswith("agentCapabilities.") else ClientCapabilities
    everything = full(cl)
    assert isinstance(everything, AgentCapabilities | ClientCapabilities)
    return cl(), everything


@pytest.mark.spec("INIT-14", "INIT-22", "INIT-24")
@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.path)
def test_a_gate_is_shut_by_default_and_opened_by_its_capability(gate: Gate) -> None:
    nothing, everything = capabilities(gate)
    assert not gate.is_open(nothing)
    assert gate.is_open(everything)


@pytest.mark.spec("INIT-25")
def test_an_empty_capability_object_opens_a_gate() -> None:
    assert LIST_SESSIONS.gate is not None
    assert not LIST_SESSIONS.gate.is_open(AgentCapabilities(session_capabilities=SessionCapabilities(list=None)))
    announced = SessionCapabilities(list=SessionListCapabilities())
    assert LIST_SESSIONS.gate.is_open(AgentCapabilities(session_capabilities=announced))


@pytest.mark.spec("INIT-26", "SETUP-07")
def test_loading_hangs_on_a_flag_of_its_own() -> None:
    assert LOAD_SESSION.gate is not None
    assert LOAD_SESSION.gate.is_open(AgentCapabilities(load_session=True))
    assert LOAD_SESSION.gate.path == "agentCapabilities.loadSession"


@pytest.mark.spec("ELIC-05")
def test_an_elicitation_needs_one_of_the_modes_and_a_mode_its_own() -> None:
    empty, form, url = (
        ClientCapabilities(elicitation=modes)
        for modes in (
            ElicitationCapabilities(),
            ElicitationCapabilities(form=ElicitationFormCapabilities()),
            ElicitationCapabilities(url=ElicitationUrlCapabilities()),
        )
    )
    assert CREATE_ELICITATION.gate is not None
    assert COMPLETE_ELICITATION.gate is not None
    by_form, by_url = (
        ELICITATION_GATES[mode] for mode in (schema.ElicitationFormRequest, schema.ElicitationUrlRequest)
    )
    gates = [CREATE_ELICITATION.gate, COMPLETE_ELICITATION.gate, by_form, by_url]
    assert [gate.is_open(empty) for gate in gates] == [False, False, False, False]
    assert [gate.is_open(form) for gate in gates] == [True, False, True, False]
    assert [gate.is_open(url) for gate in gates] == [True, True, False, True]


@pytest.mark.spec("INIT-21", "CONTENT-02", "CONTENT-08")
def test_text_and_links_need_no_capability_and_each_other_block_its_own() -> None:
    assert schema.TextContent not in PROMPT_CONTENT_GATES
    assert schema.ResourceLink not in PROMPT_CONTENT_GATES
    audio = AgentCapabilities(prompt_capabilities=PromptCapabilities(audio=True))
    assert [block.__name__ for block, gate in PROMPT_CONTENT_GATES.items() if gate.is_open(audio)] == ["AudioContent"]


def test_stdio_servers_need_no_capability() -> None:
    assert schema.McpServerStdio not in MCP_SERVER_GATES


def test_a_gate_says_for_people_what_it_needs() -> None:
    assert CREATE_TERMINAL.gate == Gate("clientCapabilities.terminal")
    assert LOGOUT.gate is not None
    assert LOGOUT.gate.path == "agentCapabilities.auth.logout"
    assert CREATE_ELICITATION.gate is not None
    assert CREATE_ELICITATION.gate.path == "clientCapabilities.elicitation.form or clientCapabilities.elicitation.url"
