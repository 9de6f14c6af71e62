"""Initialization.

https://agentclientprotocol.com/protocol/initialization
"""

from __future__ import annotations

from typing import Annotated, NewType

import attrs

from acp_ref.schema._base import Bounds, DefaultOnError, Meta, SkipInvalidItems
from acp_ref.schema._frozen import frozen
from acp_ref.schema.authentication import AgentAuthCapabilities, AuthCapabilities, AuthMethod
from acp_ref.schema.compaction import CompactionCapabilities
from acp_ref.schema.elicitation import ElicitationCapabilities
from acp_ref.schema.notices import NoticeCapabilities

ProtocolVersion = NewType("ProtocolVersion", int)
"""A major version of the protocol, 0 to 65 535. It grows only with incompatible changes."""


@frozen(kw_only=True)
class Implementation:
    """The name and version of a client or an agent."""

    name: str
    """For programs; shown to people where there is no title."""
    title: DefaultOnError[str | None] = None
    """For people to read."""
    version: str
    """For people to read and to find faults by; it has no order."""
    meta: Meta = None

    @property
    def display_name(self) -> str:
        """What to show to people: its title, or its name where it has none (INIT-28)."""
        return self.title or self.name


# ------------------------------------------------------------------------------------------------ what a client can do


@frozen(kw_only=True)
class FileSystemCapabilities:
    """Which file methods a client handles."""

    read_text_file: DefaultOnError[bool] = False
    """Whether it handles ``fs/read_text_file``."""
    write_text_file: DefaultOnError[bool] = False
    """Whether it handles ``fs/write_text_file``."""
    meta: Meta = None


@frozen(kw_only=True)
class BooleanConfigOptionCapabilities:
    """Announces that a client can show config options that are on or off."""

    meta: Meta = None


@frozen(kw_only=True)
class SessionConfigOptionsCapabilities:
    """Which kinds of config options a client can show, beyond the select options that all can."""

    boolean: DefaultOnError[BooleanConfigOptionCapabilities | None] = None
    """Not None when it can show options that are on or off."""
    meta: Meta = None


@frozen(kw_only=True)
class ClientSessionCapabilities:
    """Which parts of a session, beyond those that all clients take, a client can show."""

    compaction: DefaultOnError[CompactionCapabilities | None] = None
    """Not None when it takes ``compaction_update`` and ``compaction_summary_chunk``."""
    config_options: DefaultOnError[SessionConfigOptionsCapabilities | None] = None
    """Which kinds of config options it can show."""
    notices: DefaultOnError[NoticeCapabilities | None] = None
    """Not None when it takes ``notice``."""
    meta: Meta = None


@frozen(kw_only=True)
class ClientCapabilities:
    """What a client can do for its agent. Each may be left out (INIT-12); what is not announced is not there."""

    fs: DefaultOnError[FileSystemCapabilities] = attrs.field(factory=FileSystemCapabilities)
    """The file methods."""
    terminal: DefaultOnError[bool] = False
    """Whether it handles all of the ``terminal/`` methods."""
    session: DefaultOnError[ClientSessionCapabilities | None] = None
    """The optional parts of a session."""
    auth: DefaultOnError[AuthCapabilities] = attrs.field(factory=AuthCapabilities)
    """The opt-in authentication methods."""
    elicitation: DefaultOnError[ElicitationCapabilities | None] = None
    """The modes of ``elicitation/create`` it handles."""
    meta: Meta = None


# ------------------------------------------------------------------------------------------------ what an agent can do


@frozen(kw_only=True)
class PromptCapabilities:
    """Which content a prompt may hold, beyond text and resource links, which all agents take."""

    image: DefaultOnError[bool] = False
    """Whether images may be sent."""
    audio: DefaultOnError[bool] = False
    """Whether sound may be sent."""
    embedded_context: DefaultOnError[bool] = False
    """Whether embedded resources may be sent."""
    meta: Meta = None


