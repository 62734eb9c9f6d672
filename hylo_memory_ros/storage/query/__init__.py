"""SQL of queries: specification, filters (one class each), links, and selection with its cache."""
