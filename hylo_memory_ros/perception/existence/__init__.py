"""Existence of landmarks: evidence of presence and absence, visibility, and reports of absence.

`existence_monitor` judges all landmarks after each message by `existence_filter` and `visibility`;
`absence_reports` takes what a caller looked for and did not find.
"""
