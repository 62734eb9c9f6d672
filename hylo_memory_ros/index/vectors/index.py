"""Vectors in memory, space by space: exact search, and derived candidates where they pay.

Threads: one writer at a time calls `apply` and `remove`; any number of readers search; one thread loads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.errors import InvalidRequestError, LoadingError
from hylo_memory_ros.index._rows import OPEN
from hylo_memory_ros.index.vectors._space import Asking
from hylo_memory_ros.index.vectors._store import VectorRow, VectorSource, VersionTuple
from hylo_memory_ros.index.vectors.artifact import Artifacts
from hylo_memory_ros.index.vectors.backend import Searched, Surroundings
from hylo_memory_ros.index.vectors.evidence import VectorHits
from hylo_memory_ros.model import MemoryItem
from hylo_memory_ros.model.embedding import MIN_NORM, EmbeddingSpace, undeclared

__all__ = ['VectorIndex']

_Change = Callable[[], None]


class VectorIndex:
    """Search by vector over the believed rows of each embedding space.

    Parameters
    ----------
    spaces : mapping of str to EmbeddingSpace
        The declared spaces; without any, every space is taken as it comes: cosine, exact, with the
        dimension of its first vector.
    source : VectorSource
        Reads authoritative vectors that are not held in memory.
    artifacts : Artifacts, optional
        Where derived generations are kept; without it they are built anew after each start.
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
        self._around = Surroundings(source, self._artifacts, now)
        self._spaces: dict[str, Searched] = {}
        self._sequence = 0
        self._lock = threading.RLock()
        self._ready = threading.Event()
        self._meanwhile: list[_Change] | None = []

    @property
    def sequence(self) -> int:
        """Sequence of the newest transaction that the index holds."""
        return self._sequence

    @property
    def ready(self) -> bool:
        """Whether the load is complete."""
        return self._ready.is_set()

    @property
    def spaces(self) -> Mapping[str, EmbeddingSpace]:
        """Declared spaces, and those that vectors came in while none is declared."""
        known = {name: searched.table.space for name, searched in self._spaces.items()}
        return {**known, **self._declared}

    def wait_ready(self, timeout_s: float | None = None) -> bool:
        """Wait until the load is complete; False after the timeout."""
        return self._ready.wait(timeout_s)

    def wait_idle(self, timeout_s: float | None = None) -> bool:
        """Wait until no generation is being built; False after the timeout."""
        return all(searched.wait_idle(timeout_s) for searched in list(self._spaces.values()))

    def generation(self, space: str) -> str:
        """Return the id of the derived generation that a space is searched through; empty: none is."""
        searched = self._spaces.get(space)
        return '' if searched is None or searched.generation is None else searched.generation.id

    def count(self, space: str) -> int:
        """Return how many vectors a space has."""
        searched = self._spaces.get(space)
        return 0 if searched is None else len(searched.table.slots)

    def dimension(self, space: str) -> int | None:
        """Return the dimension of a space; None: not known yet, because no space is declared.

        Raises
        ------
        InvalidRequestError
            Spaces are declared, and this is none of them.
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
        """Refuse a vector that does not belong to its space.

        Raises
        ------
        InvalidRequestError
            The space is not declared, the dimension is another, or a component is not finite, or the
            vector has no length and so no direction.
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
        """Refuse items with a vector that does not belong to its space, by item and space.

        Raises
        ------
        InvalidRequestError
            As `check`; while no space is declared, the first vector of a space says its dimension.
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

        `apply` and `remove` may be called meanwhile: what is missed is made good by them, and rows that
        arrive twice are kept once.

        Parameters
        ----------
        vectors, versions : iterables of batches
            Every vector in order of its assertion, and every version that has one, in order of its row.
        sequence : int
            A sequence that the store had reached before the first batch was read.
        """
        with self._lock:
            self._meanwhile = self._meanwhile or []
        spaces: dict[str, Searched] = {}
        # The versions first: so every one that is read finds its vector.
        said = [np.asarray(rows, np.int64) for rows in versions]
        for batch in vectors:
            self._add_vectors(spaces, batch)
        for rows in said:
            self._add_versions(spaces, rows)
        with self._lock:
            before, self._spaces = self._spaces, spaces
            self._sequence = max(self._sequence, sequence)
            pending, self._meanwhile = self._meanwhile or [], None
            self._ready.set()
            for change in pending:
                change()
        for searched in before.values():
            searched.close()
        self._artifacts.drop_others(spaces)
        for searched in spaces.values():
            searched.loaded()

    def apply(
        self,
        sequence: int,
        vectors: Sequence[VectorRow] = (),
        added: Sequence[VersionTuple] = (),
        ended: Collection[int] = (),
    ) -> None:
        """Follow one committed transaction.

        Parameters
        ----------
        sequence : int
        vectors : sequence of VectorRow
            Vectors that came with it, in order of their assertions.
        added : sequence of VersionTuple
            Versions believed from `sequence` on, in order of their rows; those without a vector do no harm.
        ended : collection of int
            Version rows believed no longer from `sequence` on.
        """

        def change() -> None:
            self._add_vectors(self._spaces, vectors)
            self._add_versions(self._spaces, added)
            if ended:
                for searched in self._spaces.values():
                    searched.table.versions.end(list(ended), sequence)
            # Last: whoever sees the sequence must find its rows.
            self._sequence = max(self._sequence, sequence)

        self._change(change)
        for searched in self._spaces.values():
            searched.grown()

    def remove(self, assertions: Sequence[int], sequence: int = 0) -> None:
        """Delete the vectors of assertions, and their versions, for good: from memory and saved artifacts."""

        def change() -> None:
            for searched in self._spaces.values():
                searched.remove(assertions)
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
            The space is not declared, or the vector is none of it.
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
        asked = Asking(query, k, (*world, sequence))
        searched = self._spaces.get(space)
        if searched is None:
            searched = Searched(space, self._space(space, len(query)), self._around)
        rows = None if version_rows is None else np.asarray(version_rows, np.int64)
        ranked, evidence = searched.search(asked, rows)
        return VectorHits(ranked.version_rows, ranked.similarities, sequence, evidence)

    def close(self) -> None:
        """End every thread; safe to repeat."""
        for searched in self._spaces.values():
            searched.close()

    def _change(self, change: _Change) -> None:
        with self._lock:
            if self._meanwhile is not None:
                self._meanwhile.append(change)
            change()

    def _space(self, name: str, dimension: int) -> EmbeddingSpace:
        return self._declared.get(name) or undeclared(dimension)

    def _add_vectors(self, spaces: dict[str, Searched], batch: Sequence[VectorRow]) -> None:
        grouped: dict[str, list[tuple[int, bytes]]] = {}
        for assertion, _, space, _, data in batch:
            grouped.setdefault(space, []).append((assertion, data))
        for space, pairs in grouped.items():
            searched = spaces.get(space)
            if searched is None:
                searched = Searched(space, self._space(space, len(pairs[0][1]) // 4), self._around)
            known = searched.table.slots.find([assertion for assertion, _ in pairs])
            size = 4 * searched.table.space.dimension
            # What has another dimension was stored before this one was declared; it is never compared.
            fresh = [
                pair for pair, slot in zip(pairs, known, strict=True) if slot < 0 and len(pair[1]) == size
            ]
            if fresh:
                numbers = np.frombuffer(b''.join(data for _, data in fresh), '<f4')
                searched.table.add_vectors(
                    [assertion for assertion, _ in fresh], numbers.reshape(len(fresh), -1).astype(np.float32)
                )
            if spaces is self._spaces and space not in spaces:
                searched.loaded()
            spaces[space] = searched

    def _add_versions(
        self, spaces: dict[str, Searched], rows: Sequence[VersionTuple] | NDArray[np.int64]
    ) -> None:
        if not len(rows) or not spaces:
            return
        columns = np.asarray(rows, np.int64).reshape(-1, 6)
        columns = columns[np.argsort(columns[:, 0], kind='stable')]
        for searched in spaces.values():
            slots = searched.table.slots.find(columns[:, 1])
            here = columns[slots >= 0].copy()
            here[:, 1] = slots[slots >= 0]
            if len(here):
                searched.table.versions.add(here)
