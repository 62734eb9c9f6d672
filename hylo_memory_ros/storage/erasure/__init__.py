"""Erasure for good: rows, records that name them, and their remains in files.

`eraser` is the whole, used by the store; `copies` lists those that a purge does not reach. The rule of each
table is declared beside it in `schema`.
"""
