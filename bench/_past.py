"""Random questions about what was known before a sequence, and answers in a form that can be compared."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from hylo_memory_ros.model import Hit, MemoryItem, MemoryKind, MemoryQuery, Pose
from hylo_memory_ros.service import MemoryService

__all__ = ['answers', 'random_questions']


def random_questions(
    items: Sequence[MemoryItem], ids: Sequence[str], last_seq: int, count: int, seed: int
) -> list[MemoryQuery]:
    """Return questions of every kind, each about a sequence up to `last_seq`.

    Parameters
    ----------
    items, ids
        What was written, and under which ids.
    """
    rng = random.Random(seed)
    vectors = [vector for item in items for vector in item.embeddings.items()]
    kinds: list[Callable[[MemoryItem, str], dict[str, Any]]] = [
        lambda item, _: {'text': ' '.join(rng.sample(item.content.split(), 2))},
        lambda item, _: {'text': rng.choice(item.content.split()), 'labels': (item.label,)},
        lambda _, name: {'ids': (name,)},
        lambda _, __: {'ids': tuple(rng.sample(list(ids), 5))},
        lambda item, _: {'as_of_ns': _when(item) + rng.randrange(10**12)},
        lambda item, _: {'near': (_beside(item, rng), rng.uniform(0.5, 8.0)), 'any_map': True},
        lambda item, _: {'near': (_beside(item, rng), 5.0), 'text': item.label, 'any_map': True},
        lambda _, __: {'embedding': rng.choice(vectors)} if vectors else {},
        lambda item, _: {'entities': item.entities[:1]},
        lambda item, _: {'scope': dict(item.scope)},
        lambda item, _: {'time_range_ns': (_when(item) - 10**11, _when(item))},
        lambda item, _: {'include_invalidated': True, 'labels': (item.label,)},
        lambda _, __: {'kinds': frozenset({MemoryKind.EPISODIC})},
    ]
    questions = []
    for number in range(count):
        place = rng.randrange(len(items))
        asked = kinds[number % len(kinds)](items[place], ids[place])
        asked |= {'known_seq': rng.randrange(1, last_seq + 1), 'k': rng.choice((1, 5, 10))}
        questions.append(MemoryQuery(**asked))
    return questions


def _when(item: MemoryItem) -> int:
    return item.event_time.start_ns if item.event_time else item.valid_from_ns or 10**12


def _beside(item: MemoryItem, rng: random.Random) -> Pose:
    pose = item.pose or Pose(frame_id='map', position=(0.0, 0.0, 0.0))
    x, y, z = pose.position
    return Pose(frame_id=pose.frame_id, position=(x + rng.uniform(-1, 1), y + rng.uniform(-1, 1), z))


def answers(memory: MemoryService, questions: Sequence[MemoryQuery]) -> list[Any]:
    """Return all that is answered, in order, scores to the last bit."""
    told = []
    for question in questions:
        result = memory.query(question)
        told.append(
            (
                [_told(hit) for hit in result],
                result.total,
                result.truncated,
                dict(result.excluded),
                result.nearest_excluded_m,
            )
        )
    return told


def _told(hit: Hit) -> tuple[Any, ...]:
    scored = hit.score, dict(hit.details), hit.distance_m
    return hit.item.model_dump_json(), hit.valid_to_ns, hit.status, hit.sequence, scored
