"""Ledger of observations: consumed messages, and the landmarks of their detections.

A message is identified by its input, its stamp and a 32-bit digest. Each commit of perception adds one
block per input; blocks are never changed, and those of one input follow each other in time, so that a
message of any age is found by its stamp.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from heapq import merge

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import (
    Connection,
    delete,
    func,
    insert,
    select,
    update,
)

from hylo_memory_ros.storage.landmarks import Block, ConsumedBlock, InputRow, ObservationRecord
from hylo_memory_ros.storage.schema import (
    landmark,
    ledger_assignment,
    ledger_block,
    ledger_input,
    sighting,
)

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
    """Return the landmarks of the detections of each message as bytes.

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


class Owners:
    """Current landmarks of earlier observations, by original landmark and stamp.

    Parameters
    ----------
    connection : Connection
        Read once; all sightings are held.
    """

    def __init__(self, connection: Connection) -> None:
        rows = connection.execute(select(landmark.c.number, landmark.c.key, landmark.c.merged_into)).all()
        self._keys = {number: key for number, key, _ in rows}
        self._merged = {number: into for number, _, into in rows if into}
        self._sightings: dict[int, list[tuple[int, int, int]]] = {}
        columns = (sighting.c.origin, sighting.c.first_ns, sighting.c.last_ns, sighting.c.landmark)
        for origin, *rest in connection.execute(select(*columns).order_by(*columns)):
            self._sightings.setdefault(origin, []).append(tuple(rest))

    def key(self, number: int, stamp_ns: int) -> str | None:
        """Return the key of the current landmark of an observation, or None.

        Parameters
        ----------
        number : int
            The landmark that it was given to; 0: none.
        stamp_ns : int
            Stamp of the observation.
        """
        sightings = self._sightings.get(number)
        if sightings:
            return self._keys.get(_nearest(sightings, stamp_ns))
        for _ in range(len(self._merged)):
            if number not in self._merged:
                break
            number = self._merged[number]
        return self._keys.get(number)


def _nearest(sightings: list[tuple[int, int, int]], stamp_ns: int) -> int:
    after = bisect_right(sightings, stamp_ns, key=lambda one: one[0])
    around = sightings[max(after - 1, 0) : after + 1]
    return min(around, key=lambda one: max(one[0] - stamp_ns, stamp_ns - one[1], 0))[2]


def _stream(connection: Connection, input_id: int, name: str, owners: Owners) -> Iterator[ObservationRecord]:
    query = (
        select(ledger_block.c.first_ns, ledger_block.c.data, ledger_assignment.c.data)
        .join(ledger_assignment, ledger_assignment.c.block_id == ledger_block.c.block_id)
        .where(ledger_block.c.input_id == input_id)
        .order_by(ledger_block.c.last_ns, ledger_block.c.block_id)
    )
    for first_ns, consumed, given in connection.execute(query.execution_options(yield_per=20)):
        stamps, _ = unpack_consumed(consumed, first_ns)
        for stamp_ns, numbers in zip(stamps, unpack_assignments(given), strict=True):
            for index, number in enumerate(numbers):
                yield ObservationRecord(name, stamp_ns, index, owners.key(number, stamp_ns))