@frozen(kw_only=True)
class McpCapabilities:
    """How an agent can reach MCP servers, beyond stdio, which all agents can."""

    http: DefaultOnError[bool] = False
    """Whether it connects over streamable HTTP (SETUP-39)."""
    sse: DefaultOnError[bool] = False
    """Whether it connects over HTTP with server-sent events, which MCP has given up (SETUP-35, SETUP-40)."""
    meta: Meta = None


@frozen(kw_only=True)
class SessionListCapabilities:
    """Announces ``session/list``."""

    meta: Meta = None


@frozen(kw_only=True)
class SessionDeleteCapabilities:
    """Announces ``session/delete``."""

    meta: Meta = None


@frozen(kw_only=True)
class SessionAdditionalDirectoriesCapabilities:
    """Announces that sessions can have roots beside their working directory."""

    meta: Meta = None


@frozen(kw_only=True)
class SessionResumeCapabilities:
    """Announces ``session/resume``."""

    meta: Meta = None


@frozen(kw_only=True)
class SessionCloseCapabilities:
    """Announces ``session/close``."""

    meta: Meta = None


@frozen(kw_only=True)
class SessionCapabilities:
    """Which session methods an agent handles, beyond new, prompt, cancel and update, which all do."""

    list: DefaultOnError[SessionListCapabilities | None] = None
    """Not None when it handles ``session/list``."""
    delete: DefaultOnError[SessionDeleteCapabilities | None] = None
    """Not None when it handles ``session/delete``."""
    additional_directories: DefaultOnError[SessionAdditionalDirectoriesCapabilities | None] = None
    """Not None when sessions take ``additionalDirectories``."""
    resume: DefaultOnError[SessionResumeCapabilities | None] = None
    """Not None when it handles ``session/resume``."""
    close: DefaultOnError[SessionCloseCapabilities | None] = None
    """Not None when it handles ``session/close``."""
    meta: Meta = None


@frozen(kw_only=True)
class AgentCapabilities:
    """What an agent can do. Each may be left out (INIT-12); what is not announced is not there (INIT-20)."""

    load_session: DefaultOnError[bool] = False
    """Whether it handles ``session/load``."""
    prompt_capabilities: DefaultOnError[PromptCapabilities] = attrs.field(factory=PromptCapabilities)
    """The content its prompts may hold."""
    mcp_capabilities: DefaultOnError[McpCapabilities] = attrs.field(factory=McpCapabilities)
    """The ways it can reach MCP servers."""
    session_capabilities: DefaultOnError[SessionCapabilities] = attrs.field(factory=SessionCapabilities)
    """The session methods it handles beyond those that all do (INIT-24)."""
    auth: DefaultOnError[AgentAuthCapabilities] = attrs.field(factory=AgentAuthCapabilities)
    """What it offers besides ``authenticate``."""
    meta: Meta = None


# ------------------------------------------------------------------------------------------------ initialize


@frozen(kw_only=True)
class InitializeRequest:
    """The first message of a connection: agree on a version and tell what the client can do."""

    protocol_version: Annotated[ProtocolVersion, Bounds(0, 2**16 - 1)]
    """The latest version the client speaks."""
    client_capabilities: DefaultOnError[ClientCapabilities] = attrs.field(factory=ClientCapabilities)
    """What the client can do for the agent."""
    client_info: DefaultOnError[Implementation | None] = None
    """Who the client is (INIT-27)."""
    meta: Meta = None


@frozen(kw_only=True)
class InitializeResponse:
    """The version to speak and what the agent can do."""

    protocol_version: Annotated[ProtocolVersion, Bounds(0, 2**16 - 1)]
    """The version asked for if the agent speaks it, otherwise the latest one that it does."""
    agent_capabilities: DefaultOnError[AgentCapabilities] = attrs.field(factory=AgentCapabilities)
    """What the agent can do."""
    auth_methods: SkipInvalidItems[list[AuthMethod]] = attrs.field(factory=list[AuthMethod])
    """The ways to log in."""
    agent_info: DefaultOnError[Implementation | None] = None
    """Who the agent is (INIT-27)."""
    meta: Meta = None
