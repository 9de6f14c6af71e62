"""The dialogue with the person: prompts, and questions that come in between.

https://agentclientprotocol.com/protocol/tool-calls#requesting-permission

Theory of operation. There is one keyboard. A question takes it from the prompt that waits for somebody to type, and
gives it back; questions wait for each other. A prompt or a question on a terminal is shown again when something else
was written below it. A question that is cancelled, because its turn was, says so and is gone.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Final, final

import trio

from acp_ref.reference_client.console import Keyboard, Output
from acp_ref.reference_client.screen import Screen, Style
from acp_ref.reference_client.text import one_line

__all__ = ["Dialogue"]

PROMPT: Final = "> "
"""What invites the person to say something."""


@final
class Dialogue:
    """Asks the person at the terminal.

    Args:
      interactive: whether there is a person: keyboard and screen are a terminal. Without one, only prompts are read.
    """

    def __init__(self, screen: Screen, keyboard: Keyboard, output: Output, *, interactive: bool) -> None:
        self.interactive = interactive
        self._screen = screen
        self._keyboard = keyboard
        self._output = output
        self._in_use = trio.Lock()
        self._prompting: trio.CancelScope | None = None

    async def next_prompt(self) -> str | None:
        """What the person wants to say next; None when they are done."""
        while True:
            async with self._in_use:
                with trio.CancelScope() as self._prompting:
                    async with self._shown(PROMPT):
                        prompt = await self._keyboard.prompt()
                    self._entered(prompt)
                    return prompt
            # a question took the keyboard

    @asynccontextmanager
    async def asking(self) -> AsyncGenerator[None, None]:
        """Hold the keyboard for some questions that belong together."""
        if self._prompting is not None:
            self._prompting.cancel()
        async with self._in_use:
            answered = False
            try:
                yield
                answered = True
            finally:
                if not answered:
                    self._screen.line("(the question is not open any more)", Style.DIM)

    async def lend(self) -> None:
        """Finish writing: another program gets the terminal now."""
        await self._output.flush()
        self._screen.entered()

    async def answer(self, prompt: str) -> str | None:
        """A line as the answer to what is on the screen, None for the end of input. Only inside :meth:`asking`."""
        async with self._shown(prompt):
            answer = await self._keyboard.answer()
        self._entered(answer)
        return answer

    async def choose(self, choices: Sequence[str], what: str = "Choose") -> int | None:
        """The index of the one of ``choices`` that the person names by its number; None when they end the input."""
        for number, choice in enumerate(choices, start=1):
            self._screen.line(f"{number}  {one_line(choice)}", gutter="  ")
        numbers = [str(number) for number in range(1, len(choices) + 1)]
        span = "1" if len(choices) == 1 else f"1-{len(choices)}"
        while True:
            answer = await self.answer(f"{what} {span}: ")
            if answer is None:
                return None
            if answer.strip() in numbers:
                return numbers.index(answer.strip())
            self._screen.line(f"Please type a number, {span}, or end the input to choose nothing.", Style.DIM)

    @asynccontextmanager
    async def _shown(self, prompt: str) -> AsyncGenerator[None, None]:
        """Show ``prompt``, and again when it has moved up, as long as an answer is awaited."""
        if not self.interactive:
            yield
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_shown, prompt)
            yield
            nursery.cancel_scope.cancel()

    async def _keep_shown(self, prompt: str) -> None:
        while True:
            await self._output.settle()
            if not self._screen.at_prompt:
                if prompt == PROMPT:
                    self._screen.gap()
                self._screen.prompt(prompt)
            await self._output.wait_written()

    def _entered(self, line: str | None) -> None:
        if self.interactive:
            if line is None:
                self._screen.disturbed()
            else:
                self._screen.entered()
