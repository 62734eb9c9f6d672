"""Recorded bags: topics, messages as bytes in the order of their recording, and their time as a clock."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from hylo_memory_ros.errors import DamagedFileError, NotFoundError, StoreError, UnsupportedError

if TYPE_CHECKING:
    from rosbags.rosbag2 import Reader


class RecordedMessage(NamedTuple):
    """One message of a bag."""

    topic: str
    """Full name of the topic."""
    stamp_ns: int
    """When it was recorded, nanoseconds."""
    data: bytes
    """The message as CDR, with its encapsulation."""


class Bag:
    """One or more bags (sqlite3 or MCAP, folders or single files), read as one; use with `with`.

    Parameters
    ----------
    paths : sequence of Path
        The bags. Their messages are merged by the time of recording.

    Raises
    ------
    NotFoundError
        A path does not exist.
    DamagedFileError
        A file is no bag, is truncated, or holds no message.
    UnsupportedError
        rosbags is not installed, or a bag is of a kind that it does not read.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._stack = ExitStack()
        self._readers: list[tuple[Path, Reader]] = []

    def __enter__(self) -> Bag:
        """Open all of them."""
        with self._stack:
            for path in self._paths:
                self._readers.append((path, self._open(path)))
            if not any(reader.message_count for _, reader in self._readers):
                names = ', '.join(map(str, self._paths))
                raise DamagedFileError(f'{names}: the bag holds no message', path=names)
            # Only now `__exit__` closes the readers: an error above has closed those that were open.
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close them."""
        self._stack.close()

    def _open(self, path: Path) -> Reader:
        try:
            from rosbags.rosbag2 import Reader  # noqa: PLC0415 - only a replay needs it
        except ImportError:
            raise UnsupportedError(
                "reading a bag needs rosbags: pip install 'hylo-memory-ros[replay]'"
            ) from None
        _refuse_other_files(path)
        try:
            return self._stack.enter_context(Reader(path))
        except PermissionError as exc:
            raise StoreError(f'{path}: the bag may not be read: {exc}', path=str(path)) from exc
        # rosbags lets errors of sqlite3, YAML, struct and zstd through, all of damaged files.
        except Exception as exc:
            raise _damage_error(path, exc) from exc

    @property
    def topics(self) -> dict[str, str]:
        """Type of each topic that has messages, by its full name, sorted; of several types all are named."""
        found: dict[str, set[str]] = {}
        for _, reader in self._readers:
            for connection in reader.connections:
                if connection.msgcount:
                    found.setdefault(connection.topic, set()).add(connection.msgtype)
        return {topic: ', '.join(sorted(found[topic])) for topic in sorted(found)}

    @property
    def span_ns(self) -> tuple[int, int]:
        """When the first and the last message were recorded, nanoseconds."""
        held = [reader for _, reader in self._readers if reader.message_count]
        # The end of a reader is exclusive.
        return min(reader.start_time for reader in held), max(reader.end_time for reader in held) - 1

    def messages(self, topics: Collection[str]) -> Iterator[RecordedMessage]:
        """Yield the messages of some topics in the order of their recording.

        Raises
        ------
        DamagedFileError
            A bag ends early, or is damaged further on.
        """
        streams = [self._stream(path, reader, topics) for path, reader in self._readers]
        if len(streams) == 1:
            return streams[0]
        # Stable: at equal stamps the bags come in the order given.
        return heapq.merge(*streams, key=lambda message: message.stamp_ns)

    @staticmethod
    def _stream(path: Path, reader: Reader, topics: Collection[str]) -> Iterator[RecordedMessage]:
        wanted = [connection for connection in reader.connections if connection.topic in topics]
        if not wanted:
            return
        try:
            for connection, stamp_ns, data in reader.messages(connections=wanted):
                yield RecordedMessage(connection.topic, stamp_ns, data)
        except Exception as exc:
            raise _damage_error(path, exc) from exc


def _refuse_other_files(path: Path) -> None:
    if not path.exists():
        raise NotFoundError(f'{path}: there is no such bag', path=str(path))
    if path.suffix == '.bag':
        raise UnsupportedError(
            f'{path}: a bag of ROS 1; convert it: rosbags-convert --src {path} --dst {path.with_suffix("")}',
            path=str(path),
        )
    # A folder that was cut off or copied in part is common, and its file can be named instead.
    if path.is_dir() and not (path / 'metadata.yaml').exists():
        inside = sorted(file.name for file in path.iterdir() if file.suffix in {'.mcap', '.db3'})
        hint = f'; name its file instead: {path / inside[0]}' if inside else ''
        raise DamagedFileError(f'{path}: expected a bag, found no metadata.yaml{hint}', path=str(path))


def _damage_error(path: Path, exc: Exception) -> DamagedFileError:
    reason = ' '.join(str(exc).split()) or type(exc).__name__
    return DamagedFileError(
        f'{path}: the bag cannot be read, it is damaged or was cut off: {reason} ("mcap recover" and '
        '"ros2 bag reindex" mend many that were)',
        path=str(path),
    )


class BagClock:
    """Clock at the newest message that was read; a second loop sets it back.

    Parameters
    ----------
    start_ns : int
        Begin, nanoseconds.
    """

    def __init__(self, start_ns: int) -> None:
        self.now_ns = start_ns
        """The time, nanoseconds."""

    def __call__(self) -> int:
        """Return the time."""
        return self.now_ns
