"""The base of every model: frozen, strict about unknown fields."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict
from typing_extensions import Self

__all__ = ['NOT_A_PARAMETER', 'Contract']

NOT_A_PARAMETER = 'not a ROS parameter'
"""Metadata of a field that the library takes and the node does not declare: no robot needs to tune it."""


class Contract(BaseModel):
    """A frozen, validated record; an unknown field is refused."""

    model_config = ConfigDict(frozen=True, extra='forbid', use_attribute_docstrings=True, allow_inf_nan=False)

    @classmethod
    def trusted(cls, fields: dict[str, Any]) -> Self:
        """Return a record of fields that were validated before; every field must be given.

        What `model_construct` does, less the search for defaults and aliases, which took
        most of the time of a query that returns whole items.
        """
        record = cls.__new__(cls)
        place = object.__setattr__
        place(record, '__dict__', fields)
        place(record, '__pydantic_fields_set__', set(fields))
        place(record, '__pydantic_extra__', None)
        place(record, '__pydantic_private__', None)
        return record
