"""ExistenceMonitor."""
