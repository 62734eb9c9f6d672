"""Landmarks of a map: estimates, keyframes, sightings and their persistence."""
