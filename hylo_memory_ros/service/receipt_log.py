"""Receipt log: stores receipts of retrievals in a background thread.

Threads: any may keep and read. One thread of its own turns what was answered into receipts and
stores them in batches; a purge waits for it, and nothing that it purged is stored afterwards.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import HyloMemoryError, NotFoundError, UnsupportedError
from hylo_memory_ros.evidence.receipts import RecordedQuery, query_facts, receipt_body
from hylo_memory_ros.model import Change
from hylo_memory_ros.service.event_bus import EventBus
from hylo_memory_ros.storage import SqliteStore
from hylo_memory_ros.storage.feedback import Retrieval
from hylo_memory_ros.storage.receipts import (
    ReceiptRepository,
    ReceiptRow,
    scrub_unknown,
)
from hylo_memory_ros.storage.unit_of_work import ReadView

logger = logging.getLogger(__name__)
_to_json = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(',', ':')).encode

# Beyond this a question that wants a receipt helps to store them.
_MOST_PENDING = 512
# What comes within this time is stored in one transaction.
_GATHER_S = 0.1


def new_receipt_id() -> str:
    """Return a name that no other receipt has."""
    return f'retrieval/{os.urandom(12).hex()}'


class ReceiptLog:
    """The receipts of one memory.

    Parameters
    ----------
    store : SqliteStore
        Where receipts are stored.
    config : MemoryConfig
        What is kept, and how much.
    changing : callable
        Returns the lock of writes, which a purge holds too.
    read_only : bool
        Nothing is stored; receipts last as long as the memory is open.
    """

    def __init__(
        self,
        store: SqliteStore,
        config: MemoryConfig,
        changing: Callable[[], AbstractContextManager[None]],
        *,
        read_only: bool,
    ) -> None:
        self._store, self._config, self._changing, self._read_only = store, config, changing, read_only
        self._pending: OrderedDict[str, RecordedQuery] = OrderedDict()
        # A listener that is too slow misses the oldest.
        self._untold: deque[RecordedQuery] = deque(maxlen=8 * _MOST_PENDING)
        self._kept: tuple[int, int] | None = None
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()
        self.purged_at = 0
        """Sequence of the last purge of this process; set under the lock of writes."""
        self.events = EventBus()
        """Publishes every retrieval as a change, in the thread of the receipts."""

    def wanted(self, requested: bool) -> bool:
        """Return True if a receipt of a retrieval is to be kept.

        Raises
        ------
        UnsupportedError
            One is requested, and receipts are off.
        """
        if requested and self._config.receipts == 'off':
            raise UnsupportedError(
                'receipt: this memory keeps none (parameter receipts: off)', field='receipt'
            )
        return requested or self._config.receipts == 'all'

    def keep(self, asked: RecordedQuery) -> None:
        """Take what was answered; it has a receipt from now on when it has an id of one."""
        with self._changed:
            if self.events.listeners:
                self._untold.append(asked)
            if asked.receipt_id:
                self._pending[asked.receipt_id] = asked
            full = len(self._pending) >= _MOST_PENDING
            if self._thread is None and not self._closed.is_set() and not self._idle():
                self._thread = threading.Thread(target=self._run, name='receipts', daemon=True)
                self._thread.start()
            self._changed.notify()
        if full:
            self.flush()

    def _idle(self) -> bool:
        return not self._untold and (self._read_only or not self._pending)

    def _due(self) -> bool:
        return self._closed.is_set() or not self._idle()

    def get(self, receipt_id: str) -> dict[str, Any]:
        """Return a receipt as a JSON object.

        Raises
        ------
        NotFoundError
            There is none of this id, or no longer.
        """
        with self._changed:
            asked = self._pending.get(receipt_id)
        if asked is not None:
            return receipt_body(asked)
        with self._store.read() as view:
            association = view.association_receipts.load(receipt_id)
            if association is not None:
                return association
            row = view.receipts.load(receipt_id)
        if row is None:
            raise NotFoundError(f'receipt: there is none of the id {receipt_id!r}, or no longer', field='id')
        body: dict[str, Any] = json.loads(row.body)
        return body

    def flush(self) -> None:
        """Store what is not stored yet; a failure is logged, and the oldest beyond a bound are lost."""
        if self._read_only:
            with self._changed:
                self._drop(_MOST_PENDING)
            return
        if not self._pending:
            return
        try:
            with self._changing(), self._store.begin_unnumbered() as uow:
                # Taken under the lock of writes: a purge that comes next finds everything in the table.
                with self._changed:
                    batch = list(self._pending.values())
                rows = [self._row(uow, recorded) for recorded in batch]
                uow.receipts.save(rows)
                uow.feedback.count_retrievals(list(map(_retrieval, batch)))
                self._bound(uow.receipts, len(rows), sum(len(row.body) for row in rows))
        except HyloMemoryError as exc:
            logger.warning('receipts are not stored yet: %s', exc)
            with self._changed:
                self._drop(4 * _MOST_PENDING)
            return
        with self._changed:
            for recorded in batch:
                self._pending.pop(recorded.receipt_id, None)

    def _drop(self, most: int) -> None:
        while len(self._pending) > most:
            self._pending.popitem(last=False)

    def _bound(self, receipts: ReceiptRepository, rows: int, size: int) -> None:
        """Let the oldest go now and then: looking at all receipts costs more than storing some."""
        most, most_bytes = self._config.receipt_retention, self._config.receipt_limit_bytes
        if self._kept is None:
            self._kept = receipts.size()
        else:
            self._kept = (self._kept[0] + rows, self._kept[1] + size)
        if self._kept[0] > most + most // 20 or self._kept[1] > most_bytes:
            receipts.expire(most, most_bytes - most_bytes // 20)
            self._kept = receipts.size()

    def recount(self) -> None:
        """Recount the receipts after another file took the place of the one before."""
        self._kept = None

    def _row(self, view: ReadView, asked: RecordedQuery) -> ReceiptRow:
        body = receipt_body(asked)
        if asked.store_sequence < self.purged_at:
            ids = {hit['id'] for hit in body['hits'] if hit['record'] is not None}
            gone = ids - view.statements.existing_ids(ids)
            scrub_unknown(body, gone - self._store.reader.archived_ids(gone))
        return ReceiptRow(asked.receipt_id, 'retrieval', asked.evaluated_at_ns, _to_json(body), asked.episode)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._due)
            # Outside the lock, and deaf to what comes: one transaction for all of it.
            self._closed.wait(_GATHER_S)
            with self._changed:
                untold = list(self._untold)
                self._untold.clear()
                closed = self._closed.is_set()
            try:
                for asked in untold:
                    self.events.publish(_change(asked))
                self.flush()
            except Exception:
                logger.exception('receipts could not be stored; later ones are tried again')
            if closed:
                return

    def close(self) -> None:
        """Store what is left and end the thread; safe to repeat."""
        with self._changed:
            self._closed.set()
            thread = self._thread
            self._changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join()


def _retrieval(asked: RecordedQuery) -> Retrieval:
    ids = tuple(hit.item.id or '' for hit in asked.result)
    return Retrieval(asked.episode, asked.evaluated_at_ns, ids)


def _change(asked: RecordedQuery) -> Change:
    result = asked.result
    hits = [{'id': hit.item.id, 'position': place, 'score': hit.score} for place, hit in enumerate(result)]
    extra: dict[str, Any] = {'query': query_facts(asked.query), 'hits': hits}
    if asked.receipt_id:
        extra['receipt_id'] = asked.receipt_id
    return Change(
        result.sequence,
        asked.evaluated_at_ns,
        'retrieval',
        tuple(hit.item.id or '' for hit in result),
        tuple(hit.item.key or '' for hit in result),
        episode=asked.episode,
        extra=extra,
    )
