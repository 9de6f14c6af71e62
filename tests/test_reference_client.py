"""What the reference client tells of an agent's updates, and how it looks."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import attrs
import pytest
import trio
import trio.testing

import acp_ref as acp
from acp_ref.reference_client.conversation import Conversation
from acp_ref.reference_client.diffs import changed_lines
from acp_ref.reference_client.screen import Screen
from acp_ref.reference_client.text import fold, plain_output, visible, width
from acp_ref.schema import (
    AvailableCommand,
    AvailableCommandsUpdate,
    BlobResourceContents,
    CompactionId,
    CompactionStatus,
    CompactionSummaryChunk,
    CompactionUpdate,
    ConfigOptionUpdate,
    Cost,
    CreateTerminalRequest,
    CurrentModeUpdate,
    EmbeddedResource,
    ImageContent,
    MessageId,
    NewSessionResponse,
    Notice,
    NoticeSeverity,
    PlanEntryPriority,
    PlanEntryStatus,
    SessionConfigBoolean,
    SessionConfigId,
    SessionInfoUpdate,
    SessionMode,
    SessionModeId,
    SessionModeState,
    Terminal,
    ToolCallId,
    ToolCallLocation,
    ToolCallStatus,
    UsageUpdate,
)
from acp_ref.terminals import Terminals

CWD: Final = "/home/user/project"

# --------------------------------------------------------------------------------------------------- the conversation


class Told:
    """A conversation of which somebody keeps the transcript."""

    def __init__(self, *, columns: int | None = None, terminals: Terminals | None = None) -> None:
        self.written: list[str] = []
        self.state = acp.SessionState()
        screen = Screen(self.written.append, columns=None if columns is None else lambda: columns)
        find = (lambda terminal_id: None) if terminals is None else terminals.get
        self.conversation = Conversation(screen, self.state, CWD, find)

    @property
    def transcript(self) -> str:
        """All of it, without the empty lines at its ends."""
        return "".join(self.written).strip("\n")

    def prompt(self, text: str) -> None:
        self.conversation.said(text, typed=False)
        self.state.begin_turn([acp.TextContent(text=text)])
        self.conversation.begin_turn()

    def tell(self, *updates: acp.SessionUpdate, replayed: bool = False) -> None:
        for update in updates:
            self.state.apply(update)
            self.conversation.tell(update, replayed=replayed)

    def end(self, stop_reason: acp.StopReason | str = acp.StopReason.END_TURN) -> None:
        self.state.end_turn(stop_reason)
        self.conversation.end_turn()


def said(text: str, message_id: str | None = None) -> acp.AgentMessageChunk:
    return acp.AgentMessageChunk(
        content=acp.TextContent(text=text), message_id=None if message_id is None else MessageId(message_id)
    )


def thought(text: str) -> acp.AgentThoughtChunk:
    return acp.AgentThoughtChunk(content=acp.TextContent(text=text))


def call(title: str = "Edit it", kind: acp.ToolKind = acp.ToolKind.EDIT) -> acp.ToolCall:
    return acp.ToolCall(tool_call_id=ToolCallId("call"), title=title, kind=kind)


progress = partial(acp.ToolCallUpdate, tool_call_id=ToolCallId("call"))


def text_content(text: str) -> acp.Content:
    return acp.Content(content=acp.TextContent(text=text))


def test_a_turn_reads_as_a_conversation() -> None:
    told = Told()
    told.prompt("hello\nthere")
    told.tell(thought("Let me "), thought("see."), said("Hi, "), said("you."))
    told.end()
    told.prompt("bye")
    told.tell(said("\n\nBye."))
    told.end()
    assert (
        told.transcript
        == """\
> hello
> there
Let me see.

Hi, you.

