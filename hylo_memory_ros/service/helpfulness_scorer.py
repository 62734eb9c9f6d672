"""The scorer `memory_helpfulness`: relates what an episode looked up to how the episode ended.

Explicit verdicts weigh as they are. That an episode went well or badly is weak evidence for or
against everything that its receipts say was looked up in it: `EPISODE_WEIGHT` of a verdict, once for
each item and episode. It is taken inside the transaction that ends the episode: both are stored, or
neither.
"""

from __future__ import annotations

from typing import Literal

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.model import Episode
from hylo_memory_ros.storage.unit_of_work import UnitOfWork

__all__ = ['HelpfulnessScorer']


class HelpfulnessScorer:
    """A listener to the ends of episodes.

    Parameters
    ----------
    config : MemoryConfig
        Which outcomes are success and which are failure; of any other nothing follows.
    """

    def __init__(self, config: MemoryConfig) -> None:
        self._meaning: dict[str, Literal['succeeded', 'failed']] = {
            **{word.casefold(): 'succeeded' for word in config.helpfulness_success_outcomes},
            **{word.casefold(): 'failed' for word in config.helpfulness_failure_outcomes},
        }

    def __call__(self, uow: UnitOfWork, ended: Episode) -> None:
        """Count the end of an episode for all that was looked up in it."""
        verdict = self._meaning.get(ended.outcome.casefold())
        uow.feedback.score_episode(ended.id, verdict, ended.ended_ns or 0)
