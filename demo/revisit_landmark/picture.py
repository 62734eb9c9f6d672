"""The experiment as a picture: steps per episode, and four of the ways."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle

from demo.revisit_landmark.experiment import MOVED, WRONG, Episode, Result

__all__ = ['draw']

WITH, WITHOUT, MUTED, ALARM = '#1b6ca8', '#c9c9c9', '#6b6b6b', '#c8452f'
_WAYS = (
    (1, 'knows nothing, explores'),
    (2, 'goes straight there'),
    (MOVED, 'moved: finds nothing, reports it, explores'),
    (WRONG, 'a wrong place: finds nothing, goes on'),
)


def draw(result: Result, file: Path) -> None:
    """Write the picture."""
    figure = Figure(figsize=(11.0, 6.8), layout='constrained')
    FigureCanvasAgg(figure)
    parts: Any = figure.subfigures(2, 1, height_ratios=(1.3, 1.0))
    above, below = parts
    _steps(above.subplots(), result)
    rooms: Any = below.subplots(1, len(_WAYS))
    for axes, (number, title) in zip(rooms, _WAYS, strict=True):
        _way(axes, result, result.episodes[number - 1], title)
    figure.savefig(file, dpi=150)


def _steps(axes: Any, result: Result) -> None:
    told = result.episodes
    numbers = [one.number for one in told]
    axes.bar(
        [n - 0.2 for n in numbers],
        [one.without for one in told],
        0.4,
        color=WITHOUT,
        label='without: explores each time',
    )
    axes.bar(
        [n + 0.2 for n in numbers], [one.with_memory for one in told], 0.4, color=WITH, label='with memory'
    )
    highest = max(max(one.without, one.with_memory) for one in told)
    for one in told:
        axes.annotate(
            str(one.with_memory),
            (one.number + 0.2, one.with_memory),
            (0, 2),
            textcoords='offset points',
            ha='center',
            va='bottom',
            fontsize=8,
            color=WITH,
        )
        if one.event:
            axes.axvline(one.number - 0.5, color=ALARM, linewidth=1.0, linestyle=(0, (4, 3)))
            axes.annotate(
                one.event,
                (one.number - 0.5, 1.16 * highest),
                (4, 0),
                textcoords='offset points',
                color=ALARM,
                fontsize=9,
                va='center',
            )
    axes.set_ylim(0, 1.24 * highest)
    axes.set_xlim(0.4, len(told) + 0.6)
    axes.set_xticks(numbers)
    axes.set_xlabel('episode, each from another place')
    axes.set_ylabel('steps to the target')
    axes.set_title(
        f'After the first episode a memory needs {100 * result.ratio:.0f} % of the steps',
        loc='left',
        fontsize=13,
    )
    axes.legend(frameon=False, loc='upper left', bbox_to_anchor=(0.0, 0.93))
    _plain(axes)


def _way(axes: Any, result: Result, one: Episode, title: str) -> None:
    room = result.room
    axes.add_patch(Rectangle((0, 0), room.width_m, room.height_m, facecolor='#fafafa', edgecolor=MUTED))
    x, y = zip(*one.path, strict=True)
    axes.plot(x, y, color=WITH, linewidth=1.3)
    axes.plot(x[0], y[0], 'o', color=WITH, markersize=6)
    axes.add_patch(Circle(one.target, room.sight_m, facecolor='none', edgecolor=ALARM, linewidth=1.0))
    axes.plot(*one.target, '*', color=ALARM, markersize=10)
    axes.set_xlim(-0.15, room.width_m + 0.15)
    axes.set_ylim(-0.15, room.height_m + 0.15)
    axes.set_aspect('equal')
    axes.axis('off')
    axes.set_title(_two_lines(f'{one.number}: {title}'), fontsize=9, loc='left', color='#333333')


def _two_lines(text: str, width: int = 30) -> str:
    words: Sequence[str] = text.split()
    lines = ['']
    for word in words:
        if lines[-1] and len(lines[-1]) + len(word) >= width:
            lines.append(word)
        else:
            lines[-1] = f'{lines[-1]} {word}'.strip()
    return '\n'.join(lines)


def _plain(axes: Any) -> None:
    for side in ('top', 'right'):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0)
    axes.grid(axis='y', color='#eeeeee')
    axes.set_axisbelow(True)
