"""A consolidation run, slice by slice, beside queries and writes.

The plan is made by `domain.consolidation`, the rows are changed by `storage`; `handlers.consolidate` is the
way in.
"""
