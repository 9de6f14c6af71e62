"""Elicitation.

https://agentclientprotocol.com/protocol/elicitation
"""

from __future__ import annotations

import enum
from typing import ClassVar, NewType, TypeAlias

import attrs

from acp_ref._jsonrpc import RequestId
from acp_ref.schema._base import (
    DefaultOnError,
    Flattened,
    Int64,
    Meta,
    OpenEnum,
    SessionId,
    SkipInvalidItems,
    UInt32,
    UInt64,
    Unknown,
    Untagged,
)
from acp_ref.schema._frozen import frozen
from acp_ref.schema.tool_calls import ToolCallId

ElicitationId = NewType("ElicitationId", str)
"""Names a URL elicitation of a connection; opaque to the client (ELIC-26)."""

# ------------------------------------------------------------------------------------------------ capabilities


@frozen(kw_only=True)
class ElicitationFormCapabilities:
    """Announces form mode."""

    meta: Meta = None


@frozen(kw_only=True)
class ElicitationUrlCapabilities:
    """Announces URL mode."""

    meta: Meta = None


@frozen(kw_only=True)
class ElicitationCapabilities:
    """Which modes of ``elicitation/create`` a client handles; none of them when both are None (ELIC-05)."""

    form: DefaultOnError[ElicitationFormCapabilities | None] = None
    """Not None when it handles forms."""
    url: DefaultOnError[ElicitationUrlCapabilities | None] = None
    """Not None when it handles URLs."""
    meta: Meta = None


# ------------------------------------------------------------------------------------------------ form schemas


class ElicitationSchemaType(enum.StrEnum):
    """The type of a form schema."""

    OBJECT = "object"
    """An object, the only one there is."""


class StringFormat(OpenEnum):
    """What a string must look like. An unknown format is kept and asks for nothing (ELIC-44)."""

    EMAIL = "email"
    """A mail address."""
    URI = "uri"
    """A URI."""
    DATE = "date"
    """A day."""
    DATE_TIME = "date-time"
    """A day and a time."""


@frozen(kw_only=True)
class EnumOption:
    """A value to choose and its title."""

    const: str
    """The value."""
    title: str
    """For people to read."""
    description: DefaultOnError[str | None] = None
    """More about it, for people to read."""
    meta: Meta = None


@frozen(kw_only=True)
class StringPropertySchema:
    """A text, or one of several values when ``enum`` or ``one_of`` is there."""

    TAG: ClassVar = ("type", "string")

    title: DefaultOnError[str | None] = None
    """For people to read."""
    description: DefaultOnError[str | None] = None
    """More about it, for people to read."""
    min_length: UInt32 | None = None
    """The fewest characters."""
    max_length: UInt32 | None = None
    """The most characters."""
    pattern: str | None = None
    """A regular expression that the text must match."""
    format: StringFormat | str | None = None
    """What the text must look like."""
    default: DefaultOnError[str | None] = None
    """What to fill in beforehand."""
    enum: list[str] | None = None
    """The values to choose from."""
    one_of: list[EnumOption] | None = None
    """The values to choose from, with titles."""
    meta: Meta = None


@frozen(kw_only=True)
class NumberPropertySchema:
    """A number."""

    TAG: ClassVar = ("type", "number")

    title: DefaultOnError[str | None] = None
    """For people to read."""
    description: DefaultOnError[str | None] = None
    """More about it, for people to read."""
    minimum: float | None = None
    """The least value."""
    maximum: float | None = None
    """The greatest value."""
    default: DefaultOnError[float | None] = None
    """What to fill in beforehand."""
    meta: Meta = None


@frozen(kw_only=True)
class IntegerPropertySchema:
    """A whole number."""

    TAG: ClassVar = ("type", "integer")

    title: DefaultOnError[str | None] = None
    """For people to read."""
    description: DefaultOnError[str | None] = None
    """More about it, for people to read."""
    minimum: Int64 | None = None
    """The least value."""
    maximum: Int64 | None = None
    """The greatest value."""
    default: DefaultOnError[Int64 | None] = None
    """What to fill in beforehand."""
    meta: Meta = None


@frozen(kw_only=True)
class BooleanPropertySchema:
    """Yes or no."""

    TAG: ClassVar = ("type", "boolean")

    title: DefaultOnError[str | None] = None
    """For people to read."""
    description: DefaultOnError[str | None] = None
    """More about it, for people to read."""
    default: DefaultOnError[bool | None] = None
    """What to fill in beforehand."""
    meta: Meta = None


@frozen(kw_only=True)
class StringMultiSelectItems:
    """The values that a multiple choice offers."""

    TAG: ClassVar = ("type", "string")

    enum: list[str]
    """The values."""
    meta: Meta = None


@frozen(kw_only=True)
class TitledMultiSelectItems:
    """The values that a multiple choice offers, with titles."""

    UNTAGGED: ClassVar = Untagged("type")

    any_of: list[EnumOption]
    """The values."""
    meta: Meta = None


