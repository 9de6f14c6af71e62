"""NaN and Infinity are not JSON: neither is ever written, as itself or as null, and neither is ever read."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from types import NoneType
from typing import get_args, get_origin

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypeForm

from acp_ref import schema
from acp_ref._converter import InvalidPayload, unstructure, wire
from acp_ref._jsonrpc import JSON
from acp_ref.agent_session import encode_update
from acp_ref.errors import RequestError
from acp_ref.methods import AGENT, CLIENT, Role
from acp_ref.reports import ReportKind
from acp_ref.requests import IncomingRequest
from tests.fuzz import examples
from tests.fuzz.words import Words
from tests.schema_samples import classes, samples
from tests.test_connection import ECHO, TELL, WAIT, Setting

ODD = [math.nan, math.inf, -math.inf]


@pytest.fixture(params=[AGENT, CLIENT], ids=["agent", "client"])
def setting(request: pytest.FixtureRequest) -> Setting:
    role = request.param
    assert isinstance(role, Role)
    return Setting(role)


def _with_it(t: object, odd: float) -> Sequence[object]:
    """Values of the type ``t`` that are not JSON, because ``odd`` is somewhere in them."""
    t = wire.without(wire.resolved(t), NoneType)
    if t is float or t == schema.ElicitationContentValue:
        return [odd]
    if t is wire.AnyJSON:
        return [odd, [[odd]], {"a": {"b": [odd]}}]
    if t is wire.AnyObject:
        return [{"a": odd}, {"a": [{"b": odd}]}]
    if get_origin(t) is dict:
        return [{"a": value} for value in _with_it(get_args(t)[1], odd)]
    if get_origin(t) is list:
        return [[value] for value in _with_it(get_args(t)[0], odd)]
    if schema.Unknown in wire.members(t):
        return [schema.Unknown(raw={wire.variants(t).key: "odd", "a": odd})]
    return []


def _places() -> Iterator[tuple[type, str]]:
    for cl in classes():
        for f in wire.fields(cl):
            if _with_it(f.type, math.nan):
                yield cl, f.name


@pytest.mark.field_note(9)
@pytest.mark.parametrize(("cl", "name"), [*_places()], ids=lambda part: getattr(part, "__name__", part))
def test_no_field_of_any_type_is_written_with_it(cl: TypeForm[object], name: str) -> None:
    assert isinstance(cl, type)
    field = next(f for f in wire.fields(cl) if f.name == name)
    for odd in ODD:
        for value in _with_it(field.type, odd):
            with pytest.raises(InvalidPayload, match=r"NaN and Infinity are not JSON"):
                unstructure(cl, attrs.evolve(samples(cl)[0], **{name: value}))  # type: ignore[misc]


@pytest.mark.field_note(9)
@pytest.mark.parametrize("odd", ODD)
async def test_no_way_out_of_a_connection_lets_it_through(setting: Setting, odd: float) -> None:
    deep: JSON = {"a": [{"b": odd}]}

    async def answer(request: IncomingRequest, params: JSON) -> JSON:
        if params == "raise":
            raise RequestError(1, "no", deep)
        return deep

    setting.handlers.on_request(WAIT, answer)
    async with setting.open() as (connection, peer):
        for params in (odd, deep):
            with pytest.raises(ValueError, match="not JSON"):
                await connection.request(ECHO, params)
            with pytest.raises(ValueError, match="not JSON"):
                await connection.notify(TELL, params)
            with pytest.raises(ValueError, match="not JSON"):
                connection.put_notification(TELL, params)
            with pytest.raises(ValueError, match="not JSON"):
                await peer.notify("_test/tell", params)
        assert await peer.receive_all() == []
        assert connection.statistics().requests_pending == 0
        assert (await peer.call(1, "_test/wait"))["error"] == {"code": -32603, "message": "Internal error"}
        assert (await peer.call(2, "_test/wait", "raise"))["error"] == {"code": 1, "message": "no"}
        assert setting.kinds() == [ReportKind.HANDLER_FAILED] * 2


@pytest.mark.parametrize("odd", ODD)
def test_no_update_reaches_a_journal_with_it(odd: float) -> None:
    meta: dict[str, JSON] = {"x": odd}
    with pytest.raises(InvalidPayload):
        encode_update(schema.AgentMessageChunk(content=schema.TextContent(text="", meta=meta)))


@pytest.mark.field_note(9)
@examples(60)
@given(st.integers(0, 2**32), st.sampled_from([AGENT, CLIENT]), st.data())
def test_no_message_is_read_with_it(seed: int, role: Role, data: st.DataObject) -> None:
    import json

    from acp_ref import _jsonrpc as jsonrpc

    message = Words(seed, role).call()
    places = [*_numbers(message, ())]
    odd = data.draw(st.sampled_from(ODD))
    holder: JSON = message
    *outer, last = data.draw(st.sampled_from(places))
    for key in outer:
        holder = holder[key]  # type: ignore[index]
    holder[last] = odd  # type: ignore[index]
    read = jsonrpc.decode(json.dumps(message).encode())
    assert isinstance(read, jsonrpc.InvalidMessage)


def _numbers(value: JSON, keys: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, dict):
        for key, member in value.items():
            yield (*keys, key)
            yield from _numbers(member, (*keys, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield (*keys, index)
            yield from _numbers(item, (*keys, index))
