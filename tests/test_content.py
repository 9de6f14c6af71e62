"""Content: every kind of block, in prompts as far as the agent takes it and in what the agent says without a limit.

https://agentclientprotocol.com/protocol/content
"""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
import trio

from acp_ref._converter import InvalidPayload, structure, unstructure
from acp_ref._jsonrpc import JSON, JSONObject
from acp_ref.agent import Agent
from acp_ref.content import audio, blob_resource, data_of, file_context, image, text_resource
from acp_ref.errors import CapabilityError, ErrorCode
from acp_ref.prompt_turn import PromptTurn
from acp_ref.schema import (
    AgentMessageChunk,
    BlobResourceContents,
    Content,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    PromptCapabilities,
    ResourceLink,
    StopReason,
    TextContent,
    TextResourceContents,
)
from acp_ref.session_state import Message, ToolCallState
from acp_ref.testing import open_agent_and_client
from tests.conversations import (
    CWD,
    agent_of,
    client_of,
    code_of,
    make_client,
    new_session,
    parrot,
    result_of,
    update_of,
)

NOISE: Final = bytes(range(256))

LINK: Final = ResourceLink(
    uri="file:///src/main.c",
    name="main.c",
    mime_type="text/x-c",
    title="Main",
    description="Where it begins",
    size=2**40,
)
GATED: Final[Sequence[tuple[str, ContentBlock]]] = (
    ("image", image(NOISE, "image/png", uri="file:///dot.png")),
    ("audio", audio(NOISE, "audio/wav")),
    ("embeddedContext", text_resource("file:///a.txt", "text", "text/plain")),
    ("embeddedContext", blob_resource("file:///a.bin", NOISE)),
)
"""The blocks that a prompt may hold only when the agent announced the capability before them."""
ALL: Final[Sequence[ContentBlock]] = (TextContent(text="**text**"), LINK, *(block for _, block in GATED))


EVERYTHING: Final = PromptCapabilities(image=True, audio=True, embedded_context=True)


def agent(capabilities: PromptCapabilities) -> Agent:
    return Agent(name="a", version="1", prompt=parrot, prompt_capabilities=capabilities)


# --------------------------------------------------------------------------------------------- what is in a block


@pytest.mark.spec("CONTENT-04", "CONTENT-05", "CONTENT-07")
def test_bytes_go_into_a_block_as_base64_and_come_out_again() -> None:
    resource = blob_resource("file:///a", NOISE).resource
    assert isinstance(resource, BlobResourceContents)
    for block in (image(NOISE, "image/png"), audio(NOISE, "audio/wav"), resource):
        assert data_of(block) == NOISE
    assert image(NOISE, "image/png").data == base64.b64encode(NOISE).decode()
    assert data_of(image(b"", "image/png")) == b""


def test_what_is_no_base64_is_said_to_be_none() -> None:
    for data in ("A", "A===", "####", "é"):
        with pytest.raises(ValueError, match=r"."):
            data_of(ImageContent(data=data, mime_type="image/png"))


# ------------------------------------------------------------------------------------------------------ in prompts


@pytest.mark.spec("CONTENT-02", "CONTENT-04", "CONTENT-05", "CONTENT-06", "CONTENT-08", "INIT-21", "INIT-22")
async def test_a_client_sends_each_kind_of_block_only_to_agents_that_take_it() -> None:
    for capability, block in GATED:
        others: JSONObject = {name: name != capability for name, _ in GATED}
        async with agent_of(make_client(), capabilities={"promptCapabilities": others}) as (_, session, peer):
            for name, other in GATED:
                assert session.accepts(other) == (name != capability)
            with pytest.raises(CapabilityError, match=capability):
                async with session.prompt("look", LINK, block):
                    pass
            assert await peer.receive_all() == []
            async with session.prompt("look", LINK) as turn:  # these two every agent takes
                question = await peer.receive()
                assert question["method"] == "session/prompt"
                await peer.answer(question, {"stopReason": "end_turn"})
                assert await turn.wait() is StopReason.END_TURN


@pytest.mark.spec("CONTENT-02", "CONTENT-04", "CONTENT-05", "CONTENT-06", "CONTENT-08", "INIT-21", "INIT-22")
async def test_an_agent_refuses_only_the_kinds_of_block_that_it_did_not_announce() -> None:
    free: list[JSON] = [unstructure(ContentBlock, TextContent(text="look")), unstructure(ContentBlock, LINK)]
    for capability, block in GATED:
        others: JSONObject = {name: name != capability for name, _ in GATED}
        async with client_of(agent(structure(PromptCapabilities, others))) as peer:
            session_id = await new_session(peer)
            params: JSONObject = {"sessionId": session_id, "prompt": [*free, unstructure(ContentBlock, block)]}
            refused = await peer.call(1, "session/prompt", params)
            assert code_of(refused) == ErrorCode.INVALID_PARAMS
            assert f"$.prompt[2]: needs agentCapabilities.promptCapabilities.{capability}" in str(refused["error"])
            await peer.request(2, "session/prompt", {"sessionId": session_id, "prompt": free})
            assert [update_of(await peer.receive())["content"] for _ in free] == free
            assert result_of(await peer.receive()) == {"stopReason": "end_turn"}


