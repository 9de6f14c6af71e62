"""The types of ACP v1, one module per page of the specification, in the order of the pages.

https://agentclientprotocol.com/protocol/schema

They are plain attrs classes that know nothing of JSON. ``acp_ref._converter`` knows how they look on the wire.
"""

from __future__ import annotations

from acp_ref.schema._base import UNSET as UNSET
from acp_ref.schema._base import OpenEnum as OpenEnum
from acp_ref.schema._base import Unknown as Unknown
from acp_ref.schema._base import UnsetType as UnsetType
from acp_ref.schema.agent_plan import Plan as Plan
from acp_ref.schema.agent_plan import PlanEntry as PlanEntry
from acp_ref.schema.agent_plan import PlanEntryPriority as PlanEntryPriority
from acp_ref.schema.agent_plan import PlanEntryStatus as PlanEntryStatus
from acp_ref.schema.authentication import AgentAuthCapabilities as AgentAuthCapabilities
from acp_ref.schema.authentication import AuthCapabilities as AuthCapabilities
from acp_ref.schema.authentication import AuthenticateRequest as AuthenticateRequest
from acp_ref.schema.authentication import AuthenticateResponse as AuthenticateResponse
from acp_ref.schema.authentication import AuthMethod as AuthMethod
from acp_ref.schema.authentication import AuthMethodAgent as AuthMethodAgent
from acp_ref.schema.authentication import AuthMethodId as AuthMethodId
from acp_ref.schema.authentication import AuthMethodTerminal as AuthMethodTerminal
from acp_ref.schema.authentication import LogoutCapabilities as LogoutCapabilities
from acp_ref.schema.authentication import LogoutRequest as LogoutRequest
from acp_ref.schema.authentication import LogoutResponse as LogoutResponse
from acp_ref.schema.cancellation import CancelRequestNotification as CancelRequestNotification
from acp_ref.schema.compaction import CompactionCapabilities as CompactionCapabilities
from acp_ref.schema.compaction import CompactionId as CompactionId
from acp_ref.schema.compaction import CompactionStatus as CompactionStatus
from acp_ref.schema.compaction import CompactionSummaryChunk as CompactionSummaryChunk
from acp_ref.schema.compaction import CompactionUpdate as CompactionUpdate
from acp_ref.schema.content import Annotations as Annotations
from acp_ref.schema.content import AudioContent as AudioContent
from acp_ref.schema.content import BlobResourceContents as BlobResourceContents
from acp_ref.schema.content import ContentBlock as ContentBlock
from acp_ref.schema.content import EmbeddedResource as EmbeddedResource
from acp_ref.schema.content import EmbeddedResourceResource as EmbeddedResourceResource
from acp_ref.schema.content import ImageContent as ImageContent
from acp_ref.schema.content import ResourceLink as ResourceLink
from acp_ref.schema.content import Role as Role
from acp_ref.schema.content import TextContent as TextContent
from acp_ref.schema.content import TextResourceContents as TextResourceContents
from acp_ref.schema.elicitation import BooleanPropertySchema as BooleanPropertySchema
from acp_ref.schema.elicitation import CompleteElicitationNotification as CompleteElicitationNotification
from acp_ref.schema.elicitation import CreateElicitationRequest as CreateElicitationRequest
from acp_ref.schema.elicitation import CreateElicitationResponse as CreateElicitationResponse
from acp_ref.schema.elicitation import ElicitationAccept as ElicitationAccept
from acp_ref.schema.elicitation import ElicitationCancel as ElicitationCancel
from acp_ref.schema.elicitation import ElicitationCapabilities as ElicitationCapabilities
from acp_ref.schema.elicitation import ElicitationContentValue as ElicitationContentValue
from acp_ref.schema.elicitation import ElicitationDecline as ElicitationDecline
from acp_ref.schema.elicitation import ElicitationFormCapabilities as ElicitationFormCapabilities
from acp_ref.schema.elicitation import ElicitationFormRequest as ElicitationFormRequest
from acp_ref.schema.elicitation import ElicitationId as ElicitationId
from acp_ref.schema.elicitation import ElicitationPropertySchema as ElicitationPropertySchema
from acp_ref.schema.elicitation import ElicitationRequestScope as ElicitationRequestScope
from acp_ref.schema.elicitation import ElicitationSchema as ElicitationSchema
from acp_ref.schema.elicitation import ElicitationSchemaType as ElicitationSchemaType
from acp_ref.schema.elicitation import ElicitationScope as ElicitationScope
from acp_ref.schema.elicitation import ElicitationSessionScope as ElicitationSessionScope
from acp_ref.schema.elicitation import ElicitationUrlCapabilities as ElicitationUrlCapabilities
from acp_ref.schema.elicitation import ElicitationUrlRequest as ElicitationUrlRequest
from acp_ref.schema.elicitation import EnumOption as EnumOption
from acp_ref.schema.elicitation import IntegerPropertySchema as IntegerPropertySchema
from acp_ref.schema.elicitation import MultiSelectItems as MultiSelectItems
from acp_ref.schema.elicitation import MultiSelectPropertySchema as MultiSelectPropertySchema
from acp_ref.schema.elicitation import NumberPropertySchema as NumberPropertySchema
from acp_ref.schema.elicitation import StringFormat as StringFormat
from acp_ref.schema.elicitation import StringMultiSelectItems as StringMultiSelectItems
from acp_ref.schema.elicitation import StringPropertySchema as StringPropertySchema
from acp_ref.schema.elicitation import TitledMultiSelectItems as TitledMultiSelectItems
from acp_ref.schema.extensibility import TRACE_CONTEXT_KEYS as TRACE_CONTEXT_KEYS
from acp_ref.schema.extensibility import ExtNotification as ExtNotification
from acp_ref.schema.extensibility import ExtRequest as ExtRequest
from acp_ref.schema.extensibility import ExtResponse as ExtResponse
from acp_ref.schema.file_system import ReadTextFileRequest as ReadTextFileRequest
from acp_ref.schema.file_system import ReadTextFileResponse as ReadTextFileResponse
from acp_ref.schema.file_system import WriteTextFileRequest as WriteTextFileRequest
from acp_ref.schema.file_system import WriteTextFileResponse as WriteTextFileResponse
from acp_ref.schema.initialization import AgentCapabilities as AgentCapabilities
from acp_ref.schema.initialization import BooleanConfigOptionCapabilities as BooleanConfigOptionCapabilities
from acp_ref.schema.initialization import ClientCapabilities as ClientCapabilities
from acp_ref.schema.initialization import ClientSessionCapabilities as ClientSessionCapabilities
from acp_ref.schema.initialization import FileSystemCapabilities as FileSystemCapabilities
from acp_ref.schema.initialization import Implementation as Implementation
from acp_ref.schema.initialization import InitializeRequest as InitializeRequest
from acp_ref.schema.initialization import InitializeResponse as InitializeResponse
from acp_ref.schema.initialization import McpCapabilities as McpCapabilities
from acp_ref.schema.initialization import PromptCapabilities as PromptCapabilities
from acp_ref.schema.initialization import ProtocolVersion as ProtocolVersion
from acp_ref.schema.initialization import (
    SessionAdditionalDirectoriesCapabilities as SessionAdditionalDirectoriesCapabilities,
)
from acp_ref.schema.initialization import SessionCapabilities as SessionCapabilities
from acp_ref.schema.initialization import SessionCloseCapabilities as SessionCloseCapabilities
from acp_ref.schema.initialization import SessionConfigOptionsCapabilities as SessionConfigOptionsCapabilities
from acp_ref.schema.initialization import SessionDeleteCapabilities as SessionDeleteCapabilities
from acp_ref.schema.initialization import SessionListCapabilities as SessionListCapabilities
from acp_ref.schema.initialization import SessionResumeCapabilities as SessionResumeCapabilities
from acp_ref.schema.notices import Notice as Notice
from acp_ref.schema.notices import NoticeCapabilities as NoticeCapabilities
from acp_ref.schema.notices import NoticeSeverity as NoticeSeverity
from acp_ref.schema.prompt_turn import AgentMessageChunk as AgentMessageChunk
from acp_ref.schema.prompt_turn import AgentThoughtChunk as AgentThoughtChunk
from acp_ref.schema.prompt_turn import CancelNotification as CancelNotification
from acp_ref.schema.prompt_turn import Cost as Cost
from acp_ref.schema.prompt_turn import MessageId as MessageId
from acp_ref.schema.prompt_turn import PromptRequest as PromptRequest
from acp_ref.schema.prompt_turn import PromptResponse as PromptResponse
from acp_ref.schema.prompt_turn import SessionNotification as SessionNotification
from acp_ref.schema.prompt_turn import SessionUpdate as SessionUpdate
from acp_ref.schema.prompt_turn import StopReason as StopReason
from acp_ref.schema.prompt_turn import UsageUpdate as UsageUpdate
from acp_ref.schema.prompt_turn import UserMessageChunk as UserMessageChunk
from acp_ref.schema.session_config_options import ConfigOptionUpdate as ConfigOptionUpdate
from acp_ref.schema.session_config_options import SessionConfigBoolean as SessionConfigBoolean
from acp_ref.schema.session_config_options import SessionConfigGroupId as SessionConfigGroupId
from acp_ref.schema.session_config_options import SessionConfigId as SessionConfigId
from acp_ref.schema.session_config_options import SessionConfigOption as SessionConfigOption
from acp_ref.schema.session_config_options import SessionConfigOptionCategory as SessionConfigOptionCategory
from acp_ref.schema.session_config_options import SessionConfigSelect as SessionConfigSelect
from acp_ref.schema.session_config_options import SessionConfigSelectGroup as SessionConfigSelectGroup
from acp_ref.schema.session_config_options import SessionConfigSelectOption as SessionConfigSelectOption
from acp_ref.schema.session_config_options import SessionConfigSelectOptions as SessionConfigSelectOptions
from acp_ref.schema.session_config_options import SessionConfigValueId as SessionConfigValueId
from acp_ref.schema.session_config_options import SetSessionConfigBooleanRequest as SetSessionConfigBooleanRequest
from acp_ref.schema.session_config_options import SetSessionConfigOptionRequest as SetSessionConfigOptionRequest
from acp_ref.schema.session_config_options import SetSessionConfigOptionResponse as SetSessionConfigOptionResponse
from acp_ref.schema.session_config_options import SetSessionConfigSelectRequest as SetSessionConfigSelectRequest
from acp_ref.schema.session_delete import DeleteSessionRequest as DeleteSessionRequest
from acp_ref.schema.session_delete import DeleteSessionResponse as DeleteSessionResponse
from acp_ref.schema.session_list import ListSessionsRequest as ListSessionsRequest
from acp_ref.schema.session_list import ListSessionsResponse as ListSessionsResponse
from acp_ref.schema.session_list import SessionInfo as SessionInfo
from acp_ref.schema.session_list import SessionInfoUpdate as SessionInfoUpdate
from acp_ref.schema.session_modes import CurrentModeUpdate as CurrentModeUpdate
from acp_ref.schema.session_modes import SessionMode as SessionMode
from acp_ref.schema.session_modes import SessionModeId as SessionModeId
from acp_ref.schema.session_modes import SessionModeState as SessionModeState
from acp_ref.schema.session_modes import SetSessionModeRequest as SetSessionModeRequest
from acp_ref.schema.session_modes import SetSessionModeResponse as SetSessionModeResponse
from acp_ref.schema.session_setup import CloseSessionRequest as CloseSessionRequest
from acp_ref.schema.session_setup import CloseSessionResponse as CloseSessionResponse
from acp_ref.schema.session_setup import EnvVariable as EnvVariable
from acp_ref.schema.session_setup import HttpHeader as HttpHeader
from acp_ref.schema.session_setup import LoadSessionRequest as LoadSessionRequest
from acp_ref.schema.session_setup import LoadSessionResponse as LoadSessionResponse
from acp_ref.schema.session_setup import McpServer as McpServer
from acp_ref.schema.session_setup import McpServerHttp as McpServerHttp
from acp_ref.schema.session_setup import McpServerSse as McpServerSse
from acp_ref.schema.session_setup import McpServerStdio as McpServerStdio
from acp_ref.schema.session_setup import NewSessionRequest as NewSessionRequest
from acp_ref.schema.session_setup import NewSessionResponse as NewSessionResponse
from acp_ref.schema.session_setup import ResumeSessionRequest as ResumeSessionRequest
from acp_ref.schema.session_setup import ResumeSessionResponse as ResumeSessionResponse
from acp_ref.schema.session_setup import SessionId as SessionId
from acp_ref.schema.slash_commands import AvailableCommand as AvailableCommand
from acp_ref.schema.slash_commands import AvailableCommandInput as AvailableCommandInput
from acp_ref.schema.slash_commands import AvailableCommandsUpdate as AvailableCommandsUpdate
from acp_ref.schema.slash_commands import UnstructuredCommandInput as UnstructuredCommandInput
from acp_ref.schema.terminals import CreateTerminalRequest as CreateTerminalRequest
from acp_ref.schema.terminals import CreateTerminalResponse as CreateTerminalResponse
from acp_ref.schema.terminals import KillTerminalRequest as KillTerminalRequest
from acp_ref.schema.terminals import KillTerminalResponse as KillTerminalResponse
from acp_ref.schema.terminals import ReleaseTerminalRequest as ReleaseTerminalRequest
from acp_ref.schema.terminals import ReleaseTerminalResponse as ReleaseTerminalResponse
from acp_ref.schema.terminals import TerminalExitStatus as TerminalExitStatus
from acp_ref.schema.terminals import TerminalId as TerminalId
from acp_ref.schema.terminals import TerminalOutputRequest as TerminalOutputRequest
from acp_ref.schema.terminals import TerminalOutputResponse as TerminalOutputResponse
from acp_ref.schema.terminals import WaitForTerminalExitRequest as WaitForTerminalExitRequest
from acp_ref.schema.terminals import WaitForTerminalExitResponse as WaitForTerminalExitResponse
from acp_ref.schema.tool_calls import CancelledPermissionOutcome as CancelledPermissionOutcome
from acp_ref.schema.tool_calls import Content as Content
from acp_ref.schema.tool_calls import Diff as Diff
from acp_ref.schema.tool_calls import PermissionOption as PermissionOption
from acp_ref.schema.tool_calls import PermissionOptionId as PermissionOptionId
from acp_ref.schema.tool_calls import PermissionOptionKind as PermissionOptionKind
from acp_ref.schema.tool_calls import RequestPermissionOutcome as RequestPermissionOutcome
from acp_ref.schema.tool_calls import RequestPermissionRequest as RequestPermissionRequest
from acp_ref.schema.tool_calls import RequestPermissionResponse as RequestPermissionResponse
from acp_ref.schema.tool_calls import SelectedPermissionOutcome as SelectedPermissionOutcome
from acp_ref.schema.tool_calls import Terminal as Terminal
from acp_ref.schema.tool_calls import ToolCall as ToolCall
from acp_ref.schema.tool_calls import ToolCallContent as ToolCallContent
from acp_ref.schema.tool_calls import ToolCallId as ToolCallId
from acp_ref.schema.tool_calls import ToolCallLocation as ToolCallLocation
from acp_ref.schema.tool_calls import ToolCallStatus as ToolCallStatus
from acp_ref.schema.tool_calls import ToolCallUpdate as ToolCallUpdate
from acp_ref.schema.tool_calls import ToolKind as ToolKind

