"""The base of every model: frozen, strict about unknown fields."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ['Contract']


class Contract(BaseModel):
    """A frozen, validated record; an unknown field is refused."""

    model_config = ConfigDict(frozen=True, extra='forbid', use_attribute_docstrings=True, allow_inf_nan=False)
