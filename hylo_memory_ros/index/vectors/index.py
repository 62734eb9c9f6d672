"""Vector index of all embedding spaces: exact search, and derived candidates where they are faster.

Threads: one writer at a time calls `apply` and `remove`; any number of readers search; one thread loads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.errors import InvalidRequestError, LoadingError
from hylo_memory_ros.index.spatial.rows import OPEN
from hylo_memory_ros.index.vectors.artifact import Artifacts
from hylo_memory_ros.index.vectors.space_search import SpaceContext, SpaceSearch
from hylo_memory_ros.index.vectors.space_table import VectorQuery, VectorRow, VectorSource, VersionTuple
from hylo_memory_ros.model import CandidateEvidence, MemoryItem
from hylo_memory_ros.model.embedding import MIN_NORM, EmbeddingSpace, undeclared_space

_Change = Callable[[], None]


@dataclass(frozen=True, slots=True)
class VectorHits:
    """Version rows, most similar first; ties by the newest ``valid_from``, then the row."""

    version_rows: NDArray[np.int64]
    """Shape (n,)."""
    similarities: NDArray[np.float64]
    """Shape (n,), by the metric of the space, always higher is better; see `metric`."""
    sequence: int
    """Transaction as of which the rows are believed."""
    evidence: CandidateEvidence
    """Evidence of the search."""


class VectorIndex:
    """Search by vector over the believed rows of each embedding space.

    Parameters
    ----------
    spaces : mapping of str to EmbeddingSpace
        The declared spaces; without any, a space is created by its first vector: cosine, exact, with the
        dimension of that vector.
    source : VectorSource
        Reads authoritative vectors that are not held in memory.
    artifacts : Artifacts, optional
        Saved derived generations; without it they are rebuilt after each start.
    now : callable, optional
        Returns epoch and sequence of the store.
    """

    def __init__(
        self,
        spaces: Mapping[str, EmbeddingSpace],
        source: VectorSource,
        artifacts: Artifacts | None = None,
        now: Callable[[], tuple[str, int]] = lambda: ('none', 0),
    ) -> None:
        self._declared = dict(spaces)
        self._artifacts = artifacts or Artifacts(None)
        self._context = SpaceContext(source, self._artifacts, now)
        self._spaces: dict[str, SpaceSearch] = {}
        self._sequence = 0
        self._lock = threading.RLock()
        self._ready = threading.Event()
        self._meanwhile: list[_Change] | None = []

    @property
    def sequence(self) -> int:
        """Sequence of the newest applied transaction."""
        return self._sequence

    @property
    def ready(self) -> bool:
        """True if the load is complete."""
        return self._ready.is_set()

    @property
    def spaces(self) -> Mapping[str, EmbeddingSpace]:
        """Declared spaces, and those created by vectors while none is declared."""
        known = {name: space_search.table.space for name, space_search in self._spaces.items()}
        return {**known, **self._declared}

    def wait_ready(self, timeout_s: float | None = None) -> bool:
        """Wait until the load is complete; False after the timeout."""
        return self._ready.wait(timeout_s)

    def wait_idle(self, timeout_s: float | None = None) -> bool:
        """Wait until no generation is being built; False after the timeout."""
        return all(space_search.wait_idle(timeout_s) for space_search in list(self._spaces.values()))

    def generation(self, space: str) -> str:
        """Return the id of the derived generation in use for a space; empty if there is none."""
        space_search = self._spaces.get(space)
        return '' if space_search is None or space_search.generation is None else space_search.generation.id

    def count(self, space: str) -> int:
        """Count the vectors of a space."""
        space_search = self._spaces.get(space)
        return 0 if space_search is None else len(space_search.table.slots)

    def dimension(self, space: str) -> int | None:
        """Return the dimension of a space; None while no space is declared and it has no vector.

        Raises
        ------
        InvalidRequestError
            Spaces are declared, and this space is not.
        """
        if space in self._declared:
            return self._declared[space].dimension
        if self._declared:
            names = ', '.join(sorted(self._declared))
            raise InvalidRequestError(
                f'embedding space {space!r} is not declared; declared are {names}', space=space
            )
        known = self._spaces.get(space)
        return None if known is None else known.table.space.dimension

    def check(self, space: str, vector: Sequence[float] | NDArray[np.float32], where: str) -> None:
        """Reject a vector that does not belong to its space.

        Raises
        ------
        InvalidRequestError
            The space is not declared, or has another dimension.
        """
        try:
            expected = self.dimension(space)
        except InvalidRequestError as exc:
            raise InvalidRequestError(f'{where}: {exc.message}', space=space) from exc
        if expected is not None and len(vector) != expected:
            raise InvalidRequestError(
                f'{where}: {len(vector)} components, but the space {space!r} has {expected}', space=space
            )

    def check_items(self, items: Sequence[MemoryItem]) -> None:
        """Reject items with a vector that does not belong to its space, by item and space.

        Raises
        ------
        InvalidRequestError
            As `check`; while no space is declared, the first vector of a space sets its dimension.
        """
        first: dict[str, int] = {}
        for index, item in enumerate(items):
            for space, vector in item.embeddings.items():
                where = f'items[{index}].embeddings[{space!r}]'
                self.check(space, vector, where)
                if first.setdefault(space, len(vector)) != len(vector):
                    raise InvalidRequestError(
                        f'{where}: {len(vector)} components, but the one before has {first[space]}',
                        space=space,
                    )

    def load(
        self, vectors: Iterable[list[VectorRow]], versions: Iterable[list[VersionTuple]], sequence: int
    ) -> None:
        """Fill the index from the store, in the calling thread; again, to replace what it holds.

        `apply` and `remove` may be called meanwhile: they supply the missing changes, and duplicate rows
        are kept once.

        Parameters
        ----------
        vectors, versions : iterables of batches
            Every vector in order of its assertion, and every version that has one, in order of its row.
        sequence : int
            A sequence that the store had reached before the first batch was read.
        """
        with self._lock:
            self._meanwhile = self._meanwhile or []
        spaces: dict[str, SpaceSearch] = {}
        # The versions first, so that every version finds its vector.
        version_rows = [np.asarray(rows, np.int64) for rows in versions]
        for batch in vectors:
            self._add_vectors(spaces, batch)
        for rows in version_rows:
            self._add_versions(spaces, rows)
        with self._lock:
            before, self._spaces = self._spaces, spaces
            self._sequence = max(self._sequence, sequence)
            pending, self._meanwhile = self._meanwhile or [], None
            self._ready.set()
            for change in pending:
                change()
        for space_search in before.values():
            space_search.close()
        self._artifacts.drop_others(spaces)
        for space_search in spaces.values():
            space_search.loaded()

    def apply(
        self,
        sequence: int,
        vectors: Sequence[VectorRow] = (),
        added: Sequence[VersionTuple] = (),
        ended: Collection[int] = (),
    ) -> None:
        """Apply one committed transaction.

        Parameters
        ----------
        sequence : int
        vectors : sequence of VectorRow
            Vectors that came with it, in order of their assertions.
        added : sequence of VersionTuple
            Versions believed from `sequence` on, in order of their rows; those without a vector are ignored.
        ended : collection of int
            Version rows no longer believed from `sequence` on.
        """

        def change() -> None:
            self._add_vectors(self._spaces, vectors)
            self._add_versions(self._spaces, added)
            if ended:
                for space_search in self._spaces.values():
                    space_search.table.versions.end(list(ended), sequence)
            # Last: a reader that sees the sequence must find its rows.
            self._sequence = max(self._sequence, sequence)

        self._change(change)
        for space_search in self._spaces.values():
            space_search.grown()

    def remove(self, assertions: Sequence[int], sequence: int = 0) -> None:
        """Delete the vectors of assertions, and their versions, for good: from memory and saved artifacts."""

        def change() -> None:
            for space_search in self._spaces.values():
                space_search.remove(assertions)
            self._artifacts.drop_others(self._spaces)
            self._sequence = max(self._sequence, sequence)

        self._change(change)

    def search(
        self,
        space: str,
        vector: Sequence[float] | NDArray[np.float32],
        k: int,
        *,
        at_ns: int | None = None,
        seq: int | None = None,
        tolerance_ns: int = 0,
        version_rows: NDArray[np.int64] | Sequence[int] | None = None,
    ) -> VectorHits:
        """Find the k most similar believed rows.

        Parameters
        ----------
        space : str
        vector : sequence of float, length of the space's dimension
        k : int
            At least 0; fewer are returned only where fewer match.
        at_ns : int, optional
            World time: ``valid_from <= at < valid_to``. None gives every believed version.
        seq : int, optional
            Believed as of this sequence; None for now.
        tolerance_ns : int
            Rows that begin up to this much after `at_ns` count as begun.
        version_rows : array of int, optional
            Search only these, exactly.

        Returns
        -------
        VectorHits

        Raises
        ------
        InvalidRequestError
            The space is not declared, or the vector does not belong to it.
        LoadingError
            The load is not complete.
        """
        if not self.ready:
            raise LoadingError('the vectors are still being loaded')
        self.check(space, vector, 'embedding')
        query = np.asarray(vector, np.float32)
        if not np.isfinite(query).all() or float(np.linalg.norm(query.astype(np.float64))) < MIN_NORM:
            raise InvalidRequestError(
                f'embedding: a vector must be finite and no shorter than {MIN_NORM:g}', space=space
            )
        sequence = self._sequence if seq is None else min(seq, self._sequence)
        world = (-OPEN, OPEN) if at_ns is None else (at_ns, at_ns + tolerance_ns)
        search_query = VectorQuery(query, k, (*world, sequence))
        space_search = self._spaces.get(space)
        if space_search is None:
            space_search = SpaceSearch(space, self._space(space, len(query)), self._context)
        rows = None if version_rows is None else np.asarray(version_rows, np.int64)
        ranked, evidence = space_search.search(search_query, rows)
        return VectorHits(ranked.version_rows, ranked.similarities, sequence, evidence)

    def close(self) -> None:
        """End every thread; safe to repeat."""
        for space_search in self._spaces.values():
            space_search.close()

    def _change(self, change: _Change) -> None:
        with self._lock:
            if self._meanwhile is not None:
                self._meanwhile.append(change)
            change()

    def _space(self, name: str, dimension: int) -> EmbeddingSpace:
        return self._declared.get(name) or undeclared_space(dimension)

    def _add_vectors(self, spaces: dict[str, SpaceSearch], batch: Sequence[VectorRow]) -> None:
        grouped: dict[str, list[tuple[int, bytes]]] = {}
        for assertion, _, space, _, data in batch:
            grouped.setdefault(space, []).append((assertion, data))
        for space, pairs in grouped.items():
            space_search = spaces.get(space)
            if space_search is None:
                space_search = SpaceSearch(space, self._space(space, len(pairs[0][1]) // 4), self._context)
            known = space_search.table.slots.find([assertion for assertion, _ in pairs])
            size = 4 * space_search.table.space.dimension
            # Vectors of another dimension were stored before this one was declared; they are never compared.
            fresh = [
                pair for pair, slot in zip(pairs, known, strict=True) if slot < 0 and len(pair[1]) == size
            ]
            if fresh:
                numbers = np.frombuffer(b''.join(data for _, data in fresh), '<f4')
                space_search.table.add_vectors(
                    [assertion for assertion, _ in fresh], numbers.reshape(len(fresh), -1).astype(np.float32)
                )
            if spaces is self._spaces and space not in spaces:
                space_search.loaded()
            spaces[space] = space_search

    def _add_versions(
        self, spaces: dict[str, SpaceSearch], rows: Sequence[VersionTuple] | NDArray[np.int64]
    ) -> None:
        if not len(rows) or not spaces:
            return
        columns = np.asarray(rows, np.int64).reshape(-1, 6)
        columns = columns[np.argsort(columns[:, 0], kind='stable')]
        for space_search in spaces.values():
            slots = space_search.table.slots.find(columns[:, 1])
            known = columns[slots >= 0].copy()
            known[:, 1] = slots[slots >= 0]
            if len(known):
                space_search.table.versions.add(known)
