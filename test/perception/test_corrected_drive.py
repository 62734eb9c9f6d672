"""A real drive on bare odometry: one corrected path makes trees of it, and taking that back undoes it all."""

from __future__ import annotations

from typing import Any

import pytest
from perception.pieces import an_input, feed, open_memory, recorded, some_settings

from demo.drive import Drive
from demo.odometry import BareOdometry, drive_messages, solved_path
from demo.score import pairwise_score
from hylo_memory_ros.perception import LandmarkPipeline


@pytest.mark.long
def test_a_corrected_path_makes_trees_of_a_drive_on_bare_odometry() -> None:
    drive = Drive.load()
    settings = some_settings(an_input('trees', sigma_m=0.5, gate_m=2.5), confirm_n=2)
    with open_memory(clock=lambda: 1_100_000_000 * 10**9, map_id='park') as memory:
        vehicle: Any = BareOdometry(drive)
        pipeline = LandmarkPipeline(memory, vehicle, settings, map_id='park')
        feed(pipeline, drive_messages(drive, 'trees', 'tree'), commit_every=200)
        pipeline.close()
        before, given = memory.snapshot(), recorded(memory)
        found = {}
        for every in (100, 50):
            done = pipeline.correct(solved_path(drive, every))
            score = pairwise_score([one.landmark for one in recorded(memory)], drive.trees.tolist())
            found[every] = score.f1, pipeline.status().landmarks
            pipeline.revert(done.correction_id)
            assert memory.snapshot() == before
            assert recorded(memory) == given
        assert found[100][0] >= 0.95
        assert found[100][1] <= 175
        assert found[50][0] >= 0.98
        assert found[50][1] <= 160
