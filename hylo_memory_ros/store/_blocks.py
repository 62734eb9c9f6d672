"""How the ledger packs what it keeps: differences as byte planes, deflated.

Consecutive stamps differ by little, and messages of one camera name much the same landmarks
in much the same order. With all lowest bytes side by side, then the next ones, deflate leaves
little of both: 30 messages a second take about 8 bytes each, of which 4 are the digest.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ['pack_assignments', 'pack_consumed', 'unpack_assignments', 'unpack_consumed']

_LENGTH = struct.Struct('<I')
_LEVEL = 6


def pack_consumed(stamps_ns: Sequence[int], digests: Sequence[int]) -> bytes:
    """Return consumed messages as bytes.

    Parameters
    ----------
    stamps_ns : sequence of int, length n
        Nanoseconds, ascending; the first is kept beside the block.
    digests : sequence of int, length n
        32-bit digests.
    """
    steps = np.diff(np.asarray(stamps_ns, dtype=np.int64)).astype('<u8')
    planes = zlib.compress(_planes(steps), _LEVEL)
    return _LENGTH.pack(len(planes)) + planes + np.asarray(digests, dtype='<u4').tobytes()


def unpack_consumed(data: bytes, first_ns: int) -> tuple[list[int], list[int]]:
    """Return the stamps and digests of a block that begins at a stamp."""
    (size,) = _LENGTH.unpack_from(data)
    start = _LENGTH.size + size
    steps = _from_planes(zlib.decompress(data[_LENGTH.size : start]), '<u8')
    stamps = np.concatenate(([first_ns], first_ns + np.cumsum(steps.astype(np.int64))))
    return stamps.tolist(), np.frombuffer(data, dtype='<u4', offset=start).tolist()


def pack_assignments(landmarks: Sequence[NDArray[np.int64]]) -> bytes:
    """Return which landmarks the detections of each message were given to, as bytes.

    Parameters
    ----------
    landmarks : sequence of ndarray of int
        One array per message, in the order of `pack_consumed`: the number of the landmark of
        each detection, 0 for none.
    """
    counts = np.array([len(part) for part in landmarks], dtype='<u4')
    numbers = np.concatenate([*landmarks, np.empty(0, np.int64)]).astype('<u4')
    return _LENGTH.pack(len(counts)) + zlib.compress(_planes(counts) + _planes(numbers), _LEVEL)


def unpack_assignments(data: bytes) -> list[list[int]]:
    """Return the landmark numbers of each message of a block."""
    (messages,) = _LENGTH.unpack_from(data)
    planes = zlib.decompress(data[_LENGTH.size :])
    split = 4 * messages
    counts = _from_planes(planes[:split], '<u4').astype(np.int64)
    numbers = _from_planes(planes[split:], '<u4')
    ends = np.cumsum(counts)
    return [numbers[end - count : end].tolist() for end, count in zip(ends, counts, strict=True)]


def _planes(values: NDArray[np.unsignedinteger]) -> bytes:
    octets = values.view(np.uint8).reshape(len(values), values.dtype.itemsize)
    return bytes(octets.T.tobytes())


def _from_planes(data: bytes, dtype: str) -> NDArray[np.unsignedinteger]:
    width = np.dtype(dtype).itemsize
    planes = np.frombuffer(data, dtype=np.uint8).reshape(width, -1)
    return np.ascontiguousarray(planes.T).view(dtype).reshape(-1)
