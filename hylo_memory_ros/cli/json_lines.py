"""One JSON object a line: what `--json` prints, for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from hylo_memory_ros.model import Change, Episode, Hit, QueryResult, SkillTransition, Stats, Version

__all__ = [
    'change_line',
    'episode_line',
    'hit_line',
    'json_line',
    'summary_line',
    'transition_line',
    'version_line',
]


def json_line(fields: Mapping[str, Any]) -> str:
    """Return one line of JSON; what has no JSON form becomes text."""
    return json.dumps(fields, ensure_ascii=False, allow_nan=False, default=str)


def hit_line(hit: Hit) -> dict[str, Any]:
    """Return a hit: the fields of its item, and how it answers."""
    return {
        **hit.item.model_dump(mode='json'),
        'valid_to_ns': hit.valid_to_ns,
        'status': hit.status,
        'sequence': hit.sequence,
        'score': hit.score,
        'details': dict(hit.details),
        'distance_m': hit.distance_m,
        'stats': _stats(hit.stats),
        'episode': hit.episode,
    }


def _stats(stats: Stats | None) -> dict[str, Any] | None:
    if stats is None:
        return None
    helpfulness = stats.helpfulness
    return {**asdict(stats), 'helpfulness': None if helpfulness is None else helpfulness.as_dict()}


def summary_line(result: QueryResult) -> dict[str, Any]:
    """Return what an answer as a whole says: totals, times, and what was left out and why."""
    center = result.center_used
    return {
        'hits': len(result),
        'total': result.total,
        'total_is_lower_bound': result.total_is_lower_bound,
        'truncated': result.truncated,
        'cursor': result.cursor,
        'sequence': result.sequence,
        'as_of_ns': result.as_of_ns,
        'excluded': dict(result.excluded),
        'nearest_excluded_m': result.nearest_excluded_m,
        'center_used': None if center is None else center.model_dump(mode='json', exclude_none=True),
        'purged': result.purged,
    }


def transition_line(step: SkillTransition) -> dict[str, Any]:
    """Return one step of a skill through its gate."""
    return asdict(step)


def version_line(version: Version) -> dict[str, Any]:
    """Return a version: the fields of its item, and both of its intervals."""
    return {
        **version.item.model_dump(mode='json'),
        'valid_from_ns': version.valid_from_ns,
        'valid_to_ns': version.valid_to_ns,
        'forgotten': version.forgotten,
        'from_seq': version.from_seq,
        'to_seq': version.to_seq,
        'recorded_at_ns': version.recorded_at_ns,
        'superseded_at_ns': version.superseded_at_ns,
        'cause': version.cause,
        'superseded_cause': version.superseded_cause,
        'episode': version.episode,
    }


def episode_line(one: Episode) -> dict[str, Any]:
    """Return an episode; what it has not yet is null."""
    return asdict(one)


def change_line(change: Change) -> dict[str, Any]:
    """Return a transaction as the feed tells it."""
    return asdict(change)
