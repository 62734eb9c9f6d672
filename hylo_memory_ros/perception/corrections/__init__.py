"""Corrections of a map and their consequences for landmarks.

`trajectory` is the motion, `relocate` rebuilds landmarks from their sightings, and `revert` restores them.
Imported by the pipeline above; uses `map` and `tracking`.
"""
