"""Skills in the tables and in their directory: the gate of each write, transitions, and files.

The rules of the gate are in `domain.skills`.
"""
