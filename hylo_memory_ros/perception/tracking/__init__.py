"""Tracking: data association, fusion and merging of landmarks.

`data_association` uses `gating` and `update`; `fusion` and `merging` work on sightings and on pairs of
landmarks. Computes on columns of `map`, and stores nothing.
"""
