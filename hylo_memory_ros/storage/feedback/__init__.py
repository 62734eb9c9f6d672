"""Verdicts on answers, and the helpfulness that is counted of them beside items.

`repository` is used through a unit of work; `scores` keeps the counts.
"""
