"""What a store offers of cold storage: each call is one slice, as short as its caller wants it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from hylo_memory_ros.store.cold.choosing import Coolable
from hylo_memory_ros.store.cold.moving import Cooled
from hylo_memory_ros.store.cold.storage import ColdHeld
from hylo_memory_ros.store.transacting import TransactingStore

__all__ = ['CoolingStore']


class CoolingStore(TransactingStore):
    """The cold half of a store; a move changes no answer and no hash, and takes no sequence."""

    def coolable(
        self,
        kinds: Collection[str] | None = None,
        scope: Mapping[str, str] | None = None,
        ended_before_ns: int | None = None,
        limit: int = 1000,
        *,
        after: int = 0,
    ) -> list[Coolable]:
        """Return identities of which something has ended and may become cold, in order of their number.

        Parameters
        ----------
        kinds, scope : optional
            Only these kinds, and identities of which everything was said in this scope.
        ended_before_ns : int, optional
            Only what had ended at this world time, nanoseconds, or is not believed; none: now.
        limit : int
            Most identities.
        after : int
            Only identities with a greater number: the last one of the call before.
        """
        return self._cold.choose(self._ended(ended_before_ns), limit, kinds=kinds, scope=scope, after=after)

    def leaving(self, identity_ids: Sequence[int]) -> dict[int, list[str]]:
        """Return the ids of what has ended of identities and may become cold, by identity."""
        return self._cold.leaving(identity_ids, self._ended(None))

    def cool(
        self, identity_ids: Sequence[int], *, ended_before_ns: int | None = None, limit: int = 128
    ) -> Cooled:
        """Move what has ended of identities to cold storage, as much of it as one slice takes.

        Parameters
        ----------
        identity_ids : sequence of int
            In this order; those of which nothing may be moved, or not any more, are passed over.
        ended_before_ns : int, optional
            As in `coolable`.
        limit : int
            Most statements; 128 hold the write lock for less than 5 ms on a small computer.

        Returns
        -------
        Cooled
            What was moved; nothing when there is nothing left, or somebody wrote to it meanwhile.

        Raises
        ------
        UnsupportedError
            The memory has no file.
        StoreError
            The cold file is refused, or cannot be written; nothing has changed.
        """
        return self._cold.cool(identity_ids, self._ended(ended_before_ns), limit)

    def warm(self, identity_ids: Sequence[int], *, limit: int = 128) -> Cooled:
        """Bring what is cold of identities back into the main file, as much of it as one slice takes.

        Parameters
        ----------
        limit : int
            Most statements, but at least one identity comes back, and always as a whole.
        """
        return self._cold.warm(identity_ids, limit)

    def cold_held(self) -> ColdHeld | None:
        """Return what the cold file holds; None: there never was anything in it."""
        return self._cold.held()

    def _ended(self, ended_before_ns: int | None) -> int:
        now_ns = self.now_ns()
        return now_ns if ended_before_ns is None else min(ended_before_ns, now_ns)
