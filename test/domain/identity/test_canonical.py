"""The canonical form has one text for one value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hylo_memory_ros.domain.identity import canonical_bytes

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ('value', 'text'),
    [
        ({'b': 1, 'a': 2}, '{"a":2,"b":1}'),
        ({'a': 1.0}, '{"a":1.0}'),
        ({'a': 1}, '{"a":1}'),
        ({'a': -0.0}, '{"a":0.0}'),
        ({'a': 2**60}, '{"a":1152921504606846976}'),
        ({'a': 1e16}, '{"a":1e+16}'),
        ({'a': 0.1}, '{"a":0.1}'),
        ({'e\u0301': 'e\u0301'}, '{"\u00e9":"\u00e9"}'),
        ({'a': '"\\\n'}, '{"a":"\\"\\\\\\n"}'),
        ({'B': 1, 'a': 1, '\u00e9': 1}, '{"B":1,"a":1,"\u00e9":1}'),
        ({'a': [None, True, {}]}, '{"a":[null,true,{}]}'),
    ],
)
def test_golden_bytes(value: dict, text: str) -> None:
    assert canonical_bytes(value) == text.encode()


def test_integers_keep_every_digit() -> None:
    assert canonical_bytes({'a': 10**4000}) == b'{"a":1' + b'0' * 4000 + b'}'


@pytest.mark.parametrize('number', [float('nan'), float('inf'), float('-inf')])
def test_what_is_no_number_is_refused(number: float) -> None:
    with pytest.raises(ValueError, match=r'not JSON compliant|[Oo]ut of range'):
        canonical_bytes({'a': number})


@given(st.dictionaries(st.text(max_size=4), values, max_size=4))
def test_the_order_of_keys_does_not_matter(value: dict) -> None:
    def surrogates(part: object) -> bool:
        return any('\ud800' <= char <= '\udfff' for char in repr(part))

    if not surrogates(value):
        assert canonical_bytes(dict(reversed(value.items()))) == canonical_bytes(value)
