"""How well detections were told apart: pairwise F1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

__all__ = ['Score', 'pairwise_score']


@dataclass(frozen=True, slots=True)
class Score:
    """Over all unordered pairs of detections: predicted the same, and truly the same."""

    precision: float
    """Pairs given to one landmark that are of one tree, among those given to one landmark."""
    recall: float
    """The same pairs, among those of one tree."""
    landmarks: int
    """Landmarks that at least one detection was given to."""
    unassigned: int
    """Detections given to none; each is a landmark of its own for the score."""

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        total = self.precision + self.recall
        return 2.0 * self.precision * self.recall / total if total else 0.0


def pairwise_score(given: Sequence[Hashable | None], true: Sequence[Hashable]) -> Score:
    """Score an assignment of detections.

    Parameters
    ----------
    given : sequence
        The landmark that each detection was given to; None: to none.
    true : sequence
        What each detection really is of.

    Examples
    --------
    >>> score = pairwise_score(['a', 'a', 'b', None], [1, 1, 1, 2])
    >>> score.precision, round(score.recall, 3), round(score.f1, 3), score.landmarks
    (1.0, 0.333, 0.5, 2)
    """
    named = [
        ('none', index) if landmark is None else ('some', landmark) for index, landmark in enumerate(given)
    ]
    both = _pairs(zip(named, true, strict=True))
    predicted, actual = _pairs(named), _pairs(true)
    return Score(
        precision=both / predicted if predicted else 1.0,
        recall=both / actual if actual else 1.0,
        landmarks=len({landmark for landmark in given if landmark is not None}),
        unassigned=sum(landmark is None for landmark in given),
    )


def _pairs(labels: Iterable[Hashable]) -> int:
    return sum(count * (count - 1) // 2 for count in Counter(labels).values())
