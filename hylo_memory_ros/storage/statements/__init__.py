"""Statements in the tables: items as rows, timelines, repetitions, removal and history.

`writer` adds, `removal` ends and withdraws, `timeline_repository` writes the versions that follow by
`domain.timeline`.
"""
