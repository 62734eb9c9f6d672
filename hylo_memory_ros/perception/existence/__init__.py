"""Existence."""