> bye
Bye."""
    )


def test_text_is_on_the_screen_as_it_comes() -> None:
    told = Told()
    told.prompt("x")
    for piece in "one", " two", "\nthr", "ee":
        before = told.transcript
        told.tell(said(piece))
        assert told.transcript == before + ("\n" if before == "> x" else "") + piece


def test_another_message_id_begins_another_paragraph() -> None:
    told = Told()
    told.tell(said("one", "a"), said(" more", "a"), said("two", "b"))
    assert told.transcript == "one more\n\ntwo"


def test_a_tool_call_shows_kind_title_status_places_input_and_changes() -> None:
    told = Told()
    told.prompt("x")
    told.tell(
        attrs.evolve(call(), raw_input={"path": "a.py"}),
        progress(status=ToolCallStatus.IN_PROGRESS, locations=[ToolCallLocation(path=f"{CWD}/a.py", line=2)]),
        progress(
            status=ToolCallStatus.COMPLETED,
            content=[
                acp.Diff(path=f"{CWD}/a.py", old_text="a\nb\nc\n", new_text="a\nB\nc\n"),
                acp.Diff(path="/elsewhere/new.txt", new_text="hello\n"),
                text_content("All well."),
            ],
        ),
        said("Done."),
    )
    assert (
        told.transcript
        == """\
> x
○ Edit it  (edit, pending)
  │ input: {"path":"a.py"}
◐ Edit it  (edit, in progress)
  │ a.py:2
✔ Edit it  (edit, completed)
  │ a.py
  │  a
  │ -b
  │ +B
  │  c
  │ /elsewhere/new.txt
  │ +hello
  │ All well.

Done."""
    )


def test_only_what_is_new_of_a_tool_call_is_told() -> None:
    told = Told()
    told.tell(
        call("Search", acp.ToolKind.SEARCH),
        progress(content=[text_content("one")]),
        progress(content=[text_content("one\ntwo")]),
        progress(content=[text_content("one\ntwo"), text_content("three")]),
        progress(status=ToolCallStatus.PENDING),
    )
    assert told.transcript == "○ Search  (search, pending)\n  │ one\n  │ two\n  │ three"


def test_news_of_a_tool_call_name_it_again_when_something_came_in_between() -> None:
    told = Told()
    told.tell(call(), said("By the way."), progress(content=[text_content("one")]))
    assert (
        told.transcript
        == """\
○ Edit it  (edit, pending)

By the way.

○ Edit it  (edit, pending)
  │ one"""
    )


def test_a_failed_tool_call_without_content_shows_its_raw_output() -> None:
    told = Told()
    told.tell(call(), progress(status=ToolCallStatus.FAILED, raw_output={"error": "no"}))
    assert told.transcript.splitlines()[1:] == ["✘ Edit it  (edit, failed)", '  │ output: {"error":"no"}']


def test_long_content_is_cut_and_says_by_how_much() -> None:
    told = Told()
    told.tell(call(), progress(content=[text_content("\n".join(map(str, range(100)))), text_content("x" * 3000)]))
    lines = told.transcript.splitlines()
    assert lines[1:4] == ["  │ 0", "  │ 1", "  │ 2"]
    assert lines[41] == "  │ … 60 more lines"
    assert lines[42].endswith("xxx… 1,000 more characters")


@pytest.mark.spec("TOOL-15")
async def test_a_terminal_in_a_tool_call_shows_its_output_and_how_it_ended(tmp_path: Path) -> None:
    terminals = Terminals(cwd=str(tmp_path))
    async with trio.open_nursery() as nursery:
        await nursery.start(terminals.run)
        program = "print(*range(60), sep='\\n'); print('\\x1b[31mred\\x1b[0m', end='')"
        created = await terminals.create(
            CreateTerminalRequest(session_id=acp.SessionId("s"), command=sys.executable, args=["-c", program])
        )
        terminal = terminals.get(created.terminal_id)
        assert terminal is not None
        told = Told(terminals=terminals)
        told.tell(call("Run it"), progress(content=[Terminal(terminal_id=created.terminal_id)]))
        assert told.transcript.splitlines()[1].startswith(f"  │ $ {sys.executable} -c ")
        before = len(told.transcript.splitlines())
        await terminal.wait_ended()
        told.tell(progress(status=ToolCallStatus.COMPLETED))
        told.tell(progress(status=ToolCallStatus.COMPLETED))  # nothing new
        await terminals.aclose()
    assert told.transcript.splitlines()[before:] == [
        *(f"  │ {number}" for number in range(30)),
        "  │ … 21 lines",
        *(f"  │ {number}" for number in range(51, 60)),
        "  │ red",
        "  │ (exit status 0)",
        "✔ Run it  (edit, completed)",
    ]


def test_a_plan_has_checkmarks_and_later_only_what_changed() -> None:
    def plan(*statuses: PlanEntryStatus) -> acp.Plan:
        priorities = PlanEntryPriority.HIGH, PlanEntryPriority.MEDIUM, PlanEntryPriority.LOW
        return acp.Plan(
            entries=[
                acp.PlanEntry(content=f"step {number}", priority=priority, status=status)
                for number, (priority, status) in enumerate(zip(priorities, statuses, strict=False), start=1)
            ]
        )

    pending, running, done = PlanEntryStatus.PENDING, PlanEntryStatus.IN_PROGRESS, PlanEntryStatus.COMPLETED
    told = Told()
    told.tell(plan(running, pending, pending), plan(done, running, pending), plan(done, running, pending))
    told.tell(said("So."), plan(done, done, pending), plan(done))
    assert (
        told.transcript
        == """\
