"""Tool calls, for a person to follow.

https://agentclientprotocol.com/protocol/tool-calls

A tool call is told when something of it changes: a line with its title, kind and status, and below it what is new of
its content. Long content is cut, and it is said how much was left out.
"""

from __future__ import annotations

import os
import shlex
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias, final

from acp_ref._jsonrpc import JSON, dumps
from acp_ref.reference_client.content import described
from acp_ref.reference_client.diffs import changed_lines
from acp_ref.reference_client.screen import Screen, Style
from acp_ref.reference_client.text import counted, one_line, plain_output
from acp_ref.schema import (
    UNSET,
    Content,
    Diff,
    Terminal,
    TerminalId,
    TextContent,
    ToolCallContent,
    ToolCallId,
    ToolCallStatus,
    UnsetType,
)
from acp_ref.session_state import ToolCallState
from acp_ref.terminals import LocalTerminal

__all__ = ["FindTerminal", "ToolCalls"]

FindTerminal: TypeAlias = Callable[[TerminalId], LocalTerminal | None]
"""The terminal of that id, if this client has it."""

Line: TypeAlias = tuple[str, Style]

MOST_LINES: Final = 40
"""The most lines that are shown of one piece of content."""
LAST_LINES: Final = 10
"""Of these, the last lines of a terminal's output, which tell how it ended."""
MOST_CHARACTERS: Final = 2000
"""The most characters that are shown of one line: minified code and data have millions."""

GUTTER: Final = "  │ "

MARKS: Final = {
    ToolCallStatus.PENDING: ("○", Style.CYAN),
    ToolCallStatus.IN_PROGRESS: ("◐", Style.CYAN),
    ToolCallStatus.COMPLETED: ("✔", Style.GREEN),
    ToolCallStatus.FAILED: ("✘", Style.RED),
}


class _Told:
    """What is on the screen of a tool call."""

    def __init__(self) -> None:
        self.header = ""
        self.locations: set[str] = set()
        self.raw_input = False
        self.raw_output = False
        self.content: Sequence[ToolCallContent] = ()
        self.output: dict[TerminalId, _TerminalOutput] = {}


@final
class ToolCalls:
    """The tool calls of a session on the screen.

    Args:
      screen: where they are told.
      cwd: the session's directory; paths in it are shown as relative to it.
      terminal: finds the terminals that tool calls show.
      follow: told of a running terminal when it is first shown; whoever follows it calls :meth:`tell_output`.
    """

    def __init__(
        self,
        screen: Screen,
        cwd: str,
        terminal: FindTerminal = lambda terminal_id: None,
        follow: Callable[[ToolCallState, LocalTerminal], None] = lambda call, terminal: None,
    ) -> None:
        self._screen = screen
        self._cwd = cwd
        self._terminal = terminal
        self._follow = follow
        self._told: dict[ToolCallId, _Told] = {}
        self._latest: ToolCallId | None = None

    def tell(self, call: ToolCallState, *, again: bool = False) -> None:
        """Tell what is new of ``call``; with ``again``, make sure that it is the last that stands there."""
        told = self._told.setdefault(call.tool_call_id, _Told())
        if call.finished and self._latest == call.tool_call_id:
            self._write_below(self._last_output(told))  # above the line that says how it ended
        self._write(call, told, [*self._news(call, told)], again=again)

    def tell_output(self, call: ToolCallState, terminal: LocalTerminal) -> None:
        """Tell what a terminal of ``call`` wrote since the last time."""
        told = self._told[call.tool_call_id]
        self._write(call, told, [*told.output[terminal.id].news(terminal, final=terminal.ended)])

    def interrupted(self) -> None:
        """Something else was written: what comes next of a tool call needs its header again."""
        self._latest = None

    def _write(self, call: ToolCallState, told: _Told, news: Sequence[Line], *, again: bool = False) -> None:
        header, style = _header(call)
        if header != told.header or ((news or again) and self._latest != call.tool_call_id):
            told.header = header
            self._screen.line(header, style)
            self._latest = call.tool_call_id
        self._write_below(news)

    def _write_below(self, lines: Iterable[Line]) -> None:
        for text, style in lines:
            self._screen.line(text, style, gutter=GUTTER)

    def _news(self, call: ToolCallState, told: _Told) -> Iterator[Line]:
        """What to write below the header."""
        changed = {self._short(item.path) for item in call.content if isinstance(item, Diff)}
        for location in call.locations:
            place = self._short(location.path) + ("" if location.line is None else f":{location.line}")
            if place not in told.locations | changed:
                told.locations.add(place)
                yield place, Style.DIM
        if not told.raw_input and not _is_empty(call.raw_input):
            told.raw_input = True
            yield from _cut_lines([f"input: {_json(call.raw_input)}"])
        before, told.content = told.content, call.content
        for index, item in enumerate(call.content):
            previous = before[index] if index < len(before) else None
            if item != previous:
                yield from self._content(call, told, item, previous)
        if call.finished:
            yield from self._last_output(told)
            if not call.content and not told.raw_output and not _is_empty(call.raw_output):
                told.raw_output = True
                yield from _cut_lines([f"output: {_json(call.raw_output)}"])

    def _last_output(self, told: _Told) -> Iterator[Line]:
        """What was not told yet of the terminals."""
        for terminal_id, output in told.output.items():
            terminal = self._terminal(terminal_id)
            if terminal is not None:
                yield from output.news(terminal, final=True)

    def _content(
        self, call: ToolCallState, told: _Told, item: ToolCallContent, previous: ToolCallContent | None
    ) -> Iterator[Line]:
        match item, previous:
            case Content(content=TextContent(text=now)), Content(content=TextContent(text=old)) if now.startswith(old):
                yield from _cut_lines(now[len(old) :].removeprefix("\n").split("\n"))  # it grew
            case Content(content=content), _:
                yield from _cut_lines(described(content).removesuffix("\n").split("\n"))
            case Diff(), _:
                path = self._short(item.path)
                told.locations.add(path)
                unchanged = "  (no change)" if item.old_text == item.new_text else ""
                yield path + unchanged, Style.BOLD
                yield from _cut_lines(changed_lines(item.old_text, item.new_text), _diff_style)
            case Terminal(terminal_id=terminal_id), _:
                if terminal_id not in told.output:
                    yield from self._begin_terminal(call, told, terminal_id)
            case _:
                yield "(content of a kind that is not known here)", Style.DIM

    def _begin_terminal(self, call: ToolCallState, told: _Told, terminal_id: TerminalId) -> Iterator[Line]:
        terminal = self._terminal(terminal_id)
        if terminal is None:
            yield "(a terminal, whose output is not here any more)", Style.DIM
            return
        output = told.output[terminal_id] = _TerminalOutput()
        yield f"$ {one_line(shlex.join(terminal.command))}", Style.BOLD
        if terminal.ended:
            yield from output.news(terminal, final=True)
        else:
            self._follow(call, terminal)

    def _short(self, path: str) -> str:
        inside = path.removeprefix(self._cwd.rstrip("/\\") + os.sep)
        return one_line(inside or path)


