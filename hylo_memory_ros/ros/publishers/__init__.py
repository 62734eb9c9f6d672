"""Publishers of the node: `/diagnostics`, `~/events`, `~/markers` and `~/status`, one module a topic.

They read from memory and perception, and change neither.
"""
