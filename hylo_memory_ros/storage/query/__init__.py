"""SQL of queries: specification, filters, links, selection, and the cache of statements.

A filter is one class in `filters`; `tiered_reader` answers from the main file and the archive together.
"""
