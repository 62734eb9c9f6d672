"""A client of the shared node, and a key that no other test writes."""

import uuid
from types import SimpleNamespace

import pytest
from ros.harness import Talker


@pytest.fixture
def talker(shared: SimpleNamespace) -> Talker:
    return shared.talker


@pytest.fixture
def key() -> str:
    return f'key-{uuid.uuid4().hex[:8]}'