@pytest.mark.spec("CONTENT-09", "CONTENT-01")
async def test_every_kind_of_block_reaches_an_agent_that_takes_all_and_comes_back_unchanged() -> None:
    async with open_agent_and_client(agent(EVERYTHING), make_client()) as (_, side), side.new_session(CWD) as session:
        async with session.prompt(*ALL) as turn:
            assert [update.content async for update in turn if isinstance(update, AgentMessageChunk)] == [*ALL]
        message = session.state.timeline[0]
        assert isinstance(message, Message)
        assert message.content == ALL


@pytest.mark.spec("CONTENT-09")
def test_a_link_needs_an_address_and_a_name_and_may_say_more() -> None:
    assert unstructure(ContentBlock, ResourceLink(uri="u", name="n")) == {
        "type": "resource_link",
        "uri": "u",
        "name": "n",
    }
    whole: JSONObject = {
        "type": "resource_link",
        "uri": "file:///src/main.c",
        "name": "main.c",
        "mimeType": "text/x-c",
        "title": "Main",
        "description": "Where it begins",
        "size": 2**40,
    }
    assert unstructure(ContentBlock, LINK) == whole
    assert structure(ContentBlock, whole) == LINK
    for missing in ("uri", "name"):
        with pytest.raises(InvalidPayload, match=missing):
            structure(ContentBlock, {key: value for key, value in whole.items() if key != missing})


@pytest.mark.spec("CONTENT-11")
async def test_an_agent_may_say_what_it_would_not_take() -> None:
    async def answer(turn: PromptTurn) -> StopReason:
        for block in ALL:
            await turn.send_content(block)
        async with turn.tool_call("Looking") as call:
            await call.complete([Content(content=block) for block in ALL])
        return StopReason.END_TURN

    served = Agent(name="a", version="1", prompt=answer)
    async with open_agent_and_client(served, make_client()) as (_, side), side.new_session(CWD) as session:
        assert not session.accepts(ALL[2])
        async with session.prompt("show me") as turn:
            await turn.wait()
        _, message, call = session.state.timeline
        assert isinstance(message, Message)
        assert message.content == ALL
        assert isinstance(call, ToolCallState)
        assert call.content == [Content(content=block) for block in ALL]


# ---------------------------------------------------------------------------------------------- files as context


def takes_all(block: ContentBlock) -> bool:
    return True


def takes_links(block: ContentBlock) -> bool:
    return isinstance(block, ResourceLink)


@pytest.mark.spec("CONTENT-06", "CONTENT-08", "CONTENT-09")
async def test_a_file_is_embedded_where_the_agent_takes_that_and_linked_everywhere(tmp_path: Path) -> None:
    file = tmp_path / "a b.py"
    file.write_text("x = 'é'\n", "utf-8")
    embedded = await file_context(str(file), takes_all)
    uri = f"file://{tmp_path}/a%20b.py"
    contents = TextResourceContents(uri=uri, text="x = 'é'\n", mime_type="text/x-python")
    assert embedded == EmbeddedResource(resource=contents)
    linked = await file_context(str(file), takes_links)
    assert linked == ResourceLink(uri=uri, name="a b.py", mime_type="text/x-python", size=9)


@pytest.mark.spec("CONTENT-07")
async def test_a_file_that_is_no_text_is_embedded_as_bytes(tmp_path: Path) -> None:
    file = tmp_path / "noise"
    for data in (NOISE, b"\xff\xfe", b"a\0b"):
        file.write_bytes(data)
        embedded = await file_context(str(file), takes_all)
        assert embedded == blob_resource(file.as_uri(), data)


async def test_what_is_too_large_or_no_plain_file_is_linked(tmp_path: Path) -> None:
    file = tmp_path / "big.txt"
    file.write_bytes(b"x" * 101)
    linked = await file_context(str(file), takes_all, max_bytes=100)
    assert linked == ResourceLink(uri=file.as_uri(), name="big.txt", mime_type="text/plain", size=101)
    assert isinstance(await file_context(str(file), takes_all, max_bytes=101), EmbeddedResource)
    assert await file_context(str(tmp_path), takes_all) == ResourceLink(uri=tmp_path.as_uri(), name=tmp_path.name)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with trio.fail_after(5):
        assert isinstance(await file_context(str(pipe), takes_all), ResourceLink)


@pytest.mark.spec("GEN-09")
async def test_a_file_is_named_by_its_whole_path_and_exists(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="relative"):
        await file_context("main.c", takes_all)
    with pytest.raises(FileNotFoundError):
        await file_context(str(tmp_path / "none"), takes_all)
