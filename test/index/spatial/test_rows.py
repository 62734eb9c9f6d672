"""Rows in columns."""

from __future__ import annotations

import numpy as np
import pytest
from index.spatial.examples import row

from hylo_memory_ros.index.spatial import OPEN, RowBatch


def test_tuples_become_columns_and_no_end_becomes_open() -> None:
    batch = RowBatch.from_tuples(
        [
            (1, 7, 'lab', 'map', 1, 2.0, 3.0, 5, None, 1, None),
            (2, 8, 'hall', 'odom', None, 2.0, 3.0, 5, 6, 1, OPEN),
        ]
    )
    assert len(batch) == 2
    assert batch.valid_to_ns.tolist() == [OPEN, 6]
    assert batch.to_seq.tolist() == [OPEN, OPEN]
    assert batch.position.tolist()[0] == [1.0, 2.0, 3.0]
    assert np.isnan(batch.position[1, 0])
    assert tuple(batch.map_id) == ('lab', 'hall')


def test_rows_become_the_same_columns_and_none_become_empty_ones() -> None:
    rows = [row(1, 0.5, valid_to_ns=3), row(2, 1.5, to_seq=4)]
    batch = RowBatch.from_rows(rows)
    assert batch.version_row.tolist() == [1, 2]
    assert batch.valid_to_ns.tolist() == [3, OPEN]
    assert batch.to_seq.tolist() == [OPEN, 4]
    assert len(RowBatch.from_rows([])) == len(RowBatch.from_tuples([])) == 0


@pytest.mark.parametrize(
    'field', ['spatial_id', 'valid_from_ns', 'valid_to_ns', 'from_seq', 'to_seq', 'position', 'map_id']
)
def test_columns_of_unequal_length_are_refused_by_name(field: str) -> None:
    ones = np.ones(3, np.int64)
    columns = {
        'version_row': ones,
        'spatial_id': ones,
        'map_id': ['lab'] * 3,
        'frame_id': 'map',
        'position': np.zeros((3, 3)),
        'valid_from_ns': ones,
        'valid_to_ns': ones,
        'from_seq': ones,
        'to_seq': ones,
    }
    RowBatch(**columns)
    with pytest.raises(ValueError, match=field):
        RowBatch(**{**columns, field: columns[field][:2]})
