"""Ingestion of observations: decoding, validation, order and sensor poses."""
