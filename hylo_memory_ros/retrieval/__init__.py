"""Answers: from a question to ranked hits that explain themselves."""

from __future__ import annotations

from hylo_memory_ros.retrieval.engine import Retriever
from hylo_memory_ros.retrieval.pagination import MAX_SEQUENCE, Cursor
from hylo_memory_ros.retrieval.resolved_query import Question

__all__ = ['MAX_SEQUENCE', 'Cursor', 'Question', 'Retriever']
