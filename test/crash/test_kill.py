"""What was acknowledged survives a killed writer, whenever it is killed."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.effort import kills

from bench.kill import kill_writers


def test_nothing_acknowledged_is_missing_after_kills(tmp_path: Path) -> None:
    tally = kill_writers(tmp_path, kills=kills(8), seed=7)
    assert tally.problems == ()
    assert tally.missing == 0
    assert tally.early > 0
    assert tally.acknowledged > tally.kills


@pytest.mark.parametrize('seed', [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_writer_killed_at_the_first_start_leaves_a_file_that_opens(tmp_path: Path, seed: int) -> None:
    tally = kill_writers(tmp_path, kills=2, seed=seed)
    assert (tally.problems, tally.missing) == ((), 0)
