"""The README's programs are run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


def example(name: str) -> str:
    found = re.search(rf"<!-- example: {name} -->\n```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert found is not None, name
    return found[1]


@pytest.fixture
def programs(tmp_path: Path) -> tuple[Path, Path]:
    agent, client = tmp_path / "agent.py", tmp_path / "client.py"
    agent.write_text(example("agent"), "utf-8")
    client.write_text(example("client"), "utf-8")
    return agent, client


def test_the_agent_and_the_client_of_the_readme_talk_to_each_other(programs: tuple[Path, Path]) -> None:
    agent, client = programs
    done = subprocess.run(
        [sys.executable, "-W", "error", client, sys.executable, "-W", "error", agent],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    update, stop_reason = done.stdout.splitlines()
    assert "AgentMessageChunk" in update
    assert "text='hello'" in update
    assert stop_reason == "end_turn"


def test_every_module_that_the_readme_names_is_there() -> None:
    package = README.parent / "acp_ref"
    for line in README.read_text("utf-8").splitlines():
        if line.startswith("| ") and ".py`" in line:
            *_, types, behaviour, _ = line.split("|")
            for column, folder in ((types, package / "schema"), (behaviour, package)):
                for name in re.findall(r"`(\w+\.py)`", column):
                    assert (folder / name).exists() or (package / name).exists(), name
