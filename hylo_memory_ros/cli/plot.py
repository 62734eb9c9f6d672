"""What a memory looks like: `plot`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from hylo_memory_ros.cli.map_picture import Circle, MapPicture, Place
from hylo_memory_ros.cli.memory_file import opened
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
    centre_of,
    with_filters,
)
from hylo_memory_ros.errors import NotFoundError
from hylo_memory_ros.model import MAX_K, MemoryKind, MemoryQuery, Pose
from hylo_memory_ros.service import MemoryService

__all__ = ['place_of', 'places_in', 'plot']


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
    # Checked before the file is read: half of a circle is no circle.
    build_query(near, radius, frame, map_id)
    query = build_query(
        None, None, frame, map_id, kinds=frozenset({MemoryKind.SPATIAL}), as_of_ns=as_of,
        known_at_ns=known_at, known_seq=known_seq, k=MAX_K, **filters,
    )  # fmt: skip
    with opened(file) as memory:
        places = list(places_in(memory, query, frame))
    if not places:
        raise NotFoundError(f'plot: nothing in {file} has a place in the frame {frame!r}')
    circle = None
    if near is not None and radius is not None:
        x_m, y_m, _ = centre_of(near)
        circle = Circle(x_m, y_m, radius)
    MapPicture(places, title=f'{file.name}, frame {frame}', circle=circle).save(output)


def places_in(memory: MemoryService, query: MemoryQuery, frame_id: str) -> Iterator[Place]:
    """Yield what answers a query and has a place in one frame."""
    while True:
        result = memory.query(query)
        for hit in result:
            if hit.item.pose is not None and hit.item.pose.frame_id == frame_id:
                yield place_of(hit.item.pose, hit.item.label)
        if result.cursor is None:
            return
        query = query.model_copy(update={'cursor': result.cursor})


def place_of(pose: Pose, label: str) -> Place:
    """Return a pose as it is drawn."""
    covariance = pose.covariance
    spread = None if covariance is None else (covariance[0], covariance[1], covariance[7])
    return Place(pose.position[0], pose.position[1], label, spread)
