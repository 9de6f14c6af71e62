"""Whatever a peer says, in whatever chunks: what must be answered is answered once, and the connection lives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_ref.methods import AGENT, CLIENT
from tests.fuzz import examples
from tests.fuzz.hostile import hear_agent, hear_client, run_virtually
from tests.fuzz.oracle import Fault, check_answers, expect
from tests.fuzz.words import Words, starts_a_program

SEEDS = st.integers(0, 2**32 - 1)


def frames_for_agents() -> st.SearchStrategy[bytes]:
    return SEEDS.map(lambda seed: Words(seed, AGENT).frame()).filter(lambda frame: not starts_a_program(frame))


def frames_for_clients() -> st.SearchStrategy[bytes]:
    return SEEDS.map(lambda seed: Words(seed, CLIENT).frame())


@pytest.mark.spec("ERR-01", "ERR-02", "ERR-03", "ERR-05", "TRANS-06")
@pytest.mark.field_note(6, 8, 10, 23, 24, 28)
@examples(80)
@given(st.lists(frames_for_agents(), max_size=40), SEEDS)
def test_an_agent_answers_what_must_be_answered_once_and_nothing_else(frames: list[bytes], seed: int) -> None:
    run_virtually(lambda: hear_client(frames, seed))


@pytest.mark.spec("ERR-01", "ERR-02", "ERR-03", "ERR-05")
@pytest.mark.field_note(3, 24, 28, 30)
@examples(40)
@given(st.lists(frames_for_clients(), max_size=40), SEEDS)
def test_a_client_answers_what_must_be_answered_once_and_nothing_else(frames: list[bytes], seed: int) -> None:
    run_virtually(lambda: hear_agent(frames, seed))


@pytest.mark.spec("INIT-01")
@pytest.mark.field_note(41)
@examples(40)
@given(st.lists(frames_for_agents(), max_size=20), st.lists(frames_for_clients(), max_size=20), SEEDS)
def test_so_they_do_when_nothing_was_initialized(to_agent: list[bytes], to_client: list[bytes], seed: int) -> None:
    run_virtually(lambda: hear_client(to_agent, seed, initialized=False))
    run_virtually(lambda: hear_agent(to_client, seed, initialized=False))


@pytest.mark.field_note(6, 8, 23)
@examples(40)
@given(st.lists(st.binary(max_size=60).map(lambda text: text.replace(b"\n", b"")), max_size=20), SEEDS)
def test_so_they_do_when_the_bytes_mean_nothing(frames: list[bytes], seed: int) -> None:
    run_virtually(lambda: hear_client(frames, seed))
    run_virtually(lambda: hear_agent(frames, seed))


@pytest.mark.field_note(1)
@examples(40)
@given(st.lists(frames_for_agents(), max_size=20), st.lists(frames_for_clients(), max_size=20), SEEDS)
def test_so_they_do_when_many_messages_are_too_large(to_agent: list[bytes], to_client: list[bytes], seed: int) -> None:
    run_virtually(lambda: hear_client(to_agent, seed, max_frame_bytes=200))
    run_virtually(lambda: hear_agent(to_client, seed, max_frame_bytes=320))


def test_the_oracle_sees_what_is_wrong() -> None:
    request = b'{"jsonrpc":"2.0","id":1,"method":"x"}'
    answer = b'{"jsonrpc":"2.0","id":1,"result":{}}'
    null = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":""}}'
    assert check_answers(expect([request, b"junk"]), [answer, null], answers_junk=True) == 2
    assert check_answers(expect([request, b"junk"]), [answer], answers_junk=False) == 1
    assert check_answers(expect([request, request]), [answer, null], answers_junk=False) == 2  # the id was in use
    wrong: list[tuple[list[bytes], list[bytes], str]] = [
        ([request], [], "never answered"),
        ([request], [answer, answer], "answered 2 times"),
        ([request], [answer, b'{"jsonrpc":"2.0","id":"1","result":{}}'], "asked 0 times"),
        ([b'{"method":"x"}'], [null], "null id"),
        ([answer], [null], "null id"),
        ([b"junk"], [], "null id"),
        ([request], [b'{"jsonrpc":"2.0","id":1,"result":NaN}'], "not JSON"),
        ([request], [b'{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":""}}'], "neither request"),
    ]
    for said, sent, what in wrong:
        with pytest.raises(Fault, match=what):
            check_answers(expect(said), sent, answers_junk=True)
