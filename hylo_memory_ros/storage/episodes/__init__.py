"""Episodes in the tables: begin, end, and the facts that an end remembers.

Used through the repositories of a unit of work.
"""
