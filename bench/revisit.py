"""What a memory saves a robot that must find a target again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench._figure import at_most
from demo.revisit_landmark.experiment import run

SEEDS = 5


def revisit() -> Iterator[dict[str, Any]]:
    """Steps of later episodes with memory, by those without, one stale and one wrong place included."""
    results = [run(seed=seed) for seed in range(1, SEEDS + 1)]
    later = [one for result in results for one in result.episodes[1:]]
    ratio = sum(one.with_memory for one in later) / sum(one.without for one in later)
    worst = max(result.ratio for result in results)
    yield at_most('revisit_steps_with_memory_by_without', ratio, 0.5, worst=round(worst, 4), seeds=SEEDS)


FIGURES = {'revisit': revisit}
