"""The base of the six identities: frozen records, strict about every field, with canonical bytes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from hylo_memory_ros.domain.identity.digest import LayerDigest
from hylo_memory_ros.model._contract import Contract
from hylo_memory_ros.model._text import Text

__all__ = ['Count', 'Identity', 'Named', 'Number']

Named = Annotated[Text, StringConstraints(min_length=1, max_length=1024, strict=True)]
"""A name or version that must be told."""

Count = Annotated[int, Field(ge=1, le=2**53, strict=True)]
"""A number of things, at least one."""

Number = Annotated[int, Field(ge=0, lt=2**63, strict=True)]
"""A sequence, a seed, a position or a stamp."""


class Identity(Contract):
    """Base of the identities: two things are the same when their digests are equal.

    Each of the six layers is a subclass with a digest of its own class, made of exactly the inputs
    that decide; an unknown or missing input is refused by name.
    """

    @property
    @abstractmethod
    def digest(self) -> LayerDigest:
        """The digest over every field."""

    @property
    def fields(self) -> dict[str, Any]:
        """The fields as plain JSON values."""
        return self.model_dump(mode='json')
