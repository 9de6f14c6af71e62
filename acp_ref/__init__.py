"""The Agent Client Protocol on trio: an agent, a client, and the one symmetric Connection between them.

https://agentclientprotocol.com

This is the front door. Behind it, from the ground up; each floor imports only those below it:

* ``errors``, ``reports``: what goes wrong, in words.
* ``schema``: the protocol's types, one module per page of the specification.
* ``methods``: the protocol's methods, as tables. ``handlers``, ``requests``, ``transports``, ``connection``: a
  conversation in either role.
* ``stdio``, ``agent_process``: the two ends of an agent's pipes. ``roots``, ``mcp_servers``, ``session_store``,
  ``content``, ``file_system``, ``terminals``, ``permissions``, ``elicitation``, ``session_state``: what sessions are
  made of. ``terminal_login``: a login in the user's terminal.
* ``agent``, ``agent_session``, ``prompt_turn``, ``client``, ``client_session``, ``authentication``: the two roles.
* ``testing``, ``spec``: a test kit, and the register of the specification's requirements.

The protocol's types are in :mod:`acp_ref.schema`; the ones that every program meets are here too. A name is looked up
in its room when it is first used, so an agent does not wait for the client's modules to load, nor a client for the
agent's.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from acp_ref._jsonrpc import JSON as JSON
    from acp_ref._jsonrpc import JSONObject as JSONObject
    from acp_ref.agent import Agent as Agent
    from acp_ref.agent import AgentSide as AgentSide
    from acp_ref.agent import serve_agent as serve_agent
    from acp_ref.agent_process import AgentProcessError as AgentProcessError
    from acp_ref.agent_process import AgentStartError as AgentStartError
    from acp_ref.agent_session import AgentSession as AgentSession
    from acp_ref.agent_session import SessionOrigin as SessionOrigin
    from acp_ref.authentication import Authentication as Authentication
    from acp_ref.authentication import TerminalLoginRequired as TerminalLoginRequired
    from acp_ref.client import Client as Client
    from acp_ref.client import open_agent as open_agent
    from acp_ref.client import open_agent_process as open_agent_process
    from acp_ref.client import use_agent_process as use_agent_process
    from acp_ref.client_services import ClientServices as ClientServices
    from acp_ref.client_services import RemoteTerminal as RemoteTerminal
    from acp_ref.client_session import ClientSession as ClientSession
    from acp_ref.client_side import ClientSide as ClientSide
    from acp_ref.client_turn import ClientTurn as ClientTurn
    from acp_ref.compaction import RunningCompaction as RunningCompaction
    from acp_ref.connection import Connection as Connection
    from acp_ref.connection import open_connection as open_connection
    from acp_ref.content import file_context as file_context
    from acp_ref.errors import AuthRequired as AuthRequired
    from acp_ref.errors import CapabilityError as CapabilityError
    from acp_ref.errors import ErrorCode as ErrorCode
    from acp_ref.errors import LocalProtocolError as LocalProtocolError
    from acp_ref.errors import ProtocolError as ProtocolError
    from acp_ref.errors import RemoteProtocolError as RemoteProtocolError
    from acp_ref.errors import RequestError as RequestError
    from acp_ref.errors import UnsupportedProtocolVersion as UnsupportedProtocolVersion
    from acp_ref.file_system import FileSystem as FileSystem
    from acp_ref.handlers import Handlers as Handlers
    from acp_ref.methods import AGENT as AGENT
    from acp_ref.methods import CLIENT as CLIENT
    from acp_ref.methods import Method as Method
    from acp_ref.methods import Notification as Notification
    from acp_ref.methods import Role as Role
    from acp_ref.methods import extension_method as extension_method
    from acp_ref.methods import extension_notification as extension_notification
    from acp_ref.permissions import PermissionDecision as PermissionDecision
    from acp_ref.prompt_turn import PromptTurn as PromptTurn
    from acp_ref.reports import Report as Report
    from acp_ref.reports import ReportKind as ReportKind
    from acp_ref.requests import Answered as Answered
    from acp_ref.requests import IncomingRequest as IncomingRequest
    from acp_ref.requests import OutgoingRequest as OutgoingRequest
    from acp_ref.roots import Roots as Roots
    from acp_ref.schema import UNSET as UNSET
    from acp_ref.schema import AgentMessageChunk as AgentMessageChunk
    from acp_ref.schema import AgentThoughtChunk as AgentThoughtChunk
    from acp_ref.schema import Content as Content
    from acp_ref.schema import ContentBlock as ContentBlock
    from acp_ref.schema import Diff as Diff
    from acp_ref.schema import McpServer as McpServer
    from acp_ref.schema import McpServerHttp as McpServerHttp
    from acp_ref.schema import McpServerSse as McpServerSse
    from acp_ref.schema import McpServerStdio as McpServerStdio
    from acp_ref.schema import PermissionOption as PermissionOption
    from acp_ref.schema import PermissionOptionKind as PermissionOptionKind
    from acp_ref.schema import Plan as Plan
    from acp_ref.schema import PlanEntry as PlanEntry
    from acp_ref.schema import RequestPermissionRequest as RequestPermissionRequest
    from acp_ref.schema import ResourceLink as ResourceLink
    from acp_ref.schema import SessionId as SessionId
    from acp_ref.schema import SessionUpdate as SessionUpdate
    from acp_ref.schema import StopReason as StopReason
    from acp_ref.schema import TextContent as TextContent
    from acp_ref.schema import ToolCall as ToolCall
    from acp_ref.schema import ToolCallUpdate as ToolCallUpdate
    from acp_ref.schema import ToolKind as ToolKind
    from acp_ref.schema import Unknown as Unknown
    from acp_ref.schema import UserMessageChunk as UserMessageChunk
    from acp_ref.session_state import SessionState as SessionState
    from acp_ref.session_store import DirectoryStore as DirectoryStore
    from acp_ref.session_store import MemoryStore as MemoryStore
    from acp_ref.session_store import SessionStore as SessionStore
    from acp_ref.terminal_login import LoginCommand as LoginCommand
    from acp_ref.terminal_login import LoginFailed as LoginFailed
    from acp_ref.terminal_login import run_in_terminal as run_in_terminal
    from acp_ref.tool_calls import RunningToolCall as RunningToolCall
    from acp_ref.transports import Transport as Transport
    from acp_ref.transports import memory_transport_pair as memory_transport_pair
else:
    _NAMES = {
        "acp_ref._jsonrpc": "JSON JSONObject",
        "acp_ref.agent": "Agent AgentSide serve_agent",
        "acp_ref.agent_process": "AgentProcessError AgentStartError",
        "acp_ref.agent_session": "AgentSession SessionOrigin",
        "acp_ref.authentication": "Authentication TerminalLoginRequired",
        "acp_ref.client": "Client open_agent open_agent_process use_agent_process",
        "acp_ref.client_services": "ClientServices RemoteTerminal",
        "acp_ref.client_session": "ClientSession",
        "acp_ref.client_side": "ClientSide",
        "acp_ref.client_turn": "ClientTurn",
        "acp_ref.compaction": "RunningCompaction",
        "acp_ref.connection": "Connection open_connection",
        "acp_ref.content": "file_context",
        "acp_ref.errors": (
            "AuthRequired CapabilityError ErrorCode LocalProtocolError ProtocolError RemoteProtocolError "
            "RequestError UnsupportedProtocolVersion"
        ),
        "acp_ref.file_system": "FileSystem",
        "acp_ref.handlers": "Handlers",
        "acp_ref.methods": "AGENT CLIENT Method Notification Role extension_method extension_notification",
        "acp_ref.permissions": "PermissionDecision",
        "acp_ref.prompt_turn": "PromptTurn",
        "acp_ref.reports": "Report ReportKind",
        "acp_ref.requests": "Answered IncomingRequest OutgoingRequest",
        "acp_ref.roots": "Roots",
        "acp_ref.schema": (
            "UNSET AgentMessageChunk AgentThoughtChunk Content ContentBlock Diff McpServer McpServerHttp "
            "McpServerSse McpServerStdio PermissionOption PermissionOptionKind Plan PlanEntry "
            "RequestPermissionRequest ResourceLink SessionId SessionUpdate StopReason TextContent ToolCall "
            "ToolCallUpdate ToolKind Unknown UserMessageChunk"
        ),
        "acp_ref.session_state": "SessionState",
        "acp_ref.session_store": "DirectoryStore MemoryStore SessionStore",
        "acp_ref.terminal_login": "LoginCommand LoginFailed run_in_terminal",
        "acp_ref.tool_calls": "RunningToolCall",
        "acp_ref.transports": "Transport memory_transport_pair",
    }
    _ROOM_OF = {name: room for room, names in _NAMES.items() for name in names.split()}

    def __getattr__(name):
        room = _ROOM_OF.get(name)
        if room is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(room), name)
        return value

    def __dir__():
        return sorted({*globals(), *_ROOM_OF})
