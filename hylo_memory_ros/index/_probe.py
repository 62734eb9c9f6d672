"""How a tree is asked for the points near a centre.

`cKDTree.query_ball_point` spends more on the checking of its arguments than on the search of a million
points. `query_ball_tree` spends next to nothing, but wants the centre as a tree: so each thread keeps a
tree of one point, and moves that point. A tree of one point has nothing to be wrong about but the point
and the box around it; whether scipy reads both afresh is tried once, and if not, it is asked the usual way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
from scipy.spatial import cKDTree

from hylo_memory_ros.index._ball import Ball, Points

__all__ = ['near']


class Probe(threading.local):
    """A tree of one point for each number of axes; every thread sees its own."""

    def __init__(self) -> None:
        points = tuple(np.zeros((1, axes)) for axes in (2, 3))
        self._trees = tuple(cKDTree(point, copy_data=False) for point in points)
        self._places = tuple(
            (point, tree.mins, tree.maxes) for point, tree in zip(points, self._trees, strict=True)
        )
        for _, least, most in self._places:  # from scipy 1.18 on they are handed out read-only
            least.flags.writeable = most.flags.writeable = True

    def near(self, tree: cKDTree, ball: Ball) -> list[int]:
        """Find the points of a tree within the reach of the ball."""
        which = not ball.planar
        data, least, most = self._places[which]
        data[0] = least[:] = most[:] = ball.point
        found: list[int] = self._trees[which].query_ball_tree(tree, ball.reach)[0]
        return found


def ask(tree: cKDTree, ball: Ball) -> list[int]:
    """Find the points of a tree within the reach of the ball, the usual way."""
    # As an array of no dimensions the radius costs scipy 3 us less than as a float.
    found: list[int] = tree.query_ball_point(ball.point, np.array(ball.reach))
    return found


def agree(one: Callable[[cKDTree, Ball], list[int]], other: Callable[[cKDTree, Ball], list[int]]) -> bool:
    """Tell whether two ways to ask give the same answers."""
    for axes in (2, 3):
        points: Points = np.indices((9,) * axes, dtype=np.float64).reshape(axes, -1).T.copy()
        tree = cKDTree(points, leafsize=4)
        for x, radius in ((0.0, 1.5), (7.0, 2.5), (4.0, 0.5), (-3.0, 1.0), (4.0, 20.0)):
            ball = Ball((x, 8.0 - x, 4.0), radius, axes == 2)
            if sorted(one(tree, ball)) != sorted(other(tree, ball)):
                return False
    return True


def quickest() -> Callable[[cKDTree, Ball], list[int]]:
    """Choose how to ask: with the moved point where this scipy lets it be moved, else the usual way."""
    try:
        probe = Probe()
        return probe.near if agree(probe.near, ask) else ask
    except (AttributeError, TypeError, ValueError):
        return ask


near: Callable[[cKDTree, Ball], list[int]] = quickest()
