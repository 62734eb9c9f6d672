"""Filters by text, place and embedding (scores are computed in `retrieval`)."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from hylo_memory_ros.model import MemoryItem, MemoryQuery
from hylo_memory_ros.storage.query.filters.base import Filter, FilterMessage, ItemContext, Option
from hylo_memory_ros.storage.query.spec import QuerySpec
from hylo_memory_ros.storage.schema import FULL_TEXT, SUMMARY_TEXT, assertion, embedding

TEXT_TABLES = (FULL_TEXT, SUMMARY_TEXT)
"""The full-text indexes: of statements, and of summaries."""
_MATCHING = ' UNION ALL '.join(f'SELECT rowid FROM {name} WHERE {name} MATCH ?' for name in TEXT_TABLES)  # noqa: S608
_COUNT_WORDS = f'SELECT count(*) FROM (SELECT 1 FROM ({_MATCHING}) LIMIT ?)'  # noqa: S608


class TextFilter(Filter):
    """All words of a text; `select` joins the full text, which also ranks."""

    fields = ('text', 'text_space')
    plain = modifiers = frozenset({'text_space'})
    bound = ('words',)
    options = (Option('--text', 'text', 'Words that must all appear.'),)
    reasons = ('no_search_words',)

    def matches(self, item: MemoryItem, query: MemoryQuery, context: ItemContext) -> bool:
        """Return True if each word appears in one of its texts, by the rules of the full-text index."""
        if query.text is None:
            return True
        texts = (item.content, item.key or '', item.label, ' '.join(item.entities))
        fields = [_words(text) for text in texts]
        phrases = [phrase for word in query.text.split() if (phrase := _words(word))]
        return bool(phrases) and all(any(phrase in field for field in fields) for phrase in phrases)

    def estimates(self, connection: sa.Connection, query: MemoryQuery, most: int) -> dict[str, int]:
        """Count the statements that have the words."""
        words = QuerySpec(query, 0).words
        if words is None:
            return {}
        raw: Any = connection.connection.dbapi_connection
        (count,) = raw.execute(_COUNT_WORDS, (words, words, most)).fetchone()
        return {'text': count}

    def absences(self, connection: sa.Connection, query: MemoryQuery) -> list[str]:
        """Return the sentence of words that no statement has together, with those that none has at all."""
        if not super().absences(connection, query):
            return []
        words = [word for word in (query.text or '').split() if _words(word)]
        alone = [query.model_copy(update={'text': word}) for word in words]
        missing = [one.text or '' for one in alone if super(TextFilter, self).absences(connection, one)]
        none = f'; none has: {", ".join(missing)}' if 0 < len(missing) < len(words) else ''
        return [f'no stored item has all of: {", ".join(words)}{none}']

    def from_message(self, message: FilterMessage) -> dict[str, Any]:
        """Return the words."""
        return {'text': message.text('text') or None}


class NearFilter(Filter):
    """Within a radius of a place; the spatial index tests what is durable."""

    fields = ('near', 'horizontal')
    plain = modifiers = frozenset({'horizontal'})
    in_statement = places = False
    no_options = 'given as --near, --radius, --frame and --horizontal together'
    reasons = ('other_frame', 'outside_radius')

    def matches(self, item: MemoryItem, query: MemoryQuery, context: ItemContext) -> bool:
        """Return True if it lies within the radius, in the frame and the map that are searched."""
        if query.near is None:
            return True
        pose, radius_m = query.near
        distance_m = distance_from(item, query)
        if distance_m is None or item.pose is None or item.pose.frame_id != pose.frame_id:
            return False
        return context.map_id in (None, item.scope.get('map_id', '')) and distance_m <= radius_m

    def identifying_values(self, field: str, value: Any) -> list[Any]:
        """Return the centre, which is the place of an item only where it has exactly its coordinates."""
        return [] if field in self.plain or not value else [value[0]['position']]

    def from_message(self, message: FilterMessage) -> dict[str, Any]:
        """Return the centre and the radius.

        Raises
        ------
        InvalidRequestError
            A centre or a radius is set, and no frame.
        """
        header, point = message.value('near').header, message.value('near').point
        radius_m = message.value('radius_m')
        horizontal = {'horizontal': message.value('horizontal')}
        if header.frame_id:
            centre = {
                'frame_id': message.text('near.header.frame_id'),
                'position': (point.x, point.y, point.z),
                'stamp_ns': message.stamp_ns('near.header.stamp'),
            }
            return {'near': (centre, radius_m), **horizontal}
        if (point.x, point.y, point.z, radius_m) != (0.0, 0.0, 0.0, 0.0):
            message.reject(
                'near.header.frame_id',
                f"'' with a centre or the radius {radius_m} m set; a centre needs the frame that it is in",
            )
        return horizontal


class EmbeddingFilter(Filter):
    """A vector in this space; how similar it is only ranks."""

    fields = ('embedding',)
    # The statement depends on the space alone, which `QuerySpec` has.
    in_statement = places = False
    no_options = 'nobody types a vector'
    reasons = ('without_vector',)

    def conditions(self, spec: QuerySpec) -> Iterable[sa.ColumnElement[bool]]:
        """Yield the condition that there is a vector in the space."""
        if spec.space:
            placed = sa.select(embedding.c.assertion_id).where(embedding.c.space == spec.space)
            yield assertion.c.assertion_id.in_(placed)

    def matches(self, item: MemoryItem, query: MemoryQuery, context: ItemContext) -> bool:
        """Return True if it has a vector in the space."""
        return query.embedding is None or query.embedding[0] in item.embeddings

    def from_message(self, message: FilterMessage) -> dict[str, Any]:
        """Return the vector, or the space that compares the text by its meaning.

        Raises
        ------
        InvalidRequestError
            There is a space without a vector and a text, or a vector without a space.
        """
        space, vector = message.text('embedding_space'), message.value('embedding')
        if space and message.value('text') and not len(vector):
            return {'text_space': space}
        if bool(space) != (len(vector) > 0):
            message.reject(
                'embedding',
                f'{len(vector)} numbers in the space {space!r}: give both, or neither; '
                'with a text the space alone',
            )
        return {'embedding': (space, vector)} if space else {}


def distance_from(item: MemoryItem, query: MemoryQuery) -> float | None:
    """Return the distance of an item from the centre of a query in metres; None: one has no place."""
    if query.near is None or item.pose is None:
        return None
    axes = 2 if query.horizontal else 3
    return math.dist(item.pose.position[:axes], query.near[0].position[:axes])


def _words(text: str) -> str:
    """Return the words of a text as the full-text index knows them, each between spaces."""
    bare = (char for char in unicodedata.normalize('NFD', text.lower()) if not unicodedata.combining(char))
    words = ''.join(char if char.isalnum() else ' ' for char in bare).split()
    return f' {" ".join(words)} ' if words else ''
