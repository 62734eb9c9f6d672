"""What has helped: judging an answer of a hundred, and what weighing and filtering by it costs a question."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bench._figure import at_most, medians, ratio
from hylo_memory_ros.model import MemoryItem, MemoryQuery, Pose
from hylo_memory_ros.service import MemoryService

ITEMS = 10_000
JUDGED = 2_000
AREA_M = 100.0
VERDICTS = ('useful', 'misleading', 'wrong', 'not_applicable')


@contextmanager
def hall(name: str, *, judged: int) -> Iterator[MemoryService]:
    """Open a memory of 10 000 things in a hall of 100 m, some of them judged."""
    rng = np.random.default_rng(11)
    with tempfile.TemporaryDirectory() as folder:
        url = f'sqlite:///{Path(folder) / name}.db'
        with MemoryService.open(url, clock=lambda: 2 * 10**18) as memory:
            items = [
                MemoryItem(
                    kind='spatial',
                    key=f'thing/{number}',
                    label=('mug', 'lamp')[number % 2],
                    content=f'thing {number}',
                    valid_from_ns=10**18 + number,
                    pose=Pose(frame_id='map', position=(x, y, 0.0)),
                )
                for number, (x, y) in enumerate(rng.uniform(0.0, AREA_M, (ITEMS, 2)).tolist())
            ]
            ids = memory.write(items).ids
            for part, verdict in zip(np.array_split(ids[:judged], len(VERDICTS)), VERDICTS, strict=True):
                if len(part):
                    memory.feedback(verdict, ids=part.tolist())
            yield memory


def judging() -> Iterator[dict[str, Any]]:
    """A verdict on the hundred hits of a receipt, acknowledged: stored durably."""
    with hall('judging', judged=0) as memory:
        answer = memory.query(MemoryQuery(labels=('mug',), k=100), receipt=True)

        def judge(number: int) -> None:
            verdict = VERDICTS[number % len(VERDICTS)]
            assert len(memory.feedback(verdict, receipt_id=answer.receipt_id, actor=str(number))) == 100

        def write(number: int) -> None:
            memory.write(
                [MemoryItem(kind='semantic', key=f'{number}/{i}', content='a fact') for i in range(100)]
            )

        judged = medians(100, judge, write)
        yield at_most(
            'feedback on 100 ids / write of 100 items', ratio(judged), 1.0, ms=round(1e3 * judged[0], 2)
        )


def asking() -> Iterator[dict[str, Any]]:
    """Questions to 10 000 items, 2 000 of them judged, against the same to a memory without a verdict."""
    rng = np.random.default_rng(12)
    centres = rng.uniform(10.0, AREA_M - 10.0, (400, 2)).tolist()

    def near(number: int, **fields: Any) -> MemoryQuery:
        x, y = centres[number]
        return MemoryQuery(near=(Pose(frame_id='map', position=(x, y, 0.0)), 5.0), **fields)

    with hall('judged', judged=JUDGED) as judged, hall('plain', judged=0) as plain:
        weights = {'helpfulness': 1.0}
        beside = medians(400, lambda n: judged.query(near(n)), lambda n: plain.query(near(n)))
        yield at_most('plain question near a place, judged / no verdicts', ratio(beside), 1.25)
        weighed = medians(
            200,
            lambda n: judged.query(near(n, weights=weights)),
            lambda n: judged.query(near(n, weights={'confidence': 1.0})),
            lambda n: judged.query(near(n)),
        )
        yield at_most(
            'near a place and by helpfulness / by confidence', ratio(weighed[:2]), 2.0,
            ms=round(1e3 * weighed[0], 3), near_alone_ms=round(1e3 * weighed[2], 3),
        )  # fmt: skip
        everything = medians(
            10,
            lambda _: judged.query(MemoryQuery(labels=('mug', 'lamp'), weights=weights)),
            lambda _: judged.query(MemoryQuery(labels=('mug', 'lamp'), weights={'confidence': 1.0})),
            lambda _: judged.query(MemoryQuery(labels=('mug', 'lamp'))),
        )
        yield at_most(
            'all 10 000 by helpfulness / by confidence', ratio(everything[:2]), 2.0,
            ms=round(1e3 * everything[0], 1), unranked_ms=round(1e3 * everything[2], 1),
        )  # fmt: skip
        least = medians(
            10,
            lambda _: judged.query(MemoryQuery(labels=('mug', 'lamp'), min_helpfulness=0.5)),
            lambda _: judged.query(MemoryQuery(labels=('mug', 'lamp'))),
        )
        yield at_most('filter by helpfulness / without, 10 000 items', ratio(least), 2.5)


FIGURES = {'judging': judging, 'asking': asking}