Plan:
  ◐ step 1  (high)
  ○ step 2
  ○ step 3  (low)
  ✔ step 1  (high)
  ◐ step 2

So.

Plan:
  ✔ step 2
Plan:
  ✔ step 1  (high)"""
    )


def test_title_commands_mode_and_options_wait_for_the_end_of_a_message_and_usage_for_that_of_the_turn() -> None:
    told = Told()
    told.state.opened(
        NewSessionResponse(
            session_id=acp.SessionId("s"),
            modes=SessionModeState(
                current_mode_id=SessionModeId("ask"),
                available_modes=[
                    SessionMode(id=SessionModeId("ask"), name="Ask"),
                    SessionMode(id=SessionModeId("code"), name="Code"),
                ],
            ),
        )
    )
    told.conversation.begin("Parrot 1.0 in /x", "s")
    told.conversation.set_up(None)
    told.conversation.set_up(None)  # nothing new
    told.prompt("x")
    told.tell(
        UsageUpdate(used=500, size=2000),
        said("wo"),
        SessionInfoUpdate(title="A title"),
        SessionInfoUpdate(title="A better title"),
        AvailableCommandsUpdate(available_commands=[AvailableCommand(name="/echo", description="Says it")]),
        CurrentModeUpdate(current_mode_id=SessionModeId("code")),
        UsageUpdate(used=1500, size=2000, cost=Cost(amount=0.25, currency="EUR")),
        said("rd"),
        thought("Hm."),
    )
    told.end()
    option = SessionConfigBoolean(id=SessionConfigId("loud"), name="Loud", current_value=True)
    told.tell(ConfigOptionUpdate(config_options=[option]), ConfigOptionUpdate(config_options=[option]))
    assert (
        told.transcript
        == """\
Parrot 1.0 in /x, session s
mode: Ask (ask)

> x
word

title: A better title
commands: /echo
mode: Code (code)

Hm.

context: 1,500 of 2,000 tokens (75%), 0.25 EUR
Loud: on"""
    )


def test_a_notice_does_not_wait() -> None:
    told = Told()
    told.prompt("x")
    told.tell(said("wo"), Notice(severity=NoticeSeverity.WARNING, title="Slow down", description="10 s"), said("rd"))
    assert told.transcript == "> x\nwo\n\nwarning: Slow down: 10 s\n\nrd"


def test_a_compaction_is_told_when_it_begins_and_ends() -> None:
    first, second = CompactionId("1"), CompactionId("2")
    told = Told()
    told.tell(
        CompactionUpdate(compaction_id=first, status=CompactionStatus.IN_PROGRESS),
        CompactionSummaryChunk(compaction_id=first, content=acp.TextContent(text="In ")),
        CompactionSummaryChunk(compaction_id=first, content=acp.TextContent(text="short.")),
        CompactionUpdate(compaction_id=first, status=CompactionStatus.COMPLETED),
        CompactionUpdate(compaction_id=second, status=CompactionStatus.FAILED, error="too long"),
    )
    assert (
        told.transcript
        == """\
