"""Skills as tests write them, and a clock that stands where it is put."""

from __future__ import annotations

from typing import Any

from hylo_memory_ros.model import MemoryItem

EVIDENCE = {
    'evidence': ['bag:dock_1', 'bag:dock_2', 'receipt:7'],
    'verdicts': {'useful': 8, 'misleading': 1, 'wrong': 0, 'not_applicable': 3},
}


def payload(status: str = 'proposed', **fields: Any) -> dict[str, Any]:
    """Return a sound payload; a verified one comes with its evidence."""
    sound: dict[str, Any] = {'params': {'speed': 0.2}, 'api_surface': 'hylo.tools@v1', 'status': status}
    if status == 'verified':
        sound |= EVIDENCE
    sound |= fields
    if 'code' in fields:
        del sound['params']
    return sound


def skill(status: str = 'proposed', key: str = 'dock', at: float | None = None, **fields: Any) -> MemoryItem:
    """Return a skill, from a time or from now on."""
    stamp = {} if at is None else {'valid_from': at}
    return MemoryItem(
        kind='skill', key=key, content=f'how to {key}', payload=payload(status, **fields), **stamp
    )
