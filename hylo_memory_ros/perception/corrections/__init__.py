"""Corrections of a map and their consequences for landmarks."""
