"""Command `plot`: a map as a picture, with uncertainty, the path of the robot and what is near.

Needs matplotlib, the extra `plot`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from hylo_memory_ros.cli.options import (
    AsOf,
    Center,
    Frame,
    KnownAt,
    KnownSeq,
    MapId,
    MemoryFile,
    Radius,
    build_query,
    open_memory_file,
    parse_center,
    with_filters,
)
from hylo_memory_ros.errors import NotFoundError, StoreError, UnsupportedError
from hylo_memory_ros.model import MAX_K, MemoryKind, MemoryQuery, Pose
from hylo_memory_ros.service import MemoryService

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Array = NDArray[np.float64]

# Radius, in standard deviations, of the ellipse that holds a place in the plane with 95 %.
_SIGMAS_95 = math.sqrt(-2.0 * math.log(0.05))
_INK, _FAINT, _HERE, _PATH = '#2b2f33', '#9aa3a8', '#d9480f', ('#d6e2ee', '#1f5d99')
_VISIBLE = 0.03
_MOST_DISTANCES = 40
_FACTORS = (50, 20, 10, 5, 2)
_PALETTE = ('#2f855a', '#2b6cb0', '#b7791f', '#9b2c6f', '#5a67d8', '#c05621', '#2c7a7b', '#744210')


@dataclass(frozen=True, slots=True)
class Place:
    """One thing on the map."""

    x_m: float
    """Metres, in the frame of the map."""
    y_m: float
    """Metres, in the frame of the map."""
    label: str = ''
    """Its class; decides the colour."""
    covariance: tuple[float, float, float] | None = None
    """Of the position, m^2: xx xy yy; None: unknown."""
    tentative: bool = False
    """Seen, but not confirmed: drawn as a small ring."""


@dataclass(frozen=True, slots=True)
class Circle:
    """Centre and radius of a query."""

    x_m: float
    """Metres, in the frame of the map."""
    y_m: float
    """Metres, in the frame of the map."""
    radius_m: float
    """Metres."""

    def distance_m(self, place: Place) -> float:
        """Return how far a place is from the centre, in the plane."""
        return math.hypot(place.x_m - self.x_m, place.y_m - self.y_m)


@dataclass(frozen=True)
class MapPicture:
    """Picture of the whole map, and of the surroundings of a circle, if one is given."""

    places: Sequence[Place]
    """Things on the map."""
    title: str = ''
    """Above the picture."""
    path: Array | None = None
    """Positions of the robot in order, metres, shape (n, 2)."""
    circle: Circle | None = None
    """Circle of the query; None: the map alone."""

    def save(self, output: Path) -> None:
        """Draw, and write a file of the format that its ending names.

        Raises
        ------
        UnsupportedError
            matplotlib is not installed, or does not write this format.
        StoreError
            The file cannot be written.
        """
        try:
            from matplotlib.figure import Figure  # noqa: PLC0415 - an extra that most do without
        except ImportError as exc:
            raise UnsupportedError(
                "plot: matplotlib is not installed; it comes with pip install 'hylo-memory-ros[plot]'"
            ) from exc
        figure = Figure(figsize=(12.0, 6.4) if self.circle else (8.0, 7.0), layout='constrained')
        self._draw(figure)
        try:
            figure.savefig(output, dpi=120)
        except ValueError as exc:
            raise UnsupportedError(f'output: {str(output)!r}: {exc}') from exc
        except OSError as exc:
            raise StoreError(f'output: {output} cannot be written: {exc.strerror}') from exc

    def _draw(self, figure: Figure) -> None:
        if self.title:
            figure.suptitle(self.title, color=_INK, fontsize=12.5, x=0.012, ha='left')
        if self.circle is None:
            whole = figure.add_subplot()
        else:
            whole, around = figure.subplots(1, 2, width_ratios=(1.3, 1.0))
            self._draw_around(around, self.circle)
        x, y = _columns(self.places)
        size_m = max(max(x) - min(x), max(y) - min(y)) if x else 0.0
        shown = self._draw_panel(whole, self.places, _factor(self.places, size_m), dot=9.0)
        whole.margins(0.04)
        whole.set_title(shown, fontsize=9.5, color=_INK)
        self._draw_legend(whole)

    def _draw_around(self, axes: Axes, circle: Circle) -> None:
        reach = 1.12 * max(circle.radius_m, 1.0)
        near = [
            place
            for place in self.places
            if max(abs(place.x_m - circle.x_m), abs(place.y_m - circle.y_m)) <= reach
        ]
        shown = self._draw_panel(axes, near, _factor(near, 2.0 * reach), dot=14.0)
        axes.set_xlim(circle.x_m - reach, circle.x_m + reach)
        axes.set_ylim(circle.y_m - reach, circle.y_m + reach)
        axes.set_title(f'within {circle.radius_m:g} m of here; {shown}', fontsize=9.5, color=_HERE)
        by_distance = sorted((circle.distance_m(place), place.x_m, place.y_m) for place in near)
        for distance_m, x_m, y_m in by_distance[:_MOST_DISTANCES]:
            if distance_m <= circle.radius_m:
                axes.annotate(
                    f'{distance_m:.1f} m',
                    (x_m, y_m),
                    xytext=(6.0, 4.0),
                    textcoords='offset points',
                    fontsize=8,
                    color=_INK,
                )

    def _draw_panel(self, axes: Axes, places: Sequence[Place], factor: int, dot: float) -> str:
        """Draw some of the places and everything else; return how large ellipses are."""
        axes.set_aspect('equal')
        axes.set_anchor('N')
        axes.set_xlabel('x (m)', fontsize=9, color=_INK)
        axes.set_ylabel('y (m)', fontsize=9, color=_INK)
        axes.grid(color='#e9edf0', linewidth=0.8)
        axes.set_axisbelow(True)
        axes.tick_params(colors=_INK, labelsize=8, length=0)
        for spine in axes.spines.values():
            spine.set_color('#cfd6da')
        self._draw_path(axes)
        self._draw_places(axes, places, dot, factor)
        self._draw_circle(axes)
        return '95 % ellipses to scale' if factor == 1 else f'95 % ellipses, enlarged {factor} times'

    def _draw_path(self, axes: Axes) -> None:
        if self.path is None or len(self.path) < 2:
            return
        from matplotlib.collections import LineCollection  # noqa: PLC0415
        from matplotlib.colors import LinearSegmentedColormap  # noqa: PLC0415

        legs = np.stack((self.path[:-1], self.path[1:]), axis=1)
        lines = LineCollection(
            list(legs),
            cmap=LinearSegmentedColormap.from_list('path', _PATH),
            linewidths=1.1,
            capstyle='round',
            zorder=2,
        )
        lines.set_array(np.linspace(0.0, 1.0, len(legs)))
        axes.add_collection(lines)

    def _draw_places(self, axes: Axes, places: Sequence[Place], dot: float, factor: int) -> None:
        for label in self._labels:
            colour = self._colour(label)
            firm = [place for place in places if place.label == label and not place.tentative]
            faint = [place for place in places if place.label == label and place.tentative]
            _draw_ellipses(axes, firm, colour, factor)
            x, y = _columns(firm)
            axes.scatter(x, y, s=dot, color=colour, edgecolors='white', linewidths=0.5, zorder=4)
            x, y = _columns(faint)
            axes.scatter(x, y, s=dot, facecolors='white', edgecolors=_FAINT, linewidths=0.9, zorder=3)

    def _draw_circle(self, axes: Axes) -> None:
        if self.circle is None:
            return
        from matplotlib.patches import Circle as Patch  # noqa: PLC0415

        centre = (self.circle.x_m, self.circle.y_m)
        # Twice: a faint area below the places, an outline above them.
        axes.add_patch(Patch(centre, self.circle.radius_m, color=_HERE, alpha=0.09, linewidth=0, zorder=1))
        axes.add_patch(Patch(centre, self.circle.radius_m, color=_HERE, fill=False, linewidth=1.3, zorder=5))
        axes.scatter([centre[0]], [centre[1]], marker='*', s=90, color=_HERE, edgecolors='white', zorder=6)

    def _draw_legend(self, axes: Axes) -> None:
        from matplotlib.lines import Line2D  # noqa: PLC0415

        def point(colour: str, text: str, **style: object) -> Line2D:
            look = {'marker': 'o', 'markersize': 5.5, 'markeredgecolor': 'white', **style}
            return Line2D([], [], linestyle='', color=colour, label=text, **look)  # type: ignore[arg-type]

        entries = [
            point(self._colour(label), f'{label or "unlabelled"} ({count})')
            for label in self._labels
            if (count := sum(place.label == label and not place.tentative for place in self.places))
        ]
        if tentative := sum(place.tentative for place in self.places):
            entries.append(point('white', f'not confirmed ({tentative})', markeredgecolor=_FAINT))
        if any(place.covariance for place in self.places):
            halo = {'markersize': 10.0, 'alpha': 0.25, 'markeredgewidth': 0.0}
            entries.append(point(_PALETTE[0], 'where it is with 95 %', **halo))
        if self.path is not None:
            entries.append(Line2D([], [], color=_PATH[1], linewidth=1.4, label='path, later is darker'))
        if self.circle is not None:
            entries.append(point(_HERE, 'here', marker='*', markersize=10))
        if entries:
            axes.legend(handles=entries, loc='best', fontsize=8, framealpha=0.92, edgecolor='#dfe5e8')

    @property
    def _labels(self) -> list[str]:
        return sorted({place.label for place in self.places})

    def _colour(self, label: str) -> str:
        return _PALETTE[self._labels.index(label) % len(_PALETTE)]


def _columns(places: Sequence[Place]) -> tuple[list[float], list[float]]:
    return [place.x_m for place in places], [place.y_m for place in places]


def _factor(places: Sequence[Place], size_m: float) -> int:
    """Return by how much ellipses must be enlarged to be seen in a panel; 1: not at all."""
    spreads = [max(place.covariance[0], place.covariance[2]) for place in places if place.covariance]
    if not spreads:
        return 1
    # A high quantile, not the maximum: one badly known place must not shrink all others.
    large_m = _SIGMAS_95 * math.sqrt(sorted(spreads)[int(0.9 * (len(spreads) - 1))])
    return next((factor for factor in _FACTORS if factor * large_m <= _VISIBLE * size_m), 1)


def _draw_ellipses(axes: Axes, places: Sequence[Place], colour: str, factor: int) -> None:
    from matplotlib.collections import EllipseCollection  # noqa: PLC0415

    known = [(place, place.covariance) for place in places if place.covariance is not None]
    if not known:
        return
    spreads = np.array([((xx, xy), (xy, yy)) for _, (xx, xy, yy) in known])
    lengths, directions = np.linalg.eigh(spreads)
    diameters = 2.0 * factor * _SIGMAS_95 * np.sqrt(np.maximum(lengths, 0.0))
    # `eigh` sorts by size: the last eigenvector is the long axis.
    longest = directions[:, :, 1]
    ellipses = EllipseCollection(
        diameters[:, 1],
        diameters[:, 0],
        np.degrees(np.arctan2(longest[:, 1], longest[:, 0])),
        units='xy',
        offsets=np.column_stack(_columns([place for place, _ in known])),
        offset_transform=axes.transData,
        facecolors=colour,
        edgecolors='none',
        alpha=0.22,
        zorder=3,
    )
    axes.add_collection(ellipses)


@with_filters('labels')
def plot(
    file: MemoryFile,
    output: Annotated[Path, typer.Option('-o', '--output', help='Picture to write: .png, .svg, .pdf.')],
    near: Center = None,
    radius: Radius = None,
    frame: Frame = 'map',
    map_id: MapId = None,
    as_of: AsOf = None,
    known_at: KnownAt = None,
    known_seq: KnownSeq = None,
    **filters: Any,
) -> None:
    """Draw where things are, with their uncertainty; --near and --radius add what is around a place."""
    # Before the file is read: a centre without a radius is an error of use, whatever the file holds.
    build_query(near, radius, frame, map_id)
    query = build_query(
        None, None, frame, map_id, kinds=frozenset({MemoryKind.SPATIAL}), as_of_ns=as_of,
        known_at_ns=known_at, known_seq=known_seq, k=MAX_K, **filters,
    )  # fmt: skip
    with open_memory_file(file) as memory:
        places = list(places_in(memory, query, frame))
    if not places:
        raise NotFoundError(f'plot: nothing in {file} has a place in the frame {frame!r}')
    circle = None
    if near is not None and radius is not None:
        x_m, y_m, _ = parse_center(near)
        circle = Circle(x_m, y_m, radius)
    MapPicture(places, title=f'{file.name}, frame {frame}', circle=circle).save(output)


def places_in(memory: MemoryService, query: MemoryQuery, frame_id: str) -> Iterator[Place]:
    """Yield the places of the hits of a query that lie in one frame, page by page."""
    while True:
        result = memory.query(query)
        for hit in result:
            if hit.item.pose is not None and hit.item.pose.frame_id == frame_id:
                yield place_of(hit.item.pose, hit.item.label)
        if result.cursor is None:
            return
        query = query.model_copy(update={'cursor': result.cursor})


def place_of(pose: Pose, label: str) -> Place:
    """Return the place that draws a pose."""
    covariance = pose.covariance
    spread = None if covariance is None else (covariance[0], covariance[1], covariance[7])
    return Place(pose.position[0], pose.position[1], label, spread)
