"""The linter ``acplint`` on the reference agent.

Some of its checks contradict the schema, and its very first message does. So it runs twice, as it is and mended where
it has a protocol of its own (``tests/peers/lint.py`` says how), and what fails is argued here, with the place in the
official schema that says otherwise.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs
import pytest

from tests.npm import official_schema

ROOT: Final = Path(__file__).parent.parent
PATIENCE: Final = 60.0
"""Seconds for a run that takes two: a machine may be busy."""


@attrs.frozen
class Argument:
    """Why the linter is wrong."""

    why: str
    place: str
    """Where it stands in the official schema, below ``$defs``."""
    says: object
    """What stands there."""


VERSION: Final = Argument(
    "A protocol version is a number; it sends and wants a string.", "ProtocolVersion/type", "integer"
)
PROMPT: Final = Argument(
    "What a prompt says is called prompt; it sends content.", "PromptRequest/required", ["sessionId", "prompt"]
)
CONFIG_ID: Final = Argument(
    "A config option is set by its configId; it sends optionId.",
    "SetSessionConfigOptionRequest/required",
    ["sessionId", "configId"],
)
KIND: Final = Argument(
    "The words of a kind of update are joined by underscores; it looks for agentMessageChunk and the like.",
    "SessionUpdate/oneOf/1/properties/sessionUpdate/const",
    "agent_message_chunk",
)
LABEL: Final = Argument("A config option has a name; it wants a label.", "SessionConfigOption/required", ["id", "name"])
ENTRIES: Final = Argument(
    "A plan's entries stand in the update itself; it looks for them in a member plan.",
    "SessionUpdate/oneOf/5/allOf",
    [{"$ref": "#/$defs/Plan"}],
)
MENDED: Final = (VERSION, PROMPT, CONFIG_ID, KIND)
"""What ``tests/peers/lint.py`` mends."""

ONCE: Final = (
    "A connection is initialized once, before anything else; a second initialize changes nothing and is refused."
)
REFUSED: Final = "It follows from the first: nothing is answered before initialize has succeeded."

WRONG: Final[Mapping[str, Argument | str]] = {
    "new_session": LABEL,
    "schema_session_new": LABEL,
    "plan_schema_valid": ENTRIES,
    "schema_initialize": ONCE,
}
"""The checks that fail when it is mended."""

WRONG_AS_IT_IS: Final[Mapping[str, Argument | str]] = {
    **dict.fromkeys(["initialize_v1", "protocol_version_returned", "schema_initialize"], VERSION),
    **dict.fromkeys(["session_update_received", "prompt_stop_reason"], PROMPT),  # if it had been initialized
    "agent_message_chunk_received": KIND,  # as well
    **dict.fromkeys(["new_session", "schema_session_new"], LABEL),  # as well
    **dict.fromkeys(["agent_capabilities_present", "logout", "resume_session", "close_session"], REFUSED),
    **dict.fromkeys(["delete_session", "fork_session", "stress_concurrent_sessions"], REFUSED),
}
"""The checks that fail when it runs as it is."""

LOOKED_AT: Final = {
    "initialize_v1",
    "agent_capabilities_schema_valid",
    "authenticate_demo",
    "logout",
    "list_sessions",
    "load_session",
    "resume_session",
    "close_session",
    "delete_session",
    "session_update_schema_valid",
    "agent_message_chunk_received",
    "available_commands_schema_valid",
    "prompt_stop_reason",
    "tool_call_schema_valid",
    "tool_call_required_fields",
    "tool_call_content",
    "tool_call_update_schema_valid",
    "tool_call_status_transitions",
    "write_text_file_schema_valid",
    "set_session_mode",
    "cancel_graceful_handling",
    "stress_concurrent_sessions",
    "stress_rapid_cancel",
    "schema_session_list",
    "schema_all_notifications_valid",
}
"""Checks that had something to look at when it was mended; many pass when they find nothing."""


def lint(folder: Path, *options: str) -> Mapping[str, set[str]]:
    """Run the linter, and return the names of its checks by how they ended."""
    (folder / "project").mkdir()
    agent = [sys.executable, "-m", "acp_ref", "agent", "--sessions", str(folder / "sessions")]
    done = subprocess.run(
        [sys.executable, "-m", "tests.peers.lint", *options, str(folder / "project"), "--", *agent],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        cwd=ROOT,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    ended: dict[str, set[str]] = defaultdict(set)
    for result in json.loads(done.stdout)["results"]:
        ended[result["status"]].add(result["name"])
    return ended


def test_every_check_passes_that_agrees_with_the_specification(tmp_path: Path) -> None:
    ended = lint(tmp_path, "--mended")
    assert ended.keys() == {"PASS", "FAIL"}
    assert ended["FAIL"] == {*WRONG}
    assert ended["PASS"] >= LOOKED_AT


def test_a_linter_that_speaks_another_protocol_is_refused_and_answered(tmp_path: Path) -> None:
    ended = lint(tmp_path)
    assert ended.keys() == {"PASS", "FAIL"}  # and no ERROR: it had an answer to everything
    assert ended["FAIL"] == {*WRONG_AS_IT_IS}


def test_what_only_follows_passes_when_the_linter_is_mended() -> None:
    assert not {name for name, argument in WRONG_AS_IT_IS.items() if argument == REFUSED} & {*WRONG}


@pytest.mark.parametrize("argument", [*MENDED, LABEL, ENTRIES], ids=lambda argument: argument.place)
def test_the_schema_says_otherwise(argument: Argument) -> None:
    node = json.loads(official_schema().read_bytes())["$defs"]
    for step in argument.place.split("/"):
        node = node[int(step) if isinstance(node, list) else step]
    assert node == argument.says
