"""Embedding spaces of one memory, with their embedders and their record in the file."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.embedding import Embedder, embedder_named
from hylo_memory_ros.errors import ConfigurationError, InvalidRequestError
from hylo_memory_ros.model import EmbeddingSpace, MemoryItem
from hylo_memory_ros.model.embedding import validate_vector
from hylo_memory_ros.storage import SqliteStore

_REMEMBERED = 1024


class EmbeddingSpaces:
    """Embedding spaces of one memory, with their embedders.

    A space that was ever declared for the file stays as it was: who has another model takes another
    ``name@version``. Where none is declared now, those that the file keeps hold; where it keeps none
    either, every space is taken as its first vector is.

    Parameters
    ----------
    store : SqliteStore
        Keeps what makes the vectors of a space comparable.
    declared : mapping of str to EmbeddingSpace
    read_only : bool
        Keep nothing, and load no embedder.

    Raises
    ------
    ConfigurationError
        A space is declared otherwise than the file has it, or its embedder does not fit.
    """

    def __init__(
        self, store: SqliteStore, declared: Mapping[str, EmbeddingSpace], *, read_only: bool
    ) -> None:
        self.embedders: dict[str, Embedder] = {}
        """Embedders by space."""
        self._texts: OrderedDict[tuple[str, str], tuple[float, ...]] = OrderedDict()
        self._lock = Lock()
        resolved = {name: self._resolved(name, space, read_only) for name, space in declared.items()}
        with store.read() as view:
            kept, found = view.embeddings.declared_spaces(), view.embeddings.dimensions()
        for name, space in resolved.items():
            _refuse_changed(name, space, kept.get(name), found.get(name))
        resolved = {name: _completed(space, kept.get(name, {})) for name, space in resolved.items()}
        fresh = {
            name: dict(space.lasting) for name, space in resolved.items() if kept.get(name) != space.lasting
        }
        if fresh and not read_only:
            with store.begin_unnumbered(durable=True) as uow:
                uow.embeddings.keep_spaces({**uow.embeddings.declared_spaces(), **fresh})
        self.spaces: Mapping[str, EmbeddingSpace] = (
            resolved if resolved else {name: EmbeddingSpace(**lasting) for name, lasting in kept.items()}
        )

    def embedded(self, items: Sequence[MemoryItem]) -> list[MemoryItem]:
        """Return items with a vector of their content in every space that has an embedder.

        A vector that came with an item stays; an item without content gets none.

        Raises
        ------
        InvalidRequestError
            An embedder failed; the message names its space.
        """
        result = list(items)
        for name in self.embedders:
            wanted = [
                index
                for index, item in enumerate(result)
                if item.content.strip() and name not in item.embeddings
            ]
            vectors = self.vectors_of(name, [result[index].content for index in wanted])
            for index, vector in zip(wanted, vectors, strict=True):
                item = result[index]
                result[index] = item.model_copy(update={'embeddings': {**item.embeddings, name: vector}})
        return result

    def vectors_of(self, space: str, texts: Sequence[str]) -> list[tuple[float, ...]]:
        """Return the vectors of texts in a space that has an embedder; repeated texts are embedded once.

        Raises
        ------
        InvalidRequestError
            The space has no embedder, or it failed.
        """
        if space not in self.embedders:
            raise InvalidRequestError(f'embedding space {space!r} has no embedder', space=space)
        with self._lock:
            known = {text: self._texts[space, text] for text in texts if (space, text) in self._texts}
        fresh = [text for text in dict.fromkeys(texts) if text not in known]
        if fresh:
            known |= dict(zip(fresh, self._embed(space, fresh), strict=True))
            with self._lock:
                self._texts.update({(space, text): known[text] for text in fresh[-_REMEMBERED:]})
                while len(self._texts) > _REMEMBERED:
                    self._texts.popitem(last=False)
        return [known[text] for text in texts]

    def forget_texts(self) -> None:
        """Keep no text in memory any longer, as a purge asks for."""
        with self._lock:
            self._texts.clear()

    def _embed(self, space: str, texts: Sequence[str]) -> list[tuple[float, ...]]:
        try:
            vectors: NDArray[np.float32] = np.asarray(self.embedders[space].embed(texts), np.float32)
            if vectors.shape != (len(texts), self.embedders[space].dimension):
                raise ValueError(f'it gave an array of shape {vectors.shape} for {len(texts)} texts')
            return [validate_vector(vector) for vector in vectors.tolist()]
        except Exception as exc:
            raise InvalidRequestError(f'embedder of {space!r} failed: {exc}', space=space) from exc

    def _resolved(self, name: str, space: EmbeddingSpace, read_only: bool) -> EmbeddingSpace:
        if not space.embedder or read_only:
            return space
        embedder = embedder_named(space.embedder)
        if embedder.dimension != space.dimension:
            raise ConfigurationError(
                f'space {name!r}: dimension {space.dimension}, but the embedder {space.embedder!r} has '
                f'{embedder.dimension}',
                parameter=f'space.{name}.dimension',
            )
        if space.provider_digest not in ('', embedder.digest):
            raise ConfigurationError(
                f'space {name!r}: provider_digest {space.provider_digest}, but the embedder '
                f'{space.embedder!r} has {embedder.digest}',
                parameter=f'space.{name}.provider_digest',
            )
        self.embedders[name] = embedder
        told = {'model': space.model or embedder.model, 'provider_digest': embedder.digest}
        return space.model_copy(update=told)


def _refuse_changed(
    name: str, space: EmbeddingSpace, kept: Mapping[str, object] | None, found: int | None
) -> None:
    """Refuse a space whose vectors would not be comparable with those that are there."""
    for field, value in space.lasting.items():
        before = kept.get(field) if kept is not None else found if field == 'dimension' else None
        # What was not told before may be told now; what was told may be left out only by its default.
        if before not in {None, ''} and value not in {before, ''}:
            raise ConfigurationError(
                f'space {name!r}: {field} {value!r}, but its vectors in the file have {before!r}; vectors '
                'of two models are not comparable: give the new one another version',
                parameter=f'space.{name}.{field}',
                space=name,
            )


def _completed(space: EmbeddingSpace, kept: Mapping[str, object]) -> EmbeddingSpace:
    """Return a space with what the file keeps of it and the declaration leaves out."""
    left_out = {field for field, value in space.lasting.items() if value == ''}
    return space.model_copy(update={field: kept[field] for field in left_out & kept.keys()})
