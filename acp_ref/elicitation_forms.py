"""Elicitation, form mode: making forms, and checking what was filled in.

https://agentclientprotocol.com/protocol/elicitation#form-mode

A form is an :class:`ElicitationSchema`; its fields are property classes of :mod:`acp_ref.schema`, and none of these can
hold another (ELIC-11). Both sides check the answer with the same :func:`validate_content`: the client before it sends
it (ELIC-12), the agent when it has come (ELIC-13).

Form mode is never for what grants access or pays for something (ELIC-15, ELIC-16): use URL mode, and where the client
has none, another safe way or none at all, but not a form (ELIC-17).
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from acp_ref._pattern import Pattern
from acp_ref.errors import LocalProtocolError
from acp_ref.schema import (
    BooleanPropertySchema,
    ElicitationContentValue,
    ElicitationFormRequest,
    ElicitationPropertySchema,
    ElicitationSchema,
    EnumOption,
    IntegerPropertySchema,
    MultiSelectPropertySchema,
    NumberPropertySchema,
    StringMultiSelectItems,
    StringPropertySchema,
    TitledMultiSelectItems,
    Unknown,
)

__all__ = ["check_form", "choices", "defaults", "form", "lint_form", "looks_secret", "validate_content"]

INT64: Final = range(-(2**63), 2**63)

# ------------------------------------------------------------------------------------------------------- making a form


def form(
    properties: Mapping[str, ElicitationPropertySchema],
    *,
    required: Iterable[str] = (),
    title: str | None = None,
    description: str | None = None,
) -> ElicitationSchema:
    """A form with these fields, in this order.

    Raises:
      LocalProtocolError: as :func:`check_form`.
    """
    schema = ElicitationSchema(
        title=title, description=description, properties={**properties}, required=[*required] or None
    )
    check_form(schema)
    return schema


def check_form(schema: ElicitationSchema) -> None:
    """Whether the form can be filled in, and its answers be checked.

    Raises:
      LocalProtocolError: a required field does not exist; a field allows no value at all, has a pattern that cannot be
        matched in bounded time (ELIC-44), or a default that it does not allow. The text names all faults.
    """
    faults = [f"required: no field {name!r}" for name in schema.required or () if name not in schema.properties]
    for name, field in schema.properties.items():
        faults += [f"{_path('properties', name)}: {fault}" for fault in _faults_of_field(field)]
    if faults:
        raise LocalProtocolError("; ".join(faults))


def _faults_of_field(field: ElicitationPropertySchema) -> Iterator[str]:
    offered = choices(field)
    if offered is not None and not offered:
        yield "there is nothing to choose"
    bounds: tuple[float | None, float | None] = (None, None)
    match field:
        case StringPropertySchema():
            bounds = (field.min_length, field.max_length)
            if field.pattern is not None:
                try:
                    Pattern(field.pattern)
                except ValueError as exc:
                    yield f"pattern: {exc}"
        case NumberPropertySchema() | IntegerPropertySchema():
            bounds = (field.minimum, field.maximum)
        case MultiSelectPropertySchema():
            bounds = (field.min_items, field.max_items)
        case BooleanPropertySchema() | Unknown():
            return
    low, high = bounds
    if low is not None and high is not None and low > high:
        yield f"the least, {low}, is more than the most, {high}"
    elif field.default is not None:
        yield from _faults("default", field, field.default)


def choices(field: ElicitationPropertySchema) -> list[EnumOption] | None:
    """What a field offers to choose from, with titles (the value itself where there is none); None for a free field."""
    match field:
        case (
            StringPropertySchema(one_of=[*options])
            | MultiSelectPropertySchema(items=TitledMultiSelectItems(any_of=[*options]))
        ):
            return options
        case (
            StringPropertySchema(enum=[*values])
            | MultiSelectPropertySchema(items=StringMultiSelectItems(enum=[*values]))
        ):
            return [EnumOption(const=value, title=value) for value in values]
        case _:
            return None


# ------------------------------------------------------------------------------------------------ what was filled in


def defaults(schema: ElicitationSchema) -> dict[str, ElicitationContentValue]:
    """What to fill in before the user sees the form (ELIC-14). A default that its field does not allow is none."""
    values: dict[str, ElicitationContentValue] = {}
    for name, field in schema.properties.items():
        if not isinstance(field, Unknown) and field.default is not None and not [*_faults("", field, field.default)]:
            values[name] = [*field.default] if isinstance(field.default, list) else field.default
    return values


def validate_content(schema: ElicitationSchema, content: Mapping[str, object]) -> list[str]:
    """What is wrong with ``content`` as an answer to the form, each fault with its JSON path; empty when it fits.

    A field of an unknown type takes any value: what it means is not known here (ELIC-41). An unknown format asks for
    nothing, nor does a pattern that cannot be read (ELIC-44); :func:`check_form` refuses it on the agent's side.
    """
    errors = [f"{_path('content', name)}: required" for name in schema.required or () if name not in content]
    for name, value in content.items():
        path = _path("content", name)
        field = schema.properties.get(name)
        errors += [f"{path}: the form has no such field"] if field is None else _faults(path, field, value)
    return errors


def _path(within: str, name: str) -> str:
    return f"$.{within}.{name}" if name.isidentifier() else f"$.{within}[{name!r}]"


def _faults(path: str, field: ElicitationPropertySchema, value: object) -> Iterator[str]:
    offered = choices(field)
    values = None if offered is None else {option.const for option in offered}
    match field:
        case StringPropertySchema():
            if not isinstance(value, str):
                yield f"{path}: expected string"
                return
            yield from _out_of_bounds(path, len(value), field.min_length, field.max_length, " characters")
            if values is not None and value not in values:
                yield f"{path}: not one of the choices"
            if field.pattern is not None and (fault := _mismatch(field.pattern, value)):
                yield f"{path}: {fault}"
            fits = FORMATS.get(field.format or "")
            if fits is not None and not fits(value):
                yield f"{path}: expected {field.format}"
        case NumberPropertySchema():
            if isinstance(value, bool) or not isinstance(value, int | float):
                yield f"{path}: expected number"
            elif isinstance(value, float) and not math.isfinite(value):
                yield f"{path}: expected a finite number"
            else:
                yield from _out_of_bounds(path, value, field.minimum, field.maximum)
        case IntegerPropertySchema():
            if isinstance(value, bool) or not isinstance(value, int) or value not in INT64:  # ELIC-13
                yield f"{path}: expected integer"
            else:
                yield from _out_of_bounds(path, value, field.minimum, field.maximum)
        case BooleanPropertySchema():
            if not isinstance(value, bool):
                yield f"{path}: expected boolean"
        case MultiSelectPropertySchema():
            if not isinstance(value, list):
                yield f"{path}: expected array"
                return
            items: list[object] = [*value]
            yield from _out_of_bounds(path, len(items), field.min_items, field.max_items, " items")
            for index, item in enumerate(items):
                if not isinstance(item, str):
                    yield f"{path}[{index}]: expected string"
                elif values is not None and item not in values:
                    yield f"{path}[{index}]: not one of the choices"
        case Unknown():
            pass


def _out_of_bounds(path: str, value: float, least: float | None, most: float | None, unit: str = "") -> Iterator[str]:
    if least is not None and value < least:
        yield f"{path}: at least {least}{unit}"
    if most is not None and value > most:
        yield f"{path}: at most {most}{unit}"


def _mismatch(source: str, text: str) -> str | None:
    try:
        pattern = Pattern(source)
    except ValueError:
        return None
    try:
        return None if pattern.found_in(text) else f"does not match {source}"
    except ValueError as exc:
        return str(exc)


# ------------------------------------------------------------------------------------------------------------- formats


def _is_date(text: str) -> bool:
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text) is not None


def _is_date_time(text: str) -> bool:
    try:
        datetime.datetime.fromisoformat(text.upper())
    except ValueError:
        return False
    return re.match(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}", text) is not None


FORMATS: Final[Mapping[str, Callable[[str], bool]]] = {
    "email": lambda text: re.fullmatch(r"[^\s@]+@[^\s@]+", text) is not None,
    "uri": lambda text: re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:\S+", text) is not None,
    "date": _is_date,
    "date-time": _is_date_time,
}
"""The formats that are checked. They are checked loosely: only the agent knows what it takes."""

# ---------------------------------------------------------------------------------------------- what no form should ask

_SECRET: Final = re.compile(
    r"""\b(
        pass \s? (word|wd|phrase|code|key) s? | secrets? | credentials? | pin | otp | totp | cvv | cvc | iban
        | (api|access|private|secret|ssh|signing|encryption|licen[cs]e) \s keys? | apikey
        | (access|auth|bearer|refresh|session|api|id) \s tokens? | token
        | (one \s time|2fa|mfa|verification|recovery|security|backup|auth) \s codes?
        | (credit|debit|bank) \s cards? | card \s (number|no) | bank \s account
    )\b""",
    re.VERBOSE,
)


def looks_secret(name: str) -> bool:
    """Whether ``name``, be it words, ``camelCase`` or ``snake_case``, suggests what grants access or pays."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[\W_]+", " ", name)
    return _SECRET.search(words.lower()) is not None


def lint_form(request: ElicitationFormRequest) -> list[str]:
    """What in the form looks as if it should not be in a form. It judges by names, so it may be wrong both ways."""
    schema = request.requested_schema
    warnings: list[str] = []
    for name, field in schema.properties.items():
        if not isinstance(field, StringPropertySchema) or choices(field) is not None:
            continue
        if field.format == "password" or looks_secret(name) or looks_secret(field.title or ""):
            warnings.append(f"{_path('properties', name)}: looks like a secret, which needs URL mode")  # ELIC-15
    texts = [request.message, schema.title, schema.description]
    texts += [field.description for field in schema.properties.values() if not isinstance(field, Unknown)]
    if any(text and re.search(r"https?://", text) for text in texts):
        warnings.append("a link in the text of a form, which nobody should follow; use URL mode")  # ELIC-33
    return warnings
