"""Cold storage: a second database file for what has ended, still answered, brought back when needed.

What is cold is decided by the main file alone: per identity, everything that speaks from before its row
in `cooled`, and of what repeats a fact up to the newest repetition there all that the main file lacks.
Whatever else the cold file holds was left over by a move that was interrupted, and counts for nothing.

Reading order: `schema`, `mark` (what the main file knows of the cold one), `file`, `repeats` and `choosing`
(what may be moved), `moving` (there), `returning` (back), `reading` (one answer from both files), `reaching`
(what needs both), `custody` (copies, restores, purges), `storage` (the whole), `cooling` (what a store
offers of it).
"""

from __future__ import annotations
