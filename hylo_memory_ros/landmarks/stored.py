"""A whole book from the tables, and its changes back, in one transaction of somebody else."""

from __future__ import annotations

from sqlalchemy import Connection

from hylo_memory_ros.landmarks.book import LandmarkBook
from hylo_memory_ros.landmarks.changes import Numbering
from hylo_memory_ros.landmarks.keyframe import Keyframes
from hylo_memory_ros.landmarks.settings import LandmarkSettings
from hylo_memory_ros.landmarks.sighting import Sightings
from hylo_memory_ros.store.landmark import (
    delete_landmarks,
    load_landmarks,
    next_number,
    save_landmarks,
    save_next_number,
)
from hylo_memory_ros.store.sighting import (
    delete_sightings,
    load_keyframes,
    load_sightings,
    save_keyframes,
    save_sightings,
)

__all__ = ['load_book', 'store_book']


def load_book(connection: Connection, map_id: str, settings: LandmarkSettings) -> LandmarkBook:
    """Return the landmarks of a map as they are stored."""
    return LandmarkBook(
        map_id,
        max((source.gate_m for source in settings.inputs), default=1.0),
        Numbering(next_number(connection)),
        load_landmarks(connection, map_id),
        keyframes=Keyframes(settings, load_keyframes(connection, map_id)),
        sightings=Sightings(load_sightings(connection, map_id)),
    )


def store_book(connection: Connection, book: LandmarkBook) -> None:
    """Store what changed of a book."""
    changes = book.take_changes()
    delete_landmarks(connection, changes.deleted)
    save_landmarks(connection, changes.saved)
    save_keyframes(connection, book.map_id, changes.keyframes)
    delete_sightings(connection, changes.sightings.deleted)
    save_sightings(connection, changes.sightings.saved)
    numbers = [int(row['number']) + 1 for row in changes.saved]
    if changes.new:
        save_next_number(connection, max(next_number(connection), *numbers))
