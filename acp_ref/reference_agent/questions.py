"""The reference agent's questions to the user.

https://agentclientprotocol.com/protocol/elicitation
"""

from __future__ import annotations

from typing import Final

import acp_ref as acp
from acp_ref.elicitation_forms import form
from acp_ref.reference_agent.commands import CommandError
from acp_ref.schema import (
    BooleanPropertySchema,
    ElicitationContentValue,
    EnumOption,
    IntegerPropertySchema,
    MultiSelectPropertySchema,
    NumberPropertySchema,
    StringMultiSelectItems,
    StringPropertySchema,
)

__all__ = ["ask", "ask_by_form", "ask_by_url"]

CAGE: Final = form(
    {
        "name": StringPropertySchema(
            title="Name", description="What the parrot is called", min_length=1, max_length=40
        ),
        "colour": StringPropertySchema(
            title="Colour",
            one_of=[EnumOption(const="grey", title="Grey"), EnumOption(const="white", title="White, with a crest")],
            default="grey",
        ),
        "seeds": IntegerPropertySchema(title="Seeds a day", minimum=0, maximum=100, default=20),
        "weight": NumberPropertySchema(title="Weight in kilograms", minimum=0),
        "talks": BooleanPropertySchema(title="It talks", default=True),
        "days": MultiSelectPropertySchema(
            title="Days out of the cage", items=StringMultiSelectItems(enum=["Saturday", "Sunday"]), default=["Sunday"]
        ),
    },
    required=["name"],
    title="A cage for your parrot",
)
"""A form with a field of every kind."""

PAGE: Final = "https://agentclientprotocol.com/protocol/elicitation"


async def ask(turn: acp.PromptTurn, text: str) -> None:
    """Ask the user in every mode that the client announced (ELIC-06)."""
    if not turn.client.can_elicit_forms and not turn.client.can_elicit_urls:
        raise CommandError("This client cannot do that: it announced no mode of elicitation.")
    if turn.client.can_elicit_forms:
        await ask_by_form(turn)
    if turn.client.can_elicit_urls:
        await ask_by_url(turn)


async def ask_by_form(turn: acp.PromptTurn) -> None:
    """Let the user fill in a form, and tell what they said."""
    content = await turn.client.elicit_form("Tell me about your parrot.", CAGE)
    if content is None:  # ELIC-24
        await turn.send_text("You did not want to say.\n")
    else:
        await turn.send_text("You said:\n" + "".join(f"- {name}: {shown(value)}\n" for name, value in content.items()))


async def ask_by_url(turn: acp.PromptTurn) -> None:
    """Ask the user to open a page. Nothing happens there that could be waited for, so it is complete at once."""
    async with turn.client.elicit_url("Read how this works.", PAGE) as agreed:
        await turn.send_text("You agreed to open the page.\n" if agreed else "You did not want to open the page.\n")


def shown(value: ElicitationContentValue) -> str:
    """``value`` for people to read."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, list) else str(value)
