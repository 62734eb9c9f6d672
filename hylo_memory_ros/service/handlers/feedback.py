"""Feedback handler: verdicts on items, and the helpfulness scorer at the end of an episode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import InvalidRequestError, NotFoundError, UnsupportedError
from hylo_memory_ros.model import MAX_K, Episode, FeedbackResult, MemoryKind, Verdict, validate_text
from hylo_memory_ros.model.feedback import VERDICTS
from hylo_memory_ros.service.core import MemoryCore
from hylo_memory_ros.service.validation import validate_fields, validate_names, validate_note
from hylo_memory_ros.storage.feedback import Judgement
from hylo_memory_ros.storage.unit_of_work import UnitOfWork

MAX_NOTE_BYTES = 4096
"""Most bytes of a note in UTF-8."""


class FeedbackHandler:
    """Records verdicts on remembered items.

    Parameters
    ----------
    core : MemoryCore
        State of the memory.
    """

    def __init__(self, core: MemoryCore) -> None:
        self._core = core

    def feedback(
        self,
        outcome: Verdict,
        *,
        receipt_id: str = '',
        ids: Sequence[str] = (),
        episode: str = '',
        note: str = '',
        actor: str = '',
    ) -> FeedbackResult:
        """Say whether remembered items helped; counted beside them, in `Hit.stats`.

        A verdict of the same receipt, item, episode and actor replaces the earlier one.

        Parameters
        ----------
        outcome : {'useful', 'misleading', 'wrong', 'not_applicable'}
            The verdict.
        receipt_id : str
            Receipt of the answer that the items were in; empty: they are named by their ids alone.
        ids : sequence of str
            The items; empty: all that the receipt answered, those of working memory aside.
        episode : str
            Episode in which it was so; empty: the open one, or where none is that of the receipt.
        note : str
            In words, at most `MAX_NOTE_BYTES`.
        actor : str
            Who says so.

        Raises
        ------
        NotFoundError
            There is no such receipt or episode, or an item that the memory does not know.
        UnsupportedError
            One of the ids is of working memory, which keeps no counts.
        InvalidRequestError
            Nothing is judged, too much is, the receipt did not answer one of the ids or has lost
            all of them to a purge, or a text is not sound. Nothing is counted.

        Examples
        --------
        >>> from hylo_memory_ros.model import MemoryItem, MemoryQuery
        >>> from hylo_memory_ros.service import MemoryService
        >>> with MemoryService.open() as memory:
        ...     _ = memory.write([MemoryItem(kind='semantic', key='dock', content='in the hall')])
        ...     answer = memory.query(MemoryQuery(key='dock'), receipt=True)
        ...     judged = memory.feedback('useful', receipt_id=answer.receipt_id)
        ...     helpfulness = memory.query(MemoryQuery(key='dock'))[0].stats.helpfulness
        ...     len(judged), helpfulness.useful, round(helpfulness.score, 3)
        (1, 1, 0.667)
        """
        validate_fields(validate_text, receipt_id=receipt_id, episode=episode)
        validate_names(actor=actor)
        validate_note(note, MAX_NOTE_BYTES)
        _refuse_senseless(outcome, receipt_id, ids)
        named = tuple(dict.fromkeys(ids))
        with self._core.changing():
            body: dict[str, Any] = {}
            if receipt_id:
                self._core.receipts.flush()
                body = self._retrieval(receipt_id)
                named = _answered(body, named)
            judgement = Judgement(
                receipt_id,
                outcome,
                self._episode_judged(episode, body),
                actor,
                note,
                self._core.store.now_ns(),
            )
            subjects = self._subjects(named)
            with self._core.store.begin_unnumbered(durable=True) as uow:
                replaced = uow.feedback.save(judgement, subjects, self._core.config.feedback_retention)
        return FeedbackResult(named, judgement.episode, replaced)

    def _retrieval(self, receipt_id: str) -> dict[str, Any]:
        try:
            body = self._core.receipts.get(receipt_id)
        except NotFoundError as exc:
            raise NotFoundError(
                f'receipt_id: there is no receipt {receipt_id!r}, or no longer', field='receipt_id'
            ) from exc
        if body['kind'] != 'retrieval':
            raise InvalidRequestError(
                f'receipt_id: {receipt_id!r} is of an association, which answered nothing', field='receipt_id'
            )
        return body

    def _episode_judged(self, given: str, body: dict[str, Any]) -> str:
        if not given:
            return self._core.episode or str(body.get('episode', ''))
        with self._core.store.read() as view:
            known = view.episodes.load(given)
        if known is None:
            raise NotFoundError(f'episode: there is no episode {given!r}', field='episode')
        return given

    def _subjects(self, ids: Sequence[str]) -> dict[str, str]:
        """Return what the counts of each id belong to.

        What has moved to the archive is not in the tables at hand, but in the history.
        """
        with self._core.store.read() as view:
            subjects = view.feedback.subjects(ids)
        for name in [name for name in ids if name not in subjects]:
            past = self._core.store.reader.history(
                item_id=name, kind=None, key=None, map_id=None, limit=1, offset=0
            )
            if not past:
                raise self._unknown(name)
            with self._core.store.read() as view:
                subjects[name] = view.feedback.subject(past[0].item)
        return subjects

    def _unknown(self, name: str) -> InvalidRequestError:
        """Return the refusal of an id that no statement has."""
        if name in self._core.working:
            return _unkept([name])
        of_key = name and self._core.store.reader.history(
            item_id=None, kind=None, key=name, map_id=None, limit=1, offset=0
        )
        hint = ', which is a key: ids are asked for, not keys' if of_key else ''
        return NotFoundError(f'ids: memory does not know {name!r:.200}{hint}', field='ids')


def _unkept(names: Sequence[str]) -> UnsupportedError:
    return UnsupportedError(f'ids: working memory keeps no counts: {_listed(names)}', field='ids')


def _refuse_senseless(outcome: str, receipt_id: str, ids: Sequence[str]) -> None:
    if outcome not in VERDICTS:
        raise InvalidRequestError(
            f'outcome: {outcome!r:.100} is none of {", ".join(VERDICTS)}', field='outcome'
        )
    if not receipt_id and not ids:
        raise InvalidRequestError('receipt_id, ids: both are empty, so nothing is judged', field='ids')
    if len(ids) > MAX_K:
        raise InvalidRequestError(f'ids: {len(ids)} are more than {MAX_K}', limit=MAX_K)
    validate_fields(validate_text, **{f'ids[{place}]': name for place, name in enumerate(ids)})


def _answered(body: dict[str, Any], named: tuple[str, ...]) -> tuple[str, ...]:
    """Return the ids that a verdict on a receipt is about, each of which it answered."""
    kinds = {hit['id']: hit['kind'] for hit in body['hits']}
    working = {name for name, kind in kinds.items() if kind == MemoryKind.WORKING.value}
    gone = f'; {body["purged"]} that it answered were purged' if body['purged'] else ''
    if not named:
        named = tuple(name for name in kinds if name not in working)
        if not named:
            kept = 'only working memory, which keeps no counts' if working else 'nothing'
            raise InvalidRequestError(f'receipt_id: {body["id"]!r} answered {kept}{gone}', field='receipt_id')
        return named
    strange = [name for name in named if name not in kinds]
    if strange:
        raise InvalidRequestError(
            f'ids: the receipt {body["id"]!r} did not answer {_listed(strange)}{gone}', field='ids'
        )
    if unkept := [name for name in named if name in working]:
        raise _unkept(unkept)
    return named


def _listed(ids: Sequence[str]) -> str:
    more = f' and {len(ids) - 3} more' if len(ids) > 3 else ''
    return ', '.join(f'{name!r:.200}' for name in ids[:3]) + more


class HelpfulnessScorer:
    """Listener to the ends of episodes: relates what an episode looked up to how the episode ended.

    Explicit verdicts weigh as they are. The outcome of an episode is weak evidence for or against everything
    that its receipts list: `EPISODE_WEIGHT` of a verdict, once for each item and episode. It is taken inside
    the transaction that ends the episode: both are stored, or neither.

    Parameters
    ----------
    config : MemoryConfig
        Names the outcomes that are success and those that are failure; any other one is ignored.
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
