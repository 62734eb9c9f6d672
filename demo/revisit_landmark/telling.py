"""Run the experiment and tell what came of it: `python -m demo revisit_landmark`."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from demo.report import json_line
from demo.revisit_landmark.experiment import EPISODES, Result, run
from demo.revisit_landmark.picture import draw

__all__ = ['main']

TARGET_RATIO = 0.5


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiment, and return the exit code."""
    given = _parser().parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    file = given.out / 'revisit_landmark.db'
    for old in given.out.glob(f'{file.name}*'):
        old.unlink()
    result = run(file, given.seed)
    picture = given.out / 'revisit_landmark.png'
    draw(result, picture)
    screen = Console()
    screen.print(_table(result))
    away_m = _away_m(result)
    screen.print(
        f'\nlater episodes with memory / without: [bold]{result.ratio:.2f}[/] of the steps\n'
        f'the memory ends {100 * away_m:.1f} cm from the true place'
    )
    screen.print(f'the picture: {picture}\nthe memory: {file}', markup=False, soft_wrap=True)
    print(
        json_line(
            episodes=len(result.episodes),
            steps_ratio=round(result.ratio, 4),
            away_m=round(away_m, 4),
            snapshot=result.snapshot,
        ),
        flush=True,
    )
    return 0 if result.ratio <= TARGET_RATIO and away_m <= result.room.sight_m else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        'python -m demo revisit_landmark',
        description=f'A robot looks {EPISODES} times for a target that it sees only from nearby.',
    )
    parser.add_argument('--seed', type=int, default=1, help='of noise and places (1)')
    parser.add_argument(
        '--out', type=Path, default=Path(__file__).parents[1] / 'out', help='where it goes (demo/out)'
    )
    return parser


def _table(result: Result) -> Table:
    table = Table(box=None, header_style='bold', pad_edge=False)
    table.add_column('episode', justify='right')
    for name in ('before it', 'with memory'):
        table.add_column(name, no_wrap=True)
    for name in ('steps', 'without', 'places'):
        table.add_column(name, justify='right')
    for one in result.episodes:
        table.add_row(
            str(one.number),
            one.event,
            one.mode,
            str(one.with_memory),
            str(one.without),
            str(len(one.believed)),
        )
    return table


def _away_m(result: Result) -> float:
    """Return how far the furthest of the believed places is from the true one, at the end."""
    last = result.episodes[-1]
    return max((math.dist(place, last.target) for place in last.believed), default=math.inf)
