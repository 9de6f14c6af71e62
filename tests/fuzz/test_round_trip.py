"""Every type of the schema there and back, and every fault that the schema tolerates."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypeForm

from acp_ref._converter import InvalidPayload, salvages, structure, take_salvaged, unstructure
from acp_ref._jsonrpc import JSON, dumps, loads
from acp_ref.methods import AGENT, CLIENT
from tests.fuzz import examples
from tests.fuzz.schema_values import Place, places, values
from tests.schema_samples import classes

PAYLOADS: Sequence[tuple[str, TypeForm[object]]] = sorted(
    {
        repr(t): t
        for call in (*AGENT.handles, *CLIENT.handles)
        for t in (call.params, getattr(call, "result", call.params))
    }.items()
)
NAMES = [name.removeprefix("<class 'acp_ref.schema.").removesuffix("'>")[:60] for name, _ in PAYLOADS]


@examples(8)
@given(st.data())
@pytest.mark.parametrize("t", [t for _, t in PAYLOADS], ids=NAMES)
def test_params_and_results_come_back_as_they_were(t: TypeForm[object], data: st.DataObject) -> None:
    check_round_trip(t, data)


@examples(3)
@given(st.data())
@pytest.mark.parametrize("t", classes(), ids=lambda t: t.__name__)
def test_every_class_comes_back_as_it_was(t: TypeForm[object], data: st.DataObject) -> None:
    check_round_trip(t, data)


def check_round_trip(t: TypeForm[object], data: st.DataObject) -> None:
    """Draw a ``t``, and send it there and back."""
    value = data.draw(values(t))
    raw = unstructure(t, value)
    take_salvaged()  # something else may have left it set
    back = structure(t, loads(dumps(raw)))
    assert back == value
    assert repr(back) == repr(value)  # 1, 1.0 and True are three things
    assert not take_salvaged()
    assert unstructure(t, back) == raw


@pytest.mark.spec("GEN-08")
@examples(8)
@given(st.data())
@pytest.mark.parametrize("t", [t for _, t in PAYLOADS], ids=NAMES)
def test_one_fault_is_mended_or_refused_as_the_marks_say_and_told_by_its_path(
    t: TypeForm[object], data: st.DataObject
) -> None:
    value = data.draw(values(t))
    found = places(t, value)
    if not found:
        return
    place = data.draw(st.sampled_from(found))
    raw = copy.deepcopy(unstructure(t, value))
    _put(raw, place)
    take_salvaged()
    if place.mended:
        mended = structure(t, raw)
        assert take_salvaged()
        assert [salvage.path for salvage in salvages(t, raw)] == [place.path]
        structure(t, unstructure(t, mended))  # what was mended can be written, and read without fault
        assert not take_salvaged()
    else:
        with pytest.raises(InvalidPayload) as caught:
            structure(t, raw)
        assert [error.partition(": ")[0] for error in caught.value.errors] == [place.path]


def _put(raw: JSON, place: Place) -> None:
    *outer, last = place.keys
    for key in outer:
        assert isinstance(raw, dict | list)
        raw = raw[key]  # type: ignore[index]
    raw[last] = place.wrong  # type: ignore[index]
