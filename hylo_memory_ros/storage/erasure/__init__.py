"""Erasure for good: rows, records that name them, and their remains in files.

`eraser` is the whole, used by the store; `erase` deletes rows, and `references` finds names of them
elsewhere. The rule of each table is declared beside it in `schema`.
"""
