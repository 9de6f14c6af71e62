"""Overview: the voice of the demo. It tells a person what happens, page by page, and keeps count of what should.

https://agentclientprotocol.com/protocol/overview
"""

from __future__ import annotations

import os
from typing import Final, Literal, TextIO, final

from acp_ref.spec import page_url
from acp_ref.trace import redacted

__all__ = ["Narrator"]

LONGEST_FRAME: Final = 320
"""Characters of a raw message that are shown: enough for its method and what is in it, few enough to read on."""


@final
class Narrator:
    """Writes the story to ``out``; with ``wire``, also the messages as they go over the wire, without their secrets."""

    failures: list[str]
    """What was not as it should be, each with the step it was in."""
    checks: int
    """How many checks were made."""
    heard: bool
    """Whether somebody still reads. When nobody does the story goes on in silence, to its orderly end."""

    def __init__(self, out: TextIO, *, wire: bool = False) -> None:
        self.failures = []
        self.checks = 0
        self._out = out
        self._encoding = out.encoding or "utf-8"
        self._wire = wire
        self._ansi = out.isatty() and not os.environ.get("NO_COLOR")
        self._step = ""
        self._logged = bytearray()
        self.heard = True

    def begin(self) -> None:
        """Say what this is."""
        self.line("An agent and its client, two processes, go through the Agent Client Protocol, page by page.")
        if self._wire:
            self.line("-> is what the client sends, <- what the agent sends. Secrets are shown as ***.")

    def heading(self, number: int, title: str, page: str | None = None) -> None:
        """A step begins; it comes from ``page``, if it comes from the specification."""
        self._step = f"step {number}, {title}"
        self.line()
        self.line(f"{number:2}  {self._styled('1', title)}")
        if page is not None:
            self.line(f"    {self._styled('2', page_url(page))}")

    def say(self, who: str, text: str) -> None:
        """Somebody says or does something, perhaps in several lines."""
        for number, line in enumerate(text.splitlines()):
            self.line(f"    {'' if number else who:<8}{line}")

    def check(self, expectation: str, holds: bool, instead: object = None) -> None:
        """Something should be so. What is there ``instead`` is told when it is not; the story goes on either way."""
        self.checks += 1
        if holds:
            self.say("ok", expectation)
        else:
            self.fail(expectation if instead is None else f"{expectation}\nbut: {instead}")

    def fail(self, what: str) -> None:
        """Something is not as it should be."""
        self.failures.append(f"{self._step}: {what}")
        self.say("NOT OK", what)

    def frame(self, direction: Literal["sent", "received"], frame: bytes) -> None:
        """A message was sent to the agent, or came from it."""
        if self._wire:
            text = redacted(frame).decode("utf-8", "replace")
            if len(text) > LONGEST_FRAME:
                text = f"{text[:LONGEST_FRAME]} [{len(text) - LONGEST_FRAME} more characters]"
            self.line(self._styled("2", f"    {'->' if direction == 'sent' else '<-'} {text}"))

    def log(self, chunk: bytes) -> None:
        """The agent wrote to its stderr. It is shown when something went wrong."""
        self._logged += chunk

    def sum_up(self, seconds: float) -> None:
        """Say how it went."""
        self.line()
        if not self.failures:
            self.line(f"All is as it should be: {self.checks} checks in {seconds:.1f} seconds.")
            return
        if self._logged:
            self.line("What the agent wrote to its stderr:")
            self.say("", self._logged.decode("utf-8", "replace"))
        self.line(f"Not all is as it should be, after {self.checks} checks in {seconds:.1f} seconds:")
        for failure in self.failures:
            self.line(f"- {failure}")

    def line(self, text: str = "") -> None:
        """A line as it is, or an empty one."""
        if self.heard:
            try:
                # What was said may hold any character, and not every terminal shows them all.
                self._out.write(f"{text}\n".encode(self._encoding, "backslashreplace").decode(self._encoding))
                self._out.flush()
            except BrokenPipeError:
                self.heard = False

    def _styled(self, style: str, text: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self._ansi else text
