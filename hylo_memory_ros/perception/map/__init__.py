"""Landmarks of a map: estimates, keyframes, sightings and their persistence.

`landmark_map` holds them as columns; `persistence` collects what is stored through `storage.landmarks` at a
commit.
"""