class _TerminalOutput:
    """The output of one terminal: the first lines as they come, the last ones when it ended."""

    def __init__(self) -> None:
        self._is_complete = False
        self._seen = ""
        self._line = ""  # the one that is being written
        self._shown = 0
        self._held: deque[str] = deque(maxlen=LAST_LINES)
        self._held_back = 0

    def news(self, terminal: LocalTerminal, *, final: bool) -> Iterator[Line]:
        """What was not told yet. After the ``final`` time there is nothing more."""
        if self._is_complete:
            return
        self._is_complete = final
        *lines, self._line = (self._line + self._new(terminal.output)).split("\n")
        if final and self._line:
            lines.append(self._line)
        for line in lines:
            if self._shown < MOST_LINES - LAST_LINES:
                self._shown += 1
                yield _cut(plain_output(line)), Style.PLAIN
            else:
                self._held.append(line)
                self._held_back += 1
        if final:
            if left_out := self._held_back - len(self._held):
                yield f"… {counted(left_out, 'line')}", Style.DIM
            for line in self._held:
                yield _cut(plain_output(line)), Style.PLAIN
            yield _exit(terminal), Style.DIM

    def _new(self, output: str) -> str:
        """What was not seen before. The beginning of the output may have been dropped since."""
        seen, self._seen = self._seen, output
        if output.startswith(seen):
            return output[len(seen) :]
        end = seen[-1000:]
        at = output.rfind(end)
        return output[at + len(end) :] if at >= 0 else f"\n… some output was lost\n{output}"


def _exit(terminal: LocalTerminal) -> str:
    status = terminal.exit_status
    if status is None:
        return "(it still runs)" if not terminal.ended else "(ended)"
    return f"(ended by {status.signal})" if status.signal else f"(exit status {status.exit_code})"


def _header(call: ToolCallState) -> tuple[str, Style]:
    mark, style = MARKS[call.status]
    status = call.status.value.replace("_", " ")
    if call.cancelled:
        mark, style, status = "✘", Style.DIM, "cancelled"
    title = one_line(call.title or call.name or call.tool_call_id)
    return f"{mark} {title}  ({call.kind.value.replace('_', ' ')}, {status})", style


def _is_empty(value: JSON | UnsetType) -> bool:
    return value is UNSET or value is None or value in ({}, [], "")


def _json(value: JSON | UnsetType) -> str:
    return "" if value is UNSET else dumps(value).decode()


def _cut_lines(lines: Iterable[str], style: Callable[[str], Style] = lambda line: Style.PLAIN) -> Iterator[Line]:
    """The first of ``lines``, and how many there are behind them."""
    left_out = 0
    for number, line in enumerate(lines):
        if number < MOST_LINES:
            yield _cut(line), style(line)
        else:
            left_out += 1
    if left_out:
        yield f"… {counted(left_out, 'more line')}", Style.DIM


def _cut(line: str) -> str:
    excess = len(line) - MOST_CHARACTERS
    return line if excess <= 0 else f"{line[:MOST_CHARACTERS]}… {counted(excess, 'more character')}"


def _diff_style(line: str) -> Style:
    return {"+": Style.GREEN, "-": Style.RED, "@": Style.DIM}.get(line[:1], Style.PLAIN)
