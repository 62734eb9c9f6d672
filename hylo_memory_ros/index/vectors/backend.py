"""How one space is searched: exactly, or through a derived generation that is always reranked exactly.

A generation is built in the background and swapped whole. What was written since is compared exactly
beside it. Where it is missing, stale, corrupt or failing, the exact way is taken, and said so.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.domain.identity import require_exact_rerank
from hylo_memory_ros.index.vectors._building import AbandonedError, built
from hylo_memory_ros.index.vectors._space import Asking, Compared, SpaceTable
from hylo_memory_ros.index.vectors._store import VectorSource
from hylo_memory_ros.index.vectors.artifact import ArtifactError, Artifacts
from hylo_memory_ros.index.vectors.evidence import CandidateEvidence
from hylo_memory_ros.index.vectors.generation import Generation
from hylo_memory_ros.index.vectors.hnsw import GraphCodes, usearch_installed
from hylo_memory_ros.index.vectors.metric import estimated
from hylo_memory_ros.model.embedding import EmbeddingSpace

__all__ = ['Searched', 'Surroundings']

logger = logging.getLogger(__name__)

_APPROXIMATE: Final = 'approximate_candidate_generation_with_exact_rerank'
# The first stage over codes keeps so many for each that is reranked, and at least so many.
_COARSE, _LEAST = 8, 1024
# In few dimensions codes are coarse: of few hits asked for, still so many are compared.
_POOL = 100
# A generation is renewed when so many vectors, or this part of it, came after it.
_TAIL, _SHARE = 2048, 8


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a space needs of the database around it."""

    source: VectorSource
    artifacts: Artifacts
    now: Callable[[], tuple[str, int]]
    """Returns epoch and sequence."""


