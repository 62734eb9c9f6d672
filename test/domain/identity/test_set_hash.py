"""The hash of a set follows its elements, whatever the order of changes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hylo_memory_ros.domain.identity import EMPTY_STATE, digest_of_state, update_state

elements = st.lists(st.binary(min_size=32, max_size=32), max_size=20, unique=True)


@given(elements, st.randoms(use_true_random=False))
def test_order_does_not_matter(these: list[bytes], random: st.DataObject) -> None:
    shuffled = these[:]
    random.shuffle(shuffled)
    one_by_one = EMPTY_STATE
    for element in shuffled:
        one_by_one = update_state(one_by_one, [element])
    assert one_by_one == update_state(EMPTY_STATE, these)


@given(elements, elements)
def test_taking_out_what_was_put_in_gives_the_state_before(these: list[bytes], those: list[bytes]) -> None:
    before = update_state(EMPTY_STATE, these)
    assert update_state(update_state(before, those), (), those) == before
    assert update_state(before, those, those) == before


@given(elements.filter(bool))
def test_different_sets_have_different_hashes(these: list[bytes]) -> None:
    state = update_state(EMPTY_STATE, these)
    assert digest_of_state(state) != digest_of_state(update_state(state, (), these[:1]))


def test_golden_digests() -> None:
    assert (
        digest_of_state(EMPTY_STATE)
        == 'sha256:60b97677b98a946e9f323078652c23fcff2d7460dd82a83a91805fc200ae1545'
    )
    assert (
        digest_of_state(update_state(EMPTY_STATE, [b'a' * 32, b'b' * 32]))
        == 'sha256:3b7957b1895f70269cc2eca883992f57be9185460b53517db88afcbba9f89517'
    )
