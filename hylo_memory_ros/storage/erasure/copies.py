"""Record of copies of a memory, which a purge reports and cannot reach."""

from __future__ import annotations

import json
from pathlib import Path

from hylo_memory_ros.storage.engine.files import unfinished_of
from hylo_memory_ros.storage.engine.state import StateTable

__all__ = ['KEPT', 'copies_beside', 'copies_since', 'note_copies', 'noted_copies', 'remove_unfinished']

KEPT = '.before-restore-'
"""What the name of a memory that a restore replaced has, between its own and the time."""

_STATE = 'copies'
_MOST = 1000


def noted_copies(state: StateTable) -> dict[str, int]:
    """Return the copies that were made, each with the newest transaction that may be in it."""
    noted: dict[str, int] = json.loads(state.get(_STATE, b'{}'))
    return noted


def note_copies(state: StateTable, copies: dict[str, int]) -> None:
    """Remember copies; those that are known to be gone are forgotten, and the oldest beyond a bound."""
    noted = {path: seq for path, seq in (noted_copies(state) | copies).items() if _standing(path)}
    noted |= copies
    newest = dict(sorted(noted.items(), key=lambda one: one[1])[-_MOST:])
    state.put(_STATE, json.dumps(newest, ensure_ascii=False).encode())


def copies_since(state: StateTable, sequence: int) -> list[str]:
    """Return the copies that may hold what a transaction wrote, but those that are known to be gone."""
    noted = (path for path, seq in noted_copies(state).items() if seq >= sequence)
    return [one for path in noted for one in _standing(path)]


def _standing(path: str) -> list[str]:
    """Return the files that a copy is in: its own, or one that a killed process did not finish."""
    copy = Path(path)
    try:
        # On a disk that is not mounted it may well be.
        if not copy.parent.is_dir():
            return [path]
        return [str(one) for one in (copy, unfinished_of(copy)) if one.exists()]
    except OSError:
        return [path]


def copies_beside(path: Path) -> list[str]:
    """Return the files beside one of a memory that a restore kept."""
    if not path.parent.is_dir():
        return []
    return [str(one) for one in path.parent.iterdir() if one.name.startswith(path.name + KEPT)]


def remove_unfinished(path: Path) -> None:
    """Delete what a restore left beside a memory when it was killed."""
    for one in path.parent.iterdir():
        if one.name.startswith((f'.{path.name}.restored', f'..{path.name}.restored.new')):
            one.unlink(missing_ok=True)