compacting the conversation
compacting the conversation: completed
In short.
compacting the conversation: failed: too long"""
    )


def test_a_replay_is_marked_as_such() -> None:
    told = Told()
    told.conversation.begin("Parrot 1.0 in /x", "s")
    hello = acp.UserMessageChunk(content=acp.TextContent(text="hello"))
    told.tell(hello, said("Hi."), replayed=True)
    told.conversation.set_up(None)
    assert (
        told.transcript
        == """\
Parrot 1.0 in /x, session s
--- what was said before ---

> hello
Hi.

--- end of what was said before ---"""
    )


@pytest.mark.spec("CANCEL-02")
def test_the_stop_reason_is_told_unless_the_turn_just_ended_and_no_tool_call_is_left_open() -> None:
    told = Told()
    for reason in acp.StopReason.END_TURN, acp.StopReason.REFUSAL, "_bored", acp.StopReason.CANCELLED:
        told.prompt("x")
        if reason == acp.StopReason.CANCELLED:
            told.tell(call())
        told.end(reason)
    assert (
        told.transcript
        == """\
> x

> x
(the agent refuses to go on; it will not remember this prompt)

> x
(the turn ended: _bored)

> x
○ Edit it  (edit, pending)
✘ Edit it  (edit, cancelled)

(the turn was cancelled)"""
    )


def test_what_comes_behind_the_answer_is_told_behind_the_stop_reason() -> None:
    told = Told()
    told.prompt("x")
    told.state.end_turn(acp.StopReason.MAX_TOKENS)
    told.tell(SessionInfoUpdate(title="Late"))
    told.conversation.end_turn()
    assert told.transcript == "> x\n(the model reached its limit of tokens)\ntitle: Late"


def test_what_is_not_text_is_described_and_what_is_unknown_is_never_taken_for_something_else() -> None:
    told = Told()
    blocks: list[acp.ContentBlock] = [
        ImageContent(data="QUJD", mime_type="image/png"),
        acp.ResourceLink(name="spec", uri="file:///spec.md"),
        EmbeddedResource(resource=BlobResourceContents(uri="x:y", blob="QQ==")),
        acp.Unknown(raw={"type": "smell"}),
    ]
    told.tell(*(acp.AgentMessageChunk(content=block) for block in blocks))
    told.tell(acp.Unknown(raw={"sessionUpdate": "dance", "text": "secret"}))
    assert (
        told.transcript
        == """\
