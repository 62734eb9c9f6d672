"""Sightings: at most 64 of a landmark, thinned evenly; stored, moved and removed."""

from __future__ import annotations

import numpy as np
import pytest

from hylo_memory_ros.perception.map.sightings import SIGHTINGS_MAX, Sightings


def filled(count: int, landmark: int = 7) -> Sightings:
    sightings = Sightings()
    for keyframe in range(1, count + 1):
        slot = sightings.begin(landmark, keyframe, keyframe)
        sightings.state['mean'][slot] = keyframe
        sightings.state['n'][slot] = 1
    return sightings


@pytest.mark.parametrize('count', [1, 63, 64, 65, 128, 500, 5000])
def test_they_are_thinned_evenly_and_the_newest_stays(count: int) -> None:
    sightings = filled(count)
    kept = sightings.state['keyframe'][sightings.of(7)].tolist()
    assert len(kept) == len(sightings) <= SIGHTINGS_MAX
    assert len(kept) >= min(count, SIGHTINGS_MAX // 2)
    assert kept[0] == 1
    assert kept[-1] == count
    steps = set(np.diff(kept[:-1]).tolist())
    assert len(steps) <= 1


def test_what_is_stored_comes_back() -> None:
    sightings = filled(100)
    changes = sightings.take_changes()
    assert not sightings.take_changes()
    again = Sightings({name: [row[name] for row in changes.saved] for name in changes.saved[0]})
    fields = ['landmark', 'keyframe', 'origin', 'place', 'n', 'mean', 'information']
    for name in fields:
        ours, theirs = (one.state[name][one.of(7)].tolist() for one in (sightings, again))
        assert ours == theirs
    for keyframe in range(101, 200):
        sightings.begin(7, keyframe, keyframe)
    later = sightings.take_changes()
    stored = {(row['landmark'], row['keyframe'], row['origin']) for row in (*changes.saved, *later.saved)}
    left = stored - set(later.deleted)
    assert {keyframe for _, keyframe, _ in left} == set(sightings.state['keyframe'][sightings.of(7)].tolist())


def test_what_could_not_be_stored_is_stored_the_next_time() -> None:
    sightings = filled(3)
    changes = sightings.take_changes()
    sightings.remove(sightings.of(7)[:1])
    sightings.put_back(changes)
    assert [row['keyframe'] for row in sightings.take_changes().saved] == [2, 3]
    sightings.remove(sightings.of(7))
    changes = sightings.take_changes()
    assert [key[1] for key in changes.deleted] == [2, 3]
    sightings.put_back(changes)
    assert sightings.take_changes().deleted == changes.deleted


def test_given_to_another_they_remember_whose_they_were() -> None:
    sightings = filled(3)
    other = sightings.begin(9, 2, 2)
    sightings.take_changes()
    sightings.give(sightings.of(7), 9)
    assert sightings.of(7).tolist() == []
    state = sightings.state[sightings.of(9)]
    assert state['origin'].tolist() == [7, 7, 9, 7]
    assert state['keyframe'].tolist() == [1, 2, 2, 3]
    changes = sightings.take_changes()
    assert changes.deleted == [(7, 1, 7), (7, 2, 7), (7, 3, 7)]
    assert len(changes.saved) == 3
    sightings.give(np.array([slot for slot in sightings.of(9).tolist() if slot != other]), 7)
    assert len(sightings.of(7)) == 3
