"""Elicitation at the terminal: forms, field by field, and URLs, shown for what they are.

https://agentclientprotocol.com/protocol/elicitation#user-interaction-requirements

The answers to a form are looked over and changed before they are sent (ELIC-02). A URL is never opened here: whoever
agrees to open it does so, in the browser of their choice (ELIC-34, ELIC-36).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from acp_ref.elicitation import ElicitationAnswer, UrlFacts
from acp_ref.elicitation_forms import choices, defaults, lint_form, validate_content
from acp_ref.reference_client.dialogue import Dialogue
from acp_ref.reference_client.screen import Screen, Style
from acp_ref.reference_client.text import one_line, visible
from acp_ref.schema import (
    BooleanPropertySchema,
    ElicitationAccept,
    ElicitationCancel,
    ElicitationContentValue,
    ElicitationDecline,
    ElicitationFormRequest,
    ElicitationId,
    ElicitationPropertySchema,
    ElicitationSchema,
    ElicitationUrlRequest,
    EnumOption,
    IntegerPropertySchema,
    MultiSelectPropertySchema,
    NumberPropertySchema,
    Unknown,
)

__all__ = ["Elicitation"]

KnownProperty = ElicitationPropertySchema
YES_NO = {"y": True, "yes": True, "n": False, "no": False}


class _Dismissed(Exception):
    """The person ended the input."""


@final
class Elicitation:
    """Puts the agent's questions to the person.

    Args:
      who: names the agent (ELIC-01).
      agreed: told of each URL that the person agrees to open.
    """

    def __init__(
        self, dialogue: Dialogue, screen: Screen, who: Callable[[], str], agreed: Callable[[ElicitationId], None]
    ) -> None:
        self._dialogue = dialogue
        self._screen = screen
        self._who = who
        self._agreed = agreed

    async def ask_form(self, request: ElicitationFormRequest) -> ElicitationAnswer:
        """Fill in the form, look it over, and send it, decline, or put it aside."""
        if not self._dialogue.interactive:
            return self._nobody(request.message)
        async with self._dialogue.asking():
            self._introduce(request.message)
            schema = request.requested_schema
            for text in schema.title, schema.description:
                if text:
                    self._screen.line(text, Style.DIM)
            for warning in lint_form(request):
                self._screen.line(f"Careful: {warning.removeprefix('$.properties.')}", Style.YELLOW)
            try:
                return await self._fill_in(schema)
            except _Dismissed:
                return ElicitationCancel()

    async def ask_url(self, request: ElicitationUrlRequest, facts: UrlFacts) -> ElicitationAnswer:
        """Show the URL and where it leads, and ask whether the person will open it."""
        if not self._dialogue.interactive:
            return self._nobody(request.message)
        async with self._dialogue.asking():
            self._introduce(request.message)
            self._screen.line(facts.url, folded=False)  # ELIC-35
            self._screen.line(f"It leads to {facts.host}", Style.BOLD)  # ELIC-03, ELIC-37
            for warning in facts.warnings:
                self._screen.line(f"Careful: {warning}", Style.YELLOW)
            self._screen.line("This client does not open it. Open it yourself if you agree.", Style.DIM)
            index = await self._dialogue.choose(["I agree to open it", "No", "Not now"])
        if index == 0:
            self._agreed(request.elicitation_id)
            return ElicitationAccept()
        return ElicitationDecline() if index == 1 else ElicitationCancel()

    def _introduce(self, message: str) -> None:
        self._screen.begin("question")
        self._screen.line(f"{one_line(self._who())} asks:", Style.YELLOW)  # ELIC-01
        self._screen.line(message)  # ELIC-04

    def _nobody(self, message: str) -> ElicitationAnswer:
        self._introduce(message)
        self._screen.line("(nobody is here to answer)", Style.DIM)
        return ElicitationCancel()

    # ------------------------------------------------------------------------------------------------------- forms

    async def _fill_in(self, schema: ElicitationSchema) -> ElicitationAnswer:
        required = {*(schema.required or ())}
        values = defaults(schema)  # ELIC-14
        fields = {name: field for name, field in schema.properties.items() if not isinstance(field, Unknown)}
        self._screen.line("An empty line keeps what is there, - leaves it out, Ctrl-D puts the form aside.", Style.DIM)
        for name in schema.properties.keys() - fields.keys():  # ELIC-41
            self._screen.line(f"(the field {one_line(name)!r} is of a kind that this client does not know)", Style.DIM)
        for name, field in fields.items():
            await self._ask_field(name, field, values, required=name in required)
        while True:
            names = [*fields]
            self._screen.line("Your answers:", Style.BOLD)
            shown = [f"change {_title(name, fields[name])}: {_shown(values.get(name), fields[name])}" for name in names]
            index = await self._dialogue.choose(["send them", "decline to answer", "put it aside", *shown])  # ELIC-02
            if index == 0:
                faults = validate_content(schema, values)
                if not faults:
                    return ElicitationAccept(content=values)
                self._screen.line(f"That cannot be sent: {'; '.join(faults)}", Style.RED)
            elif index == 1:
                return ElicitationDecline()
            elif index == 2 or index is None:
                return ElicitationCancel()
            else:
                name = names[index - 3]
                await self._ask_field(name, fields[name], values, required=name in required)

    async def _ask_field(
        self,
        name: str,
        field: ElicitationPropertySchema,
        values: dict[str, ElicitationContentValue],
        *,
        required: bool,
    ) -> None:
        """Ask for the value of one field until it fits. An empty line keeps the value; ``-`` leaves the field out.

        Raises:
          _Dismissed: the person ended the input.
        """
        assert not isinstance(field, Unknown)
        self._screen.gap()
        if field.description:
            self._screen.line(field.description, Style.DIM)
        offered = choices(field)
        for number, option in enumerate(offered or (), start=1):
            described = f": {option.description}" if option.description else ""
            self._screen.line(f"{number}  {one_line(option.title + described)}", gutter="  ")
        prompt = f"{_title(name, field)}{_hint(field)}{'' if required else ' (optional)'}"
        while True:
            kept = f" [{_shown(values[name], field)}]" if name in values else ""
            answer = await self._dialogue.answer(f"{prompt}{kept}: ")
            if answer is None:
                raise _Dismissed
            if not answer.strip():
                if name in values or not required:
                    return
                self._screen.line("This is needed.", Style.DIM)
                continue
            if answer.strip() == "-" and not required:
                values.pop(name, None)
                return
            value = _read(field, answer, offered)
            faults = validate_content(ElicitationSchema(properties={name: field}), {name: value})  # ELIC-12
            if not faults:
                values[name] = value
                return
            for fault in faults:
                self._screen.line(fault.rpartition(": ")[2], Style.RED)


def _title(name: str, field: ElicitationPropertySchema) -> str:
    return visible(one_line((None if isinstance(field, Unknown) else field.title) or name))


def _hint(field: ElicitationPropertySchema) -> str:
    offered = choices(field)
    span = f"1-{len(offered)}" if offered else "nothing to choose"
    match field:
        case BooleanPropertySchema():
            return " (y/n)"
        case MultiSelectPropertySchema():
            return f" ({span}, with commas)"
        case IntegerPropertySchema():
            return " (whole number)"
        case NumberPropertySchema():
            return " (number)"
        case _:
            return "" if offered is None else f" ({span})"


def _shown(value: ElicitationContentValue | None, field: ElicitationPropertySchema) -> str:
    """``value`` as people call it."""
    titles = {option.const: option.title for option in choices(field) or ()}
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list():
            return visible(one_line(", ".join(titles.get(item, item) for item in value))) or "none"
        case _:
            return visible(one_line(titles.get(str(value), str(value))))


def _read(field: ElicitationPropertySchema, answer: str, offered: list[EnumOption] | None) -> ElicitationContentValue:
    """``answer`` as a value of ``field``; what cannot be one is left as it is, for the check to refuse."""
    text = answer.strip()
    match field:
        case BooleanPropertySchema():
            return YES_NO.get(text.lower(), text)
        case IntegerPropertySchema():
            return _number(int, text)
        case NumberPropertySchema():
            return _number(float, text)
        case MultiSelectPropertySchema():
            parts = [part.strip() for part in text.split(",")]
            return [*dict.fromkeys(_choice(part, offered or []) for part in parts if part)]
        case _:
            return answer if offered is None else _choice(text, offered)


def _number(kind: Callable[[str], int | float], text: str) -> int | float | str:
    try:
        return kind(text)
    except ValueError:
        return text


def _choice(text: str, offered: list[EnumOption]) -> str:
    """The value that ``text`` names, by its number, itself or its title."""
    for number, option in enumerate(offered, start=1):
        if text in (str(number), option.const, option.title):
            return option.const
    return text
