"""What a landmark is: the label with the most votes, changed only when another one clearly leads."""

from __future__ import annotations

from collections.abc import Mapping

from hylo_memory_ros.landmarks.book import LandmarkBook

__all__ = ['vote', 'winner']

# Lead that another label needs: detectors that flicker between two would otherwise have it
# written again and again.
_LEAD = 1.5
_LEAD_VOTES = 1.0
# Detectors may make up labels for ever.
_LABELS_KEPT = 16


def vote(row: int, votes: Mapping[str, float], book: LandmarkBook) -> bool:
    """Add scores to those of a landmark; return whether its label changed."""
    scores, label = book.scores[row], book.labels[row]
    if len(votes) == 1 and label in votes:
        # The usual case, and what it confirms it does not change.
        scores[label] = scores.get(label, 0.0) + votes[label]
        return False
    for name, score in votes.items():
        scores[name] = scores.get(name, 0.0) + score
    if len(scores) > _LABELS_KEPT:
        kept = sorted(scores, key=lambda name: (-scores[name], name))[: _LABELS_KEPT - 1]
        book.scores[row] = {name: scores.get(name, 0.0) for name in sorted({*kept, label})}
    book.labels[row] = winner(label, book.scores[row])
    return book.labels[row] != label


def winner(label: str, scores: Mapping[str, float]) -> str:
    """Return the label that the scores speak for, given the one so far.

    Examples
    --------
    >>> winner('cup', {'cup': 4.0, 'mug': 5.0}), winner('cup', {'cup': 4.0, 'mug': 7.5})
    ('cup', 'mug')
    """
    best = min(scores, key=lambda name: (-scores[name], name), default=label)
    return best if scores.get(best, 0.0) > _LEAD * scores.get(label, 0.0) + _LEAD_VOTES else label
