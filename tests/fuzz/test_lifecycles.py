"""Sessions in any order: each answer is what it must be, none is lost or comes twice, and nothing is left."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import examples
from tests.fuzz.hostile import run_virtually
from tests.fuzz.lifecycle import live
from tests.fuzz.together import live_together

STEPS = st.lists(st.integers(0, 2**32 - 1), max_size=40)


@pytest.mark.spec(
    "SETUP-05", "SETUP-13", "SETUP-48", "SETUP-54", "SETUP-55", "DEL-06", "DEL-08", "CANCEL-15", "LIST-15"
)
@pytest.mark.field_note(38, 66, 68, 69, 73, 74, 78, 79, 80, 82, 85)
@examples(100)
@given(STEPS)
def test_sessions_of_two_agents_on_one_store_live_as_the_model_says(steps: list[int]) -> None:
    run_virtually(lambda: live(steps))


@pytest.mark.spec("CANCEL-11", "CANCEL-16", "SETUP-53")
@pytest.mark.field_note(10, 40, 84, 85)
@examples(80)
@given(STEPS)
def test_an_application_may_give_up_on_anything_and_leaves_nothing_behind(steps: list[int]) -> None:
    run_virtually(lambda: live_together(steps))
