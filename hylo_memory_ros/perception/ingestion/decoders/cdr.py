"""Cursor over the bytes of a CDR message, as rosidl serializes it."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import TypeVar

T = TypeVar('T')

ENCAPSULATION = 4
# A transport may pad the last word of four bytes; more belongs to another type of message.
PADDING = 3

NS_PER_S = 1_000_000_000
_EMPTY_TEXT = {order: struct.pack(order + 'IB', 1, 0) for order in '<>'}


class UnusableMessageError(ValueError):
    """A well-formed message that perception cannot use.

    Parameters
    ----------
    reason : str
        Name of the count of such messages.
    text : str
        What was expected, and what came.
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


def cdr_order(message: bytes) -> str:
    """Return the byte order of a message in the notation of `struct`.

    Raises
    ------
    ValueError
        If the bytes do not begin with the encapsulation of plain CDR.
    """
    if len(message) < ENCAPSULATION + 1 or message[0] or message[1] > 1:
        raise ValueError(
            f'expected a CDR message, got {len(message)} bytes that begin with {message[:4].hex()}'
        )
    return '<' if message[1] else '>'


class CdrCursor:
    """Reads the fields of a message in their order, in either byte order, and their digest.

    The digest is over the values as rosidl writes them: padding between fields, which writers leave as it
    was in memory, counts as zeros, and an empty text has its closing zero, which some leave out.

    Fields beyond the end raise `ValueError` or `struct.error`; `decode_whole` converts both to
    `ValueError`.

    Parameters
    ----------
    message : bytes
        CDR with its four bytes of encapsulation.

    Raises
    ------
    ValueError
        If the encapsulation is not plain CDR.
    """

    __slots__ = ('_crc', '_from', '_length', 'at', 'data', 'order')

    def __init__(self, message: bytes) -> None:
        self.order = cdr_order(message)
        self.data = memoryview(message)[ENCAPSULATION:]
        self.at = 0
        # Digest and length of the canonical bytes up to the position from which on none were added.
        self._crc = 0
        self._length = 0
        self._from = 0

    def _align(self, size: int) -> None:
        """Move to a multiple of a size, which differs from the canonical one after a short empty text."""
        gap = -self.at % size
        canonical = -(self._length + self.at - self._from) % size
        if gap or canonical:
            self._add(bytes(canonical))
            self._from = self.at = self.at + gap

    def _add(self, canonical: bytes) -> None:
        """Add the bytes up to here to the digest, and bytes in place of what follows."""
        self._crc = zlib.crc32(canonical, zlib.crc32(self.data[self._from : self.at], self._crc))
        self._length += self.at - self._from + len(canonical)

    def digest(self) -> int:
        """Return the 32-bit digest of the values of a message that was read to its end.

        Raises
        ------
        ValueError
            If more follows: this is a message of another type.
        """
        self.end()
        return zlib.crc32(self.data[self._from : self.at], self._crc)

    def numbers(self, form: struct.Struct, align: int) -> tuple[float, ...]:
        """Read numbers of a format that is aligned to `align` bytes."""
        self._align(align)
        values = form.unpack_from(self.data, self.at)
        self.at += form.size
        return values

    def count(self, least: int) -> int:
        """Read the length of a sequence whose elements take at least `least` bytes each."""
        self._align(4)
        (count,) = struct.unpack_from(self.order + 'I', self.data, self.at)
        self.at += 4
        # Checked before allocation, so that a corrupt count cannot exhaust memory.
        if count * least > len(self.data) - self.at:
            raise ValueError(f'{count} elements do not fit into {len(self.data) - self.at} bytes')
        return int(count)

    def text(self) -> str:
        """Read a string.

        Some writers give an empty one no closing zero, and so no byte at all.
        """
        size = self.count(1)
        if not size:
            self.at -= 4
            self._add(_EMPTY_TEXT[self.order])
            self._from = self.at = self.at + 4
            return ''
        end = self.at + size
        text = str(self.data[self.at : end - 1], 'utf-8')
        if self.data[end - 1]:
            raise ValueError(f'a string of {size} bytes does not end with zero')
        self.at = end
        return text

    def skip(self, size: int, align: int = 1) -> None:
        """Skip bytes."""
        self._align(align)
        self.at += size
        if self.at > len(self.data):
            raise ValueError(f'the message ends {self.at - len(self.data)} bytes early')

    def skip_sequence(self, size: int, align: int) -> None:
        """Skip a sequence of elements of one size."""
        count = self.count(size)
        if count:
            self.skip(count * size, align)

    def stamp(self) -> int:
        """Read a time; return nanoseconds."""
        self._align(4)
        sec, nanosec = struct.unpack_from(self.order + 'iI', self.data, self.at)
        self.at += 8
        if sec < 0 or nanosec >= NS_PER_S:
            raise ValueError(f'stamp: expected a time, got {sec} s {nanosec} ns')
        return int(sec) * NS_PER_S + int(nanosec)

    def header(self) -> tuple[int, str]:
        """Read a header; return its stamp in nanoseconds and its frame."""
        return self.stamp(), self.text()

    def end(self) -> memoryview:
        """Return the bytes of the message without padding.

        Raises
        ------
        ValueError
            If more follows: this is a message of another type.
        """
        left = len(self.data) - self.at
        if left > PADDING:
            raise ValueError(f'{left} bytes follow the last field')
        return self.data[: self.at]


def decode_whole(message: bytes, read: Callable[[CdrCursor], T]) -> T:
    """Decode a message to its end with a function of the cursor.

    Raises
    ------
    ValueError
        If the bytes are not the message that was meant.
    """
    cursor = CdrCursor(message)
    try:
        found = read(cursor)
    except struct.error as exc:
        raise ValueError(f'the message ends early: {exc}') from exc
    cursor.end()
    return found
