"""Where reading has come to in the bytes of one message (CDR, as rosidl writes it)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeVar

__all__ = ['Cursor', 'cdr_order', 'read_whole']

T = TypeVar('T')

ENCAPSULATION = 4
# A transport may fill the last word of four bytes; more than that is no part of this message.
PADDING = 3

NS_PER_S = 1_000_000_000


def cdr_order(message: bytes) -> str:
    """Return the byte order of a message, as `struct` names it.

    Raises
    ------
    ValueError
        If the bytes do not begin with the encapsulation of plain CDR.
    """
    if len(message) < ENCAPSULATION + 1 or message[0] or message[1] > 1:
        raise ValueError(f'{len(message)} bytes that begin with {message[:4].hex()} are no CDR message')
    return '<' if message[1] else '>'


class Cursor:
    """Reads the parts of a message one after the other, in either byte order.

    What does not fit into the bytes raises `ValueError` or `struct.error`; `read_whole` makes one
    of both.

    Parameters
    ----------
    message : bytes
        CDR with its four bytes of encapsulation.

    Raises
    ------
    ValueError
        If it is no plain CDR.
    """

    __slots__ = ('at', 'data', 'order')

    def __init__(self, message: bytes) -> None:
        self.order = cdr_order(message)
        self.data = memoryview(message)[ENCAPSULATION:]
        self.at = 0

    def numbers(self, form: struct.Struct, align: int) -> tuple[float, ...]:
        """Read numbers of a form that begins at a multiple of `align` bytes."""
        self.at += -self.at % align
        values = form.unpack_from(self.data, self.at)
        self.at += form.size
        return values

    def count(self, least: int) -> int:
        """Read the length of a sequence whose elements take at least so many bytes each."""
        self.at += -self.at % 4
        (count,) = struct.unpack_from(self.order + 'I', self.data, self.at)
        self.at += 4
        # So that a false count cannot ask for memory.
        if count * least > len(self.data) - self.at:
            raise ValueError(f'{count} elements do not fit into {len(self.data) - self.at} bytes')
        return int(count)

    def text(self) -> str:
        """Read a text.

        Some writers give an empty one no closing zero, and so no byte at all.
        """
        size = self.count(1)
        end = self.at + size
        text = str(self.data[self.at : max(end - 1, self.at)], 'utf-8')
        if size and self.data[end - 1]:
            raise ValueError(f'a text of {size} bytes does not end with zero')
        self.at = end
        return text

    def skip(self, size: int, align: int = 1) -> None:
        """Go beyond parts that are not needed."""
        self.at += -self.at % align + size
        if self.at > len(self.data):
            raise ValueError(f'the message ends {self.at - len(self.data)} bytes early')

    def skip_sequence(self, size: int, align: int) -> None:
        """Go beyond a sequence of elements of one size."""
        count = self.count(size)
        if count:
            self.skip(count * size, align)

    def stamp(self) -> int:
        """Read a time; return nanoseconds."""
        self.at += -self.at % 4
        sec, nanosec = struct.unpack_from(self.order + 'iI', self.data, self.at)
        self.at += 8
        if sec < 0 or nanosec >= NS_PER_S:
            raise ValueError(f'stamp: {sec} s {nanosec} ns is no time')
        return int(sec) * NS_PER_S + int(nanosec)

    def header(self) -> tuple[int, str]:
        """Read a header; return its stamp in nanoseconds and its frame."""
        return self.stamp(), self.text()

    def end(self) -> memoryview:
        """Return the bytes that were read; what a transport adds behind them is not among them.

        Raises
        ------
        ValueError
            If more follows: this is a message of another type.
        """
        left = len(self.data) - self.at
        if left > PADDING:
            raise ValueError(f'{left} bytes are left behind the last field')
        return self.data[: self.at]


def read_whole(message: bytes, read: Callable[[Cursor], T]) -> T:
    """Read a message to its end by a function that is given the cursor.

    Raises
    ------
    ValueError
        If the bytes are not the message that was meant.
    """
    cursor = Cursor(message)
    try:
        found = read(cursor)
    except struct.error as exc:
        raise ValueError(f'the message ends early: {exc}') from exc
    cursor.end()
    return found
