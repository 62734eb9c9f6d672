"""Who pays for the archive: questions about now never open its file."""

from __future__ import annotations

from pathlib import Path

import pytest
from storage.archive.pieces import PAST, archive_all, archive_of, opened, rows_in, said

from hylo_memory_ros.errors import IdConflictError, StoreError
from hylo_memory_ros.model import MemoryQuery, Pose


class TestWhoPays:
    """Questions about now never open the archive file."""

    def test_a_question_about_now_does_without_it(self, path: Path) -> None:
        near = (Pose(frame_id='map', position=(0.0, 0.0, 0.0)), 5.0)
        with opened(path) as memory:
            memory.write([said('here', 900, 'O1', pose=near[0], kind='spatial')])
            memory._core.store.archive.close()
            aside = archive_of(path).rename(path.with_name('aside'))
            for query in (
                MemoryQuery(key='mug', k=1),
                MemoryQuery(text='colour', k=1),
                MemoryQuery(near=near, k=1),
                MemoryQuery(kinds=['spatial'], k=1),
                # What is left out is counted too, and of this key nothing is archived.
                MemoryQuery(key='O1', explain=True),
            ):
                assert memory.query(query).total == 1, query
            memory.write([said('colour 9', 950), said('here again', 950, 'O1', kind='spatial')])
            memory.forget(MemoryQuery(key='O1'))
            for act in (
                lambda: memory.query(PAST),
                lambda: memory.query(MemoryQuery(key='mug', known_seq=1)),
                lambda: memory.history(key='mug'),
            ):
                with pytest.raises(StoreError, match=str(archive_of(path))):
                    act()
            aside.rename(archive_of(path))
            assert memory.query(PAST)[0].item.content == 'colour 2'

    def test_a_late_fact_brings_the_past_back(self, path: Path) -> None:
        with opened(path) as memory:
            assert memory.write([said('colour 9', 900)]).events[0].event == 'INVALIDATE'
            assert rows_in(archive_of(path)) == 11
            late = memory.write([said('colour 2.5', 2.5)], dry_run=True)
            assert rows_in(archive_of(path)) == 11
            assert memory.write([said('colour 2.5', 2.5)]) == late
            assert rows_in(archive_of(path)) == 5
            assert [v.item.content for v in memory.history(key='mug').versions[-2:]] == [
                'colour 2',
                'colour 2.5',
            ]

    def test_an_archived_id_is_known(self, path: Path) -> None:
        with opened(path) as memory:
            item = memory.query(PAST)[0].item
            with pytest.raises(IdConflictError):
                memory.write([said('other', 2, id=item.id)])
            assert rows_in(archive_of(path)) == 11
            assert memory.write([item]).events[0].event == 'SKIP_DUP'

    def test_row_numbers_are_not_given_again(self, path: Path) -> None:
        with opened(path) as memory:
            memory.purge(MemoryQuery(key='mug'))
            memory.write([said('new', 1, 'cup')])
            assert archive_all(memory).assertions == 0
            assert memory.verify().ok
