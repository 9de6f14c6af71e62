"""The short form of many sessions with MCP servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.many_sessions import MEBIBYTE, agent_and_tag, open_use_and_close
from tests.faults.system import nothing_left


@pytest.mark.field_note(56)
async def test_sessions_with_servers_that_come_and_go_leave_nothing_in_the_agent(tmp_path: Path) -> None:
    async with nothing_left(), agent_and_tag(tmp_path / "sessions", timeout=60) as (client, tag):
        rounds = [await open_use_and_close(client, tag, 4) for _ in range(4)]
        _, second, *_, last = rounds
        assert {held.children for held in rounds} == {0}
        assert last.files == second.files, rounds
        assert last.resident - second.resident < 2 * MEBIBYTE, rounds
