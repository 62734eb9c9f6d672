"""Read views and units of work: one connection, and a repository for each concept over it.

Nothing above `storage` sees a connection: it asks the store for a view (`SqliteStore.read`) or for a
unit of work (`begin`, `begin_unnumbered`), and calls the repositories that this has as attributes.
"""

from __future__ import annotations

from functools import cached_property

import sqlalchemy as sa

from hylo_memory_ros.storage.changeset import Changeset, CommitResult
from hylo_memory_ros.storage.consolidation.candidates import SizeRepository
from hylo_memory_ros.storage.consolidation.repository import ConsolidationRepository
from hylo_memory_ros.storage.consolidation.summaries import ConsolidationWriter
from hylo_memory_ros.storage.corrections import CorrectionRepository, CorrectionWriter
from hylo_memory_ros.storage.engine.state import MapRepository, StateTable
from hylo_memory_ros.storage.episodes import EpisodeRepository, EpisodeWriter
from hylo_memory_ros.storage.feedback import FeedbackRepository
from hylo_memory_ros.storage.landmarks import (
    AssociationReceiptRepository,
    LandmarkRepository,
    SightingRepository,
)
from hylo_memory_ros.storage.observation_ledger import LedgerRepository
from hylo_memory_ros.storage.receipts import ReceiptRepository
from hylo_memory_ros.storage.skill_repository import SkillRepository
from hylo_memory_ros.storage.statements.embeddings import EmbeddingRepository
from hylo_memory_ros.storage.statements.writer import StatementRepository, StatementWriter


class ReadView:
    """Repositories over one consistent state of the memory; valid within the block that opened it.

    Parameters
    ----------
    connection : sqlalchemy.Connection
        In its transaction.
    """

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    @cached_property
    def statements(self) -> StatementRepository:
        """Statements and the transactions that brought them."""
        return StatementRepository(self._connection)

    @cached_property
    def embeddings(self) -> EmbeddingRepository:
        """Vectors and declared spaces."""
        return EmbeddingRepository(self._connection)

    @cached_property
    def episodes(self) -> EpisodeRepository:
        """Stretches of work with an outcome."""
        return EpisodeRepository(self._connection)

    @cached_property
    def feedback(self) -> FeedbackRepository:
        """Verdicts and helpfulness scores."""
        return FeedbackRepository(self._connection)

    @cached_property
    def receipts(self) -> ReceiptRepository:
        """Receipts of retrievals and registered identities."""
        return ReceiptRepository(self._connection)

    @cached_property
    def skills(self) -> SkillRepository:
        """Skills and their transitions."""
        return SkillRepository(self._connection)

    @cached_property
    def consolidations(self) -> ConsolidationRepository:
        """Records of consolidations, and the lineage of summaries."""
        return ConsolidationRepository(self._connection)

    @cached_property
    def corrections(self) -> CorrectionRepository:
        """Records of map corrections."""
        return CorrectionRepository(self._connection)

    @cached_property
    def landmarks(self) -> LandmarkRepository:
        """Landmark state between two runs."""
        return LandmarkRepository(self._connection)

    @cached_property
    def sightings(self) -> SightingRepository:
        """Keyframes and sightings."""
        return SightingRepository(self._connection)

    @cached_property
    def ledger(self) -> LedgerRepository:
        """Consumed messages and assignments of detections."""
        return LedgerRepository(self._connection)

    @cached_property
    def association_receipts(self) -> AssociationReceiptRepository:
        """Receipts of data association."""
        return AssociationReceiptRepository(self._connection)

    @cached_property
    def sizes(self) -> SizeRepository:
        """Counts and sizes by kind."""
        return SizeRepository(self._connection)

    @cached_property
    def maps(self) -> MapRepository:
        """Known maps."""
        return MapRepository(self._connection)

    @cached_property
    def state(self) -> StateTable:
        """Named values."""
        return StateTable(self._connection)


class UnnumberedUnitOfWork(ReadView):
    """A transaction over statistics, ledger and records: it takes no sequence and is in no feed."""


class UnitOfWork(ReadView):
    """A numbered transaction; repositories that write versions share its changeset.

    Attributes
    ----------
    result : CommitResult or None
        What was committed; None inside the block, and after a discarded or dry run.
    """

    result: CommitResult | None = None

    def __init__(self, changeset: Changeset) -> None:
        super().__init__(changeset.connection)
        self.changeset = changeset

    @property
    def sequence(self) -> int:
        """Number of the transaction."""
        return self.changeset.sequence

    @property
    def recorded_at_ns(self) -> int:
        """Service time of the transaction, nanoseconds."""
        return self.changeset.recorded_at_ns

    @property
    def discarded(self) -> bool:
        """True if everything is rolled back at the end of the block."""
        return self.changeset.discarded

    def discard(self) -> None:
        """Roll everything back at the end of the block, without an error."""
        self.changeset.discarded = True

    @cached_property
    def statements(self) -> StatementWriter:
        """Statements and their timelines."""
        return StatementWriter(self.changeset)

    @cached_property
    def episodes(self) -> EpisodeWriter:
        """Stretches of work with an outcome."""
        return EpisodeWriter(self.changeset)

    @cached_property
    def consolidations(self) -> ConsolidationWriter:
        """Records of consolidations, and the lineage of summaries."""
        return ConsolidationWriter(self.changeset)

    @cached_property
    def corrections(self) -> CorrectionWriter:
        """Corrections of maps."""
        return CorrectionWriter(self.changeset)
