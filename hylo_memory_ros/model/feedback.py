"""Helpfulness of items: verdict counts and the score computed from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

Verdict = Literal['useful', 'misleading', 'wrong', 'not_applicable']
"""Verdict on a remembered item after it was used."""

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
COUNTS = (*VERDICTS, 'succeeded', 'failed', 'retrieved')
"""Names of the counts, as in `Helpfulness`."""

EPISODE_WEIGHT = 0.2
"""Weight of one episode in which an item was retrieved, beside one verdict on it.

That an episode went well is weak evidence for everything that was looked up in it.
"""
NEVER_JUDGED = 0.5
"""Score of an item without evidence."""


@dataclass(frozen=True, slots=True)
class Helpfulness:
    """Counts beside an item; not versioned, so no time travel applies to them."""

    useful: int = 0
    """Verdicts that it helped."""
    misleading: int = 0
    """Verdicts that it led astray."""
    wrong: int = 0
    """Verdicts that it was not true."""
    not_applicable: int = 0
    """Verdicts that it had nothing to do with the matter; these speak neither for it nor against it."""
    succeeded: int = 0
    """Episodes that ended well, in which it was retrieved."""
    failed: int = 0
    """Episodes that ended badly, in which it was retrieved."""
    retrieved: int = 0
    """Receipts that it was answered in."""
    last_ns: int | None = None
    """Service time of the latest of all that; None: never."""

    @property
    def evidence(self) -> tuple[float, float]:
        """Weight of the evidence for and against the item, in verdicts."""
        return (
            self.useful + EPISODE_WEIGHT * self.succeeded,
            self.misleading + self.wrong + EPISODE_WEIGHT * self.failed,
        )

    @property
    def score(self) -> float:
        """Probability that the item helps, 0 to 1: the mean of the posterior.

        The probability that it helps has a Beta(1, 1) prior (uniform), so after evidence f for it and a
        against it a Beta(1 + f, 1 + a) posterior with the mean (1 + f) / (2 + f + a): Laplace's rule of
        succession (Gelman et al., Bayesian Data Analysis, 2.1). Never judged: `NEVER_JUDGED`.

        Examples
        --------
        >>> Helpfulness().score, Helpfulness(useful=2).score, Helpfulness(wrong=2).score
        (0.5, 0.75, 0.25)
        """
        favour, against = self.evidence
        return (1.0 + favour) / (2.0 + favour + against)

    def as_dict(self) -> dict[str, Any]:
        """Return the counts and the score as a JSON object."""
        return {**asdict(self), 'score': self.score}


@dataclass(frozen=True, slots=True)
class FeedbackResult(Sequence[str]):
    """The items that a verdict was about."""

    ids: tuple[str, ...]
    """Their ids, in the order in which they were answered or named."""
    episode: str = ''
    """Episode that the verdict belongs to; empty: none."""
    replaced: int = 0
    """How many of them had an earlier verdict of the same receipt, episode and actor, which it replaces."""

    def __getitem__(self, index: Any) -> Any:
        """Return one id, or some."""
        return self.ids[index]

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self.ids)
