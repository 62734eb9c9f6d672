"""SQLite files: connections, transactions, the lock of a file, and named values of its state.

Knows the schema and its migrations, and nothing of statements or queries.
"""
