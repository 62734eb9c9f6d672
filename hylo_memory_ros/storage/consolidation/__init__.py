"""Consolidation in the tables: candidates and their amount, summaries with their lineage, and reversal.

Used through the repositories of a unit of work; `domain.consolidation` plans what becomes one.
"""
