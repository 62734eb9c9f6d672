"""Measurements: ratios within one run, both sides interleaved; nothing here gates a test."""
