"""Parsing and formatting of times, and JSON lines for `--json`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from hylo_memory_ros.model import (
    MAX_STAMP_NS,
    AuditEntry,
    Change,
    Episode,
    Hit,
    QueryResult,
    SkillTransition,
    Stats,
    Version,
)

_NS_PER_S = 10**9
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_FORMS = (
    'seconds (1553575413.25), integer nanoseconds (1553575413250000000ns), '
    'or ISO 8601 with an offset (2019-03-26T04:43:33.25Z)'
)
_NANOSECONDS = re.compile(r'[+-]?[0-9]{1,30}ns')
_SECONDS = re.compile(r'[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?', re.IGNORECASE)
# `datetime.fromisoformat` of Python 3.10 reads neither Z nor nine digits of a fraction.
_ISO = re.compile(
    r'(?P<day>\d{4}-\d{2}-\d{2})[T ](?P<clock>\d{2}:\d{2}(?::\d{2})?)'
    r'(?:[.,](?P<fraction>\d{1,9}))?(?P<offset>Z|[+-]\d{2}:?\d{2})?',
    re.IGNORECASE | re.ASCII,
)


def parse_instant(text: str) -> int:
    """Parse a point in time, exactly.

    Parameters
    ----------
    text : str
        Seconds, integer nanoseconds with the suffix ``ns``, or ISO 8601 with an offset.

    Returns
    -------
    int
        Nanoseconds since the epoch of the memory's clock.

    Raises
    ------
    ValueError
        With the value and the rule: it is none of these, has no offset, or lies outside
        1970 to 2038-01-19.

    Examples
    --------
    >>> parse_instant('1.5'), parse_instant('17ns'), parse_instant('1970-01-01T01:00:02.5+01:00')
    (1500000000, 17, 2500000000)
    >>> parse_instant('2026-01-02T03:00')
    Traceback (most recent call last):
    ...
    ValueError: expected a time with an offset, got '2026-01-02T03:00', which has no offset: add Z, ...
    """
    stamp_ns = _parse(text.strip(), text)
    if not 0 <= stamp_ns <= MAX_STAMP_NS:
        raise ValueError(f'{text!r} lies outside 1970-01-01 to {format_instant(MAX_STAMP_NS)}')
    return stamp_ns


def _parse(bare: str, text: str) -> int:
    if _NANOSECONDS.fullmatch(bare):
        return int(bare.removesuffix('ns'))
    if iso := _ISO.fullmatch(bare):
        return _from_iso(iso, text)
    if _SECONDS.fullmatch(bare):
        seconds = Decimal(bare)
        # An exponent of a million would be computed for long; no stamp has more than ten digits.
        if abs(seconds.adjusted()) < 30:
            return round(seconds * _NS_PER_S)
    raise ValueError(f'expected {_FORMS}, got {text!r}')


def _from_iso(iso: re.Match[str], text: str) -> int:
    offset = iso['offset']
    if offset is None:
        raise ValueError(
            f'expected a time with an offset, got {text!r}, which has no offset: add Z, or one such as +01:00'
        )
    offset = '+00:00' if offset in 'Zz' else f'{offset[:3]}:{offset[-2:]}'
    try:
        whole = datetime.fromisoformat(f'{iso["day"]}T{iso["clock"]}{offset}')
    except ValueError as exc:
        raise ValueError(f'expected a point in time, got {text!r}: {exc}') from exc
    # `timestamp()` is a float and would lose nanoseconds.
    return (whole - _EPOCH) // timedelta(seconds=1) * _NS_PER_S + int((iso['fraction'] or '0').ljust(9, '0'))


def format_instant(stamp_ns: int | None, missing: str = '') -> str:
    """Return a point in time in ISO 8601, UTC, without trailing zeros; `parse_instant` reads it.

    Examples
    --------
    >>> format_instant(1_000_000_001_250_000_000)
    '2001-09-09T01:46:41.25Z'
    """
    if stamp_ns is None:
        return missing
    seconds, rest = divmod(stamp_ns, _NS_PER_S)
    whole = (_EPOCH + timedelta(seconds=seconds)).strftime('%Y-%m-%dT%H:%M:%S')
    fraction = f'.{rest:09d}'.rstrip('0').rstrip('.')
    return f'{whole}{fraction}Z'


def json_line(fields: Mapping[str, Any]) -> str:
    """Return one line of JSON; what has no JSON form becomes text."""
    return json.dumps(fields, ensure_ascii=False, allow_nan=False, default=str)


def hit_line(hit: Hit) -> dict[str, Any]:
    """Return a hit: the fields of its item, and how it answers."""
    return {
        **hit.item.model_dump(mode='json'),
        'valid_to_ns': hit.valid_to_ns,
        'status': hit.status,
        'ended_by': hit.ended_by,
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
    """Return the summary of an answer: totals, times, and counts of exclusions by reason."""
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
        'notes': list(result.notes),
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
        'ended_by': version.ended_by,
        'from_seq': version.from_seq,
        'to_seq': version.to_seq,
        'recorded_at_ns': version.recorded_at_ns,
        'superseded_at_ns': version.superseded_at_ns,
        'cause': version.cause,
        'superseded_cause': version.superseded_cause,
        'episode': version.episode,
        'is_asked': version.is_asked,
    }


def episode_line(one: Episode) -> dict[str, Any]:
    """Return an episode; what it has not yet is null."""
    return asdict(one)


def audit_line(entry: AuditEntry) -> dict[str, Any]:
    """Return the record of a removal."""
    return asdict(entry)


def change_line(change: Change) -> dict[str, Any]:
    """Return a transaction as an entry of the feed."""
    return asdict(change)
