"""Whether a text or a vector can still be read in the files of a memory, in whatever way it is kept.

A marker is looked for in the bytes of every file, in what is deflated in them, and in every cell of
every table, as they are stored and folded as the full text has them. What is searched are pieces of it
too: an index keeps of a word what its neighbour has not, and a long text goes over several pages.
"""

from __future__ import annotations

import json
import random
import re
import sqlite3
import struct
import unicodedata
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import numpy as np

__all__ = ['Footprint', 'text_columns', 'unfilled']

_DEFLATED = re.compile(rb'\x78[\x01\x5e\x9c\xda]')
_PIECE, _LONGEST = 8, 1 << 20
_TEXTS = ('TEXT', 'BLOB', 'JSON')


class Footprint:
    """Markers that occur nowhere else, and where they are.

    Parameters
    ----------
    seed : int
        Of the markers.
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._needles: dict[str, frozenset[bytes]] = {}

    def word(self, name: str) -> str:
        """Make a marker: one word of 20 letters, one of them with a diacritic."""
        letters = [self._random.choice('bcdfghjklmnpqrstvwxz0123456789') for _ in range(20)]
        letters[0], letters[10] = 'Z', 'É'
        return self.text(name, ''.join(letters))

    def text(self, name: str, text: str) -> str:
        """Take a text as a marker."""
        return self._known(name, text, _forms(text))

    def vector(self, name: str, dimension: int) -> tuple[float, ...]:
        """Make a marker: a vector of float32."""
        values = [self._random.uniform(-1, 1) for _ in range(dimension)]
        vector = struct.unpack(f'<{dimension}f', struct.pack(f'<{dimension}f', *values))
        return self._known(name, vector, _vector_forms(vector))

    def number(self, name: str, value: float) -> float:
        """Take a float as a marker, big and little endian and as text."""
        forms = {struct.pack('<d', value), struct.pack('>d', value), repr(value).encode()}
        return self._known(name, value, frozenset(forms))

    def _known(self, name, marker, needles: frozenset[bytes]):
        self._needles[name] = self._needles.get(name, frozenset()) | needles
        return marker

    @property
    def markers(self) -> set[str]:
        """Names of all markers."""
        return set(self._needles)

    def found(self, *folders: Path, apart_from: Sequence[str] = ()) -> dict[str, set[str]]:
        """Return where each marker is that can be read: names of files, and columns of tables."""
        needles = _Needles(
            {
                needle: name
                for name, forms in self._needles.items()
                if name not in apart_from
                for needle in forms
            }
        )
        while True:
            where: dict[str, set[str]] = {}
            try:
                for place, data in _contents(folders):
                    for name in needles.found(data):
                        where.setdefault(name, set()).add(place)
            except FileNotFoundError:  # renamed since it was listed, and not looked into under its new name
                continue
            return where


class _Needles:
    """Looks for many needles at once, by the eight bytes that each begins with."""

    def __init__(self, names: dict[bytes, str]) -> None:
        assert all(len(needle) >= _PIECE for needle in names)
        self._names = names
        self._beginning: dict[int, list[bytes]] = {}
        for needle in names:
            self._beginning.setdefault(int.from_bytes(needle[:_PIECE], 'little'), []).append(needle)
        self._heads = np.array(sorted(self._beginning), np.uint64)

    def found(self, data: bytes) -> set[str]:
        """Return the names of those that occur."""
        if len(data) < _PIECE:
            return set()
        octets = np.frombuffer(data, np.uint8).astype(np.uint64)
        heads = np.zeros(len(data) - _PIECE + 1, np.uint64)
        for at in range(_PIECE):
            heads |= octets[at : len(heads) + at] << np.uint64(8 * at)
        places = np.searchsorted(self._heads, heads).clip(max=len(self._heads) - 1)
        hits = np.flatnonzero(self._heads[places] == heads)
        known, first = np.unique(heads[hits], return_index=True)
        found = set()
        for head, at in zip(known.tolist(), hits[first].tolist(), strict=True):
            for needle in self._beginning[head]:
                if data.startswith(needle, at) or needle in data:
                    found.add(self._names[needle])
        return found


def _forms(text: str) -> frozenset[bytes]:
    folded = ''.join(
        one for one in unicodedata.normalize('NFKD', text.lower()) if not unicodedata.combining(one)
    )
    forms = set()
    for form in {text, text.lower(), folded, unicodedata.normalize('NFD', text)}:
        pieces = {form[at : at + _PIECE] for at in range(0, max(len(form) - _PIECE, 0) + 1, 4)}
        for piece in pieces | {form[-_PIECE:]}:
            forms |= {piece.encode(), piece.encode('utf-16-le'), piece.encode('utf-16-be')}
            forms.add(json.dumps(piece)[1:-1].encode())
    digest = sha256(text.encode())
    return frozenset(forms | {digest.digest(), digest.hexdigest().encode()})


def _vector_forms(vector: Sequence[float]) -> frozenset[bytes]:
    forms = set()
    for at in range(0, len(vector) - 1, 2):
        pair = vector[at : at + 2]
        forms |= {struct.pack(order + '2' + kind, *pair) for order in '<>' for kind in 'fd'}
        forms |= {repr(one).encode() for one in pair}
    digest = sha256(struct.pack(f'<{len(vector)}f', *vector))
    return frozenset(forms | {digest.digest(), digest.hexdigest().encode()})


def _contents(folders: Sequence[Path]) -> Iterator[tuple[str, bytes]]:
    for folder in folders:
        for path in sorted(path for path in folder.rglob('*') if path.is_file()):
            name = str(path.relative_to(folder))
            # What a file is called is as readable as what is in it.
            yield name, name.encode()
            data = path.read_bytes()
            yield from _opened(name, data)
            if data.startswith(b'SQLite format 3\0'):
                for table, column in text_columns(path):
                    cells = b'\0\0'.join(_cells(path, table, column))
                    yield from _opened(f'{name}: {table}.{column}', cells)


def _opened(place: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    yield place, data
    view = memoryview(data)
    for start in (match.start() for match in _DEFLATED.finditer(data)):
        try:
            inside = zlib.decompressobj().decompress(view[start : start + _LONGEST], _LONGEST)
        except zlib.error:
            continue
        if inside:
            yield f'{place}, deflated', inside


def text_columns(path: Path) -> list[tuple[str, str]]:
    """Return table and column of everything in a database that can hold a text or bytes."""
    with _reading(path) as connection:
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0")
        return [
            (table, column)
            for (table,) in tables.fetchall()
            for _, column, kind, *_ in connection.execute(f'PRAGMA table_info("{table}")')
            if not kind or kind.upper() in _TEXTS
        ]


def _cells(path: Path, table: str, column: str) -> list[bytes]:
    with _reading(path) as connection:
        rows = connection.execute(
            f'SELECT CAST("{column}" AS BLOB) FROM "{table}" WHERE "{column}" IS NOT NULL'
        )
        return [cell for (cell,) in rows]


def unfilled(path: Path) -> set[str]:
    """Return the columns of a database that could hold a text or bytes, and hold none."""
    return {
        f'{table}.{column}' for table, column in text_columns(path) if not any(_cells(path, table, column))
    }


def _reading(path: Path):
    mode = 'mode=ro' if path.with_name(f'{path.name}-wal').exists() else 'immutable=1'
    return closing(sqlite3.connect(f'{path.absolute().as_uri()}?{mode}', uri=True))
