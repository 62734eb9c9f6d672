"""What the demonstration tells: a short report for people, one JSON line for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from demo.outcome import Outcome
from demo.questions import RADIUS_M, Answer

__all__ = ['json_line', 'print_report']

# Old versions of what is there, and the nearest beyond the radius, are left out always.
_REASONS = {'not_yet_valid': 'not yet there', 'forgotten': 'forgotten', 'ended': 'ended'}


def print_report(
    console: Console, outcome: Outcome, answers: Sequence[Answer], remarks: Sequence[str]
) -> None:
    """Print the questions with their answers, the score, and where to look further."""
    table = Table(box=None, header_style='bold', pad_edge=False)
    table.add_column('trees in memory')
    for name in ('in the park', f'within {RADIUS_M:g} m', 'nearest'):
        table.add_column(name, justify='right')
    table.add_column('left out', no_wrap=True)
    for answer in answers:
        table.add_row(answer.question, str(answer.everywhere.total), *_here(answer.here))
    console.print(table)
    score = outcome.score
    console.print(
        f'\n{outcome.landmarks} landmarks, {outcome.confirmed} of them confirmed\n'
        f'pairwise F1 [bold]{score.f1:.4f}[/], precision {score.precision:.4f}, recall {score.recall:.4f}'
    )
    for remark in remarks:
        console.print(remark, markup=False, soft_wrap=True)


def _here(response: Any) -> tuple[str, str, str]:
    left_out = dict(zip(response.excluded_reasons, response.excluded_counts, strict=True))
    told = [f'{left_out[reason]} {words}' for reason, words in _REASONS.items() if reason in left_out]
    nearest = f'{response.hits[0].distance_m:.2f} m' if response.hits else ''
    return str(response.total), nearest, ', '.join(told)


def json_line(**fields: object) -> str:
    """Return the last line of the demonstration."""
    return json.dumps(fields)
