"""Helpers whose asserts pytest explains like those of tests."""

import pytest

pytest.register_assert_rewrite('store.clauses', 'store.contract', 'store.plain_memory')
