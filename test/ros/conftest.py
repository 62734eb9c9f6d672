"""What the ROS tests share: one node process for a module, where tests do not get into each other's way."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ros.harness import NodeProcess, Talker, held_domain

with warnings.catch_warnings():
    # Imported by the first message anywhere; its parser imports what Python 3.11 calls deprecated.
    warnings.simplefilter('ignore', DeprecationWarning)
    import rosidl_generator_py  # noqa: F401


@pytest.fixture(scope='module')
def parameters() -> dict[str, Any]:
    """Parameters of the shared node; a module overrides this fixture."""
    return {}


@pytest.fixture(scope='module')
def environment() -> dict[str, str]:
    """Variables of the shared node's process; a module overrides this fixture."""
    return {}


@pytest.fixture(scope='module')
def shared(
    tmp_path_factory: pytest.TempPathFactory, parameters: dict[str, Any], environment: dict[str, str]
) -> Iterator[SimpleNamespace]:
    """Return an active node that the tests of one module share, and a client of it."""
    folder: Path = tmp_path_factory.mktemp('shared')
    with (
        held_domain() as domain,
        NodeProcess(folder, domain, parameters, environment=environment) as process,
        Talker(domain) as talker,
    ):
        try:
            talker.activate()
        except BaseException:
            print(process.log)
            raise
        yield SimpleNamespace(process=process, talker=talker, domain=domain, folder=folder)
        assert process.ended() == 0, process.log
        assert 'Traceback' not in process.log, process.log