__all__ = [
    "TRACE_CONTEXT_KEYS",
    "UNSET",
    "AgentAuthCapabilities",
    "AgentCapabilities",
    "AgentMessageChunk",
    "AgentThoughtChunk",
    "Annotations",
    "AudioContent",
    "AuthCapabilities",
    "AuthMethod",
    "AuthMethodAgent",
    "AuthMethodId",
    "AuthMethodTerminal",
    "AuthenticateRequest",
    "AuthenticateResponse",
    "AvailableCommand",
    "AvailableCommandInput",
    "AvailableCommandsUpdate",
    "BlobResourceContents",
    "BooleanConfigOptionCapabilities",
    "BooleanPropertySchema",
    "CancelNotification",
    "CancelRequestNotification",
    "CancelledPermissionOutcome",
    "ClientCapabilities",
    "ClientSessionCapabilities",
    "CloseSessionRequest",
    "CloseSessionResponse",
    "CompactionCapabilities",
    "CompactionId",
    "CompactionStatus",
    "CompactionSummaryChunk",
    "CompactionUpdate",
    "CompleteElicitationNotification",
    "ConfigOptionUpdate",
    "Content",
    "ContentBlock",
    "Cost",
    "CreateElicitationRequest",
    "CreateElicitationResponse",
    "CreateTerminalRequest",
    "CreateTerminalResponse",
    "CurrentModeUpdate",
    "DeleteSessionRequest",
    "DeleteSessionResponse",
    "Diff",
    "ElicitationAccept",
    "ElicitationCancel",
    "ElicitationCapabilities",
    "ElicitationContentValue",
    "ElicitationDecline",
    "ElicitationFormCapabilities",
    "ElicitationFormRequest",
    "ElicitationId",
    "ElicitationPropertySchema",
    "ElicitationRequestScope",
    "ElicitationSchema",
    "ElicitationSchemaType",
    "ElicitationScope",
    "ElicitationSessionScope",
    "ElicitationUrlCapabilities",
    "ElicitationUrlRequest",
    "EmbeddedResource",
    "EmbeddedResourceResource",
    "EnumOption",
    "EnvVariable",
    "ExtNotification",
    "ExtRequest",
    "ExtResponse",
    "FileSystemCapabilities",
    "HttpHeader",
    "ImageContent",
    "Implementation",
    "InitializeRequest",
    "InitializeResponse",
    "IntegerPropertySchema",
    "KillTerminalRequest",
    "KillTerminalResponse",
    "ListSessionsRequest",
    "ListSessionsResponse",
    "LoadSessionRequest",
    "LoadSessionResponse",
    "LogoutCapabilities",
    "LogoutRequest",
    "LogoutResponse",
    "McpCapabilities",
    "McpServer",
    "McpServerHttp",
    "McpServerSse",
    "McpServerStdio",
    "MessageId",
    "MultiSelectItems",
    "MultiSelectPropertySchema",
    "NewSessionRequest",
    "NewSessionResponse",
    "Notice",
    "NoticeCapabilities",
    "NoticeSeverity",
    "NumberPropertySchema",
    "OpenEnum",
    "PermissionOption",
    "PermissionOptionId",
    "PermissionOptionKind",
    "Plan",
    "PlanEntry",
    "PlanEntryPriority",
    "PlanEntryStatus",
    "PromptCapabilities",
    "PromptRequest",
    "PromptResponse",
    "ProtocolVersion",
    "ReadTextFileRequest",
    "ReadTextFileResponse",
    "ReleaseTerminalRequest",
    "ReleaseTerminalResponse",
    "RequestPermissionOutcome",
    "RequestPermissionRequest",
    "RequestPermissionResponse",
    "ResourceLink",
    "ResumeSessionRequest",
    "ResumeSessionResponse",
    "Role",
    "SelectedPermissionOutcome",
    "SessionAdditionalDirectoriesCapabilities",
    "SessionCapabilities",
    "SessionCloseCapabilities",
    "SessionConfigBoolean",
    "SessionConfigGroupId",
    "SessionConfigId",
    "SessionConfigOption",
    "SessionConfigOptionCategory",
    "SessionConfigOptionsCapabilities",
    "SessionConfigSelect",
    "SessionConfigSelectGroup",
    "SessionConfigSelectOption",
    "SessionConfigSelectOptions",
    "SessionConfigValueId",
    "SessionDeleteCapabilities",
    "SessionId",
    "SessionInfo",
    "SessionInfoUpdate",
    "SessionListCapabilities",
    "SessionMode",
    "SessionModeId",
    "SessionModeState",
    "SessionNotification",
    "SessionResumeCapabilities",
    "SessionUpdate",
    "SetSessionConfigBooleanRequest",
    "SetSessionConfigOptionRequest",
    "SetSessionConfigOptionResponse",
    "SetSessionConfigSelectRequest",
    "SetSessionModeRequest",
    "SetSessionModeResponse",
    "StopReason",
    "StringFormat",
    "StringMultiSelectItems",
    "StringPropertySchema",
    "Terminal",
    "TerminalExitStatus",
    "TerminalId",
    "TerminalOutputRequest",
    "TerminalOutputResponse",
    "TextContent",
    "TextResourceContents",
    "TitledMultiSelectItems",
    "ToolCall",
    "ToolCallContent",
    "ToolCallId",
    "ToolCallLocation",
    "ToolCallStatus",
    "ToolCallUpdate",
    "ToolKind",
    "Unknown",
    "UnsetType",
    "UnstructuredCommandInput",
    "UsageUpdate",
    "UserMessageChunk",
    "WaitForTerminalExitRequest",
    "WaitForTerminalExitResponse",
    "WriteTextFileRequest",
    "WriteTextFileResponse",
]
