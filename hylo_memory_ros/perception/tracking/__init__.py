"""Tracking: data association, fusion and merging of landmarks."""