class Searched:
    """One space with its backend."""

    def __init__(self, name: str, space: EmbeddingSpace, around: Surroundings) -> None:
        require_exact_rerank(space.backend, exact_rerank=space.exact_rerank)
        # One attribute, so that a reader never sees a generation beside a table that it is not of.
        self._held: tuple[SpaceTable, Generation | None] = (SpaceTable(name, space, around.source), None)
        self._around = around
        self._why = 'no generation is built yet'
        self._trouble = ''
        self._lock = threading.RLock()
        self._saving = threading.Lock()
        self._thread: threading.Thread | None = None
        self._idle = threading.Event()
        self._idle.set()
        self._round = 0
        self._loaded = False
        self._closing = False

    @property
    def table(self) -> SpaceTable:
        """The versions and vectors."""
        return self._held[0]

    @property
    def generation(self) -> Generation | None:
        """The derived generation that is searched; None: there is none."""
        return self._held[1]

    @property
    def derived(self) -> bool:
        """Whether there are enough vectors for the derived backend that is declared."""
        space = self.table.space
        return space.backend != 'exact' and len(self.table.slots) > space.exact_up_to

    def search(
        self, asked: Asking, version_rows: NDArray[np.int64] | None
    ) -> tuple[Compared, CandidateEvidence]:
        """Return the most similar rows, and how they were found."""
        table, generation = self._held
        if version_rows is not None or not self.derived or not asked.k:
            return self._exact(table, asked, version_rows)
        if generation is None:
            return self._exact(table, asked, None, fallback=self._why)
        try:
            return self._through(table, generation, asked)
        except Exception as exc:
            logger.exception('the generation %s of %s failed', generation.id, self.table.name)
            with self._lock:
                if self.generation is generation:
                    self._drop(table, f'the generation failed: {exc}', 'corrupt')
            self.grown()
            return self._exact(table, asked, None, fallback=self._why)

    def _exact(
        self, table: SpaceTable, asked: Asking, version_rows: NDArray[np.int64] | None, fallback: str = ''
    ) -> tuple[Compared, CandidateEvidence]:
        ranked = table.exact(asked, version_rows)
        evidence = CandidateEvidence(
            'exact',
            requested=asked.k,
            returned=ranked.matching,
            after_filter=ranked.matching,
            scanned=ranked.scanned,
            missing=ranked.missing,
            reranked=ranked.reranked,
            fallback=fallback,
        )
        if fallback:
            degraded = (f'{table.space.backend} was not used: {fallback}',)
            count = len(table.slots)
            evidence = replace(
                evidence,
                degradations=degraded,
                stale=count if self._trouble == 'stale' else 0,
                corrupt=count if self._trouble == 'corrupt' else 0,
            )
        return ranked, evidence

    def _through(
        self, table: SpaceTable, generation: Generation, asked: Asking
    ) -> tuple[Compared, CandidateEvidence]:
        pool = max(asked.k * table.space.pool_factor, _POOL)
        if isinstance(generation.codes, GraphCodes):
            found = self._in_graph(table, generation, asked, pool)
            if found is None:
                return self._exact(table, asked, None, fallback='the graph gave fewer than were asked for')
            places, slots, returned = found
            scanned = returned
        else:
            chosen = self._in_codes(table, generation, asked, pool)
            places, slots = table.rows_of(asked, chosen)
            returned, scanned = len(chosen), len(generation)
        fresh = len(table.slots) - len(generation)
        if fresh:
            late, late_slots = table.newest(asked, len(generation), pool)
            places, slots = np.concatenate([places, late]), np.concatenate([slots, late_slots])
        ranked = table.rerank(asked, places, slots)
        return ranked, CandidateEvidence(
            table.space.backend,
            generation_id=generation.id,
            requested=pool,
            returned=returned + fresh,
            after_filter=ranked.matching,
            scanned=scanned + fresh,
            missing=fresh,
            stale=ranked.missing,
            reranked=ranked.reranked,
            exactness=_APPROXIMATE,
        )

    def _in_graph(
        self, table: SpaceTable, generation: Generation, asked: Asking, pool: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], int] | None:
        """Ask the graph for more until enough of what it gives holds; None: it does not give enough.

        Gives places and slots of rows, and how many vectors they are from.
        """
        assert isinstance(generation.codes, GraphCodes)
        count = pool
        while True:
            nearest = generation.codes.nearest(asked.query, count)
            if _distinct(nearest) < min(count, len(generation)):
                return None
            places, slots = table.rows_of(asked, nearest)
            if count >= len(generation) or _distinct(slots) >= pool:
                return places, slots, len(nearest)
            if count * 8 > len(generation):
                return None
            count *= 4

    def _in_codes(
        self, table: SpaceTable, generation: Generation, asked: Asking, pool: int
    ) -> NDArray[np.int64]:
        """Scan the codes of what holds: nothing that is closed takes a place in the pool."""
        codes = generation.codes
        assert not isinstance(codes, GraphCodes)
        allowed = np.zeros(len(table.slots), np.bool_)
        allowed[table.versions.slot.values[table.eligible(asked, None)]] = True
        components = codes.components(asked.query)
        metric, norm = table.metric, float(np.linalg.norm(asked.query))
        wanted = max(_COARSE * pool, _LEAST)
        allowed = allowed[: len(generation)]
        if metric == 'cosine':
            coarse = codes.signs.nearest(components, wanted, allowed)
        else:
            angles = np.pi / table.space.dimension * codes.signs.differing(components).astype(np.float32)
            first = estimated(metric, codes.radii * (norm * np.cos(angles)), codes.radii, norm)
            coarse = _best(np.where(allowed, first, -np.inf), min(wanted, int(allowed.sum())))
        if len(coarse) > pool:
            estimates = estimated(metric, codes.products(components, coarse), codes.radii[coarse], norm)
            coarse = coarse[_best(estimates, pool)]
        return np.sort(coarse)

    def loaded(self) -> None:
        """Follow a complete load: take the saved generation if it fits, else build one."""
        self._loaded = True
        if not self.derived:
            self._around.artifacts.drop(self.table.name)
        self.grown()

    def grown(self) -> None:
        """Build a generation in the background where one is due."""
        with self._lock:
            if self._closing or not self._loaded or self._thread is not None or not self._due():
                return
            if self.table.space.backend == 'usearch' and not usearch_installed():
                self._why = "usearch is not installed: pip install 'hylo-memory-ros[usearch]'"
                return
            thread = threading.Thread(target=self._run, name='vectors-build')
            self._idle.clear()
            try:
                thread.start()
            except RuntimeError:
                self._idle.set()
            else:
                self._thread = thread

    def wait_idle(self, timeout_s: float | None = None) -> bool:
        """Wait until nothing is being built; False after the timeout."""
        return self._idle.wait(timeout_s)

    def _due(self) -> bool:
        if not self.derived:
            return False
        if self.generation is None:
            return True
        tail = len(self.table.slots) - len(self.generation)
        return tail > max(_TAIL, len(self.generation) // _SHARE)

    def _run(self) -> None:
        failed = False
        while True:
            with self._lock:
                if self._closing or failed or not self._due():
                    self._thread = None
                    self._idle.set()
                    return
                current, before = self._round, self.generation
            try:
                self._renew(current, before)
            except AbandonedError:
                pass
            except Exception as exc:
                logger.exception('a generation of %s could not be built', self.table.name)
                with self._lock:
                    self._why, failed = f'the build failed: {exc}', True

    def _renew(self, current: int, before: Generation | None) -> None:
        def check() -> None:
            if self._closing or self._round != current:
                raise AbandonedError

        table, around = self.table, self._around
        epoch, sequence = around.now()
        assertions = table.slots.assertion.values
        records = around.source.vector_records(table.name)
        known = {assertion: index for index, (assertion, _, _) in enumerate(records)}
        try:
            records = [records[known[assertion]] for assertion in assertions.tolist()]
        except KeyError:
            raise AbandonedError from None
        check()
        generation = None
        if before is None:
            try:
                generation = around.artifacts.load(table.name, table.space, epoch, sequence, records)
            except ArtifactError as exc:
                self._note(exc)
        if generation is None:
            generation, artifact = built(table, records, (epoch, sequence), before, check)
            # Who drops generations waits for a file that is being written, and drops it too.
            with self._saving:
                check()
                try:
                    around.artifacts.save(table.name, artifact)
                except OSError as exc:
                    logger.warning('a generation of %s is not saved: %s', table.name, exc)
        with self._lock:
            check()
            self._held, self._why, self._trouble = (table, generation), '', ''
            # A graph holds vectors nearly whole and saves time; codes are small and save memory.
            if not isinstance(generation.codes, GraphCodes):
                table.slots.release(len(generation))

    def _note(self, problem: ArtifactError) -> None:
        self._why, self._trouble = str(problem), problem.kind
        if problem.kind != 'missing':
            logger.warning('the saved generation of %s is not used: %s', self.table.name, problem)

    def _drop(self, table: SpaceTable, why: str, trouble: str = '') -> None:
        self._held, self._why, self._trouble = (table, None), why, trouble
        self._round += 1
        with self._saving:
            self._around.artifacts.drop(self.table.name)

    def remove(self, assertions: Sequence[int]) -> None:
        """Delete vectors and their versions for good, and every generation that holds them."""
        with self._lock:
            left = self.table.without(assertions)
            if left is not None:
                self._drop(left, 'the generation held what was deleted, and is being rebuilt')
        self.grown()

    def close(self) -> None:
        """Drop what is being built, and wait for the thread to end; safe to repeat."""
        with self._lock:
            self._closing = True
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()


def _distinct(values: NDArray[np.int64]) -> int:
    """Return how many of a few values are distinct."""
    return len(set(values.tolist()))


def _best(values: NDArray[np.floating[Any]], count: int) -> NDArray[np.int64]:
    """Return the places of the `count` greatest values, in no order."""
    if not count:
        return np.empty(0, np.int64)
    return np.asarray(np.argpartition(values, -count)[-count:], np.int64)
