"""Landmarks."""