[image: image/png, 3 bytes]
[link: spec <file:///spec.md>]
[resource: x:y, bytes, 1 bytes]
[content of a kind that is not known here: smell]

(an update of a kind that is not known here: dance)"""
    )


def test_mcp_servers_that_failed_are_told() -> None:
    told = Told()
    told.conversation.set_up(
        {
            "acp_ref/mcpServers": [
                {"name": "good", "state": "ready"},
                {"name": "bad", "state": "failed", "reason": "exit status 1\nof it"},
                "junk",
            ]
        }
    )
    assert told.transcript == "MCP server 'bad' failed: exit status 1 of it"


def test_an_agent_cannot_command_the_terminal() -> None:
    told = Told()
    told.tell(said("a\x1b[2Jb\x07\u202ec\r\nd"), call("rm\x1b[1A\n\n  -rf"))
    assert told.transcript == "a␛[2Jb␇<U+202E>c\nd\n\n○ rm␛[1A -rf  (edit, pending)"


# ------------------------------------------------------------------------------------------------------- the screen


def terminal_screen(columns: int) -> tuple[Screen, list[str]]:
    written: list[str] = []
    return Screen(written.append, columns=lambda: columns), written


def rendered(written: Sequence[str], columns: int) -> list[str]:
    """The lines of a terminal that was given ``written``, which uses nothing but colours, erasing and newlines."""
    lines = [""]
    text = "".join(written)
    while text:
        if text.startswith("\x1b["):
            sequence, text = text[2:], ""
            end = next(index for index, character in enumerate(sequence) if character.isalpha())
            if sequence[end] == "D":
                lines[-1] = lines[-1][: -int(sequence[:end])]
            text = sequence[end + 1 :]
        else:
            character, text = text[0], text[1:]
            if character == "\n":
                lines.append("")
            else:
                assert width(lines[-1] + character) < columns, "the terminal would have to fold"
                lines[-1] += character
    return [line.rstrip(" ") for line in lines]


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 1000])
def test_streamed_words_are_folded_whole_however_they_come_in(piece: int) -> None:
    screen, written = terminal_screen(24)
    text = "The quick brown fox jumps over the lazy dog and\nsleeps. 日本語 wide 日本語 words."
    for start in range(0, len(text), piece):
        screen.stream(text[start : start + piece])
    assert rendered(written, 24) == [
        "The quick brown fox",
        "jumps over the lazy dog",
        "and",
        "sleeps. 日本語 wide",
        "日本語 words.",
    ]


def test_a_word_longer_than_the_line_is_left_to_the_terminal() -> None:
    screen, written = terminal_screen(20)
    for _ in range(10):
        screen.stream("x" * 10)
    assert "".join(written) == "x" * 100


def test_a_file_gets_neither_colours_nor_folds() -> None:
    told = Told()
    told.tell(thought("word " * 100), call("title " * 100))
    assert "\x1b" not in told.transcript
    assert len(told.transcript.splitlines()) == 3


def test_a_terminal_gets_dim_thoughts_and_folded_content_behind_the_gutter() -> None:
    told = Told(columns=30)
    told.tell(thought("Hm."), call(), progress(content=[text_content("one two three four five six seven")]))
    assert "\x1b[2mHm.\x1b[0m" in told.written
    assert rendered(told.written, 30)[2:] == [
        "○ Edit it  (edit, pending)",
        "  │ one two three four five",
        "  │ six seven",
        "",
    ]


def test_lines_are_folded_by_their_width_on_the_screen() -> None:
    assert fold("one two three", 8) == ["one two", "three"]
    assert fold("    indented", 8) == ["    inde", "nted"]
    assert fold("日本語日本語", 5) == ["日本", "語日", "本語"]
    assert fold("", 5) == [""]
    assert width("e\u0301日") == 3


def test_output_of_commands_is_shown_as_it_looked_in_the_end() -> None:
    assert plain_output("10%\r50%\r100%\r\n\x1b[1;31mred\x1b[0m\n\x1b]0;title\x07x\x1b(B") == "100%\nred\nx␛(B"
    assert visible("tab\tstays\x9b") == "tab\tstays<U+009B>"


def test_a_diff_shows_changes_with_some_lines_around_them() -> None:
    before = [f"{number}\n" for number in range(1, 31)]
    after = [*before]
    after[9] = "ten\n"
    del after[19]
    assert [*changed_lines("".join(before), "".join(after))] == [
        *("@@ line 7", " 7", " 8", " 9", "-10", "+ten", " 11", " 12", " 13"),
        *("@@ line 17", " 17", " 18", " 19", "-20", " 21", " 22", " 23"),
    ]
    assert [*changed_lines("a\nb", "a\nb\n")] == [" a", "-b  (no newline at the end)", "+b"]
    assert [*changed_lines(None, "")] == []


def test_a_diff_of_two_huge_files_takes_no_time() -> None:
    before, after = "\n".join(map(str, range(100_000))), "\n".join(map(str, range(1, 200_000, 2)))
    assert sum(1 for _ in changed_lines(before, after)) == 200_000
