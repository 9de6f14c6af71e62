"""Every method of ACP v1: its name, its types, the page that describes it and the capability that opens it.

https://agentclientprotocol.com/protocol/overview

A method is a value, and a role is the methods it handles; the rest is the same on both sides. The one table of gates is
read by callers, who ask before they send (:class:`CapabilityError`), and by callees, who answer -32601 (D-15).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Final, Generic, Literal, Protocol, TypeVar

import attrs
from typing_extensions import TypeForm

from acp_ref import schema

__all__ = [
    "ADDITIONAL_DIRECTORIES_GATE",
    "AGENT",
    "AUTHENTICATE",
    "BOOLEAN_CONFIG_OPTION_GATE",
    "CANCEL",
    "CANCEL_REQUEST",
    "CLIENT",
    "CLOSE_SESSION",
    "COMPLETE_ELICITATION",
    "CREATE_ELICITATION",
    "CREATE_TERMINAL",
    "DELETE_SESSION",
    "ELICITATION_GATES",
    "INITIALIZE",
    "KILL_TERMINAL",
    "LIST_SESSIONS",
    "LOAD_SESSION",
    "LOGOUT",
    "MCP_SERVER_GATES",
    "NEW_SESSION",
    "PROMPT",
    "PROMPT_CONTENT_GATES",
    "PROTOCOL_VERSION",
    "READ_TEXT_FILE",
    "RELEASE_TERMINAL",
    "REQUEST_PERMISSION",
    "RESUME_SESSION",
    "SESSION_UPDATE",
    "SESSION_UPDATE_GATES",
    "SET_SESSION_CONFIG_OPTION",
    "SET_SESSION_MODE",
    "TERMINAL_OUTPUT",
    "WAIT_FOR_TERMINAL_EXIT",
    "WRITE_TEXT_FILE",
    "AnyMethod",
    "AnyNotification",
    "Gate",
    "Method",
    "Notification",
    "Role",
    "extension_method",
    "extension_notification",
]

P = TypeVar("P")
R = TypeVar("R")

PROTOCOL_VERSION: Final = schema.ProtocolVersion(1)
"""The newest protocol version spoken here, and the only one (INIT-06, INIT-08)."""


@attrs.frozen
class Gate:
    """A capability of the callee. Without it, what stands behind the gate is neither sent nor handled."""

    path: str
    """Where it is announced, such as ``agentCapabilities.loadSession``; several, joined by "or", when one will do."""

    def is_open(self, capabilities: schema.AgentCapabilities | schema.ClientCapabilities) -> bool:
        """Whether ``capabilities``, those of the side that the path begins with, announce it."""
        return any(_announced(capabilities, attributes) for attributes in _attributes(self.path))


@functools.cache
def _attributes(path: str) -> list[list[str]]:
    """The Python names on the way to each capability in ``path``."""
    names = re.sub("[A-Z]", lambda capital: f"_{capital[0].lower()}", path)
    return [way.split(".")[1:] for way in names.split(" or ")]


def _announced(capabilities: object, attributes: list[str]) -> bool:
    for attribute in attributes:
        capabilities = getattr(capabilities, attribute)
        if capabilities is None or capabilities is False:  # INIT-25: an empty object means yes
            return False
    return True


@attrs.frozen(eq=False)
class Method(Generic[P, R]):
    """A request: ``params`` go one way, ``result`` comes back."""

    name: str
    """Its name on the wire."""
    params: TypeForm[P]
    """The type of its params."""
    result: TypeForm[R]
    """The type of its result."""
    page: str = attrs.field(default="", kw_only=True)
    """The page and the section that describe it."""
    gate: Gate | None = attrs.field(default=None, kw_only=True)
    """The capability that opens it; None for what every callee handles, or what no capability announces."""
    cancelled: R | None = attrs.field(default=None, kw_only=True)
    """The result that says it was cancelled, where that is no error."""


@attrs.frozen(eq=False)
class Notification(Generic[P]):
    """A call that is never answered."""

    name: str
    """Its name on the wire."""
    params: TypeForm[P]
    """The type of its params."""
    page: str = attrs.field(default="", kw_only=True)
    """The page and the section that describe it."""
    gate: Gate | None = attrs.field(default=None, kw_only=True)
    """The capability that opens it; None for what every callee handles."""


class AnyNotification(Protocol):
    """A :class:`Notification` whatever its types."""

    @property
    def name(self) -> str: ...
    @property
    def params(self) -> TypeForm[object]: ...
    @property
    def page(self) -> str: ...
    @property
    def gate(self) -> Gate | None: ...


class AnyMethod(AnyNotification, Protocol):
    """A :class:`Method` whatever its types."""

    @property
    def result(self) -> TypeForm[object]: ...
    @property
    def cancelled(self) -> object: ...


@attrs.frozen
class Role:
    """One of the two sides of a connection."""

    name: Literal["agent", "client"]
    """Its name."""
    handles: tuple[AnyMethod | AnyNotification, ...] = attrs.field(repr=False)
    """What may be sent to it."""
    answers_junk: bool = attrs.field(default=False, kw_only=True)
    """Whether it answers what is no message at all. An agent does (D-33); a client does not, for what it cannot read is
    most often something that the agent, or a library below it, printed by mistake."""

    @property
    def peer(self) -> Literal["agent", "client"]:
        """The name of the other."""
        return "client" if self.name == "agent" else "agent"


def _extension_name(name: str) -> str:
    if not name.startswith("_"):
        raise ValueError(f"the name of an extension starts with an underscore, unlike {name!r}")  # EXT-05
    return name


def extension_method(name: str, params: TypeForm[P], result: TypeForm[R]) -> Method[P, R]:
    """A request that the protocol does not have. ``JSON`` will do for ``params`` and ``result``.

    Raises:
      ValueError: ``name`` does not start with an underscore.
    """
    return Method(_extension_name(name), params, result, page="extensibility#custom-requests")


def extension_notification(name: str, params: TypeForm[P]) -> Notification[P]:
    """A notification that the protocol does not have, in either direction (EXT-12). ``JSON`` will do for ``params``.

    Raises:
      ValueError: ``name`` does not start with an underscore.
    """
    return Notification(_extension_name(name), params, page="extensibility#custom-notifications")


# ------------------------------------------------------------------------------------------------ to the agent

INITIALIZE: Final = Method(
    "initialize", schema.InitializeRequest, schema.InitializeResponse, page="initialization#version-negotiation"
)
AUTHENTICATE: Final = Method(
    "authenticate",
    schema.AuthenticateRequest,
    schema.AuthenticateResponse,
    page="authentication#protocol-driven-authentication",
)
LOGOUT: Final = Method(
    "logout",
    schema.LogoutRequest,
    schema.LogoutResponse,
    page="authentication#logging-out",
    gate=Gate("agentCapabilities.auth.logout"),
)
NEW_SESSION: Final = Method(
    "session/new", schema.NewSessionRequest, schema.NewSessionResponse, page="session-setup#creating-a-session"
)
LOAD_SESSION: Final = Method(
    "session/load",
    schema.LoadSessionRequest,
    schema.LoadSessionResponse,
    page="session-setup#loading-a-session",
    gate=Gate("agentCapabilities.loadSession"),  # SETUP-08, INIT-26
)
RESUME_SESSION: Final = Method(
    "session/resume",
    schema.ResumeSessionRequest,
    schema.ResumeSessionResponse,
    page="session-setup#resuming-a-session",
    gate=Gate("agentCapabilities.sessionCapabilities.resume"),  # SETUP-45, SETUP-46
)
CLOSE_SESSION: Final = Method(
    "session/close",
    schema.CloseSessionRequest,
    schema.CloseSessionResponse,
    page="session-setup#closing-a-session",
    gate=Gate("agentCapabilities.sessionCapabilities.close"),  # SETUP-51, SETUP-52
)
LIST_SESSIONS: Final = Method(
    "session/list",
    schema.ListSessionsRequest,
    schema.ListSessionsResponse,
    page="session-list#listing-sessions",
    gate=Gate("agentCapabilities.sessionCapabilities.list"),  # LIST-02, LIST-03
)
DELETE_SESSION: Final = Method(
    "session/delete",
    schema.DeleteSessionRequest,
    schema.DeleteSessionResponse,
    page="session-delete#deleting-a-session",
    gate=Gate("agentCapabilities.sessionCapabilities.delete"),  # DEL-02, DEL-03
)
SET_SESSION_MODE: Final = Method(
    "session/set_mode",
    schema.SetSessionModeRequest,
    schema.SetSessionModeResponse,
    page="session-modes#from-the-client",
)
SET_SESSION_CONFIG_OPTION: Final = Method(
    "session/set_config_option",
    schema.SetSessionConfigOptionRequest,
    schema.SetSessionConfigOptionResponse,
    page="session-config-options#from-the-client",
)
PROMPT: Final = Method(
    "session/prompt",
    schema.PromptRequest,
    schema.PromptResponse,
    page="prompt-turn#1-user-message",
    cancelled=schema.PromptResponse(stop_reason=schema.StopReason.CANCELLED),
)
CANCEL: Final = Notification("session/cancel", schema.CancelNotification, page="prompt-turn#cancellation")  # GEN-05

# ------------------------------------------------------------------------------------------------ to the client

SESSION_UPDATE: Final = Notification(  # GEN-08
    "session/update", schema.SessionNotification, page="prompt-turn#3-agent-reports-output"
)
REQUEST_PERMISSION: Final = Method(
    "session/request_permission",
    schema.RequestPermissionRequest,
    schema.RequestPermissionResponse,
    page="tool-calls#requesting-permission",
)
READ_TEXT_FILE: Final = Method(
    "fs/read_text_file",
    schema.ReadTextFileRequest,
    schema.ReadTextFileResponse,
    page="file-system#reading-files",
    gate=Gate("clientCapabilities.fs.readTextFile"),  # FS-01, FS-02
)
WRITE_TEXT_FILE: Final = Method(
    "fs/write_text_file",
    schema.WriteTextFileRequest,
    schema.WriteTextFileResponse,
    page="file-system#writing-files",
    gate=Gate("clientCapabilities.fs.writeTextFile"),  # FS-01, FS-02
)

_TERMINAL: Final = Gate("clientCapabilities.terminal")  # TERM-01, TERM-02

CREATE_TERMINAL: Final = Method(
    "terminal/create",
    schema.CreateTerminalRequest,
    schema.CreateTerminalResponse,
    page="terminals#executing-commands",
    gate=_TERMINAL,
)
TERMINAL_OUTPUT: Final = Method(
    "terminal/output",
    schema.TerminalOutputRequest,
    schema.TerminalOutputResponse,
    page="terminals#getting-output",
    gate=_TERMINAL,
)
WAIT_FOR_TERMINAL_EXIT: Final = Method(
    "terminal/wait_for_exit",
    schema.WaitForTerminalExitRequest,
    schema.WaitForTerminalExitResponse,
    page="terminals#waiting-for-exit",
    gate=_TERMINAL,
)
KILL_TERMINAL: Final = Method(
    "terminal/kill",
    schema.KillTerminalRequest,
    schema.KillTerminalResponse,
    page="terminals#killing-commands",
    gate=_TERMINAL,
)
RELEASE_TERMINAL: Final = Method(
    "terminal/release",
    schema.ReleaseTerminalRequest,
    schema.ReleaseTerminalResponse,
    page="terminals#releasing-terminals",
    gate=_TERMINAL,
)

_FORM: Final = "clientCapabilities.elicitation.form"
_URL: Final = "clientCapabilities.elicitation.url"

CREATE_ELICITATION: Final = Method(
    "elicitation/create",
    schema.CreateElicitationRequest,
    schema.CreateElicitationResponse,
    page="elicitation#creating-an-elicitation",
    gate=Gate(f"{_FORM} or {_URL}"),
)
COMPLETE_ELICITATION: Final = Notification(  # GEN-08
    "elicitation/complete",
    schema.CompleteElicitationNotification,
    page="elicitation#url-completion",
    gate=Gate(_URL),
)

# ------------------------------------------------------------------------------------------------ either way

CANCEL_REQUEST: Final = Notification("$/cancel_request", schema.CancelRequestNotification, page="cancellation")

# ------------------------------------------------------------------------------------------------ roles

AGENT: Final = Role(
    "agent",
    (
        INITIALIZE,
        AUTHENTICATE,
        LOGOUT,
        NEW_SESSION,
        LOAD_SESSION,
        RESUME_SESSION,
        CLOSE_SESSION,
        LIST_SESSIONS,
        DELETE_SESSION,
        SET_SESSION_MODE,
        SET_SESSION_CONFIG_OPTION,
        PROMPT,
        CANCEL,
        CANCEL_REQUEST,
    ),
    answers_junk=True,
)
CLIENT: Final = Role(
    "client",
    (
        SESSION_UPDATE,
        REQUEST_PERMISSION,
        READ_TEXT_FILE,
        WRITE_TEXT_FILE,
        CREATE_TERMINAL,
        TERMINAL_OUTPUT,
        WAIT_FOR_TERMINAL_EXIT,
        KILL_TERMINAL,
        RELEASE_TERMINAL,
        CREATE_ELICITATION,
        COMPLETE_ELICITATION,
        CANCEL_REQUEST,
    ),
)

# ------------------------------------------------------------------------------------------------ gates of values

PROMPT_CONTENT_GATES: Final[Mapping[type[object], Gate]] = {
    schema.ImageContent: Gate("agentCapabilities.promptCapabilities.image"),
    schema.AudioContent: Gate("agentCapabilities.promptCapabilities.audio"),
    schema.EmbeddedResource: Gate("agentCapabilities.promptCapabilities.embeddedContext"),
}
"""What a prompt may hold only if the agent announced it (INIT-22). Text (CONTENT-02) and resource links (CONTENT-08)
are free (INIT-21)."""

MCP_SERVER_GATES: Final[Mapping[type[object], Gate]] = {
    schema.McpServerHttp: Gate("agentCapabilities.mcpCapabilities.http"),
    schema.McpServerSse: Gate("agentCapabilities.mcpCapabilities.sse"),
}
"""The MCP servers that a session may have only if the agent announced it (SETUP-38, SETUP-39, SETUP-40). Stdio is free
(SETUP-22, SETUP-24)."""

ADDITIONAL_DIRECTORIES_GATE: Final = Gate("agentCapabilities.sessionCapabilities.additionalDirectories")
"""The capability that opens ``additionalDirectories`` of session/new, session/load and session/resume (SETUP-60)."""

SESSION_UPDATE_GATES: Final[Mapping[type[object], Gate]] = {
    schema.Notice: Gate("clientCapabilities.session.notices"),
    schema.CompactionUpdate: Gate("clientCapabilities.session.compaction"),
    schema.CompactionSummaryChunk: Gate("clientCapabilities.session.compaction"),
}
"""The updates that go only to clients which announced them (COMP-01). All others are free."""

BOOLEAN_CONFIG_OPTION_GATE: Final = Gate("clientCapabilities.session.configOptions.boolean")
"""The capability that opens config options which are on or off (CONF-06, CONF-07)."""

ELICITATION_GATES: Final[Mapping[type[object], Gate]] = {
    schema.ElicitationFormRequest: Gate(_FORM),
    schema.ElicitationUrlRequest: Gate(_URL),
}
"""The modes of ``elicitation/create`` (ELIC-05). A mode that is not announced is answered with -32602 (ELIC-30)."""