class LedgerRepository:
    """Consumed messages by input, and the assignments of their detections."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def load_inputs(self) -> dict[str, InputRow]:
        """Return the stored state of each input, by name."""
        newest_ns = (
            select(func.max(ledger_block.c.last_ns))
            .where(ledger_block.c.input_id == ledger_input.c.input_id)
            .scalar_subquery()
        )
        columns = (ledger_input.c.input_id, newest_ns, ledger_input.c.dropped, ledger_input.c.late)
        return {
            name: InputRow(*row)
            for name, *row in self._connection.execute(select(ledger_input.c.name, *columns))
        }

    def input_number(self, name: str) -> int:
        """Return the number of an input; a new input gets one."""
        known = self._connection.scalar(select(ledger_input.c.input_id).where(ledger_input.c.name == name))
        if known is not None:
            return int(known)
        added = insert(ledger_input).values(name=name).returning(ledger_input.c.input_id)
        return int(self._connection.execute(added).scalar_one())

    def save_counts(self, name: str, dropped: int, late: int) -> None:
        """Store the counts of an input."""
        which = ledger_input.c.input_id == self.input_number(name)
        self._connection.execute(update(ledger_input).where(which).values(dropped=dropped, late=late))

    def losses(self) -> dict[str, dict[str, int]]:
        """Return the dropped and late messages of each input that lost any."""
        table = ledger_input.c
        query = select(table.name, table.dropped, table.late).where(table.dropped + table.late > 0)
        return {
            name: {'dropped': dropped, 'late': late}
            for name, dropped, late in self._connection.execute(query.order_by(table.name))
        }

    def add(self, block: Block) -> int:
        """Store consumed messages; return the size of their assignments, bytes."""
        stamps = block.stamps_ns
        consumed = {
            'input_id': block.input_id,
            'first_ns': stamps[0],
            'last_ns': stamps[-1],
            'data': pack_consumed(stamps, block.digests),
        }
        added = insert(ledger_block).values(consumed).returning(ledger_block.c.block_id)
        block_id = self._connection.execute(added).scalar_one()
        if not any(len(part) for part in block.landmarks):
            return 0
        data = pack_assignments(block.landmarks)
        given = {'block_id': block_id, 'last_ns': stamps[-1], 'size': len(data), 'data': data}
        self._connection.execute(insert(ledger_assignment).values(given))
        return len(data)

    def blocks_at(self, input_id: int, stamp_ns: int) -> list[ConsumedBlock]:
        """Return the blocks of an input whose stamps include a stamp."""
        query = (
            select(ledger_block.c.first_ns, ledger_block.c.last_ns, ledger_block.c.data)
            .where(ledger_block.c.input_id == input_id, ledger_block.c.last_ns >= stamp_ns)
            .order_by(ledger_block.c.last_ns, ledger_block.c.block_id)
        )
        found = []
        for first_ns, last_ns, data in self._connection.execute(query.execution_options(yield_per=8)):
            if first_ns > stamp_ns:
                break
            messages = frozenset(zip(*unpack_consumed(data, first_ns), strict=True))
            found.append(ConsumedBlock(first_ns, last_ns, messages))
        return found

    def assignment_span(self) -> tuple[int, int | None]:
        """Return the size of all assignments, bytes, and the stamp of the oldest."""
        table = ledger_assignment.c
        oldest = select(table.last_ns).order_by(table.block_id).limit(1)
        used = select(func.coalesce(func.sum(table.size), 0))
        return int(self._connection.scalar(used) or 0), self._connection.scalar(oldest)

    def prune(self, before_ns: int, excess_bytes: int) -> int:
        """Delete the oldest assignments; return the freed bytes.

        Which messages were consumed stays known.

        Parameters
        ----------
        before_ns : int
            Delete blocks whose last stamp lies before this, nanoseconds.
        excess_bytes : int
            Delete at least that many bytes, oldest first.
        """
        table = ledger_assignment.c
        query = select(table.block_id, table.last_ns, table.size).order_by(table.block_id)
        old, freed = [], 0
        for block_id, last_ns, size in self._connection.execute(query.execution_options(yield_per=100)):
            if last_ns >= before_ns and freed >= excess_bytes:
                break
            old.append(block_id)
            freed += size
        if old:
            self._connection.execute(delete(ledger_assignment).where(table.block_id <= old[-1]))
        return freed

    def observations(self) -> Iterator[ObservationRecord]:
        """Yield every observation whose assignment is kept, by stamp, input and index.

        Memory is bounded: blocks are read one after the other. The landmarks are those of now: an
        observation follows the sighting that it is in, or the nearest one in time that is kept, through
        merges, splits and corrections; what was given to a landmark that is gone was given to none.
        """
        inputs = self._connection.execute(select(ledger_input.c.input_id, ledger_input.c.name)).all()
        owners = Owners(self._connection)
        streams = [_stream(self._connection, input_id, name, owners) for input_id, name in inputs]
        yield from merge(*streams, key=lambda record: (record.stamp_ns, record.input))
