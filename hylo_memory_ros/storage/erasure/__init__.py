"""Erasure for good: rows, records that name them, and their remains in files."""
