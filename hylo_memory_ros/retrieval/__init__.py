"""Answers: from a question to ranked hits that explain themselves."""

from __future__ import annotations

from hylo_memory_ros.retrieval.cursor import MAX_SEQUENCE, Cursor
from hylo_memory_ros.retrieval.question import Question
from hylo_memory_ros.retrieval.retriever import Retriever

__all__ = ['MAX_SEQUENCE', 'Cursor', 'Question', 'Retriever']
