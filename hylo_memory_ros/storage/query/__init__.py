"""SQL of queries: specification, filters, links, and selection with its cache of statements.

A filter is one class in `filters`; `tiered_reader` answers from the main file and the archive together.
"""