MultiSelectItems: TypeAlias = StringMultiSelectItems | TitledMultiSelectItems | Unknown
"""What a multiple choice offers."""


@frozen(kw_only=True)
class MultiSelectPropertySchema:
    """Any of several values."""

    TAG: ClassVar = ("type", "array")

    title: DefaultOnError[str | None] = None
    """For people to read."""
    description: DefaultOnError[str | None] = None
    """More about it, for people to read."""
    min_items: UInt64 | None = None
    """The fewest values."""
    max_items: UInt64 | None = None
    """The most values."""
    items: MultiSelectItems
    """The values to choose from."""
    default: SkipInvalidItems[list[str] | None] = None
    """What to choose beforehand."""
    meta: Meta = None


ElicitationPropertySchema: TypeAlias = (
    StringPropertySchema
    | NumberPropertySchema
    | IntegerPropertySchema
    | BooleanPropertySchema
    | MultiSelectPropertySchema
    | Unknown
)
"""One field of a form. An unknown one is never shown as one that is known (ELIC-41)."""


@frozen(kw_only=True)
class ElicitationSchema:
    """A form: an object whose properties are its fields. ``type`` and ``properties`` are always written (ELIC-43)."""

    type: DefaultOnError[ElicitationSchemaType] = ElicitationSchemaType.OBJECT
    """Always an object."""
    title: DefaultOnError[str | None] = None
    """For people to read."""
    properties: dict[str, ElicitationPropertySchema] = attrs.field(factory=dict[str, ElicitationPropertySchema])
    """The fields by name."""
    required: list[str] | None = None
    """The names of the fields that must be filled in."""
    description: DefaultOnError[str | None] = None
    """More about it, for people to read."""
    meta: Meta = None


# ------------------------------------------------------------------------------------------------ elicitation/create


@frozen(kw_only=True)
class ElicitationSessionScope:
    """The question belongs to a session, and perhaps to a tool call in it."""

    session_id: SessionId
    """The session."""
    tool_call_id: DefaultOnError[ToolCallId | None] = None
    """The tool call."""


@frozen(kw_only=True)
class ElicitationRequestScope:
    """The question belongs to a request of the client outside a session, such as ``authenticate`` (D-42)."""

    request_id: RequestId
    """The request, by the id the client sent it with."""


ElicitationScope: TypeAlias = ElicitationSessionScope | ElicitationRequestScope
"""What a question belongs to: exactly one of the two (ELIC-09)."""


@frozen(kw_only=True)
class ElicitationFormRequest:
    """Ask the user to fill in a form. Never for secrets (ELIC-15)."""

    TAG: ClassVar = ("mode", "form")  # ELIC-08

    message: str
    """What is asked and why, for people to read."""
    scope: Flattened[ElicitationScope]
    """What the question belongs to."""
    requested_schema: ElicitationSchema
    """The form."""
    meta: Meta = None


@frozen(kw_only=True)
class ElicitationUrlRequest:
    """Ask the user to go to a page and do something there."""

    TAG: ClassVar = ("mode", "url")  # ELIC-08

    message: str
    """What is asked and why, for people to read."""
    scope: Flattened[ElicitationScope]
    """What the question belongs to."""
    elicitation_id: ElicitationId
    """Names the question among the open ones of the connection (ELIC-25)."""
    url: str
    """The page."""
    meta: Meta = None


CreateElicitationRequest: TypeAlias = ElicitationFormRequest | ElicitationUrlRequest | Unknown
"""Ask the user something. An unknown mode is never shown as one that is known (ELIC-40)."""

ElicitationContentValue: TypeAlias = str | int | float | bool | list[str]
"""What the user filled into one field."""


@frozen(kw_only=True)
class ElicitationAccept:
    """The user filled in the form, or agreed to go to the page, which is not to say that they are done (ELIC-18)."""

    TAG: ClassVar = ("action", "accept")

    content: dict[str, ElicitationContentValue] | None = None
    """The fields of the form by name; None for a URL (ELIC-22)."""
    meta: Meta = None


@frozen(kw_only=True)
class ElicitationDecline:
    """The user said no."""

    TAG: ClassVar = ("action", "decline")

    meta: Meta = None


@frozen(kw_only=True)
class ElicitationCancel:
    """The user put the question aside without an answer."""

    TAG: ClassVar = ("action", "cancel")

    meta: Meta = None


CreateElicitationResponse: TypeAlias = ElicitationAccept | ElicitationDecline | ElicitationCancel | Unknown
"""What the user did. An unknown action is no consent (ELIC-42)."""


@frozen(kw_only=True)
class CompleteElicitationNotification:
    """What the user did on the page of a URL elicitation is done."""

    elicitation_id: ElicitationId
    """The question."""
    meta: Meta = None
