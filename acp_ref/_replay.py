"""What of a journal is replayed when its session is loaded.

https://agentclientprotocol.com/protocol/session-setup#loading-sessions

The conversation comes back as the messages a live client saw (SETUP-11), in their order (SETUP-12), but each thing
once, in its final form (D-11):

* user, agent and thought chunks as they were sent, and so is every update whose kind is not known here;
* a tool call as one ``tool_call`` with all that became of it, where it was first reported;
* a compaction likewise, when it has ended (COMP-02);
* plan, commands, mode, config options, usage and session info as they stood last, where they were last reported;
* no notices (NOTE-04).

Everything works on updates in wire form, one per line, and reads the lines twice: the first pass learns what is kept
and merges what changes, the second selects. Between the two only the merged things are in memory, and one byte per
line, so a long conversation costs its reading and no more. No input is trusted to be whole: a line that is no update
is left out and counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

import attrs

from acp_ref._framing import Frame, OversizedFrame
from acp_ref._jsonrpc import JSON, JSONObject, dumps, loads

__all__ = ["History", "Replay", "merge_compaction", "merge_session_info", "merge_tool_call", "parse_update"]

CHUNKS: Final = frozenset({"user_message_chunk", "agent_message_chunk", "agent_thought_chunk"})
"""The conversation itself, and by far the most of a journal."""

LATEST: Final = frozenset(
    {"plan", "available_commands_update", "current_mode_update", "config_option_update", "usage_update"}
)
"""The kinds that replace what they said before, whole (PLAN-05)."""

SETTINGS: Final = frozenset({"current_mode_update", "config_option_update"})
"""Those of them that say how the session is set up, which it must know before it goes on."""

LEFT_OUT: Final = 0
AS_IT_IS: Final = 1
MERGED: Final = 2


@attrs.frozen
class History:
    """The conversation that a journal holds, to go on with it."""

    updates: Iterator[bytes]
    """What is replayed: updates in wire form, each once, in its final form (SETUP-11, D-11). It may read as it goes,
    and raise trio.ClosedResourceError when the journal is closed before its end."""
    settings: Sequence[bytes]
    """Those of the updates that say in which mode the session is and what its config options are."""


def parse_update(line: Frame) -> tuple[str, JSONObject] | None:
    """The kind and the whole of the update that ``line`` spells, or None when it spells none."""
    if isinstance(line, OversizedFrame):
        return None
    try:
        update = loads(line)
    except (ValueError, RecursionError):
        return None
    if type(update) is not dict:
        return None
    kind = update.get("sessionUpdate")
    return (kind, update) if type(kind) is str else None


def merge_tool_call(state: JSONObject, update: JSONObject) -> None:
    """Let ``update``, a ``tool_call`` or a ``tool_call_update``, change ``state``.

    Absent and null leave a field as it was (TOOL-07, TOOL-09, D-38), a list replaces the list before it (TOOL-08).
    A second ``tool_call`` with a known id is an update (D-37).
    """
    for key, value in update.items():
        if value is not None:
            state[key] = value


def merge_compaction(state: JSONObject, update: JSONObject) -> None:
    """Let ``update``, a ``compaction_update`` or a ``compaction_summary_chunk``, change ``state``.

    In an update, absent leaves a field as it was and null clears it (COMP-03); a chunk appends a block (COMP-04).
    """
    if update["sessionUpdate"] == "compaction_summary_chunk":
        summary = state.setdefault("summary", [])
        if isinstance(summary, list):
            summary.append(update.get("content"))
        state.setdefault("status", "in_progress")
        return
    for key, value in update.items():
        if value is None:
            state.pop(key, None)
        else:
            state[key] = value


def merge_session_info(state: JSONObject, update: JSONObject) -> None:
    """Let ``update``, a ``session_info_update``, change ``state``.

    Absent leaves a field as it was (LIST-16). Null clears it (LIST-17) and stays as null, because a client that loads
    the session may know an older value from a listing.
    """
    state.update(update)


@attrs.define
class _Entity:
    """A tool call or a compaction: where it was first reported, and what has become of it."""

    place: int
    state: JSONObject = attrs.field(factory=dict[str, JSON])


class Replay:
    """What of ``lines`` is replayed. Give :meth:`history` the same lines again.

    Updates of the kinds in ``without`` are left out. Lines past those seen here are never selected, so a journal may
    grow meanwhile.
    """

    def __init__(self, lines: Iterable[Frame], *, without: Collection[str] = ()) -> None:
        self._marks = bytearray()
        self._merged: dict[int, JSONObject] = {}
        self._tool_calls: dict[str, _Entity] = {}
        self._compactions: dict[str, _Entity] = {}
        self._latest: dict[str, int] = {}
        self._settings: dict[str, JSONObject] = {}
        self._without = without
        as_it_is = CHUNKS.difference(without)
        self.info: JSONObject = {}
        """All ``session_info_update`` members merged; empty when there was none."""
        self.damaged = 0
        """How many lines were no updates."""
        mark = self._marks.append
        for place, line in enumerate(lines):
            parsed = parse_update(line)
            if parsed is None:
                self.damaged += 1
                mark(LEFT_OUT)
            elif parsed[0] in as_it_is:
                mark(AS_IT_IS)
            else:
                mark(self._place(place, *parsed))
        self._finish()

    def _place(self, place: int, kind: str, update: JSONObject) -> int:
        """File ``update``; the mark of its line."""
        if kind in SETTINGS:
            self._settings[kind] = update
        elif kind == "session_info_update":
            merge_session_info(self.info, update)
        if kind in self._without:
            return LEFT_OUT
        match kind:
            case "tool_call" | "tool_call_update":
                call = self._entity(self._tool_calls, update.get("toolCallId"), place)
                merge_tool_call(call.state, update)
                return MERGED if call.place == place else LEFT_OUT
            case "compaction_update" | "compaction_summary_chunk":
                compaction = self._entity(self._compactions, update.get("compactionId"), place)
                merge_compaction(compaction.state, update)
                return MERGED if compaction.place == place else LEFT_OUT
            case "session_info_update":
                self._supersede(kind, place)
                return MERGED
            case "notice":  # NOTE-04
                return LEFT_OUT
            case _:
                if kind in LATEST:
                    self._supersede(kind, place)
                return AS_IT_IS

    def _entity(self, entities: dict[str, _Entity], entity_id: JSON, place: int) -> _Entity:
        if type(entity_id) is not str:
            self.damaged += 1
            return _Entity(-1)  # of no known place, so its line is left out
        entity = entities.get(entity_id)
        if entity is None:
            entity = entities[entity_id] = _Entity(place)
        return entity

    def _supersede(self, kind: str, place: int) -> None:
        before = self._latest.get(kind)
        if before is not None:
            self._marks[before] = LEFT_OUT
        self._latest[kind] = place

    def _finish(self) -> None:
        for call in self._tool_calls.values():
            # A title is what makes it reportable as a whole (TOOL-02).
            call.state["sessionUpdate"] = "tool_call" if "title" in call.state else "tool_call_update"
            self._merged[call.place] = call.state
        for compaction in self._compactions.values():
            compaction.state["sessionUpdate"] = "compaction_update"
            self._merged[compaction.place] = compaction.state
            if compaction.state.get("status", "in_progress") == "in_progress":
                self._marks[compaction.place] = LEFT_OUT
        if "session_info_update" in self._latest:
            self._merged[self._latest["session_info_update"]] = self.info

    def history(self, lines: Iterable[Frame]) -> History:
        """What came of it. ``lines`` are those of the first pass, read again as the updates are taken."""
        settings = map(_written, self._settings.values())
        return History(self._select(lines), [setting for setting in settings if setting is not None])

    def _select(self, lines: Iterable[Frame]) -> Iterator[bytes]:
        for place, (mark, line) in enumerate(zip(self._marks, lines, strict=False)):
            if mark == AS_IT_IS and not isinstance(line, OversizedFrame):
                yield line
            elif mark == MERGED and (merged := _written(self._merged.pop(place))) is not None:
                yield merged


def _written(update: JSONObject) -> bytes | None:
    """``update`` in wire form; None when it is nested more deeply than can be written, though not than can be read."""
    try:
        return dumps(update)
    except ValueError:
        return None
