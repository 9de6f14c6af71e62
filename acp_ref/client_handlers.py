"""What a client answers its agent: permission, files, terminals, elicitation.

https://agentclientprotocol.com/protocol/overview#client

Each is handled only when the client offers it, so a method that was not announced is answered -32601 (D-15); each is
looked up by its session first, so an unknown session is answered -32002 at once and never shown to anybody.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

import attrs

from acp_ref.elicitation import answer_elicitation
from acp_ref.errors import RequestError
from acp_ref.handlers import Handlers
from acp_ref.methods import (
    COMPLETE_ELICITATION,
    CREATE_ELICITATION,
    CREATE_TERMINAL,
    KILL_TERMINAL,
    READ_TEXT_FILE,
    RELEASE_TERMINAL,
    REQUEST_PERMISSION,
    TERMINAL_OUTPUT,
    WAIT_FOR_TERMINAL_EXIT,
    WRITE_TEXT_FILE,
)
from acp_ref.permissions import answer_permission
from acp_ref.schema import (
    CancelledPermissionOutcome,
    CompleteElicitationNotification,
    CreateElicitationRequest,
    CreateElicitationResponse,
    CreateTerminalRequest,
    CreateTerminalResponse,
    ElicitationCancel,
    ElicitationSessionScope,
    KillTerminalRequest,
    KillTerminalResponse,
    ReadTextFileRequest,
    ReadTextFileResponse,
    ReleaseTerminalRequest,
    ReleaseTerminalResponse,
    RequestPermissionRequest,
    RequestPermissionResponse,
    TerminalOutputRequest,
    TerminalOutputResponse,
    Unknown,
    WaitForTerminalExitRequest,
    WaitForTerminalExitResponse,
    WriteTextFileRequest,
    WriteTextFileResponse,
)

if TYPE_CHECKING:
    from acp_ref.client import Client
    from acp_ref.client_side import ClientSide
    from acp_ref.connection import Connection
    from acp_ref.requests import IncomingRequest

__all__ = ["add_services"]


def add_services(handlers: Handlers, client: Client, side: ClientSide) -> None:
    """Handle what ``client`` offers, and only that."""

    def request_permission(
        request: IncomingRequest, params: RequestPermissionRequest
    ) -> Awaitable[RequestPermissionResponse]:
        session = side.session(params.session_id)
        session.state.introduce(params.tool_call)  # PERM-09
        # The agent need not repeat what it told before; whoever decides sees all of it (PERM-07).
        whole = session.state.tool_calls[params.tool_call.tool_call_id].as_update()
        question = attrs.evolve(params, tool_call=whole)
        return session.ask(
            lambda: answer_permission(question, client.request_permission, session.remembered, side.connection.report),
            RequestPermissionResponse(outcome=CancelledPermissionOutcome()),
        )

    handlers.on_request(REQUEST_PERMISSION, request_permission)  # GEN-06

    files = client.file_system
    if files is not None:

        async def read_text_file(request: IncomingRequest, params: ReadTextFileRequest) -> ReadTextFileResponse:
            return await files.read_text_file(side.session(params.session_id).roots, params)  # SETUP-67

        async def write_text_file(request: IncomingRequest, params: WriteTextFileRequest) -> WriteTextFileResponse:
            return await files.write_text_file(side.session(params.session_id).roots, params)  # SETUP-67

        handlers.on_request(READ_TEXT_FILE, read_text_file)
        if not client.read_only:
            handlers.on_request(WRITE_TEXT_FILE, write_text_file)

    if client.terminals:
        _add_terminals(handlers, side)
    if client.elicit_form is not None or client.elicit_url is not None:
        _add_elicitation(handlers, client, side)


def _add_terminals(handlers: Handlers, side: ClientSide) -> None:
    """All five methods, for the capability promises all five (INIT-18)."""

    async def create(request: IncomingRequest, params: CreateTerminalRequest) -> CreateTerminalResponse:
        return await (await side.session(params.session_id).terminals()).create(params)

    async def output(request: IncomingRequest, params: TerminalOutputRequest) -> TerminalOutputResponse:
        return await (await side.session(params.session_id).terminals()).output(params)

    async def wait_for_exit(
        request: IncomingRequest, params: WaitForTerminalExitRequest
    ) -> WaitForTerminalExitResponse:
        return await (await side.session(params.session_id).terminals()).wait_for_exit(params)

    async def kill(request: IncomingRequest, params: KillTerminalRequest) -> KillTerminalResponse:
        return await (await side.session(params.session_id).terminals()).kill(params)

    async def release(request: IncomingRequest, params: ReleaseTerminalRequest) -> ReleaseTerminalResponse:
        return await (await side.session(params.session_id).terminals()).release(params)

    handlers.on_request(CREATE_TERMINAL, create)
    handlers.on_request(TERMINAL_OUTPUT, output)
    handlers.on_request(WAIT_FOR_TERMINAL_EXIT, wait_for_exit)
    handlers.on_request(KILL_TERMINAL, kill)
    handlers.on_request(RELEASE_TERMINAL, release)


def _add_elicitation(handlers: Handlers, client: Client, side: ClientSide) -> None:
    def create(request: IncomingRequest, params: CreateElicitationRequest) -> Awaitable[CreateElicitationResponse]:
        def answer() -> Awaitable[CreateElicitationResponse]:
            return answer_elicitation(
                params, client.elicit_form, client.elicit_url, side.elicitations, side.connection.report
            )

        if isinstance(params, Unknown):
            return answer()  # which refuses it (ELIC-40)
        if isinstance(params.scope, ElicitationSessionScope):
            cancelled: CreateElicitationResponse = ElicitationCancel()
            return side.session(params.scope.session_id).ask(answer, cancelled)
        if not side.connection.is_pending(params.scope.request_id):  # D-42
            raise RequestError.invalid_params(f"$.requestId: {params.scope.request_id!r} is no request in flight here")
        return answer()

    def complete(connection: Connection, params: CompleteElicitationNotification) -> None:
        side.elicitations.complete(params.elicitation_id)  # ELIC-26, ELIC-29

    handlers.on_request(CREATE_ELICITATION, create)
    if client.elicit_url is not None:
        handlers.on_notification(COMPLETE_ELICITATION, complete)
