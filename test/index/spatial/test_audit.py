"""Holding the index against the store."""

from __future__ import annotations

from dataclasses import replace

import pytest
from index.spatial.examples import row, scattered, settle

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.index.spatial import RowBatch, SpatialIndex


def test_verify_names_what_is_missing_what_is_extra_and_what_differs(index: SpatialIndex) -> None:
    rows = scattered(3000, seed=7)
    index.apply(1, rows)
    settle(index)
    index.apply(2, [row(5000, 1.0, from_seq=2)], ended=[10])
    truth = [replace(r, to_seq=2) if r.version_row == 10 else r for r in rows] + [row(5000, 1.0, from_seq=2)]
    assert index.verify([RowBatch.from_rows(truth[:700]), RowBatch.from_rows(truth[700:])], 2) == ()
    # As of an older sequence too: what came later is no difference.
    assert index.verify([RowBatch.from_rows(rows)], 1) == ()
    assert index.verify([RowBatch.from_rows(truth)], 1) == ()
    wrong = [
        replace(truth[0], x=truth[0].x + 1e-9),
        replace(truth[1], valid_to_ns=7, spatial_id=9999),
        replace(truth[2], map_id='hall'),
        *truth[4:],
        row(6000, 0.0),
    ]
    found = {d.version_row: (d.kind, d.fields) for d in index.verify([RowBatch.from_rows(wrong)], 2)}
    assert found == {
        1: ('differs', ('position',)),
        2: ('differs', ('valid_to_ns', 'spatial_id')),
        3: ('differs', ('place',)),
        4: ('extra', ()),
        6000: ('missing', ()),
    }
    assert len(index.verify([], 2, limit=5)) == 5
    with pytest.raises(InvalidRequestError, match='sequence'):
        index.verify([], 3)
