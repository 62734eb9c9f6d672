"""Metadata of the main file, in which every table is declared."""

from __future__ import annotations

from sqlalchemy import MetaData

__all__ = ['metadata']

metadata = MetaData()
