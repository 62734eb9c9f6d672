"""Archive of ended statements in a second database file.

Reading order: `state` (the archive as the main file knows it), `archive_file`, `mover`
(selection, and the way there), `restorer` (back), `archive` (the whole). One answer from both files is
read by `reader`.
"""
