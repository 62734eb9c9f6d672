"""Exceptions of the package, one tree.

Everything that a caller can meet is a subclass of `HyloMemoryError`, or pydantic's
`ValidationError` while a model is being built. Only the ROS servers translate it to an
``error_code``.

::

    HyloMemoryError
    +-- InvalidRequestError        the request breaks a rule; sending it again cannot help
    |   +-- UnsupportedError       a sound request for something this memory does not do
    |   +-- NotFoundError          a named thing (id, identity, map) does not exist
    |   +-- ConfigurationError     a parameter or option is wrong
    |   +-- SkillGateError         a skill lacks what its new status needs
    +-- FrameError                 a pose cannot be brought into the stored frame
    |   +-- UnknownFrameError
    |   +-- DisconnectedFrameError
    |   +-- TransformTooOldError   the past never arrives: refused at once
    |   +-- TransformTooNewError   may be retried
    +-- ClockError                 time is not usable: not started, too far back, too far ahead
    +-- EpochChangedError          a cursor or feed position belongs to another history
    +-- StoreError
    |   +-- StoreFullError
    |   +-- IdConflictError
    |   +-- ReadOnlyError
    |   +-- DamagedFileError       also: foreign, 0-byte, half a file
    |   +-- NewerSchemaError
    |   +-- FileInUseError
    |   +-- StoreBusyError         may be retried
    +-- NotNowError                may be retried
        +-- NotActiveError
        +-- LoadingError
        +-- NotLocalizedError
"""

from __future__ import annotations

from typing import Any

__all__ = [
    'ClockError',
    'ConfigurationError',
    'DamagedFileError',
    'DisconnectedFrameError',
    'EpochChangedError',
    'FileInUseError',
    'FrameError',
    'HyloMemoryError',
    'IdConflictError',
    'InvalidRequestError',
    'LoadingError',
    'NewerSchemaError',
    'NotActiveError',
    'NotFoundError',
    'NotLocalizedError',
    'NotNowError',
    'ReadOnlyError',
    'SkillGateError',
    'StoreBusyError',
    'StoreError',
    'StoreFullError',
    'TransformTooNewError',
    'TransformTooOldError',
    'UnknownFrameError',
    'UnsupportedError',
]


class HyloMemoryError(Exception):
    """Root of every refusal of this package.

    Parameters
    ----------
    message : str
        One sentence that names the field, the value and the rule.
    **details : Any
        The offending values by name, for programs (`HyloMemoryError.details`).
    """

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, Any] = details


class InvalidRequestError(HyloMemoryError):
    """The request breaks a rule; nothing was stored."""


class UnsupportedError(InvalidRequestError):
    """The request is sound, but asks for something this memory does not do."""


class NotFoundError(InvalidRequestError):
    """A named thing (id, identity, map, file) does not exist."""


class ConfigurationError(InvalidRequestError):
    """A parameter is wrong; the message names it, its value and the expected type."""


class SkillGateError(InvalidRequestError):
    """A skill may not have the status that it asks for, or lacks the evidence for it; nothing was stored."""


class FrameError(HyloMemoryError):
    """A pose cannot be brought from its frame into the one it is needed in."""


class UnknownFrameError(FrameError):
    """No transform has ever named this frame."""


class DisconnectedFrameError(FrameError):
    """Both frames are known, but no chain of transforms joins them."""


class TransformTooOldError(FrameError):
    """The stamp lies before the oldest transform that is kept; waiting is useless."""


class TransformTooNewError(FrameError):
    """The stamp lies after the newest transform, and the time to wait for it is over."""


class ClockError(HyloMemoryError):
    """A stamp or a clock is not usable: not started, before the first valid stamp, far ahead."""


class EpochChangedError(HyloMemoryError):
    """A cursor or a position in the feed belongs to another history of this file."""


class StoreError(HyloMemoryError):
    """The store cannot do what was asked."""


class StoreFullError(StoreError):
    """The disk, or a configured limit, is full; nothing of the call was stored."""


class IdConflictError(StoreError):
    """A given id already names a statement with other content or another ``valid_from``."""


class ReadOnlyError(StoreError):
    """The file or its directory cannot be written."""


class DamagedFileError(StoreError):
    """The file is not a sound memory of this package; it is left untouched."""


class NewerSchemaError(StoreError):
    """The file was written by a newer version of this package; it is left untouched."""


class FileInUseError(StoreError):
    """Another process writes this file; the message names its host and pid."""


class StoreBusyError(StoreError):
    """The write lock was not free in time; the call may be repeated."""


class NotNowError(HyloMemoryError):
    """The same request may succeed later."""


class NotActiveError(NotNowError):
    """The node is not active."""


class LoadingError(NotNowError):
    """The spatial index is still being loaded."""


class NotLocalizedError(NotNowError):
    """The robot does not know well enough where it is."""
