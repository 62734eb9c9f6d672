"""Archive of ended statements in a second database file."""
