"""Search in one embedding space: exact, or through an approximate index (a generation) with exact reranking.

A generation is built in the background and swapped as a whole. Later vectors are compared exactly beside it.
Where it is missing, stale, corrupt or failing, the search is exact, and its evidence names the reason.
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
from hylo_memory_ros.index.vectors.artifact import (
    ArtifactError,
    Artifacts,
    BuildCancelledError,
    build_generation,
)
from hylo_memory_ros.index.vectors.generation import Generation
from hylo_memory_ros.index.vectors.hnsw import HnswCodes, usearch_installed
from hylo_memory_ros.index.vectors.metric import rank_estimates
from hylo_memory_ros.index.vectors.space_table import RankedRows, SpaceTable, VectorQuery, VectorSource
from hylo_memory_ros.model import CandidateEvidence
from hylo_memory_ros.model.embedding import EmbeddingSpace

logger = logging.getLogger(__name__)

_APPROXIMATE: Final = 'approximate_candidate_generation_with_exact_rerank'
# Candidates that the first stage over codes keeps for each that is reranked, and their minimum.
_COARSE, _LEAST = 8, 1024
# Minimum of reranked candidates: in few dimensions codes are coarse.
_POOL = 100
# Later vectors after which a generation is renewed: a number, and a share of its own.
_TAIL, _SHARE = 2048, 8


@dataclass(frozen=True, slots=True)
class SpaceContext:
    """Database services that a space needs."""

    source: VectorSource
    artifacts: Artifacts
    now: Callable[[], tuple[str, int]]
    """Returns epoch and sequence."""


class SpaceSearch:
    """One space with its backend and the thread that builds its generations."""

    def __init__(self, name: str, space: EmbeddingSpace, context: SpaceContext) -> None:
        require_exact_rerank(space.backend, exact_rerank=space.exact_rerank)
        # One attribute, so that a reader never sees a generation beside another table than its own.
        self._held: tuple[SpaceTable, Generation | None] = (SpaceTable(name, space, context.source), None)
        self._context = context
        self._reason = 'no generation is built yet'
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
        """Versions and vectors."""
        return self._held[0]

    @property
    def generation(self) -> Generation | None:
        """Derived generation in use, if any."""
        return self._held[1]

    @property
    def derived(self) -> bool:
        """True if the space has enough vectors for its declared derived backend."""
        space = self.table.space
        return space.backend != 'exact' and len(self.table.slots) > space.exact_up_to

    def search(
        self, query: VectorQuery, version_rows: NDArray[np.int64] | None
    ) -> tuple[RankedRows, CandidateEvidence]:
        """Return the most similar rows, and the evidence of the search."""
        table, generation = self._held
        if version_rows is not None or not self.derived or not query.k:
            return self._exact(table, query, version_rows)
        if generation is None:
            return self._exact(table, query, None, fallback=self._reason)
        try:
            return self._through(table, generation, query)
        except Exception as exc:
            logger.exception('the generation %s of %s failed', generation.id, self.table.name)
            with self._lock:
                if self.generation is generation:
                    self._drop(table, f'the generation failed: {exc}', 'corrupt')
            self.grown()
            return self._exact(table, query, None, fallback=self._reason)

    def _exact(
        self,
        table: SpaceTable,
        query: VectorQuery,
        version_rows: NDArray[np.int64] | None,
        fallback: str = '',
    ) -> tuple[RankedRows, CandidateEvidence]:
        ranked = table.exact(query, version_rows)
        evidence = CandidateEvidence(
            'exact',
            requested=query.k,
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
        self, table: SpaceTable, generation: Generation, query: VectorQuery
    ) -> tuple[RankedRows, CandidateEvidence]:
        pool = max(query.k * table.space.pool_factor, _POOL)
        if isinstance(generation.codes, HnswCodes):
            found = self._in_graph(table, generation, query, pool)
            if found is None:
                return self._exact(table, query, None, fallback='the graph returned too few candidates')
            positions, slots, returned = found
            scanned = returned
        else:
            chosen = self._in_codes(table, generation, query, pool)
            positions, slots = table.rows_of(query, chosen)
            returned, scanned = len(chosen), len(generation)
        fresh = len(table.slots) - len(generation)
        if fresh:
            late, late_slots = table.newest(query, len(generation), pool)
            positions, slots = np.concatenate([positions, late]), np.concatenate([slots, late_slots])
        ranked = table.rerank(query, positions, slots)
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
        self, table: SpaceTable, generation: Generation, query: VectorQuery, pool: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], int] | None:
        """Query the graph with growing counts until enough of its answer holds.

        Returns positions and slots of rows, and the number of vectors searched; None if too few are found.
        """
        assert isinstance(generation.codes, HnswCodes)
        count = pool
        while True:
            nearest = generation.codes.nearest(query.vector, count)
            if _distinct(nearest) < min(count, len(generation)):
                return None
            positions, slots = table.rows_of(query, nearest)
            if count >= len(generation) or _distinct(slots) >= pool:
                return positions, slots, len(nearest)
            if count * 8 > len(generation):
                return None
            count *= 4

    def _in_codes(
        self, table: SpaceTable, generation: Generation, query: VectorQuery, pool: int
    ) -> NDArray[np.int64]:
        """Scan the codes of the rows that hold, so that closed rows take no place in the pool."""
        codes = generation.codes
        assert not isinstance(codes, HnswCodes)
        allowed = np.zeros(len(table.slots), np.bool_)
        allowed[table.versions.slot.values[table.eligible(query, None)]] = True
        components = codes.components(query.vector)
        metric, norm = table.metric, float(np.linalg.norm(query.vector))
        wanted = max(_COARSE * pool, _LEAST)
        allowed = allowed[: len(generation)]
        if metric == 'cosine':
            coarse = codes.signs.nearest(components, wanted, allowed)
        else:
            angles = np.pi / table.space.dimension * codes.signs.differing(components).astype(np.float32)
            first = rank_estimates(metric, codes.radii * (norm * np.cos(angles)), codes.radii, norm)
            coarse = _best(np.where(allowed, first, -np.inf), min(wanted, int(allowed.sum())))
        if len(coarse) > pool:
            estimates = rank_estimates(metric, codes.products(components, coarse), codes.radii[coarse], norm)
            coarse = coarse[_best(estimates, pool)]
        return np.sort(coarse)

    def loaded(self) -> None:
        """Enable generations after a complete load: use the saved one if it fits, else build one."""
        self._loaded = True
        if not self.derived:
            self._context.artifacts.drop(self.table.name)
        self.grown()

    def grown(self) -> None:
        """Start to build a generation in the background if one is due."""
        with self._lock:
            if self._closing or not self._loaded or self._thread is not None or not self._due():
                return
            if self.table.space.backend == 'usearch' and not usearch_installed():
                self._reason = "usearch is not installed: pip install 'hylo-memory-ros[usearch]'"
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
            except BuildCancelledError:
                pass
            except Exception as exc:
                logger.exception('a generation of %s could not be built', self.table.name)
                with self._lock:
                    self._reason, failed = f'the build failed: {exc}', True

    def _renew(self, current: int, before: Generation | None) -> None:
        def check() -> None:
            if self._closing or self._round != current:
                raise BuildCancelledError

        table, context = self.table, self._context
        epoch, sequence = context.now()
        assertions = table.slots.assertion.values
        records = context.source.vector_records(table.name)
        known = {assertion: index for index, (assertion, _, _) in enumerate(records)}
        try:
            records = [records[known[assertion]] for assertion in assertions.tolist()]
        except KeyError:
            raise BuildCancelledError from None
        check()
        generation = None
        if before is None:
            try:
                generation = context.artifacts.load(table.name, table.space, epoch, sequence, records)
            except ArtifactError as exc:
                self._note(exc)
        if generation is None:
            generation, artifact = build_generation(table, records, (epoch, sequence), before, check)
            # `_drop` waits for a file that is being written, and deletes it too.
            with self._saving:
                check()
                try:
                    context.artifacts.save(table.name, artifact)
                except OSError as exc:
                    logger.warning('a generation of %s is not saved: %s', table.name, exc)
        with self._lock:
            check()
            self._held, self._reason, self._trouble = (table, generation), '', ''
            # A graph holds vectors nearly whole and saves time; codes are small and save memory.
            if not isinstance(generation.codes, HnswCodes):
                table.slots.release(len(generation))

    def _note(self, problem: ArtifactError) -> None:
        self._reason, self._trouble = str(problem), problem.kind
        if problem.kind != 'missing':
            logger.warning('the saved generation of %s is not used: %s', self.table.name, problem)

    def _drop(self, table: SpaceTable, reason: str, trouble: str = '') -> None:
        self._held, self._reason, self._trouble = (table, None), reason, trouble
        self._round += 1
        with self._saving:
            self._context.artifacts.drop(self.table.name)

    def remove(self, assertions: Sequence[int]) -> None:
        """Delete vectors and their versions for good, with every generation that holds them."""
        with self._lock:
            left = self.table.without(assertions)
            if left is not None:
                self._drop(left, 'the generation held deleted vectors and is being rebuilt')
        self.grown()

    def close(self) -> None:
        """Cancel a build and wait for its thread to end; safe to repeat."""
        with self._lock:
            self._closing = True
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()


def _distinct(values: NDArray[np.int64]) -> int:
    """Count distinct values of a short array."""
    return len(set(values.tolist()))


def _best(values: NDArray[np.floating[Any]], count: int) -> NDArray[np.int64]:
    """Return the positions of the `count` greatest values, in no order."""
    if not count:
        return np.empty(0, np.int64)
    return np.asarray(np.argpartition(values, -count)[-count:], np.int64)
