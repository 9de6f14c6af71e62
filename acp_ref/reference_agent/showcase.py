"""The reference agent's showcase: every kind of update, and every service that the client announced, in one turn.

https://agentclientprotocol.com/protocol/prompt-turn#3-agent-reports-output

For whoever builds a client: what to draw, always in the same order.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import acp_ref as acp
from acp_ref.permissions import default_options
from acp_ref.reference_agent import tools
from acp_ref.reference_agent.commands import CommandError, plan
from acp_ref.reference_agent.questions import ask_by_form, ask_by_url
from acp_ref.reference_agent.settings import MODES
from acp_ref.schema import (
    Annotations,
    AudioContent,
    BlobResourceContents,
    Cost,
    EmbeddedResource,
    ImageContent,
    NoticeSeverity,
    Role,
    TextResourceContents,
    ToolCallLocation,
)

__all__ = ["showcase"]

Scene: TypeAlias = Callable[[acp.PromptTurn], Awaitable[None]]

FILE: Final = "acp-showcase.txt"

GREEN_DOT: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mOwWRAFAAJSATfuU51fAAAAAElFTkSuQmCC"
"""A PNG of one pixel."""

SILENCE: Final = "UklGRigAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQQAAACAgICA"
"""A WAV of four samples."""


async def showcase(turn: acp.PromptTurn, text: str) -> None:
    """Play all scenes. One that the client refuses is not the end of the show."""
    for scene in SCENES:
        try:
            await scene(turn)
        except (CommandError, acp.RequestError, acp.RemoteProtocolError) as exc:
            await turn.send_text(f"\nThat did not go well: {exc}\n")
    await turn.send_text("\nThat was all.")


async def thoughts(turn: acp.PromptTurn) -> None:
    await turn.send_thought("Let me show ")
    await turn.send_thought("what an agent can say.")


async def content(turn: acp.PromptTurn) -> None:
    await turn.send_text("**Every kind of content**: text, ")
    await turn.send_content(
        acp.TextContent(text="text for the user only, ", annotations=Annotations(audience=[Role.USER], priority=0.5))
    )
    await turn.send_text("an image, a sound, a link to a resource, and two resources in full.\n")
    await turn.send_content(ImageContent(data=GREEN_DOT, mime_type="image/png"))
    await turn.send_content(AudioContent(data=SILENCE, mime_type="audio/wav"))
    await turn.send_content(
        acp.ResourceLink(name="Content", uri="https://agentclientprotocol.com/protocol/content", mime_type="text/html")
    )
    note = TextResourceContents(uri="note:///parrot", text="Pieces of eight.", mime_type="text/plain")
    await turn.send_content(EmbeddedResource(resource=note))
    dot = BlobResourceContents(uri="note:///dot", blob=GREEN_DOT, mime_type="image/png")
    await turn.send_content(EmbeddedResource(resource=dot))


async def words_of_the_user(turn: acp.PromptTurn) -> None:
    await turn.send(acp.UserMessageChunk(content=acp.TextContent(text="(This is what your own words look like.)")))


async def steps(turn: acp.PromptTurn) -> None:
    await plan(turn, "")


async def search(turn: acp.PromptTurn) -> None:
    async with turn.tool_call(
        "Search for parrots", kind=acp.ToolKind.SEARCH, name="search", raw_input={"pattern": "parrot"}
    ) as call:
        await call.start()
        path = os.path.join(turn.session.cwd, FILE)
        await call.update(title="Found a parrot", locations=[ToolCallLocation(path=path, line=1)])
        await call.complete(tools.said("One parrot found."), raw_output={"parrots": 1})


async def fetch(turn: acp.PromptTurn) -> None:
    async with turn.tool_call("Fetch another parrot", kind=acp.ToolKind.FETCH) as call:
        await call.start()
        await call.fail(tools.said("There is only one."))


async def permission(turn: acp.PromptTurn) -> None:
    async with turn.tool_call("Think about it", kind=acp.ToolKind.THINK) as call:
        decision = await call.request_permission(default_options(*acp.PermissionOptionKind))
        if decision:
            await call.start()
            await call.complete(tools.said("Thought about it."))
        else:
            await call.fail(tools.said(f"Not permitted: {decision.reason}."))


async def files(turn: acp.PromptTurn) -> None:
    if turn.client.can_write_text_files:
        await tools.write(turn, f"{FILE} Polly was here.\nAnd said so.\n")
    if turn.client.can_read_text_files:
        await tools.read(turn, FILE)
        await tools.read(turn, f"{FILE} 2 1")


async def terminals(turn: acp.PromptTurn) -> None:
    if turn.client.can_run_terminals:
        await tools.run_in_terminal(turn, sys.executable, "-c", "print('Hello from a terminal')")
        await tools.run_in_terminal(turn, sys.executable, "-c", "import time; time.sleep(60)", kill=True)


async def questions(turn: acp.PromptTurn) -> None:
    if turn.client.can_elicit_forms:
        await ask_by_form(turn)
    if turn.client.can_elicit_urls:
        await ask_by_url(turn)


async def settings(turn: acp.PromptTurn) -> None:
    session = turn.session
    await session.set_commands(*session.commands)
    if session.modes is not None:
        before = session.modes.current
        for mode in MODES.available_modes:
            await session.set_mode(mode.id)
        await session.set_mode(before)
    await session.set_title("Showcase")


async def usage(turn: acp.PromptTurn) -> None:
    await turn.send_usage(1_234, 200_000)
    await turn.send_usage(2_345, 200_000, Cost(amount=0.07, currency="EUR"))


async def notices(turn: acp.PromptTurn) -> None:
    for severity in NoticeSeverity:
        await turn.send_notice(severity, f"This is a notice: {severity.value}", "Nothing is wrong.", or_say_it=False)


async def compactions(turn: acp.PromptTurn) -> None:
    async with turn.compaction() as compaction:
        await compaction.send_summary("A parrot was ")
        await compaction.send_summary("found.")
    async with turn.compaction() as compaction:
        await compaction.fail("There is too little to condense.")


SCENES: Final[tuple[Scene, ...]] = (
    thoughts,
    content,
    words_of_the_user,
    steps,
    search,
    fetch,
    permission,
    files,
    terminals,
    questions,
    settings,
    usage,
    notices,
    compactions,
)
