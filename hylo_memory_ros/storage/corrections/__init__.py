"""Corrections of maps and their reversals."""
