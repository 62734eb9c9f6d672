"""Counts that scale with the Hypothesis profile of the run, `gate` or `nightly` (see `conftest.py`)."""

from __future__ import annotations

from hypothesis import settings

__all__ = ['kills', 'scaled']

_GATE_KILLS = 3


def scaled(nightly: int) -> int:
    """Return the number of examples or repetitions for the loaded profile, given that of `nightly`."""
    return max(1, nightly * settings().max_examples // settings.get_profile('nightly').max_examples)


def kills(nightly: int) -> int:
    """Return the number of kills for the loaded profile, given that of the profile `nightly`."""
    return nightly if settings.get_current_profile_name() == 'nightly' else min(nightly, _GATE_KILLS)
