"""Each package says what is public: a sorted `__all__` of exactly the names that it brings together."""

import importlib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / 'hylo_memory_ros'
PACKAGES = ['errors', *(path.parent.name for path in sorted(PACKAGE.glob('*/__init__.py')))]


@pytest.mark.parametrize('name', PACKAGES)
def test_all_is_what_the_package_brings_together(name: str) -> None:
    module = importlib.import_module(f'hylo_memory_ros.{name}')
    brought = {
        bound
        for bound, value in vars(module).items()
        if not bound.startswith('_') and str(getattr(value, '__module__', '')).startswith('hylo_memory_ros')
    }
    exported = getattr(module, '__all__', [])
    assert brought - set(exported) == set()
    assert len(exported) == len(set(exported))
    assert all(hasattr(module, name) for name in exported)
